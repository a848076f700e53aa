"""Is the encoder trained on the hops it should be, told in the way it should be?"""

import pytest
import torch
import torch.nn.functional as F

from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.training import TrainConfig, train
from toy_models.kfold.encoder import EncoderConfig
from toy_models.kfold.hop_training import (
    SOLVED,
    HopLoop,
    HopTraining,
    _training_loss,
    allowed_hops,
    evaluated,
    fresh_encoder,
    hide_token,
    hop_logits,
    hop_task,
    train_hops,
    with_hop,
)
from toy_models.kfold.task import KFold

SMALL = EncoderConfig(n_layers=2, n_heads=2, d_model=16)


@pytest.mark.parametrize(
    ("curriculum", "accuracy", "expected"),
    [
        ("mixture", (0.2, 0.2, 0.2), [0, 1, 2]),
        ("hardest", (0.2, 0.2, 0.2), [2]),
        ("stagewise", (0.2, 0.2, 0.2), [0]),
        ("stagewise", (0.995, 0.2, 0.2), [0, 1]),
        ("stagewise", (0.995, 0.995, 0.2), [0, 1, 2]),
        ("stagewise", (0.5, 0.995, 0.2), [0]),  # a forgotten hop is taken up again
        ("stagewise", (1.0, 1.0, 1.0), [0, 1, 2]),
    ],
)
def test_the_curriculum_decides_the_hops(curriculum, accuracy, expected):
    assert allowed_hops(curriculum, accuracy) == expected


def test_a_head_or_a_token_tells_the_hop():
    hop = torch.tensor([0, 2, 1, 2])
    heads, token = (hop_task(4, 5, told, 0) for told in ("head", "token"))
    model = fresh_encoder(heads, SMALL, 0)
    inputs = heads.sample(4, torch.Generator().manual_seed(0)).inputs
    with torch.no_grad():
        found, every = hop_logits(model, heads, inputs, hop), model(inputs)
    assert all(torch.equal(found[row], every[row, hop[row]]) for row in range(4))

    model = fresh_encoder(token, SMALL, 0)
    told = torch.cat([(5 + hop)[:, None], inputs], dim=-1)
    anything = torch.cat([torch.full((4, 1), 5), inputs], dim=-1)
    with torch.no_grad():
        assert torch.equal(hop_logits(model, token, anything, hop), model(told)[:, 0, 1:])
    assert torch.equal(with_hop(token, anything, hop), told)
    assert torch.equal(with_hop(heads, inputs, hop), inputs)


def test_the_loss_of_heads_is_the_mean_over_their_hops():
    """Equation 3, up to the factor of the number of hops."""
    task = hop_task(4, 5, "head", 0)
    model = fresh_encoder(task, SMALL, 0)
    inputs = task.sample(6, torch.Generator().manual_seed(0)).inputs
    found = _training_loss(model, task, inputs, [0, 2], None)
    results = task.results(inputs)
    each = [F.cross_entropy(model(inputs)[:, hop].flatten(0, 1), results[:, hop].flatten()) for hop in (0, 2)]
    torch.testing.assert_close(found, sum(each) / 2)


def test_an_oracle_is_evaluated_as_perfect_and_a_fresh_model_as_guessing():
    task = hop_task(2, 3, "head", 0)
    inputs = task.sample(200, torch.Generator().manual_seed(0)).inputs
    model = fresh_encoder(task, SMALL, 0)
    fresh = evaluated(model, task, inputs, 0)
    assert all(abs(value - 1 / 3) < 0.15 for value in fresh.accuracy)
    model.forward = lambda tokens: 50.0 * F.one_hot(task.results(tokens), 3)  # pyright: ignore
    found = evaluated(model, task, inputs, 7)
    assert found.samples == 7
    assert found.accuracy == (1.0, 1.0)
    assert max(found.loss) < 1e-6


def test_a_hidden_token_reaches_nobody_before_its_layer():
    task = hop_task(4, 5, "token", 0)
    inputs = task.sample(3, torch.Generator().manual_seed(0)).inputs
    one, other = with_hop(task, inputs, 0), with_hop(task, inputs, 2)
    for until, same in ((0, False), (1, True)):
        model = fresh_encoder(task, SMALL, 0)
        hide_token(model, until)
        _, first = model.run_with_cache(one)
        _, second = model.run_with_cache(other)
        name = "blocks.0.hook_resid_post"
        assert torch.equal(first[name][:, 1:], second[name][:, 1:]) == same
        assert not torch.equal(first["blocks.1.hook_resid_post"][:, 1:], second["blocks.1.hook_resid_post"][:, 1:])


def test_training_learns_the_easy_hop_and_repeats_itself():
    config = HopTraining(budget=9_600, eval_every=4_800, n_test=64, lr=5e-3, seed=1)
    encoder = EncoderConfig(n_layers=2, n_heads=2, d_model=32, d_mlp=32)
    first, again = (train_hops(2, 3, encoder, config) for _ in range(2))
    assert first.history == again.history
    assert [e.samples for e in first.history][:2] == [0, 4_800]
    assert first.history[0].accuracy[0] < 0.6 < 0.95 < first.history[-1].accuracy[0]
    complexity = first.sample_complexity(0)
    assert complexity == next((e.samples for e in first.history if e.accuracy[0] >= SOLVED), None)


@pytest.mark.parametrize("told", ["head", "token"])
def test_a_finite_set_is_learned_by_heart_and_an_example_keeps_its_hop(told):
    task = hop_task(2, 3, told, seed=0)
    generator = torch.Generator().manual_seed(5)
    before = generator.get_state()
    test = task.sample(8, torch.Generator().manual_seed(6)).inputs
    loop = HopLoop(
        fresh_encoder(task, SMALL, 0), task, test, generator, curriculum="mixture", lr=1e-2, batch_size=4, budget=28,
        eval_every=8, n_sequences=8,
    )  # fmt: skip
    hops: dict[int, set[int]] = {}
    for update in range(7):
        loop.updates = update
        inputs, drawn = loop._batch(4, 2)
        assert loop.set is not None
        rows = loop.set.rows(update)
        assert torch.equal(inputs, loop.set.inputs[rows])
        for row, hop in zip(rows.tolist(), drawn.tolist()):
            hops.setdefault(row, set()).add(hop)
    assert sorted(hops) == list(range(8))
    assert all(len(told_hops) == 1 for told_hops in hops.values())
    loop.updates = 0
    assert [progress.samples for progress in loop] == [8, 16, 24, 28]
    assert torch.equal(generator.get_state(), before), "nothing else is drawn"


@pytest.mark.parametrize(
    ("changes", "message"), [({"lr": 0.0}, "lr"), ({"budget": 0}, "budget"), ({"n_sequences": 3}, "n_sequences=3")]
)
def test_bad_numbers_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        HopTraining(**changes)


def test_a_decoder_is_not_trained_on_a_task_that_looks_ahead():
    with pytest.raises(ValueError, match="later tokens that kfold depends on"):
        train(KFold(), DecoderConfig(), TrainConfig())
