"""How probable does a pretrained model find given tokens of a text, perhaps under an intervention?"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from hf_analysis.models.loading import LoadedModel


def token_log_probs(
    model: LoadedModel, ids: Int[Tensor, "batch pos"], places: Int[Tensor, "target"]
) -> Float[Tensor, "batch target"]:
    """log p(token at each place | all tokens before it), in nats, in float32.

    Run within an intervention (`knocked_out`, `ablated`), it is the probability under it.
    """
    if not len(places) or int(places.min()) < 1:
        raise ValueError(f"places {places.tolist()}: the first token has no probability; expected places from 1 on")
    return log_probs_at(model, ids, places - 1, ids[:, places])


@torch.inference_mode()
def log_probs_at(
    model: LoadedModel,
    ids: Int[Tensor, "batch pos"],
    queries: Int[Tensor, "target"],
    targets: Int[Tensor, "batch target"],
    *,
    positions: Int[Tensor, "batch pos"] | None = None,
    mask: Bool[Tensor, "batch 1 pos pos"] | None = None,
) -> Float[Tensor, "batch target"]:
    """The log-probability of each target as the token after its query; logits are computed only there."""
    layout = {} if positions is None else {"position_ids": positions.to(model.device)}
    if mask is not None:
        layout["attention_mask"] = mask.to(model.device)
    kept = queries.to(model.device)
    logits = model.model(input_ids=ids.to(model.device), logits_to_keep=kept, use_cache=False, **layout).logits
    return -cross_entropy(logits.float().transpose(1, 2), targets.to(logits.device), reduction="none").cpu()
