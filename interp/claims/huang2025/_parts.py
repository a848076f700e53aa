"""What do the parts of huang2025's claims share? Preconditions, extremes of several means, and what they all say."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from interp.claims.huang2025._runs import SOLVES
from interp.core.judging import UNBOUNDED, mean_over, typical_of
from interp.core.parts import Estimator, NotMeasurable, Part
from interp.statistics import Interval

ENOUGH = 0.25
"""The share of seeds above which the runs that fulfil a precondition are no rarity; only these runs are judged."""
PAPERS_RUNS = (
    "The paper gives one layer, two heads, an MLP, Adam with 1e-4 for all parameters and 300 epochs, trained until "
    "the loss is near zero, apparently at length 5 alone; not the widths, the number of variables, the batches or "
    "the size of its data. "
)
OUR_RUNS = (
    "Here 170 variables, tokens of width 32 (so not orthogonal, unlike in the theory), an MLP of 512, batches of 64 "
    "fresh sentences, a first stage at length 1 with attention fixed, then length 5 with a cosine schedule and "
    "larger learning rates: 1e-3, and 1e-2 for attention, a hundred times the paper's. "
)
DEVIATIONS = PAPERS_RUNS + OUR_RUNS
"""How the runs of the figures differ from the paper's; said in every claim that rests on them."""
TOO_SMALL = "The smoke preset is far smaller still: it tests the code, not the claim."
REGIME = (
    "These runs are not in the paper's regime: attention learns at a hundred times its rate and ten times that of "
    "the other parameters, after a stage at length 1 which section 7 does not have, and this may remove the very "
    "bottleneck that separates the groups. What is not reproduced here is not reproduced in this regime; the paper's "
    "own is still to be run. "
)
BLOCKS = (
    "Section 7 does not say whether its block has a residual connection and LayerNorms; it calls its setting closely "
    "aligned with the theory, whose model (Definition 3.5) has neither. So the theory-like block decides, and the "
    "standard block is judged beside it. "
)
OURS = "our training rates and first stage at length 1, not the paper's regime"
"""What every scale says."""


def precondition(key: str, name: str, quantity: str, estimate: Estimator, note: Callable[[Any], str]) -> Part:
    """The part "`quantity`, a share of seeds, is no rarity"; the others are then judged on these seeds alone."""
    return Part(
        key=key,
        name=name,
        role="precondition",
        quantity=quantity,
        estimate=estimate,
        direction="above",
        threshold=ENOUGH,
        why="only such runs are judged, so it takes no more than that they are not rare: a quarter of the seeds",
        unit="seeds",
        note=note,
    )


SOLVING = f"share of seeds whose model has all steps right in at least {SOLVES:g} of the sentences of length 5"


def mean_of(values: pd.Series, level: float, bounds: tuple[float, float], which: str) -> Interval | NotMeasurable:
    """The mean over the seeds that `which` describes; not measurable below two of them."""
    if len(values) < 2:
        return NotMeasurable(f"{len(values)} seeds {which}; a mean with an interval needs two")
    return mean_over(values, level, bounds)


def typical_among(values: pd.Series, level: float, which: str) -> Interval | NotMeasurable:
    """The median over the seeds that `which` describes, of a share; not measurable without one."""
    return typical_of(values, level) if len(values) else NotMeasurable(f"no seeds {which}")


def extreme(
    values: pd.DataFrame,
    level: float,
    bounds: tuple[float, float] = UNBOUNDED,
    *,
    of: Callable[[pd.Series, float, tuple[float, float]], Interval | NotMeasurable] = mean_over,
    which: Literal["least", "largest"] = "least",
) -> Interval | NotMeasurable:
    """The least (or largest) of the means, or medians, of several columns over the units in the rows, NaN left out.

    The least is above a number if all are, so its lower end is the least of the lower ends at `level`; it is below
    one as soon as any is, so its upper end is the least of the upper ends at a level corrected for as many columns
    (Bonferroni). Columns with fewer than two values are left out.
    """
    if which == "largest":
        found = extreme(-values, level, (-bounds[1], -bounds[0]), of=of)
        if isinstance(found, NotMeasurable):
            return found
        return replace(found, value=-found.value, low=-found.high, high=-found.low)
    columns = [values[name].dropna() for name in values]
    columns = [column for column in columns if len(column) > 1]
    if not columns:
        return NotMeasurable("nothing was measured at two seeds or more")
    plain, corrected = (
        [found for column in columns if isinstance(found := of(column, one, bounds), Interval)]
        for one in (level, 1 - (1 - level) / len(columns))
    )
    worst = int(np.argmin([found.value for found in plain]))
    return Interval(
        plain[worst].value,
        min(found.low for found in plain),
        min(found.high for found in corrected),
        level,
        plain[worst].n,
        f"least of {len(columns)}, {plain[worst].method}",
    )
