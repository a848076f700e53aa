"""What is known of every row of attention? The quantities from which statistics are computed.

`probes.attention.computation` gets them from queries and keys without a pattern; `RowsOfPattern` from a pattern.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from probes.attention.entropy import row_entropy


@dataclass(frozen=True)
class RowStatistics:
    """What one attention layer does at every query. Entropies in nats, over the keys a query sees.

    A query that sees no key has NaN everywhere; one that sees only key 1 has no quantity without the sink. The fused
    path does not know the largest weights. A learned sink (GPT-OSS) is no key: rows are renormalised without it.
    """

    entropy: Float[Tensor, "batch head query"]
    sink_mass: Float[Tensor, "batch head query"]  # attention on key 1, in [0, 1]
    entropy_without_sink: Float[Tensor, "batch head query"]  # of the row without key 1, renormalised
    n_visible: Int[Tensor, "batch 1 query"]
    n_visible_without_sink: Int[Tensor, "batch 1 query"]
    top1_mass: Float[Tensor, "batch head query"] | None = None  # the largest weight
    top1_mass_without_sink: Float[Tensor, "batch head query"] | None = None  # of the row without key 1, renormalised
    learned_sink_mass: Float[Tensor, "batch head query"] | None = None  # what a learned sink takes; if not given, 0

    def __post_init__(self) -> None:
        if self.learned_sink_mass is None:
            object.__setattr__(self, "learned_sink_mass", self.entropy * 0)  # NaN stays NaN


class RowsOfPattern:
    """The fields of `RowStatistics`, from an explicit pattern; each is computed when it is first read.

    Rows without any mass behind key 1 have no quantity without the sink. Where a query does not see key 1 (sliding
    windows), say how many other keys it sees; otherwise it is all but one.
    """

    def __init__(
        self,
        pattern: Float[Tensor, "*batch query key"],
        n_visible: Int[Tensor, "*#batch query"],
        n_visible_without_sink: Int[Tensor, "*#batch query"] | None = None,
    ) -> None:
        self.pattern, self.n_visible = pattern, n_visible
        fewer = (n_visible - 1).clamp(min=0) if n_visible_without_sink is None else n_visible_without_sink
        self.n_visible_without_sink = fewer

    @cached_property
    def entropy(self) -> Float[Tensor, "*batch query"]:
        return self._seen(row_entropy(self.pattern))

    @cached_property
    def sink_mass(self) -> Float[Tensor, "*batch query"]:
        return self._seen(self.pattern[..., 0])

    @cached_property
    def entropy_without_sink(self) -> Float[Tensor, "*batch query"]:
        return row_entropy(self._others).masked_fill(self.n_visible_without_sink < 1, torch.nan)

    @cached_property
    def top1_mass(self) -> Float[Tensor, "*batch query"]:
        return self._seen(self.pattern.amax(-1))

    @cached_property
    def top1_mass_without_sink(self) -> Float[Tensor, "*batch query"]:
        if self.pattern.shape[-1] == 1:
            return self.pattern[..., 0] * torch.nan
        return self._others.amax(-1).masked_fill(self.n_visible_without_sink < 1, torch.nan)

    @cached_property
    def learned_sink_mass(self) -> Float[Tensor, "*batch query"]:
        return self._seen(torch.zeros_like(self.pattern[..., 0]))

    @property
    def _others(self) -> Float[Tensor, "*batch query others"]:
        """The pattern without key 1, renormalised."""
        others = self.pattern[..., 1:]
        return others / others.sum(-1, keepdim=True)  # 0 / 0 is NaN

    def _seen(self, values: Float[Tensor, "*batch query"]) -> Float[Tensor, "*batch query"]:
        return values.masked_fill(self.n_visible < 1, torch.nan)
