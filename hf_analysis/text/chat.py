"""How is a question put to a chat model? As the tokenizer's chat template says, with an instruction to reason."""

from collections.abc import Sequence
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
    tokenizer: Any = model.tokenizer
    template = getattr(tokenizer, "chat_template", None)
    if not template:
        raise ValueError(f"--chat: the tokenizer of {model.name} has no chat template; leave --chat out")
    if thinking is not None and "enable_thinking" not in str(template):
        raise ValueError(f"--thinking: the chat template of {model.name} has no such switch; leave --thinking out")
    options = {"add_generation_prompt": True, **({} if thinking is None else {"enable_thinking": thinking})}
    messages = [{"role": "user", "content": f"{question}\n{INSTRUCTION}"}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, **options)
    wanted = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    if model.encode(text) == wanted:
        return text
    first = tokenizer.bos_token  # the template writes it, and the tokenizer puts another in front
    if first and text.startswith(first) and model.encode(text.removeprefix(first)) == wanted:
        return text.removeprefix(first)
    raise ValueError(
        f"--chat: the tokenizer of {model.name} adds special tokens to its own chat template; leave --chat out"
    )
