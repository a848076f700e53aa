"""cotlens heads: which heads of a pretrained model are of a known kind."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
import tyro
from jaxtyping import Float
from rich.console import Console
from rich.table import Table

from hf_analysis.attention.recorder import require_measurable
from hf_analysis.measurement.heads import CHANCE, COPY, METRICS, measure_heads
from hf_analysis.models.directories import require_tokenizer
from hf_analysis.models.loading import load_model
from hf_analysis.text.problems import load_problems
from interp.cli import parse
from interp.commands.probe_words import heads_legend
from interp.console import progress
from interp.core.contrast import FEWEST_FOR_HEADS, N_FLIPS
from interp.core.runs import check_directory, run_directory
from interp.statistics import ALPHA, sign_flip_max_t
from probes.base import atomic

TEXT = {kind: "cot_clean" if kind in ("sink", COPY) else "repeated" for kind in METRICS}
"""On which text each kind is read off."""


@dataclass(frozen=True)
class Heads:
    """Score every head of a pretrained model: previous token, duplicate token, induction, sink, copy from question.

    Every finished problem is on disk before the next begins; --resume goes on after a kill.
    """

    out: Path
    """Directory of the run."""
    model: str = "builtin"
    """builtin (SmolLM2-135M-Instruct), a directory, a .gguf file, or a hub id such as Qwen/Qwen2-7B."""
    data: str = "builtin"
    """builtin (GSM-symbolic), a .jsonl, .json, .csv or .parquet file, or a hub id: openai/gsm8k, or with :CONFIG."""
    split: str = "test"
    """Split of a hub dataset."""
    question: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Column with the question, where it has no usual name."""
    solution: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Column with the worked solution, where it has no usual name."""
    answer: Annotated[str | None, tyro.conf.arg(metavar="NAME")] = None
    """Column with the final answer, where it has no usual name."""
    limit: int | None = None
    """Measure only the first problems (builtin data: how many to make, 24 by default)."""
    top: int = 5
    """Heads to print of each kind."""
    seed: int = 0
    """Seed of built-in problems and of the repeated random tokens."""
    device: str = "auto"
    """auto, cpu, mps, cuda, cuda:1."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the weights; scores are float32 or better."""
    offline: bool = False
    """Never ask the hub; use what is on this machine."""
    resume: bool = False
    """Go on with the run in that directory."""


def main(arguments: Sequence[str]) -> None:
    """Checks everything that can be checked, loads the model, scores, prints and draws."""
    options = parse(Heads, arguments, "heads")
    if options.top < 1:
        raise ValueError(f"--top {options.top}: need at least 1 head of each kind")
    check_directory(options.out, options.resume)
    problems = load_problems(
        options.data, limit=options.limit, seed=options.seed, split=options.split, offline=options.offline,
        question=options.question, answer=options.answer, solution=options.solution,
    )  # fmt: skip
    require_tokenizer(options.model)
    print(f"loading {options.model}", flush=True)
    model = load_model(options.model, device=options.device, dtype=options.dtype, offline=options.offline)
    require_measurable(model)
    identity = {k: v for k, v in asdict(options).items() if k not in ("out", "resume", "offline", "top")}
    with run_directory(options.out, {"command": "heads", **identity}, options.resume):
        with progress(f"scoring the heads of {model.name}", len(problems), "problems") as update:
            table = measure_heads(
                model,
                problems,
                options.out,
                seed=options.seed,
                resume=options.resume,
                progress=lambda done, total, problem: update(done, problem),
            )
        found = summary(table, options.top)
        atomic.write_json(options.out / "heads.json", found)
        maps = {kind: _cube(table, kind).mean(0) for kind in METRICS if _measured(table, kind)}
        from interp.figures.heads import kind_maps  # matplotlib, when the work is done
        from interp.figures.style import save_figures

        save_figures(options.out / "figures", {"heads": kind_maps(maps, options.top)})
    Console().print(_printed(found))
    print("\n".join(heads_legend(found)))
    if untested := _untested(found):
        print(untested)
    for kind in (kind for kind in METRICS if kind not in maps):
        print(f"{kind}: no problem has what it needs")
    print(f"rows, heads.json and figures are in {options.out}")


def summary(table: pd.DataFrame, top: int) -> list[dict[str, Any]]:
    """The `top` heads of each kind: mean score over problems, chance level, and a p-value where zero is chance.

    The score of copying is zero by chance, so it has p-values: one-sided, familywise over all heads (max-T).
    """
    found = []
    for kind in METRICS:
        if not _measured(table, kind):
            continue
        cube = _cube(table, kind)
        scores, p_values = cube.mean(0), None
        if kind == COPY and len(cube) >= FEWEST_FOR_HEADS:
            flat = cube.reshape(len(cube), -1)
            tested = sign_flip_max_t(flat, rng=0, n_flips=N_FLIPS, alternative="greater")
            p_values = tested.p_adjusted.reshape(scores.shape)
        chance = table[(table["metric"] == f"{kind}{CHANCE}") & (table["condition"] == TEXT[kind])]["value"]
        for place in np.argsort(-scores, axis=None, kind="stable")[:top]:
            layer, head = np.unravel_index(place, scores.shape)
            found.append(
                {
                    "kind": kind,
                    "layer": int(layer),
                    "head": int(head),
                    "score": float(scores[layer, head]),
                    "chance": 0.0 if kind == COPY else float(chance.mean()),
                    "p_familywise": None if p_values is None else float(p_values[layer, head]),
                    "clear_heads": None if p_values is None else int((p_values < ALPHA).sum()),
                    "problems": len(cube),
                    "text": TEXT[kind],
                }
            )
    return found


def _measured(table: pd.DataFrame, kind: str) -> bool:
    return bool(((table["metric"] == kind) & (table["condition"] == TEXT[kind])).any())


def _cube(table: pd.DataFrame, kind: str) -> Float[np.ndarray, "problem layer head"]:
    chosen = table[(table["metric"] == kind) & (table["condition"] == TEXT[kind])]
    shape = (chosen["unit"].nunique(), int(chosen["layer"].max()) + 1, int(chosen["head"].max()) + 1)
    return chosen.sort_values(["unit", "layer", "head"])["value"].to_numpy().reshape(shape)


def _printed(found: Sequence[dict[str, Any]]) -> Table:
    table = Table(title="Heads by kind (layer.head and score: attention on the kind's keys)")
    tested = any(record["clear_heads"] is not None for record in found)
    for column in ("kind", "text", "chance", "heads", *(["clear heads"] if tested else [])):
        table.add_column(column)
    for kind in dict.fromkeys(record["kind"] for record in found):
        records = [record for record in found if record["kind"] == kind]
        heads = "  ".join(f"{r['layer']}.{r['head']} {r['score']:.2f}" for r in records)
        clear = records[0]["clear_heads"]
        more = ["" if clear is None else str(clear)] if tested else []
        table.add_row(kind, records[0]["text"], f"{records[0]['chance']:.3f}", heads, *more)
    return table


def _untested(found: Sequence[dict[str, Any]]) -> str:
    """Why no head is clearly of a kind, where that was not tested; empty where it was, or never is."""
    few = [record["problems"] for record in found if record["kind"] == COPY and record["clear_heads"] is None]
    needs = f"{COPY}: which heads do it clearly, all tested together, takes {FEWEST_FOR_HEADS} problems"
    return f"{needs}; there are {few[0]}" if few else ""
