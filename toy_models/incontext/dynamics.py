"""What do the lemmas of li2024 say about the gradient, and what is it? Attention and gradient along the training.

W is given in the coordinates of the features (`toy_models.incontext.training`). Lemmas F.5 and F.7 bound p'^T G p
for columns p and p' that share pattern and step, one of them, or neither, G being the gradient; p_n(t) is the
attention of query n on the columns of its pattern and step (Definition F.4).
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from toy_models.incontext.prompts import Prompts
from toy_models.incontext.training import n_patterns_of, query_attention

PAIRS = ("same", "other_step", "other_pattern", "other_both")
"""What two columns share: pattern and step, the pattern alone, the step alone, neither."""


def attention_masses(
    weights: Float[Tensor, "seed feature feature"], prompts: Prompts
) -> tuple[Float[Tensor, "seed batch step"], Float[Tensor, "seed batch step"]]:
    """Of every query: p_n, the attention on its pattern and step, and the attention on all other steps."""
    attention, columns = query_attention(weights, prompts)
    step = torch.arange(prompts.n_steps, device=attention.device)[:, None]
    same_step = columns[..., 2, :] - 2 * n_patterns_of(weights, prompts.n_steps) == step
    same_pattern = columns[..., 0, :] == prompts.query[..., :-1, None]
    return (attention * (same_step & same_pattern)).sum(-1), (attention * ~same_step).sum(-1)


def pair_gradients(
    gradient: Float[Tensor, "seed feature feature"], n_steps: int
) -> Mapping[str, Float[Tensor, "seed"]]:
    """p'^T G p by what p and p' share (PAIRS), the mean over such columns.

    A column is the sum of its input's, its output's and its step's feature. The query that G meets on the right has
    no output, and on the left outputs are averaged over: tasks are drawn anew for each prompt.
    """
    m = n_patterns_of(gradient, n_steps)
    right = torch.cat([gradient[..., :m], gradient[..., 2 * m :]], dim=-1)  # [seed feature input-or-step]
    outputs = right[:, m : 2 * m].mean(1)  # [seed input-or-step]
    inputs, steps = right[:, :m], right[:, 2 * m :]
    by_pattern, by_step = (inputs[..., :m], inputs[..., m:]), (steps[..., :m], steps[..., m:])
    of_output = outputs[:, :m].mean(-1) + outputs[:, m:].mean(-1)
    means = {
        (True, True): _diagonal(by_pattern[0]) + _diagonal(by_step[1]),
        (True, False): _diagonal(by_pattern[0]) + _rest(by_step[1]),
        (False, True): _rest(by_pattern[0]) + _diagonal(by_step[1]),
        (False, False): _rest(by_pattern[0]) + _rest(by_step[1]),
    }
    mixed = by_pattern[1].mean((1, 2)) + by_step[0].mean((1, 2)) + of_output
    return {name: mean + mixed for name, mean in zip(PAIRS, means.values())}


def lemma_bounds(
    p: Float[Tensor, "seed batch step"], alpha: float, n_patterns: int
) -> Mapping[str, Float[Tensor, "seed"]]:
    """The right-hand sides of (30) to (33) and of (36) and (38), without the step size, by name.

    `f5_same` is the upper end of (30); `f5_other_step_low`, `f5_other_step_high` the ends of (31), and so on.
    `f7_same` is (36) as printed, with 1/(2M); `f7_same_k` the same with 1/(KM), as in (30).
    """
    k, m, q = p.shape[-1], n_patterns, (alpha / p.shape[-1]) ** 2
    left = 1 - p
    shared = (-4 - (3 * k - 2) * left * (1 + q)) * p * left / (k * m)
    upper = (-q + (k - 1 + (2 * k - 1) * q) * p) * left**2 / (k * m) - left**2 * q / k
    neither = p * left**2 / (k * m)
    found = {
        "f5_same": left**2 * (-4 * p * (1 + q) + q * (1 + 2 * (k - 1) / k)) / (k * m) - q / k * left**2,
        "f5_other_step_low": shared + q / k * left**2,
        "f5_other_step_high": shared + p * left**2 * (1 + q) / k,
        "f5_other_pattern_low": upper + left**2 * (-p + left * q) / k,
        "f5_other_pattern_high": upper,
        "f5_other_both_low": neither * (1 + (2 - k) * q) + left**2 * q / k,
        "f5_other_both_high": neither * (2 - k + (2 - k) * q) + left**2 * p * (1 + q) / k,
        "f7_same": -4 * p * left**2 / (2 * m),
        "f7_same_k": -4 * p * left**2 / (k * m),
        "f7_other_pattern": p * left**2 / (2 * m),
    }
    return {name: value.mean((1, 2)) for name, value in found.items()}


def _diagonal(matrix: Float[Tensor, "seed n n"]) -> Float[Tensor, "seed"]:
    return matrix.diagonal(dim1=1, dim2=2).mean(-1)


def _rest(matrix: Float[Tensor, "seed n n"]) -> Float[Tensor, "seed"]:
    n = matrix.shape[-1]
    return (matrix.sum((1, 2)) - matrix.diagonal(dim1=1, dim2=2).sum(-1)) / (n * (n - 1))
