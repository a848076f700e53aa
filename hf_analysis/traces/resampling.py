"""Where would the reasoning have gone without a sentence? Continuations from before it, and the answers they reach.

As in Bogdan et al. 2025, section 3: from every beginning of the reasoning the model writes several texts. What a
sentence adds is the change in the distribution of answers between the texts from before it, which write another one
in its place (or the same), and those that go on behind it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import log

from hf_analysis.models.generation import continuations
from hf_analysis.text.answers import stated_answer
from hf_analysis.text.own import is_over
from hf_analysis.text.values import same_answer
from hf_analysis.traces.measures import Study
from hf_analysis.traces.tokens import TraceTokens
from probes.base.streams import torch_stream

NO_ANSWER = ""
"""What a text states that was cut off or states nothing."""


@dataclass(frozen=True)
class Resampled:
    """The answers of the texts from one beginning of the reasoning."""

    n_sentences: int
    answers: tuple[str, ...]

    def right(self, target: str) -> float:
        """The share of texts that state `target`."""
        return sum(bool(one) and same_answer(one, target) for one in self.answers) / len(self.answers)


def resampled(study: Study, tokens: TraceTokens) -> list[Resampled]:
    """`study.continuations` texts from the start of the reasoning and from behind each of its sentences.

    All prompts begin alike, and what they share is read once; they are written in batches.
    """
    model, sentences = study.model, tokens.sentences
    ends = [sentences[0].start, *(unit.end for unit in sentences)]
    prompts = [list(tokens.ids[:end]) for end in ends for _ in range(study.continuations)]
    streams = [
        torch_stream(study.seed, f"resampled {tokens.trace.id} after {n} sample {sample}")
        for n in range(len(ends))
        for sample in range(study.continuations)
    ]
    before = {end: model.decode(list(tokens.ids[:end])) for end in ends}

    def is_done(place: int, written: list[int]) -> bool:
        return is_over(model, before[len(prompts[place])], written)

    sampled = streams if study.decoding.temperature else None
    texts = continuations(model, prompts, study.decoding, sampled, is_done)
    answers = [stated(model.decode(list(text.tokens)), text.complete) for text in texts]
    n = study.continuations
    return [Resampled(i, tuple(answers[i * n : (i + 1) * n])) for i in range(len(ends))]


def stated(text: str, complete: bool) -> str:
    """The answer that a text states; none where it was cut off."""
    return (stated_answer(text) or NO_ANSWER) if complete and text.strip() else NO_ANSWER


def answer_divergence(first: Sequence[str], second: Sequence[str], smoothing: float = 1.0) -> float:
    """KL(first || second) between the distributions of two samples of answers, in nats, 0 or more.

    Every answer that occurs in either has `smoothing` more of each: an answer that occurs in one alone would make the
    divergence infinite.
    """
    known = [_classes(first, second)[one] for one in (*first, *second)]
    ours, theirs = Counter(known[: len(first)]), Counter(known[len(first) :])
    kinds = sorted(set(known))
    total = [len(sample) + smoothing * len(kinds) for sample in (first, second)]
    p, q = ([(count[kind] + smoothing) / size for kind in kinds] for count, size in zip((ours, theirs), total))
    return sum(a * log(a / b) for a, b in zip(p, q))


def _classes(*samples: Sequence[str]) -> dict[str, str]:
    """Each answer's first spelling: "2.50" and "5/2" are one answer."""
    found: dict[str, str] = {}
    for answer in (one for sample in samples for one in sample):
        if answer not in found:
            same = (known for known in found.values() if known and answer and same_answer(known, answer))
            found[answer] = next(same, answer)
    return found
