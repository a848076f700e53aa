"""When is the chain not worth going on with? The filter of Theorem 7 (kim2024, section 3.3).

The model also answers n' random inputs u without labels. A node whose answers are all nearly -1 has learned nothing,
and if any node of the level below is such a node, the filter zeroes the whole level: iota_l is closed if
max_i |u_j,i + 1| < eps_0 for any j of level l - 1.

For eps_0 <= 1 this does not cascade, though the proof needs it to. A zeroed node has distance 1 from -1,
so the level above a zeroed level passes ("which again activates the filter" holds of its mean, which is small, not
of the zeros that the filter reads). That level computes from zeros and untrained -1s, whose constant part alone
gives it a gradient of order 1/d, where the signal is of order 1/d^2: a step of order d^2 makes weights of order d
of it. Two remedies, both here: eps_0 in (1, 2), for which zeros too are within eps_0 of -1, or `cascade`, which
closes every level above a closed one. An untrained node's answers must lie within eps_0 as well: phi(z) + 1 with
|z| up to about sqrt(2 log(n') / d), which is O(d^-1/2) in the limit but up to 1.7 at d = 16.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from toy_models.tree_parity.forest import Forest
from toy_models.tree_parity.links import Link
from toy_models.tree_parity.theory_model import attention, generate


@dataclass(frozen=True)
class Filter:
    """The distance from all -1 below which a node is uninformative, and whether closing cascades."""

    eps_0: float
    cascade: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.eps_0 < 2:
            raise ValueError(f"eps_0 must lie in (0, 2), got {self.eps_0}: a solved node has distance 2")

    def opened(
        self,
        weights: Float[Tensor, "seed node key"],
        forest: Forest,
        augmented: Float[Tensor, "seed bit sample"],
        link: Link,
    ) -> Bool[Tensor, "seed node"]:
        """The nodes that the filter lets through, given the augmented inputs u; for the level mask."""
        pattern = attention(weights, forest.visible("level"))
        passed = torch.ones(forest.n_seeds, forest.n_nodes, dtype=torch.bool, device=weights.device)
        for number, (below, level) in enumerate(zip(forest.levels, forest.levels[1:]), start=1):
            nodes = slice(0, below.stop)
            chain, _ = generate(augmented, pattern[:, nodes], forest.levels[:number], link, passed[:, nodes])
            answers = chain[:, forest.d + below.start : forest.d + below.stop]
            uninformative = ((answers + 1).abs().amax(-1) < self.eps_0).any(-1)
            if self.cascade:
                uninformative |= ~passed[:, below].all(-1)
            passed[:, level] = ~uninformative[:, None]
        return passed
