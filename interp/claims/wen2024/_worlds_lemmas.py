"""What would the rows of wen2024/lemmas look like, were the truth known? Ratios that keep to a bound, or do not."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._lemmas import LIKELY, MEASURED, NOTHING, STATEMENTS
from interp.core.claim import World
from probes.rows import setting, table

if TYPE_CHECKING:
    from interp.claims.wen2024.lemmas import Lemmas

FALSE_AS_PRINTED = ("lemma7", "lemma18", "lemma18_sampled", "lemma19", "lemma25", "assumed")
IMPOSSIBLE = ("lemma7", "lemma18_sampled", "assumed")
"""Parts that no batch could keep to: they are expected to hold in no world."""
_METRICS = sorted({metric for one in STATEMENTS.values() for metric in one.metrics} - {"7_alpha_any"})
METRICS = (*_METRICS, "19_bound_over_signal", *MEASURED)


def lemma_worlds(preset: "Lemmas") -> tuple[World, ...]:
    """Every lemma true; the slips that we found and nothing else; every bound exceeded by one seed in ten."""
    fine = dict.fromkeys(STATEMENTS, 1.0)
    slips = {key: 0.0 if key in FALSE_AS_PRINTED else 1.0 for key in STATEMENTS}
    return (
        World(
            "every lemma as printed",
            {key: True for key in STATEMENTS if key not in IMPOSSIBLE},
            lemma_rows(preset, fine),
        ),
        World(
            "the slips of the clarity note, and no other",
            {key: key not in FALSE_AS_PRINTED for key in STATEMENTS},
            lemma_rows(preset, slips),
        ),
        World(
            "each bound is exceeded by one seed in ten",
            dict.fromkeys(STATEMENTS, False),
            lemma_rows(preset, dict.fromkeys(STATEMENTS, LIKELY)),
        ),
        World(
            "every bound fails at the largest size only, in half of the seeds",
            {key: False for key, one in STATEMENTS.items() if one.arm == "sampled"},
            lemma_rows(preset, fine, largest=0.5),
        ),
    )


def lemma_rows(
    preset: "Lemmas", holds: Mapping[str, float], largest: float | None = None
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which a seed keeps to each statement with probability `holds`, at the largest n with `largest`.

    A quantity of two statements keeps to its bound if both do; Lemma 7's six others keep to theirs if either does.
    """
    places = [("sampled", *size) for size in preset.sampled]
    places += [(arm, *preset.enumerated) for arm in ("enumerated", "assumed")]
    units = [str(seed) for seed in range(preset.seeds)]
    top = max(n for n, _ in preset.sampled)
    columns = {
        "condition": np.repeat([arm for arm, _, _ in places], len(METRICS) * len(units)),
        "setting": np.repeat([setting(n=n, k=k) for _, n, k in places], len(METRICS) * len(units)),
        "metric": np.tile(np.repeat(METRICS, len(units)), len(places)),
        "unit": units * (len(places) * len(METRICS)),
    }

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        values = []
        for arm, n, _ in places:
            chance = {key: holds[key] if largest is None or n < top else largest for key in holds}
            kept = {key: generator.random(len(units)) < p for key, p in chance.items()}
            values += [_ratio(metric, arm, kept, len(units)) for metric in METRICS]
        return table(**columns, run="simulated", value=np.concatenate(values))

    return rows


def _ratio(metric: str, arm: str, kept: Mapping[str, np.ndarray], size: int) -> np.ndarray:
    users = [key for key, one in STATEMENTS.items() if metric in one.metrics and one.arm == arm]
    if metric == "7_alpha_other":
        return np.where(kept["lemma7_meant"], np.where(kept["lemma7"], 0.0, 0.3), 1.5)
    if not users or metric in NOTHING:
        return np.full(size, 0.5)
    if metric.startswith("7_"):
        users = ["lemma7_meant"]
    holds = np.logical_and.reduce([kept[key] for key in users])
    if metric.endswith("_wrong"):
        return np.where(holds, 0.0, 0.1)
    return np.where(holds, 0.5, 1.5) * STATEMENTS[users[0]].limit
