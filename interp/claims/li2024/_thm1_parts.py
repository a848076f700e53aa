"""Which statements does Theorem 1 of li2024 make about T, T_1, context examples, steps and batches?"""

from collections.abc import Mapping
from functools import partial

from interp.claims.li2024._training import (
    EARLY,
    GONE,
    LEARNED,
    LEVELS,
    SHORT,
    SHOWN,
    exponent,
    largest_excess,
    least_growth,
    length_exponent,
    length_line,
    length_note,
    level_exponent,
    share_reaching,
    straightness,
    stretch,
    times_note,
)
from interp.core.parts import Part

HALF, QUARTER, TENTH = 0.5, 0.25, 0.1
MOST = 0.5
"""The share of seeds in which a statement has to hold."""
BOUNDS = {"alpha": 1.0, "patterns": 1.0, "steps": 3.0, "levels": 1.0, "eta": 1.0}
"""The exponents of (18) in 1/alpha, M, K, 1/epsilon and 1/eta."""


def parts(n_steps: int, own: Mapping[str, float]) -> list[Part]:
    """In the order of the theorem: T, then T_1, then what is held fixed elsewhere.

    `own` has the exponents that (18) itself, with constants of 1, has over the values of alpha and of K.
    """
    return [*_bound_parts(), *_length_parts(), *_power_parts(own), *_first_stage_parts(n_steps), *_control_parts()]


def _bound_parts() -> list[Part]:
    return [
        Part(
            key="within",
            name="the number of updates stays within the order of the bound",
            role="paper",
            source="Theorem 1, condition (18)",
            primary=True,
            quantity="exponent of T minus that of the bound: largest over 1/alpha, M, K, 1/epsilon and 1/eta",
            estimate=partial(largest_excess, bounds=BOUNDS),
            direction="below",
            threshold=QUARTER,
            why="the bound suffices up to a constant, so T may not grow faster; a quarter of a power is what bounded "
            "factors may add over a finite range",
            unit="seeds",
        ),
        Part(
            key="grows",
            name="more updates are needed when M or 1/alpha is larger",
            role="paper",
            source="after Theorem 1: the required number of iterations increases as M and alpha^-1 increase",
            primary=True,
            quantity="least of the exponents of T in M and in 1/alpha",
            estimate=partial(least_growth, lines=("alpha", "patterns")),
            direction="above",
            threshold=0.0,
            why="the paper's word is increases, of no stated size",
            unit="seeds",
        ),
        Part(
            key="alpha_linear",
            name="the number of updates is linear in 1/alpha",
            role="paper",
            source="section 3, P1: context examples, samples and iterations are all linear in alpha^-1",
            primary=True,
            quantity="slope of T over 1/alpha at small alpha over that at large alpha, mean over seeds",
            estimate=partial(straightness, line="alpha"),
            direction="within",
            threshold=1.0,
            margin=HALF,
            why="1 for a straight line, whatever its intercept, so that the term of (18) without alpha does not "
            "count; a square has more than 2 here, no growth beyond the middle 0",
            unit="seeds",
            note=partial(times_note, line="alpha"),
        ),
    ]


def _length_parts() -> list[Part]:
    shown = f"{SHOWN[-1]:g}/alpha"
    return [
        Part(
            key="length",
            name="of the order of 1/alpha context examples suffice",
            role="paper",
            source="Theorem 1, condition (17)",
            primary=True,
            quantity=f"share of seeds whose loss comes below {LEARNED:g} with {shown} context examples, each like "
            "the query with probability alpha, at every alpha",
            estimate=share_reaching,
            direction="above",
            threshold=MOST,
            why="with a high probability: in most models; the order has no constant, and with 4/alpha examples one "
            "prompt in fifty has none like the query",
            unit="seeds",
            note=partial(times_note, line=length_line(SHOWN[-1]), at=LEARNED),
        ),
        Part(
            key="length_linear",
            name="the required number of context examples is linear in 1/alpha",
            role="paper",
            source="section 3, P1: context examples, samples and iterations are all linear in alpha^-1",
            quantity=f"exponent p of l ~ alpha^-p with which the loss ends below {SHORT:g}, mean over seeds",
            estimate=length_exponent,
            direction="within",
            threshold=1.0,
            margin=HALF,
            why="nearer to the first power than to another; prompts without an example like the query, (1 - alpha)^l "
            "of all, alone would give 1.2 over these values",
            unit="seeds",
            note=length_note,
        ),
    ]


def _power_parts(own: Mapping[str, float]) -> list[Part]:
    return [
        _own("alpha_power", "alpha", "1/alpha", own["alpha"]),
        _own("steps_power", "steps", "K", own["steps"]),
        _power(
            "patterns_linear", "patterns", "M", 1.0, QUARTER, "Theorem 1, condition (18): M K (1/alpha + 1/epsilon)"
        ),
        Part(
            key="levels_linear",
            name="the number of updates grows as 1/epsilon",
            role="paper",
            source="Theorem 1, condition (18); (54)",
            quantity=f"exponent p of T ~ epsilon^-p for losses from {LEVELS[0]:g} to {LEVELS[-1]:g}, mean over seeds",
            estimate=level_exponent,
            direction="within",
            threshold=1.0,
            margin=QUARTER,
            why="1/epsilon is the largest term as epsilon falls; a quarter of a power is what the others may add",
            unit="seeds",
        ),
    ]


def _first_stage_parts(n_steps: int) -> list[Part]:
    first = {"line": "alpha", "metric": "other_step", "at": GONE}
    lemma = "Lemma F.6, (34): T_1 ~ alpha^-2 K^3 log(K/epsilon)"
    return [
        Part(
            key=key,
            name=f"attention leaves the other steps in a time that grows as alpha^-{power:g}",
            role="paper",
            source=source,
            quantity=f"exponent p of T_1 ~ alpha^-p at an attention of {GONE:g} on other steps, mean over seeds",
            estimate=partial(exponent, **first),
            direction="within",
            threshold=power,
            margin=HALF,
            why="nearer to this whole power than to the other",
            unit="seeds",
            note=partial(times_note, **first),
        )
        for key, power, source in (("t1_theorem", 1.0, "Theorem 1, first term of (18)"), ("t1_lemma", 2.0, lemma))
    ] + [
        Part(
            key="t1_log",
            name="as epsilon falls, the time in which other steps are left grows as log(K/epsilon)",
            role="paper",
            source=lemma,
            quantity=f"log of T_1({GONE:g}) / T_1({EARLY:g}), minus the same of log(K/epsilon), mean over seeds",
            estimate=partial(stretch, n_steps=n_steps),
            direction="below",
            threshold=QUARTER,
            why="0 if T_1 is proportional to the logarithm, 0.7 if it is to 1/epsilon: nearer to the logarithm",
            unit="seeds",
        ),
    ]


def _control_parts() -> list[Part]:
    flow = (
        "T eta is the time of a gradient flow; steps of 10, which other claims take, have to be as good as steps "
        "below 1 for them to mean what they say"
    )
    batch = (
        "batches from a quarter of M to 4 M prompts, all far below epsilon^-2 log M: if T does not change, so many "
        "are not needed"
    )
    return [
        _power("eta", "eta", "1/eta", 1.0, TENTH, "", role="control", why=flow),
        _power("batch", "batch", "1/batch", 0.0, TENTH, "", role="ours", why=batch),
    ]


def _own(key: str, line: str, name: str, power: float) -> Part:
    return Part(
        key=key,
        name=f"the number of updates grows with {name} no faster than the bound with constants of 1 does",
        role="ours",
        quantity=f"exponent of T in {name} at a loss of {LEVELS[-1]:g}, mean over seeds",
        estimate=partial(exponent, line=line),
        direction="below",
        threshold=round(power + HALF, 2),
        why=f"(18) itself, its constants being 1, has the exponent {power:.2f} over these values, where M K / "
        "epsilon is its largest term; half a power more for constants that are not 1",
        unit="seeds",
        note=partial(times_note, line=line),
    )


def _power(
    key: str,
    line: str,
    name: str,
    power: float,
    margin: float,
    source: str,
    *,
    primary: bool = False,
    role: str = "paper",
    why: str = "the power that is stated, and nearer to it than half-way to the next or to half of it",
) -> Part:
    return Part(
        key=key,
        name=f"the number of updates grows as the power {power:g} of {name}",
        role=role,  # pyright: ignore[reportArgumentType]
        source=source,
        primary=primary,
        quantity=f"exponent of T in {name} at a loss of {LEVELS[-1]:g}, mean over seeds",
        estimate=partial(exponent, line=line),
        direction="within",
        threshold=power,
        margin=margin,
        why=why,
        unit="seeds",
        note=partial(times_note, line=line),
    )
