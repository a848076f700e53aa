"""Can one simplified block represent parity without CoT? The explicit weights of wen2024, Theorem 1 (appendix B.2).

Attention spreads evenly over the secret positions, the value of U reads off the share of ones among them, and
2(k + 1) neurons turn the count into a zigzag that is -1 at even and +1 at odd counts.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding
from toy_models.parity.theory_tables import Keep, stored_outputs, tables

SCORE = 40
"""The score of a secret position is this many log n, that of any other at most half of it (Lemma 4)."""
CHUNK = 8192
"""Inputs per forward."""


def proof_d_model(n: int, k: int, delta: float) -> int:
    """The dimension from which on Lemma 4 holds with probability 1 - delta.

    <V, e> of the at most 2 n other embeddings is sub-Gaussian with variance about 2 k / d, so the union bound asks
    for 4 n exp(-d / (16 k)) <= delta.
    """
    return math.ceil(16 * k * math.log(4 * n / delta))


def size_ratio(n: int, k: int, d_model: int, m: int) -> float:
    """(d^2 + d m) log n / (n k), which Theorem 1 has tend to 0."""
    return (d_model**2 + d_model * m) * math.log(n) / (n * k)


@dataclass(frozen=True)
class Construction:
    """The block, and the two numbers on which the proof rests."""

    block: SimplifiedBlock
    smallest_eigenvalue: float
    """Of M M^T, the Gram matrix of the secret embeddings; Lemma 1 asks for more than 1/12."""
    largest_overlap: float
    """max |<V, e>| over embeddings that are not secret; Lemma 4 asks for at most 1/2."""


def parity_construction(task: Parity, d_model: int, generator: torch.Generator) -> Construction:
    """The weights of Theorem 1 for a random embedding, in float64."""
    if task.cot:
        raise ValueError("the construction is for parity without CoT, got a task with CoT: use Parity(cot=False)")
    if d_model < 2 * task.k:
        raise ValueError(f"d_model={d_model} cannot hold {2 * task.k} independent secret embeddings: use more")
    embedding = random_embedding(task.n_ctx, d_model, generator)
    secret = list(task.secret)
    M = embedding[secret].flatten(0, 1)  # row 2 i + b is e_{S[i],b}
    gram = M @ M.T
    eigenvalue = torch.linalg.eigvalsh(gram)[0].item()
    if eigenvalue < 1e-9:
        raise ValueError(f"the secret embeddings are linearly dependent at d_model={d_model}: use more dimensions")
    u = torch.linalg.solve(gram, M)  # row 2 i + b is u_{S[i],b}
    V, U = u.sum(0), u[1::2].sum(0)
    a, h = _zigzag(task.k)
    block = SimplifiedBlock(embedding, h)
    end = embedding[task.n, 0]
    with torch.no_grad():
        block.A.copy_(SCORE * math.log(task.n) * torch.outer(V, end))
        block.W[:, :d_model] = torch.outer(a, end)
        block.W[:, d_model:] = 2 * task.k * U
    others = torch.ones(task.n_ctx, 2, dtype=torch.bool)
    others[secret] = False
    return Construction(block, eigenvalue, (embedding @ V)[others].abs().max().item())


def _zigzag(k: int) -> tuple[Float[Tensor, "width"], Float[Tensor, "width"]]:
    """a_r and h_r with sum_r h_r ReLU(a_r + 2 s) = (-1)^(s + 1) for s = 0..k."""
    m = k + 1
    r = torch.arange(1, m + 1)
    rising = -4 * ((r + 1) // 2) + 4
    falling = torch.where(r == 1, 1, -4 * (r // 2) + 2)
    signs = torch.ones(m)
    return torch.cat([rising, falling]).double(), torch.cat([signs, -signs]).double()


@torch.no_grad()
def answers_right(
    block: SimplifiedBlock, task: Parity, bits: Int[Tensor, "batch n"], keep: Keep | None = None
) -> int:
    """How many of `bits` the block answers rightly; an output of 0 is wrong."""
    right, end = 0, torch.tensor([task.n])
    table = tables(block, end, task.n_ctx)
    for part in bits.split(CHUNK):
        inputs = torch.cat([part, part.new_zeros(len(part), 1)], dim=-1)
        parity = part[:, list(task.secret)].sum(-1) % 2
        outputs = (stored_outputs(block, inputs, end, keep) if keep else table.outputs(inputs, block.h))[:, 0]
        right += int(((2 * parity - 1) * outputs > 0).sum())
    return right


def every_input(n: int) -> Int[Tensor, "inputs n"]:
    """All 2^n bit strings."""
    if n > 24:
        raise ValueError(f"2^{n} inputs are too many to write down: use `spread_inputs`")
    return torch.arange(2**n)[:, None].bitwise_right_shift(torch.arange(n)).bitwise_and(1)


def spread_inputs(task: Parity, size: int, generator: torch.Generator) -> Int[Tensor, "inputs n"]:
    """Random inputs whose number of ones among the secret bits is uniform on 0..k.

    Uniform bits would hardly ever reach counts near 0 and k, where the neurons cancel most.
    """
    bits = torch.randint(0, 2, (size, task.n), generator=generator)
    counts = torch.randint(0, task.k + 1, (size, 1), generator=generator)
    order = torch.rand(size, task.k, generator=generator).argsort(-1)
    bits[:, list(task.secret)] = (order < counts).long()
    return bits


@torch.no_grad()
def proven_margin(construction: Construction, task: Parity) -> float:
    """A lower bound on (-1)^(y + 1) T(b) over all 2^n inputs, in float64: positive proves perfect accuracy.

    The mixture differs from the even one over the secret positions by at most the mass off them plus the unevenness
    on them; the zigzag has a slope of at most sum_r |h_r| in its argument.
    """
    block, secret = construction.block, list(task.secret)
    U = block.W[0, block.embedding.shape[-1] :] / (2 * task.k)
    scores = tables(block, torch.tensor([task.n]), task.n_ctx).scores[0, 0]  # [pos token]
    on = scores[secret]
    off = scores.amax(-1)
    off[task.n] = scores[task.n, 0]  # the end token is always 0
    off[secret] = -torch.inf
    mass = torch.sigmoid(torch.logsumexp(off, 0) - on.min() - math.log(task.k))
    uneven = torch.expm1(on.max() - on.min())
    reads = block.embedding @ U
    error = mass * (1 + reads.abs().max()) + uneven
    return 1 - (2 * task.k * error * block.h.abs().sum()).item()


def rounded(bits: int) -> Keep:
    """Storage with `bits` significant bits of float64 (float32 has 24, float16 11, bfloat16 8), any exponent."""

    if not 2 <= bits <= 52:
        raise ValueError(f"float64 can be rounded to 2 to 52 significant bits, got {bits}")
    factor = 2.0 ** (53 - bits) + 1

    def store(values: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        scaled = factor * values  # Veltkamp's splitting: rounds to nearest in three operations
        return scaled - (scaled - values)

    return store


def as_dtype(dtype: torch.dtype) -> Keep:
    """Storage in `dtype`, computing in the dtype that comes in."""

    def store(values: Tensor) -> Tensor:
        return values.to(dtype).to(values.dtype)

    return store
