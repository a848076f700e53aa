"""What does kim2024/thm2 declare? Its parts: both bounds on the variance, the oracle with its controls, and k = d."""

from functools import partial
from typing import TYPE_CHECKING

from interp.claims.kim2024._parts import HIGH_PROBABILITY, MOST
from interp.claims.kim2024._thm2 import (
    SOLVED,
    correlation_note,
    decay,
    decay_note,
    exact_note,
    loss_note,
    ratio_note,
    share_held,
    share_tight,
    share_told,
    share_whole,
    small_note,
)
from interp.core.parts import Part

if TYPE_CHECKING:
    from interp.claims.kim2024.thm2 import Thm2

WHY_ALL = (
    "the inequality is a theorem (on samples: but for a probability below (2/e)^(2d)); nine seeds in ten is a lower "
    "bar, and the least that a statement about all weights can mean"
)


def parts(preset: "Thm2") -> list[Part]:
    """Both bounds on the variance, the oracle's loss, and what happens where there is one secret."""
    primary = [
        _bound("population", "over all inputs the variance keeps to its bound", "Proposition 3"),
        _bound("sample", "on samples the variance keeps to its bound", "Appendix A, 'Bounding gradient variance'"),
        Part(
            key="oracle",
            name="under the population oracle of the proof the loss stays above its bound",
            role="paper",
            source="Theorem 2, equation (5)",
            primary=True,
            quantity="share of seeds whose loss over all secrets is above 2 - 1/Pr(Q) - 2 E|E_p p(x)|, Q being that "
            "the secret stays hidden, at every epsilon smaller than the gradient, least over models",
            estimate=partial(share_told, of="loss_held", judged="judged"),
            direction="above",
            threshold=HIGH_PROBABILITY,
            why=WHY_ALL,
            unit="seeds",
            note=loss_note,
        ),
    ]
    return [
        *primary,
        _correlation_part(),
        _revealed_part(),
        *_oracle_controls(),
        _decay_part(),
        _tight_part(),
        _whole_part(preset),
    ]


def _bound(key: str, name: str, source: str) -> Part:
    return Part(
        key=key,
        name=f"{name}, for every model and size",
        role="paper",
        source=source,
        primary=True,
        quantity="share of seeds whose gradient's variance over secrets is within the bound at every k and time, "
        "least over models and sizes",
        estimate=partial(share_held, of=key),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_ALL,
        unit="seeds",
        note=partial(ratio_note, of=key),
    )


def _correlation_part() -> Part:
    return Part(
        key="correlation",
        name="no two secrets correlate more than sqrt(4 d / n) on the samples",
        role="paper",
        source="Appendix A, the union bound over Hoeffding's inequality",
        quantity="share of seeds whose largest correlation of two secrets is within the bound, least over sizes",
        estimate=partial(share_held, of="correlation"),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why="the stated probability of an exception is at most (2/e)^(2d), 0.025 at d = 6 and less beyond",
        unit="seeds",
        note=correlation_note,
    )


def _revealed_part() -> Part:
    return Part(
        key="revealed",
        name="the oracle reveals no more secrets than the union bound says",
        role="paper",
        source="Appendix A, 'Constructing the oracle'",
        quantity="share of seeds in which at most T V / epsilon^2 of the secrets are revealed, wherever that is "
        "below 1, least over models",
        estimate=partial(share_told, of="revealed_held", judged="revealed_bound"),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_ALL,
        unit="seeds",
    )


def _oracle_controls() -> list[Part]:
    return [
        Part(
            key="small",
            name="an oracle that errs by less than the gradient hides nine secrets in ten",
            role="control",
            quantity="share of seeds in which the epsilon that hides nine secrets in ten is below the norm of the "
            "mean gradient (root mean square over the queries), least over models",
            estimate=partial(share_told, of="small", judged="tenth"),
            direction="above",
            threshold=MOST,
            why="an error as large as the gradient would hide anything; more often than not",
            unit="seeds",
            note=small_note,
        ),
        Part(
            key="exact",
            name="with exact gradients the same queries get below that bound",
            role="control",
            quantity="share of seeds whose squared error on one secret is below the bound after as many steps of the "
            "same size along exact gradients, least over models",
            estimate=partial(share_told, of="learned", judged="tenth"),
            direction="above",
            threshold=MOST,
            why="a model that would stay above the bound anyway says nothing about the oracle; more often than not",
            unit="seeds",
            note=exact_note,
        ),
    ]


def _decay_part() -> Part:
    return Part(
        key="decay",
        name="the variance falls faster than the number of secrets grows, for every model",
        role="ours",
        quantity="exponent p of variance / E|grad f|^2 ~ |P|^p at k = d/2 and random weights, mean over seeds, "
        "largest over models",
        estimate=decay,
        direction="below",
        threshold=-1.0,
        why="the exponent of the bound of Proposition 3, which is an upper bound and does not say how fast the "
        "variance itself falls: below it, ordinary models leave more and more room under the bound",
        unit="seeds",
        note=decay_note,
    )


def _tight_part() -> Part:
    return Part(
        key="tight",
        name="a model that is a parity reaches the bound over all inputs",
        role="control",
        quantity="share of seeds of the model with one parity whose variance is above 0.9 of the bound at k = d/2",
        estimate=share_tight,
        direction="above",
        threshold=MOST,
        why="its ratio is 1 - 1/|P| by construction: the measurement must be able to show a bound that is reached",
        unit="seeds",
    )


def _whole_part(preset: "Thm2") -> Part:
    return Part(
        key="whole",
        name="at k = d the same oracle hides nothing and the parity is learned",
        role="ours",
        quantity=f"share of seeds with a squared error below {SOLVED:g} at k = d = {preset.whole.d} for some step "
        f"size, after {preset.whole.n_queries} queries to the oracle",
        estimate=share_whole,
        direction="above",
        threshold=MOST,
        why="Theorem 2 says 1 - e^(-Omega(d)) for k = Theta(d), which k = d is; most seeds below half of that refute "
        "the statement there",
        unit="seeds",
    )
