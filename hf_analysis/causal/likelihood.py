"""How probable does a pretrained model find given tokens of a text, perhaps under an intervention?"""

from collections.abc import Sequence

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
    require_places(places.tolist(), ids.shape[1])
    return log_probs_at(model, ids, places - 1, ids[:, places])


def require_places(places: Sequence[int], n_tokens: int) -> None:
    """A ValueError unless every place is that of a token with others before it, in a text of so many."""
    if not places or min(places) < 1 or max(places) >= n_tokens:
        raise ValueError(
            f"places {list(places)}: the first token has no probability; expected places from 1 to {n_tokens - 1}"
        )


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
