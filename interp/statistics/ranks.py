"""Do two rankings agree, beyond what both owe to something else, and does a ranking come again in other data?"""

from itertools import repeat

import numpy as np
from jaxtyping import Float, Real

from interp.statistics.means import Rng


def rank_correlation(
    first: Real[np.ndarray, "item"],
    second: Real[np.ndarray, "item"],
    controls: Real[np.ndarray, "control item"] | None = None,
) -> float:
    """Spearman's correlation of two scores of the same items, in [-1, 1]; with `controls`, the partial one.

    Partial: Pearson's correlation of what is left of the ranks without a linear combination of the controls' ranks.
    NaN where the items are too few (three more than controls are needed) or nothing is left of a score.
    """
    from scipy.stats import rankdata  # slow to import, and commands begin without it

    n_controls = 0 if controls is None else len(controls)
    if len(first) < n_controls + 3:
        return float("nan")
    design = [np.ones(len(first)), *map(rankdata, () if controls is None else controls)]
    basis, _ = np.linalg.qr(np.stack(design, axis=1))
    left = []
    for score in (first, second):
        ranks = rankdata(score)
        rest = ranks - basis @ (basis.T @ ranks)
        if np.linalg.norm(rest) < 1e-9 * np.linalg.norm(ranks):
            return float("nan")
        left.append(rest / np.linalg.norm(rest))
    return float(np.clip(left[0] @ left[1], -1, 1))


def split_half(scores: Float[np.ndarray, "unit item"], *, rng: Rng, n_splits: int = 100) -> float:
    """How well the mean scores of items over half of the units predict those over the other half, in [-1, 1].

    Spearman's correlation over items, the mean over random halves, stepped up to all units by Spearman and Brown's
    2 r / (1 + r): the reliability of the ranking of items by their mean score over all units.
    """
    if len(scores) < 2:
        raise ValueError(f"split_half: {len(scores)} unit; a half needs at least one")
    generator = np.random.default_rng(rng)
    found = []
    for _ in repeat(None, n_splits):
        order = generator.permutation(len(scores))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        found.append(rank_correlation(*(scores[half].mean(0) for half in halves)))
    r = float(np.mean(found))
    return 2 * r / (1 + r) if r > 0 else r
