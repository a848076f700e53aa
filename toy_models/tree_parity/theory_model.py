"""The theory model of kim2024 (section 2.2): attention by position alone, then a fixed link function.

Node m is phi(sum_j softmax(w_m)_j x_j) over the positions j it may see. `PositionAttention` is one model with hooks;
`generate` computes the same chain for a whole batch of seeds, stage by stage.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from probes.hooked.points import HookedConfig
from toy_models.tree_parity.forest import Forest, Mask
from toy_models.tree_parity.links import Link, find_link


def attention(
    weights: Float[Tensor, "*seed node key"], visible: Bool[Tensor, "node key"]
) -> Float[Tensor, "*seed node key"]:
    """softmax(w_m) over the keys that each node sees."""
    return weights.masked_fill(~visible, -torch.inf).softmax(-1)


def generate(
    bits: Float[Tensor, "seed bit sample"],
    pattern: Float[Tensor, "seed node key"],
    stages: Sequence[slice],
    link: Link,
    opened: Bool[Tensor, "seed node"] | None = None,
) -> tuple[Float[Tensor, "seed pos sample"], Float[Tensor, "seed node sample"]]:
    """The chain the model writes, each stage computed from the bits and its own earlier output; and phi' there.

    Nodes that are not `opened` (by the filter) are zero, and so is their slope.
    """
    d, n_nodes = bits.shape[1], pattern.shape[1]
    chain = bits.new_empty(len(bits), d + n_nodes, bits.shape[-1])
    chain[:, :d] = bits
    slopes = bits.new_empty(len(bits), n_nodes, bits.shape[-1])
    for stage in stages:
        seen = d + stage.start
        value, slope = link.value_and_slope(pattern[:, stage, :seen] @ chain[:, :seen])
        if opened is not None:
            value, slope = (x * opened[:, stage, None] for x in (value, slope))
        chain[:, seen : d + stage.stop], slopes[:, stage] = value, slope
    return chain, slopes


class _Attention(nn.Module):
    def __init__(self, forest: Forest, mask: Mask) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.zeros(forest.n_nodes, forest.n_keys))
        self.register_buffer("visible", forest.visible(mask))
        self.d = forest.d
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()  # [batch head query key]
        self.hook_v, self.hook_z = HookPoint(), HookPoint()  # [batch pos head d_head]

    def forward(self, x: Float[Tensor, "batch pos 1"]) -> Float[Tensor, "batch pos 1"]:
        idle = self.W.new_zeros(self.d - 1, x.shape[1])
        causal = torch.ones_like(idle, dtype=torch.bool).tril()
        visible = torch.cat([causal, self.get_buffer("visible")])
        scores = torch.cat([idle, self.W]).masked_fill(~visible, -torch.inf)
        scores = self.hook_attn_scores(scores.repeat(len(x), 1, 1, 1))
        pattern, v = self.hook_pattern(scores.softmax(-1)), self.hook_v(x[:, :, None])
        return self.hook_z((pattern @ v.transpose(1, 2)).transpose(1, 2))[:, :, 0]


class _Link(nn.Module):
    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self.hook_pre, self.hook_post = HookPoint(), HookPoint()  # [batch pos 1]

    def forward(self, mean: Float[Tensor, "batch pos 1"]) -> Float[Tensor, "batch pos 1"]:
        return self.hook_post(self.link(self.hook_pre(mean)))


class _Block(nn.Module):
    def __init__(self, forest: Forest, mask: Mask, link: Link) -> None:
        super().__init__()
        self.attn = _Attention(forest, mask)
        self.mlp = _Link(link)
        self.hook_resid_pre, self.hook_attn_out = HookPoint(), HookPoint()  # [batch pos 1]
        self.hook_mlp_out, self.hook_resid_post = HookPoint(), HookPoint()  # [batch pos 1]

    def forward(self, x: Float[Tensor, "batch pos 1"]) -> Float[Tensor, "batch pos 1"]:
        attended = self.hook_attn_out(self.attn(self.hook_resid_pre(x)))
        return self.hook_resid_post(self.hook_mlp_out(self.mlp(attended)))


class PositionAttention(HookedRootModule):
    """One theory model with the standard hook names, on the sequences of the task `tree_parity`.

    Query d-1+i generates node i, as in next-token prediction. The queries before it generate nothing; their pattern
    is uniform, so that they never win a minimum over rows. The filter of Theorem 7 is in `tree_parity.filter`.
    The residual stream is one number wide and nothing goes round the block. Scores are weights by position: there are
    no queries and keys to hook.
    """

    def __init__(self, forest: Forest, mask: Mask = "position", link: str = "piecewise") -> None:
        super().__init__()
        self.forest = forest
        self.mask: Mask = mask
        self.hook_embed = HookPoint()  # [batch key]
        self.blocks = nn.ModuleList([_Block(forest, mask, find_link(link))])
        self.setup()
        self.eval()

    @property
    def cfg(self) -> HookedConfig:
        """The model's sizes by TransformerLens' names."""
        return HookedConfig(
            n_layers=1,
            n_heads=1,
            d_model=1,
            d_head=1,
            d_vocab=2,
            n_ctx=self.forest.n_keys,
            device=str(self.W.device),
        )

    def n_visible(self, n_pos: int) -> Int[Tensor, "pos"]:
        """How many keys each query sees: queries before the first node see what is behind them, nodes their mask."""
        idle = torch.arange(1, self.forest.d, device=self.W.device)
        nodes = self.get_buffer("blocks.0.attn.visible").sum(-1)
        return torch.cat([idle, nodes])[:n_pos]

    @property
    def W(self) -> Float[Tensor, "node key"]:
        """The attention weights w_m of every node, the model's only parameters."""
        return self.get_parameter("blocks.0.attn.W")

    def forward(self, inputs: Int[Tensor, "batch key"] | Float[Tensor, "batch key"]) -> Float[Tensor, "batch node"]:
        """TF: every node from the tokens (or values in [-1, 1]) as they stand, which is teacher forcing."""
        values = inputs.clone() if inputs.is_floating_point() else 1.0 - 2.0 * inputs  # hooks may write into it
        if values.shape[1] != self.forest.n_keys:
            raise ValueError(
                f"the model reads d + k - 2 = {self.forest.n_keys} positions, got {values.shape[1]}; "
                "nodes not yet generated are zeros"
            )
        return self.blocks[0](self.hook_embed(values.to(self.W.dtype))[..., None])[:, self.forest.d - 1 :, 0]

    def rollout(self, bits: Int[Tensor, "batch bit"]) -> Float[Tensor, "batch node"]:
        """TF applied to its own output until the chain stands still: k - 1 times, or log2 k with the level mask."""
        d = self.forest.d
        values = self.W.new_zeros(len(bits), self.forest.n_keys)
        values[:, :d] = 1.0 - 2.0 * bits
        nodes = self(values)
        for _ in self.forest.stages(self.mask)[1:]:
            nodes = self(torch.cat([values[:, :d], nodes[:, :-1]], dim=1))
        return nodes
