"""Training under fixed or pressed attention: against the hooked model, and what it does to what is learned."""

import math

import pytest
import torch
import torch.nn.functional as F

from toy_models.engine.attention_control import (
    PATTERN,
    AttentionControl,
    controlled_forward,
    fix_attention,
    learned_pattern,
    masked_pattern,
    mean_entropy,
    uniform_pattern,
)
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.evaluation import exact_match, head_entropies
from toy_models.engine.forward import HookedForward
from toy_models.engine.sparse_step import SparseForward
from toy_models.engine.training import TrainConfig, Trainer, train
from toy_models.parity.task import Parity

TASK = Parity(n=6, k=3)
SMALL = DecoderConfig(1, 2, 16, 32)


def sampled(task: Parity, size: int = 32):
    return task.sample(size, torch.Generator().manual_seed(3))


def gradients(forward, model, batch) -> dict[str, torch.Tensor]:
    model.zero_grad(set_to_none=True)
    logits = forward(batch.inputs, batch.supervised)
    F.cross_entropy(logits.flatten(0, 1), batch.answers.flatten()).backward()
    found = model.state_dict(keep_vars=True).items()
    return {name: p.grad.clone() for name, p in found if p.grad is not None}


def dependencies(task: Parity) -> torch.Tensor:
    return task.dependencies(sampled(task, 1))[0]


@pytest.mark.parametrize("kind", ["uniform", "dependencies", "learned"])
def test_fixed_attention_has_the_logits_and_gradients_of_the_hooked_model(kind):
    donor = hooked_decoder(DecoderConfig(1, 2, 16, 32, init_std=0.5), TASK.d_vocab, TASK.n_ctx, seed=5)
    patterns = {
        "uniform": uniform_pattern(2, TASK.n_ctx),
        "dependencies": masked_pattern(2, dependencies(TASK)),
        "learned": learned_pattern(donor, sampled(TASK).inputs),
    }
    model = hooked_decoder(SMALL, TASK.d_vocab, TASK.n_ctx, seed=1)
    batch, control = sampled(TASK), AttentionControl(patterns[kind])
    fast = controlled_forward(model, TASK.n_ctx, control)
    _, cache = model.run_with_cache(batch.inputs, names_filter=[PATTERN])
    torch.testing.assert_close(cache[PATTERN][7], patterns[kind])
    sparse, hooked = gradients(fast, model, batch), gradients(HookedForward(model), model, batch)
    assert set(sparse) == set(hooked)
    assert not [name for name in sparse if ".attn.q." in name or ".attn.k." in name], "nothing to learn from"
    assert [name for name in sparse if ".attn.v." in name]
    for name, gradient in sparse.items():
        torch.testing.assert_close(gradient, hooked[name], atol=1e-6, rtol=1e-4)


def test_the_entropy_that_is_pressed_is_that_of_the_supervised_rows():
    model = hooked_decoder(DecoderConfig(1, 2, 16, 32, init_std=0.7), TASK.d_vocab, TASK.n_ctx, seed=2)
    batch = sampled(TASK)
    found = mean_entropy(SparseForward(model), batch.inputs, batch.supervised)
    _, cache = model.run_with_cache(batch.inputs, names_filter=[PATTERN])
    values = []
    for query in batch.supervised.tolist():
        rows = cache[PATTERN][:, :, query, : query + 1].double()
        values.append(torch.special.entr(rows).sum(-1) / torch.tensor(query + 1.0).log())
    assert found.item() == pytest.approx(torch.stack(values).mean().item(), abs=1e-6)
    found.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize(("weight", "low", "high"), [(5.0, 0.0, 0.3), (-5.0, 0.9, 1.0)])
def test_pressure_makes_attention_sparse_or_dense(weight, low, high):
    config = TrainConfig(lr=1e-2, budget=16_384, eval_every=16_384, n_validation=8, n_test=8)
    run = Trainer(TASK, SMALL, config, control=AttentionControl(entropy_weight=weight))
    run.evaluate()
    run.train_until_evaluation()
    batch = sampled(TASK)
    assert isinstance(run.choice.forward, SparseForward)
    assert low <= mean_entropy(run.choice.forward, batch.inputs, batch.supervised).item() <= high


def test_attention_on_the_dependencies_is_learned_from_and_on_other_bits_is_not():
    task = Parity(n=6, k=3, cot=False, secret=(0, 2, 3))
    other = Parity(n=6, k=3, cot=False, secret=(1, 4, 5))
    config = TrainConfig(lr=3e-3, budget=60_000, n_validation=16, n_test=16)
    model = DecoderConfig(1, 1, 32, 128)
    found = {}
    for name, source in (("right", task), ("wrong", other)):
        pattern = masked_pattern(1, dependencies(source))
        result = train(task, model, config, control=AttentionControl(pattern))
        found[name] = result.sample_complexity
        lowest = head_entropies(result.model, sampled(task).inputs).item()
        assert lowest == pytest.approx(math.log(3) / math.log(7), abs=1e-5), "as it was fixed"
    assert found["right"] is not None
    assert found["wrong"] is None


@pytest.mark.parametrize(
    "control",
    [AttentionControl(entropy_weight=0.5), AttentionControl(masked_pattern(2, dependencies(TASK)))],
    ids=["pressed", "fixed"],
)
def test_a_controlled_run_resumes_with_the_same_bits_and_under_its_own_control_only(control, tmp_path):
    config = TrainConfig(lr=1e-3, budget=8_192, stop_when_perfect=False, n_validation=8, n_test=8)
    whole = train(TASK, SMALL, config, control=control)
    run = Trainer(TASK, SMALL, config, control=control)
    run.evaluate()
    run.train_until_evaluation()
    run.evaluate()
    run.save(tmp_path / "c.safetensors")
    resumed = train(TASK, SMALL, config, tmp_path / "c.safetensors", control=control)
    assert resumed.history == whole.history
    run.save(tmp_path / "d.safetensors")
    with pytest.raises(ValueError, match="control"):
        train(TASK, SMALL, config, tmp_path / "d.safetensors", control=AttentionControl(entropy_weight=-0.5))


@pytest.mark.parametrize(
    ("pattern", "weight", "words"),
    [
        (torch.full((1, 3, 3), 0.5), 0.0, "sum to 1"),
        (torch.eye(3)[None].flip(1), 0.0, "earlier keys"),
        (torch.eye(3)[None], 1.0, "either"),
    ],
)
def test_what_is_no_control_is_refused(pattern, weight, words):
    with pytest.raises(ValueError, match=words):
        AttentionControl(pattern, weight)


def already_fixed():
    model = hooked_decoder(SMALL, TASK.d_vocab, TASK.n_ctx, seed=1)
    fix_attention(model, uniform_pattern(2, TASK.n_ctx))
    return model


def test_a_model_whose_attention_is_fixed_already_is_trained_and_scored_as_it_is(tmp_path):
    config = TrainConfig(lr=3e-3, batch_size=64, budget=2_048, eval_every=1_024, n_validation=8, n_test=16)
    result = train(TASK, already_fixed(), config, tmp_path / "c.safetensors")
    assert result.path == f"hooked: {PATTERN} has a hook, and the sparse step passes no hook point"
    predictions = result.model(result.test.inputs)[:, result.test.supervised].argmax(-1)
    assert result.test_accuracy == exact_match(predictions, result.test)
    assert result.history[-1].loss < result.history[0].loss
    assert train(TASK, already_fixed(), config, tmp_path / "c.safetensors").history == result.history
    with pytest.raises(ValueError, match=r"cannot be controlled: .* has a hook"):
        controlled_forward(already_fixed(), TASK.n_ctx, AttentionControl(entropy_weight=1.0))


def test_deeper_models_and_other_heads_are_refused():
    deep = hooked_decoder(DecoderConfig(2, 2, 16, 32), 2, TASK.n_ctx, seed=0)
    with pytest.raises(ValueError, match="2 layers"):
        controlled_forward(deep, TASK.n_ctx, AttentionControl(entropy_weight=1.0))
    model = hooked_decoder(SMALL, 2, TASK.n_ctx, seed=0)
    with pytest.raises(ValueError, match="1 heads, the model 2"):
        controlled_forward(model, TASK.n_ctx, AttentionControl(uniform_pattern(1, TASK.n_ctx)))
