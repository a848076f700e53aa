"""What would the rows of kim2024/no-supervision look like, were the truth known? Worlds for its judge."""

from collections.abc import Callable, Mapping
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._no_supervision import REGIMES
from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST
from interp.core.claim import World
from probes.rows import setting, table

if TYPE_CHECKING:
    from interp.claims.kim2024.no_supervision import NoSupervision

SIGNALS = ("direct", "end_to_end", "teacher_forcing")
SPREAD = 0.5
"""Standard deviation over seeds of log10 of a signal-to-noise ratio."""


def supervision_worlds(preset: "NoSupervision") -> tuple[World, ...]:
    """A few seeds behave otherwise than the rest; signals at their bound; and as the paper has it."""
    primary = ("direct", "teacher_forcing", "filter")
    return (
        World(
            "one seed in ten behaves otherwise; half of the own chains learn",
            {**dict.fromkeys(primary, False), "own_chain": False},
            supervision_rows(
                preset,
                learns={
                    "direct": 1 - HIGH_PROBABILITY,
                    "end_to_end": MOST,
                    "teacher_forcing": HIGH_PROBABILITY,
                    "filter": HIGH_PROBABILITY,
                },
            ),
        ),
        World(
            "whether a seed learns is a coin's toss, whatever it is told; signals are at the bound",
            dict.fromkeys((*primary, "signal", "separation", "forced_signal"), False),
            supervision_rows(preset, learns=dict.fromkeys(REGIMES, 0.5), root_signal=0.0, forced_signal=0.0),
        ),
        World(
            "as the paper has it",
            dict.fromkeys((*primary, "signal", "separation", "own_chain", "forced_signal"), True),
            supervision_rows(preset),
        ),
    )


def supervision_rows(
    preset: "NoSupervision",
    *,
    learns: Mapping[str, float] = {"direct": 0.01, "end_to_end": 0.01, "teacher_forcing": 0.99, "filter": 0.99},
    root_signal: float = -1.0,
    forced_signal: float = 1.0,
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which seeds learn with a probability by regime; signals are log10 of their ratio to the bound."""
    seeds, k = preset.seeds, max(preset.signal_ks)
    trained = [(regime, metric) for metric in ("loss", "accuracy") for regime in REGIMES]
    settings = [setting(d=preset.d, k=preset.k)] * len(trained) + [setting(d=preset.signal_d, k=k)] * len(SIGNALS)
    samples = [preset.n_steps * preset.batch_size] * len(trained) + [0] * len(SIGNALS)
    columns = {
        "unit": np.tile([str(seed) for seed in range(seeds)], len(settings)),
        "condition": np.repeat([regime for regime, _ in trained] + list(SIGNALS), seeds),
        "metric": np.repeat([metric for _, metric in trained] + ["signal_to_noise"] * len(SIGNALS), seeds),
        "setting": np.repeat(settings, seeds),
        "samples": np.repeat(samples, seeds),
    }
    chance = np.array([[learns[regime]] for regime in REGIMES])
    typical = np.array([[root_signal], [root_signal], [forced_signal]]) + np.log10(comb(preset.signal_d, k) ** -0.5)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        right = generator.random((len(REGIMES), seeds)) < chance
        noise = 0.001 * generator.random(right.shape)
        ratios = 10 ** (typical + generator.normal(0, SPREAD, (len(SIGNALS), seeds)))
        values = (np.where(right, 0.0, 0.5) + noise, np.where(right, 1.0, 0.5), ratios)
        return table(**columns, run="simulated", value=np.concatenate([one.ravel() for one in values]))

    return rows
