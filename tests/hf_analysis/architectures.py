"""Which architectures can be measured? Every causal LM of the installed transformers, built tiny and tried.

    python -m tests.hf_analysis.architectures > docs/reference/architectures.md   # a few minutes of one core

Each is built with random weights, recorded, and compared with the patterns of its own eager attention in float64;
where it takes packed rows, a text in a packed row is compared with the same text alone.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from transformers import AutoModelForCausalLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from hf_analysis.attention.intercept import in_registry
from hf_analysis.attention.layers import decoder_layers, listed, mixer, text_decoder
from hf_analysis.attention.layout import batch, packed, packing
from hf_analysis.attention.recorder import Recording, record
from probes.attention.entropy import row_entropy

N_LAYERS, N_TOKENS = 4, 12
SIZES: dict[str, Any] = {
    **dict.fromkeys(("vocab_size", "n_vocab"), 128),
    **dict.fromkeys(("hidden_size", "d_model", "n_embd", "emb_dim", "embedding_size"), 32),
    **dict.fromkeys(("intermediate_size", "n_inner", "ffn_dim", "dim_ff", "ffn_hidden_size", "moe_intermediate_size",
                     "encoder_ffn_dim", "decoder_ffn_dim", "shared_expert_intermediate_size", "intermediate_size_mlp",
                     "expert_ffn_hidden_size", "shared_intermediate_size"), 32),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers",
                     "num_encoder_layers", "num_decoder_layers"), N_LAYERS),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads",
                     "decoder_attention_heads", "attention_heads", "num_encoder_attention_heads",
                     "num_decoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads", "swa_num_key_value_heads"), 2),
    **dict.fromkeys(("head_dim", "dim_head", "kv_channels", "attention_head_dim"), 8),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_seq_len", "n_ctx"), 64),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "top_k", "topk", "experts_per_token"), 2),
    **dict.fromkeys(("n_group", "topk_group", "n_shared_experts", "num_shared_experts", "first_k_dense_replace"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim"), 8),
    "v_head_dim": 8,
    "vocab_size_per_layer_input": 128,
    "encoder_hash_byte_group_vocab": 64,
    "rotary_dim": 4,
    **dict.fromkeys(("mamba_d_state", "state_size", "ssm_state_size"), 8),
    **dict.fromkeys(("mamba_n_heads", "mamba_num_heads", "n_mamba_heads"), 4),
    **dict.fromkeys(("linear_num_key_heads", "linear_num_value_heads"), 2),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "mamba_d_head", "mamba_head_dim"), 16),
    **dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id", "decoder_start_token_id"), 0),
    "is_decoder": True,
}  # fmt: skip
HALF = ["linear_attention", "full_attention"] * 2
LATENT = {"num_key_value_heads": 4}  # a key head for each head, out of one latent vector
DROPPED = object()
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16}
SPECIAL: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("axk2", "deepseek_v32", "glm_moe_dsa", "longcat_flash"), LATENT),
    **dict.fromkeys(("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "minicpm3", "youtu"), LATENT),
    "bailing_hybrid": {"layer_types": HALF, **LATENT},
    "bamba": {**MAMBA, "attn_layer_indices": [1, 3]},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "rope_theta": 1e4, "clip_qkv": 8},
             "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2}},
    "falcon_h1": {**MAMBA, "mamba_d_ssm": 64},
    "gemma3n_text": {"layer_types": ["sliding_attention", "full_attention"] * 2, "num_kv_shared_layers": 0},
    "gemma4_text": {"global_head_dim": 8},
    "gemma4_unified_text": {"global_head_dim": 8},
    "gpt_neo": {"attention_types": [[["global", "local"], 2]]},
    "granitemoehybrid": {**MAMBA, "layer_types": ["mamba", "attention"] * 2},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "use_mamba_kernels": False},
    "kimi_linear": {"layer_types": HALF, "linear_head_dim": 8, "linear_num_heads": 4, **LATENT},
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 2},
    "mamba2": {"num_heads": 8, "head_dim": 8, "n_groups": 1},
    "nemotron_h": {"layers_block_type": ["mamba", "moe", "attention", "mlp"], "mamba_num_heads": 4, "n_groups": 1,
                   "mamba_head_dim": 16, "moe_shared_expert_intermediate_size": 32},
    "prophetnet": {"num_hidden_layers": DROPPED},
    "reformer": {"axial_pos_embds_dim": (16, 16), "axial_pos_shape": (8, 8), "attn_layers": ["local"] * 4},
    "xlm": {"causal": True},
    "xlnet": {"max_position_embeddings": DROPPED},
    "xmod": {"languages": ["en_XX"], "default_language": "en_XX"},
    "zamba": {"layers_block_type": ["mamba", "hybrid"] * 2, "use_mamba_kernels": False},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"] * 2, "mamba_ngroups": 1, "mamba_headdim": 16},
    "zaya": {"num_experts_per_tok": 1},
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What came of one architecture."""

    name: str
    model: str
    says: str  # "works", "refused", "not tried"
    why: str
    difference: float | None = None  # of normalised entropies to eager attention, the largest

    def line(self) -> str:
        """Its line of the table."""
        away = "" if self.difference is None else f"{self.difference:.0e}"
        return f"| `{self.name}` | {self.model} | {self.says} | {away} | {self.why.replace('|', ' ')} |"


def names() -> list[str]:
    return sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)


def tiny_model(name: str, **sizes: Any) -> Any:
    """The architecture with a few heads, layers and experts, and random weights that attend far from uniformly."""
    made = CONFIG_MAPPING[name]
    config = made(**_sizes(made(), {**SPECIAL.get(name, {}), **sizes}))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim > 1:
                    parameter.mul_(4)
    assert sum(p.numel() for p in model.parameters()) < 50_000_000, "a tiny model must be tiny"
    return model


def _sizes(default: Any, special: dict[str, Any]) -> dict[str, Any]:
    sizes = {key: value for key, value in SIZES.items() if _settable(default, key)}
    for part in default.sub_configs:
        nested = getattr(default, part, None)
        if nested is not None:
            sizes[part] = _sizes(nested, SPECIAL.get(nested.model_type, {}))
    return {key: value for key, value in {**sizes, **special}.items() if value is not DROPPED}


def _settable(config: Any, key: str) -> bool:
    own = getattr(type(config), key, None)
    if isinstance(own, property) and own.fset is None:
        return False
    try:
        return hasattr(config, key)
    except Exception:  # a size that differs between layers
        return True


def tokens() -> torch.Tensor:
    return torch.randint(1, 100, (2, N_TOKENS), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def eager(model: Any, ids: torch.Tensor) -> list[torch.Tensor]:
    """The patterns of its layers by the model's own eager attention: in float64, or in float32 if it has no other."""
    decoder = text_decoder(model)
    before = decoder.config._attn_implementation
    decoder.config._attn_implementation = "eager"
    try:
        found = model.double()(input_ids=ids, output_attentions=True, use_cache=False)
    except RuntimeError:  # grouped products of experts, for one, have no float64
        found = model.float()(input_ids=ids, output_attentions=True, use_cache=False)
    model.float()
    decoder.config._attn_implementation = before
    return [pattern for pattern in found.attentions if pattern is not None]


def difference(found: Recording, patterns: list[torch.Tensor], n_layers: int) -> float:
    """The largest difference of normalised entropies, over the tokens that see two keys."""
    if len(patterns) == n_layers:  # of a hybrid, some give a place to every layer
        patterns = [patterns[layer] for layer in found.layers]
    weights = torch.stack(patterns).double()
    assert len(weights) == len(found.layers), "as many layers as in eager attention"
    expected = row_entropy(weights / weights.sum(-1, keepdim=True)) / found.n_visible.double().log()
    several = (found.n_visible > 1).expand(expected.shape)
    return float((found["normalised_entropy"] - expected)[several].abs().max())


def packed_difference(model: Any) -> float:
    """How far a text in a packed row is from the same text alone; 0 if the model does not take packed rows."""
    first, second = tokens().tolist()
    second = [*first[: N_TOKENS // 2], *second[N_TOKENS // 2 :]]
    row = packed([first, second])
    if not packing(model, len(row.ids))[0]:
        return 0.0
    inputs = batch([row], pad=0)
    together = record(model, inputs.ids, position_ids=inputs.positions, mask=inputs.mask)["normalised_entropy"]
    alone = record(model, [first, second])["normalised_entropy"]
    each = [together[:, 0].index_select(-1, row.passage(i)) - alone[:, i] for i in range(2)]
    return float(torch.stack(each)[..., 1:].nan_to_num().abs().max())


def tried(name: str) -> Outcome:
    """Builds, records and compares one architecture."""
    title = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[name]
    names = (name, title if isinstance(title, str) else title[0])
    try:
        model = tiny_model(name)
        with torch.no_grad():
            model(input_ids=tokens(), use_cache=False)
    except Exception as error:  # whatever a configuration that nobody has made by hand may lead to
        said = str(error).strip().splitlines()
        return Outcome(*names, "not tried", f"no tiny one reads text: {said[0] if said else type(error).__name__}")
    try:
        found = record(model, tokens())
    except ValueError as error:
        return Outcome(*names, "refused", str(error))
    layers = decoder_layers(model)
    away = difference(found, eager(model, tokens()), len(layers))
    assert packed_difference(model) < 1e-5, f"{name}: packed rows are not what texts are alone"
    return Outcome(*names, "works", _how(model, found, layers), away)


def _how(model: Any, found: Recording, layers: list[Any]) -> str:
    notes = [] if in_registry(model) else ["followed outside the registry"]
    others = [layer for i, layer in enumerate(layers) if i not in found.layers]
    if others:
        instead = sorted({mixer(layer) or "no attention" for layer in others})
        notes.append(f"layers {listed(found.layers)} of {len(layers)}; in the others {', '.join(instead)}")
    return "; ".join(notes)


PAGE = """# Architectures

Every causal language model of transformers {version}, built tiny with random weights and measured: {works} of {all}
work. *Difference* is the largest between a normalised entropy of `hf_analysis.record` in float32 and that of the
model's own eager attention in float64. `python -m tests.hf_analysis.architectures` makes this page.

- **works**: in every layer, unless the note says in which. Rows keep the model's own number of a layer.
- *followed outside the registry*: the model computes its attention itself; it is followed by what it does to its
  scores (`hf_analysis.attention.following`), so code from the hub works too, if it does nothing else to them.
- *learned sinks* (GPT-OSS and its like): statistics are over the keys, renormalised without what the sink takes;
  that is a statistic of its own, `learned_sink_mass`.
- **refused**: the reason is what the command says, in one line, before any long work.
- **not tried**: our tiny configuration of it does not run; a real one may.

| architecture | model | | difference | note |
|---|---|---|---|---|
"""


def page(outcomes: list[Outcome]) -> str:
    """The page of the documentation."""
    works = sum(one.says == "works" for one in outcomes)
    start = PAGE.format(version=transformers.__version__, works=works, all=len(outcomes))
    return start + "\n".join(one.line() for one in outcomes) + "\n"


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    print(page([tried(name) for name in names()]), end="")
