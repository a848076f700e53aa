"""What holds after each of three steps? The parts of wen2024/thm3."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

EXPONENT = 8.0
"""The theorem's distance to one-hot attention is n to the minus this."""
DELTA = 0.1
"""For the theorem's 1 - delta, and for Assumption 2's numbers, which are only reported."""
LIKELY = 1 - DELTA
"""The theorem's probability 1 - delta."""
MOST = 0.5
"""A statement of the proof sketch must hold in more than this share of the seeds."""
GAIN = 0.1
"""The third step must raise the share of sequences without an error by more than this."""


@dataclass(frozen=True)
class Trained:
    """What the parts read, at the largest batch."""

    after: pd.DataFrame
    """A line for each seed, a column for each metric and number of steps taken."""
    holds: pd.DataFrame
    """A line for each seed, a column for each statement: whether it holds."""
    numbers: str
    """What was used where Assumption 2 asks for something."""


def summary(rows: pd.DataFrame) -> Trained:
    """What holds after each step, by seed."""
    found = with_settings(rows[~rows["metric"].isin(["attention", "dependency"])])
    found = found[found["B"] == found["B"].max()]
    assumed = found[found["metric"].isin(["used", "assumed"])]
    after = found[~found.index.isin(assumed.index)].pivot(index="unit", columns=["metric", "phase"], values="value")
    numbers = assumed.groupby(["scope", "metric"])["value"].first().unstack("metric")
    shown = [f"{name} {row['used']:.3g} for {row['assumed']:.3g}" for name, row in numbers.iterrows()]
    holds = {
        "right": after["margin", 3] > 0,
        "one_hot": after["exponent", 3] > EXPONENT,
        "phase_1": after["hit", 1] == 1,
        "phase_1_parity": after["parity_hit", 1] == 1,
        "phase_2": after["exponent", 2] > EXPONENT,
    }
    return Trained(after, pd.DataFrame(holds), ", ".join(shown))


def parts(preset: Any) -> list[Part]:
    """The theorem's two statements about the trained block, then the phases of its proof sketch."""
    near = f"attention is within n^-{EXPONENT:g} of one-hot on every input"
    probable = f"the theorem's probability 1 - delta, for delta = {DELTA:g}"
    most = "the sketch says it of training as such, so the least that it can mean: in most runs"
    shares = (
        ("right", "after training every input is right", "Theorem 3: reach perfect accuracy",
         "after three steps every input is proven right", LIKELY, probable, _accuracies),
        ("one_hot", "after training attention is one-hot", "Theorem 3: the attention pattern is one-hot",
         f"after three steps {near}", LIKELY, probable, _assumed),
        ("phase_1", "phase 1: S[i] outweighs every other key",
         "Section 3.3, phase 1: a stronger correlation with the embedding of S[i] than other embeddings",
         "after one step S[i] has the largest influence at every step and running parity", MOST, most, _first_bit),
        ("phase_1_parity", "phase 1: S[i] stands out given the running parity", "",
         "after one step S[i] has the largest interaction with the running parity at every step", MOST,
         "ours, the interaction that parity needs; said of training as such, so of most runs", None),
        ("phase_2", "phase 2: attention becomes one-hot",
         "Section 3.3, phase 2: the attention pattern will become one-hot after this step",
         f"after two steps {near}", MOST, most, _distances),
    )  # fmt: skip
    third = Part(
        key="phase_3",
        name="phase 3: it is the third step that makes it right",
        role="paper",
        source="Section 3.3, phase 3: this step will make the model reach perfect accuracy",
        quantity="share of sequences without an error, after the third step minus before, mean over seeds",
        estimate=gain_of_third,
        direction="above",
        threshold=GAIN,
        why="ours: the smallest share of sequences that shows a step which matters",
        unit="seeds",
    )
    return [
        *(
            Part(
                key=key,
                name=name,
                role="paper" if source else "ours",
                source=source,
                primary=threshold == LIKELY,
                quantity=f"share of seeds: {quantity}",
                estimate=partial(share_holding, statement=key),
                direction="above",
                threshold=threshold,
                why=why,
                unit="seeds",
                note=note,
            )
            for key, name, source, quantity, threshold, why, note in shares
        ),
        third,
    ]


def share_holding(found: Trained, level: float, *, statement: str) -> Interval | NotMeasurable:
    """The share of seeds in which a statement about every step and input holds."""
    return share_of(found.holds[statement], level)


def gain_of_third(found: Trained, level: float) -> Interval | NotMeasurable:
    """What the third step adds to the share of test sequences without an error."""
    return mean_over(found.after["accuracy", 3] - found.after["accuracy", 2], level, bounds=(-1.0, 1.0))


def _accuracies(found: Trained) -> str:
    after = found.after
    return (
        f"test accuracy {after['accuracy', 3].mean():.4f} after {after['accuracy', 2].mean():.2f}; "
        f"margin proven in {(after['margin', 2] > 0).sum()} seeds before the third step"
    )


def _assumed(found: Trained) -> str:
    both = (found.holds["right"] & found.holds["one_hot"]).sum()
    return f"right and one-hot in {both} of {len(found.holds)} seeds; used for Assumption 2's number: {found.numbers}"


def _first_bit(found: Trained) -> str:
    return f"the first secret bit has {found.after['first_over_own', 1].mean():.1f} times S[i]'s influence later on"


def _distances(found: Trained) -> str:
    exponents = found.after["exponent", 2]
    return f"distance n^-x with x from {exponents.min():.1f} to {exponents.max():.1f}; before, uniform"
