"""li2024, Figure 3: does ICL need more examples when they are less similar, less accurate or less clear?

As in li2024/fig2, with labels in place of steps: the examples show inputs and labels alone, padded with zeros, to the
model that was trained on CoT. All errors are in the first step, so that the transition matrix B of the label has
exactly the tau_o and rho_o asked for and Condition 1 holds; errors that compose over several steps are not tested
here. Theorem 3 (condition 25) gives the bound.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.li2024._runs import (
    ENOUGH,
    LONG,
    Line,
    errors_of,
    line_items,
    lines_around_base,
    measure_line,
    panel_verdicts,
    requirement_verdicts,
    some,
)
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "li2024/fig3"
FACTORS = {"alpha": "alpha'", "tau_o": "tau_o", "rho_o": "rho_o"}
FALL = 0.1
"""How much the error should fall from 5 to 160 examples, averaged over a panel."""
LENGTH = 40
"""The number of examples at which the values of a panel are compared."""
LINES = lines_around_base("tau_o", "rho_o")


@dataclass(frozen=True)
class Fig3:
    """One model for each seed."""

    lines: tuple[Line, ...]
    lengths: tuple[int, ...]
    n_queries: int
    """Of each seed."""
    seeds: int
    iterations: int = 400


PRESETS = {
    "smoke": Fig3(some(LINES, (2, 4)), (5, 40, 160), n_queries=40, seeds=2, iterations=60),
    "cpu": Fig3(LINES, LONG, n_queries=1000, seeds=5),
    "paper": Fig3(LINES, (*LONG, 453, 640), n_queries=10_000, seeds=20),
}


def items(preset: Fig3) -> list[Item]:
    """One panel each."""
    return line_items(
        preset.lines,
        preset.lengths,
        preset.n_queries,
        preset.seeds,
        preset.iterations,
        scope="panel",
        condition="icl",
    )


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The error at every setting and number of examples of a panel."""
    return measure_line(item)


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The three panels, then the required number of examples."""
    found = errors_of(rows, "icl_error", "panel")
    verdicts = []
    for factor, name in FACTORS.items():
        verdicts += panel_verdicts(ID, found[found["line"] == factor], factor, name, (5, 160), LENGTH, FALL)
    return [*verdicts, *requirement_verdicts(ID, found, FACTORS)]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The three panels; and the required number of examples against the bound and against each factor."""
    from interp.claims.li2024._figures import panels, required_examples

    found = errors_of(rows, "icl_error", "panel")
    return {
        "error": panels(found, FACTORS, "ICL error (share of wrong labels)"),
        "required": required_examples(found, FACTORS),
    }


register(
    Claim(
        id=ID,
        sentence=(
            "More testing examples are required for ICL when alpha', tau_o or rho_o is small, in accordance with the "
            "bound (alpha' tau_o rho_o)^-2 log M."
        ),
        test=(
            f"By panel, on 5 seeds of 1000 queries: the mean error falls by more than {FALL:g} from 5 to 160 "
            f"examples; at {LENGTH} examples every lower value of the factor has a higher error than the next one "
            "(paired by seed; the least clear pair's 95% interval lies above 0). The number of examples with an "
            f"error below {ENOUGH:g} grows as (alpha' tau_o rho_o)^(-2p) with p below 1, the theorem's bound; and as "
            "the square of 1/alpha', 1/tau_o and 1/rho_o: each exponent lies above 1.5, half-way between 1 and 2 "
            "(censored power law, bootstrap over seeds)."
        ),
        deviations=(
            "The base is alpha' = 0.8, tau_o = 0.5 and rho_o = 0.5 instead of 0.8, because rho_o = 0.8 does not "
            "exist below tau_o = 0.36 (nine wrong patterns cannot hold the errors). Panels and required numbers of "
            "examples are taken from the same prompts. The model is trained with steps of 10 for 400 updates, where "
            "Theorem 1 asks for eta < 1: steps of 1 end at the same place after 4000. Prompts have 20 examples in "
            "training and more in testing, up to 640 in the paper preset. cpu: 5 seeds of 1000 queries. paper: 20 "
            "seeds of 10,000. The order of the errors and their growth are compared within one model. The smoke "
            "preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
