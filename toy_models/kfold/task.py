"""k-fold composition of permutations given in context and hidden ones (wang2025, section 2.1).

The input is k permutations sigma_1..sigma_k of N elements, written as kN tokens: position (i, j) holds sigma_i(j).
The target of position (i, j) is hop_i^r(j) = sigma_{i+r-1} pi_{i+r-1} ... sigma_i pi_i (j), where the pi are hidden
and indices are taken modulo k. Everything counts from 0 here, and position (i, j) is number i N + j.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from einops import rearrange
from jaxtyping import Bool, Int
from torch import Tensor

from toy_models.task import UNSUPERVISED, Batch, register

Permutations = tuple[tuple[int, ...], ...]


def is_power_of_two(number: int) -> bool:
    """Whether `number` is 1, 2, 4, ..."""
    return number > 0 and number & (number - 1) == 0


def hidden_permutations(k: int, n: int, seed: int) -> Permutations:
    """The hidden permutations pi that a seed draws."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(tuple(torch.randperm(n, generator=generator).tolist()) for _ in range(k))


def random_permutations(size: int, k: int, n: int, generator: torch.Generator) -> Int[Tensor, "batch k n"]:
    """Uniform, independent permutations sigma."""
    return torch.rand(size, k, n, generator=generator).argsort(-1)


def hop_results(values: Int[Tensor, "batch k n"], hidden: Int[Tensor, "k n"], hop: int) -> Int[Tensor, "batch k n"]:
    """hop_i^r(j) for every i and j, by doubling: hop_i^{a+b}(j) = hop_{i+a}^b(hop_i^a(j))."""
    if hop < 1:
        raise ValueError(f"the hop must be at least 1, got {hop}")
    power, reach = values.gather(-1, hidden.to(values.device).expand_as(values)), 1  # hop^reach, a power of two
    results, covered = torch.arange(values.shape[-1], device=values.device).expand_as(values), 0
    while True:
        if hop & reach:
            results = power.roll(-covered, dims=1).gather(-1, results)
            covered += reach
        if covered == hop:
            return results
        power, reach = power.roll(-reach, dims=1).gather(-1, power), 2 * reach


def check_size(k: int, n: int) -> None:
    """Refuses sizes for which there is no k-fold composition to learn."""
    if k < 1 or n < 2:
        raise ValueError(f"k-fold composition needs k >= 1 permutations of n >= 2 elements, got k={k}, n={n}")


def check_hidden(hidden: Permutations, k: int, n: int) -> None:
    """Refuses hidden permutations that are not k permutations of n elements."""
    if len(hidden) != k or any(sorted(pi) != list(range(n)) for pi in hidden):
        raise ValueError(f"the hidden permutations must be {k} permutations of 0..{n - 1}, got {hidden}")


@register
@dataclass(frozen=True)
class KFold:
    """The r-hop task on k permutations; r = k is k-fold composition."""

    name: ClassVar[str] = "kfold"
    causal: ClassVar[bool] = False

    k: int = 4
    """Number of permutations in the input, and of hidden ones; a power of two."""
    n: int = 5
    """Number of elements that are permuted (the paper's N)."""
    hop: int = 0
    """How many permutations a target composes, a power of two up to k; 0 means k."""
    cyclic: bool = False
    """Whether every position is supervised, with indices modulo k, or only those of the first permutation."""
    hop_token: bool = False
    """Whether each sequence has its own hop out of 1, 2, 4, ..., `hop`, told by a token in front."""
    hidden_seed: int = 0
    """Draws the hidden permutations when none are given."""
    hidden: Permutations = ()
    """The hidden permutations; empty: drawn from `hidden_seed`."""

    def __post_init__(self) -> None:
        check_size(self.k, self.n)
        if not self.hop:
            object.__setattr__(self, "hop", self.k)
        if not (is_power_of_two(self.k) and is_power_of_two(self.hop) and self.hop <= self.k):
            raise ValueError(f"kfold needs powers of two with hop <= k, got hop={self.hop}, k={self.k}")
        if not self.hidden:
            object.__setattr__(self, "hidden", hidden_permutations(self.k, self.n, self.hidden_seed))
        check_hidden(self.hidden, self.k, self.n)

    @property
    def hops(self) -> tuple[int, ...]:
        """The hops 1, 2, 4, ..., `hop`."""
        return tuple(2**power for power in range(self.hop.bit_length()))

    @property
    def d_vocab(self) -> int:
        return self.n + (len(self.hops) if self.hop_token else 0)

    @property
    def n_ctx(self) -> int:
        return self.k * self.n + self.hop_token

    @property
    def n_inputs(self) -> int:
        return math.factorial(self.n) ** self.k * (len(self.hops) if self.hop_token else 1)

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """n sequences of uniform permutations; with hop tokens, of uniform hops."""
        inputs = random_permutations(n, self.k, self.n, generator).flatten(1)
        if self.hop_token:
            token = self.n + torch.randint(0, len(self.hops), (n, 1), generator=generator)
            inputs = torch.cat([token, inputs], dim=-1)
        results = self.results(inputs)
        if self.hop_token:
            targets = results[torch.arange(n), inputs[:, 0] - self.n]
        else:
            targets = results[:, -1]
        return Batch(inputs=inputs, targets=self._supervised(targets))

    def results(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch hop position"]:
        """hop_i^r(j) for every r in `hops` and all kN positions (i, j), supervised or not."""
        values = rearrange(inputs[:, self.hop_token :], "batch (k n) -> batch k n", k=self.k)
        hidden = torch.tensor(self.hidden)
        return torch.stack([hop_results(values, hidden, hop).flatten(1) for hop in self.hops], dim=1)

    def _supervised(self, targets: Int[Tensor, "batch position"]) -> Int[Tensor, "batch pos"]:
        targets = targets.clone()
        if not self.cyclic:
            targets[:, self.n :] = UNSUPERVISED
        return torch.nn.functional.pad(targets, (int(self.hop_token), 0), value=UNSUPERVISED)

    def dependencies(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        """The tokens on the path from (i, j): (i+s, pi_{i+s}(hop_i^s(j))) for s < r, and the hop token if any."""
        values = rearrange(batch.inputs[:, self.hop_token :], "batch (k n) -> batch k n", k=self.k)
        rows, n_positions = len(batch), self.k * self.n
        hidden = torch.tensor(self.hidden, device=values.device)
        if self.hop_token:
            reach = 2 ** (batch.inputs[:, :1] - self.n)
        else:
            reach = torch.full((rows, 1), self.hop, device=values.device)
        mask = torch.zeros(rows, self.n_ctx, self.n_ctx, dtype=torch.bool, device=values.device)
        position = torch.arange(n_positions, device=values.device)
        block, element = (position // self.n).expand(rows, -1), (position % self.n).expand(rows, -1)
        tokens = values.flatten(1)
        offset = int(self.hop_token)
        for step in range(self.hop):
            key = block * self.n + hidden[block, element]  # [batch position]
            on_path = (step < reach).expand(-1, n_positions)
            mask[:, offset:, offset:] |= torch.nn.functional.one_hot(key, n_positions).bool() & on_path[..., None]
            block, element = (block + 1) % self.k, tokens.gather(1, key)
        mask[:, offset:, :offset] = True
        mask[:, batch.targets[0] == UNSUPERVISED] = False
        return mask

    def layer_dependencies(self, batch: Batch, layer: int) -> Bool[Tensor, "batch query key"]:
        """Where layer number `layer` of the log-depth construction (Theorem 4) looks, from every position.

        Layer 0: from (i, j) to (i, pi_i(j)), which holds hop_i^1(j). Layer l >= 1: to (i + r, hop_i^r(j)) with
        r = 2^(l-1), whose result hop_{i+r}^r completes hop_i^{2r}(j).
        """
        if not 0 <= layer <= self.k.bit_length() - 1:
            raise ValueError(
                f"the construction has layers 0 to {self.k.bit_length() - 1} for k={self.k}, got {layer}"
            )
        values = rearrange(batch.inputs[:, self.hop_token :], "batch (k n) -> batch k n", k=self.k)
        hidden = torch.tensor(self.hidden, device=values.device)
        reach = 2 ** (layer - 1) if layer else 0
        element = hop_results(values, hidden, reach) if layer else hidden.expand_as(values)
        block = (torch.arange(self.k, device=values.device) + reach) % self.k
        key = (block[:, None] * self.n + element).flatten(1)
        mask = torch.nn.functional.one_hot(key, self.k * self.n).bool()
        offset = int(self.hop_token)
        return torch.nn.functional.pad(mask, (offset, 0, offset, 0))

    def solve(self, inputs: Int[Tensor, "batch pos"]) -> Int[Tensor, "batch pos"]:
        """Targets by composing permutation after permutation, from the tokens as they stand.

        A token that is no element counts modulo n, one that is no hop modulo the number of hops.
        """
        targets = torch.full_like(inputs, UNSUPERVISED)
        offset = int(self.hop_token)
        for row, tokens in enumerate(inputs.tolist()):
            hop = self.hops[(tokens[0] - self.n) % len(self.hops)] if self.hop_token else self.hop
            for i in range(self.k if self.cyclic else 1):
                for j in range(self.n):
                    x = j
                    for step in range(i, i + hop):
                        x = tokens[offset + step % self.k * self.n + self.hidden[step % self.k][x]] % self.n
                    targets[row, offset + i * self.n + j] = x
        return targets
