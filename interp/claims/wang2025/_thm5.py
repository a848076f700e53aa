"""What does one item of wang2025/thm5 measure? Inner products, packings, queries, training."""

from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wang2025._bounds import Size, bound_rows
from interp.core.claim import Item
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    import torch

EXACT = 1e-12
"""The difference of two probabilities that is rounding."""
PROOFS_CONSTANT = 1 / 16
"""What log|N| / (k N log N) tends to for the proof's own r = N/8."""


def measure_exact(item: Item) -> pd.DataFrame:
    """Lemma 10, Lemma 12, the counting step of Theorem 5, and how much queries answer, for every seed of the item."""
    import torch

    p, found = item.parameters, []
    for seed in p["seeds"]:
        generator = torch.Generator().manual_seed(seed)
        values = [
            *(("lemma10", (k, n), lemma10(k, n, p["pairs"], generator)) for k, n in p["pair_sizes"]),
            *(one for k, n, r in p["packings"] for one in packed(k, n, r, generator)),
            *(("signal", (k, n), signal(k, n, p["units"], generator)) for k, n in p["query_sizes"]),
        ]
        found.append(bound_rows(item.name, seed, values))
    return concat(found)


def lemma10(k: int, n: int, pairs: int, generator: "torch.Generator") -> float:
    """The largest difference between the formula and the count over all inputs, in units of rounding."""
    from toy_models.kfold.queries import counted_inner_products, inner_products, related_pairs

    first, second = related_pairs(pairs, k, n, generator)
    counted = counted_inner_products(first, second)
    return float((inner_products(first, second).diagonal() - counted).abs().max()) / EXACT


def packed(k: int, n: int, r: int, generator: "torch.Generator") -> list[tuple[str, Size, float]]:
    """Lemma 12: the greedy set's inner products over their bound, or 2 if it is small; and what queries set apart."""
    import torch

    from toy_models.kfold.queries import inner_products, packing, promised, separated

    functions, (size, largest) = packing(n, r, k, generator), promised(n, r, k)
    gram = inner_products(functions, functions)
    between = float(gram.clone().fill_diagonal_(0).abs().max())
    one = torch.zeros(len(gram), dtype=gram.dtype)
    one[0] = 1.0
    weights = [one, torch.ones_like(one), torch.linalg.eigh(gram).eigenvectors[:, -1]]
    for share in (0.1, 0.3, 0.5, 0.8):
        chosen = (torch.rand(len(gram), generator=generator) < share).to(gram.dtype)
        weights.append(chosen if chosen.any() else one)
    weights.append(torch.randn(len(gram), generator=generator, dtype=gram.dtype))
    return [
        ("lemma12", (k, n), between / largest if len(functions) >= size else 2.0),
        ("query", (k, n), max(separated(gram, sign * weight) for weight in weights for sign in (1, -1))),
    ]


def signal(k: int, n: int, units: int, generator: "torch.Generator") -> float:
    """The largest spread of an answer over its bound: gradients of a perceptron, random queries, and one function."""
    import torch
    import torch.nn.functional as F

    from toy_models.kfold.gradients import every_input
    from toy_models.kfold.queries import fold, gradient_queries, random_functions, spread_of_answers

    values = every_input(k, n)
    folded = torch.stack([fold(pi, values) for pi in values])
    queries = gradient_queries(values, units, generator)
    queries.append(torch.randn(len(values), n, n, generator=generator, dtype=torch.float64))
    queries.append(F.one_hot(fold(random_functions(1, k, n, generator)[0], values), n).double())
    return max(spread_of_answers(query, folded, k) for query in queries if _tells(query))


def _tells(query: "torch.Tensor") -> bool:
    """Whether a query differs between sequences: what is the same for all, up to rounding, asks nothing."""
    return bool((query - query.mean(0)).square().sum() > 1e-20 * query.square().sum())


def measure_packing(item: Item) -> pd.DataFrame:
    """Corollary 13: log of the packing number, from below, over k N log N."""
    from toy_models.kfold.queries import packing_exponent

    sizes = [(k, n) for k in item.parameters["ks"] for n in range(3, item.parameters["largest_n"] + 1)]
    return table(
        run=item.name, condition="corollary13", unit=[f"{k}:{n}" for k, n in sizes], metric="packing",
        value=[packing_exponent(n, k) for k, n in sizes], setting=[setting(k=k, n=n) for k, n in sizes],
    )  # fmt: skip


def measure_alone(item: Item) -> pd.DataFrame:
    """Samples until the k-fold function is learned from k-fold data alone."""
    from toy_models.kfold.alone import samples_alone

    p = item.parameters
    found = samples_alone(p["k"], p["n"], p["seed"], budget=p["budget"])
    return table(
        run=item.name, condition="alone", unit=str(p["seed"]), setting=setting(k=p["k"], n=p["n"]),
        metric="samples" if found is not None else "censored_at", value=float(found or p["budget"]),
    )  # fmt: skip
