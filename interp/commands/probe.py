"""cotlens probe RUN_DIR: attention, linear and causal probes of a finished training run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pandas as pd
import torch
import tyro
from rich.console import Console

from interp.cli import parse
from interp.commands.probe_summary import summary, summary_tables
from interp.commands.probe_words import probe_legend
from interp.console import progress
from interp.core.probe_rows import accuracy_rows, attention_rows, effect_rows, knockout_rows, metric_rows, state_rows
from interp.core.runs import check_file, check_not_a_run
from interp.core.training_runs import FinishedRun, condition_of, load_run
from probes import rows
from probes.attention.dependence import without_self
from probes.attention.statistics import find_metric
from probes.base import atomic
from probes.base.lock import LOCK, locked
from probes.base.streams import numpy_stream, torch_stream
from probes.hooked.causal import ablate_heads, head_places, knock_out_by_head, patch_edges, patch_heads, unchanged
from probes.hooked.points import residual_names
from toy_models.engine.chance import step_accuracy
from toy_models.engine.corruption import corrupted_pairs
from toy_models.engine.evaluation import head_metrics
from toy_models.engine.probing import attention_probe, read_margins, state_probes, step_knockouts
from toy_models.task import Batch, is_causal

WIDTH = 110
"""Columns of the tables where there is no terminal to ask."""


@dataclass(frozen=True)
class Probe:
    """Probe the model of a finished `cotlens train` run on its own test inputs.

    Which head looks where, what the residual stream holds at every layer and position, and what the model uses.
    """

    run: tyro.conf.Positional[Path]
    """Directory of the run."""
    out: Path | None = None
    """Where rows, figures and summary go; by default the directory `probe` in the run."""
    json: Path | None = None
    """Also write the summary as JSON to this file."""
    inputs: int = 400
    """Test inputs for the linear probes; half of them are held out."""
    edited: int = 128
    """Test inputs for the causal probes."""
    positions: Annotated[tuple[int, ...], tyro.conf.arg(metavar="POSITION")] = ()
    """Positions of the linear probes, counted from 0; by default all."""
    metrics: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = ()
    """Also measure these metrics of every head over all tokens, as `cotlens entropy` does; its help lists them."""
    seed: int = 0
    """Draws splits, control labels, random keys and corrupted inputs."""


def main(arguments: Sequence[str]) -> None:
    """Loads the run, probes it, writes rows, figures and summary, and prints the summary."""
    options = parse(Probe, arguments, "probe")
    for name, least in (("inputs", 40), ("edited", 8)):
        if getattr(options, name) < least:
            raise ValueError(f"--{name} must be at least {least}, got {getattr(options, name)}")
    for name in options.metrics:
        find_metric(name)
    run = load_run(options.run)
    n_ctx = run.test.inputs.shape[1]
    if wrong := [position for position in options.positions if not 0 <= position < n_ctx]:
        raise ValueError(f"--positions {wrong[0]}: the inputs of {options.run} have the positions 0 to {n_ctx - 1}")
    if len(set(options.positions)) < len(options.positions):
        raise ValueError(f"--positions {' '.join(map(str, options.positions))}: none twice")
    out = options.out or options.run / "probe"
    check_not_a_run(out)
    check_file(options.json, ".json", "--json")
    with locked(out / LOCK, wait=False):
        with progress(f"probing {run.task.name}", 3, "probes") as update:
            table = probe_rows(run, options, update)
        found = summary(table)
        atomic.remove_leftovers(out)
        atomic.write_json(out / "summary.json", found)  # first: rows beside a summary are those of probes
        rows.write(out / "rows.parquet", table)
        if options.json is not None:
            atomic.write_json(options.json, found)
        from interp.figures.probes import probe_figures  # matplotlib, when the work is done
        from interp.figures.style import save_figures

        save_figures(out / "figures", probe_figures(table))
    console = Console() if Console().is_terminal else Console(width=WIDTH)
    for name, one in summary_tables(found).items():
        console.print(one)
        print("\n".join(probe_legend(name, found[name])), end="\n\n")
    print(f"rows, summary and figures are in {out}")


def probe_rows(run: FinishedRun, options: Probe, say: Callable[[int, str], None]) -> pd.DataFrame:
    """All probes as one table; first of all, whether the model has learned anything."""
    labels = {"run": run.task.name, "condition": condition_of(run.task), "unit": run.unit, "setting": ""}
    learned = step_accuracy(run.model, run.read, run.test)
    for sentence in learned.sentences():
        print(sentence, flush=True)
    attention = attention_probe(run.model, run.task, run.test)
    say(1, "attention")
    causal = causal_rows(run, run.test[: options.edited], labels, options.seed)
    say(2, "causal")
    rng = numpy_stream(options.seed, "linear probes")
    tested, positions = run.test[: options.inputs], options.positions or None
    linear = list(state_probes(run.model, run.untrained, run.task, tested, rng, positions))
    say(3, f"linear: {len(linear)} probes at {len(residual_names(run.model))} hook points")
    steps = run.test.supervised.tolist()
    tables = [accuracy_rows(learned, labels), attention_rows(attention, steps, labels), causal]
    tables.append(state_rows(linear, labels))
    if options.metrics:
        found = head_metrics(run.model, run.test.inputs, options.metrics, is_causal(run.task))
        tables.append(metric_rows(found, run.test.inputs.shape[1], labels))
    return rows.concat(tables)


def causal_rows(run: FinishedRun, batch: Batch, labels: dict, seed: int) -> pd.DataFrame:
    """Knockouts of every step, then every head's knockout, ablations and patches with their effects."""
    generator = torch_stream(seed, "causal probes")
    model, inputs, read = run.model, batch.inputs, read_margins(batch, run.read)
    places, clean = head_places(model), unchanged(model, inputs, read)
    needed = without_self(run.task.dependencies(batch))
    edited = {
        "knockout": knock_out_by_head(model, inputs, read, needed),
        "mean": ablate_heads(model, inputs, read, "mean", generator),
        "resample": ablate_heads(model, inputs, read, "resample", generator),
        **_patched(run, batch, generator),
    }
    tables = [knockout_rows(step_knockouts(model, run.task, batch, generator, run.read), labels)]
    tables += [effect_rows(clean, found, places, edit, labels, seed) for edit, found in edited.items()]
    return rows.concat(tables)


def _patched(run: FinishedRun, batch: Batch, generator: torch.Generator) -> dict[str, torch.Tensor]:
    """Each step's margin with a head's output, or one dependency's edge through it, from a run with that changed."""
    model, inputs, read = run.model, batch.inputs, read_margins(batch, run.read)
    heads, edges = [], []
    for step, query in enumerate(batch.supervised.tolist()):
        pairs = corrupted_pairs(run.task, batch, query, generator)
        other = pairs.corrupted.inputs
        heads.append(patch_heads(model, inputs, other, read)[..., step])
        edges.append(patch_edges(model, inputs, other, read, query, pairs.key)[..., step])
    return {"patch": torch.stack(heads, -1), "edge": torch.stack(edges, -1)}
