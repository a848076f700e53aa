"""Which numbers are read off the rows of attention? The registry of statistics: one file and one registration each.

To add a statistic, write ONE file in `probes/attention/known/`, or a plug-in (`probes.base.plugins`), or a cell:

    from probes import register_statistic

    @register_statistic(label="unused keys", unit="keys", reductions=("min", "mean"), sparser="higher")
    def unused_keys(entropy, n_visible):
        "Visible keys minus exp(H), the effective number of keys."
        return n_visible - entropy.exp()

The names of its parameters say what it is computed from: QUANTITIES, fields of `probes.attention.row.RowStatistics`,
each [batch head query]. A *metric* is a statistic with a reduction over the tokens of a text that see at least two
keys; here they are `unused_keys_min` and `unused_keys_mean`. Nothing else has to be edited: the metrics can be
asked for with `--metrics` of `cotlens entropy` and `cotlens probe`, their rows can be contrasted, the report's menu
shows them with label and unit, and `hf_analysis.record` gives the statistic token by token.

This module and those of `known` import torch inside functions only: a report is built without it.
"""

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from probes.base.names import unknown
from probes.base.plugins import import_modules, is_rerun, load_plugins

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from torch import Tensor

    Values = Float[Tensor, "*batch head query"]
    Counts = Int[Tensor, "*batch 1 query"]
else:
    Values = Counts = Any

QUANTITIES = (
    "entropy",
    "sink_mass",
    "entropy_without_sink",
    "n_visible",
    "n_visible_without_sink",
    "top1_mass",
    "top1_mass_without_sink",
    "learned_sink_mass",
)
"""What a statistic can be computed from; `probes.attention.row.RowStatistics` says what each is."""

REDUCTIONS = {
    "min": "minimum",
    "max": "maximum",
    "mean": "mean",
    "q10": "10% quantile",
    "length_matched_min": "length-matched minimum",
    "length_matched_max": "length-matched maximum",
}
"""From the tokens of a text to one number, with labels; `probes.attention.entropy.reduced` computes them."""

DEFAULT_METRICS = ("min", "mean", "q10", "length_matched_min", "sink_mass", "sink_excluded_min", "sink_excluded_mean")
"""What is measured unless something else is asked for."""


@dataclass(frozen=True)
class Statistic:
    """One number for every row of attention, NaN where it is not defined."""

    name: str
    label: str
    unit: str  # empty: a share or a ratio
    reductions: tuple[str, ...]
    metric: str  # how its metrics are called: a template of {statistic} and {reduction}
    low: float  # the smallest value there can be
    high: float | None  # the largest; None: it grows with the text
    sparser: Literal["lower", "higher"]  # which end means attention on few keys
    function: Callable[..., Values]

    @property
    def reads(self) -> tuple[str, ...]:
        """The quantities it is computed from."""
        return tuple(inspect.signature(self.function).parameters)

    @property
    def metrics(self) -> "tuple[Metric, ...]":
        return tuple(Metric(self, reduction) for reduction in self.reductions)

    def of(self, rows: Any) -> Values:
        """The statistic of `rows`, anything with the quantities as attributes: [batch head query].

        A ValueError unless it is one number for every row, within [low, high] where the row sees two keys: what is
        averaged and bounded later relies on both.
        """
        values = self.function(**{name: getattr(rows, name) for name in self.reads})
        expected = tuple(rows.entropy.shape)
        got = tuple(values.shape) if hasattr(values, "isnan") else type(values).__name__
        if got != expected:
            raise ValueError(f"statistic {self.name!r} gave {got}; expected a tensor {expected}, one number per row")
        self._require_within(values, rows.n_visible)
        return values

    def _require_within(self, values: Values, n_visible: Counts) -> None:
        """NaN is a row without a value; 1% of the range, or of the text where that bounds it, passes as rounding."""
        high = math.inf if self.high is None else self.high
        slack = 0.01 * (values.shape[-1] if self.high is None else high - self.low)
        outside = ((values < self.low - slack) | (values > high + slack)) & (n_visible >= 2)
        if outside.any():
            raise ValueError(
                f"statistic {self.name!r} gave {values[outside][0].item():g}, outside the low={self.low:g} and "
                f"high={high:g} that it was registered with; correct one or the other"
            )


@dataclass(frozen=True)
class Metric:
    """One number for every head and text: a statistic, reduced over tokens."""

    statistic: Statistic
    reduction: str

    @property
    def name(self) -> str:
        return self.statistic.metric.format(statistic=self.statistic.name, reduction=self.reduction)

    @property
    def label(self) -> str:
        return f"{REDUCTIONS[self.reduction]} of the {self.statistic.label}"


STATISTICS: dict[str, Statistic] = {}


def register(
    *,
    label: str,
    reductions: Iterable[str],
    unit: str = "",
    metric: str = "{statistic}_{reduction}",
    low: float = 0.0,
    high: float | None = None,
    sparser: Literal["lower", "higher"] = "lower",
) -> Callable[[Callable[..., Values]], Callable[..., Values]]:
    """Makes the decorated function known as a statistic under its own name.

    Refuses a name that is taken, by a statistic or by one of its metrics, except by a cell that is run again.
    """

    def registered(function: Callable[..., Values]) -> Callable[..., Values]:
        name = function.__name__
        new = Statistic(name, label, unit, tuple(reductions), metric, low, high, sparser, function)
        _check(new)
        STATISTICS[name] = new
        return function

    return registered


def _check(new: Statistic) -> None:
    if not (new.name.isidentifier() and new.label.strip() and new.sparser in ("lower", "higher")):
        raise ValueError(
            f"statistic {new.name!r} needs a function's name, a label ({new.label!r}) and sparser 'lower' or 'higher'"
        )
    if new.high is not None and not new.low < new.high:
        raise ValueError(f"statistic {new.name!r}: low {new.low:g} must be below high {new.high:g}")
    wrong = [metric.name for metric in new.metrics if not metric.name.isidentifier()]
    if wrong:
        raise ValueError(f"statistic {new.name!r}: {wrong[0]!r} cannot be a metric's name; use letters, digits and _")
    for known, given, kind in ((QUANTITIES, new.reads, "quantity"), (REDUCTIONS, new.reductions, "reduction")):
        unknown = [name for name in given if name not in known]
        if unknown or not given:
            raise ValueError(
                f"statistic {new.name!r}: {f'unknown {kind} {unknown[0]!r}' if unknown else f'no {kind}'}; "
                f"need at least one of {', '.join(known)}"
            )
    old = STATISTICS.get(new.name)
    if old is not None and not is_rerun(old.function, new.function):
        raise ValueError(f"statistic {new.name!r} is registered twice: {old.function} and {new.function}")
    names = [metric.name for metric in new.metrics]
    for other in STATISTICS.values():
        taken = {metric.name for metric in other.metrics} & set(names) if other.name != new.name else set()
        if taken:
            raise ValueError(f"statistic {new.name!r}: the metric {min(taken)!r} is one of {other.name!r}; rename it")
    if len(set(names)) < len(names):
        raise ValueError(
            f"statistic {new.name!r} has two metrics {names[0]!r}; put {{reduction}} into {new.metric!r}"
        )


def load_statistics(plugins: bool = True) -> dict[str, Statistic]:
    """Imports every module of `probes.attention.known`, and every plug-in, and returns the registry."""
    from probes.attention import known

    import_modules(known)
    if plugins:
        load_plugins()
    return STATISTICS


def known_metrics(plugins: bool = True) -> dict[str, Metric]:
    """Every metric by its name, those of `DEFAULT_METRICS` first."""
    found = {metric.name: metric for one in load_statistics(plugins).values() for metric in one.metrics}
    return {name: found[name] for name in (*DEFAULT_METRICS, *found)}


def find_metric(name: str) -> Metric:
    """The metric called `name`; an unknown name lists the known ones."""
    known = known_metrics(plugins=False)
    if name not in known:
        known = known_metrics()
    if name not in known:
        raise ValueError(f"{unknown('metric', name)}; the metrics are {', '.join(known)}")
    return known[name]


def find_statistic(name: str) -> Statistic:
    """The statistic called `name`; an unknown name lists the known ones."""
    known = load_statistics(plugins=False)
    if name not in known:
        known = load_statistics()
    if name not in known:
        raise ValueError(f"{unknown('statistic', name)}; the statistics are {', '.join(sorted(known))}")
    return known[name]


def statistics_of(metrics: Iterable[str]) -> tuple[str, ...]:
    """The names of the statistics that `metrics` reduce, each once."""
    return tuple(dict.fromkeys(find_metric(name).statistic.name for name in metrics))
