"""Which column is what? From a record as people have it to question, worked solution and answer.

The usual names are known: question/answer (GSM8K: the answer is the solution and ends in `#### N`), problem/solution
(MATH: the answer is in \\boxed{}), prompt/completion, messages (a chat with one user and one assistant), and
question/options/rationale/correct (AQuA: the answer is a letter). Anything else is named by the user.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hf_analysis.text.answers import MARKER, boxed, final_answer
from hf_analysis.text.values import VALUE, plain_answer

QUESTION = ("question", "problem", "prompt", "instruction", "query")
SOLUTION = ("solution", "rationale", "completion", "response", "output")
ANSWER = ("answer", "correct", "final_answer", "expected_answer", "ground_truth")
CHAT = ("messages", "conversations")
_ROLES = {"user": "user", "human": "user", "assistant": "assistant", "gpt": "assistant", "system": "system"}


@dataclass(frozen=True)
class Columns:
    """The names of columns; None: the first usual name that a record has."""

    question: str | None = None
    answer: str | None = None
    solution: str | None = None
    cluster: str | None = None


@dataclass(frozen=True)
class Parts:
    """What a record says; a record without a worked solution has an empty one."""

    question: str
    solution: str
    answer: str
    cluster: str | None


def parts_of(record: Any, columns: Columns) -> Parts:
    """Question, solution and answer of a record; a ValueError says what was found and what to pass."""
    if not isinstance(record, dict):
        raise ValueError(f"expected an object with question and answer, got {type(record).__name__}")
    chat = next((name for name in CHAT if isinstance(record.get(name), list)), None)
    if chat is not None and columns.question is None:
        said = chat_of(record[chat], chat)
        record = {**record, "question": said["user"]} | (
            {"solution": said["assistant"]} if "assistant" in said else {}
        )
    question = _text(record, columns.question or _usual(record, QUESTION) or "question", "question")
    answer_column = columns.answer or _usual(record, ANSWER)
    solution_column = columns.solution or _usual(record, SOLUTION)
    if answer_column is None and solution_column is None:
        answer_column = "answer"
    answer = "" if answer_column is None else _text(record, answer_column, "answer")
    if columns.solution is None and MARKER in answer:  # as in GSM8K, whatever stands beside it
        solution_column = None
    solution = "" if solution_column is None else _text(record, solution_column, "solution")
    options = record.get("options")
    if isinstance(options, list) and options and all(isinstance(option, str) for option in options):
        question = f"{question}\n{_lettered(options)}"
    try:
        if not solution and not _is_answer(answer, named=columns.answer is not None):
            solution, answer = answer, final_answer(answer)
        else:
            answer = _answer(answer) if answer else final_answer(solution)
    except ValueError as error:
        raise ValueError(f"{error}; {_remedy(record)}") from None
    cluster = None
    if columns.cluster is not None:
        cluster = _text(record, columns.cluster, "cluster")
    return Parts(question, solution, answer, cluster)


def chat_of(messages: list[Any], name: str) -> dict[str, str]:
    """What the system message, the one user and the one assistant say, as far as each is there."""
    said: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, dict):
            raise ValueError(f"{name!r} must hold messages with role and content, got {_shown(message)}")
        role = _ROLES.get(str(message.get("role", message.get("from"))))
        content = message.get("content", message.get("value"))
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        if role is None:
            continue
        if role in said:
            raise ValueError(f"{name!r} has several messages of the {role}; expected one question and one solution")
        if not isinstance(content, str):
            raise ValueError(f"{name!r} must hold messages with role and content, got {_shown(message)}")
        said[role] = content
    if not said.keys() & {"user", "assistant"}:
        raise ValueError(f"{name!r} has no message of a user or an assistant")
    if "user" not in said and name in CHAT:
        raise ValueError(f"{name!r} has no message of the user, which is the question")
    return said


def _answer(text: str) -> str:
    """The answer in a column of its own, in plain form; it may be a whole solution with its answer marked."""
    if MARKER in text or boxed(text):
        return final_answer(text)
    found = plain_answer(text)
    if not found:
        raise ValueError(f"the answer {text[:40]!r} says nothing")
    return found


def _is_answer(text: str, named: bool) -> bool:
    """Whether a text that stands alone is an answer, not a solution: a number or letter, or whatever was named so."""
    if MARKER in text or boxed(text):
        return False
    plain = plain_answer(text)
    letter = len(plain) == 1 and plain.isalpha()
    return bool(VALUE.fullmatch(plain)) or letter or (named and len(text.splitlines()) == 1)


def _usual(record: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    """The first of these columns that has something in it."""
    return next((name for name in names if not _is_gap(record.get(name))), None)


def _is_gap(value: Any) -> bool:
    """Whether a cell of a table is empty: nothing, a blank text as CSV has it, an empty list, not a number."""
    return not value.strip() if isinstance(value, str) else value is None or value == [] or value != value


def _text(record: Mapping[str, Any], name: str, role: str) -> str:
    """The text in a column; chats of one message and numbers are read as texts, except as a question."""
    value = record.get(name)
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        said = chat_of(value, name)
        value = said.get("user" if role == "question" else "assistant", value)
    text = value if isinstance(value, str) else None if role == "question" else _plain(value)
    if text is None or not text.strip():
        raise ValueError(f"{name!r} must be a text that is not empty, got {_shown(value)}; {_remedy(record)}")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{name!r} holds a lone surrogate, which is not valid Unicode text")
    return text


def _plain(value: Any) -> str | None:
    if isinstance(value, bool) or value is None or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:  # a column with gaps is read as floats
        return str(int(value))
    return str(value) if isinstance(value, (str, int, float)) else None


def _lettered(options: list[str]) -> str:
    """Options of a multiple choice, one in a line, each with its letter."""
    letters = [chr(ord("A") + i) for i in range(len(options))]
    return "\n".join(
        option
        if option.lstrip("( ").startswith((f"{letter})", f"{letter}.", f"{letter}:"))
        else f"{letter}) {option}"
        for letter, option in zip(letters, options)
    )


def _remedy(record: Mapping[str, Any]) -> str:
    columns = ", ".join(str(name)[:40] for name in list(record)[:20]) or "none"
    shown = columns if columns.isprintable() else ascii(columns)
    return f"the columns are {shown}: say which is which with --question, --solution and --answer NAME"


def _shown(value: Any) -> str:
    return repr(str(value)[:40])
