"""Training on LEGO: what each stage moves, whose labels it uses, and that it learns."""

from dataclasses import replace

import pytest
import torch

from toy_models.lego.clause_decoder import STANDARD, THEORY, clause_decoder
from toy_models.lego.generation import share_solved
from toy_models.lego.task import STATE, Lego
from toy_models.lego.training import (
    Stage,
    StageTrainer,
    held_out_loss,
    next_clause_loss,
    self_labelled,
    train_lego,
    train_stage,
)

TASK = Lego("C2", 2, n_variables=4)
SMALL = replace(THEORY, d_token=4, d_mlp=16)


def weights(model) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def moved(before, after) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_the_loss_is_that_of_the_answers_rows_of_the_whole_forward():
    model = clause_decoder(replace(STANDARD, d_token=4, d_mlp=16), TASK, seed=0)
    sentences = TASK.sample(16, torch.Generator().manual_seed(0)).inputs
    found = next_clause_loss(model, sentences, TASK.answer_positions())
    following = TASK.next_clauses(sentences)
    logits = model(sentences)[:, 2:4]  # predicates at 0 and 1, answers 0 and 1 at 2 and 3
    torch.testing.assert_close(found, model.loss(logits, following[:, 2:4]))


def test_a_frozen_attention_stays_and_everything_else_moves():
    model = clause_decoder(SMALL, TASK, seed=0)
    before = weights(model)
    train_stage(model, TASK, Stage(1, 5, 1e-2, 0.0, 8), torch.Generator().manual_seed(0))
    changed = moved(before, weights(model))
    assert changed == {name for name in before if ".attn." not in name}
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_a_stage_can_move_the_attention_alone():
    model = clause_decoder(SMALL, TASK, seed=0)
    before = weights(model)
    train_stage(model, TASK, Stage(2, 5, 0.0, 1e-2, 8), torch.Generator().manual_seed(0))
    changed = moved(before, weights(model))
    assert changed
    assert all(".attn.query" in name or ".attn.key" in name for name in changed)


def test_the_same_seed_gives_the_same_bits_and_points_change_nothing():
    stages = (Stage(1, 6, 1e-2, 0.0, 8), Stage(2, 6, 1e-2, 1e-2, 8))
    seen = []
    first = train_lego(TASK, SMALL, stages, 0, at=[2, 8], on_point=lambda p, _: seen.append((p.update, p.stage)))
    again, other = train_lego(TASK, SMALL, stages, 0), train_lego(TASK, SMALL, stages, 1)
    assert seen == [(2, 0), (6, 0), (8, 1), (12, 1)]
    assert not moved(weights(first), weights(again))
    assert moved(weights(first), weights(other))


def test_two_stages_teach_the_group_of_two_and_it_goes_on_beyond_its_length():
    decoder = replace(THEORY, d_token=8, d_mlp=32)
    task = Lego("C2", 3, n_variables=12)
    stages = (Stage(1, 150, 1e-2, 0.0, 64), Stage(3, 200, 3e-3, 1e-2, 32))
    losses = []

    def watch(_point, model):
        losses.append(held_out_loss(model, task, 64, torch.Generator().manual_seed(9)))

    model = train_lego(task, decoder, stages, 0, on_point=watch)
    generator = torch.Generator().manual_seed(7)
    assert losses[-1] < 0.1 * losses[0]
    assert share_solved(model, task, 100, generator) > 0.95
    assert share_solved(model, replace(task, length=5), 100, generator) > 0.5


def test_self_labels_are_the_models_own_answers():
    teacher = clause_decoder(SMALL, TASK, seed=2)
    truth = TASK.sample(64, torch.Generator().manual_seed(0)).inputs
    labelled, accuracy = self_labelled(teacher, truth)
    assert torch.equal(labelled[:, :3], truth[:, :3])
    again = teacher.clauses(teacher(labelled[:, :-1], TASK.answer_positions()))
    assert torch.equal(labelled[:, 3:], again), "the most likely clause at each step, given its own earlier ones"
    right = (labelled[:, 3:, STATE] == truth[:, 3:, STATE]).all(-1)
    assert accuracy == pytest.approx(right.double().mean().item())
    assert accuracy < 1, "an untrained model is wrong"


def test_a_self_labelled_stage_learns_from_the_model_as_it_was():
    """The teacher does not move: with labels of a fixed, wrong model, the loss of these labels falls."""
    model = clause_decoder(SMALL, TASK, seed=2)
    teacher = clause_decoder(SMALL, TASK, seed=2)
    sentences, _ = self_labelled(teacher, TASK.sample(128, torch.Generator().manual_seed(1)).inputs)
    queries, reported = TASK.answer_positions(), []
    before = next_clause_loss(model, sentences, queries).item()
    stage = Stage(2, 40, 1e-2, 0.0, 32, self_labelled=True)
    train_stage(model, TASK, stage, torch.Generator().manual_seed(0), [40], lambda *point: reported.append(point))
    assert next_clause_loss(model, sentences, queries).item() < 0.5 * before
    ((step, accuracy),) = reported
    assert step == 40
    assert 0 <= accuracy < 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"length": 0},
        {"updates": 0},
        {"lr": -1.0},
        {"attention_lr": float("nan")},
        {"n_sentences": 2},
    ],
)
def test_impossible_stages_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        Stage(**wrong)


def test_a_stage_on_a_finite_set_draws_nothing_else_and_a_constant_rate_stays():
    generator = torch.Generator().manual_seed(3)
    before = generator.get_state()
    stage = Stage(2, 6, 1e-2, 1e-2, 8, schedule="constant", n_sentences=16)
    trainer = StageTrainer(clause_decoder(SMALL, TASK, seed=0), TASK, stage, generator)
    for _ in range(stage.updates):
        trainer.advance()
    assert torch.equal(generator.get_state(), before)
    assert {group["lr"] for group in trainer.optimiser.param_groups} == {1e-2}
    assert replace(stage, schedule="cosine").rate(3) == pytest.approx(0.5)


def test_orthonormal_embeddings_are_orthogonal_in_each_slot_and_do_not_move():
    decoder = replace(SMALL, d_token=6, embeddings="orthonormal")
    model = clause_decoder(decoder, TASK, seed=0)
    before = weights(model)
    variables = before["embed.weight"][1:5]
    torch.testing.assert_close(variables @ variables.T, 6 * torch.eye(4), rtol=1e-5, atol=1e-5)
    train_stage(model, TASK, Stage(2, 3, 1e-2, 1e-2, 8), torch.Generator().manual_seed(0))
    assert "embed.weight" not in moved(before, weights(model))
    with pytest.raises(ValueError, match="orthogonal"):
        clause_decoder(replace(decoder, d_token=2), TASK, seed=0)
