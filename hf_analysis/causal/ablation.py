"""Does a pretrained model need these heads? Remove their output and see what that changes.

The output of a head before the output projection is replaced by zero, or by its mean over the tokens of other texts:
then the head no longer says anything about this text, but later layers still get what they always get from it.
Heads count per query head; heads that share keys and values are removed one by one.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from hf_analysis.attention.intercept import AttentionCall, intercepting
from hf_analysis.causal.likelihood import token_log_probs
from hf_analysis.models.loading import LoadedModel


@dataclass(frozen=True)
class Ablation:
    """Heads to remove, by row of the batch, and what stands in for their output (None: zero)."""

    heads: Bool[Tensor, "#batch layer head"]
    replacement: Float[Tensor, "layer head d"] | None = None


def ablated(model: LoadedModel, ablation: Ablation) -> AbstractContextManager[None]:
    """Within, `model` runs without those heads."""
    if ablation.heads.shape[1:] != (model.n_layers, model.n_heads):
        raise ValueError(
            f"ablation of heads {tuple(ablation.heads.shape[1:])}; {model.name} has {model.n_layers} layers of "
            f"{model.n_heads} heads"
        )

    def attend(call: AttentionCall) -> Float[Tensor, "batch query head d"]:
        output = call.output()
        removed = ablation.heads[:, call.layer]
        if not bool(removed.any()):
            return output
        instead = torch.zeros((), dtype=output.dtype, device=output.device)
        if ablation.replacement is not None:
            instead = ablation.replacement[call.layer].to(output)
        return torch.where(removed[:, None, :, None].to(output.device), instead, output)

    return intercepting(model.model, attend)


def ablated_log_probs(
    model: LoadedModel,
    ids: Sequence[int],
    groups: Sequence[Bool[Tensor, "layer head"]],
    replacement: Float[Tensor, "layer head d"] | None,
    places: Sequence[int],
) -> Float[Tensor, "group target"]:
    """The log-probabilities of the tokens at `places` without each group of heads, all in one batch."""
    batch = torch.tensor([list(ids)]).expand(len(groups), -1)
    with ablated(model, Ablation(torch.stack(list(groups)), replacement)):
        return token_log_probs(model, batch, torch.tensor(list(places)))


@torch.inference_mode()
def mean_outputs(model: LoadedModel, texts: Sequence[Sequence[int]]) -> Float[Tensor, "layer head d"]:
    """The mean output of every head over all tokens of `texts`, which weigh equally; only sums are kept."""
    if not texts:
        raise ValueError("mean_outputs: no text to average over")
    sums: dict[int, Tensor] = {}

    def add(call: AttentionCall) -> Float[Tensor, "batch query head d"]:
        output = call.output()
        sums[call.layer] = sums.get(call.layer, 0) + output[0].double().mean(0).cpu()
        return output

    with intercepting(model.model, add):
        for ids in texts:
            model.model.base_model(input_ids=torch.tensor([list(ids)], device=model.device), use_cache=False)
    return torch.stack([sums[layer] for layer in range(model.n_layers)]).float() / len(texts)


def lowest_heads(
    scores: Float[Tensor, "layer head"], n: int, per_layer: int, among: Bool[Tensor, "layer head"] | None = None
) -> Bool[Tensor, "layer head"]:
    """The n heads with the lowest scores, at most `per_layer` of a layer: every layer keeps others to match.

    With `among`, only of those heads, and at most half of them in a layer.
    """
    among = torch.ones_like(scores, dtype=torch.bool) if among is None else among
    most = (among.sum(1) // 2).clamp_max(per_layer)
    if not 0 < n <= int(most.sum()):
        raise ValueError(
            f"lowest_heads: {n} heads, at most {per_layer} and at most half of a layer's {among.sum(1).tolist()}; "
            f"expected 1 to {int(most.sum())}"
        )
    ranks = scores.masked_fill(~among, torch.inf).argsort(dim=1, stable=True).argsort(dim=1, stable=True)
    ranked = scores.masked_fill(ranks >= most[:, None], torch.inf).flatten().argsort(stable=True)
    chosen = torch.zeros(scores.numel(), dtype=torch.bool)
    chosen[ranked[:n]] = True
    return chosen.reshape(scores.shape)


def matched_heads(
    heads: Bool[Tensor, "layer head"], generator: torch.Generator, among: Bool[Tensor, "layer head"] | None = None
) -> Bool[Tensor, "layer head"]:
    """Random other heads, of those in `among` if it is given, in every layer as many as `heads` has there."""
    others = ~heads if among is None else among & ~heads
    if bool((heads.sum(1) > others.sum(1)).any()):
        raise ValueError("matched_heads: more than half of a layer's heads; the others are too few to match them")
    lots = torch.rand(heads.shape, generator=generator).masked_fill(~others, 2.0)
    return lots.argsort(1).argsort(1) < heads.sum(1, keepdim=True)
