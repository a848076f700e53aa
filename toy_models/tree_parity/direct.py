"""Which models answer parity from the bits alone? Small ones whose gradient can be had at every input.

Theorem 2 of kim2024 is about any differentiable model. Three stand for it: the theory model, which writes its own
chain and is judged by the root, a multilayer perceptron, and a one-layer transformer. A fourth, one parity times one
weight, reaches the bound of Proposition 3. Parameters are dictionaries, so that seeds can be trained in one batch.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.func import grad, vmap

from toy_models.tree_parity.links import LINKS

Parameters = dict[str, Tensor]

CHAIN = 8
"""Leaves of the theory model's tree: it writes seven nodes, whatever the number of secret bits."""
WIDTH = 8
"""Neurons of the perceptron and size of the transformer's residual stream, unless said otherwise."""
HEADS = 2
CHUNK = 4096
"""Inputs whose gradients are computed at once."""


@dataclass(frozen=True)
class DirectModel:
    """A model that answers from the bits alone."""

    name: str
    draw: Callable[[int, int, torch.Generator], Parameters]
    """Random initial parameters for d bits and a width, which only the perceptron and the transformer have."""
    answer: Callable[[Parameters, Float[Tensor, "input bit"]], Float[Tensor, "input"]]

    def fresh(self, d: int, generator: torch.Generator, width: int = WIDTH) -> Parameters:
        """Random initial parameters for d bits."""
        return self.draw(d, width, generator)


def _normal(generator: torch.Generator, *shape: int, scale: float) -> Tensor:
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def _theory(d: int, width: int, generator: torch.Generator) -> Parameters:
    """One matrix for each level of the tree, N(0, 1): at zero all nodes of a level are one and the same."""
    seen, found = d, {}
    for level in range(1, CHAIN.bit_length()):
        found[f"w{level}"] = _normal(generator, CHAIN >> level, seen, scale=1.0)
        seen += CHAIN >> level
    return found


def _theory_answer(weights: Parameters, bits: Float[Tensor, "input bit"]) -> Float[Tensor, "input"]:
    values = bits
    for level in weights.values():
        values = torch.cat([values, LINKS["piecewise"](values @ level.softmax(-1).T)], -1)
    return values[:, -1]


def _perceptron(d: int, width: int, generator: torch.Generator) -> Parameters:
    return {
        "inner": _normal(generator, width, d, scale=(2 / d) ** 0.5),
        "bias": _normal(generator, width, scale=1.0),
        "outer": _normal(generator, width, scale=width**-0.5),
        "offset": torch.zeros(1, dtype=torch.float64),
    }


def _perceptron_answer(weights: Parameters, bits: Float[Tensor, "input bit"]) -> Float[Tensor, "input"]:
    hidden = torch.nn.functional.gelu(bits @ weights["inner"].T + weights["bias"])
    return hidden @ weights["outer"] + weights["offset"]


def _transformer(d: int, width: int, generator: torch.Generator) -> Parameters:
    if width % HEADS:
        raise ValueError(f"the transformer has {HEADS} heads, which must divide its width, got {width}")
    square = {name: _normal(generator, width, width, scale=width**-0.5) for name in ("query", "key", "value", "out")}
    return {
        "embed": _normal(generator, width, scale=1.0),
        "position": _normal(generator, d, width, scale=1.0),
        **square,
        "inner": _normal(generator, 2 * width, width, scale=width**-0.5),
        "bias": torch.zeros(2 * width, dtype=torch.float64),
        "outer": _normal(generator, width, 2 * width, scale=(2 * width) ** -0.5),
        "read": _normal(generator, width, scale=width**-0.5),
    }


def _transformer_answer(weights: Parameters, bits: Float[Tensor, "input bit"]) -> Float[Tensor, "input"]:
    """Pre-norm, two heads; only the last position is computed beyond keys and values, since it alone is read.

    A position has two tokens, so that queries, keys and values are tables by bit, whatever the number of inputs.
    """
    width = len(weights["embed"])
    split = (HEADS, width // HEADS)
    values = torch.tensor([-1.0, 1.0], dtype=bits.dtype)
    tokens = values[:, None, None] * weights["embed"] + weights["position"]  # [2 bit width]
    normed = torch.nn.functional.layer_norm(tokens, (width,))
    query, key, value = ((normed @ weights[name].T).unflatten(-1, split) for name in ("query", "key", "value"))
    scores = torch.einsum("ahe,bjhe->abhj", query[:, -1], key) / math.sqrt(split[1])
    fixed, by_query = _by_bit(scores)
    last = bits[:, -1, None, None]
    base, slope = (of_key + last * with_query for of_key, with_query in zip(_by_bit(fixed), _by_bit(by_query)))
    pattern = (base + slope * bits[:, None]).softmax(-1)  # [input head bit]
    base, slope = _by_bit(value)
    read = torch.einsum("nhj,jhe->nhe", pattern, base) + torch.einsum("nhj,jhe->nhe", pattern * bits[:, None], slope)
    stream = bits[:, -1:] * weights["embed"] + weights["position"][-1] + read.flatten(1) @ weights["out"].T
    normed = torch.nn.functional.layer_norm(stream, (width,))
    hidden = torch.nn.functional.gelu(normed @ weights["inner"].T + weights["bias"])
    return (stream + hidden @ weights["outer"].T) @ weights["read"]


def _by_bit(table: Float[Tensor, "2 *rest"]) -> tuple[Float[Tensor, "*rest"], Float[Tensor, "*rest"]]:
    """A function of one bit, given at -1 and 1, as base + slope times the bit."""
    return (table[0] + table[1]) / 2, (table[1] - table[0]) / 2


def _one_parity(d: int, width: int, generator: torch.Generator) -> Parameters:
    """One weight; the parity it multiplies is that of the first d // 2 bits."""
    return {"weight": _normal(generator, 1, scale=1.0)}


def _one_parity_answer(weights: Parameters, bits: Float[Tensor, "input bit"]) -> Float[Tensor, "input"]:
    return weights["weight"] * bits[:, : bits.shape[1] // 2].prod(1)


DIRECT_MODELS = {
    model.name: model
    for model in (
        DirectModel("theory", _theory, _theory_answer),
        DirectModel("perceptron", _perceptron, _perceptron_answer),
        DirectModel("transformer", _transformer, _transformer_answer),
        DirectModel("one_parity", _one_parity, _one_parity_answer),
    )
}


def find_direct_model(name: str) -> DirectModel:
    """The model called `name`; an unknown name lists the known ones."""
    if name not in DIRECT_MODELS:
        raise ValueError(f"unknown model {name!r}; the models are {', '.join(DIRECT_MODELS)}")
    return DIRECT_MODELS[name]


def gradients(
    model: DirectModel, weights: Parameters, bits: Float[Tensor, "input bit"]
) -> Float[Tensor, "input parameter"]:
    """grad f at every input, all parameters side by side."""

    def answer(weights: Parameters, one: Float[Tensor, "bit"]) -> Float[Tensor, ""]:
        return model.answer(weights, one[None])[0]

    found = vmap(grad(answer), in_dims=(None, 0), chunk_size=CHUNK)(weights, bits)
    return torch.cat([part.reshape(len(bits), -1) for part in found.values()], 1)


def stacked(model: DirectModel, d: int, generators: Sequence[torch.Generator], width: int = WIDTH) -> Parameters:
    """Fresh parameters of one model for each generator, in one batch."""
    drawn = [model.fresh(d, generator, width) for generator in generators]
    return {name: torch.stack([one[name] for one in drawn]) for name in drawn[0]}


def of_seed(weights: Parameters, seed: int) -> Parameters:
    """The parameters of one model of a batch."""
    return {name: values[seed] for name, values in weights.items()}


class Adam:
    """Adam for a batch of seeds; the gradient it follows may come from anywhere, an oracle included."""

    def __init__(self, weights: Parameters, rate: float) -> None:
        self.weights = {name: values.clone().requires_grad_() for name, values in weights.items()}
        self._optimiser = torch.optim.Adam(list(self.weights.values()), lr=rate)

    def follow(
        self, model: DirectModel, bits: Float[Tensor, "*seed input bit"], targets: Float[Tensor, "*target input"]
    ) -> Float[Tensor, "seed"]:
        """One update on half the squared error, which is returned; inputs may be shared by all seeds."""
        answers = vmap(model.answer, in_dims=(0, 0 if bits.ndim == 3 else None))(self.weights, bits)
        losses = (answers - targets).square().mean(-1) / 2
        self._optimiser.zero_grad()
        losses.sum().backward()
        self._optimiser.step()
        return losses.detach()

    @property
    def now(self) -> Parameters:
        """The parameters as they stand."""
        return {name: values.detach().clone() for name, values in self.weights.items()}
