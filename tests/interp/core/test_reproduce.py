"""Commands that make a run again: pasted into a shell they give the same options."""

import shlex
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import tyro

from interp.core.reproduce import AGAIN, chosen, command


@dataclass(frozen=True)
class Options:
    out: Path
    model: str = "builtin"
    limit: int | None = None
    conditions: tuple[str, ...] = ("cot", "no_cot")
    paper_mode: bool = False
    share: bool = True
    resume: bool = False


GIVEN = Options(Path("/home/somebody/x"))


@pytest.mark.parametrize(
    "options",
    [
        GIVEN,
        replace(GIVEN, model="a b; rm -rf 'x' $HOME", limit=3),
        replace(GIVEN, conditions=("cot", "two words"), paper_mode=True, share=False),
    ],
)
def test_a_pasted_command_has_the_options_of_the_run(options):
    text = command("entropy", options=chosen(options, leaving_out=("out", "resume")))
    program, name, *words = shlex.split(text)
    assert (program, name) == ("cotlens", "entropy")
    assert tyro.cli(Options, args=words) == replace(options, out=Path(AGAIN))


def test_a_command_names_no_place_of_this_machine():
    assert (
        command("entropy", options=chosen(GIVEN, leaving_out=("out", "resume"))) == f"cotlens entropy --out {AGAIN}"
    )
    assert command("claims", "run", "wen2024/fig2", options={"preset": "cpu", "seeds": None}) == (
        f"cotlens claims run wen2024/fig2 --preset cpu --out {AGAIN}"
    )
