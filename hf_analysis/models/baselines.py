"""Does a number need a trained model? The same architecture and tokenizer, with weights that know nothing.

`permuted` keeps what training did to the size of the weights, and their embeddings, and destroys what they compute;
`untrained` is the model before training. What either shows is not evidence of anything learned.
"""

import copy
import random
from collections.abc import Callable
from typing import Any

import torch

from hf_analysis.models.loading import LoadedModel


def permuted(loaded: LoadedModel, seed: int) -> LoadedModel:
    """A copy whose weight matrices hold the same entries in random order.

    Embeddings of tokens and positions stay, and with them a head that is tied to them; so do vectors: biases and
    the gains of norms.
    """
    model = copy.deepcopy(loaded.model)
    kept = {
        id(p) for module in model.modules() if isinstance(module, torch.nn.Embedding) for p in module.parameters()
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim < 2 or id(parameter) in kept:
                continue
            generator = torch.Generator().manual_seed(random.Random(f"{seed} permuted {name}").getrandbits(62))
            for matrix in parameter.view(-1, *parameter.shape[-2:]).unbind():  # a stack of experts has several
                order = torch.randperm(matrix.numel(), generator=generator).to(matrix.device)
                matrix.copy_(matrix.flatten()[order].view_as(matrix))
    return LoadedModel(f"permuted {loaded.name}", model.eval(), loaded.tokenizer)


def untrained(loaded: LoadedModel, seed: int) -> LoadedModel:
    """The same architecture with freshly initialised weights.

    Made by the class of the model itself: `AutoModelForCausalLM` would look for code of the hub once more, ask anew
    whether to trust it, and take another class where transformers has one of its own.
    """
    architecture: Any = type(loaded.model)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        fresh = architecture._from_config(copy.deepcopy(loaded.model.config), dtype=loaded.model.dtype)
    return LoadedModel(f"untrained {loaded.name}", fresh.to(loaded.device).eval(), loaded.tokenizer)


BASELINES: dict[str, Callable[[LoadedModel, int], LoadedModel]] = {"permuted": permuted, "untrained": untrained}
