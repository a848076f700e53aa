"""huang2025, Theorems 4.1 and 5.1: does the theory model learn to route by both blocks of Q, and self-train?

Algorithm 1 is run on C6 at several d and Algorithm 2 on a symmetric group. Beyond the paper, Algorithm 1 is run on
the symmetric group too, and Algorithm 2 on C6, so that the effect of the group is separated from that of the
algorithm. The constants were chosen on pilot runs with other random streams. The slots of W are trained one by one,
which changes nothing, each with its own step size; the three blank slots are not trained, and are given in
generation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from interp.claims.huang2025._runs import REACHED
from interp.claims.huang2025._theory_runs import TheoryRun, accuracy_at, final, lead, run_theory, slopes
from interp.core.claim import Claim, Item, register
from interp.core.judging import seed_verdict
from interp.core.verdict import Verdict, judged
from interp.statistics import cautious_mean
from probes.rows import with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "huang2025/thm4.1"
BALANCED = 0.2
"""The largest relative difference of the two diagonals that counts as balanced."""
SMALL = 0.1
"""Other entries of Q are small when their mean absolute value is below this share of the diagonals."""
POWER = 0.25
"""The smallest power of d, or multiple of log d, that counts as growth."""
SHRINKING = -0.5
"""The power of d below which the share of the other entries shrinks; Lemma D.45 says -1 up to logarithms."""
DOUBLING = 0.8
"""The smallest growth of log2 of the length reached, per stage, that counts as doubling."""
FAILED = 0.5
"""The accuracy below which a length is not solved."""
AS_FAR = -0.5
"""Difference of log2 of the lengths reached above which the symmetric group counts as reaching as far as C6."""


@dataclass(frozen=True)
class Thm41:
    """Algorithm 1 on C6 at every size, Algorithm 2 on a symmetric group; and each on the other group at one size."""

    sizes: tuple[int, ...]
    seeds: int
    symmetric: str = "S4"
    symmetric_d: int = 128
    """Where Algorithm 1 is run on the symmetric group; one of the sizes."""
    recursive_d: int = 159
    stages: int = 4
    simple_stages: int = 1
    """How many of the stages are run on C6."""
    longest: int = 128
    first: float = 1.0
    budget: float = 0.2
    most: int = 2000
    n_test: int = 64


PRESETS = {
    "smoke": Thm41(
        (32, 40), seeds=2, symmetric="S3", symmetric_d=40, recursive_d=32, stages=2, longest=8, first=0.3, budget=0.1,
        most=30, n_test=16,
    ),
    "cpu": Thm41((32, 48, 64, 96, 128, 192), seeds=5),
    "paper": Thm41(
        (64, 128, 256, 512, 1024), seeds=10, symmetric_d=512, recursive_d=541, stages=7, simple_stages=7,
        longest=256, n_test=256,
    ),
}  # fmt: skip


def items(preset: Thm41) -> list[Item]:
    """One run for each algorithm, group, size and seed; the long ones come first."""
    first = TheoryRun(
        "algorithm_1", "C6", 0, lr=0.2, first=preset.first, budget=preset.budget, stages=preset.stages,
        most=preset.most, longest=preset.longest, n_test=preset.n_test,
    )  # fmt: skip
    second = replace(first, algorithm="algorithm_2", d=preset.recursive_d, lr=0.1)
    runs = [
        replace(second, group=preset.symmetric),
        replace(second, stages=preset.simple_stages),
        replace(first, group=preset.symmetric, d=preset.symmetric_d),
        *(replace(first, d=d) for d in sorted(preset.sizes, reverse=True)),
    ]
    return [replace(run, seed=seed).item for run in runs for seed in range(preset.seeds)]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model."""
    return run_theory(TheoryRun(**item.parameters))


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The blocks of Q and the attention along d; the lengths along the stages; and both on the other group."""
    return [*_first(rows), *_second(rows), *_beyond(rows)]


def _first(rows: pd.DataFrame) -> list[Verdict]:
    found = final(rows, "algorithm_1", simple=True)
    found["log_d"] = np.log(found["d"])
    by_size = found.groupby("d")
    a, b = found["diagonal_43"], found["diagonal_44"]
    imbalance = (2 * (a - b).abs() / (a.abs() + b.abs())).groupby(found["unit"]).max()
    share = (found["other_43"] + found["other_44"]) / (a.abs() + b.abs())
    largest = (found[["largest_other_43", "largest_other_44"]].max(axis=1) / (a + b) * 2).groupby(found["d"]).mean()
    low, high = int(found["d"].min()), int(found["d"].max())

    def ends(column: str, form: str) -> str:
        means = by_size[column].mean()
        return f"{format(means[low], form)} at d = {low}, {format(means[high], form)} at d = {high}"

    ahead = lead(rows).mean()
    capped = int((2 ** found["reach"] >= found["d"] - 15).sum())
    return [
        seed_verdict(
            ID, "the diagonals of Q_{4,3} and Q_{4,4} are balanced", imbalance,
            "relative difference of the mean diagonals after training, largest over d", BALANCED, "below",
            note=f"Q_43: {ends('diagonal_43', '.2f')}; Q_44: {ends('diagonal_44', '.2f')}; on the way Q_43 is ahead "
            f"by up to {ahead:.2f} at d = {high}",
        ),
        seed_verdict(
            ID, "and grow like log d", slopes(found, "log_d", (a + b) / 2),
            "slope of the mean diagonal against log d", POWER, "above",
        ),
        seed_verdict(
            ID, "other entries stay small", share.groupby(found["unit"]).max(),
            "mean absolute value of the other entries over the diagonals' mean, largest over d", SMALL, "below",
            note=f"the largest other entry over the diagonal: {largest[low]:.2f} at d = {low}, {largest[high]:.2f} "
            f"at d = {high}",
        ),
        seed_verdict(
            ID, "and shrink against the diagonals", slopes(found, "log_d", np.log(share)),
            "power of d by which that share changes", SHRINKING, "below",
        ),
        seed_verdict(
            ID, "attention concentrates as a power of d", -slopes(found, "log_d", np.log(found["error"])),
            "c in 1 - attention on the two clauses ~ d^-c, length 2", POWER, "above",
            note=f"attention elsewhere: {ends('error', '.3f')}",
        ),
        seed_verdict(
            ID, "the length solved grows as a power of d", slopes(found, "log_d", found["reach"] * np.log(2)),
            f"power of d in the length at which accuracy falls below {REACHED:g}, trained at 1 and 2", POWER, "above",
            note=f"log2 of the length: {ends('reach', '.2f')}; {capped} of {len(found)} runs solve every length",
        ),
    ]  # fmt: skip


def _second(rows: pd.DataFrame) -> list[Verdict]:
    found, accuracy = final(rows, "algorithm_2", simple=False), accuracy_at(rows, simple=False)
    stages = sorted(found["stage"].astype(int).unique())
    twice = pd.concat([accuracy.xs(stage, level="stage")[2 ** (stage + 1)] for stage in stages], axis=1).min(axis=1)
    by_stage = found.groupby("stage")
    lengths = ", ".join(f"{2**value:.0f}" for value in by_stage["reach"].mean())
    errors = ", ".join(f"{value:.2f}" for value in by_stage["error"].mean())
    labels = found["labels_right"].min() if "labels_right" in found else np.nan
    longest = 2 ** (stages[-1] + 1)
    return [
        _accuracy_verdict(
            "every stage solves twice its length", twice,
            "accuracy of stage k at length 2^(k+1), smallest over stages", REACHED, "above",
            note=f"self-labels right: at least {labels:.3f}; attention elsewhere, at each stage's length: {errors}",
        ),
        seed_verdict(
            ID, "the length solved doubles with each stage", slopes(found, "stage", found["reach"]),
            f"log2 of the length at which accuracy falls below {REACHED:g}, per stage", DOUBLING, "above",
            note=f"lengths (geometric means over seeds): {lengths}",
        ),
        _accuracy_verdict(
            "the first stage alone does not get there", accuracy.xs(1, level="stage")[longest],
            f"accuracy of stage 1 at length {longest}, that of the last stage's double", FAILED, "below",
        ),
    ]  # fmt: skip


def _beyond(rows: pd.DataFrame) -> list[Verdict]:
    simple, symmetric = (
        final(rows, "algorithm_1", simple=simple).set_index(["unit", "d"])["reach"] for simple in (True, False)
    )
    longest = 2 ** (int(final(rows, "algorithm_2", simple=False)["stage"].max()) + 1)
    difference = (symmetric - simple).dropna().groupby("unit").mean()
    return [
        seed_verdict(
            ID, "beyond the paper: by Algorithm 1 the symmetric group gets as far as C6", difference,
            "difference of log2 of the lengths reached at the same d", AS_FAR, "above",
        ),
        _accuracy_verdict(
            "beyond the paper: by Algorithm 2 the first stage fails for C6 too",
            accuracy_at(rows, simple=True).xs(1, level="stage")[longest],
            f"accuracy of stage 1 at length {longest}, group C6", FAILED, "below",
        ),
    ]  # fmt: skip


def _accuracy_verdict(
    part: str,
    by_seed: pd.Series,
    quantity: str,
    threshold: float,
    direction: Literal["above", "below"],
    note: str = "",
) -> Verdict:
    """The verdict on the mean over seeds of an accuracy, which stays in [0, 1]."""
    return judged(
        cautious_mean(by_seed.to_numpy(float), rng=0, bounds=(0, 1)), claim=ID, part=part, quantity=quantity,
        threshold=threshold, direction=direction, unit="seeds", note=note,
    )  # fmt: skip


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The blocks of Q along the training; error and length against d; accuracy by stage of self-training."""
    from interp.claims.huang2025._theory_figures import draw_blocks, draw_powers, draw_stages

    return {
        "blocks": draw_blocks(with_settings(rows[rows["condition"] == "algorithm_1"])),
        "powers": draw_powers(
            {name: final(rows, "algorithm_1", simple=name == "C6") for name in ("C6", "symmetric")}
        ),
        "stages": draw_stages(
            with_settings(rows[(rows["condition"] == "algorithm_2") & (rows["metric"] == "accuracy")])
        ),
    }


register(
    Claim(
        id=ID,
        sentence=(
            "Trained by Algorithm 1 on lengths 1 and 2 only, the diagonals of Q_{4,3} and Q_{4,4} grow together and "
            "other entries stay small; attention on the two target clauses is 1 - O(d^-c), and lengths up to O(d^c) "
            "are solved. For symmetric groups the recursive self-training of Algorithm 2 doubles the solvable length "
            "at each stage."
        ),
        test=(
            "Means over seeds with 95% intervals, lengths by free-running generation with all steps right. Algorithm "
            f"1: the mean diagonals differ by less than {BALANCED:g} at every d, and grow by more than {POWER:g} log "
            f"d; other entries have a mean size below {SMALL:g} of them, falling faster than d^{SHRINKING:g}; "
            f"attention elsewhere falls as d^-c with c above {POWER:g}, and the length at which accuracy falls below "
            f"{REACHED:g} grows with a power above {POWER:g}. Algorithm 2: stage k has accuracy above {REACHED:g} at "
            f"length 2^(k+1), the length solved grows by more than {DOUBLING:g} octaves per stage, and stage 1 is "
            f"below {FAILED:g} at the last stage's double. Beyond the paper: by Algorithm 1 the symmetric group gets "
            f"no more than {-AS_FAR:g} octaves less far than C6, by Algorithm 2 stage 1 fails for C6 too."
        ),
        deviations=(
            "The theorems leave the constants open; these are ours: C_B = 3, m = 12 neurons, q = 4, rho = 4 / log d "
            "(with a smaller rho all neurons would start in their linear part at these d). The smoothed ReLU is 0 "
            "below 0 (Assumption B.2 is not fully legible in our copy). Batches of fresh sentences stand for the "
            "population: 144 for W, 128 for Q. Steps for what is learned of each variable are in units of the number "
            "of variables. The paper asks for poly(d) steps: Q gets 0.2 d^1.5 steps of size 0.2, so the fitted "
            "powers are those of this budget. cpu: Algorithm 1 on C6, d from 32 to 192; Algorithm 2 on S4 (solvable, "
            "where the paper's interest is in non-solvable groups), d = 159 with 130 variables, ending a stage when "
            "its loss is below d^-0.6; five seeds. paper: d up to 1024, length 256, all stages for C6, ten seeds. "
            "The claim is that quantities grow or shrink with d and with the stages, which a range of finite d can "
            "show. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
