"""What would the rows of kim2024/thm5 and thm5-noise look like, were the truth known? Worlds for their judges."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY
from interp.claims.kim2024._runs import SUP_ERROR
from interp.claims.kim2024._thm5 import asked, percent
from interp.claims.kim2024._thm5_noise import KINDS, TOLERATED
from interp.core.claim import World
from probes.rows import setting, table

if TYPE_CHECKING:
    from interp.claims.kim2024.thm5 import Thm5
    from interp.claims.kim2024.thm5_noise import Noise

Rows = Callable[[np.random.Generator], pd.DataFrame]
SPREAD = 0.3
"""Standard deviation over seeds of the log of a breaking point."""
ERRORS = 0.8
"""And of the log of the root's largest error."""


def one_step_worlds(preset: "Thm5") -> tuple[World, ...]:
    """Worlds of thm5: at the share's threshold, with the old cut-off's temptation, errors no better than
    the bound though all seeds are solved, and as the theorem has it."""
    solved = [f"solved_{percent(law.eps)}" for law in preset.laws]
    errors = [f"error_{percent(law.eps)}" for law in preset.laws]
    return (
        World(
            "a share at its threshold, at every size, law, link and number of secret bits",
            dict.fromkeys([*solved, "ks", "links"], False),
            one_step_rows(preset, solved=None),
        ),
        World("one seed in four fails", dict.fromkeys(solved, False), one_step_rows(preset, solved=0.75)),
        World(
            "the largest size fails half of the time",
            dict.fromkeys(solved, False),
            one_step_rows(preset, largest=0.5, power=-1.5),
        ),
        World(
            "right signs, a large error",
            dict.fromkeys([*solved, "ks", "links"], False),
            one_step_rows(preset, error=0.2),
        ),
        World(
            "all seeds are solved, and the error falls exactly as its bound",
            {**dict.fromkeys(solved, True), **dict.fromkeys(errors, False)},
            one_step_rows(preset),
        ),
        World(
            "as the theorem has it",
            dict.fromkeys([*solved, *errors, "ks", "links"], True),
            one_step_rows(preset, solved=0.995, power=-1.5),
        ),
    )


def one_step_rows(
    preset: "Thm5",
    *,
    solved: float | None = 1.0,
    largest: float | None = None,
    error: float = 0.005,
    power: float | None = None,
) -> Rows:
    """Rows in which a share of seeds has right signs, None: that which is asked for, and another at the largest d.

    Their errors fall as d^power, or as the bound's d^(-eps/8), from `error` at d = 64.
    """
    middle = preset.laws[len(preset.laws) // 2]
    cells = [
        (cell, law)
        for cell in preset.cells
        for law in preset.laws
        if cell.role == "size" or (cell.role != "small" and law == middle)
    ]
    places = [
        setting(d=cell.d, k=cell.k, n=law.samples(cell.d), eps=law.eps, times=1.0, role=cell.role)
        for cell, law in cells
    ]
    columns = _columns(preset.seeds, places, ("accuracy", "sup_error"))
    links = np.tile(np.repeat([cell.link for cell, _ in cells], preset.seeds), 2)
    exponents = np.array([-law.eps / 8 if power is None else power for _, law in cells])
    ds = np.array([cell.d for cell, _ in cells])
    typical = error * (ds / 64) ** exponents
    smallest = min(cell.d for cell in preset.cells if cell.role == "size")
    least = [asked(smallest, law.eps) if cell.role == "size" else HIGH_PROBABILITY for cell, law in cells]
    share = np.array(least) if solved is None else np.full(len(cells), solved)
    share = share if largest is None else np.where(ds == ds.max(), largest, share)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        right = generator.random((len(cells), preset.seeds)) < share[:, None]
        errors = typical[:, None] * np.exp(generator.normal(0, ERRORS, right.shape))
        limit = SUP_ERROR if error > SUP_ERROR else 0.0  # which side of the limit all errors are on
        errors = errors.clip(min=limit, max=2.0 if limit else 0.9 * SUP_ERROR)
        values = [np.where(right, 1.0, 0.5), np.where(right, errors, 2.0)]
        return table(**columns, run="simulated", condition=links, scope="test", value=_flat(values))

    return rows


def noise_worlds(preset: "Noise") -> tuple[World, ...]:
    """Worlds of thm5-noise: at the thresholds of the shares and of the exponents, and as the theorem has it."""
    tolerated, scaling = [f"{kind}_tolerated" for kind in KINDS], [f"{kind}_scaling" for kind in KINDS]
    return (
        World(
            "one seed in ten fails at a small error",
            dict.fromkeys(tolerated, False),
            noise_rows(preset, tolerated=HIGH_PROBABILITY),
        ),
        World(
            "the largest size fails half of the time at a small error",
            dict.fromkeys(tolerated, False),
            noise_rows(preset, largest=0.5),
        ),
        World(
            "right signs, a large error, whatever the oracle",
            dict.fromkeys(tolerated, False),
            noise_rows(preset, error=2 * SUP_ERROR),
        ),
        World("breaking points fall as d^-2.5", dict.fromkeys(scaling, False), noise_rows(preset, power=-0.5)),
        World("breaking points fall as d^-1.5", dict.fromkeys(scaling, False), noise_rows(preset, power=0.5)),
        World(
            "breaking points fall as d^-2, and a small error fails one seed in two hundred",
            dict.fromkeys([*tolerated, *scaling], True),
            noise_rows(preset, tolerated=0.995),
        ),
    )


def noise_rows(
    preset: "Noise",
    tolerated: float = 1.0,
    power: float = 0.0,
    largest: float | None = None,
    error: float = 0.1 * SUP_ERROR,
) -> Rows:
    """Rows in which size d breaks at about half (d / mean d)^power in units of 1/d^2, or just below what is asked.

    `largest` is the share of seeds that bear a small error at the largest d; `error` that of the root at right signs.
    """
    ds = np.array([d for d, _ in preset.sizes], dtype=float)
    errors = np.array([0.0, *sorted(preset.errors)])
    places = [setting(d=d, k=k, n=preset.n(d), error=error) for d, k in preset.sizes for error in errors]
    columns = _columns(preset.seeds, places * len(KINDS), ("accuracy", "sup_error"))
    conditions = np.tile(np.repeat(list(KINDS), len(places) * preset.seeds), 2)
    share = np.where((ds == ds.max()) & (largest is not None), largest or 0.0, tolerated)
    typical = 0.8 * (ds / np.exp(np.log(ds).mean())) ** power
    shape = (len(KINDS), len(ds), 1, preset.seeds)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        limit = typical[:, None, None] * np.exp(generator.normal(0, SPREAD, shape))
        limit = np.where(generator.random(shape) < share[:, None, None], limit, 0.9 * TOLERATED)
        right = errors[:, None] < limit
        values = [np.where(right, 1.0, 0.5), np.where(right, error, 2.0)]
        return table(**columns, run="simulated", condition=conditions, value=_flat(values))

    return rows


def _columns(seeds: int, places: list[str], metrics: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The columns unit, setting and metric of values [metric, place, seed], flattened in that order."""
    return {
        "unit": np.tile([str(seed) for seed in range(seeds)], len(places) * len(metrics)),
        "setting": np.tile(np.repeat(places, seeds), len(metrics)),
        "metric": np.repeat(metrics, len(places) * seeds),
    }


def _flat(values: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([one.ravel() for one in values])
