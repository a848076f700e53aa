"""How is Figure 1a judged at the paper's own rate? Both groups at the longest length, and on the way there."""

from dataclasses import replace
from functools import partial

from interp.claims.huang2025._fig1a import (
    APART,
    BOTH,
    CYCLIC,
    FAILS,
    NEARLY_PERFECT,
    POINTS,
    SYMMETRIC,
    Lengths,
    accuracies_at_longest,
    accuracy_at_longest,
    difference_at_longest,
    differences_at_longest,
    gap,
    share_solving,
)
from interp.claims.huang2025._parts import SOLVING, mean_of, precondition
from interp.claims.huang2025._runs import END, LegoRuns, LongRun, after
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval

READS = (12_000, 24_000)
"""Steps after the plateau at which a run is read before its end."""
RUN = LongRun(model="standard", change="rate 1e-4", rate=1e-4, further=36_000, steps=60_000, reads=READS)
_SAYS = "Figure 1a; section 7: near-perfect accuracy, for example up to L = 160, on the simply transitive task"
_LONGEST = "share of sentences of the longest length with all steps right"
_SOLVING = tuple(f"{group.lower()}_solves" for group in (CYCLIC, SYMMETRIC))


def parts(preset: LegoRuns) -> list[Part]:
    """C6 is nearly perfect at the longest length, S5 clearly is not; then the same on the way and at equal loss."""
    condition = preset.runs[0].condition
    solving = [
        precondition(
            key,
            f"{group} solves its training length",
            f"{SOLVING}, at the end",
            partial(share_solving, condition=condition, group=group),
            partial(_steps, condition=condition),
        )
        for key, group in zip(_SOLVING, (CYCLIC, SYMMETRIC))
    ]
    far, apart, short = _papers(condition)
    farther = [_farther(condition, point, words) for point, words in POINTS.items()]
    return [*solving, far, apart, short, *_on_the_way(condition, apart), *farther]


def _papers(condition: str) -> tuple[Part, Part, Part]:
    """What the paper says of the longest length: of C6, of both, of S5."""
    far = Part(
        key="c6_far",
        name=f"{CYCLIC} is nearly perfect at the longest length",
        role="paper",
        source=_SAYS,
        primary=True,
        quantity=f"{_LONGEST}, {CYCLIC}, at the end, seeds that solve the training length",
        estimate=partial(accuracy_at_longest, condition=condition, group=CYCLIC),
        direction="above",
        threshold=NEARLY_PERFECT,
        why="near-perfect in the paper's words, which gives no number; one sentence in ten may fail",
        unit="seeds",
        needs=_SOLVING[:1],
    )
    apart = Part(
        key="apart",
        name=f"{SYMMETRIC} is clearly weaker there",
        role="paper",
        source="Figure 1a; section 7: by contrast, on the harder symmetry task the generalization is weaker",
        primary=True,
        quantity=f"{_LONGEST}: {CYCLIC} minus {SYMMETRIC}, by seed, at the end",
        estimate=partial(difference_at_longest, condition=condition, point=END),
        direction="above",
        threshold=APART,
        why="the paper gives no number; a quarter of the sentences is what a reader of the figure would see",
        unit="seeds",
        needs=_SOLVING,
        note=partial(accuracies_at_longest, condition=condition, point=END),
    )
    short = Part(
        key="s5_short",
        name=f"{SYMMETRIC} fails at the longest length",
        role="paper",
        source="Figure 1: generalising poorly for symmetry group tasks",
        quantity=f"{_LONGEST}, {SYMMETRIC}, at the end, seeds that solve the training length",
        estimate=partial(accuracy_at_longest, condition=condition, group=SYMMETRIC),
        direction="below",
        threshold=FAILS,
        why="poorly in the paper's words, which gives no number: more sentences fail than not",
        unit="seeds",
        needs=_SOLVING[1:],
    )
    return far, apart, short


def _on_the_way(condition: str, apart: Part) -> list[Part]:
    """The paper's difference before the end, and whether it closes."""
    earlier = [
        replace(
            apart,
            key=f"apart_{after(steps)}",
            name=f"{SYMMETRIC} is clearly weaker there {steps:,} steps after the plateau",
            role="ours",
            source="",
            primary=False,
            quantity=f"{_LONGEST}: {CYCLIC} minus {SYMMETRIC}, by seed, {steps:,} steps after the plateau",
            estimate=partial(difference_at_longest, condition=condition, point=after(steps)),
            why="as at the end",
            note=partial(accuracies_at_longest, condition=condition, point=after(steps)),
        )
        for steps in READS
    ]
    closes = Part(
        key="closes",
        name="the gap at the longest length closes with training",
        role="ours",
        quantity=f"{_LONGEST}: {CYCLIC} minus {SYMMETRIC}, {READS[0]:,} steps after the plateau less at the end",
        estimate=partial(closing, condition=condition),
        direction="above",
        threshold=APART,
        why="as much as a reader of the figure would see",
        unit="seeds",
    )
    return [*earlier, closes]


def _farther(condition: str, point: str, words: str) -> Part:
    return Part(
        key=f"farther_{point.replace('.', '_')}",
        name=f"{CYCLIC} goes farther than {SYMMETRIC} {words}",
        role="ours",
        quantity=f"octaves between the accuracy curves of {CYCLIC} and {SYMMETRIC}, {words}",
        estimate=partial(gap, condition=condition, point=point),
        direction="above",
        threshold=0.0,
        why="any difference; lengths end at 160, so at the end the gap is a lower bound",
        unit="seeds",
    )


def closing(found: Lengths, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The mean over seeds of how much smaller the difference is at the end than at the first reading."""
    first, last = (differences_at_longest(found, condition, point) for point in (after(READS[0]), END))
    return mean_of((first - last).dropna(), level, (-2.0, 2.0), BOTH)


def _steps(found: Lengths, *, condition: str) -> str:
    return found.words.get(condition, "")
