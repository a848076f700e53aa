"""Generation with kept keys and values against a whole forward of the hooked model at every step."""

from dataclasses import replace

import pytest
import torch

from toy_models.lego import generation as lego_generation
from toy_models.lego.clause_decoder import STANDARD, THEORY, clause_decoder
from toy_models.lego.generation import Rollout, generated, share_solved
from toy_models.lego.task import STATE, Lego

TASK = Lego("S3", 6, n_variables=9)
SMALL = {
    "standard": replace(STANDARD, d_token=4, d_mlp=16),
    "theory": replace(THEORY, d_token=4, d_mlp=16, zero_query=False),
    "learned positions": replace(STANDARD, d_token=4, d_mlp=16, positions="learned", n_ctx=TASK.n_ctx),
    "sinusoidal positions": replace(THEORY, d_token=4, d_mlp=16, zero_query=False, positions="sinusoidal"),
}


@pytest.fixture(params=SMALL)
def model(request):
    return clause_decoder(SMALL[request.param], TASK, seed=1)


def prompts(n: int) -> torch.Tensor:
    return TASK.sample(n, torch.Generator().manual_seed(0)).inputs[:, : TASK.length + 1]


def slowly_generated(model, clauses: torch.Tensor, n_steps: int) -> torch.Tensor:
    for _ in range(n_steps):
        following = model.clauses(model(clauses)[:, -1])
        clauses = torch.cat([clauses, following[:, None]], dim=1)
    return clauses[:, -n_steps:]


def test_generation_equals_a_whole_forward_at_every_step(model, monkeypatch):
    monkeypatch.setattr(lego_generation, "CHUNK", 7)  # the batch is not a multiple of the chunk
    found = generated(model, prompts(20), 6)
    assert torch.equal(found, slowly_generated(model, prompts(20), 6))
    assert len(found.flatten(1).unique(dim=0)) > 1, "the sentences differ, and so must what follows them"


def test_sentences_that_are_kept_go_on_as_if_alone(model):
    rollout = Rollout(model, prompts(12), 4)
    first = rollout.step()
    rows = torch.arange(12) % 3 == 0
    rollout.keep(rows)
    rest = torch.stack([rollout.step() for _ in range(3)], dim=1)
    expected = slowly_generated(model, prompts(12), 4)
    assert torch.equal(first, expected[:, 0])
    assert torch.equal(rest, expected[rows, 1:])


def test_a_rollout_has_the_room_it_was_given(model):
    rollout = Rollout(model, prompts(2), 2)
    rollout.step()
    rollout.step()
    with pytest.raises(ValueError, match="room for 8 clauses"):
        rollout.step()


def test_the_share_solved_counts_sentences_with_every_state_right(model):
    task = replace(TASK, length=2)
    generator = torch.Generator().manual_seed(5)
    sentences = torch.cat([task.sample(size, generator).inputs for size in (128, 128, 44)])
    answers = slowly_generated(model, sentences[:, :3], 2)
    right = (answers[..., STATE] == sentences[:, 3:, STATE]).all(-1)
    found = share_solved(model, task, 300, torch.Generator().manual_seed(5))
    assert found == pytest.approx(right.double().mean().item())
    assert 0 < found < 1
