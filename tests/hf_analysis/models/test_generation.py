"""Batched generation against `model.generate` one prompt at a time, and sampling against its definition."""

from typing import Any

import pytest
import torch
from transformers import BloomConfig, GenerationConfig, MptConfig

from hf_analysis.models.generation import Decoding, continuations, sampled
from hf_analysis.models.loading import LoadedModel
from probes.base.streams import torch_stream
from tests.hf_analysis.tiny_models import CONFIGS, build

TEXTS = ["She has 3 apples.", "Two", "The answer is 12. She buys 4 more apples and has", "A pen costs"]


def alone(model: LoadedModel, prompt: list[int], n: int) -> list[int]:
    """The oracle: transformers' own greedy generation of one prompt, without the end token."""
    ends = model.model.generation_config.eos_token_id
    greedy = GenerationConfig(do_sample=False, max_new_tokens=n, eos_token_id=ends, pad_token_id=model.pad)
    ids = torch.tensor([prompt])
    network: Any = model.model
    made = network.generate(ids, attention_mask=torch.ones_like(ids), generation_config=greedy)
    return [token for token in made[0, len(prompt) :].tolist() if token != ends]


def unending(model: LoadedModel, prompt: list[int], n: int) -> list[int]:
    """Greedy tokens, each from a pass over everything before it: no cache, no padding, no end."""
    ids, network = list(prompt), model.model
    for _ in range(n):
        with torch.inference_mode():
            ids.append(int(network(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    return ids[len(prompt) :]


def streams(n: int, seed: int = 0) -> list[torch.Generator]:
    return [torch_stream(seed, f"row {i}") for i in range(n)]


def test_greedy_tokens_are_those_of_one_prompt_at_a_time(architecture, tokenizer):
    model = LoadedModel(architecture, build(architecture), tokenizer)
    implementation = model.model.config._attn_implementation
    prompts = [model.encode(text) for text in TEXTS]
    found = continuations(model, prompts, Decoding(max_new_tokens=40))
    assert [list(one.tokens) for one in found] == [alone(model, prompt, 40) for prompt in prompts]
    assert model.model.config._attn_implementation == implementation


def test_greedy_tokens_of_the_builtin_model_are_those_of_one_prompt_at_a_time(builtin):
    prompts = [builtin.encode(text) for text in ("The capital of France is", "2 + 2 =", "Ann has 3 apples. She eats")]
    found = continuations(builtin, prompts, Decoding(max_new_tokens=24))
    assert [list(one.tokens) for one in found] == [alone(builtin, prompt, 24) for prompt in prompts]
    assert "Paris" in builtin.decode(list(found[0].tokens))


def test_rows_end_one_by_one_and_the_others_go_on_as_if_alone(llama):
    prompts = [llama.encode(text) for text in TEXTS]
    limits = [3, 17, 9, 30]
    found = continuations(llama, prompts, Decoding(max_new_tokens=30), is_done=lambda i, t: len(t) == limits[i])
    for one, prompt, limit in zip(found, prompts, limits):
        assert list(one.tokens) == alone(llama, prompt, limit)[:limit]
        assert one.complete


ALIBI = [  # positions that are distances: from the mask, and from the columns themselves
    BloomConfig(vocab_size=300, hidden_size=48, n_layer=3, n_head=4),
    MptConfig(vocab_size=300, d_model=48, n_layers=3, n_heads=4),
]


@pytest.mark.parametrize("config", [*CONFIGS.values(), *ALIBI], ids=lambda config: config.model_type)
def test_rows_that_take_the_places_of_others_go_on_as_if_alone(config, tokenizer):
    """Two at a time, with a common beginning, an equal prompt, one longer than all before, and different ends."""
    model = LoadedModel("tiny", build(config), tokenizer)
    prompts = [model.encode("The answer is 12. " + text) for text in (*TEXTS, TEXTS[0], "She " * 40)]
    limits = [3, 17, 1, 12, 9, 20]
    done = {"ends": frozenset(), "is_done": lambda place, tokens: len(tokens) == limits[place]}
    found = continuations(model, prompts, Decoding(max_new_tokens=30), batch=2, **done)
    for one, prompt, limit in zip(found, prompts, limits):
        assert list(one.tokens) == unending(model, prompt, limit)


def test_an_end_token_ends_a_row_and_the_limit_cuts_it_off(tokenizer):
    model = LoadedModel("ends", build("llama"), tokenizer)
    prompt = model.encode(TEXTS[0])
    free = continuations(model, [prompt], Decoding(max_new_tokens=12))[0]
    assert (len(free.tokens), free.complete) == (12, False)
    model.model.generation_config.eos_token_id = [free.tokens[4], 0]
    found = continuations(model, [prompt], Decoding(max_new_tokens=12))[0]
    assert found.tokens == free.tokens[: free.tokens.index(free.tokens[4])]
    assert found.complete


def test_a_sampled_text_depends_on_its_stream_and_not_on_its_company(llama):
    prompts = [llama.encode(text) for text in TEXTS]
    decoding = Decoding(temperature=0.8, top_p=0.95, max_new_tokens=20)
    together = continuations(llama, prompts, decoding, streams(4))
    for i, prompt in enumerate(prompts):
        assert continuations(llama, [prompt], decoding, streams(4)[i : i + 1]) == [together[i]]
    assert continuations(llama, prompts, decoding, streams(4), batch=2) == together
    backwards = continuations(
        llama, prompts[::-1] + prompts[:1], decoding, [*streams(4)[::-1], streams(5)[4]], batch=3
    )
    assert backwards[:4] == together[::-1]
    assert backwards[4] != together[0]  # the same prompt and another stream
    assert together != continuations(llama, prompts, decoding, streams(4, seed=1))


@pytest.mark.parametrize("top_p", [1.0, 0.7, 1e-9])
def test_samples_have_the_probabilities_of_their_definition(top_p):
    logits, temperature = torch.tensor([0.3, 2.0, -1.0, 1.2, 0.0]), 0.7
    stream, n = torch.Generator().manual_seed(0), 4000
    counts = torch.bincount(torch.stack([sampled(logits, temperature, top_p, stream) for _ in range(n)]), minlength=5)
    probability = (logits / temperature).softmax(-1)
    kept, total = torch.zeros(5), 0.0
    for token in sorted(range(5), key=lambda t: -probability[t]):  # the nucleus, one token at a time
        if total < top_p:
            kept[token] = probability[token]
            total += float(probability[token])
    expected = kept / kept.sum()
    assert (counts / n - expected).abs().max() < 4 * 0.5 / n**0.5
    assert (counts[expected == 0] == 0).all()


def test_the_context_of_the_model_is_a_limit(llama):
    prompt = llama.encode("She has 3 apples. ") * 200
    near_the_end = prompt[:1020]
    assert len(continuations(llama, [near_the_end], Decoding(max_new_tokens=50))[0].tokens) <= 4
    with pytest.raises(
        ValueError, match="a prompt of 1024 tokens leaves no room to write in; tiny-llama takes 1 to 1024"
    ):
        continuations(llama, [prompt[:1024]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": -1.0}, "--temperature -1: need 0"),
        ({"temperature": float("nan")}, "--temperature nan"),
        ({"temperature": 1.0, "top_p": 0.0}, "--top-p 0: need more than 0"),
        ({"samples": 0}, "--samples 0"),
        ({"max_new_tokens": 0}, "--max-new-tokens 0"),
        ({"samples": 2}, "greedy texts are alike; set --temperature above 0"),
    ],
)
def test_what_cannot_be_decoded_is_one_clear_line(options, message):
    with pytest.raises(ValueError, match=message):
        Decoding(**options)


def test_sampling_without_streams_is_refused(llama):
    with pytest.raises(ValueError, match="sampling 1 texts needs as many streams, got 0"):
        continuations(llama, [llama.encode("She")], Decoding(temperature=1.0))
