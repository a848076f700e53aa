"""How can the simplified block be trained at any dimension and width? In the span of its embeddings, neuron by kind.

Every gradient of wen2024's block is a sum of embeddings: W_r = sum_s token[r, s] e_s beside sum_s attended[r, s] e_s,
and A = sum_{s,q} attention[s, q] e_s e_q^T, where a slot s is a pair (position, token). The d dimensions enter
through the Gram matrix of the embeddings alone. And neurons of one sign of h with the same signs nu start equal and
stay so: the 2m neurons are at most 2 * 4^k kinds, each with a number. Equal to `three_steps.sgd_update` to rounding.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock
from toy_models.parity.theory_tables import Tables, causal
from toy_models.parity.three_steps import steps_of, table_gradients
from toy_models.task import Batch

WORD = 64
"""Signs are kept as the bits of words."""
CHUNK_WORDS = 1 << 10
"""Words of every embedding at a time: 200 slots of 2^10 words are 1.6 MB, which stay in the cache."""


def random_gram(n_slots: int, d_model: int, generator: torch.Generator) -> Float[Tensor, "slots slots"]:
    """Inner products of `n_slots` vectors uniform on {+-1/sqrt(d)}^d (Definition 3), from counts of unequal signs."""
    if n_slots < 1 or d_model < 1:
        raise ValueError(f"a Gram matrix needs at least 1 vector and 1 dimension, got {n_slots} and {d_model}")
    unequal = np.zeros((n_slots, n_slots), dtype=np.int64)
    n_words = -(-d_model // WORD)
    for start in range(0, n_words, CHUNK_WORDS):
        size = min(CHUNK_WORDS, n_words - start)
        # one word of 2^64 never occurs: the upper end is left out
        words = torch.randint(-(2**63), 2**63 - 1, (n_slots, size), generator=generator).numpy().view(np.uint64)
        if start + size == n_words and d_model % WORD:
            words[:, -1] &= np.uint64(2 ** (d_model % WORD) - 1)
        for row in range(n_slots):
            unequal[row, row + 1 :] += np.bitwise_count(words[row] ^ words[row + 1 :]).sum(-1, dtype=np.int64)
    return 1 - 2 / d_model * torch.from_numpy(unequal + unequal.T).double()


@dataclass(frozen=True)
class SpanBlock:
    """The block with its weights as coefficients of embeddings; slots are position-major (position, token)."""

    task: Parity
    gram: Float[Tensor, "slots slots"]
    positive: Bool[Tensor, "kinds signs"]
    """nu_{r,i,b} > 0, by kind of neuron and (step, token), step-major."""
    h: Float[Tensor, "kinds"]
    """+-1/2m."""
    count: Float[Tensor, "kinds"]
    """How many neurons are of this kind."""
    token: Float[Tensor, "kinds slots"]
    attended: Float[Tensor, "kinds slots"]
    attention: Float[Tensor, "slots slots"]

    @property
    def weight(self) -> Float[Tensor, "kinds"]:
        """What a kind of neuron counts in the output: h times its number."""
        return self.h * self.count

    def table(self) -> Tables:
        """What the outputs at the supervised positions need of the weights."""
        positions, steps = steps_of(self.task), slice(2 * self.task.n, None)
        scores = (self.gram @ self.attention @ self.gram)[:, steps]  # [key slot, query slot]
        own = self.token @ self.gram[:, steps]
        n_ctx, k = self.task.n_ctx, self.task.k
        of_query = scores.T.reshape(k, 2, n_ctx, 2)
        return Tables(positions, causal(of_query, positions), own.T.reshape(k, 2, -1), self.gram @ self.attended.T)


def span_block(
    task: Parity, gram: Float[Tensor, "slots slots"], m: int, eps: float, generator: torch.Generator
) -> SpanBlock:
    """Assumption 1: A = 0, no weight on the attention output, random +-eps on each supervised (position, token)."""
    if not task.cot or m < 1 or not eps > 0:
        raise ValueError(f"a task with CoT, m of at least 1 and a positive eps are needed: {task}, m={m}, eps={eps}")
    positive, side, count = _kinds(m, 2 * task.k, generator)
    token = torch.zeros(len(count), 2 * task.n_ctx).double()
    token[:, 2 * task.n :] = eps * (2.0 * positive - 1)
    nothing = torch.zeros_like(token), torch.zeros_like(gram)
    return SpanBlock(task, gram, positive, side * 0.5 / m, count, token, *nothing)


def _kinds(
    m: int, n_signs: int, generator: torch.Generator
) -> tuple[Bool[Tensor, "kinds signs"], Float[Tensor, "kinds"], Float[Tensor, "kinds"]]:
    """Random signs of m neurons with h > 0 and m with h < 0: kinds, their side, and how many of each."""
    side = torch.tensor([1.0, -1.0]).double()
    if m <= 2**n_signs:
        positive = torch.randint(0, 2, (2 * m, n_signs), generator=generator).bool()
        return positive, side.repeat_interleave(m), torch.ones(2 * m).double()
    draw = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
    patterns = torch.arange(2**n_signs)[:, None].bitwise_right_shift(torch.arange(n_signs)).bitwise_and(1).bool()
    numbers = np.concatenate([draw.multinomial(m, np.full(2**n_signs, 0.5**n_signs)) for _ in side])
    count = torch.from_numpy(numbers).double()
    return patterns.repeat(2, 1)[count > 0], side.repeat_interleave(2**n_signs)[count > 0], count[count > 0]


def updated(block: SpanBlock, batch: Batch, lr: float) -> tuple[SpanBlock, float]:
    """The block after one step of SGD on the hinge loss, and the largest |output| before it."""
    grads, _, largest = table_gradients(block.table(), batch, block.weight)
    scores, own, attended = grads
    token, attention = torch.zeros_like(block.token), torch.zeros_like(block.attention)
    token[:, 2 * block.task.n :] = own.flatten(0, 1).T / block.count[:, None]
    attention[:, 2 * block.task.n :] = scores.flatten(2, 3).flatten(0, 1).T
    after = replace(
        block,
        token=block.token - lr * token,
        attended=block.attended - lr * attended.T / block.count[:, None],
        attention=block.attention - lr * attention,
    )
    return after, largest


@torch.no_grad()
def realised(block: SpanBlock, embedding: Float[Tensor, "pos 2 d_model"]) -> SimplifiedBlock:
    """The hooked block in its d dimensions, one neuron of each kind: its outputs count each neuron once.

    `embedding` must be the one whose Gram matrix the block has.
    """
    rows, d_model = embedding.flatten(0, 1), embedding.shape[-1]
    if rows.shape[0] != len(block.gram):
        raise ValueError(
            f"the block has {len(block.gram)} slots, the embedding {rows.shape[0]}: use its own embedding"
        )
    made = SimplifiedBlock(embedding, block.h)
    made.A.copy_(rows.T @ block.attention @ rows)
    made.W[:, :d_model], made.W[:, d_model:] = block.token @ rows, block.attended @ rows
    return made
