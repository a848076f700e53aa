"""What do sums over a row's scores say about it? Every statistic, whichever computation summed: blocks or a kernel.

Key 1, the sink, is left out of every sum and added back in closed form (`with_first_key`): the entropy without it
comes with all its digits, even where the sink has all but 1e-7 of the mass.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid

from probes.attention.row import RowStatistics

UNSEEN = -1e30  # the score of a hidden key: finite, so that 0 * UNSEEN = 0


class WithFirstKey(NamedTuple):
    """Rows of a softmax over all keys, from those over the others; see `with_first_key`."""

    entropy: Float[Tensor, "*rows"]
    first: Float[Tensor, "*rows"]  # mass on key 1
    others: Float[Tensor, "*rows"]  # mass on all others


def with_first_key(
    entropy_others: Float[Tensor, "*rows"], lse_others: Float[Tensor, "*rows"], score_first: Float[Tensor, "*rows"]
) -> WithFirstKey:
    """H = (1 - p_1) H' - (1 - p_1) log(1 - p_1) - p_1 log p_1: nothing is divided by 1 - p_1, tiny in many heads."""
    log_first, log_others = _log_shares(lse_others, score_first)
    first, others = log_first.exp(), log_others.exp()
    return WithFirstKey(others * (entropy_others - log_others) - first * log_first, first, others)


def _log_shares(lse_others: Tensor, score_first: Tensor) -> tuple[Tensor, Tensor]:
    odds = lse_others - score_first  # log of (1 - p_1) / p_1
    return logsigmoid(-odds), logsigmoid(odds)


class RowSums(NamedTuple):
    """What every row needs of its scores. All but `first_score` leave key 1 out; `UNSEEN`: there is no such key."""

    first_score: Float[Tensor, "batch head query"]
    largest: Float[Tensor, "batch head query"]  # score; the sums below weigh with exp(score - largest)
    total: Float[Tensor, "batch head query"]  # positive, also where there is no key
    score: Float[Tensor, "batch head query"]  # of score - largest

    @property
    def lse_others(self) -> Float[Tensor, "batch head query"]:
        return self.largest + self.total.log()

    @property
    def lse(self) -> Float[Tensor, "batch head query"]:
        """The log-sum-exp over all keys."""
        return torch.logaddexp(self.lse_others, self.first_score)

    def over_sinks(self, sinks: Float[Tensor, "head"]) -> Float[Tensor, "batch head query"]:
        """The log of the mass on the keys against that on a learned score of no key."""
        return self.lse - sinks[:, None].to(self.total.dtype)

    @property
    def alone(self) -> Bool[Tensor, "batch head query"]:
        """Rows that see no key but key 1."""
        return self.largest < UNSEEN / 2

    @property
    def blind(self) -> Bool[Tensor, "batch head query"]:
        """Rows that see no key."""
        return self.alone & (self.first_score < UNSEEN / 2)

    def weights(self) -> tuple[Float[Tensor, "batch head query"], Float[Tensor, "batch head query"]]:
        """The weight of key 1, and what a weight exp(score - largest) is to be multiplied by; zero in blind rows."""
        first, others = (one.exp() for one in _log_shares(self.lse_others, self.first_score))
        blind = self.blind
        return first.masked_fill_(blind, 0), (others / self.total).masked_fill_(blind, 0)

    def statistics(
        self,
        n_visible: Int[Tensor, "batch 1 query"],
        n_visible_without_sink: Int[Tensor, "batch 1 query"],
        spoiled: Bool[Tensor, "batch head query"] | None = None,
        top1: bool = True,
        sinks: Float[Tensor, "head"] | None = None,
    ) -> RowStatistics:
        """All that is asked of a row; NaN in `spoiled` ones. `sinks` are learned scores of no key."""
        entropy_others = self.total.log() - self.score / self.total
        entropy, first, others = with_first_key(entropy_others, self.lse_others, self.first_score)
        alone, blind = self.alone, self.blind
        if spoiled is not None:
            alone, blind = alone | spoiled, blind | spoiled
        largest = torch.maximum(first, others / self.total).masked_fill_(blind, torch.nan) if top1 else None
        return RowStatistics(
            entropy=entropy.masked_fill_(blind, torch.nan),
            sink_mass=first.masked_fill_(blind, torch.nan),
            entropy_without_sink=entropy_others.masked_fill_(alone, torch.nan),
            n_visible=n_visible,
            n_visible_without_sink=n_visible_without_sink,
            top1_mass=largest,
            top1_mass_without_sink=self.total.reciprocal().masked_fill_(alone, torch.nan) if top1 else None,
            learned_sink_mass=(
                None if sinks is None else torch.sigmoid(-self.over_sinks(sinks)).masked_fill_(blind, torch.nan)
            ),
        )


def n_visible_keys(
    mask: Bool[Tensor, "#batch 1 query key"] | None, query: Tensor, key: Tensor
) -> tuple[Int[Tensor, "batch 1 query"], Int[Tensor, "batch 1 query"]]:
    """How many keys every query sees, with and without key 1."""
    n_batch, n_queries, n_keys = query.shape[0], query.shape[2], key.shape[2]
    if mask is not None:
        n_visible = mask.sum(-1)
        n_without = n_visible - mask[..., 0].long()
        return n_visible.expand(n_batch, 1, -1), n_without.expand(n_batch, 1, -1)
    n_visible = torch.arange(n_keys - n_queries + 1, n_keys + 1, device=query.device).expand(n_batch, 1, -1)
    return n_visible, n_visible - 1
