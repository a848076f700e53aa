"""What would the rows of kim2024/no-supervision look like, were the truth known? Worlds for its judge."""

from collections.abc import Callable, Mapping
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._no_supervision import FEW, ROOT_ONLY
from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST
from interp.core.claim import World
from probes.rows import setting, table

if TYPE_CHECKING:
    from interp.claims.kim2024.no_supervision import NoSupervision

CONDITIONS = (*ROOT_ONLY, "teacher_forcing", "filter", "end_to_end")
SIGNALS = ("direct", "end_to_end", "teacher_forcing")
SPREAD = 0.5
"""Standard deviation over seeds of log10 of a signal-to-noise ratio."""


def supervision_worlds(preset: "NoSupervision") -> tuple[World, ...]:
    """A few seeds behave otherwise than the rest; a coin decides; and as the paper has it."""
    primary = ("direct", "teacher_forcing", "filter")
    first, *others = ROOT_ONLY
    chains = [f"own_chain_d{run.d}" for run in preset.runs if run.regime == "end_to_end"]
    told = {"teacher_forcing": HIGH_PROBABILITY, "filter": HIGH_PROBABILITY, "end_to_end": MOST}
    return (
        World(
            "one seed in ten behaves otherwise; half of the own chains learn",
            dict.fromkeys((*primary, *chains), False),
            supervision_rows(preset, learns={**dict.fromkeys(ROOT_ONLY, 1 - HIGH_PROBABILITY), **told}),
        ),
        World(
            "one of three models learns from the root alone",
            {"direct": False, "separation": True, "few": True},
            supervision_rows(preset, learns={others[-1]: 0.98}),
        ),
        World(
            "two secret bits are learned by every second seed of one model",
            {"direct": True, "few": False},
            supervision_rows(preset, few={first: 0.5}),
        ),
        World(
            "whether a seed learns is a coin's toss, whatever it is told; signals are at the bound",
            dict.fromkeys((*primary, "signal", "separation", "forced_signal"), False),
            supervision_rows(preset, learns=dict.fromkeys(CONDITIONS, 0.5), root_signal=0.0, forced_signal=0.0),
        ),
        World(
            "as the paper has it",
            dict.fromkeys((*primary, "few", "signal", "separation", "forced_signal", *chains), True),
            supervision_rows(preset),
        ),
    )


def supervision_rows(
    preset: "NoSupervision",
    *,
    learns: Mapping[str, float] | None = None,
    few: Mapping[str, float] | None = None,
    root_signal: float = -1.0,
    forced_signal: float = 1.0,
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which seeds learn with a probability by condition, at the first step size or at none.

    Where no such probability is given, chains learn or not as the size has it and the rest as the paper has it; `few`
    are those of the control with two secret bits. Signals are log10 of their ratio to the bound.
    """
    usual = {**dict.fromkeys(ROOT_ONLY, 0.002), "teacher_forcing": 0.998, "filter": 0.998, **(learns or {})}
    told = [(run.regime, run.d, run.k, run.etas[0], run.seeds or preset.seeds) for run in preset.runs]
    told += [(one.model, one.d, one.k, one.rates[0], one.seeds or preset.seeds) for one in preset.others]
    chances = [
        (few or {}).get(condition, 0.98)
        if k == FEW
        else usual.get(condition, 0.99 if d < preset.needs_filter else 0.01)
        for condition, d, k, *_ in told
    ]
    cells = [
        (condition, metric, setting(d=d, k=k, eta=eta), 1000, seeds, f"{condition},d={d},k={k}")
        for condition, d, k, eta, seeds in told
        for metric in ("loss", "accuracy")
    ]
    k = max(preset.signal_ks)
    place = setting(d=preset.signal_d, k=k)
    cells += [(loss, "signal_to_noise", place, 0, preset.seeds, "signal") for loss in SIGNALS]
    counts = [cell[4] for cell in cells]
    names = ("condition", "metric", "setting", "samples", "", "run")
    columns = {name: np.repeat([cell[i] for cell in cells], counts) for i, name in enumerate(names) if name}
    units = np.concatenate([np.arange(n).astype(str) for n in counts])
    typical = np.array([root_signal, root_signal, forced_signal]) + np.log10(comb(preset.signal_d, k) ** -0.5)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        values = []
        for (_, _, _, _, seeds), chance in zip(told, chances):
            right = generator.random(seeds) < chance
            values += [np.where(right, 0.0, 0.5) + 0.001 * generator.random(seeds), np.where(right, 1.0, 0.5)]
        values += [10 ** (log + generator.normal(0, SPREAD, preset.seeds)) for log in typical]
        return table(**columns, unit=units, value=np.concatenate(values))

    return rows
