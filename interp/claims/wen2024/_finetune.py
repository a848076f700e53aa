"""What is judged of fine-tuned models? The parts of wen2024/fig6-finetune.

Every held-out problem is measured under every training run. Both are samples, and the runs are few, so intervals
treat problems and runs as crossed random effects (`interp.statistics.crossed`), and problems of one template as a
cluster. What fine-tuning on CoT text alone does must be a fall, not a rise elsewhere, and more than what other text
does: such a part estimates the largest of three numbers, the change in the CoT arm, and that minus the change in
each of the other arms.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from interp.claims.wen2024._pretrained import SMALLEST, WHY_SMALLEST, over_problems_and_runs
from interp.claims.wen2024._tuned import ARMS, BASE, FINAL, OTHERS, TEXTS, Table, Tuned
from interp.core.parts import NotMeasurable, Part, Role
from interp.core.problem_runs import unit_of
from interp.statistics import Interval

LEARNED = 0.05
"""Nats per token by which the held-out loss must fall for an arm to count as fine-tuned."""
NATS = 0.05
"""The smallest difference of interest in nats: SMALLEST of the entropy of a row with about 150 keys, log(150) = 5."""
SOURCE = "section 4.3, observation 2: fine-tuning on CoT data further enhances attention sparsity on the input data"


@dataclass(frozen=True)
class Measure:
    """One number for every text and model."""

    metric: str
    scope: str
    text: str
    words: str
    smallest: float = SMALLEST


SENTENCE = '"The answer is N." after CoT'
PUBLISHED = Measure("min", "all", "cot", "minimum of the normalised entropy over all tokens of CoT text")
MEASURES = {
    "sentence": Measure("min", FINAL, "cot_clean", f"minimum of the normalised entropy over {SENTENCE}"),
    "no_sink": Measure("sink_excluded_min", FINAL, "cot_clean", f"the same without the first token, over {SENTENCE}"),
    "mean": Measure("mean", FINAL, "cot_clean", f"mean of the normalised entropy over {SENTENCE}"),
    "nats": Measure("entropy_nats_min", FINAL, "cot_clean", f"minimum of the entropy in nats over {SENTENCE}", NATS),
}
ELSEWHERE = Measure("min", FINAL, "no_cot", "the same sentence right after the question")
PLACES = sorted({(m.metric, m.scope, m.text) for m in (PUBLISHED, *MEASURES.values(), ELSEWHERE)})


def parts(data: str, doses: Sequence[int]) -> list[Part]:
    """Whether each arm learned; then every change, which counts only if the arms that it compares did.

    At the largest dose, the paper's: the change as published, and that of the same sentence, with the attention sink
    and without, beyond both other arms.
    """
    unit, first, last = unit_of(data), doses[0], doses[-1]
    make = partial(_part, unit=unit)
    sentence, cot = MEASURES["sentence"], ("cot_learned",)
    all_learned = tuple(f"{arm}_learned" for arm in ARMS)
    found = [_learned(arm, last, unit) for arm in ARMS]
    found.append(make("published", "as published", "paper", PUBLISHED, partial(alone, dose=last), needs=cot))
    for key, measure in MEASURES.items():
        role: Role = "paper" if key in ("sentence", "no_sink") else "ours"
        name = f"falls with CoT text, more than without and on prose: {measure.words}"
        found.append(make(key, name, role, measure, partial(beyond_arms, dose=last), needs=all_learned))
    name = f"{sentence.words}, tuned on CoT text"
    found.append(make("alone", f"{name} minus base", "ours", sentence, partial(alone, dose=last), needs=cot))
    for arm in OTHERS:
        estimate = partial(over_arm, arm=arm, dose=last)
        needs = ("cot_learned", f"{arm}_learned")
        found.append(make(f"over_{arm}", f"{name} minus on {TEXTS[arm]}", "control", sentence, estimate, needs=needs))
    name = "it falls after CoT, and more than right after the question"
    found.append(make("beyond_text", name, "control", sentence, partial(beyond_text, dose=last), needs=cot))
    for place, dose in enumerate(doses[:-1], start=1):
        name = f"as {sentence.words} at the largest dose, already at dose {place}"
        found.append(
            make(f"dose_{place}", name, "ours", sentence, partial(beyond_arms, dose=dose), needs=all_learned)
        )
    name = "more tokens of CoT text lower it further, and more of other text do not"
    estimate = partial(beyond_arms, dose=last, since=first)
    found.append(make("grows", name, "ours", sentence, estimate, needs=all_learned, share=0.5))
    return found


def _part(
    key: str, name: str, role: Role, measure: Measure, estimate: partial, *, unit, needs: tuple[str, ...], share=1.0
) -> Part:
    smallest = share * measure.smallest
    why = WHY_SMALLEST if measure.smallest == SMALLEST else f"{NATS:g} nats are about {SMALLEST:g} of log(150)"
    kinds = {"alone": "change in the CoT arm", "over_arm": "change in the CoT arm minus that in the other"}
    kinds |= {"beyond_text": "larger of the change and of that minus the change right after the question"}
    kinds |= {"beyond_arms": "largest of the change in the CoT arm and of that minus those in the other arms"}
    since = f", from {estimate.keywords['since']:,} tokens on" if "since" in estimate.keywords else ""
    return Part(
        key=key,
        name=name,
        role=role,
        source=SOURCE if role == "paper" else "",
        primary=role == "paper",
        quantity=f"{measure.words}, mean over heads, {estimate.keywords['dose']:,} tokens of fine-tuning{since}: "
        f"{kinds[estimate.func.__name__]}",
        estimate=partial(estimate, measure=measure),
        direction="below",
        threshold=-smallest,
        why=why if share == 1 else f"half of {measure.smallest:g}, which counts at all, between two doses",
        unit=unit,
        needs=needs,
        note=partial(_by_arm, measure=measure, dose=estimate.keywords["dose"]),
    )


def _learned(arm: str, dose: int, unit) -> Part:
    return Part(
        key=f"{arm}_learned",
        name=f"the arm trained on {TEXTS[arm]} learned",
        role="precondition",
        quantity=f"held-out loss on {TEXTS[arm]}, nats per token: tuned on {dose:,} tokens minus base",
        estimate=partial(loss_change, arm=arm, dose=dose),
        direction="below",
        threshold=-LEARNED,
        why=f"a model whose loss falls by less than {LEARNED:g} nats per token has hardly been fine-tuned",
        unit="inputs" if arm == "prose" else unit,
        note=partial(_learning, arm=arm, dose=dose),
    )


def loss_change(found: Tuned, level: float, *, arm: str, dose: int) -> Interval | NotMeasurable:
    """How the held-out loss on the arm's own kind of text changed."""
    return _largest([(found.loss_change(arm, arm, dose), found.clusters(arm))], level)


def alone(found: Tuned, level: float, *, measure: Measure, dose: int) -> Interval | NotMeasurable:
    """The mean change in the CoT arm over problems and runs."""
    return _largest([(_change(found, measure, "cot", dose), found.clusters())], level)


def over_arm(found: Tuned, level: float, *, measure: Measure, arm: str, dose: int) -> Interval | NotMeasurable:
    """By how much more the CoT arm changes than another."""
    change = _change(found, measure, "cot", dose) - _change(found, measure, arm, dose)
    return _largest([(change, found.clusters())], level)


def beyond_arms(
    found: Tuned, level: float, *, measure: Measure, dose: int, since: int = 0
) -> Interval | NotMeasurable:
    """The largest of the change in the CoT arm and of what it is beyond that in each other arm; from `since` on."""
    ours, *others = (
        _change(found, measure, arm, dose) - (_change(found, measure, arm, since) if since else 0) for arm in ARMS
    )
    return _largest([(change, found.clusters()) for change in (ours, *(ours - other for other in others))], level)


def beyond_text(found: Tuned, level: float, *, measure: Measure, dose: int) -> Interval | NotMeasurable:
    """The larger of the change after CoT, and of that minus the sentence's change right after the question."""
    ours, elsewhere = (_change(found, of, "cot", dose) for of in (measure, ELSEWHERE))
    return _largest([(change, found.clusters()) for change in (ours, ours - elsewhere)], level)


def _change(found: Tuned, measure: Measure, arm: str, dose: int) -> Table:
    return found.change((measure.metric, measure.scope, measure.text), arm, dose)


def _largest(changes: Sequence[tuple[Table, np.ndarray]], level: float) -> Interval | NotMeasurable:
    """The largest of several means.

    It is below a threshold only if all are, each judged at the level given: its upper end is the largest of theirs.
    It is above one if any is, so the lower ends are Bonferroni's.
    """
    strict = 1 - (1 - level) / len(changes)
    found = [over_problems_and_runs(values, clusters, at) for at in (level, strict) for values, clusters in changes]
    for one in found:
        if isinstance(one, NotMeasurable):
            return one
    intervals = [one for one in found if isinstance(one, Interval)]
    uppers, lowers = intervals[: len(changes)], intervals[len(changes) :]
    value, high = (max(getattr(one, end) for one in uppers) for end in ("value", "high"))
    low = max(one.low for one in lowers)
    method = intervals[0].method + (f", largest of {len(changes)}" if len(changes) > 1 else "")
    return Interval(value, low, high, level, min(one.n for one in intervals), method)


def _by_arm(found: Tuned, measure: Measure, dose: int) -> str:
    shown = []
    for arm in ARMS:
        changes = np.nanmean(_change(found, measure, arm, dose), axis=0)
        runs = ", ".join(f"{value:+.4f}" for value in changes)
        shown.append(f"tuned on {TEXTS[arm]} {changes.mean():+.4f}, by training run {runs}")
    return f"change at {dose:,} tokens: " + "; ".join(shown)


def _learning(found: Tuned, arm: str, dose: int) -> str:
    losses = ", ".join(
        f"{TEXTS[text]} {np.nanmean(found.losses[text, BASE, 0]):.3f} to "
        f"{np.nanmean(found.loss_change(text, arm, dose)) + np.nanmean(found.losses[text, BASE, 0]):.3f}"
        for text in ARMS
    )
    total = found.totals[arm]
    return (
        f"held-out loss on {losses}; trained on {total['forwarded_tokens']:,.0f} forwarded tokens, "
        f"{total['supervised_tokens']:,.0f} of them supervised, in {total['passages']:,.0f} passages (means of "
        f"{len(found.seeds)} runs)"
    )
