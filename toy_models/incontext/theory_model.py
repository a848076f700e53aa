"""The theory model of li2024 (equation 2): one layer, one head, W = W_K^T W_Q trained, W_V fixed.

F = sum_i W_V p_i softmax(p_i^T W p_query) over the columns before the query's, each with the positional vector of its
step; W_V reads the output half, and the query's own output half is still zero. `IncontextAttention` is one model with
hooks; `incontext.training` computes the same for a batch of seeds.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from transformer_lens import HookedRootModule
from transformer_lens.hook_points import HookPoint

from probes.hooked.points import HookedConfig
from toy_models.incontext.space import placed, query_columns


def decoded(output: Float[Tensor, "*batch d"], patterns: Float[Tensor, "m d"]) -> Int[Tensor, "*batch"]:
    """Greedy decoding (5): the index of the nearest pattern."""
    return (output @ patterns.T - patterns.square().sum(-1) / 2).argmax(-1)


class _Attention(nn.Module):
    def __init__(self, width: int, d_x: int) -> None:
        super().__init__()
        self.d_x = d_x
        self.W = nn.Parameter(torch.zeros(width, width))
        self.register_buffer("W_V", torch.eye(width)[d_x : 2 * d_x])
        self.hook_q, self.hook_k = HookPoint(), HookPoint()  # [batch pos head width]
        self.hook_v, self.hook_z = HookPoint(), HookPoint()  # [batch pos head d]
        self.hook_attn_scores, self.hook_pattern = HookPoint(), HookPoint()  # [batch head query key]

    def forward(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos d"]:
        n = x.shape[1]
        visible = torch.ones(n, n, dtype=torch.bool, device=x.device).tril(-1)
        visible[0, 0] = True  # the first column has nothing before it
        asking = x.clone()
        asking[..., self.d_x : 2 * self.d_x] = 0
        q, k = self.hook_q((asking @ self.W.T)[:, :, None]), self.hook_k(x[:, :, None].clone())
        scores = (q[:, :, 0] @ k[:, :, 0].mT).masked_fill(~visible, -torch.inf)
        pattern = self.hook_pattern(self.hook_attn_scores(scores[:, None]).softmax(-1))
        values = self.hook_v((x @ self.get_buffer("W_V").T)[:, :, None])
        return self.hook_z((pattern @ values.transpose(1, 2)).transpose(1, 2))[:, :, 0]


class _Block(nn.Module):
    def __init__(self, width: int, d_x: int) -> None:
        super().__init__()
        self.attn = _Attention(width, d_x)
        self.hook_resid_pre = HookPoint()  # [batch pos width]
        self.hook_attn_out, self.hook_resid_post = HookPoint(), HookPoint()  # [batch pos d]

    def forward(self, x: Float[Tensor, "batch pos width"]) -> Float[Tensor, "batch pos d"]:
        return self.hook_resid_post(self.hook_attn_out(self.attn(self.hook_resid_pre(x))))


class IncontextAttention(HookedRootModule):
    """One theory model with the standard hook names, on the prompts of the task `incontext_cot`.

    Query number i is column i without its output half, and sees the columns before it: as if the prompt ended there.
    Positional vectors are appended as unit vectors, or those given are added to the input half. There is no MLP and
    nothing goes round the attention: `hook_resid_post` is its output.
    """

    positions: Tensor | None

    def __init__(self, d_x: int, n_steps: int, positions: Float[Tensor, "step d"] | None = None) -> None:
        super().__init__()
        self.d_x, self.n_steps = d_x, n_steps
        self.register_buffer("positions", positions)
        self.hook_embed = HookPoint()  # [batch pos width]
        width = 2 * d_x + (n_steps if positions is None else 0)
        self.blocks = nn.ModuleList([_Block(width, d_x)])
        self.setup()
        self.eval()

    def n_visible(self, n_pos: int) -> Int[Tensor, "pos"]:
        """How many keys each query sees: the columns before it; the first, which has none, itself."""
        return torch.arange(n_pos).clamp(min=1)

    @property
    def cfg(self) -> HookedConfig:
        """The model's sizes by TransformerLens' names; it reads vectors, as many as there are."""
        return HookedConfig(
            n_layers=1,
            n_heads=1,
            d_model=len(self.W),
            d_head=self.d_x,
            d_vocab=0,
            n_ctx=None,
            device=str(self.W.device),
        )

    @property
    def W(self) -> Float[Tensor, "width width"]:
        """W_K^T W_Q, the only parameters."""
        return self.get_parameter("blocks.0.attn.W")

    def forward(self, inputs: Float[Tensor, "batch pos columns"]) -> Float[Tensor, "batch pos d"]:
        """F at every column, for prompts whose first column is a first step."""
        if inputs.shape[-1] != 2 * self.d_x:
            raise ValueError(f"a column has an input and an output of {self.d_x} numbers, got {inputs.shape[-1]}")
        steps = torch.arange(inputs.shape[1], device=inputs.device) % self.n_steps
        return self.blocks[0](self.hook_embed(placed(inputs, steps, self.n_steps, self.positions)))

    @torch.no_grad()
    def generate(
        self,
        examples: Float[Tensor, "batch pos columns"],
        query: Float[Tensor, "batch d"],
        patterns: Float[Tensor, "m d"],
        n_outputs: int,
    ) -> Int[Tensor, "batch output"]:
        """Algorithm 2: greedy decoding, each output being the next step's input. One output is ICL."""
        known, outputs = [query], []
        for _ in range(n_outputs):
            prompt = torch.cat([examples, query_columns(torch.stack(known, dim=1))], dim=1)
            outputs.append(decoded(self(prompt)[:, -1], patterns))
            known.append(patterns[outputs[-1]])
        return torch.stack(outputs, dim=-1)
