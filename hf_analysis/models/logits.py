"""What are the logits of a few positions at a time? A model's own head on its last hidden states.

The logits of a long text are larger than everything else: 8,192 tokens and 150,000 words are 5 GB. Whoever needs a
number per position computes them a few positions at a time. What models do behind their output embeddings (soft
caps, scales) is done here too, and checked against the model itself.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.models.loading import LoadedModel

Head = Callable[[Float[Tensor, "*pos d_model"]], Float[Tensor, "*pos token"]]


@torch.inference_mode()
def output_head(model: LoadedModel) -> Head:
    """From last hidden states of `base_model` to logits in float32; refused if they are not the model's own."""
    network: Any = model.model
    embeddings, config = network.get_output_embeddings(), network.config.get_text_config()
    cap = getattr(config, "final_logit_softcapping", None)
    scale = getattr(config, "logit_scale", None) or 1.0
    divisor = getattr(config, "logits_scaling", None) or 1.0

    def head(hidden: Float[Tensor, "*pos d_model"]) -> Float[Tensor, "*pos token"]:
        logits = embeddings(hidden) * scale / divisor if scale != divisor else embeddings(hidden)
        logits = logits if cap is None else (logits / cap).tanh() * cap
        return logits.float()

    ids = torch.tensor([[1, 2]], device=model.device)  # not pads, whose embeddings may be zero
    expected = network(input_ids=ids, use_cache=False).logits.float()
    found = head(network.base_model(input_ids=ids, use_cache=False).last_hidden_state)
    if found.shape != expected.shape or not torch.allclose(found, expected, rtol=1e-3, atol=1e-3):
        raise ValueError(
            f"{model.name} does something between its last layer and its logits that is not known here, so that they "
            "cannot be computed a few positions at a time; use another architecture"
        )
    return head


def kl_divergence(
    intact: Float[Tensor, "*rows token"], changed: Float[Tensor, "*rows token"]
) -> Float[Tensor, "*rows"]:
    """KL(intact || changed) of two softmaxes, in nats, from their logits; small ones keep their digits, too.

    With d the difference of the logits minus its mean under the intact distribution p, it is log(1 + sum p (e^d - 1 -
    d)), all terms positive: nothing large cancels. `changed` is overwritten.
    """
    p = intact.softmax(-1)
    d = changed.sub_(intact)
    d.sub_(torch.linalg.vecdot(p, d)[..., None])
    return torch.linalg.vecdot(p, torch.expm1(d).sub_(d)).log1p()
