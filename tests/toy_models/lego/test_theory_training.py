import copy
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from toy_models.lego.task import ANSWERED, STATE, Lego
from toy_models.lego.theory_model import LegoTheory, LegoTheoryConfig
from toy_models.lego.theory_training import (
    Descent,
    all_right,
    attention_updates,
    entries,
    routing,
    sampled_accuracy,
    self_labelled,
    self_train,
    state_loss,
    train_slot,
)

TASK = Lego(group="C3", length=2, n_variables=12)
STATES, VARIABLES = Descent(lr=10.0, n_updates=120, batch=72), Descent(lr=2.0, n_updates=60, batch=72)


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def fresh() -> LegoTheory:
    return LegoTheory(TASK.d_vocab, LegoTheoryConfig(), stream(0))


@pytest.fixture(scope="module")
def one_step() -> LegoTheory:
    """A model after stage 1."""
    model = fresh()
    train_slot(model, TASK, ANSWERED, VARIABLES, stream(1))
    train_slot(model, TASK, STATE, STATES, stream(2))
    return model


@pytest.fixture(scope="module")
def routed(one_step) -> LegoTheory:
    """A model after stage 2, with a long way to go."""
    model = copy.deepcopy(one_step)
    list(attention_updates(model, TASK, [0, 1], Descent(lr=0.5, n_updates=60, batch=72), stream(3)))
    return model


def greedy(model: LegoTheory, clauses: torch.Tensor) -> torch.Tensor:
    """Every answer after the first by the hooked forward, one at a time; the blanks are given."""
    clauses, length = clauses.clone(), clauses.shape[1] // 2
    for position in range(length + 1, 2 * length + 1):
        tokens = model(clauses[:, :position])[:, -1].argmax(-1)
        clauses[:, position, [ANSWERED, STATE]] = tokens[:, [ANSWERED, STATE]]
    return clauses


def test_stage_1_learns_one_step_and_touches_its_own_slot_alone(one_step):
    before = fresh().mlp.W
    assert torch.equal(one_step.mlp.W[:3], before[:3])
    assert not torch.equal(one_step.mlp.W[4], before[4])
    clauses = replace(TASK, length=1).sample(200, stream(9)).inputs
    assert not all_right(fresh(), clauses).all()
    assert all_right(one_step, clauses).all()


def test_stage_1_stops_at_its_bound():
    """At 10 nats after one update, as if one had been asked for; at 0 never."""
    stopped, once = fresh(), fresh()
    losses = [
        train_slot(model, TASK, ANSWERED, Descent(lr=0.5, n_updates=n, batch=16), stream(6), bound)
        for model, n, bound in ((stopped, 5, 10.0), (once, 1, 0.0))
    ]
    assert losses[0] == losses[1]
    assert torch.equal(stopped.mlp.W, once.mlp.W)


def test_the_blanks_can_be_learned_too():
    model = fresh()
    loss = train_slot(model, TASK, 0, Descent(lr=4.0, n_updates=30, batch=32), stream(4))
    assert loss < 0.2
    clauses = replace(TASK, length=1).sample(50, stream(5)).inputs
    assert (model(clauses)[:, 1, 0].argmax(-1) == 0).all()


def test_a_step_of_stage_1_is_gradient_descent_on_w():
    model, reference = fresh(), fresh()
    train_slot(model, TASK, ANSWERED, Descent(lr=0.5, n_updates=1, batch=16), stream(6))
    clauses = replace(TASK, length=1).sample(16, stream(6)).inputs
    loss = F.cross_entropy(reference(clauses)[:, 1, ANSWERED], clauses[:, 2, ANSWERED])
    (gradient,) = torch.autograd.grad(loss, reference.mlp.W)
    torch.testing.assert_close(model.mlp.W, reference.mlp.W - 0.5 * TASK.n_variables * gradient)


def test_a_step_of_stage_2_is_gradient_descent_on_q(one_step):
    model, reference = copy.deepcopy(one_step), copy.deepcopy(one_step)
    (found,) = attention_updates(model, TASK, [0, 1], Descent(lr=0.5, n_updates=1, batch=16), stream(7))
    clauses = TASK.sample(16, stream(7)).inputs
    logits = reference(clauses)[:, 2:4, STATE]
    loss = F.cross_entropy(logits[:, 0], clauses[:, 3, STATE]) + F.cross_entropy(logits[:, 1], clauses[:, 4, STATE])
    assert found == pytest.approx(loss.item(), rel=1e-5)
    blocks = (reference.attn.Q_43, reference.attn.Q_44)
    for block, gradient, moved in zip(
        blocks, torch.autograd.grad(loss, blocks), (model.attn.Q_43, model.attn.Q_44), strict=True
    ):
        torch.testing.assert_close(moved, block - 0.5 * TASK.n_variables * gradient)
    assert torch.equal(model.mlp.W, one_step.mlp.W)


def test_stage_2_routes_and_extends_the_length(one_step, routed):
    longer = replace(TASK, length=6)
    clauses = longer.sample(200, stream(8)).inputs
    assert all_right(one_step, clauses).float().mean() < 0.5
    assert all_right(routed, clauses).float().mean() > 0.9
    before, after = (routing(model, TASK, 200, stream(10)) for model in (one_step, routed))
    assert (before.error, before.gap) == pytest.approx((0.5, 0.0), abs=1e-6)  # two of four clauses
    assert after.error < 0.1
    for block in (routed.attn.Q_43, routed.attn.Q_44):
        found = entries(block, TASK)
        assert found.diagonal > 5 * found.other


def test_generation_is_the_greedy_loop_and_errors_spread(one_step, routed):
    for model in (one_step, routed):
        clauses = replace(TASK, length=5).sample(60, stream(11)).inputs
        expected = greedy(model, clauses)
        assert torch.equal(self_labelled(model, clauses, 5), expected)
        assert torch.equal(self_labelled(model, clauses, 2)[:, :8], expected[:, :8])
        assert torch.equal(all_right(model, clauses), (expected == clauses).flatten(1).all(-1))


def test_the_sampled_accuracy_is_that_of_the_models_own_softmax(routed):
    """Equation 5, with every answer's variable and state drawn from the hooked forward."""
    clauses = TASK.sample(5, stream(8)).inputs
    odds = routed(clauses).softmax(-1)[:, 2:4]  # at answers 0 and 1, of those that follow
    right = torch.ones(5)
    for slot in (ANSWERED, STATE):
        right = right * odds[:, :, slot].gather(-1, clauses[:, 3:, slot, None])[..., 0].T
    torch.testing.assert_close(sampled_accuracy(routed, clauses), right.mean(0))
    assert right.mean() > 1.5 / TASK.d_vocab


def test_routing_is_the_attention_on_the_dependencies(routed):
    task = replace(TASK, length=4, permuted=True)
    batch = task.sample(50, stream(12))
    _, cache = routed.run_with_cache(batch.inputs)
    pattern = cache["blocks.0.attn.hook_pattern"][:, 0, 7]
    on_both = (pattern * task.dependencies(batch)[:, 7]).sum(-1).mean().item()
    found = routing(routed, task, 50, stream(12))
    assert found.error == pytest.approx(1 - on_both, abs=1e-6)
    assert found.answer == pytest.approx(pattern[:, 7].mean().item(), abs=1e-6)


def test_a_stage_of_self_training_stops_at_its_bound(routed):
    task, descent = replace(TASK, length=4), Descent(lr=0.1, n_updates=40, batch=72)
    model = copy.deepcopy(routed)
    steps, loss = self_train(model, task, 0.0, descent, stream(13), teacher=routed)
    assert steps == 40
    assert routing(model, task, 100, stream(14)).error < routing(routed, task, 100, stream(14)).error
    stopped = copy.deepcopy(routed)
    assert self_train(stopped, task, 10.0, descent, stream(13), teacher=routed)[0] == 0
    assert torch.equal(stopped.attn.Q_43, routed.attn.Q_43)
    halfway = copy.deepcopy(routed)
    start = next(iter(attention_updates(halfway, task, [1], descent, stream(13), routed)))
    steps, found = self_train(halfway, task, (start + loss) / 2, descent, stream(13), teacher=routed)
    assert 0 < steps < 40
    assert found <= (start + loss) / 2


def test_self_training_believes_its_teacher(one_step):
    """A step with a teacher is the step on the teacher's labels, wrong as they are before any training."""
    labelled = self_labelled(fresh(), TASK.sample(16, stream(15)).inputs, 2)
    assert (labelled != TASK.sample(16, stream(15)).inputs).any()
    descent = Descent(lr=0.1, n_updates=1, batch=16)
    model = copy.deepcopy(one_step)
    (found,) = attention_updates(model, TASK, [1], descent, stream(15), teacher=fresh())
    assert found == pytest.approx(state_loss(one_step, labelled, 1).item(), rel=1e-6)


def test_entries_by_hand():
    task = Lego(group="C2", length=1, n_variables=3)
    block = torch.zeros(task.d_vocab, task.d_vocab)
    block[1, 1], block[2, 2], block[3, 3], block[1, 2], block[3, 1] = 1.0, 2.0, 3.0, -0.6, 0.3
    block[0, 0] = block[6, 6] = 100.0  # no variables
    found = entries(block, task)
    assert (found.diagonal, found.other, found.largest_other) == pytest.approx((2.0, 0.15, 0.6))


def test_impossible_descents_are_refused():
    with pytest.raises(ValueError, match="positive lr, updates and sentences"):
        Descent(lr=0.0, n_updates=1, batch=1)
