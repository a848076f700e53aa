"""What would the rows of kim2024/thm5 and thm5-noise look like, were the truth known? Worlds for their judges."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST
from interp.claims.kim2024._thm5_noise import KINDS
from interp.core.claim import World
from probes.rows import setting, table

if TYPE_CHECKING:
    from interp.claims.kim2024.thm5 import Thm5
    from interp.claims.kim2024.thm5_noise import Noise

Rows = Callable[[np.random.Generator], pd.DataFrame]
METRICS = ("accuracy", "sup_error", "child_mass", "imbalance")
SPREAD = 0.3
"""Standard deviation over seeds of the log of the n at first success, and of the log of a breaking point."""


def one_step_worlds(preset: "Thm5") -> tuple[World, ...]:
    """Worlds of thm5: at the thresholds, with the old cut-off's temptation, cut by the budget, and as the theorem."""
    return (
        World(
            "one seed in ten fails; d^2 samples or a large step solve half of the seeds",
            {"solved": False, "few": False, "large_step": False},
            one_step_rows(preset, solved=HIGH_PROBABILITY, few=MOST, large_step=MOST),
        ),
        World("one seed in five fails", {"solved": False}, one_step_rows(preset, solved=0.8)),
        World(
            "samples needed grow as d^2, and the budget cuts half of the largest size",
            {"growth": False},
            one_step_rows(preset, start=16.0, power=2.0),
        ),
        World(
            "as the theorem has it",
            {"solved": True, "growth": True, "few": True, "large_step": True},
            one_step_rows(preset, solved=0.99, large_step=0.02),
        ),
    )


def one_step_rows(
    preset: "Thm5",
    *,
    solved: float = 1.0,
    few: float = 0.0,
    large_step: float = 0.0,
    start: float = 400.0,
    power: float = 1.2,
) -> Rows:
    """Rows in which some step size succeeds from n = start d^power on; the other numbers are shares of seeds.

    Three step sizes are simulated: the chosen one at enough samples and at d^2, the largest one at enough samples,
    and a third that only says where success starts.
    """
    sizes = sorted({*preset.sizes, *preset.more_sizes})
    cells = [
        (place, d, k, n, eta, share)
        for place, (d, k) in enumerate(sizes)
        for n in sorted({*preset.ns, d * d})
        for eta, share in (
            (preset.step, solved if n == preset.enough else few if n == d * d else None),
            (max(preset.steps), large_step if n == preset.enough else None),
            (2.0, np.nan),
        )
        if share is not None and ((d, k) in preset.sizes or np.isnan(share))
    ]
    places = [
        setting(
            d=d, k=k, n=n, eta=eta, judged=int((d, k) in preset.sizes), enough=int(n == preset.enough),
            chosen=int(eta == preset.step),
        )
        for _, d, k, n, eta, _ in cells
    ]  # fmt: skip
    of_size, samples = np.array([c[0] for c in cells]), np.array([[c[3]] for c in cells])
    shares = np.array([[c[5]] for c in cells], dtype=float)
    typical = start * np.array([[d] for d, _ in sizes], dtype=float) ** power
    quoted = [place for place in places if "enough=1" in place]  # of attention, notes quote these alone
    answers, attention = (_columns(preset.seeds, at, of) for at, of in ((places, METRICS[:2]), (quoted, METRICS[2:])))
    columns = {name: np.concatenate([answers[name], attention[name]]) for name in answers}
    looks = np.repeat([1.0, 0.0], len(quoted) * preset.seeds)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        first = typical * np.exp(generator.normal(0, SPREAD, (len(sizes), preset.seeds)))
        by_share = generator.random((len(cells), preset.seeds)) < shares
        right = np.where(np.isnan(shares), samples >= first[of_size], by_share)
        values = [np.where(right, 1.0, 0.5), np.where(right, 0.01, 2.0), looks]
        return table(**columns, run="simulated", condition="teacher_forcing", scope="test", value=_flat(values))

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
        World("breaking points fall as d^-2.5", dict.fromkeys(scaling, False), noise_rows(preset, power=-0.5)),
        World("breaking points fall as d^-1.5", dict.fromkeys(scaling, False), noise_rows(preset, power=0.5)),
        World(
            "breaking points fall as d^-2, and a small error fails one seed in a hundred",
            dict.fromkeys([*tolerated, *scaling], True),
            noise_rows(preset, tolerated=0.99),
        ),
    )


def noise_rows(preset: "Noise", tolerated: float = 1.0, power: float = 0.0) -> Rows:
    """Rows in which size d breaks at an error of about 0.5 (d / 45)^power / d^2, or just below 0.05 / d^2."""
    ds = np.array([d for d, _ in preset.sizes], dtype=float)
    errors = np.array([0.0, *sorted(preset.errors)])
    places = [setting(d=d, k=k, n=preset.n, error=error) for d, k in preset.sizes for error in errors]
    columns = _columns(preset.seeds, places * len(KINDS), ("accuracy",))
    conditions = np.repeat(list(KINDS), len(places) * preset.seeds)
    typical = 0.5 * (ds / np.exp(np.log(ds).mean())) ** power
    shape = (len(KINDS), len(ds), 1, preset.seeds)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        limit = typical[:, None, None] * np.exp(generator.normal(0, SPREAD, shape))
        limit = np.where(generator.random(shape) < tolerated, limit, 0.045)
        right = errors[:, None] < limit
        return table(**columns, run="simulated", condition=conditions, value=_flat([np.where(right, 1.0, 0.5)]))

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
