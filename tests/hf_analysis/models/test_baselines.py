"""Models that know nothing: what they keep of the model, and that the model stays as it was."""

import copy
from typing import ClassVar

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from hf_analysis.models.baselines import BASELINES, permuted, untrained
from hf_analysis.models.loading import LoadedModel, require_same_tokenizer
from tests.hf_analysis.tiny_models import CONFIGS, GROUPED, build, tokens


def state(loaded: LoadedModel) -> dict[str, torch.Tensor]:
    return {name: parameter.detach().clone() for name, parameter in loaded.model.named_parameters()}


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2"])
def test_permuted_matrices_have_the_same_entries_in_another_order(name, tokenizer):
    loaded = LoadedModel(name, build(name), tokenizer)
    before, found = state(loaded), permuted(loaded, seed=0)
    after = state(found)
    assert before.keys() == after.keys()
    moved = 0
    for key, old in before.items():
        embedding = "embed" in key or "wte" in key or "wpe" in key
        if old.ndim < 2 or embedding:
            assert torch.equal(after[key], old), f"{key} stays"
            continue
        assert not torch.equal(after[key], old), f"{key} moves"
        assert torch.equal(after[key].flatten().sort().values, old.flatten().sort().values)
        moved += 1
    assert moved >= 9
    assert found.name == f"permuted {name}"
    assert all(torch.equal(old, new) for old, new in zip(before.values(), state(loaded).values())), "it is a copy"
    logits = [model.model(tokens()).logits for model in (loaded, found)]
    assert not torch.allclose(*logits)


def test_a_tied_head_stays_with_its_embeddings(builtin):
    found = permuted(builtin, seed=0)
    assert builtin.model.config.tie_word_embeddings
    assert torch.equal(found.model.get_output_embeddings().weight, builtin.model.get_input_embeddings().weight)
    assert found.model.get_output_embeddings().weight is found.model.get_input_embeddings().weight


@pytest.mark.parametrize("kind", BASELINES)
def test_a_seed_decides_a_baseline(kind, llama):
    made = [BASELINES[kind](llama, seed) for seed in (0, 0, 1)]
    assert made[0].digest == made[1].digest != made[2].digest
    assert llama.digest not in {one.digest for one in made}
    assert {one.name for one in made} == {f"{kind} tiny-llama"}
    assert not any(one.model.training for one in made)


def test_permuting_one_matrix_does_not_depend_on_the_others(tokenizer):
    small, large = (permuted(LoadedModel("m", build(name), tokenizer), 0) for name in ("llama", "mistral"))
    key = "model.layers.0.mlp.up_proj.weight"
    assert torch.equal(build("llama").get_parameter(key), build("mistral").get_parameter(key))
    assert torch.equal(small.model.get_parameter(key), large.model.get_parameter(key))


def test_an_untrained_model_has_other_weights_and_the_same_tokens(builtin):
    found, again = untrained(builtin, seed=0), untrained(builtin, seed=0)
    require_same_tokenizer(builtin, found)
    pairs = zip(builtin.model.parameters(), found.model.parameters(), again.model.parameters())
    assert all(ours.shape == theirs.shape and torch.equal(theirs, repeated) for ours, theirs, repeated in pairs)
    assert not torch.equal(builtin.model.get_input_embeddings().weight, found.model.get_input_embeddings().weight)


@pytest.mark.parametrize("name", CONFIGS)
def test_an_untrained_model_is_what_transformers_initialises(name, tokenizer):
    found = untrained(LoadedModel(name, build(name), tokenizer), seed=3)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        expected = AutoModelForCausalLM.from_config(copy.deepcopy(CONFIGS[name]))
    assert type(found.model) is type(expected)
    assert all(torch.equal(a, b) for a, b in zip(found.model.parameters(), expected.parameters(), strict=True))


class ForeignConfig(LlamaConfig):
    model_type = "foreign"
    auto_map: ClassVar = {
        "AutoModelForCausalLM": "modeling_foreign.Foreign"
    }  # as in a model whose code came from the hub


class Foreign(LlamaForCausalLM):
    config_class = ForeignConfig


def test_an_untrained_model_of_code_from_the_hub_needs_no_second_consent(tokenizer):
    loaded = LoadedModel("foreign", Foreign(ForeignConfig(**GROUPED)).eval(), tokenizer)
    found = untrained(loaded, seed=0)
    assert type(found.model) is Foreign
    assert found.digest != loaded.digest
