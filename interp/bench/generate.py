"""How fast does a model write? Problems batched, against transformers' `generate` one problem at a time.

Both write the same number of tokens after the same chat prompts, greedily and past any end of text, and the tokens
are compared. One at a time, only every fourth problem is written: its speed needs no more. Contenders take turns in
one process; the ratio is the median over turns of the ratio within a turn. Reading the prompts is part of the time,
and batching hardly helps there: the longer the texts, the larger the ratio.
"""

from collections.abc import Iterator
from statistics import median
from time import perf_counter
from typing import Any

import torch

from hf_analysis.models.generation import Decoding, continuations
from hf_analysis.models.loading import LoadedModel, load_model
from hf_analysis.text.chat import chat_prompt
from hf_analysis.text.problems import load_problems

BAR = 5.0


def run(
    loaded: LoadedModel | None = None,
    rows: int = 16,
    new_tokens: int = 128,
    turns: int = 3,
    threads: int = 2,
    chat: bool = True,
) -> Iterator[dict[str, Any]]:
    """One record: tokens per second of both, and the ratio."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = loaded or load_model("builtin", device="cpu", dtype="float32")
        questions = [problem.question for problem in load_problems("builtin", limit=rows)]
        prompts = [model.encode(chat_prompt(model, question) if chat else question) for question in questions]
        yield _record(model, prompts, new_tokens, turns)
    finally:
        torch.set_num_threads(before)


def _record(model: LoadedModel, prompts: list[list[int]], new_tokens: int, turns: int) -> dict[str, Any]:
    speeds: dict[str, list[float]] = {"batched": [], "one at a time": []}
    for _ in range(turns):
        start = perf_counter()
        ours = continuations(model, prompts, Decoding(max_new_tokens=new_tokens), ends=frozenset())
        middle = perf_counter()
        theirs = [_alone(model, prompt, new_tokens) for prompt in prompts[::4]]
        speeds["batched"].append(len(prompts) * new_tokens / (middle - start))
        speeds["one at a time"].append(len(theirs) * new_tokens / (perf_counter() - middle))
        if [list(one.tokens) for one in ours[::4]] != theirs:
            raise ValueError("the contenders wrote different tokens; expected the same")
    ratio = median(ours / theirs for ours, theirs in zip(*speeds.values()))
    return {
        "bench": "generate",
        "rows": len(prompts),
        "prompt_tokens": sum(map(len, prompts)),
        "new_tokens": new_tokens,
        "tokens_per_second": {name: round(median(found), 2) for name, found in speeds.items()},
        "ratio": round(ratio, 2),
        "bar": BAR,
        "reached": ratio >= BAR,
    }


@torch.inference_mode()
def _alone(model: LoadedModel, prompt: list[int], new_tokens: int) -> list[int]:
    from transformers import GenerationConfig

    never = model.model.config.get_text_config().vocab_size  # None would be replaced by the model's own end of text
    greedy = GenerationConfig(do_sample=False, max_new_tokens=new_tokens, pad_token_id=model.pad, eos_token_id=never)
    ids = torch.tensor([prompt])
    network: Any = model.model
    made = network.generate(ids, attention_mask=torch.ones_like(ids), generation_config=greedy)
    return made[0, len(prompt) :].tolist()
