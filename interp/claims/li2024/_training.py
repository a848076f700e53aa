"""How long does li2024's model train until its loss, and its attention on other steps, are small? Times and growth.

Along a line one quantity of the setup varies. The time to reach a level is the number of updates after which the
curve stays below it; its growth is an exponent for each seed: the slope of log T over the log of the quantity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.li2024._estimates import Bands, bands, largest, least
from interp.claims.li2024._factors import Growth, exponents, mean_slope, needed_examples
from interp.core.judging import share_of
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import with_settings

LEVELS = (0.2, 0.1, 0.05, 0.02)
"""Losses (epsilon of Theorem 1) whose times are compared; the last is the one that other lines are judged at."""
GONE = 0.1
"""The attention on other steps (epsilon of Lemma F.6) whose time is T_1."""
SHOWN = (0.5, 1.0, 2.0, 4.0)
"""Context examples times alpha, where examples share the query's pattern by chance: e^-4 of the prompts have none."""
LEARNED, SHORT = 0.05, 0.1
"""The loss that SHOWN[-1] / alpha examples have to reach, and that at which the required number is read off: prompts
without an example of the query's pattern, whose loss is about a half, leave 0.01 and 0.18 at SHOWN of 4 and 1."""
EARLY = 0.3
"""A level of it at which the first stage is half over: the times between the two tell a logarithm from a power."""


@dataclass(frozen=True)
class Curves:
    """Loss and attention on other steps along the training, by line."""

    lines: Mapping[str, tuple[Float[np.ndarray, "_"], Mapping[str, Sequence[Float[np.ndarray, "_ seed"]]]]]
    """By line: its values, and by metric the curve of each."""
    updates: Mapping[str, Sequence[Float[np.ndarray, "_"]]]
    """By line: the updates at which each value was measured."""

    def growth(self, line: str, metric: str, level: float) -> Growth | None:
        """The times of a line; None if it was not measured."""
        if line not in self.lines or len(self.lines[line][0]) < 2:
            return None
        values, curves = self.lines[line]
        found = [needed_examples(at, curve[None], level) for at, curve in zip(self.updates[line], curves[metric])]
        return Growth(values, *(np.concatenate(parts) for parts in zip(*found)))


def summary(rows: pd.DataFrame) -> Curves:
    """The curves of every line; values are those of the quantity that varies, so that times grow as it falls.

    Times grow with M and K, of which the reciprocals are taken: every exponent is that of 1/value.
    """
    found = with_settings(rows)
    wide = found.pivot(index=["line", "x", "update"], columns=["metric", "unit"], values="value").sort_index(axis=1)
    metrics = wide.columns.get_level_values("metric").unique()
    tables = {str(metric): wide[metric].to_numpy(float) for metric in metrics}
    names, values, updates = (wide.index.get_level_values(level).to_numpy() for level in ("line", "x", "update"))
    lines, times = {}, {}
    for line in np.unique(names):
        of_line = np.unique(values[names == line])
        places = [(names == line) & (values == value) for value in of_line]
        curves = {metric: [curve[place] for place in places] for metric, curve in tables.items()}
        lines[str(line)] = (of_line.astype(float), curves)
        times[str(line)] = [updates[place].astype(float) for place in places]
    return Curves(lines, times)


def exponent(
    found: Curves, level: float, *, line: str, metric: str = "loss", at: float = LEVELS[-1]
) -> Interval | NotMeasurable:
    """p of T ~ (1/value)^p along a line, the mean over seeds."""
    return mean_slope(_bands(found, level, line, metric, at), level)


def _bands(found: Curves, level: float, line: str, metric: str, at: float) -> Bands | NotMeasurable:
    growth = found.growth(line, metric, at)
    return NotMeasurable(f"no line {line} in these rows") if growth is None else exponents(growth, level)


def level_exponent(found: Curves, level: float) -> Interval | NotMeasurable:
    """p of T ~ epsilon^-p at the base, over LEVELS."""
    return mean_slope(_level_bands(found, level), level)


def _level_bands(found: Curves, level: float) -> Bands | NotMeasurable:
    if "base" not in found.lines:
        return NotMeasurable("no base in these rows")
    curve, at = found.lines["base"][1]["loss"][0], found.updates["base"][0]
    times = [needed_examples(at, curve[None], epsilon) for epsilon in LEVELS]
    needed, more, fewer = (np.concatenate(part) for part in zip(*times))
    return exponents(Growth(np.array(LEVELS), needed, more, fewer), level)


def largest_excess(found: Curves, level: float, *, bounds: Mapping[str, float]) -> Interval | NotMeasurable:
    """The exponent of T minus that of the bound, for the quantity where it is largest; `levels` is epsilon itself."""
    problem = _unmeasured(found, bounds)
    return largest(partial(_beyond, found, bounds=bounds), level) if problem is None else problem


def least_growth(found: Curves, level: float, *, lines: Sequence[str]) -> Interval | NotMeasurable:
    """The exponent of the quantity on which T depends least."""
    bounds = dict.fromkeys(lines, 0.0)
    problem = _unmeasured(found, bounds)
    return least(partial(_beyond, found, bounds=bounds), level) if problem is None else problem


def _each(found: Curves, line: str, level: float) -> Bands | NotMeasurable:
    return _level_bands(found, level) if line == "levels" else _bands(found, level, line, "loss", LEVELS[-1])


def _unmeasured(found: Curves, bounds: Mapping[str, float]) -> NotMeasurable | None:
    each = [_each(found, line, 0.95) for line in bounds]
    return next((e for e in each if isinstance(e, NotMeasurable)), None)


def _beyond(found: Curves, level: float, *, bounds: Mapping[str, float]) -> Bands:
    each = [(e, bound) for line, bound in bounds.items() if isinstance(e := _each(found, line, level), Bands)]
    value, low, high = (
        np.concatenate([getattr(e, end) - bound for e, bound in each]) for end in ("value", "low", "high")
    )
    return Bands(value, low, high, each[0][0].n)


def straightness(found: Curves, level: float, *, line: str) -> Interval | NotMeasurable:
    """How fast T rises with 1/value up to the middle value of a line, over how fast from it on, the mean over seeds.

    Slopes by least squares, values ascending: 1 if T = a + b / value; more if it grows faster, less if slower.
    """
    growth = found.growth(line, "loss", LEVELS[-1])
    if growth is None or len(growth.values) < 3:
        return NotMeasurable(f"fewer than three values of {line} in these rows")
    if growth.more.any() or growth.fewer.any():
        return NotMeasurable("the loss does not cross the level within the training at every value")
    if growth.needed.shape[1] < 2:
        return NotMeasurable("one seed only; a mean with an interval needs two")
    middle, x = len(growth.values) // 2, 1 / growth.values
    below, above = (
        np.polyfit(x[part], growth.needed[part], 1)[0] for part in (slice(middle + 1), slice(middle, None))
    )
    result = bands((below / above)[None], level)
    ends = float(result.value[0]), float(result.low[0]), float(result.high[0])
    return Interval(*ends, level, result.n, "mean over seeds, t")


def length_line(shown: float) -> str:
    """The name of the line of prompts with shown / alpha context examples."""
    return f"length_{shown:g}"


def share_reaching(found: Curves, level: float) -> Interval | NotMeasurable:
    """The share of seeds whose loss comes below LEARNED with SHOWN[-1] / alpha context examples, at every alpha."""
    growth = found.growth(length_line(SHOWN[-1]), "loss", LEARNED)
    if growth is None:
        return NotMeasurable(f"no prompts with {SHOWN[-1]:g}/alpha context examples in these rows")
    return share_of((~growth.more.any(0)).tolist(), level)


def length_growth(found: Curves) -> Growth | None:
    """The number of context examples with which the loss ends below SHORT, by alpha and seed."""
    lines = [(shown, found.lines.get(length_line(shown))) for shown in SHOWN]
    known = [(shown, *line) for shown, line in lines if line is not None]
    if len(known) < 2:
        return None
    alphas = known[0][1]
    lengths = np.array([[round(shown / alpha) for shown, *_ in known] for alpha in alphas], float)
    ends = np.array([[curves["loss"][i][-1] for _, _, curves in known] for i in range(len(alphas))])
    each = [needed_examples(at, loss[None], SHORT) for at, loss in zip(lengths, ends)]
    return Growth(alphas, *(np.concatenate(part) for part in zip(*each)))


def length_exponent(found: Curves, level: float) -> Interval | NotMeasurable:
    """p of the required number of context examples ~ alpha^-p, the mean over seeds."""
    growth = length_growth(found)
    if growth is None:
        return NotMeasurable("no prompts of several lengths in these rows")
    return mean_slope(exponents(growth, level), level)


def length_note(found: Curves) -> str:
    growth = length_growth(found)
    if growth is None:
        return ""
    pairs = zip(growth.values, np.median(growth.needed, axis=1))
    return "median number of examples by alpha: " + ", ".join(f"{alpha:g}: {median:.1f}" for alpha, median in pairs)


def bound_updates(setup: Mapping[str, float], epsilon: float = LEVELS[-1]) -> float:
    """(18) with constants of 1: (alpha^-1 K^3 log(K/epsilon) + M K (1/alpha + 1/epsilon)) / eta."""
    k, alpha = setup["n_steps"], setup["alpha"]
    first = k**3 * np.log(k / epsilon) / alpha
    return float((first + setup["n_training"] * k * (1 / alpha + 1 / epsilon)) / setup["eta"])


def stretch(found: Curves, level: float, *, n_steps: int) -> Interval | NotMeasurable:
    """How many times longer than a logarithm allows attention takes from EARLY to GONE on other steps.

    T_1(GONE) / T_1(EARLY) over log(K / GONE) / log(K / EARLY), in logarithms; 0 if T_1 ~ log(K / epsilon).
    """
    if "base" not in found.lines:
        return NotMeasurable("no base in these rows")
    curve, at = found.lines["base"][1]["other_step"][0], found.updates["base"][0]
    (late, late_open, _), (early, _, early_cap) = (needed_examples(at, curve[None], e) for e in (GONE, EARLY))
    if late_open.any() or early_cap.any():
        return NotMeasurable("attention on other steps does not cross both levels within the training")
    if late.shape[1] < 2:
        return NotMeasurable("one seed only; a mean with an interval needs two")
    allowed = np.log(np.log(n_steps / GONE) / np.log(n_steps / EARLY))
    result = bands(np.log(late / early) - allowed, level)
    ends = float(result.value[0]), float(result.low[0]), float(result.high[0])
    return Interval(*ends, level, result.n, "mean over seeds, t")


def times_note(found: Curves, line: str, metric: str = "loss", at: float = LEVELS[-1]) -> str:
    growth = found.growth(line, metric, at)
    if growth is None:
        return ""
    pairs = zip(growth.values, np.median(growth.needed, axis=1))
    values = [f"{1 / v:.0f}" if line in ("patterns", "steps") else f"{v:g}" for v in growth.values]
    return "median updates by value: " + ", ".join(f"{v}: {median:.0f}" for v, (_, median) in zip(values, pairs))
