"""How fast does a model write? Problems batched, against transformers' `generate` one problem at a time.

Both write the same number of tokens after the same chat prompts, greedily and past any end of text, and the tokens
are compared. One at a time, only every fourth problem is written: its speed needs no more. Contenders take turns in
one process; the ratio is the median over turns of the ratio within a turn. Reading the prompts is part of the time,
and batching hardly helps there: the longer the texts, the larger the ratio. Next to other work the clock says little:
then the ratio in processor time is the better one, with one thread (two wait for one another, and waiting counts).
"""

import os
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter, process_time
from typing import Any, TypeVar

import torch

from hf_analysis.models.generation import Decoding, continuations
from hf_analysis.models.loading import LoadedModel, load_model
from hf_analysis.text.chat import chat_prompt
from hf_analysis.text.problems import load_problems
from interp.bench.timing import with_threads

BAR = 5.0
T = TypeVar("T")


def run(
    loaded: LoadedModel | None = None,
    rows: int = 16,
    new_tokens: int = 128,
    turns: int = 3,
    threads: int = 2,
    chat: bool = True,
) -> Iterator[dict[str, Any]]:
    """One record: tokens per second of both, and the ratio."""
    with with_threads(threads):
        model = loaded or load_model("builtin", device="cpu", dtype="float32")
        questions = [problem.question for problem in load_problems("builtin", limit=rows)]
        prompts = [model.encode(chat_prompt(model, question) if chat else question) for question in questions]
        yield _record(model, prompts, new_tokens, turns)


def _record(model: LoadedModel, prompts: list[list[int]], new_tokens: int, turns: int) -> dict[str, Any]:
    some, greedy = prompts[::4], Decoding(max_new_tokens=new_tokens)
    batched, alone = [], []  # of every turn, seconds per text: by the clock, and of the processor
    for _ in range(turns):
        ours, seconds = _timed(lambda: continuations(model, prompts, greedy, ends=frozenset()))
        batched.append([each / len(prompts) for each in seconds])
        theirs, seconds = _timed(lambda: [_alone(model, prompt, new_tokens) for prompt in some])
        alone.append([each / len(some) for each in seconds])
        if [list(one.tokens) for one in ours[::4]] != theirs:
            raise ValueError("the contenders wrote different tokens; expected the same")
    ratio, cpu_ratio = (median(b[i] / a[i] for a, b in zip(batched, alone)) for i in (0, 1))
    contenders = {"batched": batched, "one at a time": alone}
    return {
        "bench": "generate",
        "rows": len(prompts),
        "prompt_tokens": sum(map(len, prompts)),
        "new_tokens": new_tokens,
        "turns": turns,
        "threads": torch.get_num_threads(),
        "load_average": round(os.getloadavg()[0], 1) if hasattr(os, "getloadavg") else None,
        "tokens_per_second": {
            name: round(median(new_tokens / each[0] for each in found), 2) for name, found in contenders.items()
        },
        "ratio": round(ratio, 2),
        "cpu_ratio": round(cpu_ratio, 2),
        "bar": BAR,
        "reached": ratio >= BAR,
    }


def _timed(work: Callable[[], list[T]]) -> tuple[list[T], tuple[float, float]]:
    """What it returns, and its seconds by the clock and of the processor."""
    clock, processor = perf_counter(), process_time()
    found = work()
    return found, (perf_counter() - clock, process_time() - processor)


@torch.inference_mode()
def _alone(model: LoadedModel, prompt: list[int], new_tokens: int) -> list[int]:
    from transformers import GenerationConfig

    never = model.model.config.get_text_config().vocab_size  # None would be replaced by the model's own end of text
    greedy = GenerationConfig(do_sample=False, max_new_tokens=new_tokens, pad_token_id=model.pad, eos_token_id=never)
    ids = torch.tensor([prompt])
    network: Any = model.model
    made = network.generate(ids, attention_mask=torch.ones_like(ids), generation_config=greedy)
    return made[0, len(prompt) :].tolist()
