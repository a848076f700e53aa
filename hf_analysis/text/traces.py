"""What is a reasoning trace, and which part of its text is what? Question, reasoning and answer, as characters.

Traces are read from records that hold `prompt` and `completion`, or `messages` (a system message, one user, one
assistant), or one `text`; a thought in `<think>...</think>` is the reasoning, and what follows it the answer. Without
tags the reasoning goes up to the sentence that states the answer. Anything else is read as a problem with a worked
solution (`hf_analysis.text.problems`), whose text is that of the condition `cot_clean`; so are the built-in problems.

Where a span stands is known because the text is put together here, never by searching it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.answers import MARKER, stated_answer, without_annotations
from hf_analysis.text.chat import INSTRUCTION, chat_pieces
from hf_analysis.text.columns import CHAT, SOLUTION, chat_of
from hf_analysis.text.conditions import closing_sentence
from hf_analysis.text.own import before_answer
from hf_analysis.text.problems import Problem, given_id, load_problems
from hf_analysis.text.sources import records
from hf_analysis.text.steps import TAG, joined, pieces, reasoning
from hf_analysis.text.values import plain_answer

SPANS = ("system", "question", "reasoning", "answer")
_TEXT = ("text", "trace")
"""Columns that hold a whole trace."""


@dataclass(frozen=True)
class Trace:
    """A text and its parts: what stands before each span, and the span."""

    id: str
    parts: tuple[tuple[str, str], ...]
    """(name of a span or "", text) in order; the text of the trace is their concatenation."""
    target: str
    """The final answer in plain form; empty where the trace states none."""

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.parts)

    def span(self, name: str) -> str:
        """The text of one span; empty if there is none."""
        return "".join(text for part, text in self.parts if part == name)

    def places(self) -> list[tuple[str, int, int]]:
        """Name, first character and the one behind the last of every part that is a span."""
        found, start = [], 0
        for name, text in self.parts:
            if name and text:
                found.append((name, start, start + len(text)))
            start += len(text)
        return found

    @property
    def problem(self) -> Problem:
        """The same as a problem, for what is kept by problem: the solution is all that follows the question."""
        names = [name for name, _ in self.parts]
        end = names.index("question") + 1 if "question" in names else 0
        texts = [text for _, text in self.parts]
        return Problem(self.id, "".join(texts[:end]), "".join(texts[end:]), self.target)


@dataclass(frozen=True)
class Asked:
    """What a record says before it is put into a text: what was asked, and what was written."""

    id: str
    system: str
    question: str
    written: str
    target: str


def load_traces(
    source: str,
    *,
    limit: int | None = None,
    seed: int = 0,
    split: str = "test",
    offline: bool = False,
    chat: LoadedModel | None = None,
    thinking: bool | None = None,
) -> list[Trace]:
    """The first `limit` traces of `source`: `builtin`, a file or a dataset of the hub.

    With `chat`, questions are put as that model's chat template has it, thinking switched by `thinking`.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"--limit {limit}: need at least one trace")
    if source == "builtin":
        return [trace_of(problem, chat, thinking) for problem in load_problems(source, limit=limit, seed=seed)]
    stem = Path(source).stem if Path(source).is_file() else source.replace("/", "_")
    found: dict[str, Trace] = {}
    for n, (place, record) in enumerate(islice(records(source, split, offline), limit), start=1):
        try:
            asked = asked_of(record, f"{stem}-{n:05d}")
            trace = None if asked is None else put_together(asked, chat, thinking)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        if trace is None and found:
            raise ValueError(f"{place}: no trace, though those before are; expected the same columns in every record")
        if trace is None:
            problems = load_problems(source, limit=limit, split=split, offline=offline)
            return [trace_of(problem, chat, thinking) for problem in problems]
        if trace.id in found:
            raise ValueError(f"{place}: the id {trace.id!r} occurs twice; ids must be unique")
        found[trace.id] = trace
    if not found:
        raise ValueError(f"--data {source}: holds no trace")
    return list(found.values())


def asked_of(record: Any, default_id: str) -> Asked | None:
    """What `record` says, if it is a trace and not a problem with a worked solution."""
    if not isinstance(record, Mapping):
        return None
    identity = given_id(record, default_id)
    whole = next((record[name] for name in _TEXT if isinstance(record.get(name), str)), None)
    if whole is not None and TAG.search(whole):
        question, written = _at_thought(whole)
        return _valid(Asked(identity, "", question, written, _target(record, whole)))
    said = _messages(record)
    if said is None or "assistant" not in said or "user" not in said:
        return None
    written = said["assistant"]
    thought = record.get("reasoning_content") or record.get("thinking")
    if isinstance(thought, str) and thought.strip() and not TAG.search(written):
        written = f"<think>\n{thought}\n</think>\n\n{written}"  # the thought in a column of its own
    return _valid(Asked(identity, said.get("system", ""), said["user"], written, _target(record, written)))


def _valid(asked: Asked) -> Asked:
    for name, text in vars(asked).items():
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise ValueError(f"the {name} holds a lone surrogate, which is not valid Unicode text")
    return asked


def _at_thought(text: str) -> tuple[str, str]:
    """A whole trace, cut where its thought begins."""
    begin = next(TAG.finditer(text)).start()
    return text[:begin], text[begin:]


def _messages(record: Mapping[str, Any]) -> dict[str, str] | None:
    chat = next((name for name in CHAT if isinstance(record.get(name), list)), None)
    if chat is not None:
        return chat_of(record[chat], chat)
    prompt = record.get("prompt")
    written = next((record[name] for name in SOLUTION if record.get(name)), None)
    if prompt is None or written is None:
        return None
    said = _said(prompt, "prompt", "user")
    return said | _said(written, "completion", "assistant")


def _said(value: Any, name: str, role: str) -> dict[str, str]:
    """What a column says: a text of one role, or messages."""
    if not isinstance(value, (str, list)):
        raise ValueError(f"{name!r} must be a text or messages, got {str(value)[:40]!r}")
    return chat_of(value, name) if isinstance(value, list) else {role: value}


def _target(record: Mapping[str, Any], written: str) -> str:
    """The final answer: in a column of its own, else what the text states."""
    given = record.get("answer", record.get("final_answer"))
    if isinstance(given, (str, int, float)) and str(given).strip():
        return (stated_answer(str(given)) or "") if MARKER in str(given) else plain_answer(str(given))
    return stated_answer(written) or ""


def trace_of(problem: Problem, chat: LoadedModel | None = None, thinking: bool | None = None) -> Trace:
    """A problem with its worked solution, as the condition `cot_clean` has it."""
    if not problem.solution:
        raise ValueError(f"problem {problem.id} has no worked solution; name its column, or let the model write one")
    steps = joined(pieces(reasoning(without_annotations(problem.solution), problem.answer)))
    written = (("reasoning", steps), ("", " "), ("answer", closing_sentence(problem.answer).strip()))
    prompt = (
        (("question", problem.question), ("", " ")) if chat is None else chat_parts(chat, problem.question, thinking)
    )
    return _checked(Trace(problem.id, (*prompt, *written), problem.answer))


def chat_parts(model: LoadedModel, question: str, thinking: bool | None = None) -> tuple[tuple[str, str], ...]:
    """The prompt that `hf_analysis.text.chat.chat_prompt` puts to a model, with its question as a span."""
    return _prompt("", f"{question}\n{INSTRUCTION}", model, thinking, "")


def put_together(asked: Asked, chat: LoadedModel | None = None, thinking: bool | None = None) -> Trace:
    """The trace of a record: its prompt, as a chat if asked for, and what was written, cut into its spans."""
    ends = asked.question[-1:].isspace() or asked.written[:1].isspace()
    prompt = _prompt(asked.system, asked.question, chat, thinking, "" if ends else "\n")
    written, opening = asked.written, TAG.match(asked.written.lstrip())
    if opening and prompt[-1][1].rstrip().endswith(opening.group()):  # the template has begun the thought already
        written = asked.written.lstrip()[opening.end() :].lstrip()
    return _checked(Trace(asked.id, (*prompt, *written_parts(written)), asked.target))


def _prompt(
    system: str, question: str, chat: LoadedModel | None, thinking: bool | None, separator: str
) -> tuple[tuple[str, str], ...]:
    if chat is None:
        before = (("system", system), ("", "\n\n")) if system else ()
        return (*before, ("question", question), ("", separator))
    said = {"system": system, "user": question} if system else {"user": question}
    names = {"system": "system", "user": "question"}
    return tuple((names.get(role, ""), text) for role, text in chat_pieces(chat, said, thinking))


def written_parts(text: str) -> tuple[tuple[str, str], ...]:
    """Reasoning and answer of what was written: what a thought's tags say, else up to the sentence of the answer."""
    tags = list(TAG.finditer(text))
    closing = [tag for tag in tags if tag.group().startswith("</")]
    if closing:
        end = closing[-1]
        opening = [tag for tag in tags if tag.end() <= end.start() and not tag.group().startswith("</")]
        begin = opening[0].end() if opening else 0
        thought = _framed("reasoning", text, begin, end.start())
        return (*thought, *_framed("answer", text, end.end(), len(text), end.start()))
    if tags:  # a thought that was cut off: all of it is reasoning
        return _framed("reasoning", text, tags[0].end(), len(text))
    split = len(before_answer(text))
    return (*_framed("reasoning", text, 0, split), *_framed("answer", text, split, len(text), split))


def _framed(name: str, text: str, begin: int, end: int, start: int = 0) -> tuple[tuple[str, str], ...]:
    """text[start:end] in parts: what stands before the span, the span, and the white space behind it."""
    bare = text[begin:end]
    left = begin + len(bare) - len(bare.lstrip())
    right = max(left, begin + len(bare.rstrip()))
    return (("", text[start:left]), (name, text[left:right]), ("", text[right:end]))


def _checked(trace: Trace) -> Trace:
    if not trace.span("reasoning").strip():
        raise ValueError(
            f"trace {trace.id} has no reasoning: expected <think>...</think> or steps before the answer; leave it out"
        )
    return trace


def require_distinct(traces: Sequence[Trace]) -> None:
    """A ValueError if two traces have the same id."""
    if len({trace.id for trace in traces}) != len(traces):
        raise ValueError("two traces have the same id; ids must be unique")
