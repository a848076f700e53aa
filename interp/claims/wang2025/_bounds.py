"""What do wang2025's theorem claims decide alike? Shares of seeds within a bound, at the worst size."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from interp.core.judging import least_share
from interp.core.parts import NotMeasurable, Part, Role
from interp.statistics import Interval
from probes.rows import setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HIGH_PROBABILITY = 0.9
"""The share of seeds above which a theorem holds with high probability, or an identity everywhere."""
ROUNDING = 1 + 1e-6
SMALLEST = 1e-12
"""Stands for smaller ratios, 0 among them, on a log scale."""
Size = tuple[int, int]
"""(k, N)."""


def bounded(rows: pd.DataFrame) -> pd.DataFrame:
    """Quantities over their bounds, the largest by condition, size and seed."""
    found = with_settings(rows[rows["metric"] == "over_bound"])
    return found.groupby(["condition", "k", "n", "unit"], as_index=False)["value"].max()


def bound_rows(item: str, seed: int, found: Sequence[tuple[str, Size, float]]) -> pd.DataFrame:
    """Rows of one seed: condition, size, and the quantity over its bound."""
    conditions, sizes, values = zip(*found)
    return table(
        run=item, condition=list(conditions), unit=str(seed), metric="over_bound", value=list(values),
        setting=[setting(k=k, n=n) for k, n in sizes],
    )  # fmt: skip


def bound_part(
    key: str, name: str, source: str, quantity: str, why: str, *, primary: bool = False, role: Role = "paper"
) -> Part:
    """A part that holds if the seeds keep to the bound of condition `key` at every size."""
    return Part(
        key=key,
        name=name,
        role=role,
        source=source,
        primary=primary,
        quantity=f"share of seeds with {quantity}, least over sizes",
        estimate=partial(share_within, condition=key),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=why,
        unit="seeds",
        note=partial(worst, condition=key),
    )


def share_within(found: Any, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The share of seeds within the bound, at the size where it is smallest."""
    of = table_of(found)
    of = of[of["condition"] == condition]
    return least_share(of["value"] <= ROUNDING, of.groupby(["k", "n"]).ngroup(), level)


def table_of(found: Any) -> pd.DataFrame:
    """The table of bounds, which is the summary or a field of it."""
    return found if isinstance(found, pd.DataFrame) else found.bounds


def worst(found: Any, *, condition: str) -> str:
    """The largest quantity over its bound, by size."""
    of = table_of(found)
    largest = of[of["condition"] == condition].groupby(["k", "n"])["value"].max()
    return "largest over its bound: " + ", ".join(f"{v:.2g} at k={k:.0f}, N={n:.0f}" for (k, n), v in largest.items())


def simulated_bounds(
    sizes: Mapping[str, Sequence[Size]], seeds: int, *, held: float, largest: float | None = None
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which a seed keeps to its bound with probability `held`; at each condition's last size, `largest`."""
    cells = [(condition, size, size == of[-1]) for condition, of in sizes.items() for size in of]
    columns = {
        "condition": np.repeat([condition for condition, _, _ in cells], seeds),
        "setting": np.repeat([setting(k=k, n=n) for _, (k, n), _ in cells], seeds),
        "unit": np.tile([str(seed) for seed in range(seeds)], len(cells)),
    }
    chances = np.repeat([largest if last and largest is not None else held for _, _, last in cells], seeds)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        value = np.where(generator.random(len(chances)) < chances, 0.5, 1.5)
        return table(**columns, run="simulated", metric="over_bound", value=value)

    return rows


def bounds_figure(rows: pd.DataFrame, *, words: Mapping[str, str], title: str) -> dict[str, "Figure"]:
    """The figure of a claim that is about bounds alone."""
    return {"over_bounds": over_bounds(bounded(rows), words, title)}


def over_bounds(found: pd.DataFrame, words: Mapping[str, str], title: str) -> "Figure":
    """Every seed's quantity over its bound, one line for each condition and size."""
    from interp.figures.style import new_figure, styled

    cells = [
        (words[condition], f"k={k:.0f}, N={n:.0f}", of["value"])
        for condition in words
        for (k, n), of in found[found["condition"] == condition].groupby(["k", "n"])
    ]
    with styled():
        figure = new_figure(7.5, 1.2 + 0.24 * len(cells))
        axes = figure.subplots()
        shades = {name: f"C{index}" for index, name in enumerate(dict.fromkeys(name for name, _, _ in cells))}
        for place, (name, _, values) in enumerate(cells):
            shown = values.clip(lower=SMALLEST)
            axes.plot(shown, np.full(len(shown), place), "|", color=shades[name], markersize=9, alpha=0.7)
        axes.axvline(1, color="0.3", linewidth=0.8)
        axes.set_yticks(range(len(cells)), [f"{name}, {size}" for name, size, _ in cells], fontsize=8)
        axes.invert_yaxis()
        axes.set(
            xscale="log", title=title,
            xlabel=f"quantity over its bound, each seed (cut at {SMALLEST:g})",
            xlim=(SMALLEST / 3, 3 * max(1.0, float(found["value"].max()))),
        )  # fmt: skip
    return figure
