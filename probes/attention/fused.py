"""How spread out is attention, at the price of one more fused attention call? Exact, in O(T) memory.

With s = scaled scores and p = softmax(s), H = -sum_j p_j log p_j = LSE(s) - sum_j p_j s_j, and
sum_j p_j s_j = scale <q, sum_j p_j k_j>: attention run with the keys as values. A fused kernel that also
returns its log-sum-exp therefore gives exact row entropies without the pattern. Two details keep the digits:

- The mean key is subtracted from every key first. Softmax does not see it, but a large key bias (Qwen2) would
  cancel in LSE(s) - <q, E k>.
- The kernel runs over keys 2..T only, and key 1, the sink, is added back in closed form (`with_first_key`). That
  gives the entropy without the sink in the same pass.

For GPUs: on a CPU, `probes.attention.chunked` is faster, and the CPU kernel here is what the tests run.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from probes.attention.row import RowStatistics
from probes.attention.sums import with_first_key


def fused_row_statistics(
    query: Float[Tensor, "batch head query d"], key: Float[Tensor, "batch kv_head query d"], scale: float
) -> RowStatistics:
    """The statistics of causal softmax(scale q.k) over two tokens or more, from one fused call; see the module.

    Half precision is raised to float32.
    """
    if query.dtype in (torch.float16, torch.bfloat16):
        query, key = query.float(), key.float()
    # Rolled by one, key 1 stands last, where only query 1 sees it: one aligned call over the other keys.
    rolled_query, rolled_key = query.roll(-1, 2), key.roll(-1, 2)
    rolled_key -= rolled_key[:, :, :-1].mean(2, keepdim=True)
    expected, lse_others = _attention_with_lse(rolled_query, rolled_key, scale)
    entropy_others = (lse_others - expected.mul_(rolled_query).sum(-1) * scale).clamp_(min=0)
    score_first = _first_scores(rolled_query, rolled_key[:, :, -1:]) * scale
    entropy, first, _ = with_first_key(entropy_others, lse_others, score_first)
    n_visible = torch.arange(1, query.shape[2] + 1, device=query.device).expand(query.shape[0], 1, -1)
    return RowStatistics(
        entropy=_unrolled(entropy, 0.0),
        sink_mass=_unrolled(first, 1.0),
        entropy_without_sink=_unrolled(entropy_others, torch.nan),
        n_visible=n_visible,
        n_visible_without_sink=n_visible - 1,
    )


def _attention_with_lse(
    query: Tensor, key: Tensor, scale: float
) -> tuple[Float[Tensor, "batch head query d"], Float[Tensor, "batch head query"]]:
    """Causal attention with the keys as values, and its log-sum-exp, from the device's fused kernel.

    The CPU kernel reads each key head for its whole group of query heads; the CUDA one needs them expanded.
    """
    if query.device.type == "cpu":
        output, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, key, 0.0, True, scale=scale
        )
        return output, lse.contiguous()
    key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    output, lse, *_ = torch.ops.aten._scaled_dot_product_efficient_attention(
        query, key, key, None, True, 0.0, True, scale=scale
    )
    return output, lse[..., : query.shape[2]]  # the kernel pads its rows to a multiple of 32


def _first_scores(
    query: Float[Tensor, "batch head query d"], key: Float[Tensor, "batch kv_head 1 d"]
) -> Float[Tensor, "batch head query"]:
    """<q, k> of every query with one key of its key head."""
    n_batch, n_heads, n_queries, _ = query.shape
    grouped = query.reshape(n_batch, key.shape[1], -1, query.shape[-1])
    return (grouped @ key.transpose(-1, -2)).reshape(n_batch, n_heads, n_queries)


def _unrolled(rows: Float[Tensor, "batch head query"], first: float) -> Float[Tensor, "batch head query"]:
    """The rolled `rows` in order again, with the known value of query 1, which sees only itself."""
    return pad(rows[..., :-1], (1, 0), value=first)
