"""How is a run made again? By a command that can be pasted: every option that was chosen, quoted for a shell."""

import shlex
from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

AGAIN = "runs/again"
"""Where the pasted command writes: not into the run it repeats, and no path of the machine that made it."""


def command(*words: str, options: Mapping[str, Any] | None = None, out: str = AGAIN) -> str:
    """`cotlens` with `words`, then `options` by name, then --out.

    An option of None was not given; True and False are flags (--paper-mode, --no-paper-mode); a sequence is given as
    several words.
    """
    parts = ["cotlens", *words]
    for name, value in (options or {}).items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            parts.append(f"--{flag}" if value else f"--no-{flag}")
        elif value is not None:
            parts += [f"--{flag}", *(map(str, value) if isinstance(value, list | tuple) else [str(value)])]
    return shlex.join([*parts, "--out", out])


def chosen(options: Any, leaving_out: Collection[str] = ()) -> dict[str, Any]:
    """The options, fields of a dataclass, that differ from their defaults."""
    named = {field.name: field.default for field in fields(options) if field.name not in leaving_out}
    return {name: getattr(options, name) for name, default in named.items() if getattr(options, name) != default}
