"""How is Theorem 4.1 of huang2025 judged? Powers of d, and the stages through which Q is said to go.

The mean size of the other entries of Q is not judged: a row of Q_{4,3} and Q_{4,4} together sums to zero at every
step (softmax gradients do), so that mean is the diagonals' over the number of variables, whatever was learned. The
largest other entry is judged instead.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from interp.claims.huang2025._runs import REACHED
from interp.claims.huang2025._theory_reading import last_values, lengths_reached, open_slope, slopes
from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

BALANCED = 0.2
"""The largest relative difference of the two diagonals that counts as balanced."""
SMALL = 0.1
"""Other entries of Q are small when the largest is below this share of the diagonals."""
POWER = 0.25
"""The smallest power of d, or multiple of log d, that counts as growth."""
SHRINKING = -0.5
"""The power of d below which the largest other entry shrinks against the diagonals."""
LEAD = 0.5
"""The smallest lead of Q_{4,3}, in units of 1 / log d, that counts as stage 2.1's."""
CLOSED = 0.5
"""The gap of attention closes if less than this share of its largest is left."""
NOISE = 1.5
"""The factor by which four times the sentences in a step must lessen the largest other entry if it is their noise."""
SHORT, LONG = 2, 8
"""The lengths at which equation 5 is judged, and told."""
EXPONENT = "the theorem leaves 0 < c* < 1 open; log d itself grows like d^0.23 from 32 to 192, and must not pass"
BY = ["d", "unit"]


@dataclass(frozen=True)
class Theory:
    """What the parts read of the rows, by seed and d."""

    runs: pd.DataFrame
    """After training: entries of Q, attention, lengths reached, and the largest lead and gap on the way."""
    calm: pd.DataFrame
    """Entries of Q of the runs with more sentences in a step."""


def summary(rows: pd.DataFrame) -> Theory:
    """What Algorithm 1 has come to; the fewest sentences in a step are those of the theorem's runs."""
    found = with_settings(rows)
    usual = found["batch"] == found.groupby("d")["batch"].transform("min")
    runs, with_length = found[usual], found[usual]["length"].notna()
    ways = runs[~with_length & (runs["update"] > 0)]
    last = last_values(ways, BY).join(_on_the_way(ways))
    accuracy = runs[runs["metric"] == "accuracy"]
    sampled = runs[runs["metric"] == "sampled"].pivot(index=BY, columns="length", values="value")
    last = last.join(lengths_reached(accuracy, BY)).join(
        sampled.rename(columns=lambda length: f"sampled_{int(length)}")
    )
    others = found[~usual & found["length"].isna() & (found["update"] > 0)]
    last = last.reset_index()
    return Theory(last.assign(log_d=np.log(last["d"].astype(float))), last_values(others, BY).reset_index())


def _on_the_way(ways: pd.DataFrame) -> pd.DataFrame:
    """The largest lead of Q_{4,3} over Q_{4,4} in any step, and of the predicate's attention over the answer's."""
    wide = ways.pivot(index=[*BY, "update"], columns="metric", values="value")
    lead = (wide["diagonal_43"] - wide["diagonal_44"]).groupby(BY).max()
    gap = (wide["predicate"] - wide["answer"]).abs().groupby(BY).max()
    return pd.DataFrame({"lead": lead, "largest_gap": gap})


def _diagonal(runs: pd.DataFrame) -> pd.Series:
    return (runs["diagonal_43"] + runs["diagonal_44"]) / 2


def _largest_other(runs: pd.DataFrame) -> pd.Series:
    """The largest other entry of both blocks over the mean diagonal."""
    return runs[["largest_other_43", "largest_other_44"]].max(axis=1) / _diagonal(runs).abs()


def concentration(found: Theory, level: float) -> Interval | NotMeasurable:
    """c in 1 - attention on the two clauses ~ d^-c."""
    return mean_over(-slopes(found.runs, "log_d", np.log(found.runs["error"])), level)


def length_power(found: Theory, level: float) -> Interval | NotMeasurable:
    """The power of d in the length reached; open where lengths that end the test could make it larger or smaller."""
    return open_slope(found.runs, "log_d", slopes(found.runs, "log_d", found.runs["reach"] * np.log(2)), level)


def sampled_power(found: Theory, level: float) -> Interval | NotMeasurable:
    """c in 1 - Acc ~ d^-c at the length of training."""
    return mean_over(-slopes(found.runs, "log_d", np.log1p(-found.runs[f"sampled_{SHORT}"])), level)


def balance(found: Theory, level: float) -> Interval | NotMeasurable:
    """The relative difference of the mean diagonals, largest over d in each seed."""
    a, b = found.runs["diagonal_43"], found.runs["diagonal_44"]
    return mean_over((2 * (a - b).abs() / (a.abs() + b.abs())).groupby(found.runs["unit"]).max(), level, (0.0, 2.0))


def diagonal_growth(found: Theory, level: float) -> Interval | NotMeasurable:
    """The slope of the mean diagonal against log d."""
    return mean_over(slopes(found.runs, "log_d", _diagonal(found.runs)), level)


def others(found: Theory, level: float) -> Interval | NotMeasurable:
    """The largest other entry over the diagonals, largest over d in each seed."""
    return mean_over(_largest_other(found.runs).groupby(found.runs["unit"]).max(), level, (0.0, np.inf))


def others_power(found: Theory, level: float) -> Interval | NotMeasurable:
    """The power of d by which the largest other entry changes against the diagonals."""
    return mean_over(slopes(found.runs, "log_d", np.log(_largest_other(found.runs))), level)


def noise(found: Theory, level: float) -> Interval | NotMeasurable:
    """The largest other entry over that of the run with more sentences in a step, at the same d and seed."""
    if found.calm.empty:
        return NotMeasurable("no run with more sentences in a step")
    calm = found.calm.set_index(BY)
    usual = found.runs.set_index(BY).loc[calm.index]
    return mean_over(_largest_other(usual) / _largest_other(calm), level, (0.0, np.inf))


def lead(found: Theory, level: float) -> Interval | NotMeasurable:
    """The largest lead of Q_{4,3}, in units of 1 / log d, least over d in each seed."""
    return mean_over((found.runs["lead"] * found.runs["log_d"]).groupby(found.runs["unit"]).min(), level)


def gap_left(found: Theory, level: float) -> Interval | NotMeasurable:
    """The gap of attention after training over the largest on the way, largest over d in each seed."""
    gap = (found.runs["predicate"] - found.runs["answer"]).abs() / found.runs["largest_gap"]
    return mean_over(gap.groupby(found.runs["unit"]).max(), level, (0.0, 1.0))


def _at_ends(found: Theory, columns: dict[str, str]) -> str:
    means = found.runs.groupby("d")[list(columns)].mean()
    low, high = means.index.min(), means.index.max()
    return "; ".join(
        f"{words}: {means[name][low]:.3g} at d = {low}, {means[name][high]:.3g} at d = {high}"
        for name, words in columns.items()
    )


def _largest(found: Theory) -> str:
    means = _largest_other(found.runs).groupby(found.runs["d"]).mean()
    return "by d: " + ", ".join(f"{value:.2f}" for value in means)


def _lengths(found: Theory) -> str:
    capped = f"{int(found.runs['capped'].sum())} of {len(found.runs)} runs solve every length tested"
    return f"{_at_ends(found, {'reach': 'log2 of the length'})}; {capped}"


def parts(_preset: object) -> list[Part]:
    """Powers of d, the blocks of Q after training, and the stages on the way."""
    return [*_powers(), *_blocks(), *_stages()]


def _powers() -> list[Part]:
    shared: dict[str, Any] = {
        "role": "paper",
        "unit": "seeds",
        "direction": "above",
        "threshold": POWER,
        "why": EXPONENT,
    }
    return [
        Part(
            key="concentrates", name="attention concentrates as a power of d", estimate=concentration,
            quantity="c in 1 - attention on the two clauses ~ d^-c, length 2", primary=True,
            source="Theorem 4.1, equation 8", note=partial(_at_ends, columns={"error": "elsewhere"}), **shared,
        ),
        Part(
            key="length", name="the length solved grows as a power of d", estimate=length_power, primary=True,
            quantity=f"power of d in the length at which accuracy falls below {REACHED:g}, trained at 1 and 2",
            source="Theorem 4.1, equation 7", note=_lengths, **shared,
        ),
        Part(
            key="sampled", name="the accuracy that is defined approaches 1 as a power of d", estimate=sampled_power,
            quantity=f"c in 1 - Acc ~ d^-c at length {SHORT}: answers drawn, given the true ones before",
            source="Theorem 4.1, equations 5 and 7: 1 - 1/poly(d)",
            note=partial(_at_ends, columns={f"sampled_{n}": f"Acc at length {n}" for n in (SHORT, LONG)}), **shared,
        ),
    ]  # fmt: skip


def _blocks() -> list[Part]:
    shared: dict[str, Any] = {"role": "paper", "unit": "seeds"}
    return [
        Part(
            key="grow", name="the diagonals grow like log d", estimate=diagonal_growth,
            quantity="slope of the mean diagonal against log d", direction="above", threshold=POWER,
            why="C > 0 in C log d is left open; a slope of 0.25 adds a sixth for each doubling of d",
            source="section 6.2.1, stage 2.3: both equal C log d + o(1)", **shared,
        ),
        Part(
            key="balanced", name="the diagonals of Q_{4,3} and Q_{4,4} are balanced", estimate=balance,
            quantity="relative difference of the mean diagonals after training, largest over d",
            direction="below", threshold=BALANCED,
            why="the gap is o(1) against C log d; a fifth is the most that a finite d may leave",
            source="section 6.2.1, stage 2.3", **shared,
            note=partial(_at_ends, columns={"diagonal_43": "Q_43", "diagonal_44": "Q_44"}),
        ),
        Part(
            key="others", name="other entries stay small", estimate=others,
            quantity="largest other entry of both blocks over the mean diagonal, largest over d",
            direction="below", threshold=SMALL,
            why="close to their initial values, which are zero: a tenth of the diagonals",
            source="section 6.2.1, stage 2.3: all other entries remain close to their initial values",
            note=_largest, **shared,
        ),
        Part(
            key="others_shrink", name="other entries shrink against the diagonals", estimate=others_power,
            quantity="power of d by which the largest other entry changes against the mean diagonal",
            direction="below", threshold=SHRINKING,
            why="Lemma D.45 has -1 up to logarithms; half of that allows for these",
            source="Lemma D.45 (b)", **shared,
        ),
        Part(
            key="noise", name="the largest other entry is noise of the batches", estimate=noise, role="control",
            quantity="the largest other entry over that with four times the sentences in a step, same d and seed",
            direction="above", threshold=NOISE, unit="seeds",
            why="noise of a mean of sentences would be halved; the paper descends on the population",
        ),
    ]  # fmt: skip


def _stages() -> list[Part]:
    shared: dict[str, Any] = {"role": "paper", "unit": "seeds"}
    return [
        Part(
            key="lead", name="the predicates' block is ahead at first", estimate=lead,
            quantity="largest lead of the mean diagonal of Q_{4,3} over that of Q_{4,4}, times log d, least over d",
            direction="above", threshold=LEAD, why="of order 1 / log d at least, with a constant left open",
            source="section 6.2.1, stage 2.1; Lemma D.18", **shared,
            note=partial(_at_ends, columns={"lead": "lead"}),
        ),
        Part(
            key="gap_closes", name="then the gap of attention closes", estimate=gap_left,
            quantity="|attention on the predicate - on the answer| after training over its largest on the way, "
            "largest over d",
            direction="below", threshold=CLOSED, why="o(1) at the end; half is the least that a finite d must show",
            source="section 6.2.1, stage 2.3", **shared,
            note=partial(_at_ends, columns={"largest_gap": "largest gap"}),
        ),
    ]  # fmt: skip
