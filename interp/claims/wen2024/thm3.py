"""wen2024, Theorem 3: does the simplified block learn parity with CoT in three steps, from almost linearly many samples?

Three steps of SGD are taken on real batches, and each phase of the proof sketch (section 3.3) is judged after its own
step. Two more experiments vary n: the smallest batch that is enough, and the fewest bits. The steps are taken in the
span of the embeddings, neurons of equal signs together (`toy_models.parity.span`), so large m costs nothing.

Why these settings (searched on seeds from 500 to 640, none of which is judged). The chain always starts from 0, so the
gradient of its first step is twice that of a later one and its score eight times as large; through embeddings that
are not quite orthogonal it disturbs all other queries by about 8 score / sqrt(d), so d must be large. After two steps
the first step's output is about sqrt(8 score / m), which must stay below 1, where the hinge loss is linear, so m must
be large. Sampling noise moves the outputs by about n sqrt(32 score / (m B)) per step, so B grows with n^2 / m: with m
in proportion to n, as Assumption 2 has it for k of order n, with n.

Two steps of the proof do not hold as written: see wen2024/lemmas.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._three_steps import (
    ALMOST_LINEAR,
    BITS_PER_DOUBLING,
    DELTA,
    EXPONENT,
    GAIN,
    MOST,
    NARROW,
    WIDE,
    parts,
    summary,
)
from interp.claims.wen2024._worlds_theory import Draw, Growth, three_step_rows
from interp.core.claim import Claim, Item, Scale, World, register
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.wen2024._three_steps_runs import Run
    from matplotlib.figure import Figure

ID = "wen2024/thm3"
MAPS = ("attention", "dependency")
PUBLISHED = (
    "hit", "parity_hit", "first_over_own", "exponent", "margin", "accuracy", "largest_output", "lemma19", "vacuous",
    "used", "assumed", "enough", "least_bits",
)  # fmt: skip


@dataclass(frozen=True)
class Thm3:
    """Three steps for each batch size and seed, judged at the largest batch; and two sweeps of n."""

    n: int
    k: int
    d_model: int
    m: int
    batches: tuple[int, ...]
    """All seeds at the largest, a third at the others."""
    samples: tuple[int, ...]
    """n of the smallest batch; k = 2, d = 4096, m = 1024 n and 256 n."""
    bits: tuple[int, ...]
    """n of the fewest bits; k = 4 (n/3 if that is less), d = 2048, m = 65536, B = 4096."""
    seeds: int
    samples_seeds: int
    bits_seeds: int
    eps: float = 3.0
    """The largest for which outputs up to eps/3 stay where the hinge loss is linear (Lemma 27)."""
    score: float = 90.0
    """Expected score of the secret key after two steps (Lemma 21); sets eta_0 = eta_1."""
    first_unit: int = 0


PRESETS = {
    "smoke": Thm3(6, 2, 1024, 4096, (64, 1024), samples=(6, 12), bits=(6, 9), seeds=2, samples_seeds=2, bits_seeds=2),
    "cpu": Thm3(
        16, 4, 4096, 2**16, (256, 1024, 8192), samples=(8, 12, 16, 24, 32), bits=(12, 16, 24, 32),
        seeds=60, samples_seeds=30, bits_seeds=15,
    ),
    "paper": Thm3(
        32, 4, 4096, 2**16, (32768,), samples=(8, 16, 32, 64, 128), bits=(12, 16, 32, 64, 128),
        seeds=60, samples_seeds=60, bits_seeds=30,
    ),
}  # fmt: skip


def items(preset: Thm3) -> list[Item]:
    """One run for each batch size or n, and seed, the long ones first."""
    from interp.claims.wen2024._three_steps_runs import Run

    common = {"eps": preset.eps, "score": preset.score}
    found = []
    for batch in sorted(preset.batches, reverse=True):
        seeds = preset.seeds if batch == max(preset.batches) else -(-preset.seeds // 3)
        sizes = {"n": preset.n, "k": preset.k, "d_model": preset.d_model, "m": preset.m, "batch": batch}
        units = range(preset.first_unit, preset.first_unit + seeds)
        found += [Run(kind="phases", seed=seed, **sizes, **common) for seed in units]
    for n in sorted(preset.bits, reverse=True):
        sizes = {"n": n, "k": min(4, n // 3), "d_model": 2048, "m": 2**16, "batch": 4096}
        units = range(preset.first_unit, preset.first_unit + preset.bits_seeds)
        found += [Run(kind="bits", seed=seed, **sizes, **common) for seed in units]
    for n in sorted(preset.samples, reverse=True):
        units = range(preset.first_unit, preset.first_unit + preset.samples_seeds)
        for width in (WIDE, NARROW):
            sizes = {"n": n, "k": 2, "d_model": 4096, "m": width * n, "batch": 0}
            found += [Run(kind="samples", seed=seed, **sizes, **common) for seed in units]
    return [_item(run) for run in found]


def _item(run: "Run") -> Item:
    what = f"B={run.batch}" if run.batch else f"m={run.m}"
    return Item(f"{run.kind},n={run.n},k={run.k},{what},seed={run.seed}", asdict(run))


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Takes three steps: phase by phase, with growing batches, or with fewer and fewer bits."""
    from interp.claims.wen2024 import _three_steps_runs as runs

    run = runs.Run(**item.parameters)
    return {"phases": runs.phases, "samples": runs.samples, "bits": runs.bits}[run.kind](run, item.name)


def _world(default: float, gain: float, samples: float, bits: float, **holds: float) -> Draw:
    """Runs in which every statement holds with probability `default`, unless another is given."""
    preset = PRESETS["cpu"]
    names = ("hit", "lemma19", "parity_hit", "one_hot_2", "one_hot", "right")
    likely = {name: holds.get(name, default) for name in names}
    grown = {
        "enough": Growth(preset.samples, preset.samples_seeds, samples, spread=0.7, widths=(WIDE, NARROW)),
        "least_bits": Growth(preset.bits, preset.bits_seeds, bits, spread=0.7),
    }
    place = (preset.n, preset.k, max(preset.batches))
    return three_step_rows(place, preset.seeds, likely, gain, EXPONENT, grown)


_PHASES = ("phase_1", "lemma19", "phase_1_parity", "phase_2", "phase_3")
_EVERY = ("right", "one_hot", "samples", "samples_narrow", "bits", *_PHASES)
WORLDS = (
    World(
        "one run in ten fails",
        {"right": False, "one_hot": False},
        _world(1.0, 0.4, 1.0, 1.0, one_hot=1 - DELTA, right=1 - DELTA),
    ),
    World(
        "a coin decides, the third step adds little, samples and bits grow as fast as is tolerated",
        dict.fromkeys(_EVERY, False),
        _world(MOST, GAIN, ALMOST_LINEAR, BITS_PER_DOUBLING),
    ),
    World("samples grow as n^2", {"samples": False, "samples_narrow": False}, _world(1.0, 0.4, 2.0, 1.0)),
    World("as the theorem has it", dict.fromkeys(_EVERY, True), _world(1.0, 0.4, 1.0, 1.0)),
)


def _published(rows: pd.DataFrame) -> pd.DataFrame:
    """Without what nobody reads, and attention maps for the largest batch alone."""
    largest = with_settings(rows)["B"].to_numpy()
    maps = rows["metric"].isin(MAPS)
    return rows[rows["metric"].isin(PUBLISHED) | (maps & (largest == largest[maps].max()))]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The three phases seed by seed, batch sizes, the attention after training, and what grows with n."""
    from interp.claims.wen2024._theory_figures import draw_batch_sizes, draw_growth, draw_phases
    from interp.figures.style import attention_map

    maps = rows[rows["metric"].isin(MAPS)]
    found = with_settings(rows[(rows["condition"] == "phases") & ~rows["metric"].isin(MAPS)])
    largest = found["B"].max()
    n, k = int(found["n"].iloc[0]), int(found["k"].iloc[0])
    maps = maps[maps["setting"].str.contains(f"B={largest} ")]
    grown = partial(_of, rows)
    drawn = {
        "phases": draw_phases(found[found["B"] == largest], n, EXPONENT),
        "growth": draw_growth(grown("enough"), grown("least_bits")),
    }
    if len(maps):
        title = f"Simplified block after three steps, n={n}, k={k}, B={largest}, seed {maps['unit'].iloc[0]}"
        drawn["attention"] = attention_map(maps, title)
    if found["B"].nunique() > 1:
        drawn["batch_size"] = draw_batch_sizes(found, n, EXPONENT)
    return drawn


def _of(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    return with_settings(rows[rows["metric"] == metric])


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
