"""Is a head a receiver head, or would any text cut anyhow make it one? Scores of a trace, controlled and under nulls.

Every version of the kurtosis is computed alike on the trace, on the same attention with rotated sentence boundaries
(as many pieces, as long, out of step with the sentences), and on the trace with its sentences permuted, which keeps
every sentence and destroys the argument. What a head shows beyond both is about these sentences in this order.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from hf_analysis.traces.attention import SentenceAttention, permuted, rotated, segmented_attention
from hf_analysis.traces.measures import Study
from hf_analysis.traces.tokens import TraceTokens
from probes.attention.sentences import FEWEST_SCORES, depth_ranks, kurtosis, length_residuals, vertical_scores

VERTICAL = "vertical"
"""Attention that a sentence receives from those at least `gap` later, per token of it."""
VERSIONS = ("kurtosis", "kurtosis_depth", "kurtosis_length", "kurtosis_without_sink", "kurtosis_mass")
"""As published; of ranks within each reading sentence; without what length explains; without key 1; of summed
attention in place of attention per token."""


def vertical(
    found: SentenceAttention, tokens: TraceTokens, gap: int
) -> dict[str, Float[Tensor, "layer head sentence"]]:
    """The vertical scores of every sentence of the reasoning, by version of the kurtosis that they give."""
    inside = torch.tensor(tokens.reasoning)

    def among(matrix: Float[Tensor, "layer head unit unit"]) -> Float[Tensor, "layer head sentence sentence"]:
        return matrix[:, :, inside[:, None], inside].double()

    mean = among(found.mean)
    published = vertical_scores(mean, gap)
    return {
        "kurtosis": published,
        "kurtosis_depth": vertical_scores(depth_ranks(mean, gap), gap),
        "kurtosis_length": length_residuals(published, found.lengths[inside]),
        "kurtosis_without_sink": vertical_scores(among(found.mean_without_sink), gap),
        "kurtosis_mass": vertical_scores(among(found.mass), gap),
    }


def receiver_scores(
    scores: dict[str, Float[Tensor, "layer head sentence"]],
) -> dict[str, Float[Tensor, "layer head"]]:
    """Every version of the kurtosis of every head; NaN where a trace has too few sentences."""
    return {name: kurtosis(one) for name, one in scores.items()}


def rotations(study: Study, tokens: TraceTokens) -> list[int]:
    """By how many sentences the boundaries are rotated: distinct numbers, at random."""
    n = len(tokens.reasoning)
    drawn = torch.randperm(n - 1, generator=study.stream(tokens, "rotated"))[: study.rotations]
    return (drawn + 1).tolist()


def permutations(study: Study, tokens: TraceTokens) -> list[list[int]]:
    """Orders of the sentences, at random, none the trace's own."""
    stream, n = study.stream(tokens, "permuted"), len(tokens.reasoning)
    found: list[list[int]] = []
    while len(found) < study.permutations:
        order = torch.randperm(n, generator=stream).tolist()
        if order != list(range(n)):
            found.append(order)
    return found


def attention_and_nulls(
    study: Study, tokens: TraceTokens
) -> tuple[SentenceAttention, dict[str, list[dict[str, Float[Tensor, "layer head"]]]]]:
    """The attention of the trace, and the kurtoses of every draw of each null: `rotated` in the same pass,
    `permuted` in one pass each. A trace too short for a kurtosis has no nulls."""
    moved = [rotated(tokens, by) for by in rotations(study, tokens)] if long_enough(study, tokens) else []
    found, *shifted = segmented_attention(study.model, tokens.ids, [tokens.units, *moved])
    nulls = {"rotated": [receiver_scores(vertical(one, tokens, study.gap)) for one in shifted], "permuted": []}
    for order in permutations(study, tokens) if long_enough(study, tokens) else ():
        other = permuted(tokens, order)
        (one,) = segmented_attention(study.model, other.ids, [other.units])
        nulls["permuted"].append(receiver_scores(vertical(one, other, study.gap)))
    return found, nulls


def long_enough(study: Study, tokens: TraceTokens) -> bool:
    """Whether a trace has enough sentences for a kurtosis."""
    return len(tokens.reasoning) - study.gap >= FEWEST_SCORES
