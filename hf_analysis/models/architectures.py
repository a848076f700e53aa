"""What are the sizes of a model that is not here? Its configuration, and random weights of its shape, layers cut.

A plan needs the sizes of a model, and a dry run needs tensors of its shapes; neither needs its weights. The numbers
are those of the `config.json` that each repository publishes.
"""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from hf_analysis.models.loading import LoadedModel


@dataclass(frozen=True)
class Architecture:
    """A decoder of the Qwen2 family: grouped queries, biases on queries, keys and values, a gated MLP."""

    d_model: int
    d_mlp: int
    n_layers: int
    n_heads: int
    n_key_value_heads: int
    d_vocab: int = 152_064
    max_tokens: int = 131_072
    rope_theta: float = 1e6

    @property
    def layer_parameters(self) -> int:
        """Of one layer: attention with its biases, MLP, two norms."""
        d_kv = self.d_model // self.n_heads * self.n_key_value_heads
        attention = 2 * self.d_model**2 + 2 * self.d_model * d_kv + self.d_model + 2 * d_kv
        return attention + 3 * self.d_model * self.d_mlp + 2 * self.d_model

    @property
    def parameters(self) -> int:
        """Of the whole model, embedding and unembedding apart."""
        return self.n_layers * self.layer_parameters + 2 * self.d_vocab * self.d_model + self.d_model


_QWEN2_7B = Architecture(3584, 18_944, 28, 28, 4)
_QWEN2_72B = Architecture(8192, 29_568, 80, 64, 8)
ARCHITECTURES = {
    "Qwen/Qwen2-7B": _QWEN2_7B,
    "Qwen/Qwen2-Math-7B": Architecture(3584, 18_944, 28, 28, 4, max_tokens=4096, rope_theta=1e4),
    "Qwen/Qwen2-72B": _QWEN2_72B,
    "Qwen/Qwen2.5-72B-Instruct": _QWEN2_72B,
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": Architecture(5120, 13_824, 48, 40, 8),
}


def find_architecture(name: str) -> Architecture:
    """The sizes of the hub's model `name`; an unknown name lists the known ones."""
    if name not in ARCHITECTURES:
        raise ValueError(f"the sizes of {name} are not known here; known are {', '.join(ARCHITECTURES)}")
    return ARCHITECTURES[name]


def random_model(name: str, n_layers: int) -> "LoadedModel":
    """`n_layers` layers of the shape of `name` with random weights, behind the built-in tokenizer.

    The vocabulary is cut to that tokenizer's: embedding and unembedding of the whole one would take most memory.
    """
    from hf_analysis.models.loading import LoadedModel, load_model

    tokenizer = load_model("builtin").tokenizer
    return LoadedModel(name, _random(name, n_layers, len(tokenizer)), tokenizer)


@cache
def _random(name: str, n_layers: int, d_vocab: int) -> "PreTrainedModel":
    from transformers import AutoModelForCausalLM, Qwen2Config

    sizes = find_architecture(name)
    config = Qwen2Config(
        vocab_size=d_vocab,
        hidden_size=sizes.d_model,
        intermediate_size=sizes.d_mlp,
        num_hidden_layers=n_layers,
        num_attention_heads=sizes.n_heads,
        num_key_value_heads=sizes.n_key_value_heads,
        max_position_embeddings=sizes.max_tokens,
        rope_parameters={"rope_type": "default", "rope_theta": sizes.rope_theta},
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
