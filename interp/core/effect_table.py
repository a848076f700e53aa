"""Which differences are shown when a measurement ends, and how? All of them stand in effects.json."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hf_analysis.text.comparisons import EQUAL, PAIRS
from interp.core.effects import Effect
from probes.attention.statistics import find_metric

if TYPE_CHECKING:
    from rich.table import Table as Printed

SHOWN_METRICS = ("min", "mean")
"""Of those measured by default: the paper's reduction of the normalised entropy, and the mean."""
RECOMMENDED = frozenset(frozenset((pair.first, pair.second)) for pair in PAIRS)
"""Pairs of conditions of which docs/conditions.md says what they differ in."""
OF_EQUAL_LENGTH = frozenset(frozenset((pair.first, pair.second)) for pair in PAIRS if pair.length == EQUAL)
"""Those of them whose texts have as many tokens before the last sentence, or after the question."""
WIDEST_NAME = 40
"""Letters of a metric's name that are given room in one line, beside its intervals on 80 columns."""


def main_effects(found: Sequence[Effect], metrics: Sequence[str]) -> list[Effect]:
    """Those of `metrics` that compare two models, or conditions that are meant to be compared; all, if none are."""
    of_metrics = [effect for effect in found if effect.metric in metrics] or list(found)
    return [effect for effect in of_metrics if _is_recommended(effect)] or of_metrics


def _is_recommended(effect: Effect) -> bool:
    conditions = frozenset(_conditions(effect))
    return len(conditions) == 1 or conditions in RECOMMENDED


def _conditions(effect: Effect) -> tuple[str, str]:
    """Of both sides, without the models that they may be of."""
    return effect.first.rpartition(": ")[2], effect.second.rpartition(": ")[2]


def reading_of(found: Sequence[Effect]) -> str:
    """How the table of these effects is read: which sign means sparser, which pairs have texts of equal length."""
    metrics = dict.fromkeys(effect.metric for effect in found)
    higher = [name for name in metrics if find_metric(name).statistic.sparser == "higher"]
    sign = "Below zero" if len(higher) < len(metrics) else "Above zero"
    besides = f" ({', '.join(higher)}: above)" if higher and sign == "Below zero" else ""
    pairs = dict.fromkeys(map(_conditions, found))
    equal = [f"{a} − {b}" for a, b in pairs if frozenset((a, b)) in OF_EQUAL_LENGTH]
    equal += ["two models on the same text"] if any(a == b for a, b in pairs) else []
    return f"{sign}{besides}: the first of a pair is sparser. Of equal length: {', '.join(equal) or 'no pair here'}."


def effect_table(found: Sequence[Effect], title: str) -> "Printed":
    """The effects as a rich table for the terminal: by metric and pair, a row for each set of tokens."""
    from rich.box import SIMPLE
    from rich.table import Table as Printed
    from rich.text import Text

    widest = max(len(effect.metric) for effect in found)
    table = Printed(title=Text(title), box=SIMPLE)
    # A long name of a pair goes on in the next line and none is cut off; a metric's is never broken.
    table.add_column("difference", overflow="fold", min_width=min(widest, WIDEST_NAME))
    table.add_column("tokens", no_wrap=True)
    table.add_column("mean and interval", no_wrap=True)
    for metric in dict.fromkeys(effect.metric for effect in found):
        of_metric = [effect for effect in found if effect.metric == metric]
        table.add_section()
        table.add_row(Text(metric, style="bold"))
        for pair in dict.fromkeys((effect.first, effect.second) for effect in of_metric):
            of_pair = [effect for effect in of_metric if (effect.first, effect.second) == pair]
            for place, effect in enumerate(of_pair):
                name = "" if place else f"{pair[0]} − {pair[1]}"
                table.add_row(Text(name), Text(effect.scope), Text(effect.interval))
    return table
