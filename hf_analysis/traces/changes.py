"""What may stand in the place of a trace's reasoning? A mistake in one step, filler, the steps of another problem."""

import random
import re
from dataclasses import replace

from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.traces import Trace
from hf_analysis.text.values import same_answer
from hf_analysis.traces.measures import Study
from hf_analysis.traces.tokens import TraceTokens, trace_tokens

_NUMBER = re.compile(r"(?<![\w.,])(\d+)(?:,\d{3})*(?:\.\d+)?(?![\w.]*\d)", flags=re.ASCII)


def mistaken(sentence: str, generator: random.Random) -> str | None:
    """`sentence` with its last number, which is mostly its result, changed by 1 to 9; None if it has no number.

    The number of digits before a comma or point stays the same, and so does all that stands around them.
    """
    numbers = list(_NUMBER.finditer(sentence))
    if not numbers:
        return None
    digits = numbers[-1][1]
    smallest, largest = (10 ** (len(digits) - 1) if len(digits) > 1 else 0), 10 ** len(digits) - 1
    others = [n for n in range(int(digits) - 9, int(digits) + 10) if smallest <= n <= largest and n != int(digits)]
    return sentence[: numbers[-1].start(1)] + str(generator.choice(others)) + sentence[numbers[-1].end(1) :]


def with_mistake(model: LoadedModel, tokens: TraceTokens, unit: int, generator: random.Random) -> TraceTokens | None:
    """The trace with a mistake in one sentence of its reasoning, read anew; None if that sentence has no number.

    The steps behind it stay as they are: they do not follow from it any more.
    """
    wrong = mistaken(tokens.units[unit].text, generator)
    if wrong is None:
        return None
    steps = [tokens.units[i].text if i != unit else wrong for i in tokens.reasoning]
    if "".join(tokens.units[i].text for i in tokens.reasoning) != tokens.trace.span("reasoning"):
        return None  # a piece without a token of its own: the text cannot be put together from its sentences
    parts = tuple((name, "".join(steps) if name == "reasoning" else text) for name, text in tokens.trace.parts)
    return trace_tokens(model, replace(tokens.trace, parts=parts))


def mistakes(study: Study, tokens: TraceTokens) -> list[tuple[int, TraceTokens]]:
    """The trace with a mistake, for each sentence of its reasoning with a number; the same ones for all measures."""
    generator = random.Random(f"{study.seed} mistake {tokens.trace.id}")
    changed = [(unit, with_mistake(study.model, tokens, unit, generator)) for unit in tokens.reasoning]
    return [(unit, wrong) for unit, wrong in changed if wrong is not None]


def filler(model: LoadedModel, tokens: TraceTokens) -> tuple[int, ...]:
    """As many full stops as the reasoning has tokens."""
    stop = model.tokenizer(" .", add_special_tokens=False)["input_ids"][-1]
    return (stop,) * sum(tokens.lengths)


def another(study: Study, tokens: TraceTokens) -> TraceTokens | None:
    """Another trace of the run, with another final answer if there is one; None if there is no other."""
    others = sorted((one for one in study.traces if one.trace.id != tokens.trace.id), key=lambda one: one.trace.id)
    different = [one for one in others if not _same_target(one.trace, tokens.trace)]
    generator = random.Random(f"{study.seed} swapped {tokens.trace.id}")
    return generator.choice(different or others) if others else None


def _same_target(first: Trace, second: Trace) -> bool:
    return bool(first.target and second.target) and same_answer(first.target, second.target)


def reasoning_tokens(tokens: TraceTokens) -> tuple[int, ...]:
    """The tokens of the reasoning."""
    return tokens.ids[tokens.sentences[0].start : tokens.sentences[-1].end]


def separator(trace: Trace) -> str:
    """What stands between the reasoning of a trace and its answer; a line's end if it has no answer."""
    names = [name for name, _ in trace.parts]
    if "answer" not in names or not trace.span("answer"):
        return "\n</think>\n" if "<think>" in "".join(text for name, text in trace.parts if not name) else "\n"
    first, last = names.index("reasoning") + 1, names.index("answer")
    return "".join(text for _, text in trace.parts[first:last])
