"""How are Theorems 4.1 and 5.1 of huang2025 judged? Powers of d for Algorithm 1, stages for Algorithm 2.

The mean size of the other entries of Q is not judged: a row of Q_{4,3} and Q_{4,4} together sums to zero at every
step (softmax gradients do), so that mean is the diagonals' over the number of variables, whatever was learned. The
largest other entry is judged instead.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from interp.claims.huang2025._runs import REACHED
from interp.claims.huang2025._theory_runs import ends, lead, slopes
from interp.core.judging import mean_over, typical_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

BALANCED = 0.2
"""The largest relative difference of the two diagonals that counts as balanced."""
SMALL = 0.1
"""Other entries of Q are small when the largest is below this share of the diagonals."""
POWER = 0.25
"""The smallest power of d, or multiple of log d, that counts as growth."""
SHRINKING = -0.5
"""The power of d below which the largest other entry shrinks against the diagonals."""
EPSILON = 0.01
"""Theorem 5.1: attention off the two clauses."""
DOUBLING = 0.8
"""The smallest growth of log2 of the length reached, per stage, that counts as doubling."""
FAILED = 0.5
"""The accuracy below which a length is not solved."""
AS_FAR = -0.5
"""Difference of log2 of the lengths reached above which the symmetric group counts as reaching as far as C6."""
EXPONENT = "the theorem leaves 0 < c* < 1 open; log d itself grows like d^0.23 from 32 to 192, and must not pass"


@dataclass(frozen=True)
class Theory:
    """What the parts read of the rows."""

    first: pd.DataFrame
    """Algorithm 1 on C6, by seed and d."""
    other_first: pd.DataFrame
    """Algorithm 1 on the symmetric group."""
    second: pd.DataFrame
    """Algorithm 2 on the symmetric group, by seed and stage; accuracies have their lengths as columns."""
    other_second: pd.DataFrame
    """Algorithm 2 on C6."""
    ahead: float
    """By how much Q_{4,3} is ahead of Q_{4,4} on the way, at the largest d."""


def summary(rows: pd.DataFrame) -> Theory:
    """What each algorithm has come to on each group."""
    found = ends(rows)
    simple = found["group"] == "C6"
    one = found["condition"] == "algorithm_1"
    return Theory(found[one & simple], found[one & ~simple], found[~one & ~simple], found[~one & simple], lead(rows))


def _diagonal(runs: pd.DataFrame) -> pd.Series:
    return (runs["diagonal_43"] + runs["diagonal_44"]) / 2


def _largest_other(runs: pd.DataFrame) -> pd.Series:
    """The largest other entry of both blocks over the mean diagonal."""
    return runs[["largest_other_43", "largest_other_44"]].max(axis=1) / _diagonal(runs).abs()


def _log_d(runs: pd.DataFrame) -> pd.DataFrame:
    return runs.assign(log_d=np.log(runs["d"].astype(float)))


def balance(found: Theory, level: float) -> Interval | NotMeasurable:
    """The relative difference of the mean diagonals, largest over d in each seed."""
    a, b = found.first["diagonal_43"], found.first["diagonal_44"]
    return mean_over((2 * (a - b).abs() / (a.abs() + b.abs())).groupby(found.first["unit"]).max(), level, (0.0, 2.0))


def diagonal_growth(found: Theory, level: float) -> Interval | NotMeasurable:
    """The slope of the mean diagonal against log d."""
    return mean_over(slopes(_log_d(found.first), "log_d", _diagonal(found.first)), level)


def others(found: Theory, level: float) -> Interval | NotMeasurable:
    """The largest other entry over the diagonals, largest over d in each seed."""
    return mean_over(_largest_other(found.first).groupby(found.first["unit"]).max(), level, (0.0, np.inf))


def others_power(found: Theory, level: float) -> Interval | NotMeasurable:
    """The power of d by which the largest other entry changes against the diagonals."""
    return mean_over(slopes(_log_d(found.first), "log_d", np.log(_largest_other(found.first))), level)


def concentration(found: Theory, level: float) -> Interval | NotMeasurable:
    """c in 1 - attention on the two clauses ~ d^-c."""
    return mean_over(-slopes(_log_d(found.first), "log_d", np.log(found.first["error"])), level)


def length_power(found: Theory, level: float) -> Interval | NotMeasurable:
    """The power of d in the length reached; open where lengths that end the test could make it larger or smaller."""
    runs = _log_d(found.first)
    return _open_slope(runs, "log_d", slopes(runs, "log_d", runs["reach"] * np.log(2)), level)


def doubling(found: Theory, level: float) -> Interval | NotMeasurable:
    """log2 of the factor by which a stage extends the length reached; open like `length_power`."""
    return _open_slope(found.second, "stage", slopes(found.second, "stage", found.second["reach"]), level)


def _open_slope(runs: pd.DataFrame, x: str, by_seed: pd.Series, level: float) -> Interval | NotMeasurable:
    """A slope is larger if a value at large x is a floor or one at small x a cap, and the other way round."""
    large = runs[x] > runs[x].mean()
    up = (large & runs["capped"]) | (~large & runs["failed"])
    down = (~large & runs["capped"]) | (large & runs["failed"])
    return mean_over(by_seed, level, open_above=bool(up.any()), open_below=bool(down.any()))


def stage_attention(found: Theory, level: float) -> Interval | NotMeasurable:
    """Attention off the two clauses at the stage's own length, largest over the stages of a seed."""
    return typical_of(found.second["error"].groupby(found.second["unit"]).max(), level)


def twice(found: Theory, level: float) -> Interval | NotMeasurable:
    """The accuracy of stage k at length 2^(k+1), least of the stages of a seed."""
    values = [row[2 ** (int(row["stage"]) + 1)] for _, row in found.second.iterrows()]
    return typical_of(pd.Series(values, dtype=float).groupby(found.second["unit"].to_numpy()).min(), level)


def first_stage(found: Theory, level: float, *, simple: bool) -> Interval | NotMeasurable:
    """The accuracy of stage 1 at twice the length of the last stage."""
    runs = found.other_second if simple else found.second
    longest = 2 ** (int(found.second["stage"].max()) + 1)
    return typical_of(runs[runs["stage"] == 1][longest], level)


def symmetric_length(found: Theory, level: float) -> Interval | NotMeasurable:
    """log2 of the length that the symmetric group reaches over that of C6, at the same d and seed."""
    both = found.other_first.merge(found.first, on=["unit", "d"], suffixes=("", "_simple"))
    gaps = (both["reach"] - both["reach_simple"]).groupby(both["unit"]).mean()
    up = both["capped"].any() or both["failed_simple"].any()
    down = both["capped_simple"].any() or both["failed"].any()
    return mean_over(gaps, level, open_above=bool(up), open_below=bool(down))


def _at_ends(found: Theory, columns: dict[str, str]) -> str:
    means = found.first.groupby("d")[list(columns)].mean()
    low, high = means.index.min(), means.index.max()
    return "; ".join(
        f"{words}: {means[name][low]:.3g} at d = {low}, {means[name][high]:.3g} at d = {high}"
        for name, words in columns.items()
    )


def _diagonals(found: Theory) -> str:
    words = _at_ends(found, {"diagonal_43": "Q_43", "diagonal_44": "Q_44"})
    return f"{words}; on the way Q_43 is ahead by up to {found.ahead:.2f} at the largest d"


def _largest(found: Theory) -> str:
    means = _largest_other(found.first).groupby(found.first["d"]).mean()
    return "by d: " + ", ".join(f"{value:.2f}" for value in means)


def _lengths(found: Theory) -> str:
    capped = f"{int(found.first['capped'].sum())} of {len(found.first)} runs solve every length tested"
    return f"{_at_ends(found, {'reach': 'log2 of the length'})}; {capped}"


def _stages(found: Theory) -> str:
    by_stage = found.second.groupby("stage")
    lengths = ", ".join(f"{2**value:.0f}" for value in by_stage["reach"].mean())
    off = ", ".join(f"{value:.2f}" for value in by_stage["error"].mean())
    labels = found.second["labels_right"].min() if "labels_right" in found.second else np.nan
    return (
        f"by stage: lengths (geometric means over seeds) {lengths}; attention elsewhere {off}; self-labels right: at "
        f"least {labels:.3f}"
    )


def parts(_preset: object) -> list[Part]:
    """The blocks of Q and the attention along d; the lengths along the stages; and both on the other group."""
    return [*_first_parts(), *_second_parts(), *_other_parts()]


def _part(key: str, name: str, estimate: Callable[..., Any], quantity: str, claimed: tuple, **rest: Any) -> Part:
    direction, threshold, why = claimed
    rest = {"role": "paper", "unit": "seeds"} | rest
    return Part(
        key=key, name=name, estimate=estimate, quantity=quantity, direction=direction, threshold=threshold, why=why,
        **rest,
    )  # fmt: skip


def _first_parts() -> list[Part]:
    return [
        _part(
            "concentrates", "attention concentrates as a power of d", concentration,
            "c in 1 - attention on the two clauses ~ d^-c, length 2", ("above", POWER, EXPONENT),
            source="Theorem 4.1, equation 8", primary=True, note=partial(_at_ends, columns={"error": "elsewhere"}),
        ),
        _part(
            "length", "the length solved grows as a power of d", length_power,
            f"power of d in the length at which accuracy falls below {REACHED:g}, trained at 1 and 2",
            ("above", POWER, EXPONENT), source="Theorem 4.1, equation 7", primary=True, note=_lengths,
        ),
        _part(
            "balanced", "the diagonals of Q_{4,3} and Q_{4,4} are balanced", balance,
            "relative difference of the mean diagonals after training, largest over d",
            ("below", BALANCED, "the gap is o(1) against C log d; a fifth is the most that a finite d may leave"),
            source="section 6.2.1, stage 2.3", note=_diagonals,
        ),
        _part(
            "grow", "the diagonals grow like log d", diagonal_growth, "slope of the mean diagonal against log d",
            ("above", POWER, "C > 0 in C log d is left open; a slope of 0.25 adds a sixth for each doubling of d"),
            source="section 6.2.1, stage 2.3: both equal C log d + o(1)",
        ),
        _part(
            "others", "other entries stay small", others,
            "largest other entry of both blocks over the mean diagonal, largest over d",
            ("below", SMALL, "close to their initial values, which are zero: a tenth of the diagonals"),
            source="section 6.2.1, stage 2.3: all other entries remain close to their initial values", note=_largest,
        ),
        _part(
            "others_shrink", "other entries shrink against the diagonals", others_power,
            "power of d by which the largest other entry changes against the mean diagonal",
            ("below", SHRINKING, "Lemma D.45 has -1 up to logarithms; half of that allows for these"),
            source="Lemma D.45 (b)",
        ),
    ]  # fmt: skip


def _second_parts() -> list[Part]:
    return [
        _part(
            "twice", "every stage of self-training solves twice its length", twice,
            "accuracy of stage k at length 2^(k+1), least of the stages",
            ("above", REACHED, "1 - 1/poly(d) in the theorem; one sentence in ten may fail at this d"),
            source="Theorem 5.1 (1)", primary=True, note=_stages,
        ),
        _part(
            "stage_attention", "every stage's attention is on the two clauses", stage_attention,
            "attention elsewhere at the stage's own length, largest of the stages",
            ("below", EPSILON, "the theorem's own number: a constant smaller than 0.01"),
            source="Theorem 5.1 (2)", primary=True, note=_stages,
        ),
        _part(
            "doubles", "the length solved doubles with each stage", doubling,
            f"log2 of the length at which accuracy falls below {REACHED:g}, per stage",
            ("above", DOUBLING, "doubling is 1; a fifth is allowed for the grid of lengths and a finite d"),
            source="Theorem 1.3: each stage solves the next doubled length", note=_stages,
        ),
        _part(
            "first_fails", "the first stage alone does not get there", partial(first_stage, simple=False),
            "accuracy of stage 1 at twice the length of the last stage",
            ("below", FAILED, "not solved: more sentences fail than not"),
            source="Theorem 1.2 and section 5: only a constant factor, insufficient for much longer contexts",
        ),
    ]  # fmt: skip


def _other_parts() -> list[Part]:
    return [
        _part(
            "symmetric_as_far", "by Algorithm 1 the symmetric group gets as far as C6", symmetric_length,
            "difference of log2 of the lengths reached at the same d",
            ("above", AS_FAR, "no more than a factor of 1.4 less"), role="ours",
        ),
        _part(
            "c6_first_fails", "by Algorithm 2 the first stage fails for C6 too", partial(first_stage, simple=True),
            "accuracy of stage 1 at twice the length of the last stage, group C6",
            ("below", FAILED, "not solved, as for the symmetric group"), role="ours",
        ),
    ]  # fmt: skip
