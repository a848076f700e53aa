"""What does each command take, what is a row, where are the hooks, which names are there? From the code itself."""

import contextlib
import importlib
import io
import os
import re
from collections.abc import Iterator, Mapping
from inspect import isclass, isfunction
from unittest import mock

from interp.cli import COMMANDS, USAGE, main
from interp.commands import claims
from interp.report.ledger_card import COLUMNS as MEANINGS
from probes.base.lazy import EXPORTS

PACKAGES = ("probes", "toy_models", "hf_analysis", "interp")
WIDTH = "100"
COMMAND_LINE = (
    "What `cotlens COMMAND --help` prints. Exit status: 0 done, whatever the verdicts; 2 bad input, told in one "
    "line; 130 interrupted. `COTLENS_TRACEBACK=1` shows a traceback instead of the line."
)
ROWS = (
    "Every number of CoTLens is one row of `rows.parquet`; statistics, verdicts, figures and reports read nothing "
    "else. [How to read them](../how/read-rows.md)."
)
HOOKS = (
    "Every model, theory models included, has `run_with_cache` and `run_with_hooks`, a `cfg`, and TransformerLens' "
    "names. The shapes are those of two sequences at the task's default sizes, found by running the untrained model "
    "while this page was built. Further blocks have the same points as `blocks.0`."
)


MADE_FROM = {
    "reference/rows.md": "probes/rows.py",
    "reference/cli.md": "interp/cli.py",
    "reference/cli-train.md": "interp/commands/train.py",
    "reference/hooks.md": "probes/hooked/points.py",
    **{
        f"reference/api/{package}.md": f"{package.replace('.', '/')}/__init__.py"
        for package in (*PACKAGES, "interp.statistics")
    },
}
"""By page, the module that a link to it leads to where there are no made pages: in the repository."""


def reference_pages() -> dict[str, str]:
    """By path within the site."""
    api = {f"reference/api/{package}.md": api_page(package) for package in (*PACKAGES, "interp.statistics")}
    return {
        "reference/cli.md": cli_page(),
        "reference/cli-train.md": train_page(),
        "reference/rows.md": rows_page(),
        "reference/hooks.md": hooks_page(),
        **api,
    }


def navigation() -> list:
    """The section *API*."""
    return [{name: f"reference/api/{name}.md"} for name in (*PACKAGES, "interp.statistics")]


def help_of(*arguments: str) -> str:
    """What `cotlens ... --help` prints on a terminal of 100 columns."""
    out = io.StringIO()
    terminal = mock.patch.dict(os.environ, {"COLUMNS": WIDTH, "NO_COLOR": "1"})
    with terminal, contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        main([*arguments, "--help"])
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def cli_page() -> str:
    """Every command with its options."""
    lines = ["# Command line", "", COMMAND_LINE, "", *_fenced(USAGE)]
    for name, summary in COMMANDS.items():
        lines += [f"## cotlens {name}", "", f"{summary[0].upper()}{summary[1:]}.", "", *_fenced(help_of(name))]
        if name == "claims":
            for part in re.findall(r"(?m)^(?:usage:|      ) cotlens claims (\w+)", claims.USAGE):
                lines += [f"### cotlens claims {part}", "", *_fenced(help_of("claims", part))]
    return "\n".join(lines)


def train_page() -> str:
    """The options of every task and model."""
    from toy_models.engine.recipe import load_recipes

    lines = ["# Training options", "", "One section for each task and model of `cotlens train`.", ""]
    for task, recipes in sorted(load_recipes().items()):
        for recipe in recipes.values():
            lines += [f"## {task}, {recipe.model}", "", f"{recipe.summary[0].upper()}{recipe.summary[1:]}.", ""]
            lines += _fenced(help_of("train", task, "--model", recipe.model))
    return "\n".join(lines)


def rows_page() -> str:
    """The columns of the one table, with dtypes and defaults."""
    from probes.rows import COLUMNS

    lines = ["# Columns of the table", "", ROWS, ""]
    lines += ["| column | dtype | where it does not apply | meaning |", "|---|---|---|---|"]
    for name, (dtype, default) in COLUMNS.items():
        missing = "always given" if default is None else f"`{default!r}`"
        lines.append(f"| `{name}` | {dtype} | {missing} | {MEANINGS[name]} |")
    return "\n".join([*lines, ""])


def hooks_page() -> str:
    """The hook points of every toy model, found by running it."""
    lines = ["# Hooks of the toy models", "", HOOKS, ""]
    by_names: dict[tuple[str, ...], list[tuple[str, str, Mapping[str, tuple[int, ...]]]]] = {}
    for task, model, summary, shapes in _hook_shapes():
        by_names.setdefault(tuple(shapes), []).append((f"{task}, {model}", summary, shapes))
    for same in by_names.values():
        heads = [f"`{name}`" for name, _, _ in same]
        lines += [f"## {' · '.join(heads)}", ""]
        lines += [f"- {head}: {summary}." for head, (_, summary, _) in zip(heads, same)] + [""]
        lines += [f"| hook point | shape ({same[0][0]}) |", "|---|---|"]
        lines += [f"| `{name}` | {' × '.join(map(str, shape))} |" for name, shape in same[0][2].items()]
        lines.append("")
    return "\n".join(lines)


def _hook_shapes() -> Iterator[tuple[str, str, str, dict[str, tuple[int, ...]]]]:
    import torch

    from toy_models.engine.recipe import load_recipes
    from toy_models.task import task_class

    for name, recipes in sorted(load_recipes().items()):
        task = task_class(name)()
        batch = task.sample(2, torch.Generator().manual_seed(0))
        for recipe in recipes.values():
            _, cache = recipe.fresh(task, recipe.options(), 0).run_with_cache(batch.inputs)
            first = {point: tuple(value.shape) for point, value in cache.items() if _in_first_block(point)}
            yield name, recipe.model, recipe.summary, first


def _in_first_block(point: str) -> bool:
    return not point.startswith("blocks.") or point.startswith("blocks.0.")


def api_page(package: str) -> str:
    """A package's own words, and every name that it exports, from docstrings."""
    module = importlib.import_module(package)
    exported = EXPORTS.get(package) or {name: (package, name) for name in module.__all__}
    lines = [f"# {package}", "", *_fenced(module.__doc__ or "")]
    for name, (place, original) in sorted(exported.items(), key=lambda item: item[0].lower()):
        renamed = f"    options:\n      heading: {name}\n      toc_label: {name}\n" if name != original else ""
        lines += [f"::: {_defined(place, original)}", renamed]
    return "\n".join(lines)


def _defined(place: str, name: str) -> str:
    """Where a name is defined, which may be below the module that exports it."""
    value = getattr(importlib.import_module(place), name)
    return f"{value.__module__}.{name}" if isclass(value) or isfunction(value) else f"{place}.{name}"


def _fenced(text: str) -> list[str]:
    return ["```text", text.strip("\n"), "```", ""]
