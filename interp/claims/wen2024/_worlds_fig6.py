"""What would Figure 6's rows look like, were the truth known? In some worlds length, or any context, explains it."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from interp.claims.wen2024._fig6_comparisons import COMPARISONS, PERMUTED, Comparison
from interp.claims.wen2024._pretrained import SMALLEST
from interp.claims.wen2024._worlds_pretrained import deviations, simulated_entropies
from interp.core.claim import World

LEVEL = 0.3
"""The entropy with CoT, where nothing else is said."""


def _rows(units: Sequence[str], changes: Mapping[str, float]) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which the first text of each comparison differs by `changes` from the second.

    Templates differ more than problems of one template do. A text that several comparisons have in common has one
    entropy; the second text of each has the entropy that makes the difference.
    """

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        noise = dict(zip(COMPARISONS, deviations(generator, units, (len(COMPARISONS),), 0.03, 0.01)))
        values = {}
        for key, of in COMPARISONS.items():
            other = LEVEL - changes[key] + noise[key]
            for side, entropy in ((of.first, np.full(len(units), LEVEL)), (of.second, other)):
                values.setdefault((side.run, side.condition, side.metric, side.scope), entropy)
        return simulated_entropies(units, values)

    return rows


def _holds(of: Comparison, change: float) -> bool:
    """Whether a difference of `change` is what the part says."""
    if of.margin is not None:
        return abs(change - of.threshold) < of.margin
    return change < of.threshold if of.direction == "below" else change > of.threshold


def worlds(units: Sequence[str]) -> tuple[World, ...]:
    """Differences at the margin; those of the number of tokens alone; those of any context, either way; real ones."""
    none = dict.fromkeys(COMPARISONS, 0.0)
    lengths = {"published": -0.03, "permuted_published": -0.02}
    context = {key: -0.05 for key in ("published", "sentence", "no_sink", "sentence_mean", "sentence_same")}
    context |= {"sentence_nats": -0.2, "no_sink_nats": -0.2}
    real = {key: -0.2 if "nats" in key else -0.05 for key, of in COMPARISONS.items() if of.first.run != PERMUTED}
    margin = {key: of.threshold - (of.margin or 0.0) for key, of in COMPARISONS.items()}
    longer = {key: 0.03 for key in ("sentence", "no_sink", "sentence_mean", "permuted_sentence", "sentence_same")}
    longer |= {"sentence_nats": 0.2, "no_sink_nats": 0.2, "published": -0.03, "position": 0.03, "filler": 0.03}
    longer |= {key: -0.02 for key in ("relevance", "prose", "steps", "tokens", "relevance_same")}
    kinds = {
        "the minimum follows the number of tokens and nothing else": none | lengths,
        "any text before a sentence makes its attention sparser, relevant or not": none | context,
        "a longer context spreads attention, and CoT less than other text": none | longer,
        "CoT makes attention sparser": none | real,
    }
    at_margin = World(
        f"differences at the margin ({SMALLEST:g}), of templates rather than of problems",
        dict.fromkeys(COMPARISONS, False),
        _rows(units, margin),
    )
    return at_margin, *(
        World(name, {key: _holds(of, changes[key]) for key, of in COMPARISONS.items()}, _rows(units, changes))
        for name, changes in kinds.items()
    )
