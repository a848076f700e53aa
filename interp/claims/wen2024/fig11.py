"""wen2024, Figure 11: without CoT, does every head become sparse, one after the other, before accuracy jumps?

In every solved run the entropy of each head is read at the first evaluation after the change point of validation
accuracy. Heads that become sparse as time goes on, learning or not, would be sparse then as well: runs that fail,
read after the same samples, are the control.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._curves import DRAWN, difference_of_means
from interp.claims.wen2024._runs import LOOPS, ParityRun, ParityRuns, measure_run, outcomes
from interp.claims.wen2024._worlds import simulated_curves, simulated_outcomes
from interp.core.claim import Claim, Scale, World, register
from interp.core.judging import SHARE, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval, change_point
from probes.rows import concat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig11"
SPARSE = 0.5
"""Normalised entropy below which a head counts as sparse."""
ALL = 0.9
"""The share of heads that counts as all of them."""
MOST = 0.5
"""The share of solved runs in which all heads must be sparse at the jump."""

_SMOKE = ParityRun(
    cot=False, n=8, k=2, heads=2, d_model=32, d_mlp=128, lr=3e-3, dataset_size=128, budget=16_384, eval_every=1024,
    n_held_out=32, stop_when_perfect=False,
)  # fmt: skip
_CPU = ParityRun(
    cot=False,
    n=16,
    k=4,
    heads=4,
    lr=3e-4,
    dataset_size=2_000,
    budget=800_000,
    eval_every=8192,
    n_held_out=1024,
    stop_when_perfect=False,
)
_PAPER = replace(
    _CPU, n=20, k=6, d_model=720, d_mlp=3072, lr=1e-4, dataset_size=50_000, budget=10_000_000, eval_every=20_480,
    n_held_out=2048,
)  # fmt: skip
PRESETS = {
    "smoke": ParityRuns((_SMOKE,), seeds=2),
    "cpu": ParityRuns((_CPU,), seeds=24),
    "paper": ParityRuns(
        tuple(replace(_PAPER, layers=layers, heads=heads) for layers, heads in ((1, 2), (2, 3), (4, 4))), seeds=24
    ),
}


@dataclass(frozen=True)
class Heads:
    """The share of sparse heads, one row for each run."""

    solved: pd.DataFrame
    """At the jump of accuracy."""
    failed: pd.DataFrame
    """After the samples at which accuracy jumped in the solved runs of the same architecture, mean over these."""


def sparse_heads(rows: pd.DataFrame) -> Heads:
    """How many heads are sparse when accuracy jumps."""
    accuracy, entropy = (dict(list(rows[rows["metric"] == m].groupby("run"))) for m in ("accuracy", "entropy_min"))
    columns = ["run", "layers", "heads", "censored"]
    runs = [dict(zip(columns, values)) for values in outcomes(rows)[columns].itertuples(index=False, name=None)]
    solved, failed = [], []
    for run in runs:
        if not run["censored"]:
            curve = accuracy[run["run"]].sort_values("samples")
            jump = change_point(curve["samples"].to_numpy(), curve["value"].to_numpy())
            solved.append({**run, "jump": jump, "share": _share(entropy[run["run"]], jump)})
    for run in runs:
        jumps = [of["jump"] for of in solved if (of["layers"], of["heads"]) == (run["layers"], run["heads"])]
        if run["censored"] and jumps:
            failed.append({**run, "share": float(np.mean([_share(entropy[run["run"]], at) for at in jumps]))})
    return Heads(
        pd.DataFrame(solved, columns=[*columns, "jump", "share"]), pd.DataFrame(failed, columns=[*columns, "share"])
    )


def _share(entropy: pd.DataFrame, jump: float) -> float:
    """The share of a run's heads that are sparse at the first evaluation after `jump`, or at its last."""
    at = min(entropy.loc[entropy["samples"] > jump, "samples"].min(), entropy["samples"].max())
    return float((entropy.loc[entropy["samples"] == at, "value"] < SPARSE).mean())


def parts(preset: ParityRuns) -> list[Part]:
    """By architecture: whether all heads are sparse when accuracy jumps, and more than in runs that fail."""
    models = sorted({(run.layers, run.heads) for run in preset.runs}, reverse=True)
    found = []
    for place, (layers, heads) in enumerate(models):
        suffix, where = "" if place == 0 else f"_{layers}l{heads}h", f"{layers}L{heads}H"
        found += [
            Part(
                key=f"all_sparse{suffix}",
                name=f"all heads are sparse when accuracy jumps ({where})",
                role="paper",
                source="4.2: when all the attention heads become sparse, a transition phase occurs (Figure 11)",
                primary=place == 0,
                quantity=f"share of solved runs in which {ALL:.0%} of the heads have an entropy below {SPARSE:g} at "
                "the jump",
                estimate=partial(share_all_sparse, layers=layers, heads=heads),
                direction="above",
                threshold=MOST,
                why="said of the run shown: more solved runs than not is the least that it can mean; sparse: nearer "
                "to one-hot than to uniform",
                unit="runs",
                note=partial(_heads, layers=layers, heads=heads),
            ),
            Part(
                key=f"control{suffix}",
                name=f"more heads are sparse than in runs that fail ({where})",
                role="control",
                quantity="share of sparse heads, solved runs at the jump minus failed runs after the same samples",
                estimate=partial(sparse_difference, layers=layers, heads=heads),
                direction="above",
                threshold=0.0,
                why="heads that become sparse with time, learning or not, are sparse in failed runs too",
                unit="runs",
            ),
        ]
    return found


def _of(runs: pd.DataFrame, layers: int, heads: int) -> pd.DataFrame:
    return runs[(runs["layers"] == layers) & (runs["heads"] == heads)]


def share_all_sparse(found: Heads, level: float, *, layers: int, heads: int) -> Interval | NotMeasurable:
    """The share of solved runs in which all heads are sparse at the jump."""
    shares = _of(found.solved, layers, heads)["share"]
    return share_of(shares >= ALL, level) if len(shares) else NotMeasurable("no run solves the task")


def sparse_difference(found: Heads, level: float, *, layers: int, heads: int) -> Interval | NotMeasurable:
    """The share of sparse heads in solved runs minus that in failed ones."""
    solved, failed = (_of(runs, layers, heads)["share"] for runs in (found.solved, found.failed))
    return difference_of_means(solved, failed, level, SHARE)


def _heads(found: Heads, layers: int, heads: int) -> str:
    solved, failed = (_of(runs, layers, heads)["share"] for runs in (found.solved, found.failed))
    told = ", ".join(f"{share:.2f}" for share in sorted(solved))
    return (
        f"{len(solved)} runs solve the task, {len(failed)} fail; share of sparse heads at the jump: {told or 'none'}"
    )


def _rows(generator: np.random.Generator, *, sparse: float, failed_too: bool) -> pd.DataFrame:
    """A world in which all heads of a run are sparse from before the jump with a probability."""
    (run,), seeds = PRESETS["cpu"].runs, PRESETS["cpu"].seeds
    steps = np.linspace(0, run.budget, 21)
    solved = generator.random(seeds) < 0.6
    samples = np.where(solved, 300_000 * np.exp(generator.normal(0, 0.2, seeds)), np.inf)
    accuracy = np.where(steps >= samples[:, None], 1.0, 0.5)
    become = (generator.random(seeds) < sparse) & (solved | failed_too)
    missing = ~become[:, None] & (np.arange(run.heads) == 0)  # one head that stays diffuse spoils "all"
    low = (steps >= 150_000) & ~missing[:, :, None] & (solved | failed_too)[:, None, None]
    entropy = np.where(low, 0.2, 0.9) + generator.normal(0, 0.03, (seeds, run.heads, len(steps)))
    outcome = simulated_outcomes([run], samples[None], np.where(solved, 1.0, 0.5)[None])
    return concat([outcome, simulated_curves([run], [steps], [accuracy], [entropy])])


WORLDS = (
    World(
        "a coin decides whether all heads are sparse; failed runs are alike",
        {"all_sparse": False, "control": False},
        partial(_rows, sparse=MOST, failed_too=True),
    ),
    World(
        "heads become sparse with time, learning or not",
        {"all_sparse": True, "control": False},
        partial(_rows, sparse=1.0, failed_too=True),
    ),
    World(
        "as published",
        {"all_sparse": True, "control": True},
        partial(_rows, sparse=1.0, failed_too=False),
    ),
)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """By architecture: accuracy and every head's entropy, of a run that solves the task and of one that fails."""
    from interp.figures.style import head_curves

    drawn = {}
    for (layers, heads), group in outcomes(rows).groupby(["layers", "heads"]):
        first = group.sort_values("unit").groupby("censored").first()
        shown = {
            f"seed {run['unit']}, {'fails' if censored else 'solves the task'}": rows[rows["run"] == run["run"]]
            for censored, run in first.iterrows()
        }
        n, k = group[["n", "k"]].iloc[0]
        drawn[f"heads_{layers}L{heads}H"] = head_curves(shown, f"Parity without CoT, n={n}, k={k}, {layers}L{heads}H")
    return drawn


register(
    Claim(
        id=ID,
        sentence=(
            "Without CoT the entropy of the attention heads decreases while the loss is on its plateau; when all "
            "heads have become sparse, the loss drops to zero and accuracy jumps to 1."
        ),
        method=(
            "Solved runs, at the first evaluation after the change point of validation accuracy (best least-squares "
            f"step): counted are those in which at least {ALL:.0%} of the heads have a normalised entropy (eq. 1) "
            f"below {SPARSE:g}. Control: the share of such heads minus that of runs that fail, after the same "
            "samples."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n=8, k=2, d_model 32"),
            "cpu": Scale("smaller", "(n, k) = (16, 4) for (20, 6), 1L4H of d_model 128 for up to 4L4H of 720"),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "Share of solved runs in which all heads were sparse at the jump of accuracy: {all_sparse}; share of "
            "sparse heads beyond that of failed runs: {control}."
        ),
        deviations=(
            "cpu: (n, k) = (16, 4) instead of (20, 6), 2,000 repeated samples instead of 50,000, one layer with "
            "four heads of d_model 128 instead of up to 4L4H of 720, learning rate 3e-4 instead of 1e-4; 24 "
            "seeds instead of one, evaluated every 8,192 samples. paper: three of the paper's architectures at its "
            "sizes. The sentence is about the heads of one model at the moment of "
            "its own transition, so it should hold at any size. The smoke preset is far smaller still: it tests the "
            "code, not the claim."
        ),
        clarity=(
            "Three runs are shown, 'sparse' has no number, and a minimum over positions (eq. 1) calls a head sparse "
            "if it is so at a single one. Solved means perfect validation: three of the runs counted as failed "
            "(seeds 2003, 2007, 2019) end at test accuracies of 1.000, 0.999 and 0.995. Counted as solved, as "
            "wen2024/fig5-size would, the share becomes 0.57 of 14 and the control 0.24, neither decided otherwise. "
            "At a learning rate of 3e-4 training without CoT often fails at two bits already "
            "(wen2024/causal-sparsity), and no arm here has an easier problem on the same data: a failure may be "
            "that of the rate."
        ),
        history=(
            "Judged before by the share of sparse heads, mean over solved runs, above 0.9; where runs agree a mean "
            "has no honest interval, so runs are counted now. Five seeds, which were "
            "those of wen2024/fig1b, could not support the part even if all heads of all solved runs were sparse; "
            "these are 24 of its own. In the first cpu run two or three of four heads were "
            "sparse at the jump, one stayed at 0.55 to 0.98, and heads exchanged roles during the transition. If the "
            "share of 24 seeds (2000 on), 0.64 of 11 solved runs, were the truth, 40 seeds would decide in "
            "15% of experiments, 100 in 40% and 160 in 61%; if it were 0.8, 40 seeds in 70%. Two pilots with batches "
            "of 128, learning rate 1e-4 and 1.2 million samples (seeds 10 and 11): one solved, a head at 0.78 at its "
            "jump; one at chance."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=lambda preset: preset.items,
        measure=measure_run,
        summary=sparse_heads,
        parts=parts,
        worlds=WORLDS,
        published=lambda rows: rows[rows["metric"].isin(DRAWN)],
        figures=figures,
    )
)
