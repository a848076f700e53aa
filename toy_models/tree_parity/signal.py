"""Does a gradient say which bits are secret? Its signal-to-noise ratio (what Theorem 2 of kim2024 is about).

The gradient of half the squared error of an answer f to a target p is (f - p) grad f, and only p grad f depends on
the secret. Its mean over inputs is the signal, its standard deviation over inputs the noise; n samples raise the
ratio by sqrt(n), so about 1 / ratio^2 samples are needed to see anything at all. Theorem 2 bounds the signal's
variance over secrets; here it is computed exactly, over all 2^d inputs.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from toy_models.tree_parity.forest import Forest, Sample
from toy_models.tree_parity.gradient import Weights, chain_errors, through_softmax
from toy_models.tree_parity.links import Link
from toy_models.tree_parity.theory_model import attention, generate

LOSSES = ("direct", "end_to_end", "teacher_forcing")
"""The root from the bits alone; the root of a chain the model writes itself; every node, its children being given."""


def signal_to_noise(weights: Weights, forest: Forest, sample: Sample, link: Link, loss: str) -> Float[Tensor, "seed"]:
    """The norm of the mean of p grad f over the root mean square of its deviation, for one sample, by seed.

    For teacher forcing p and f are all nodes' targets and answers, and gradients add up over nodes.
    """
    if loss not in LOSSES:
        raise ValueError(f"unknown loss {loss!r}; the losses are {', '.join(LOSSES)}")
    nodes, seen = (slice(0, 1), forest.d) if loss == "direct" else (slice(0, forest.n_nodes), forest.n_keys)
    pattern = attention(weights[:, nodes, :seen], forest.visible("level")[nodes, :seen]).double()
    mean, square = torch.zeros_like(pattern), torch.zeros(forest.n_seeds, dtype=torch.float64)
    for _, bits in sample.chunks():
        values = forest.grown(bits).double()
        if loss == "end_to_end":
            keys, slopes = generate(values[:, : forest.d], pattern, forest.levels, link)
            of_root = torch.zeros_like(slopes)
            of_root[:, -1] = 1.0
            slopes = chain_errors(keys, slopes, of_root, pattern, forest.levels)
            keys, targets = keys[:, :-1], values[:, -1:]
        else:
            keys, targets = values[:, :seen], values[:, forest.d :]
            if loss == "direct":
                targets = values[:, -1:]
            slopes = link.value_and_slope(pattern @ keys)[1]
        mean += (targets * slopes) @ keys.transpose(1, 2)
        square += squared_norms(keys, slopes, pattern).sum((1, 2))
    signal = through_softmax(pattern, mean / sample.n).square().sum((1, 2))
    return (signal / (square / sample.n - signal)).sqrt().float()


def squared_norms(
    keys: Float[Tensor, "seed key sample"], slopes: Float[Tensor, "seed node sample"], pattern: Weights
) -> Float[Tensor, "seed node sample"]:
    """The squared norm of every node's gradient of f, df/dz a_j (x_j - z): products instead of each gradient."""
    means, squares = pattern @ keys, pattern * pattern
    about_mean = (
        squares @ keys.square() - 2 * means * (squares @ keys) + means.square() * squares.sum(-1, keepdim=True)
    )
    return slopes.square() * about_mean
