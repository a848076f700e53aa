"""How large is a proportion? Exact inference for a count of successes, and the difference of two proportions."""

from functools import cache
from typing import Literal

from interp.statistics.interval import Interval, Number, check_level


def binomial_interval(successes: int, trials: int, *, level: Number = 0.95) -> Interval:
    """The success proportion with its exact (Clopper-Pearson) interval, in [0, 1].

    Coverage is at least `level` for every n and every true proportion. Trials must be independent units.
    """
    _check_counts(successes, trials)
    check_level(level)
    low, high = _exact(int(successes), int(trials), float(level))
    return Interval(successes / trials, low, high, level, trials, "Clopper-Pearson")


@cache  # a root search of milliseconds; simulated worlds ask for the same few counts again and again
def _exact(successes: int, trials: int, level: float) -> tuple[float, float]:
    ends = _test(successes, trials, 0.5, "two-sided").proportion_ci(confidence_level=level, method="exact")
    return float(ends.low), float(ends.high)


def proportion_difference(first: tuple[int, int], second: tuple[int, int], *, level: Number = 0.95) -> Interval:
    """The proportion of `first` minus that of `second`, each (successes, trials), independent samples, in [-1, 1].

    Newcombe's hybrid score interval (1998, method 10): valid at 0 of n and n of n, where a bootstrap has no width.
    """
    check_level(level)
    for successes, trials in (first, second):
        _check_counts(successes, trials)
    (p1, low1, high1), (p2, low2, high2) = (_wilson(*counts, level) for counts in (first, second))
    gap = p1 - p2
    low = gap - ((p1 - low1) ** 2 + (high2 - p2) ** 2) ** 0.5
    high = gap + ((high1 - p1) ** 2 + (p2 - low2) ** 2) ** 0.5
    return Interval(gap, low, high, level, first[1] + second[1], "Newcombe")


def _wilson(successes: int, trials: int, level: Number) -> tuple[float, float, float]:
    ends = _test(successes, trials, 0.5, "two-sided").proportion_ci(confidence_level=level, method="wilson")
    return successes / trials, float(ends.low), float(ends.high)


def binomial_p_value(
    successes: int,
    trials: int,
    *,
    chance: Number,
    alternative: Literal["two-sided", "greater", "less"] = "two-sided",
) -> float:
    """The exact p-value of "each trial succeeds with probability `chance`", in [0, 1]."""
    _check_counts(successes, trials)
    if not 0 <= chance <= 1:
        raise ValueError(f"binomial_p_value: chance {chance}; expected a probability in [0, 1]")
    return float(_test(successes, trials, chance, alternative).pvalue)


def _test(successes: int, trials: int, chance: Number, alternative: str):
    from scipy.stats import binomtest  # here because importing scipy.stats takes most of a second

    return binomtest(successes, trials, chance, alternative=alternative)


def _check_counts(successes: int, trials: int) -> None:
    if trials < 1 or not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials; expected trials >= 1, 0 <= successes <= trials")
