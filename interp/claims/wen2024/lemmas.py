"""wen2024, Lemmas 7 to 27: do the quantities of Theorem 3's proof keep to their bounds?

Under Assumption 2 "sufficiently large n" is beyond any n that exists (see `deviations`). But what the proofs use of
it are inequalities between n, k, d, m, B and the learning rates, and these can be met: the dynamics stay in the span
of the embeddings, so d enters through a Gram matrix, and neurons with equal signs stay equal, so m is a number
(`toy_models.parity.span`). Here d is 8 million and m 57 and 72 million, as the proofs ask, and lemmas are evaluated
as printed, beside a mended version where it is false. In two more arms gradients are enumerated over all 2^n inputs:
with the same settings, and with Assumption 2's own formulas.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.claims.wen2024._lemmas import ARMS, DELTA, parts, summary
from interp.claims.wen2024._worlds_lemmas import lemma_worlds
from interp.core.claim import Claim, Item, Scale, register
from interp.core.loops import Loop
from probes.rows import setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/lemmas"
EPS = 3.0
"""The largest for which the outputs that Lemma 27 has, up to eps/3, stay where the hinge loss is linear."""
LARGEST = 1e12
"""Stands for a ratio without end: a score that should be positive and is not."""


@dataclass(frozen=True)
class Lemmas:
    """Three steps of SGD for each size and seed."""

    sampled: tuple[tuple[int, int], ...]
    """(n, k) with batches of B sequences."""
    enumerated: tuple[int, int]
    """(n, k) with all 2^n inputs as each batch."""
    batch: int
    seeds: int
    first_unit: int = 0


PRESETS = {
    "smoke": Lemmas(((8, 2), (12, 2)), (6, 2), batch=2**12, seeds=2),
    "cpu": Lemmas(((32, 3), (80, 2)), (12, 3), batch=2**15, seeds=60),
    "paper": Lemmas(((32, 3), (96, 4), (192, 4)), (16, 4), batch=2**17, seeds=100),
}


@dataclass(frozen=True)
class _Run:
    arm: str
    n: int
    k: int
    batch: int
    seed: int

    @property
    def item(self) -> Item:
        return Item(f"{self.arm},n={self.n},k={self.k},seed={self.seed}", asdict(self))


def items(preset: Lemmas) -> list[Item]:
    """One run for each arm, size and seed, the long ones first."""
    sizes = [("sampled", *size) for size in sorted(preset.sampled, reverse=True)]
    sizes += [(arm, *preset.enumerated) for arm in ("enumerated", "assumed")]
    return [
        _Run(arm, n, k, preset.batch, seed).item
        for arm, n, k in sizes
        for seed in range(preset.first_unit, preset.first_unit + preset.seeds)
    ]


def _drawn(p: Mapping[str, Any]) -> int:
    """Sequences of each batch; a rehearsal draws fewer, at the sizes that the whole batch asks for."""
    return p.get("drawn") or p["batch"]


LOOPS = (
    Loop(
        "sequences of each batch",
        lambda p: _drawn(p) if p["arm"] == "sampled" else 0,
        lambda p, n: {"drawn": n},
        least=4096,
        holds=lambda p: 3 * 8 * (p["n"] + 2 * p["k"]),  # three batches of tokens and answers
    ),
)
"""What an item repeats."""


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Takes three steps and gives every quantity over its bound."""
    import torch

    from toy_models.parity.lemmas import assumed_settings, bounds_over, proof_settings
    from toy_models.parity.span import random_gram, span_block
    from toy_models.parity.task import Parity
    from toy_models.parity.three_steps import every_sequence

    run = _Run(**{name: value for name, value in item.parameters.items() if name != "drawn"})
    task = Parity(n=run.n, k=run.k, secret_seed=run.seed, order="random")
    generator = torch.Generator().manual_seed(run.seed)
    if run.arm == "assumed":
        at = assumed_settings(run.n, run.k, EPS, DELTA)
    else:
        at = proof_settings(run.n, run.k, run.batch, EPS, DELTA)
    gram = random_gram(2 * task.n_ctx, at.d_model, generator)
    block = span_block(task, gram, at.m, EPS, generator)
    if run.arm == "sampled":
        batches = tuple(task.sample(_drawn(item.parameters), generator) for _ in range(3))
    else:
        batches = (every_sequence(task),) * 3
    found = bounds_over(block, batches, at)
    found |= {"d_model": float(at.d_model), "m": float(at.m), "batch": float(at.batch)}
    labels: dict[str, Any] = {"run": item.name, "condition": run.arm, "unit": str(run.seed)}
    values = [min(value, LARGEST) if name[0].isdigit() else value for name, value in found.items()]
    return table(metric=list(found), value=values, setting=setting(n=run.n, k=run.k), **labels)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Every quantity over its bound, lemma by lemma."""
    from interp.claims.wen2024._lemma_figures import draw_over_bounds

    return {"over_bounds": draw_over_bounds(with_settings(rows), ARMS)}


DEVIATIONS = (
    "The lemmas stand under Assumption 2, for sufficiently large n. Its interval for k holds no whole number below n "
    "of about 23,000, B < n k is first met near n = 10^57, and Lemma 10's sqrt(4 k log(100 B m / delta) / d) < 0.01 "
    "beyond n = e^(10^49). So Assumption 2's formulas are replaced by the inequalities that the proofs draw from it "
    "(Lemma 5): eta_0 at the upper end of 5.4, m from 5.6, d from Lemmas 10 and 21. Not met: 5.1 (B < n k and d < "
    "n), which the proof of Lemma 19 uses to drop eta_0/(m n) sqrt(k log/B), here 5 to 8 times the printed bound, so "
    "that Lemma 19 is judged outside its premises and is not primary; 5.7 (eta_2/eta_0 is 5 at n = 32, 2 at n = 80); "
    "Lemma 15's 1/200; the 1/1000 of Lemma 21's (6) to (8), which needs n of about 124; Lemma 25's 1/200m. k is 2 or "
    "3. eta_2 is Lemma 25's "
    "4 eps m / 3 (Assumption 2: 4 k eps / 3, half of it). Lemmas speak of quantities that never occur: the query (n "
    "+ 1, 1), which is no input, is left out of Lemmas 16 and 21; Table 1's statistics are taken at i > n and j <= "
    "i, since at i = n and at j = i + 1 they are of order B for trivial reasons and Lemma 7 would be false. Lemma 10 "
    "is for one input and neuron with probability 1 - delta / 50 B m; here for all at once. Norms of Lemmas 22 and "
    "24 are bounded by twice the attention off S[i], as in the proof of Lemma 32."
)
CLARITY = (
    "Lemma 7 prints its bound on alpha times 1(j = S[i]): where j is not S[i] it says that a sum of B random signs "
    "is exactly 0, which is false for every batch with a fluctuation; without the indicator, as Table 1 has it, it "
    "is judged as ours. Lemma 18 cancels alpha over the running parity, also before the first step, where only "
    "parity 0 occurs and by the paper's own Table 1 nothing cancels: a term eta_0 / (16 m (n + 1)) on the first "
    "secret bit is left in every kappa, 2 i / (n + 1) times the signal. Lemma 14, on which it rests, also puts "
    "alpha's mean for alpha. So Lemma 19 is false wherever its bound is below that term, and under Assumption 2 it "
    "is, since B d / (n k) = C_2 log^21.1(n / delta): more n does not help. Where B < n k and d < n the bound "
    "exceeds the term below n of about 10^8, and the lemma says less than the signal that it is to show. Lemma 21 "
    "survives, because the first bit is uncorrelated with later answers; that other keys score at most half holds "
    "only from n of about 62 on (the end token gets -16 / (n + 1) of a later step's score from the softmax), and is "
    "judged at the largest n. Lemma 25 lacks the frequency of each pair of bits, 1/4 (1/2 at the first step), Lemma "
    "26's sum 1/2: the output is eps/24 (eps/6 at the first step) instead of eps/3, which still lies within eps/3 "
    "of eps/3: Lemma 26 as printed says no more than the right sign and less than 2 eps/3. Lemma 25 prints W^(2), "
    "before the third step; W^(3) is meant and used, at e_{S[i],b}. Its (eta_0 + eta_1)/(20 m n) does not follow "
    "from Lemma 17, and its eps/300 asks for a larger B than ours. Lemma 16's proof adds 3 eps/80 and eps/80 to 3 "
    "eps/80. Lemma 21 prints its leading term with alpha^2 / (8 B m i') for alpha^2 / (8 B^2 m i'^2). Lemmas 24 and "
    "26 assert the events of the lemmas before them; each is judged here by its own inequality."
)

register(
    Claim(
        id=ID,
        sentence=(
            "With high probability the batch is balanced (Lemma 7), neurons are on where nu is positive (10, 16), "
            "the hidden weights know S[i] and nothing else after one step (18, 19), scores and attention single out "
            "S[i] after two (21, 22), and stay so after three, when the output is right (24 to 26)."
        ),
        method=(
            "Three steps of SGD on the hinge loss are taken in the span of the embeddings, at d of 8 million and m "
            "of 57 and 72 million, where most inequalities that the proofs draw from Assumption 2 hold. Each "
            "quantity is divided by its printed bound; a seed passes if the ratio is at most 1, and a lemma holds "
            "if more than nine seeds in ten pass at every size. Two more arms enumerate all inputs: the same "
            "settings, and Assumption 2's own."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: n = 6 to 12"),
            "cpu": Scale("smaller", "n = 32 and 80, k = 3 and 2; Assumption 2 is about n beyond any that can be run"),
            "paper": Scale("smaller", "n = 32 to 192, k up to 4; Assumption 2 is about n beyond any that can be run"),
        },
        finding=(
            "Of {lemma16.n} seeds, at the worst size, the bounds as printed held in {lemma10:.0%} (Lemma 10), "
            "{lemma16:.0%} (16), {lemma22:.0%} (22), {lemma24:.0%} (24) and {lemma26:.0%} (26), of Lemma 21 in "
            "{lemma21_all:.0%}, at the largest n in {lemma21:.0%}; but in {lemma7:.0%} (7), {lemma18:.0%} (18, "
            "gradients enumerated), {lemma19:.0%} (19, outside its premises) and {lemma25:.0%} (25). Mended: Lemma 7 "
            "without its indicator {lemma7_meant:.0%}, Lemmas 18 and 19 with the first step's term "
            "{lemma18_mended:.0%} and {lemma19_mended:.0%}, Lemma 25 with the pairs' frequencies "
            "{lemma25_mended:.0%}."
        ),
        falls_short=(
            "The sentence is our summary of ten lemmas. The last one of each stage is primary (16, 18, 21, 24, 26); "
            "how the others ended stands in the line above. 16 and 24 could hardly fail: 16 holds by the choice of d "
            "and eta_0, and 24 follows from 21 by a wide margin. The informative ones are 18, 21 (judged at the "
            "largest n) and 26, beside 7, 19 and 25, which are not primary."
        ),
        deviations=DEVIATIONS,
        clarity=CLARITY,
        history=(
            "New. Until now Lemma 19 was judged in wen2024/thm3 by a neighbour of it. Settings, bounds and sizes "
            "were fixed on seed 500; smoke runs of seeds 0 and 1 were seen. The largest n was then set "
            "from 96 to 80, which was not looked at, to save time."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=lemma_worlds(PRESETS["cpu"]),
        figures=figures,
    )
)
