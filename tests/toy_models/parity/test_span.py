"""Training in the span of the embeddings against the hooked block with all its neurons and dimensions."""

import pytest
import torch

from toy_models.parity.span import SpanBlock, random_gram, realised, span_block, updated
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding
from toy_models.parity.theory_tables import stored_outputs
from toy_models.parity.three_steps import every_sequence, hinge_loss, steps_of, tables

TASK = Parity(n=6, k=2, secret=(4, 1))


def started(m: int = 50, d_model: int = 48, seed: int = 0) -> tuple[SpanBlock, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    embedding = random_embedding(TASK.n_ctx, d_model, generator)
    rows = embedding.flatten(0, 1)
    return span_block(TASK, rows @ rows.T, m, 2.0, generator), embedding


def whole(block: SpanBlock, embedding: torch.Tensor) -> SimplifiedBlock:
    """The hooked block with every neuron, not one of each kind."""
    repeats, one = block.count.long(), realised(block, embedding)
    made = SimplifiedBlock(embedding, block.h.repeat_interleave(repeats))
    with torch.no_grad():
        made.A.copy_(one.A)
        made.W.copy_(one.W.repeat_interleave(repeats, dim=0))
    return made


@pytest.mark.parametrize("m", [5, 50])  # 16 patterns of signs: neurons one by one, and by kind
def test_three_steps_are_autograd_on_every_neuron(m):
    block, embedding = started(m)
    slow = whole(block, embedding)
    assert slow.h.sum() == pytest.approx(0)
    assert len(slow.h) == 2 * m
    for step, lr in enumerate((30.0, 30.0, 5.0)):
        batch = TASK.sample(40, torch.Generator().manual_seed(step))
        outputs = slow(batch.inputs)[:, batch.supervised]
        slow.zero_grad()
        hinge_loss(outputs, batch.answers).backward()
        torch.optim.SGD(slow.parameters(), lr=lr).step()
        block, largest = updated(block, batch, lr)
        assert largest == pytest.approx(outputs.abs().max().item())
        expected = tables(slow, steps_of(TASK), TASK.n_ctx)
        found = block.table()
        kinds = block.count.long().cumsum(0) - 1  # the last neuron of each kind
        assert torch.allclose(found.own, expected.own[..., kinds], atol=1e-10)
        assert torch.allclose(found.attended, expected.attended[..., kinds], atol=1e-10)
        assert torch.allclose(found.scores, expected.scores, atol=1e-10)
    assert block.attention.abs().max() > 1e-3


def test_enumerated_gradients_are_the_mean_over_every_input():
    block, embedding = started()
    slow, batch = whole(block, embedding), every_sequence(TASK)
    for one in range(len(batch)):
        part = batch[one : one + 1]
        (hinge_loss(slow(part.inputs)[:, part.supervised], part.answers) / len(batch)).backward()
    after, _ = updated(block, batch, 1.0)
    kinds = block.count.long().cumsum(0) - 1
    moved = realised(after, embedding).W - realised(block, embedding).W
    assert slow.W.grad is not None
    assert torch.allclose(moved, -slow.W.grad[kinds], atol=1e-12)


def test_stored_outputs_count_every_neuron():
    block, embedding = started()
    batch = TASK.sample(30, torch.Generator().manual_seed(3))
    found = stored_outputs(realised(block, embedding), batch.inputs, batch.supervised, lambda x: x, block.count)
    assert torch.allclose(found, whole(block, embedding)(batch.inputs)[:, batch.supervised], atol=1e-12)


def test_the_signs_of_many_neurons_are_fair():
    block = span_block(TASK, torch.eye(2 * TASK.n_ctx).double(), 10**8, 1.0, torch.Generator().manual_seed(0))
    assert block.count.sum() == 2 * 10**8
    assert len(block.count) == 32
    assert (block.count / 10**8 * 16 - 1).abs().max() < 0.01
    assert torch.equal(block.token[:, 2 * TASK.n :] > 0, block.positive)


@pytest.mark.parametrize("d_model", [1, 10, 64, 100, 200_000])
def test_the_gram_matrix_of_random_signs(d_model):
    gram = random_gram(20, d_model, torch.Generator().manual_seed(0))
    assert torch.equal(gram, gram.T)
    assert torch.equal(gram.diagonal(), torch.ones(20).double())
    counts = (1 - gram) * d_model / 2
    assert torch.allclose(counts, counts.round(), atol=1e-6)
    assert torch.linalg.eigvalsh(gram)[0] > -1e-9
    off = gram[~torch.eye(20, dtype=torch.bool)]
    assert off.mean().abs() < 4 / (d_model * 190) ** 0.5
    assert off.square().mean() * d_model == pytest.approx(1, rel=0.4)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="at least 1 vector"):
        random_gram(0, 8, torch.Generator())
    with pytest.raises(ValueError, match="a task with CoT"):
        span_block(Parity(n=4, k=2, cot=False), torch.eye(12).double(), 4, 1.0, torch.Generator())
    block, embedding = started()
    with pytest.raises(ValueError, match="use its own embedding"):
        realised(block, embedding[1:])
