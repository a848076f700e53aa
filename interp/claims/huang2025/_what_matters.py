"""How is it judged what decides how far a group goes? Pairs of actions that differ in one thing, and sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.huang2025._parts import mean_of, precondition
from interp.claims.huang2025._runs import SOLVES, curve_metrics, span
from interp.core.judging import UNBOUNDED, share_of
from interp.core.parts import Direction, NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

MATTERS = 0.5
"""The fewest octaves that count: a factor of 1.4 in length."""
SHARPER = 1.0
"""log2 of the smallest ratio of attention off the targets that counts: a factor of two."""
NOTHING = 1e-6
"""Attention off the targets is taken to be at least this, before its logarithm."""
Pairs = tuple[tuple[str, str], ...]
"""Pairs of groups, the one that should go farther first."""
SAME_GROUP: Pairs = (("S3-regular", "S3"),)
SAME_FACTS: Pairs = (("C24", "S5"),)
OTHERS = {
    "a4": ("A4 is better off simply transitive, too", (("A4-regular", "A4"),)),
    "solvable": ("at as many facts, solvable is better", (("D12", "A5"), ("D17", "S5"))),
}
SAME_POINTS: Pairs = (("A4-regular", "D12"),)
SIZES: dict[str, tuple[str, Direction]] = {
    "facts": ("more facts shorten the length", "below"),
    "points": ("more points, hence fewer distractors, lengthen it", "above"),
}


@dataclass(frozen=True)
class Found:
    """What the parts read of the rows: seeds by groups."""

    octaves: pd.DataFrame
    """The area under accuracy against log2 of the length, after the last step."""
    off: pd.DataFrame
    """log2 of the attention off both targets at the training length."""
    solves: pd.DataFrame
    """Whether the training length is solved."""
    span: float
    words: str


@cache
def properties(group: str) -> dict[str, int | bool]:
    """Facts |G||Y| and points |Y|, whether the action is simply transitive, and whether the group is solvable."""
    from toy_models.lego.groups import group_action

    action = group_action(group)
    return {
        "facts": action.n_elements * action.n_points,
        "points": action.n_points,
        "simple": action.is_simply_transitive,
        "solvable": action.is_solvable,
    }


def ladder(rows: pd.DataFrame) -> pd.DataFrame:
    """By group and seed: the length reached and the attention on the targets, with the group's properties.

    `reach` is the mean of log2 of the length reached over the evaluations; `octaves` and `solves` are of the last.
    """
    return _ladder(with_settings(rows[rows["metric"].isin(["accuracy", "predicate", "answer"])]))


def _ladder(found: pd.DataFrame) -> pd.DataFrame:
    curves = curve_metrics(found[found["metric"] == "accuracy"]).sort_values("update")
    keys = ["group", "unit"]
    last = curves.drop_duplicates(keys, keep="last").set_index(keys)[["octaves", "solves"]]
    targets = found[found["metric"] != "accuracy"]
    mass = targets.groupby([*keys, "metric"])["value"].mean().groupby(keys).sum()
    table = last.assign(reach=curves.groupby(keys)["reach"].mean(), mass=mass).reset_index()
    of_group = {name: [properties(group)[name] for group in table["group"]] for name in properties("C6")}
    return table.assign(**of_group)


def summary(rows: pd.DataFrame) -> Found:
    """The lengths and the attention of every group, by seed."""
    settled = with_settings(rows[rows["metric"].isin(["accuracy", "predicate", "answer"])])
    found = _ladder(settled)
    found["off"] = np.log2((1 - found["mass"]).clip(lower=NOTHING))
    octaves, off, solves, reach = (
        found.pivot(index="unit", columns="group", values=name) for name in ("octaves", "off", "solves", "reach")
    )
    words = "median length on the way: " + ", ".join(f"{group} {2 ** reach[group].median():.0f}" for group in reach)
    return Found(octaves, off, solves.astype(bool), span(settled[settled["metric"] == "accuracy"]), words)


def parts(_preset: object) -> list[Part]:
    """What the paper says of simply transitive actions; then other groups, solvability and sizes."""
    return [*_preconditions(), *_papers(), *_ours()]


def _preconditions() -> list[Part]:
    return [
        precondition(
            key,
            f"{one} and {other} solve the training length",
            f"share of seeds at which both have at least {SOLVES:g} of the sentences of length 5 right, in the end",
            partial(share_solving, pairs=((one, other),)),
            partial(_solved, pairs=((one, other),)),
        )
        for key, ((one, other),) in (("group_solves", SAME_GROUP), ("facts_solves", SAME_FACTS))
    ]


def _papers() -> list[Part]:
    quantity = "octaves by which the simply transitive action goes farther, after the last step"
    lengths = [
        Part(
            key=key,
            name=name,
            role="paper",
            source=source,
            primary=True,
            quantity=f"{quantity}: {pairs[0][0]} against {pairs[0][1]}",
            estimate=partial(farther, pairs=pairs),
            direction="above",
            threshold=MATTERS,
            why="the paper has a power of d against a constant factor; a factor of 1.4 is the least that this can be",
            unit="seeds",
            needs=(needs,),
            note=_words,
        )
        for key, name, source, pairs, needs in (
            (
                "same_group", "the same group goes farther if its action is simply transitive",
                "Theorem 1.2; section 1.1: two types of action, even when the group is the same",
                SAME_GROUP, "group_solves",
            ),
            (
                "same_facts", "at as many facts, simply transitive goes farther than symmetric",
                "Theorem 1.2: the algebraic structure dictates how far the length generalises", SAME_FACTS,
                "facts_solves",
            ),
        )
    ]  # fmt: skip
    sharper = Part(
        key="sharper",
        name="simply transitive actions concentrate attention more sharply",
        role="paper",
        source="section 1.1: simply transitive actions enable sharp concentration, symmetry actions dilute attention",
        primary=True,
        quantity="log2 of the ratio of attention off the targets, symmetric to simply transitive, mean of both pairs",
        estimate=partial(concentration, pairs=SAME_GROUP + SAME_FACTS),
        direction="above",
        threshold=SHARPER,
        why="sharp against diluted in the paper's words: a factor of two at least",
        unit="seeds",
        needs=("group_solves", "facts_solves"),
        note=partial(_ratios, pairs=SAME_GROUP + SAME_FACTS),
    )
    return [*lengths, sharper]


def _ours() -> list[Part]:
    pairs = [
        Part(
            key=key,
            name=name,
            role="ours",
            quantity=f"octaves by which the first goes farther, mean over {' and '.join(map(' - '.join, of))}, seeds "
            "that solve the training length",
            estimate=partial(farther, pairs=of),
            direction="above",
            threshold=MATTERS,
            why="a factor of 1.4 in length, as for the paper's statement",
            unit="seeds",
            note=partial(_gaps, pairs=of),
        )
        for key, (name, of) in OTHERS.items()
    ]
    points = Part(
        key="same_points",
        name="at as many points, simply transitive concentrates more sharply",
        role="ours",
        quantity="log2 of the ratio of attention off the targets, D12 to A4 on itself, 12 points each",
        estimate=partial(concentration, pairs=SAME_POINTS),
        direction="above",
        threshold=SHARPER,
        why="a factor of two, as for the paper's statement, whose pairs differ in the number of points as well",
        unit="seeds",
        note=partial(_ratios, pairs=SAME_POINTS),
    )
    sizes = [
        Part(
            key=column,
            name=name,
            role="ours",
            quantity=f"octaves per doubling of the {column}, over all groups that solve (least squares on both)",
            estimate=partial(slope, size=column),
            direction=direction,
            threshold=0.0,
            why="any effect in that direction",
            unit="seeds",
            note=_words,
        )
        for column, (name, direction) in SIZES.items()
    ]
    return [*pairs, points, *sizes]


def share_solving(found: Found, level: float, *, pairs: Pairs) -> Interval | NotMeasurable:
    """The share of seeds at which all groups of the pairs solve the training length."""
    return share_of(_all_solve(found, pairs), level)


def farther(found: Found, level: float, *, pairs: Pairs) -> Interval | NotMeasurable:
    """The octaves by which the first of a pair goes farther, mean over the pairs, where all solve."""
    gaps = _differences(found.octaves, pairs).mean(axis=1)[_all_solve(found, pairs)]
    return mean_of(gaps, level, (-found.span, found.span), "at which all of them solve the training length")


def concentration(found: Found, level: float, *, pairs: Pairs) -> Interval | NotMeasurable:
    """log2 of the ratio of attention off the targets, second to first, mean over the pairs, where all solve."""
    ratios = -_differences(found.off, pairs).mean(axis=1)[_all_solve(found, pairs)]
    return mean_of(ratios, level, UNBOUNDED, "at which all of them solve the training length")


def slope(found: Found, level: float, *, size: str) -> Interval | NotMeasurable:
    """What a doubling of the size adds to the octaves, with the other size held fixed, by seed."""
    groups = list(found.octaves)
    design = np.array([[np.log2(properties(g)["facts"]), np.log2(properties(g)["points"]), 1.0] for g in groups])
    solves, octaves = found.solves.to_numpy(bool), found.octaves.to_numpy(float)
    fitted = [_fit(design[use], of_seed[use]) for use, of_seed in zip(solves, octaves)]
    values = pd.Series([fit[list(SIZES).index(size)] for fit in fitted], dtype=float).dropna()
    return mean_of(values, level, UNBOUNDED, "at which enough groups solve the training length")


def _fit(design: Float[np.ndarray, "group 3"], values: Float[np.ndarray, "group"]) -> Sequence[float]:
    if len(values) <= 3 or np.linalg.matrix_rank(design) < 3:
        return [np.nan, np.nan]
    return np.linalg.lstsq(design, values, rcond=None)[0][:2].tolist()


def _differences(table: pd.DataFrame, pairs: Pairs) -> pd.DataFrame:
    return pd.DataFrame({f"{one} - {other}": table[one] - table[other] for one, other in pairs})


def _all_solve(found: Found, pairs: Pairs) -> pd.Series:
    return found.solves[[group for pair in pairs for group in pair]].all(axis=1)


def _words(found: Found) -> str:
    return found.words


def _gaps(found: Found, *, pairs: Pairs) -> str:
    means = _differences(found.octaves, pairs).mean()
    return "; ".join(f"{pair}: {value:.2f}" for pair, value in means.items()) + f"; {found.words}"


def _ratios(found: Found, *, pairs: Pairs) -> str:
    off = {group: 2 ** found.off[group].mean() for pair in pairs for group in pair}
    return "attention off the targets: " + ", ".join(f"{group} {value:.4f}" for group, value in off.items())


def _solved(found: Found, *, pairs: Pairs) -> str:
    counts = {group: int(found.solves[group].sum()) for pair in pairs for group in pair}
    return ", ".join(f"{group} at {count} seeds" for group, count in counts.items())
