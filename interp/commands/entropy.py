"""cotlens entropy: normalised attention entropy of a pretrained model, with and without CoT."""

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
import torch
import tyro
from matplotlib.figure import Figure
from rich.console import Console

from hf_analysis.measure import PAPER_CONDITIONS, check_request, measure
from hf_analysis.models import LoadedModel, load_model, require_same_tokenizer
from hf_analysis.problems import Problem, load_problems
from interp.claims import wen2024_fig6, wen2024_fig6_model
from interp.claims.wen2024_fig6_model import AGAINST
from interp.cli import parse
from interp.console import progress
from interp.figures import save_figures
from interp.runs import check_directory, run_directory
from interp.verdict import Verdict, verdict_table
from probes import atomic, rows


@dataclass(frozen=True)
class Entropy:
    """Measure every head's normalised attention entropy on problems, under several conditions.

    Every finished problem is on disk before the next begins; --resume goes on after a kill.
    """

    out: Path
    """Directory of the run."""
    model: str = "builtin"
    """builtin (SmolLM2-135M-Instruct), a directory, a .gguf file, or a hub id such as Qwen/Qwen2-7B."""
    revision: str | None = None
    """Revision of a hub model."""
    data: str = "builtin"
    """builtin (GSM-symbolic), a .jsonl or .parquet file with question and answer, or a hub id: openai/gsm8k."""
    limit: int | None = None
    """Measure only the first problems (builtin data: how many to make, 24 by default)."""
    conditions: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME")] = (
        "cot",
        "no_cot",
        "cot_clean",
        "shuffled_tokens",
        "filler",
    )
    """What follows the question: cot no_cot cot_clean shuffled_steps shuffled_tokens filler swapped_cot generated."""
    paper_mode: bool = False
    """Exactly the paper's two conditions, texts and reduction, and a count of its script's known defects."""
    against: str | None = None
    """Also measure this second model on the same text and judge whether --model is sparser (wen2024/fig6-model)."""
    keep_tokens: int = 0
    """Keep per-token entropies of this many problems, for the report's token view."""
    seed: int = 0
    """Seed of built-in problems and of the shuffled conditions."""
    batch_size: int | None = None
    """Problems per forward pass; found automatically, halved when memory runs out."""
    device: str = "auto"
    """auto, cpu, mps, cuda, cuda:1."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Of the weights; statistics are float32 or better."""
    threads: int | None = None
    """Threads on a CPU; the last digits of the rows depend on it."""
    trust_remote_code: bool = False
    """Run Python code that the model's author put on the hub. Only for authors you trust."""
    offline: bool = False
    """Never ask the hub; use what is on this machine."""
    resume: bool = False
    """Go on with the run in that directory."""


def main(arguments: Sequence[str]) -> None:
    """Checks everything that can be checked, loads the models, measures, judges and draws."""
    options = parse(Entropy, arguments, "entropy")
    conditions = PAPER_CONDITIONS if options.paper_mode else options.conditions
    if options.against is not None and "cot" not in conditions:
        raise ValueError("--against compares two models on text with CoT: add cot to --conditions")
    if options.threads is not None:
        if options.threads < 1:
            raise ValueError(f"--threads must be at least 1, got {options.threads}")
        torch.set_num_threads(options.threads)
    check_directory(options.out, options.resume)
    problems = load_problems(options.data, limit=options.limit, seed=options.seed, offline=options.offline)
    check_request(problems, conditions, options.batch_size, options.keep_tokens, options.paper_mode)
    model = _loaded(options, options.model)
    against = None if options.against is None else _loaded(options, options.against)
    if against is not None:
        require_same_tokenizer(model, against)
    identity = {k: v for k, v in asdict(options).items() if k not in ("out", "resume", "offline")}
    with run_directory(options.out, {"command": "entropy", **identity}, options.resume):
        table = _measured(options, model, problems, conditions, options.out)
        verdicts = _conclude(wen2024_fig6.judge, wen2024_fig6.figures, table, options.out)
        if against is not None:
            other = _measured(options, against, problems, conditions, options.out / "against", prefix=AGAINST)
            both = rows.concat([table, other])
            rows.write(options.out / "rows.parquet", both)
            verdicts += _conclude(wen2024_fig6_model.judge, wen2024_fig6_model.figures, both, options.out)
        _write_verdicts(options, verdicts)
    if verdicts:
        Console().print(verdict_table(verdicts))
        for verdict in verdicts:
            print(f"{verdict.claim} {verdict.part}: {verdict.note}")
    print(f"rows, verdicts and figures are in {options.out}")


def _loaded(options: Entropy, name: str) -> LoadedModel:
    print(f"loading {name}", flush=True)
    return load_model(
        name,
        revision=options.revision if name == options.model else None,
        device=options.device,
        dtype=options.dtype,
        trust_remote_code=options.trust_remote_code,
        offline=options.offline,
    )


def _measured(
    options: Entropy,
    model: LoadedModel,
    problems: Sequence[Problem],
    conditions: Sequence[str],
    out: Path,
    prefix: str = "",
) -> pd.DataFrame:
    with progress(f"measuring {model.name}", len(problems), "problems") as update:
        return measure(
            model,
            problems,
            conditions,
            out,
            seed=options.seed,
            batch_size=options.batch_size,
            keep_tokens=options.keep_tokens,
            resume=options.resume,
            paper_mode=options.paper_mode,
            run=f"{prefix}{model.name}",
            progress=lambda done, total, problem: update(done, problem),
        )


def _conclude(
    judge: Callable[[pd.DataFrame], Sequence[Verdict]],
    figures: Callable[[pd.DataFrame], Mapping[str, Figure]],
    table: pd.DataFrame,
    out: Path,
) -> list[Verdict]:
    """Judges and draws, if there is anything to compare: one problem or one condition only leaves rows."""
    if table["unit"].nunique() < 2:
        return []
    verdicts = list(judge(table))
    if verdicts:
        save_figures(out / "figures", figures(table))
    return verdicts


def _write_verdicts(options: Entropy, verdicts: Sequence[Verdict]) -> None:
    runs = [
        {
            "claim": claim,
            "preset": "own",
            "command": _command(options),
            "verdicts": [v.record() for v in verdicts if v.claim == claim],
        }
        for claim in dict.fromkeys(v.claim for v in verdicts)
    ]
    atomic.write_json(options.out / "verdicts.json", runs)


def _command(options: Entropy) -> str:
    """The command that makes this run again: every option that differs from its default."""
    words = ["cotlens", "entropy"]
    for field in fields(Entropy):
        value = getattr(options, field.name)
        if field.name in ("out", "resume") or value == field.default:
            continue
        words.append(f"--{field.name.replace('_', '-')}")
        if value is not True:
            words += [str(part) for part in value] if isinstance(value, tuple) else [str(value)]
    return shlex.join(words)
