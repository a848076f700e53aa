"""li2024, Figure 5: does attention first leave the other steps, and then the other patterns of the same step?

The attention mass on columns of {same, different} pattern and {same, different} step is measured along the training
on unseen testing prompts. A mass has vanished when it stays below 0.05. The order of the two events is judged, not
whether the second begins after the first has ended.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.li2024._runs import NOISE, generators
from interp.core.claim import Claim, Item, register, seed_batches
from interp.core.judging import NEARLY_ALL, share_verdict
from interp.core.verdict import Verdict, judged
from interp.statistics import cautious_mean
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "li2024/fig5"
CONCENTRATED = 0.96
VANISHED = 0.05
LATER = 2.0
"""How many times later, at least, the second stage should end."""


@dataclass(frozen=True)
class Fig5:
    """One model for each seed, its attention at points of the training that are evenly spaced in log time."""

    seeds: int
    batch: int
    eta: float
    iterations: int
    n_queries: int
    n_examples: int = 20
    alpha: float = 0.8
    tau: float = 0.5
    rho: float = 0.8
    points: int = 60


PRESETS = {
    "smoke": Fig5(seeds=2, batch=2, eta=5.0, iterations=150, n_queries=50, points=20),
    "cpu": Fig5(seeds=10, batch=5, eta=1.0, iterations=4000, n_queries=500),
    "paper": Fig5(seeds=50, batch=10, eta=0.5, iterations=20_000, n_queries=1000, points=120),
}


def items(preset: Fig5) -> list[Item]:
    """One batch of seeds each."""
    return [
        Item(
            f"seeds={seeds[0]}-{seeds[-1]}",
            {
                "seeds": seeds, "eta": preset.eta, "iterations": preset.iterations, "n_queries": preset.n_queries,
                "n_examples": preset.n_examples, "alpha": preset.alpha, "tau": preset.tau, "rho": preset.rho,
                "points": preset.points,
            },
        )
        for seeds in seed_batches(preset.seeds, preset.batch)
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The attention on the four kinds of columns along the training, and the training loss."""
    from toy_models.incontext.errors import Errors
    from toy_models.incontext.exam import KINDS, Exam, Scores, attention_kinds
    from toy_models.incontext.training import Setup, sgd

    p = item.parameters
    setup = Setup(eta=p["eta"], iterations=p["iterations"])
    space = setup.spaces(generators(p["seeds"], "space"))
    errors = Errors.of(p["tau"], p["rho"], setup.n_steps, setup.n_testing, "even")
    streams = generators(p["seeds"], "exam")
    exam = Exam.draw(p["n_queries"], p["n_examples"], p["alpha"], errors, NOISE, space, streams)
    training = generators(p["seeds"], "train")
    keep = sorted({0, *np.geomspace(1, p["iterations"], p["points"]).round().astype(int).tolist()})
    units, tables = [str(seed) for seed in p["seeds"]], []
    common = {"run": item.name, "condition": "cot", "unit": units, "scope": "test", "layer": 0, "head": 0}
    place = setting(alpha=p["alpha"], tau=p["tau"], rho=p["rho"], l=p["n_examples"], eta=p["eta"])
    for iteration, weights, loss in sgd(setup, space, setup.initial(training), training, keep):
        kinds = attention_kinds(Scores.of(setup, space, weights), exam).mean(-1)
        measured = {**dict(zip(KINDS, kinds.tolist())), "loss": loss.tolist()}
        tables += [
            table(metric=metric, value=values, update=iteration, setting=place, n_tokens=p["n_queries"], **common)
            for metric, values in measured.items()
        ]
    return concat(tables)


def masses(rows: pd.DataFrame) -> pd.DataFrame:
    """By seed and iteration: the mass of each kind, and `other_step`, that of both kinds of another step."""
    wide = rows.pivot(index=["unit", "update"], columns="metric", values="value").reset_index()
    other = wide["same_pattern_other_step"] + wide["other_pattern_other_step"]
    return wide.assign(other_step=other).sort_values(["unit", "update"], ignore_index=True)


def crossings(found: pd.DataFrame) -> pd.DataFrame:
    """By seed: the iterations after which other steps, and other patterns of the same step, stay below VANISHED.

    Infinite if that never happens.
    """
    results = {}
    for seed, curve in found.groupby("unit"):
        for mass in ("other_step", "other_pattern_same_step"):
            above = np.flatnonzero(curve[mass].to_numpy() >= VANISHED)
            after = int(above[-1]) + 1 if len(above) else 0
            gone = after < len(curve)
            results.setdefault(seed, {})[mass] = float(curve["update"].iloc[after]) if gone else np.inf
    return pd.DataFrame.from_dict(results, orient="index").rename_axis("unit").reset_index()


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The mass at the end; and the order of the two crossings, by seed."""
    found = masses(rows)
    last = found[found["update"] == found["update"].max()]
    crossed = crossings(found)
    steps, patterns = crossed["other_step"], crossed["other_pattern_same_step"]
    two_stages = np.isfinite(steps) & (patterns >= LATER * steps)
    at = found.merge(crossed[["unit", "other_step"]].rename(columns={"other_step": "crossing"}), on="unit")
    there = at[at["update"] == at["crossing"]]["same_pattern_same_step"]
    then = f"{there.mean():.3f}" if len(there) else "not measured"
    return [
        judged(
            cautious_mean(last["same_pattern_same_step"].to_numpy(), rng=0, bounds=(0, 1)), claim=ID,
            part="attention ends on the query's pattern and step",
            quantity="attention on columns of the query's pattern and step after training",
            threshold=CONCENTRATED, direction="above", unit="seeds",
            note=f"on the same step and other patterns {last['other_pattern_same_step'].mean():.4f}, on other steps "
            f"{last['other_step'].mean():.4f}; training loss {last['loss'].mean():.4f}",
        ),
        share_verdict(
            two_stages, claim=ID, part="other steps vanish before other patterns", expected="nearly all",
            quantity=f"share of seeds in which other patterns vanish at least {LATER:g} times later than other steps",
            note=f"below {VANISHED:g} after {steps.median():.0f} and {patterns.median():.0f} updates (medians); "
            f"attention on the query's pattern and step at the first of the two: {then}",
        ),
    ]  # fmt: skip


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The four masses along the training, with the two crossings."""
    from interp.claims.li2024._figures import training_stages

    found = masses(rows)
    return {"training_stages": training_stages(found, crossings(found))}


register(
    Claim(
        id=ID,
        sentence=(
            "The attention on context columns of a different step decreases to zero in the first stage of training; "
            "then that on columns of the query's pattern and step increases to 1."
        ),
        test=(
            f"On unseen testing prompts: the attention on columns of the query's pattern and step ends above "
            f"{CONCENTRATED:g} (mean over seeds, 95% interval). The mass of other patterns of the same step falls "
            f"for good below {VANISHED:g} at least {LATER:g} times later than that of other steps, in nearly all "
            f"seeds: the exact interval of the share lies above {NEARLY_ALL:g} (ten of ten)."
        ),
        deviations=(
            "The paper gives the sizes (d = 30, M = 20, M' = 10, K = 3, alpha = 0.4; testing prompts with alpha' = "
            "0.8, tau = 0.5, rho = 0.8 and noise 0.2), not the training; ours is SGD on batches of 20 prompts of 20 "
            "examples, each queried at its three steps, so that every pattern and step comes equally often; the "
            "three queries share the examples. W starts at N(0, 0.001^2); positional vectors are appended (added "
            "ones give the same, which is tested). Errors are in every step alike, with one rival pattern. cpu: "
            "steps of size 1, 4000 iterations, ten seeds. paper: steps of 0.5, 20,000 iterations, 50 seeds. The "
            "claim is about an order of events, which does not depend on the step size. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
