"""How is one run of `cotlens trace` read on its own? `trace.html`: the report's section on traces alone."""

from pathlib import Path

from markupsafe import Markup

from interp.report.pack import script_json
from interp.report.page import policy, wrapped
from interp.report.sources import Run, measured_again, read_runs
from interp.report.templates import asset, rendered
from interp.report.traces import trace_data
from probes.base.atomic import write_text

PAGE = "trace.html"
SCRIPTS = ("page.js", "plots.js", "trace_parts.js", "traces.js", "trace_start.js")
"""As in the report, but for the last: there are no claims and no plots that need Plotly."""


def write_trace_page(directory: Path) -> Path:
    """Writes the page of the run in `directory` beside its rows; returns where it is."""
    write_text(directory / PAGE, trace_page(directory))
    return directory / PAGE


def trace_page(directory: Path) -> str:
    """The page of one run of `cotlens trace`, from rows, texts and summary; the same files give the same text."""
    (run,) = read_runs([directory])
    data = trace_data([run])
    if not data or not data[0]["traces"]:
        raise ValueError(f"{directory} holds no traces; expected the directory of a run of cotlens trace")
    script = wrapped(SCRIPTS)
    return rendered(
        "trace_page.html",
        policy=policy(script),
        css=Markup(asset("page.css") + asset("traces.css")),
        dark=Markup(asset("dark.css")),
        title=f"CoTLens trace: {run.name}",
        summary=_summary(run),
        again=measured_again(run.config),
        data=Markup(script_json({"traces": data})),
        script=Markup(script),
    )


def _summary(run: Run) -> str:
    n = run.table["unit"].nunique()
    return (
        f"{run.name}: {n} trace{'s' * (n != 1)}. This describes this model on these traces, and is no verdict on a "
        "paper; a model that reads worked solutions is not a model that reasons."
    )
