"""How is a question put to a chat model? As the tokenizer's chat template says, with an instruction to reason."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hf_analysis.text.problems import Problem

if TYPE_CHECKING:
    from hf_analysis.models.loading import LoadedModel

INSTRUCTION = 'Reason step by step, and end with the sentence "The answer is N.", where N is the answer.'


def in_chat(model: "LoadedModel", problems: Sequence[Problem], thinking: bool | None = None) -> list[Problem]:
    """The problems, each question as the whole prompt of a chat, up to where the model's turn begins.

    `thinking` switches the thinking of templates that have such a switch (`enable_thinking`); None leaves it alone.
    """
    return [replace(problem, question=chat_prompt(model, problem.question, thinking)) for problem in problems]


def chat_prompt(model: "LoadedModel", question: str, thinking: bool | None = None) -> str:
    """The prompt as a text that `model.encode` turns into the template's own tokens, no special token doubled."""
    return "".join(text for _, text in chat_pieces(model, {"user": f"{question}\n{INSTRUCTION}"}, thinking))


def chat_pieces(
    model: "LoadedModel", said: Mapping[str, str], thinking: bool | None = None
) -> tuple[tuple[str, str], ...]:
    """The prompt of a chat in pieces: (role, what it says) in order, and what the template writes with the role "".

    Where each message stands is known from a chat of place-holders, not looked for in the text. The pieces together
    are what `model.encode` turns into the template's own tokens, no special token doubled.
    """
    tokenizer: Any = model.tokenizer
    template = getattr(tokenizer, "chat_template", None)
    if not template:
        raise ValueError(f"--chat: the tokenizer of {model.name} has no chat template; leave --chat out")
    if thinking is not None and "enable_thinking" not in str(template):
        raise ValueError(f"--thinking: the chat template of {model.name} has no such switch; leave --thinking out")
    options = {"add_generation_prompt": True, **({} if thinking is None else {"enable_thinking": thinking})}

    def rendered(contents: Mapping[str, str]) -> str:
        messages = [{"role": role, "content": content} for role, content in contents.items()]
        return tokenizer.apply_chat_template(messages, tokenize=False, **options)

    marks = {role: f"\ue000{role}\ue001" for role in said}
    frame, whole, pieces = rendered(marks), rendered(said), []
    for role, mark in marks.items():
        before, found, frame = frame.partition(mark)
        said_here = said[role] if "".join((before, said[role])) in whole else said[role].strip()  # some strip it
        pieces += [("", before), (role, said_here)]
        if not found:
            raise ValueError(f"--chat: the chat template of {model.name} leaves the {role}'s message out")
    pieces.append(("", frame))
    if "".join(text for _, text in pieces) != whole:
        raise ValueError(f"--chat: the chat template of {model.name} rewrites what it is given; leave --chat out")
    wanted = list(tokenizer(whole, add_special_tokens=False)["input_ids"])
    if model.encode(whole) == wanted:
        return tuple(pieces)
    first = tokenizer.bos_token  # the template writes it, and the tokenizer puts another in front
    if first and whole.startswith(first) and model.encode(whole.removeprefix(first)) == wanted:
        return (("", pieces[0][1].removeprefix(first)), *pieces[1:])
    raise ValueError(
        f"--chat: the tokenizer of {model.name} adds special tokens to its own chat template; leave --chat out"
    )
