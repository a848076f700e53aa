"""The decoders that the training step is timed against: plain PyTorch with SDPA, and Hugging Face GPT-2."""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from toy_models.engine.decoder import DecoderConfig


class PlainBlock(nn.Module):
    """Pre-LayerNorm block with fused qkv and scaled_dot_product_attention."""

    def __init__(self, d_model: int, d_mlp: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.ln1, self.ln2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.mlp = nn.Sequential(nn.Linear(d_model, d_mlp), nn.GELU(approximate="tanh"), nn.Linear(d_mlp, d_model))

    def forward(self, x: Float[Tensor, "batch pos d_model"]) -> Float[Tensor, "batch pos d_model"]:
        batch, n_pos, d_model = x.shape
        q, k, v = self.qkv(self.ln1(x)).view(batch, n_pos, 3, self.n_heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, n_pos, d_model))
        return x + self.mlp(self.ln2(x))


class PlainDecoder(nn.Module):
    """GPT-2 as one would write it in an afternoon: every position, every layer."""

    def __init__(self, config: DecoderConfig, d_vocab: int, n_ctx: int) -> None:
        super().__init__()
        d_model, d_mlp = config.d_model, config.d_mlp or 4 * config.d_model
        self.embed, self.pos_embed = nn.Embedding(d_vocab, d_model), nn.Embedding(n_ctx, d_model)
        blocks = [PlainBlock(d_model, d_mlp, config.n_heads) for _ in range(config.n_layers)]
        self.blocks, self.ln_final = nn.Sequential(*blocks), nn.LayerNorm(d_model)
        for parameter in self.parameters():
            if parameter.dim() > 1:  # PyTorch's own scale saturates the loss, and denormal gradients are slow
                nn.init.normal_(parameter, std=config.init_std)

    def forward(self, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos vocab"]:
        x = self.embed(tokens) + self.pos_embed.weight[: tokens.shape[1]]
        return self.ln_final(self.blocks(x)) @ self.embed.weight.T


def hf_gpt2(config: DecoderConfig, d_vocab: int, n_ctx: int) -> nn.Module:
    """Hugging Face GPT-2 of the same size with SDPA and no dropout."""
    from transformers import AutoModelForCausalLM, GPT2Config

    return AutoModelForCausalLM.from_config(
        GPT2Config(
            vocab_size=d_vocab,
            n_positions=n_ctx,
            n_embd=config.d_model,
            n_inner=config.d_mlp or 4 * config.d_model,
            n_layer=config.n_layers,
            n_head=config.n_heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
        ),
        attn_implementation="sdpa",
    )


def hf_logits(model: nn.Module, tokens: Int[Tensor, "batch pos"]) -> Float[Tensor, "batch pos vocab"]:
    """The logits at every position."""
    return model(input_ids=tokens, use_cache=False).logits
