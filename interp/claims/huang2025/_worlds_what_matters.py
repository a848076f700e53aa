"""Would the judge of what matters be fooled? Groups whose lengths and attention follow one property and no other."""

from functools import partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._what_matters import MATTERS, SHARPER, properties
from interp.claims.huang2025._worlds import SEEDS, accuracy_labels, filled, measured, ramps, target_labels
from interp.core.claim import World

GROUPS = ("S3", "S3-regular", "C6", "A4", "A4-regular", "D12", "A5", "C24", "D17", "S5")


def _rows(
    generator: np.random.Generator,
    *,
    simple: float = 0.0,
    solvable: float = 0.0,
    facts: float = 0.0,
    sharper: float = 0.0,
    points: float = 0.0,
    unlearned: str = "",
) -> pd.DataFrame:
    """Lengths that a property moves by so many octaves, facts for each doubling; attention off the targets that is
    divided by 2^sharper if the action is simply transitive, and by points^`points`; a group may be unlearned."""
    known = {name: np.array([float(properties(g)[name]) for g in GROUPS])[:, None] for name in properties("C6")}
    noise = generator.normal(0, 0.2, (2, len(GROUPS), SEEDS))
    ends = (
        np.log2(10) + simple * known["simple"] + solvable * known["solvable"] - facts * np.log2(known["facts"] / 600)
    )
    ends = np.where(np.array(GROUPS)[:, None] == unlearned, np.log2(3), ends + noise[0])
    off = 0.05 * 2.0 ** (noise[1] - sharper * known["simple"]) * known["points"] ** -points
    shares = measured(ramps(ends)[None, :, :, None], generator)
    attention = np.broadcast_to((1 - off)[None, None, :, :, None] / 2, (2, 1, len(GROUPS), SEEDS, 5))
    return filled(
        (accuracy_labels(("theory",), GROUPS, 1), shares), (target_labels(("theory",), GROUPS, 5), attention)
    )


WORLDS = (
    World(
        "simply transitive is better, by what would not count",
        {
            "same_group": False, "same_facts": False, "sharper": False, "a4": False, "solvable": False,
            "same_points": False,
        },
        partial(_rows, simple=MATTERS, sharper=SHARPER),
    ),
    World(
        "solvability decides the length, the number of points the attention",
        {"same_group": False, "same_facts": False, "solvable": False, "sharper": True, "same_points": False},
        partial(_rows, solvable=MATTERS, points=1.0),
    ),
    World(
        "the number of facts decides, and S5 is not learned",
        {
            "facts_solves": False, "same_facts": False, "sharper": False, "same_group": False, "facts": True,
            "points": False,
        },
        partial(_rows, facts=0.2, unlearned="S5"),
    ),
    World(
        "as the paper has it",
        {
            "group_solves": True, "facts_solves": True, "same_group": True, "same_facts": True, "sharper": True,
            "a4": True, "same_points": True,
        },
        partial(_rows, simple=1.5, sharper=2.0),
    ),
)  # fmt: skip
