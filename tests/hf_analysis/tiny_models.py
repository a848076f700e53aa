"""Small real models of every architecture, made on the spot."""

import copy

import torch
from tokenizers import Tokenizer, decoders, pre_tokenizers, trainers
from tokenizers.models import BPE
from transformers import (
    AutoModelForCausalLM,
    Gemma2Config,
    GPT2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PhiConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen3Config,
)

from hf_analysis.models.loading import LoadedModel

VOCABULARY = 300
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "max_position_embeddings": 1024,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 0,
}
GROUPED = {**SIZES, "num_key_value_heads": 2}

CONFIGS = {
    "qwen2": Qwen2Config(**GROUPED),
    "qwen3": Qwen3Config(**GROUPED, head_dim=16),
    "llama": LlamaConfig(**GROUPED),
    "gpt2": GPT2Config(
        vocab_size=VOCABULARY, n_embd=48, n_layer=3, n_head=4, n_positions=1024, bos_token_id=0, eos_token_id=0
    ),
    "gpt_neox": GPTNeoXConfig(**SIZES),
    "mistral": MistralConfig(**GROUPED, sliding_window=8),
    "gemma2": Gemma2Config(**GROUPED, head_dim=16, sliding_window=8, attn_logit_softcapping=5.0),
    "phi": PhiConfig(**SIZES),
}


def build(name_or_config, seed: int = 0):
    """A tiny model whose attention is far from uniform; Qwen2's key biases are large, as in the real one."""
    config = CONFIGS[name_or_config] if isinstance(name_or_config, str) else name_or_config
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(copy.deepcopy(config)).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if parameter.ndim > 1:
                    parameter.mul_(6)
                if name.endswith("k_proj.bias") and config.model_type == "qwen2":
                    parameter.normal_(0, 30)
    assert sum(p.numel() for p in model.parameters()) < 200_000, "a tiny model must be tiny"
    return model


def loaded(model) -> LoadedModel:
    """`model` with an empty tokenizer, for functions that take tokens."""
    return LoadedModel("tiny", model, PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE())))


def tokens(n_rows=2, n=24):
    return torch.randint(VOCABULARY, (n_rows, n), generator=torch.Generator().manual_seed(1))


def attention_modules(model) -> list[torch.nn.Module]:
    """The attention of every layer, in order, whatever the architecture calls it."""
    return [m for name, m in model.named_modules() if name.endswith(("self_attn", ".attn", ".attention"))]


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer of as many tokens."""
    bpe = Tokenizer(BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=["<end>"], initial_alphabet=alphabet)
    bpe.train_from_iterator(["The answer is 12. She has 3 apples and buys 4 more apples."] * 4, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=bpe, eos_token="<end>", pad_token="<end>", bos_token="<end>")
