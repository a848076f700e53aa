"""In which worlds are the judges of Figures 2 and 3 tried? Laws of the required number whose truth is known."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from interp.claims.li2024._factor_parts import NEAR, TIE
from interp.claims.li2024._worlds import ErrorOf, but_for_one_cell, power_law, vote
from interp.core.claim import World

SQUARES = ("alpha_square", "tau_power", "rho_power")


def factor_worlds(
    rows: Callable[[ErrorOf], Callable[[np.random.Generator], pd.DataFrame]], *, composed: bool
) -> tuple[World, ...]:
    """The worlds of CoT or of ICL, whose errors `rows` turns into rows; `composed`: whether that part is declared."""
    no_square = dict.fromkeys(SQUARES, False)
    found = (
        World(
            "as the theorem has it",
            {**dict.fromkeys((*SQUARES, "more", "bound", "order", "composed"), True), "alpha_power": False},
            rows(power_law(18, alpha=2, tau=2, rho=2)),
        ),
        World(
            "half-way between whole powers",
            {**no_square, **dict.fromkeys(("bound", "alpha_power", "vote", "vote_powers"), False)},
            rows(power_law(35, alpha=1.5, tau=1.5, rho=2.5)),
        ),
        World(
            "tau has no effect and rho a cubic one, which cancel in the product",
            {**no_square, **dict.fromkeys(("more", "order", "bound"), False), "alpha_power": True},
            rows(power_law(20, alpha=1, tau=0, rho=3)),
        ),
        World(
            "first powers",
            {**no_square, "more": True, "bound": True, "composed": True},
            rows(power_law(40, alpha=1, tau=1, rho=1)),
        ),
        World(
            "half-way to the cube in tau and rho",
            {**no_square, "bound": False, "composed": False},
            rows(power_law(35, alpha=1, tau=2.5, rho=2.5)),
        ),
        World(
            "a vote",
            {
                **dict.fromkeys(
                    ("more", "bound", "rho_power", "alpha_power", "vote", "vote_powers", "composed"), True
                ),
                **dict.fromkeys(("alpha_square", "tau_power"), False),
            },
            rows(vote),
        ),
        World(
            f"a vote but for one cell, where {100 * TIE:g} more answers in a hundred are wrong",
            {"vote": False},
            rows(but_for_one_cell(vote, TIE)),
        ),
        World(
            "the exponents of an exact vote, but for that of alpha', which is a margin steeper",
            {"vote_powers": False, "bound": True},
            rows(power_law(38.7, alpha=1.01 + NEAR, tau=1.1, rho=2.25)),
        ),
    )
    return found if composed else tuple(_without(world, "composed") for world in found)


def _without(world: World, part: str) -> World:
    return World(world.name, {key: truth for key, truth in world.truth.items() if key != part}, world.rows)
