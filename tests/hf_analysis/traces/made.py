"""Traces for tests: ours, with sentences of different lengths."""

from hf_analysis.text.traces import Trace
from hf_analysis.traces.tokens import TraceTokens, Unit

SENTENCES = (
    "First we count the apples. ",
    "She has 3 apples and buys 4 more.\n",
    "So 3 + 4 = 7. ",
    "Wait, is that right?\n",
    "Yes, it is 7 apples. ",
    "Each one costs $2.50 here. ",
    "Then 7 * 2.5 = 17.5 in all. ",
    "Half of it is hers.\n",
    "That leaves 8.75 to pay. ",
    "She has 12 and needs no more. ",
)


def made_trace(n: int = 10, name: str = "t", target: str = "8.75") -> Trace:
    parts = (
        ("question", "Ann has 3 apples and buys 4. What does she pay?"),
        ("", "\n<think>\n"),
        ("reasoning", "".join(SENTENCES[:n]).strip()),
        ("", "\n</think>\n"),
        ("answer", f"The answer is {target}."),
    )
    return Trace(name, parts, target)


def made_tokens(ids, bounds) -> TraceTokens:
    """Given tokens, cut at `bounds`: before the first is the question, the rest are sentences."""
    units = [Unit("question", "", 0, bounds[0])]
    units += [Unit("reasoning", "", a, b) for a, b in zip(bounds, [*bounds[1:], len(ids)])]
    return TraceTokens(made_trace(), tuple(ids), tuple(units))
