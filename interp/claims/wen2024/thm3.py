"""wen2024, Theorem 3: does the simplified block learn parity with CoT in three steps, from few samples?

Three steps of SGD are taken on real batches, and each phase of the proof sketch (section 3.3) is judged after its own
step. Two more experiments vary n: the smallest batch that is enough, and the fewest bits. The steps are taken in the
span of the embeddings, neurons of equal signs together (`toy_models.parity.span`), so large m costs nothing.

Why these settings (searched on seeds from 500 to 660, none of which is judged). The chain always starts from 0, so
the gradient of its first step is twice that of a later one and its score eight times as large; through embeddings
that are not quite orthogonal it disturbs all other queries by about 8 score / sqrt(d), so d must be large. After two
steps the first step's output is about sqrt(8 score / m), which must stay below 1, where the hinge loss is linear, so
m must be large. Sampling noise moves the outputs by about n sqrt(32 score / (m B)) per step, so B grows with n^2 / m:
with m in proportion to n, as Assumption 2 has it up to logarithms, with n.

Two steps of the proof do not hold as written: see wen2024/lemmas.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.claims.wen2024._three_steps import (
    ALMOST_LINEAR,
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
from interp.core.loops import Loop
from probes.rows import with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from interp.claims.wen2024._three_steps_runs import Run

ID = "wen2024/thm3"
MAPS = ("attention", "dependency")
PUBLISHED = (
    "hit", "parity_hit", "first_over_own", "exponent", "margin", "accuracy", "largest_output", "lemma19", "vacuous",
    "used", "assumed", "enough", "least_bits", "bits_enough",
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
    """n of the block that is rounded; k = 2, d = 1024, m = 65536, B = 4096; all seeds."""
    seeds: int
    samples_seeds: int
    eps: float = 3.0
    """The largest for which outputs up to eps/3 stay where the hinge loss is linear (Lemma 27)."""
    score: float = 90.0
    """Expected score of the secret key after two steps (Lemma 21); sets eta_0 = eta_1."""
    first_unit: int = 0


PRESETS = {
    "smoke": Thm3(6, 2, 1024, 4096, (64, 1024), samples=(6, 12), bits=(6, 8), seeds=2, samples_seeds=2),
    "cpu": Thm3(
        16, 4, 4096, 2**16, (512, 2048, 16384), samples=(8, 12, 16, 24, 32), bits=(8, 16, 32),
        seeds=60, samples_seeds=30,
    ),
    "paper": Thm3(
        32, 4, 4096, 2**16, (32768,), samples=(8, 16, 32, 64, 128), bits=(8, 16, 32, 64, 128),
        seeds=60, samples_seeds=60,
    ),
}  # fmt: skip


def items(preset: Thm3) -> list[Item]:
    """One run for each batch size or n, and seed, the long ones first."""
    from interp.claims.wen2024._three_steps_runs import Run

    common: dict[str, Any] = {"eps": preset.eps, "score": preset.score}
    found = []
    for batch in sorted(preset.batches, reverse=True):
        seeds = preset.seeds if batch == max(preset.batches) else -(-preset.seeds // 3)
        sizes = {"n": preset.n, "k": preset.k, "d_model": preset.d_model, "m": preset.m, "batch": batch}
        units = range(preset.first_unit, preset.first_unit + seeds)
        found += [Run(kind="phases", seed=seed, **sizes, **common) for seed in units]
    for n in sorted(preset.bits, reverse=True):
        sizes = {"n": n, "k": 2, "d_model": 1024, "m": 2**16, "batch": 4096}
        units = range(preset.first_unit, preset.first_unit + preset.seeds)
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

    run = runs.Run(**{name: value for name, value in item.parameters.items() if name != "most"})
    if run.kind == "samples":
        return runs.samples(run, item.name, item.parameters.get("most", runs.MOST_LOG2))
    return {"phases": runs.phases, "bits": runs.bits}[run.kind](run, item.name)


def _drawn(p: Mapping[str, Any]) -> int:
    """Samples of three steps, at most: where the smallest batch is looked for, of all that may be tried."""
    from interp.claims.wen2024 import _three_steps_runs as runs

    if p["kind"] == "samples":
        return 3 * sum(runs.tried(p.get("most", runs.MOST_LOG2)))
    return 3 * p["batch"] if p["kind"] == "phases" else 0


def _few_drawn(p: Mapping[str, Any], n: int) -> dict[str, Any]:
    from interp.claims.wen2024 import _three_steps_runs as runs

    if p["kind"] == "phases":
        return {"batch": n // 3}
    most = runs.FEWEST_LOG2
    while 3 * sum(runs.tried(most + 0.5)) <= n:
        most += 0.5
    return {"most": most}


LOOPS = (Loop("samples of three steps", _drawn, _few_drawn, least=3 * 4096),)
"""What an item repeats; one that takes bits away has a batch that is small beside what it tries after its steps."""


def _world(default: float, gain: float, samples: float, **holds: float) -> Draw:
    """Runs in which every statement holds with probability `default`, unless another is given."""
    preset = PRESETS["cpu"]
    names = ("hit", "lemma19", "parity_hit", "one_hot_2", "one_hot", "right", "stored")
    likely = {name: holds.get(name, default) for name in names}
    grown = Growth(preset.samples, preset.samples_seeds, samples, spread=0.7, widths=(WIDE, NARROW))
    place = (preset.n, preset.k, max(preset.batches))
    return three_step_rows(place, preset.seeds, likely, gain, EXPONENT, grown, preset.bits)


_PHASES = ("phase_1", "lemma19", "phase_1_parity", "phase_2", "phase_3")
_EVERY = ("right", "one_hot", "samples", "samples_narrow", "bits", *_PHASES)
WORLDS = (
    World(
        "one run in ten fails",
        {"right": False, "one_hot": False, "bits": False},
        _world(1.0, 0.4, 1.0, one_hot=1 - DELTA, right=1 - DELTA, stored=1 - DELTA),
    ),
    World(
        "a coin decides, the third step adds little, samples grow as fast as is tolerated",
        dict.fromkeys(_EVERY, False),
        _world(MOST, GAIN, ALMOST_LINEAR),
    ),
    World("samples grow as n^2", {"samples": False, "samples_narrow": False}, _world(1.0, 0.4, 2.0)),
    World("as the theorem has it", dict.fromkeys(_EVERY, True), _world(1.0, 0.4, 1.0)),
)


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
    "No run meets Assumption 2, so this tests the theorem's mechanism and its growth with n at finite size, not its "
    "constants. Theorem 3 counts samples with o(n k) parameters; here the parameters, d^2 + 4 d m, are millions of "
    "times n k: that so few samples and so few parameters go together is not tested. With m in proportion to n, as "
    "Assumption 2's m = 2k is up to logarithms, batches should grow as n^2 / m, hence as n; the exponent that is "
    "seen from n = 8 to 32 depends on the constant, so two are given. O~(n) hides log^20(n / delta), which at n = "
    "16 alone has a local exponent of 4: as printed the statement could not fail at these n, and 'almost linear' of "
    "section 1 is what is judged. Bits: the trained block is rounded; training itself is exact, and the theorem "
    "does not say which it means. With k = 2 and d = 1024 rounding errors average out, so few bits may do at any n: "
    "that Theta(log n) are enough is judged, that they are needed cannot be seen. Lemma 19's bound is larger here "
    "than the signal it is to show; wen2024/lemmas has settings where it says something. That S[i] does not "
    "outweigh every other key after one step contradicts the words of section 3.3 alone: the first secret bit does, "
    "since Lemma 18 cancels what does not cancel."
)
HISTORY = (
    "Until the parts were declared, more than half of the seeds was enough for every statement. What is now phase 1 "
    "was called Lemma 19, which it is not; Lemma 19 has a part of its own. Earlier runs had n = 16, k = 4, d = "
    "4096, m = 2048, B = 8192, eps = 10 and three times Lemma 25's eta_2, ten seeds (right in nine, one-hot in "
    "all); eps = 10 leaves the range in which the hinge loss is linear, which Lemma 27 supposes. In the span of the "
    "embeddings m is free, so eps = 3 and Lemma 25's own eta_2 now work, with 60 seeds. The sweep of samples was "
    "tried with m = 256 n (six seeds, exponents 0.5 to 2.5, about 1.5 in the mean), 1024 n (eight seeds, 0 to 1.5) "
    "and 4096 n (eight seeds, -0.25 to 2.5), seeds 630 to 647; 1024 n was made primary and 256 n kept as ours, "
    "since the theorem speaks of appropriate settings. The bound of 1.5 was set before. k = n/8 in the sweeps and B "
    "= 8192 with m = 4096 and 65536 were tried and left: the smallest margins of the latter were 0.08 to 0.11. That "
    "bits grow with n was to be judged first; two significant bits were often enough at every n, so that what is "
    "judged now is that 2 log2(n) are enough."
)

register(
    Claim(
        id=ID,
        sentence=(
            "A simplified block with o(n k) parameters, trained with three steps of SGD on O~(n) samples of CoT "
            "data, reaches perfect accuracy with attention within n^-8 of one-hot on S[i], also with Theta(log n) "
            "bits: first the hidden weights correlate with the secret embeddings, then attention becomes one-hot, "
            "then the output mapping is learned."
        ),
        method=(
            "Three steps of SGD are taken on real batches. After each, the influence of every key on every step is "
            "read from the weights, the distance to one-hot attention and the smallest margin are bounded over all "
            "inputs, and accuracy is measured on 1,024 test sequences. Each statement about every step and input "
            "holds in a seed or does not. For several n the smallest batch is searched, on a grid of factors "
            "sqrt(2), from which two in a row end right and one-hot on every input; and the trained block is "
            "rounded."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n = 6, k = 2"),
            "cpu": Scale("smaller", "n = 8 to 32, k = 2 and 4; Assumption 2 is about n beyond any that can be run"),
            "paper": Scale(
                "smaller", "n = 8 to 128, k = 2 and 4; Assumption 2 is about n beyond any that can be run"
            ),
        },
        finding=(
            "After three steps every input was right in {right:.0%} of {right.n} seeds and attention one-hot to "
            "within n^-8 in {one_hot:.0%}; with k = 2 and m in proportion to n, the smallest batch grew as n to the "
            "power {samples} (m = 1024 n) and {samples_narrow} (256 n); 2 log2(n) bits were enough in {bits:.0%} of "
            "seeds at the worst n; after one step S[i] outweighed every other key in {phase_1:.0%}, and given the "
            "running parity in {phase_1_parity:.0%}."
        ),
        falls_short=(
            "What is primary is the trained block and its samples. The phases of the proof sketch (first, then, "
            "then) do not decide: the first, as worded, is the share in which S[i] outweighs every other key after "
            "one step, told above, and where that is refuted the sentence counts as reproduced without it. That few "
            "bits are enough could hardly fail at these n; the block is millions of times larger than o(n k)."
        ),
        deviations=(
            "Assumption 2 cannot be run: for n = 16, k = 4, eps = 3 and delta = 0.1 it asks for batches of 3 * 10^21 "
            "sequences; its interval for k holds no whole number below n of about 23,000; its condition B < n "
            "k is first met near n = 10^57, and Lemma 10's sqrt(4 k log(100 B m / delta) / d) < 0.01 beyond n = "
            "e^(10^49). The three steps are therefore taken at finite n with settings found by search. cpu: n = 16, "
            "k = 4, d = 4096 (Assumption 2: 24), m = 65536 (8), B = 16384, eps = 3, eta_0 = eta_1 for an expected "
            "score of 90 on the secret key, eta_2 = 4 eps m / 3 as in Lemma 25 (Assumption 2: 4 k eps / 3); k = 2 in "
            "the sweeps of n. All else is the paper's: frozen hypercube embeddings, Assumption 1, h = +-1/2m fixed, "
            "hinge loss, fresh samples in every step. paper: n = 32, sweeps up to 128; the paper has no experiment "
            "for the theorem. smoke: n = 6, k = 2."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        published=lambda rows: rows[rows["metric"].isin([*PUBLISHED, *MAPS])],
        figures=figures,
        clarity=CLARITY,
        history=HISTORY,
    )
)
