"""What do the rows of wen2024/lemmas say? Ratios to printed bounds by seed, and the declared parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from interp.core.judging import least_share
from interp.core.parts import NotMeasurable, Part, Role
from interp.statistics import Interval
from probes.rows import with_settings

DELTA = 0.1
"""delta of the lemmas: they promise 1 - delta/10 (Lemma 7) down to 1 - delta (Lemma 26)."""
LIKELY = 1 - DELTA
EXACT = 1e-6
"""An equality holds if it is off by less than this share of its leading term."""
ARMS = {
    "sampled": "the proofs' inequalities",
    "enumerated": "the same, gradients enumerated",
    "assumed": "Assumption 2's formulas, enumerated",
}
WHY = (
    "the lemmas promise probabilities between 1 - delta/10 and 1 - delta, delta = 0.1: nine seeds in ten is a lower "
    "bar for all but the last"
)
NOTHING = ("7_alpha_other",)
"""Quantities of which the printed lemma says that they are 0."""
MEASURED = ("d_model", "m", "batch")


@dataclass(frozen=True)
class Statement:
    """One lemma: what must be at most 1, and where."""

    name: str
    source: str
    metrics: tuple[str, ...]
    """Ratios to printed bounds, all at most 1; `_wrong` counts signs and must be 0."""
    role: Role = "paper"
    primary: bool = False
    """The last lemma of each stage, on which the next one rests: 16, 18, 21, 24, 26."""
    arm: str = "sampled"
    at_largest: bool = False
    """Whether the statement is for large n only, so that the largest is judged."""
    limit: float = 1.0
    added_later: bool = False


_OTHERS_OF_7 = ("7_delta", "7_alpha_secret", "7_beta", "7_psi", "7_gamma", "7_zeta")
_OURS: dict[str, Any] = {"role": "ours"}
STATEMENTS: Mapping[str, Statement] = {
    "lemma7": Statement(
        "each batch is balanced, and alpha is 0 where j is not S[i]", "Lemma 7", (*_OTHERS_OF_7, *NOTHING)
    ),
    "lemma7_meant": Statement(
        "Lemma 7 without its indicator: alpha keeps to the bound for every j", "",
        (*_OTHERS_OF_7, "7_alpha_any"), **_OURS,
    ),
    "lemma10": Statement(
        "at the start neurons are on where nu is positive, their inputs within eps/100 of nu", "Lemma 10",
        ("10", "10_wrong"),
    ),
    "lemma16": Statement(
        "the first step changes every neuron's input by less than 3 eps/80, on any input", "Lemma 16",
        ("16", "16_wrong"), primary=True,
    ),
    "lemma18": Statement(
        "kappa is the printed sum, gradients enumerated: alpha cancels before the first step too", "Lemma 18",
        ("18",), limit=EXACT, arm="enumerated", primary=True,
    ),
    "lemma18_sampled": Statement(
        "kappa is the printed sum, with alpha's mean for a batch's alpha", "", ("18",), limit=EXACT, **_OURS
    ),
    "lemma18_mended": Statement(
        "Lemma 18 with the first step's term and the batch's alpha", "", ("18_mended",), limit=EXACT, **_OURS
    ),
    "lemma19": Statement(
        "after one step the weights know S[i] alone, up to the printed error", "Lemma 19", ("19",)
    ),
    "lemma19_mended": Statement("Lemma 19 with the first step's term", "", ("19_mended",), **_OURS),
    "lemma21": Statement(
        "after two steps S[i] has a score of at least eta_0 eta_1 / (256 m n^2), other keys at most half", "Lemma 21",
        ("21_secret", "21_others"), at_largest=True, primary=True,
    ),
    "lemma21_all": Statement(
        "Lemma 21 at every n, also where its bound on other keys is not yet expected", "",
        ("21_secret", "21_others"), added_later=True, **_OURS,
    ),
    "lemma22": Statement("after two steps the attention output is one-hot to within n^-10", "Lemma 22", ("22",)),
    "lemma24": Statement("after three steps it is one-hot to within n^-9", "Lemma 24", ("24",), primary=True),
    "lemma25": Statement(
        "the third step puts 2 eps/3 on S[i], up to eps/300", "Lemma 25", ("25",)
    ),
    "lemma25_mended": Statement("Lemma 25 with the frequencies of the pairs of bits", "", ("25_mended",), **_OURS),
    "lemma26": Statement(
        "after three steps every output is within eps/3 of eps/3 times its sign", "Lemma 26", ("26",), primary=True
    ),
    "lemma27": Statement(
        "outputs stay within eps/3 throughout, where the hinge loss is linear", "", ("27",), role="precondition",
    ),
    "assumed": Statement(
        "with Assumption 2's own d, m, B and steps Lemma 26 holds at an n that can be run", "", ("26",),
        arm="assumed", **_OURS,
    ),
}  # fmt: skip
LATER = ("lemma21", "lemma21_all", "lemma22", "lemma24", "lemma25", "lemma25_mended", "lemma26")
"""Lemmas about steps in which the loss is the lemmas' linear one only if Lemma 27 keeps the outputs small."""


@dataclass(frozen=True)
class Ratios:
    """What the parts read."""

    table: pd.DataFrame
    """A line for each arm, n, k and seed; a column for each quantity over its bound."""


def summary(rows: pd.DataFrame) -> Ratios:
    """Quantities over their bounds, by arm, size and seed."""
    found = with_settings(rows).pivot(index=["condition", "n", "k", "unit"], columns="metric", values="value")
    found["7_alpha_any"] = found[["7_alpha_secret", "7_alpha_other"]].max(axis=1)
    return Ratios(found.reset_index())


def parts(preset: Any) -> list[Part]:
    """One part for each lemma, as printed and, where it is false so, as meant."""
    return [
        Part(
            key=key,
            name=one.name,
            role=one.role,
            source=one.source,
            primary=one.primary,
            quantity="share of seeds within the bound"
            + (", at the largest n" if one.at_largest else "" if one.arm == "assumed" else ", least over sizes"),
            estimate=partial(share_within, key=key),
            direction="above",
            threshold=LIKELY,
            why=WHY if one.source else f"as for the printed lemmas: {WHY}",
            unit="seeds",
            needs=("lemma27",) if key in LATER else (),
            added_later=one.added_later,
            note=partial(_note, key=key),
        )
        for key, one in STATEMENTS.items()
    ]


def share_within(found: Ratios, level: float, *, key: str) -> Interval | NotMeasurable:
    """The share of seeds in which a lemma's quantities keep to their bounds, at the size where it is smallest."""
    one, of = STATEMENTS[key], _judged(found, key)
    held = pd.Series(True, index=of.index)
    for metric in one.metrics:
        nothing = metric.endswith("_wrong") or metric in NOTHING
        held &= of[metric] == 0 if nothing else of[metric] <= one.limit
    return least_share(held, of["n"], level)


def _judged(found: Ratios, key: str) -> pd.DataFrame:
    one, table = STATEMENTS[key], found.table
    of = table[table["condition"] == one.arm]
    return of[of["n"] == of["n"].max()] if one.at_largest else of


def _note(found: Ratios, key: str) -> str:
    of = _judged(found, key)
    shown = [metric for metric in STATEMENTS[key].metrics if not metric.endswith("_wrong")]
    worst = of.groupby("n")[shown].max()
    text = "; ".join(
        f"n={n}: " + ", ".join(f"{_word(metric)}{value:.2g}" for metric, value in row.items())
        for n, row in worst.iterrows()
    )
    text = f"largest over its bound: {text}"
    if key == "lemma19":
        text += f"; the bound is {of['19_bound_over_signal'].max():.2g} of the signal or less"
    if key in ("lemma10", "assumed"):
        text += "; " + ", ".join(f"{name} {of[name].min():.2g} to {of[name].max():.2g}" for name in MEASURED)
    return text


def _word(metric: str) -> str:
    return metric.split("_", 1)[1].replace("_", " ") + " " if "_" in metric else ""
