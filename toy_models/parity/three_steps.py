"""Does the simplified block learn parity with CoT in three updates? wen2024, Theorem 3: initialisation, SGD, checks.

What the theorem says of every input is checked for every input: a key's score depends on the key's token alone, so
the worst attention is found position by position, and with attention near one-hot the output is that of one of the
4 k cases (step, running parity, secret bit) up to a bounded error.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding
from toy_models.parity.theory_tables import Tables, tables
from toy_models.task import Batch

CHUNK_ROWS = 2048
"""Supervised positions per forward: 2048 x 4096 neurons of float32 are 32 MB."""


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
    leaves = [part.detach().requires_grad_() for part in (table.scores, table.own, table.attended)]
    total = 0.0
    for part in _chunks(batch):
        outputs = Tables(table.positions, *leaves).outputs(part.inputs, block.h)
        loss = hinge_loss(outputs, part.answers) * len(part) / len(batch)
        loss.backward()
        total += loss.item()
    grads = [leaf.grad for leaf in leaves]
    torch.autograd.backward((table.scores, table.own, table.attended), grads)
    with torch.no_grad():
        for weight in (block.A, block.W):
            weight -= lr * weight.grad  # pyright: ignore[reportOperatorIssue]
    return total


def _chunks(batch: Batch) -> list[Batch]:
    size = max(1, CHUNK_ROWS // len(batch.supervised))
    return [batch[start : start + size] for start in range(0, len(batch), size)]


def steps_of(task: Parity, device: torch.device | None = None) -> Int[Tensor, "step"]:
    """The supervised positions of parity with CoT."""
    return torch.arange(task.n, task.n + task.k, device=device)


@torch.no_grad()
def attended_contribution(block: SimplifiedBlock, task: Parity) -> Float[Tensor, "step step_token pos token"]:
    """What attending fully to (key, token) would do to the output at (step, token), the active neurons held fixed.

    -<kappa_{i,b}, e_{j,b'}> of Lemma 18, with the neurons that the token part activates; 0 where it does not see key.
    """
    rows, d_model = block.embedding, block.embedding.shape[-1]
    positions = steps_of(task, rows.device)
    active = (rows[positions] @ block.W[:, :d_model].T > 0).to(rows.dtype)
    attended = torch.einsum("pte,re->rpt", rows, block.W[:, d_model:])
    table = torch.einsum("qur,r,rpt->qupt", active, block.h, attended)
    future = torch.arange(task.n_ctx, device=rows.device) > positions[:, None]
    return table.masked_fill(future[:, None, :, None], 0)


@dataclass(frozen=True)
class Correlation:
    """What the hidden weights know of the secret bits. A key's influence is what knowing its bit changes."""

    hit: float
    """Share of (step, running parity) at which S[i] has more influence than any other key (Lemma 19)."""
    parity_hit: float
    """Share of steps at which S[i] has the largest interaction with the running parity."""
    first_over_own: float
    """Influence of the first step's secret bit over that of S[i], mean over all later (step, running parity)."""


def correlation(block: SimplifiedBlock, task: Parity) -> Correlation:
    """The influence of every key on every step, compared with that of S[i].

    The running parity before the first step is always 0, so the signs of the first secret bit's gradient do not
    cancel over it (as Lemma 18 has it), and every neuron learns that bit. What parity needs is the interaction
    of S[i] with the running parity, where this common part drops out.
    """
    if task.k < 2:
        raise ValueError(f"a first and a later step are compared: k must be at least 2, got {task.k}")
    table = attended_contribution(block, task)
    effect = table[..., 0] - table[..., 1]  # [step running_parity pos]
    interaction = (effect[:, 0] - effect[:, 1]).abs()
    interaction[0] = effect[0, 0].abs()
    influence, reachable = effect.abs(), _reachable(task, effect.device)
    secret = torch.tensor(task.secret, device=effect.device)
    own = influence[torch.arange(task.k, device=secret.device), :, secret]
    later = influence[1:, :, task.secret[0]] / own[1:]
    return Correlation(
        _largest(influence, secret[:, None].expand(-1, 2))[reachable].double().mean().item(),
        _largest(interaction, secret).double().mean().item(),
        later.nan_to_num(0).mean().item(),  # 0 / 0 before training
    )


def _largest(values: Float[Tensor, "*rows pos"], where: Int[Tensor, "*rows"]) -> Bool[Tensor, "*rows"]:
    """Whether the value at `where` exceeds every other of its row."""
    others = values.scatter(-1, where.unsqueeze(-1), -torch.inf)
    return values.gather(-1, where.unsqueeze(-1)).squeeze(-1) > others.amax(-1)


@torch.no_grad()
def distance_to_one_hot(block: SimplifiedBlock, task: Parity) -> float:
    """max over inputs, steps i and keys j of |attention - 1(j = S[i])|, in float64.

    The mass off S[i], which bounds every entry's distance, is largest where every other key has its best token and
    S[i] its worst; keys inside the chain are treated as free, so this is an upper bound, tight to a small factor.
    """
    return _mass_off_secret(block, task).amax().item()


def _mass_off_secret(block: SimplifiedBlock, task: Parity) -> Float[Tensor, "step token"]:
    positions = steps_of(task, block.A.device)
    table = tables(block, positions, task.n_ctx).scores.double()
    index = torch.arange(task.k, device=table.device)
    own = table[index, :, positions]  # [step, query token, key token]: the query as its own key
    highest = table.amax(-1)
    highest[index, :, positions] = own.diagonal(dim1=-2, dim2=-1)
    highest[:, :, task.n] = table[:, :, task.n, 0]  # the end token is always 0
    secret = table[index, :, list(task.secret)].amin(-1)
    highest[index, :, list(task.secret)] = -torch.inf
    off = torch.logsumexp(highest, -1) - secret
    return torch.sigmoid(off).masked_fill(~_reachable(task, off.device), 0)


@torch.no_grad()
def worst_margin(block: SimplifiedBlock, task: Parity) -> float:
    """A lower bound on (-1)^(y + 1) T(b)[i] over every input and step: positive proves perfect accuracy.

    The output with attention exactly on S[i], minus what the mass off S[i] can do at most.
    """
    rows, d_model, positions = block.embedding.double(), block.embedding.shape[-1], steps_of(task, block.A.device)
    W, h = block.W.double(), block.h.double()
    token_part = rows[positions] @ W[:, :d_model].T  # [step token width]
    attended = rows.flatten(0, 1) @ W[:, d_model:].T
    of_secret = (rows[list(task.secret)] @ W[:, d_model:].T)[:, None]  # [step 1 secret_token width]
    outputs = torch.relu(token_part[:, :, None] + of_secret) @ h
    spread = torch.maximum(attended.amax(0) - of_secret, of_secret - attended.amin(0)) @ h.abs()
    error = _mass_off_secret(block, task)[:, :, None] * spread
    answer = torch.tensor([[0, 1], [1, 0]], device=outputs.device)  # running parity xor secret bit
    margins = (2 * answer - 1) * outputs - error
    return margins[_reachable(task, margins.device)].min().item()


def _reachable(task: Parity, device: torch.device) -> Bool[Tensor, "step token"]:
    """Which running parities occur: the first step always starts from 0."""
    reachable = torch.ones(task.k, 2, dtype=torch.bool, device=device)
    reachable[0, 1] = False
    return reachable


@torch.no_grad()
def step_accuracy(block: SimplifiedBlock, batch: Batch) -> tuple[float, float]:
    """The share of sequences with every token right, and the share of right tokens; an output of 0 is wrong."""
    table = tables(block, batch.supervised, batch.inputs.shape[1])
    outputs = torch.cat([table.outputs(part.inputs, block.h) for part in _chunks(batch)])
    right = (2 * batch.answers - 1) * outputs > 0
    return right.all(-1).double().mean().item(), right.double().mean().item()
