"""Accuracy, rollout and attention of small models, against loops and the hooked model."""

import math

import pytest
import torch
import torch.nn.functional as F

from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.evaluation import (
    CHUNK,
    attention_patterns,
    exact_match,
    head_entropies,
    head_metrics,
    rollout,
    teacher_forced_logits,
)
from toy_models.engine.forward import HookedForward
from toy_models.engine.sparse_step import SparseForward
from toy_models.parity.task import Parity
from toy_models.task import Batch

TASK = Parity(n=6, k=3)


def trained_for(n_steps: int, n_layers: int = 1, n_heads: int = 2):
    """A decoder after `n_steps` steps of Adam."""
    model = hooked_decoder(DecoderConfig(n_layers, n_heads, 32, init_std=0.1), TASK.d_vocab, TASK.n_ctx, seed=0)
    assert sum(p.numel() for p in model.parameters()) < 50_000
    optimiser, generator = torch.optim.Adam(model.parameters(), lr=3e-3), torch.Generator().manual_seed(1)
    for _ in range(n_steps):
        batch = TASK.sample(64, generator)
        logits = SparseForward(model)(batch.inputs, batch.supervised)
        optimiser.zero_grad()
        F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten()).backward()
        optimiser.step()
    return model


@pytest.fixture(scope="module")
def half_trained():
    return trained_for(20)


@pytest.fixture(scope="module")
def batch():
    return TASK.sample(CHUNK + 40, torch.Generator().manual_seed(2))


def slow_rollout(model, batch: Batch) -> torch.Tensor:
    """One sequence and one token at a time, from the question alone, with the hooked model."""
    answers = []
    with torch.no_grad():
        for question in batch.inputs[:, : TASK.n + 1].tolist():
            tokens = list(question)
            for _ in range(TASK.k):
                tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
            answers.append(tokens[TASK.n + 1 :])
    return torch.tensor(answers)


@pytest.mark.parametrize("n_steps", [0, 10, 20, 100])
def test_rollout_and_teacher_forcing_agree_on_exact_match(n_steps, batch):
    forward = SparseForward(trained_for(n_steps))
    forced = teacher_forced_logits(forward, batch).argmax(-1)
    assert exact_match(rollout(forward, batch), batch) == exact_match(forced, batch)


def test_rollout_and_teacher_forcing_differ_token_by_token(half_trained, batch):
    forward = SparseForward(half_trained)
    forced, free = teacher_forced_logits(forward, batch).argmax(-1), rollout(forward, batch)
    assert 0 < exact_match(free, batch) < 1, "neither untrained nor perfect"
    assert torch.equal(forced[:, 0], free[:, 0])
    assert not torch.equal(forced[:, -1], free[:, -1])


def test_rollout_equals_a_slow_loop(half_trained, batch):
    assert torch.equal(rollout(SparseForward(half_trained), batch[:40]), slow_rollout(half_trained, batch[:40]))


def test_rollout_never_reads_the_true_chain(half_trained, batch):
    forward = SparseForward(half_trained)
    corrupted = batch.inputs.clone()
    corrupted[:, TASK.n + 1 :] ^= 1
    assert torch.equal(rollout(forward, Batch(corrupted, batch.targets)), rollout(forward, batch))
    assert torch.equal(corrupted[:, TASK.n + 1 :], batch.inputs[:, TASK.n + 1 :] ^ 1), "rollout changed its input"


def test_teacher_forced_logits_are_the_models(half_trained, batch):
    expected = HookedForward(half_trained)(batch.inputs, batch.supervised)
    found = teacher_forced_logits(SparseForward(half_trained), batch)
    assert not found.requires_grad
    assert torch.allclose(found, expected, atol=1e-5)


def test_exact_match_needs_every_token():
    batch = TASK.sample(4, torch.Generator().manual_seed(0))
    predictions = batch.answers.clone()
    assert exact_match(predictions, batch) == 1
    predictions[1, 0] ^= 1
    predictions[2] ^= 1
    assert exact_match(predictions, batch) == 0.5


@pytest.mark.parametrize("n_layers", [1, 2, 3])
@pytest.mark.parametrize("n_heads", [1, 4])
def test_attention_patterns_are_the_cached_ones(n_layers, n_heads, batch):
    model = trained_for(20, n_layers, n_heads)
    _, cache = model.run_with_cache(batch.inputs)
    found = attention_patterns(model, batch.inputs)
    assert found.shape == (n_layers, len(batch), n_heads, TASK.n_ctx, TASK.n_ctx)
    for layer in range(n_layers):
        assert torch.allclose(found[layer], cache[f"blocks.{layer}.attn.hook_pattern"], atol=1e-6)


@pytest.mark.parametrize("n_layers", [1, 2])
def test_head_entropies_equal_a_slow_loop(n_layers, batch):
    model, inputs = trained_for(30, n_layers), batch.inputs[:7]
    found = head_entropies(model, inputs)
    _, cache = model.run_with_cache(inputs)
    for layer in range(n_layers):
        for head in range(2):
            lowest = []
            for pattern in cache[f"blocks.{layer}.attn.hook_pattern"][:, head].tolist():
                entropies = [-sum(p * math.log(p) for p in row if p > 0) for row in pattern]
                lowest.append(min(h / math.log(i + 1) for i, h in enumerate(entropies) if i >= 1))
            assert found[layer, head].item() == pytest.approx(sum(lowest) / len(lowest), abs=1e-5)


def test_any_metric_of_a_head_equals_a_slow_loop(batch):
    model, inputs = trained_for(30, 2), batch.inputs[:5]
    names = ["effective_keys_mean", "entropy_nats_min", "top1_mass_max", "sink_mass", "sink_excluded_min", "min"]
    found = head_metrics(model, inputs, names)
    assert list(found) == names
    assert torch.equal(found["min"], head_entropies(model, inputs))
    _, cache = model.run_with_cache(inputs)
    for layer in range(2):
        pattern = cache[f"blocks.{layer}.attn.hook_pattern"].double()[:, :, 1:]  # queries that see two keys
        nats = -torch.xlogy(pattern, pattern).sum(-1)
        rest = pattern[:, :, 1:, 1:] / pattern[:, :, 1:, 1:].sum(-1, keepdim=True)
        others = -torch.xlogy(rest, rest).sum(-1) / torch.arange(2, TASK.n_ctx).log()
        expected = {
            "effective_keys_mean": nats.exp().mean(-1),
            "entropy_nats_min": nats.amin(-1),
            "top1_mass_max": pattern.amax(-1).amax(-1),
            "sink_mass": pattern[..., 0].mean(-1),
            "sink_excluded_min": others.amin(-1),
        }
        for name, values in expected.items():
            torch.testing.assert_close(found[name][layer].double(), values.mean(0), atol=1e-4, rtol=1e-4, msg=name)


def test_an_encoder_sees_every_key(batch):
    model, inputs = trained_for(30, 1), batch.inputs[:3]
    everywhere, causal = (head_metrics(model, inputs, ["mean"], causal)["mean"] for causal in (False, True))
    assert (everywhere < causal).all()  # the same entropies by a larger logarithm
