"""What does a trained simplified block do on every input? Bounds over all 2^n, for wen2024's Theorem 3.

A key's score depends on the key's token alone, so the worst attention is found position by position, and with
attention near one-hot the output is that of one of the 4 k cases (step, running parity, secret bit) up to a bounded
error. All take the block's tables at the supervised positions and its h.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toy_models.parity.task import Parity
from toy_models.parity.theory_tables import Tables
from toy_models.parity.three_steps import chunks
from toy_models.task import Batch


@torch.no_grad()
def attended_contribution(
    table: Tables, h: Float[Tensor, "width"], task: Parity
) -> Float[Tensor, "step step_token pos token"]:
    """What attending fully to (key, token) would do to the output at (step, token), the active neurons held fixed.

    -<kappa_{i,b}, e_{j,b'}> of Lemma 18, with the neurons that the token part activates; 0 where it does not see key.
    """
    active = (table.own > 0).to(h.dtype)
    found = torch.einsum("qur,r,pr->qup", active, h, table.attended).unflatten(-1, (task.n_ctx, 2))
    future = torch.arange(task.n_ctx, device=h.device) > table.positions[:, None]
    return found.masked_fill(future[:, None, :, None], 0)


@dataclass(frozen=True)
class Correlation:
    """What the hidden weights know of the secret bits. A key's influence is what knowing its bit changes."""

    hit: float
    """Share of (step, running parity) at which S[i] has more influence than any other key."""
    parity_hit: float
    """Share of steps at which S[i] has the largest interaction with the running parity."""
    first_over_own: float
    """Influence of the first step's secret bit over that of S[i], mean over all later (step, running parity)."""


def correlation(table: Tables, h: Float[Tensor, "width"], task: Parity) -> Correlation:
    """The influence of every key on every step, compared with that of S[i].

    The running parity before the first step is always 0, so the signs of the first secret bit's gradient do not
    cancel over it (as Lemma 18 has it), and every neuron learns that bit. What parity needs is the interaction
    of S[i] with the running parity, where this common part drops out.
    """
    if task.k < 2:
        raise ValueError(f"a first and a later step are compared: k must be at least 2, got {task.k}")
    contribution = attended_contribution(table, h, task)
    effect = contribution[..., 0] - contribution[..., 1]  # [step running_parity pos]
    interaction = (effect[:, 0] - effect[:, 1]).abs()
    interaction[0] = effect[0, 0].abs()
    influence = effect.abs()
    secret = torch.tensor(task.secret, device=effect.device)
    own = influence[torch.arange(task.k, device=secret.device), :, secret]
    later = influence[1:, :, task.secret[0]] / own[1:]
    return Correlation(
        _largest(influence, secret[:, None].expand(-1, 2))[reachable(task, h.device)].double().mean().item(),
        _largest(interaction, secret).double().mean().item(),
        later.nan_to_num(0).mean().item(),  # 0 / 0 before training
    )


def _largest(values: Float[Tensor, "*rows pos"], where: Int[Tensor, "*rows"]) -> Bool[Tensor, "*rows"]:
    """Whether the value at `where` exceeds every other of its row."""
    others = values.scatter(-1, where.unsqueeze(-1), -torch.inf)
    return values.gather(-1, where.unsqueeze(-1)).squeeze(-1) > others.amax(-1)


@torch.no_grad()
def distance_to_one_hot(table: Tables, task: Parity) -> float:
    """max over inputs, steps i and keys j of |attention - 1(j = S[i])|, in float64.

    The mass off S[i], which bounds every entry's distance, is largest where every other key has its best token and
    S[i] its worst; keys inside the chain are treated as free, so this is an upper bound, tight to a small factor.
    """
    return _mass_off_secret(table, task).amax().item()


def _mass_off_secret(table: Tables, task: Parity) -> Float[Tensor, "step token"]:
    scores, positions = table.scores.double(), table.positions
    index = torch.arange(task.k, device=scores.device)
    own = scores[index, :, positions]  # [step, query token, key token]: the query as its own key
    highest = scores.amax(-1)
    highest[index, :, positions] = own.diagonal(dim1=-2, dim2=-1)
    highest[:, :, task.n] = scores[:, :, task.n, 0]  # the end token is always 0
    secret = scores[index, :, list(task.secret)].amin(-1)
    highest[index, :, list(task.secret)] = -torch.inf
    off = torch.logsumexp(highest, -1) - secret
    return torch.sigmoid(off).masked_fill(~reachable(task, off.device), 0)


@torch.no_grad()
def worst_margin(table: Tables, h: Float[Tensor, "width"], task: Parity) -> float:
    """A lower bound on (-1)^(y + 1) T(b)[i] over every input and step: positive proves perfect accuracy."""
    return margin_range(table, h, task)[0]


@torch.no_grad()
def margin_range(table: Tables, h: Float[Tensor, "width"], task: Parity) -> tuple[float, float]:
    """A lower and an upper bound on (-1)^(y + 1) T(b)[i] over every input and step.

    The output with attention exactly on S[i], plus or minus what the mass off S[i] can do at most.
    """
    own, attended, h = table.own.double(), table.attended.double(), h.double()
    of_secret = attended.unflatten(0, (task.n_ctx, 2))[list(task.secret)][:, None]  # [step 1 secret_token width]
    outputs = torch.relu(own[:, :, None] + of_secret) @ h
    spread = torch.maximum(attended.amax(0) - of_secret, of_secret - attended.amin(0)) @ h.abs()
    error = _mass_off_secret(table, task)[:, :, None] * spread
    answer = torch.tensor([[0, 1], [1, 0]], device=outputs.device)  # running parity xor secret bit
    margins, found = (2 * answer - 1) * outputs, reachable(task, outputs.device)
    return (margins - error)[found].min().item(), (margins + error)[found].max().item()


def reachable(task: Parity, device: torch.device | None = None) -> Bool[Tensor, "step token"]:
    """Which running parities occur: the first step always starts from 0."""
    found = torch.ones(task.k, 2, dtype=torch.bool, device=device)
    found[0, 1] = False
    return found


@torch.no_grad()
def step_accuracy(table: Tables, h: Float[Tensor, "width"], batch: Batch) -> tuple[float, float]:
    """The share of sequences with every token right, and the share of right tokens; an output of 0 is wrong."""
    outputs = torch.cat([table.outputs(part.inputs, h) for part in chunks(batch, len(h))])
    right = (2 * batch.answers - 1) * outputs > 0
    return right.all(-1).double().mean().item(), right.double().mean().item()
