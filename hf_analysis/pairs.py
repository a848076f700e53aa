"""Which two models can be compared? Those that read the same text as the same tokens."""

from dataclasses import replace

import torch
from transformers import AutoModelForCausalLM

from hf_analysis.models import LoadedModel


def require_same_tokenizer(first: LoadedModel, second: LoadedModel) -> None:
    """Refuses two models whose tokenizers differ: their rows would be about different tokens."""
    a, b = first.tokenizer.get_vocab(), second.tokenizer.get_vocab()
    probe = "Natalia sold 48/2 = <<48/2=24>>24 clips, naïve €3.50…\n#### 1,024"
    if a != b or first.encode(probe) != second.encode(probe):
        differing = len(a.items() ^ b.items())
        raise ValueError(
            f"{first.name} and {second.name} do not share a tokenizer ({differing} vocabulary entries differ); "
            "compare two models that do, such as a base model and its fine-tuned version"
        )


def untrained_twin(model: LoadedModel, seed: int) -> LoadedModel:
    """The same architecture and tokenizer with freshly initialised weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = AutoModelForCausalLM.from_config(model.model.config, dtype=model.model.dtype)
    return replace(model, name=f"untrained {model.name}", model=fresh.to(model.device).eval())
