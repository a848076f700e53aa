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
"""Neurons of the perceptron; size of the transformer's residual stream."""
HEADS = 2
CHUNK = 4096
"""Inputs whose gradients are computed at once."""


@dataclass(frozen=True)
class DirectModel:
    """A model that answers from the bits alone."""

    name: str
    fresh: Callable[[int, torch.Generator], Parameters]
    """Random initial parameters for d bits."""
    answer: Callable[[Parameters, Float[Tensor, "input bit"]], Float[Tensor, "input"]]


def _normal(generator: torch.Generator, *shape: int, scale: float) -> Tensor:
    return scale * torch.randn(shape, generator=generator, dtype=torch.float64)


def _theory(d: int, generator: torch.Generator) -> Parameters:
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


def _perceptron(d: int, generator: torch.Generator) -> Parameters:
    return {
        "inner": _normal(generator, WIDTH, d, scale=(2 / d) ** 0.5),
        "bias": _normal(generator, WIDTH, scale=1.0),
        "outer": _normal(generator, WIDTH, scale=WIDTH**-0.5),
        "offset": torch.zeros(1, dtype=torch.float64),
    }


def _perceptron_answer(weights: Parameters, bits: Float[Tensor, "input bit"]) -> Float[Tensor, "input"]:
    hidden = torch.nn.functional.gelu(bits @ weights["inner"].T + weights["bias"])
    return hidden @ weights["outer"] + weights["offset"]


def _transformer(d: int, generator: torch.Generator) -> Parameters:
    square = {name: _normal(generator, WIDTH, WIDTH, scale=WIDTH**-0.5) for name in ("query", "key", "value", "out")}
    return {
        "embed": _normal(generator, WIDTH, scale=1.0),
        "position": _normal(generator, d, WIDTH, scale=1.0),
        **square,
        "inner": _normal(generator, 2 * WIDTH, WIDTH, scale=WIDTH**-0.5),
        "bias": torch.zeros(2 * WIDTH, dtype=torch.float64),
        "outer": _normal(generator, WIDTH, 2 * WIDTH, scale=(2 * WIDTH) ** -0.5),
        "read": _normal(generator, WIDTH, scale=WIDTH**-0.5),
    }


def _transformer_answer(weights: Parameters, bits: Float[Tensor, "input bit"]) -> Float[Tensor, "input"]:
    """Pre-norm, two heads; only the last position is computed beyond keys and values, since it alone is read."""
    tokens = bits[..., None] * weights["embed"] + weights["position"]
    normed = torch.nn.functional.layer_norm(tokens, (WIDTH,))
    query, key, value = (normed @ weights[name].T for name in ("query", "key", "value"))
    split = (HEADS, WIDTH // HEADS)
    scores = torch.einsum("nhe,njhe->nhj", query[:, -1].unflatten(-1, split), key.unflatten(-1, split))
    pattern = (scores / math.sqrt(split[1])).softmax(-1)
    read = torch.einsum("nhj,njhe->nhe", pattern, value.unflatten(-1, split)).flatten(1)
    stream = tokens[:, -1] + read @ weights["out"].T
    normed = torch.nn.functional.layer_norm(stream, (WIDTH,))
    hidden = torch.nn.functional.gelu(normed @ weights["inner"].T + weights["bias"])
    return (stream + hidden @ weights["outer"].T) @ weights["read"]


def _one_parity(d: int, generator: torch.Generator) -> Parameters:
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


def stacked(model: DirectModel, d: int, generators: Sequence[torch.Generator]) -> Parameters:
    """Fresh parameters of one model for each generator, in one batch."""
    drawn = [model.fresh(d, generator) for generator in generators]
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
