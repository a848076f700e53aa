"""How spread out is attention, at the price of one more fused attention call? Exact, in O(T) memory.

With s = scaled scores and p = softmax(s), H = -sum_j p_j log p_j = LSE(s) - sum_j p_j s_j, and
sum_j p_j s_j = scale <q, sum_j p_j k_j>: attention run with the keys as values. A fused kernel that also
returns its log-sum-exp therefore gives exact row entropies without the pattern. Two details keep the digits:

- The mean key is subtracted from every key first. Softmax does not see it, but a large key bias (Qwen2) would
  cancel in LSE(s) - <q, E k>.
- The kernel runs over keys 2..T only, and key 1, the sink, is added back in closed form:
  H = (1 - p_1) H' - (1 - p_1) log(1 - p_1) - p_1 log p_1. That gives the entropy H' without the sink in the
  same pass, and has no division by 1 - p_1, which is tiny in many heads.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import logsigmoid, pad

from probes.chunked_entropy import RowStatistics, chunked_row_statistics


@dataclass(frozen=True)
class Path:
    """Which computation measured a layer, and why."""

    name: str  # "fused" or "chunked"
    reason: str


def row_statistics(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    scale: float,
    *,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
) -> tuple[RowStatistics, Path]:
    """Entropy, sink mass and entropy without the sink of every row, and the path that was taken.

    `mask` is True where a query sees a key; without one, attention is causal. Both paths agree to rounding.
    """
    path = choose_path(query, key, mask=mask, bias=bias, softcap=softcap)
    if path.name == "fused":
        return fused_row_statistics(query, key, scale, mask=mask), path
    statistics, _ = chunked_row_statistics(query, key, scale, mask=mask, bias=bias, softcap=softcap)
    return statistics, path


def choose_path(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head key d"],
    *,
    mask: Bool[Tensor, "#batch 1 query key"] | None = None,
    bias: Float[Tensor, "#batch #head query key"] | None = None,
    softcap: float | None = None,
) -> Path:
    """Fused where it is exact and the device has a kernel that returns its log-sum-exp; else chunked."""
    if softcap is not None:
        return Path("chunked", f"scores are capped at {softcap:g}: not linear in the keys")
    if bias is not None:
        return Path("chunked", "scores carry a bias: not linear in the keys")
    if query.shape[2] != key.shape[2]:
        return Path("chunked", f"{query.shape[2]} queries against {key.shape[2]} keys")
    if query.shape[2] < 2:
        return Path("chunked", "a single token")
    device = query.device.type
    if device not in ("cpu", "cuda"):
        return Path("chunked", f"no fused kernel on {device} returns its log-sum-exp")
    if device == "cuda" and query.dtype != torch.float32:
        return Path("chunked", f"the fused output would be rounded to {query.dtype}")
    if mask is None:
        return Path("fused", "plain causal softmax of q.k")
    if device == "cuda":
        return Path("chunked", "the fused kernel that returns its log-sum-exp is used unmasked on CUDA")
    sees_both = mask[:, :, 1:, 0].all() & mask[:, :, 1:, 1:].any(-1).all()
    if not bool(sees_both & ~mask[:, :, 0, 1:].any() & mask[:, :, 0, 0].all()):
        return Path("chunked", "a mask under which some later query does not see both key 1 and another key")
    return Path("fused", "softmax of q.k under a mask in which every query sees key 1")


def fused_row_statistics(
    query: Float[Tensor, "batch head query d"],
    key: Float[Tensor, "batch kv_head query d"],
    scale: float,
    *,
    mask: Bool[Tensor, "#batch 1 query query"] | None = None,
) -> RowStatistics:
    """The statistics of softmax(scale q.k), causal or under `mask`, from one fused call; see the module.

    Query 1 must see key 1 only, every other query key 1 and at least one more. Half precision is raised to
    float32.
    """
    if query.dtype in (torch.float16, torch.bfloat16):
        query, key = query.float(), key.float()
    # Rolled by one, key 1 stands last, where only query 1 sees it: one aligned call over the other keys.
    rolled_query, rolled_key = query.roll(-1, 2), key.roll(-1, 2)
    rolled_key -= rolled_key[:, :, :-1].mean(2, keepdim=True)
    expected, lse_others = _attention_with_lse(rolled_query, rolled_key, scale, _rolled(mask))
    entropy_others = lse_others - expected.mul_(rolled_query).sum(-1) * scale
    score_first = _first_scores(rolled_query, rolled_key[:, :, -1:]) * scale
    odds = lse_others - score_first  # log of (1 - p_1) / p_1
    log_first, log_others = logsigmoid(-odds), logsigmoid(odds)
    first, other = log_first.exp(), log_others.exp()
    entropy = other * (entropy_others - log_others) - first * log_first
    n_visible = _n_visible(mask, query)
    return RowStatistics(
        entropy=_unrolled(entropy.clamp_(min=0), 0.0),
        sink_mass=_unrolled(first, 1.0),
        entropy_without_sink=_unrolled(entropy_others.clamp_(min=0), torch.nan),
        n_visible=n_visible,
        n_visible_without_sink=n_visible - 1,
    )


def _attention_with_lse(
    query: Tensor, key: Tensor, scale: float, mask: Tensor | None
) -> tuple[Float[Tensor, "batch head query d"], Float[Tensor, "batch head query"]]:
    """Attention with the keys as values, and its log-sum-exp, from the device's fused kernel.

    The CPU kernel reads each key head for its whole group of query heads; the CUDA one needs them expanded.
    """
    if query.device.type == "cpu":
        additive = None
        if mask is not None:
            additive = torch.zeros(mask.shape, dtype=query.dtype).masked_fill_(~mask, -torch.inf)
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, key, 0.0, mask is None, attn_mask=additive, scale=scale
        )
        return output, lse.contiguous()
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    output, lse, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, key, None, True, 0.0, True, scale=scale
    )
    return output, lse[..., : query.shape[2]]  # the kernel pads its rows to a multiple of 32


def _rolled(mask: Bool[Tensor, "#batch 1 query query"] | None) -> Bool[Tensor, "#batch 1 query query"] | None:
    """`mask` with query 1 and key 1 last, and key 1 hidden from every other query."""
    if mask is None:
        return None
    rolled = mask.roll((-1, -1), (-2, -1))
    rolled[..., :-1, -1] = False
    return rolled


def _first_scores(
    query: Float[Tensor, "batch head query d"], key: Float[Tensor, "batch kv_head 1 d"]
) -> Float[Tensor, "batch head query"]:
    """<q, k> of every query with one key of its key head."""
    n_batch, n_heads, n_queries, _ = query.shape
    grouped = query.reshape(n_batch, key.shape[1], -1, query.shape[-1])
    return (grouped @ key.transpose(-1, -2)).reshape(n_batch, n_heads, n_queries)


def _n_visible(mask: Tensor | None, query: Tensor) -> Tensor:
    if mask is not None:
        return mask.sum(-1).expand(query.shape[0], 1, -1)
    counts = torch.arange(1, query.shape[2] + 1, device=query.device)
    return counts.expand(query.shape[0], 1, -1)


def _unrolled(rows: Float[Tensor, "batch head query"], first: float) -> Float[Tensor, "batch head query"]:
    """The rolled `rows` in order again, with the known value of query 1, which sees only itself."""
    return pad(rows[..., :-1], (1, 0), value=first)
