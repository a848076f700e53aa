"""Which sentences does a head read from afar, and how unevenly? Vertical scores and their kurtosis, with controls.

The definitions are those of Bogdan et al. 2025 (arXiv 2506.19143), section 4, and of the code they published. From
the mean attention between sentences, [..., reading, read]:
vertical score   of a sentence: the mean over all sentences at least `gap` later (4 in the paper);
receiver head    a head whose vertical scores have a high kurtosis (Fisher, biased) over the sentences of a text.
Controls: `depth_ranks` replaces each row by ranks (the paper's `control_depth`), so that late sentences, which spread
their attention over more, count alike; `length_residuals` takes out what the log of a sentence's length explains.
"""

import torch
from jaxtyping import Float
from torch import Tensor

GAP = 4
"""How many sentences later another one must stand for its attention to count."""
FEWEST_SCORES = 4
"""Below so many scores a kurtosis is a constant of their number, not a property of the head."""


def vertical_scores(matrix: Float[Tensor, "*head reading read"], gap: int = GAP) -> Float[Tensor, "*head read"]:
    """The mean of every column over the rows at least `gap` below the diagonal; NaN for the last `gap` sentences."""
    _check_gap(gap)
    far = torch.ones_like(matrix, dtype=torch.bool).tril(-gap)
    return matrix.masked_fill(~far, 0).sum(-2) / far.sum(-2)


def depth_ranks(matrix: Float[Tensor, "*head reading read"], gap: int = GAP) -> Float[Tensor, "*head reading read"]:
    """Each entry's rank among those of its row that are at least `gap` below the diagonal, as a share, in (0, 1].

    Ties share their mean rank. The other entries are zero; `vertical_scores` does not read them.
    """
    from scipy.stats import rankdata

    _check_gap(gap)
    ranks = torch.zeros_like(matrix, dtype=torch.float64)
    for row in range(gap, matrix.shape[-2]):
        n = row - gap + 1
        ranks[..., row, :n] = torch.from_numpy(rankdata(matrix[..., row, :n].cpu().numpy(), axis=-1)) / n
    return ranks


def length_residuals(
    scores: Float[Tensor, "*head sentence"], lengths: Float[Tensor, "sentence"]
) -> Float[Tensor, "*head sentence"]:
    """What is left of the scores without a straight line in the logarithm of the lengths; NaN stays."""
    known = torch.isfinite(scores)
    x = lengths.double().log().expand(scores.shape)
    n = known.sum(-1, keepdim=True)
    centred = [(values - _mean(values, known, n)).masked_fill(~known, 0) for values in (x, scores.double())]
    slope = (centred[0] * centred[1]).sum(-1, keepdim=True) / centred[0].square().sum(-1, keepdim=True)
    left = centred[1] - torch.nan_to_num(slope, nan=0.0, posinf=0.0, neginf=0.0) * centred[0]
    return left.masked_fill(~known, torch.nan)


def kurtosis(scores: Float[Tensor, "*head sentence"]) -> Float[Tensor, "*head"]:
    """Excess kurtosis m4 / m2^2 - 3 over the sentences with a score; NaN below `FEWEST_SCORES` or where all agree."""
    known = torch.isfinite(scores)
    n = known.sum(-1, keepdim=True)
    centred = (scores.double() - _mean(scores.double(), known, n)).masked_fill(~known, 0)
    second, fourth = (centred.pow(power).sum(-1) / n.squeeze(-1) for power in (2, 4))
    spread = second.sqrt() > 1e-9 * scores.double().masked_fill(~known, 0).abs().amax(-1)
    return (fourth / second.square() - 3).masked_fill((n.squeeze(-1) < FEWEST_SCORES) | ~spread, torch.nan)


def _mean(values: Tensor, known: Tensor, n: Tensor) -> Tensor:
    return values.masked_fill(~known, 0).sum(-1, keepdim=True) / n


def _check_gap(gap: int) -> None:
    if gap < 1:
        raise ValueError(f"a gap of {gap} sentences: need at least 1, a sentence does not read itself from afar")
