"""In-context prompts as tokens for a standard decoder."""

import pytest
import torch

from toy_models.incontext.tokens_task import IncontextTokens


def sampled(task: IncontextTokens, n: int = 50):
    return task.sample(n, torch.Generator().manual_seed(0))


def test_a_target_is_the_next_token():
    task = IncontextTokens()
    batch = sampled(task)
    assert torch.equal(batch.answers[:, :-1], batch.inputs[:, -2:])
    assert batch.answers.max() < 10
    assert (batch.inputs[:, :60] >= 10).all()
    assert task.d_vocab == 110


def test_an_output_is_the_next_steps_input():
    task = IncontextTokens(accuracy=0.6)
    first, output = task.read(sampled(task).inputs)
    columns = first[:, :60].unflatten(1, (20, 3)), output[:, :60].unflatten(1, (20, 3))
    assert torch.equal(columns[0][..., 1:], columns[1][..., :-1])
    assert (output[:, 60:] == -1).all()


@pytest.mark.parametrize("accuracy", [0.7, 0.9])
def test_labels_without_cot_have_the_binomial_law(accuracy):
    """The offset is read off the prompt: the cycle is that of the query's own pattern, where alpha is 1."""
    task = IncontextTokens(alpha=1.0, accuracy=accuracy, cot=False)
    batch = sampled(task, 3000)
    _, labels = task.read(batch.inputs)
    right = (labels[:, :20] == batch.answers).double().mean().item()
    assert right == pytest.approx(accuracy**3, abs=0.01)


def test_the_mask_has_the_similar_examples_of_each_step_and_the_query():
    for cot, positions in ((True, 3), (False, 1)):
        task = IncontextTokens(cot=cot)
        batch = sampled(task)
        mask = task.dependencies(batch)[:, batch.supervised]
        assert mask.shape[1] == positions
        assert (mask.sum(-1) == 9).all()


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [({"alpha": 1.5}, "alpha in"), ({"accuracy": 0.0}, "accuracy in"), ({"n_patterns": 3}, "more")],
)
def test_impossible_parameters_are_refused(parameters, reason):
    with pytest.raises(ValueError, match=reason):
        IncontextTokens(**parameters)
