"""wen2024, Theorem 3: does the simplified block learn parity with CoT in three steps, in three phases?

Three steps of SGD are taken on real batches, and each phase of the proof sketch (section 3.3) is judged after its own
step.

Why these settings (searched on seeds from 1000 on, none of which is judged). The chain always starts from 0, so the
gradient of its first step is twice that of a later one and its score eight times as large; through embeddings that
are not quite orthogonal it disturbs all other queries by about 8 score / sqrt(d), so d must be large. The first
step's output also grows four times as fast and leaves the linear part of the hinge loss unless score / m is small, so
m must be large: otherwise one side of the loss is flat and the third step overshoots. Sampling noise moves the
outputs by about n sqrt(4 score / (m B)) per step, so B grows with n^2 / m. eps was chosen so that the third phase can
be seen.

Two steps of the proof do not hold as written. Lemma 18 cancels the secret bit of every other step over the running
parity; before the first step only parity 0 occurs, nothing cancels, and the first secret bit influences every later
step i about 2 i / (n + 1) times as much as S[i] does. Attention survives, because that bit is uncorrelated with the
later answers. And Lemma 25's gradient lacks a factor 1/4 (the frequency of each pair of bits), Lemma 26's sum 1/2.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import log
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.claims.wen2024._three_steps import DELTA, EXPONENT, GAIN, MOST, parts, summary
from interp.claims.wen2024._worlds_theory import Draw, three_step_rows
from interp.core.claim import Claim, Item, Scale, World, register
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/thm3"
N_TEST = 1024
SHOWN = 16
"""Inputs over which the attention map is averaged."""
PUBLISHED = ("hit", "parity_hit", "first_over_own", "exponent", "margin", "accuracy", "used", "assumed")


@dataclass(frozen=True)
class Thm3:
    """Three steps for each batch size and seed; judged at the largest batch, half the seeds for the others."""

    n: int
    k: int
    d_model: int
    m: int
    batches: tuple[int, ...]
    eps: float
    score: float
    """Expected score of the secret key after two steps (Lemma 21); sets eta_0 = eta_1."""
    third: float
    """eta_2 in units of Lemma 25's 4 eps m / 3."""
    seeds: int
    first_unit: int = 0


PRESETS = {
    "smoke": Thm3(n=6, k=2, d_model=256, m=64, batches=(64, 1024), eps=3.0, score=30.0, third=1.0, seeds=2),
    "cpu": Thm3(
        n=16, k=4, d_model=4096, m=2048, batches=(256, 1024, 8192), eps=10.0, score=90.0, third=3.0, seeds=10
    ),
    "paper": Thm3(n=32, k=8, d_model=8192, m=2048, batches=(32768,), eps=10.0, score=90.0, third=3.0, seeds=10),
}


@dataclass(frozen=True)
class _Run:
    n: int
    k: int
    d_model: int
    m: int
    batch: int
    eps: float
    score: float
    third: float
    seed: int

    @property
    def item(self) -> Item:
        return Item(f"n={self.n},k={self.k},B={self.batch},seed={self.seed}", asdict(self))


def _seeds(preset: Thm3, batch: int) -> int:
    return preset.seeds if batch == max(preset.batches) else -(-preset.seeds // 2)


def items(preset: Thm3) -> list[Item]:
    """One run for each batch size and seed, the long ones first."""
    return [
        _Run(
            preset.n, preset.k, preset.d_model, preset.m, batch, preset.eps, preset.score, preset.third, seed
        ).item
        for batch in sorted(preset.batches, reverse=True)
        for seed in range(preset.first_unit, preset.first_unit + _seeds(preset, batch))
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Takes the three steps and measures the block before and after each."""
    import torch

    from toy_models.engine.run_rows import attention_rows
    from toy_models.parity.task import Parity
    from toy_models.parity.three_steps import assumption_2, initial_block, lr_for_score, sgd_update

    run = _Run(**item.parameters)
    task = Parity(n=run.n, k=run.k, secret_seed=run.seed, order="random")
    generator = torch.Generator().manual_seed(run.seed)
    block = initial_block(task, run.d_model, run.m, run.eps, generator).float()
    test = task.sample(N_TEST, generator)
    lr = lr_for_score(run.score, run.n, run.m)
    lrs = (lr, lr, run.third * 4 * run.eps * run.m / 3)
    place = setting(n=run.n, k=run.k, B=run.batch)
    labels: dict[str, Any] = {"run": item.name, "condition": "cot", "unit": str(run.seed)}

    def rows(values: Mapping[str, float], step: int, scope: str = "all") -> pd.DataFrame:
        where = {"setting": f"{place} phase={step}", "samples": step * run.batch, "scope": scope}
        return table(metric=list(values), value=list(values.values()), **where, **labels)

    tables = [rows(_measured(block, task, test), 0)]
    for step, eta in enumerate(lrs):
        loss = sgd_update(block, task.sample(run.batch, generator), eta)
        tables.append(rows({**_measured(block, task, test), "train_loss": loss / run.k}, step + 1))
    if run.seed == 0:
        tables.append(attention_rows(block, task, test[:SHOWN], 3 * run.batch, setting=place, **labels))
    used = {"d_model": run.d_model, "m": run.m, "batch": run.batch, "lr_0": lr, "lr_2": lrs[2]}
    assumed = assumption_2(run.n, run.k, DELTA, run.eps)
    for name, value in used.items():
        tables.append(rows({"used": float(value), "assumed": assumed[name]}, 3, scope=name))
    return concat(tables)


def _measured(block, task, test) -> dict[str, float]:
    from toy_models.parity.three_steps import correlation, distance_to_one_hot, step_accuracy, worst_margin

    known = correlation(block, task)
    accuracy, token_accuracy = step_accuracy(block, test)
    distance = distance_to_one_hot(block, task)
    return {
        "hit": known.hit,
        "parity_hit": known.parity_hit,
        "first_over_own": known.first_over_own,
        "distance": distance,
        "exponent": -log(distance) / log(task.n),
        "margin": worst_margin(block, task),
        "accuracy": accuracy,
        "token_accuracy": token_accuracy,
    }


def _world(default: float, gain: float, **holds: float) -> Draw:
    """Runs in which every statement holds with probability `default`, unless another is given."""
    preset = PRESETS["cpu"]
    names = ("hit", "parity_hit", "one_hot_2", "one_hot", "right")
    likely = {name: holds.get(name, default) for name in names}
    return three_step_rows(preset.n, preset.k, max(preset.batches), preset.seeds, likely, gain, EXPONENT)


_PHASES = ("phase_1", "phase_1_parity", "phase_2", "phase_3")
WORLDS = (
    World(
        "one run in ten fails",
        {"right": False, "one_hot": False},
        _world(1.0, 0.4, one_hot=1 - DELTA, right=1 - DELTA),
    ),
    World(
        "a coin decides, and the third step adds little",
        dict.fromkeys(("right", "one_hot", *_PHASES), False),
        _world(MOST, GAIN),
    ),
    World("as the theorem has it", dict.fromkeys(("right", "one_hot", *_PHASES), True), _world(1.0, 0.4)),
)


def _published(rows: pd.DataFrame) -> pd.DataFrame:
    """Without what nobody reads, and attention maps for the largest batch alone."""
    largest = with_settings(rows)["B"].to_numpy()
    maps = rows["metric"].isin(["attention", "dependency"])
    return rows[rows["metric"].isin(PUBLISHED) | (maps & (largest == largest.max()))]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The three phases seed by seed, what the batch size changes, and the attention after training."""
    from interp.claims.wen2024._theory_figures import draw_batch_sizes, draw_phases
    from interp.figures.style import attention_map

    found = with_settings(rows[~rows["metric"].isin(["attention", "dependency"])])
    largest = found["B"].max()
    n, k = int(found["n"].iloc[0]), int(found["k"].iloc[0])
    maps = rows[rows["metric"].isin(["attention", "dependency"])]
    maps = maps[maps["setting"].str.contains(f"B={largest} ")]
    title = f"Simplified block after three steps, n={n}, k={k}, B={largest}, seed 0"
    drawn = {
        "phases": draw_phases(found[found["B"] == largest], n, EXPONENT),
        "attention": attention_map(maps, title),
    }
    if found["B"].nunique() > 1:
        drawn["batch_size"] = draw_batch_sizes(found, n, EXPONENT)
    return drawn


CLARITY = (
    "No run meets Assumption 2, so this tests the theorem's mechanism at finite size and neither its rates nor its "
    "constants. Lemma 19 is not tested: at these settings its error bound is larger than the signal it bounds, so "
    "that S[i] is outweighed after the first step does not contradict it; the first bit's leftover, which Lemma 18 "
    "cancels, would exceed the bound only for B d far larger than here. With eps = 10 outputs leave the range in "
    "which the hinge loss is linear, which Lemma 27 supposes. With ten seeds a share above 0.9 cannot be shown, "
    "even if all succeed."
)
HISTORY = (
    "Until the parts were declared, more than half of the seeds was enough for every statement, because ten seeds "
    "allow no stronger one; the theorem's two statements are now held to its 1 - delta. The first part of phase 1 "
    "was called Lemma 19, which it is not. About ten settings were tried in all (seeds from 1000 on, none judged); "
    "the one used was right in all five seeds of the search. With m = 512, eps = 14 and eta_2 as in Lemma 25 the "
    "third step overshoots: accuracy falls from 0.75 to 0.49. That the third step is what makes the output right "
    "depends on the settings: with m = 256, B = 32768, score 70 and eta_2 / 4 all three seeds tried were right on "
    "every input after two steps."
)

register(
    Claim(
        id=ID,
        sentence=(
            "A simplified block trained with three steps of SGD on large batches of CoT data reaches perfect "
            "accuracy with attention within n^-8 of one-hot on S[i]: first the hidden weights correlate with the "
            "secret embeddings, then attention becomes one-hot, then the output mapping is learned."
        ),
        method=(
            "Three steps of SGD are taken on real batches. After each, the influence of every key on every step is "
            "read from the weights, the distance to one-hot attention and the smallest margin are bounded over all "
            "inputs, and accuracy is measured on 1,024 test sequences. Each statement about every step and input "
            "holds in a seed or does not."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n = 6, k = 2"),
            "cpu": Scale("smaller", "n = 16, k = 4; Assumption 2 is about n beyond any that can be run"),
            "paper": Scale("smaller", "n = 32, k = 8; Assumption 2 is about n beyond any that can be run"),
        },
        finding=(
            "After three steps every input was right in {right:.0%} of {right.n} seeds and attention "
            "one-hot to within n^-8 in {one_hot:.0%}; after one step S[i] outweighed every other key in "
            "{phase_1:.0%}, and given the running parity in {phase_1_parity:.0%}."
        ),
        deviations=(
            "Assumption 2 cannot be run: for n = 16, k = 4, eps = 10 and delta = 0.1 it asks for batches of 3 * "
            "10^20 sequences; its interval for k holds no whole number below n of about 23,000; its condition B < n "
            "k is first met near n = 10^56, and Lemma 10's sqrt(4 k log(100 B m / delta) / d) < 0.01 beyond n = "
            "e^(10^49). The three steps are therefore taken at finite n with settings found by search. cpu: n = 16, "
            "k = 4, d = 4096 (Assumption 2: 24), m = 2048 (8), B = 8192, eps = 10, eta_0 = eta_1 for an expected "
            "score of 90 on the secret key, eta_2 = 4 eps m, three times that of Lemma 25 (Assumption 2: 4 k eps / "
            "3). All else is the paper's: frozen hypercube embeddings, Assumption 1, h = +-1/2m fixed, hinge loss, "
            "fresh samples in every step. The number of parameters is not o(n k). paper: the next size, n = 32, k = "
            "8; the paper has no experiment for the theorem. smoke: n = 6, k = 2."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        published=_published,
        figures=figures,
        clarity=CLARITY,
        history=HISTORY,
    )
)
