"""How is the simplified block trained with CoT in three updates? wen2024, Theorem 3: initialisation and SGD.

What holds afterwards is checked for every input in `every_input_checks`; `span` trains at any dimension and width.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.parity.construction import every_input
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding
from toy_models.parity.theory_tables import Tables, tables
from toy_models.task import UNSUPERVISED, Batch

CHUNK_NUMBERS = 2**19
"""Supervised positions times neurons per forward: 4 MB of float64, which stay in the cache."""


def assumption_2(n: int, k: int, delta: float, eps: float) -> dict[str, float]:
    """The numbers that Assumption 2 asks for."""
    log, m = math.log(n / delta), 2.0 * k
    batch = 1.28e7 / eps**2 * n * log**20
    lr = m * eps * math.sqrt(batch) / (100 * log)
    return {"d_model": k * log**1.1, "m": m, "batch": batch, "lr_0": lr, "lr_1": lr, "lr_2": 4 * k * eps / 3}


def lr_for_score(score: float, n: int, m: int) -> float:
    """eta_0 = eta_1 for which Lemma 21's expected score of the secret key, eta_0 eta_1 / (128 m n^2), is `score`."""
    return n * math.sqrt(128 * m * score)


def initial_block(task: Parity, d_model: int, m: int, eps: float, generator: torch.Generator) -> SimplifiedBlock:
    """Assumption 1: A = 0, no weight on the attention output, random +-eps on each supervised (position, token)."""
    if not task.cot:
        raise ValueError("three steps are for parity with CoT, got a task without: use Parity(cot=True)")
    if m < 1 or not eps > 0:
        raise ValueError(f"m must be at least 1 and eps positive, got m={m} and eps={eps}")
    embedding = random_embedding(task.n_ctx, d_model, generator)
    h = torch.cat([torch.full((m,), 0.5 / m), torch.full((m,), -0.5 / m)]).double()
    block = SimplifiedBlock(embedding, h)
    signs = torch.randint(0, 2, (2 * m, 2 * task.k), generator=generator) * 2 - 1
    with torch.no_grad():
        block.W[:, :d_model] = eps * signs.double() @ embedding[task.n :].flatten(0, 1)
    return block


def hinge_loss(
    outputs: Float[Tensor, "batch supervised"], answers: Int[Tensor, "batch supervised"]
) -> Float[Tensor, ""]:
    """max((-1)^y T + 1, 0), summed over positions, averaged over sequences."""
    return torch.relu((1 - 2 * answers) * outputs + 1).sum(-1).mean()


def sgd_update(block: SimplifiedBlock, batch: Batch, lr: float) -> float:
    """One update of A and W with the gradient of the whole batch; returns the loss before it."""
    block.zero_grad()
    table = tables(block, batch.supervised, batch.inputs.shape[1])
    grads, loss, _ = table_gradients(table, batch, block.h)
    torch.autograd.backward((table.scores, table.own, table.attended), list(grads))
    with torch.no_grad():
        for weight in (block.A, block.W):
            weight -= lr * weight.grad  # pyright: ignore[reportOperatorIssue]
    return loss


def table_gradients(
    table: Tables, batch: Batch, h: Float[Tensor, "width"]
) -> tuple[tuple[Tensor, Tensor, Tensor], float, float]:
    """The gradients of the hinge loss by `scores`, `own` and `attended`, the loss, and the largest |output|."""
    leaves = [part.detach().requires_grad_() for part in (table.scores, table.own, table.attended)]
    total, largest = 0.0, 0.0
    for part in chunks(batch, len(h)):
        with torch.enable_grad():
            outputs = Tables(table.positions, *leaves).outputs(part.inputs, h)
            loss = hinge_loss(outputs, part.answers) * len(part) / len(batch)
        loss.backward()
        total, largest = total + loss.item(), max(largest, outputs.abs().max().item())
    scores, own, attended = (leaf.grad for leaf in leaves)
    assert scores is not None
    assert own is not None
    assert attended is not None
    return (scores, own, attended), total, largest


def chunks(batch: Batch, width: int) -> list[Batch]:
    """The batch in parts that fit the memory with `width` neurons."""
    size = max(1, CHUNK_NUMBERS // (len(batch.supervised) * width))
    return [batch[start : start + size] for start in range(0, len(batch), size)]


def steps_of(task: Parity, device: torch.device | None = None) -> Int[Tensor, "step"]:
    """The supervised positions of parity with CoT."""
    return torch.arange(task.n, task.n + task.k, device=device)


def every_sequence(task: Parity) -> Batch:
    """All 2^n inputs with their running parities: a batch whose gradient is the expected one."""
    bits = every_input(task.n)
    running = bits[:, list(task.secret)].cumsum(-1) % 2
    inputs = torch.cat([bits, bits.new_zeros(len(bits), 1), running[:, :-1]], dim=-1)
    targets = torch.full_like(inputs, UNSUPERVISED)
    targets[:, task.n :] = running
    return Batch(inputs, targets)
