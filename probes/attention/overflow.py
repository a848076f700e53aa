"""Which rows of attention does a number that is not finite reach? Only those that see it."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def rows_of_overflow(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    value: Float[Tensor, "batch kv_head key d_value"] | None,
    mask: Bool[Tensor, "#batch 1 query key"] | None,
) -> Bool[Tensor, "batch head query"] | None:
    """True for queries that are not finite or see a key or value that is not; None, the usual case: there are none.

    `mask` is True where a query sees a key; without one, attention is causal and queries are the last keys.
    """
    if all(one is None or bool(one.isfinite().all()) for one in (query, key, value)):
        return None
    bad = ~key.isfinite().all(-1)
    if value is not None:
        bad |= ~value.isfinite().all(-1)
    bad = bad.repeat_interleave(query.shape[1] // key.shape[1], dim=1)  # [batch head key]
    if mask is None:
        seen = bad.cummax(-1).values[..., key.shape[2] - query.shape[2] :]
    else:
        seen = torch.stack([(mask & one[:, None]).any(-1)[:, 0] for one in bad.unbind(1)], dim=1)  # head by head
    return seen | ~query.isfinite().all(-1)
