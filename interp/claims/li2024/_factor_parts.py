"""Which statements do Figures 2 and 3 make, and what decides each? The parts of CoT and of ICL alike."""

from collections.abc import Mapping
from functools import partial

import numpy as np

from interp.claims.li2024._factors import (
    ENOUGH,
    FEWEST,
    Factors,
    beyond_vote,
    beyond_vote_exponent,
    exponent,
    largest_exponent,
    least_clear_order,
    least_exponent,
    least_fall,
    vote_exponent,
)
from interp.core.parts import Part

SQUARE, HALF = 2.0, 0.5
"""The exponent that the bound gives to each 1/factor; half a power: nearer to 2 than to any other whole number."""
TIE = 0.05
"""A difference between the errors of the network and of a vote that is too small to matter: five answers in a
hundred, as in the other claims of this paper."""
NEAR = 0.15
"""A difference of two exponents that is too small to matter: over the fourfold range of alpha', a required number
that is 1.2 times as large at one end."""


def factor_parts(
    factors: Mapping[str, str], *, who: str, length: int, lengths: tuple[int, int], sources: Mapping[str, str]
) -> list[Part]:
    """The parts of Figure 2 or 3: `factors` maps columns to names; `sources` says where the paper has each part."""
    alpha, tau, rho = factors
    return [
        *_required_parts(factors, sources),
        _square("alpha_square", alpha, factors[alpha], sources["square"]),
        _square("tau_power", tau, factors[tau], sources["square"]),
        _square("rho_power", rho, factors[rho], sources["square"]),
        *_panel_parts(factors, who, length, lengths, sources["panels"]),
        Part(
            key="alpha_power",
            name=f"only the columns of the query's pattern count: l ~ 1/{factors[alpha]}",
            role="control",
            quantity=f"exponent p of l ~ {factors[alpha]}^-p at an error of {ENOUGH:g}, mean over seeds",
            estimate=partial(exponent, factor=alpha),
            direction="within",
            threshold=1.0,
            margin=HALF,
            why="exactly ceil(alpha' l) examples have the query's pattern, so a model that reads nothing else has "
            "p = 1 by construction; nearer to 1 than to any other whole power",
            unit="seeds",
            note=partial(_medians, factor=alpha),
        ),
        Part(
            key="vote",
            name=f"the network errs as an ideal vote does, in every cell with {FEWEST} examples or more",
            role="ours",
            quantity="size of the error minus that of an ideal vote on the same prompts, paired by seed: largest of "
            f"the settings around the base, from {FEWEST} examples on",
            estimate=beyond_vote,
            direction="below",
            threshold=TIE,
            why="an equivalence margin in every cell: five answers in a hundred",
            unit="seeds",
            note=_worst_cell,
        ),
        Part(
            key="vote_powers",
            name="the required number grows with each factor as that of an ideal vote does",
            role="ours",
            quantity="size of the exponent minus that of an ideal vote on the same prompts, paired by seed: "
            f"largest over {', '.join(factors.values())}",
            estimate=beyond_vote_exponent,
            direction="below",
            threshold=NEAR,
            why="an equivalence margin for each factor, a third of what tells one whole power from the next",
            unit="seeds",
            note=_vote_powers,
        ),
    ]


def _required_parts(factors: Mapping[str, str], sources: Mapping[str, str]) -> list[Part]:
    names = ", ".join(factors.values())
    return [
        Part(
            key="more",
            name=f"more examples are needed when {names} are small",
            role="paper",
            source=sources["more"],
            primary=True,
            quantity=f"least of the exponents p of l ~ factor^-p at an error of {ENOUGH:g}, over {names}",
            estimate=least_exponent,
            direction="above",
            threshold=0.0,
            why="the paper's word is more, of no stated size; it has to hold for each factor",
            unit="seeds",
            note=_floors,
        ),
        Part(
            key="bound",
            name="the required number stays within the order of the bound",
            role="paper",
            source=sources["bound"],
            primary=True,
            quantity=f"largest of the exponents p of l ~ factor^-p at an error of {ENOUGH:g}, over {names}",
            estimate=largest_exponent,
            direction="below",
            threshold=SQUARE + HALF,
            why="the bound has the square of each 1/factor; an order leaves bounded factors free, which shift an "
            "exponent over a finite range, but half a power more is nearer to the cube",
            unit="seeds",
            note=_floors,
        ),
    ]


def _square(key: str, column: str, name: str, source: str) -> Part:
    return Part(
        key=key,
        name=f"the required number grows as a power of 1/{name} nearer to the square than to another whole power",
        role="paper",
        source=source,
        primary=True,
        quantity=f"exponent p of l ~ {name}^-p at an error of {ENOUGH:g}, mean over seeds",
        estimate=partial(exponent, factor=column),
        direction="within",
        threshold=SQUARE,
        margin=HALF,
        why="proportional to the inverse square; nearer to 2 than to any other whole power",
        unit="seeds",
        note=partial(_medians, factor=column),
    )


def _panel_parts(
    factors: Mapping[str, str], who: str, length: int, lengths: tuple[int, int], source: str
) -> list[Part]:
    short, long = lengths
    return [
        Part(
            key="order",
            name="the curves of each panel are in order",
            role="paper",
            source=source,
            quantity=f"{who} error at {length} examples, lower minus next higher value: least of all "
            "pairs in three panels",
            estimate=partial(least_clear_order, length=length),
            direction="above",
            threshold=0.0,
            why="every pair of neighbouring curves has to be in order, by any distance",
            unit="seeds",
            note=partial(_errors_by_value, length=length),
        ),
        Part(
            key="falls",
            name="the error falls with the number of examples",
            role="paper",
            source=source,
            quantity=f"{who} error at {short} examples minus at {long}, mean over a panel: least of three panels",
            estimate=partial(least_fall, lengths=lengths),
            direction="above",
            threshold=0.0,
            why="a fall of any size is what the figure shows",
            unit="seeds",
        ),
    ]


def _errors_by_value(found: Factors, length: int) -> str:
    texts = []
    for factor, line in found.panels.items():
        pairs = zip(line.values, line.at(length).mean(1))
        texts.append(f"{factor} " + ", ".join(f"{value:g}: {mean:.4f}" for value, mean in pairs))
    return f"mean error at {length} examples: " + "; ".join(texts)


def _medians(found: Factors, factor: str) -> str:
    growth = found.growth[factor]
    pairs = zip(growth.values, np.median(growth.needed, axis=1))
    medians = ", ".join(f"{value:g}: {median:.0f}" for value, median in pairs)
    return f"an exact vote over the same values: {vote_exponent(found, factor):.2f}; median l by value: {medians}"


def _floors(found: Factors) -> str:
    more, fewer = (sum(int(getattr(g, name).sum()) for g in found.growth.values()) for name in ("more", "fewer"))
    return f"{more} required numbers are floors, {fewer} are caps"


def _vote_powers(found: Factors) -> str:
    pairs = [f"{factor} {vote_exponent(found, factor):.2f}" for factor in found.growth]
    return "an exact vote's exponents: " + ", ".join(pairs)


def _worst_cell(found: Factors) -> str:
    means = found.beyond_vote.mean(1)
    texts = [f"mean difference {means[found.judged].mean():.4f} over {found.judged.sum()} cells"]
    for name, chosen in (("judged", found.judged), ("others", ~found.judged)):
        if chosen.any():
            at = np.abs(np.where(chosen, means, 0.0)).argmax()
            worst = found.cells.iloc[int(at)]
            texts.append(f"largest of the {name} {means[at]:.4f} at {worst['setting']} ({worst['scope']})")
    return "; ".join(texts)
