"""Which neuron of huang2025's theory model holds which fact? Read off the weights that predict the state.

A fact is "y goes to j": the pair (g, y) of a simply transitive action, in other actions all pairs of the point y with
an element of the fiber of (j, y), those g with g(y) = j (Definitions 6.1 and 6.3). V_{j,r}(g) and V_{j,r}(y) are the
weights of neuron r of class j on the element g and on the point y, and half their sum is what the pair adds to the
neuron's input at length 1 (Definition 6.2). Theorems B.1 and C.1: each fact is held by one neuron of its class, which
answers to no other, and the first weights tell which one it will be (Definitions B.3 and C.4).
"""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from toy_models.lego.groups import GroupAction
from toy_models.lego.task import ACTION, STATE, Lego
from toy_models.lego.theory_model import LegoTheory

HELD = 0.5
"""A neuron answers to a fact if its strength is above this share of the strongest of the class."""


@dataclass(frozen=True)
class Features:
    """The weights of the neurons of the states' classes."""

    elements: Float[np.ndarray, "class neuron element"]
    """V_{j,r}(g)."""
    points: Float[np.ndarray, "class neuron point"]
    """V_{j,r}(y)."""
    fibers: Bool[np.ndarray, "class point element"]
    """Whether an element takes the point to the class."""

    @property
    def strengths(self) -> Float[np.ndarray, "class neuron point"]:
        """(V(g) + V(y)) / 2 of every fact, averaged over its fiber."""
        elements = np.einsum("jrg,jyg->jry", self.elements, self.fibers / self.fibers.sum(-1, keepdims=True))
        return (elements + self.points) / 2


def fibers(action: GroupAction) -> Bool[np.ndarray, "class point element"]:
    """Which elements take each point to each class."""
    images = np.array(action.action).T  # [point element]
    return images[None] == np.arange(action.n_points)[:, None, None]


@torch.no_grad()
def features(model: LegoTheory, task: Lego) -> Features:
    """V of the model as it is."""
    d, action = model.d_vocab, task.action
    weights = model.mlp.W[STATE].view(-1, d, model.mlp.m)  # [(slot, token) class neuron]
    classes = slice(task.first_state, task.first_state + action.n_points)

    def read(slot: int, first: int, n: int) -> Float[np.ndarray, "class neuron token"]:
        start = slot * d + first
        return weights[start : start + n, classes].permute(1, 2, 0).double().cpu().numpy()

    return Features(
        read(ACTION, task.first_element, action.n_elements),
        read(STATE, task.first_state, action.n_points),
        fibers(action),
    )


def curriculum(strengths: Float[np.ndarray, "class neuron point"]) -> Int[np.ndarray, "class point"]:
    """The neuron that Definitions B.3 and C.4 choose for each fact from the strengths at the start.

    The strongest pair of a neuron and a fact of its class is chosen, both are struck off, and so on. Classes share
    neither neurons nor facts, so each is gone through by itself.
    """
    left = strengths.copy()
    chosen = np.full((strengths.shape[0], strengths.shape[2]), -1)
    for of_class, neurons in zip(left, chosen):
        for _ in range(min(of_class.shape)):
            neuron, point = np.unravel_index(of_class.argmax(), of_class.shape)
            neurons[point] = neuron
            of_class[neuron], of_class[:, point] = -np.inf, -np.inf
    return chosen


def holders(strengths: Float[np.ndarray, "class neuron point"]) -> Int[np.ndarray, "class point"]:
    """The strongest neuron of each fact."""
    return strengths.argmax(1)


def held_by_one(strengths: Float[np.ndarray, "class neuron point"]) -> Bool[np.ndarray, "class point"]:
    """Whether one neuron of the class answers to the fact, and that neuron to no other fact of its class."""
    answers = strengths > HELD * strengths.max(1, keepdims=True)  # [class neuron point]
    alone = answers.sum(1) == 1
    busy = (answers.sum(2) > 1)[:, :, None] & answers
    return alone & ~busy.any(1)


@dataclass(frozen=True)
class Shape:
    """The weights of the facts' strongest neurons in units of B, averaged over facts (equations 17 and 18)."""

    strength: float
    """(V(g) + V(y)) / 2, 1 in Theorems B.1 A and C.1 A."""
    element: float
    """V(g) of the fiber."""
    point: float
    """V(y)."""
    confounder: float
    """|V(g) + V(y')| / 2 and |V(g') + V(y)| / 2 for another point, or an element outside the fiber: the mean, 0."""
    unrelated: float
    """(V(g') + V(y')) / 2 with both, -1 in Theorem B.1 C."""
    runner_up: float
    """The strength of the second strongest neuron of the class, 0 (D)."""

    @property
    def ratio(self) -> float:
        """V(g) over V(y): 1 in Theorem B.1 E, C_alpha in Theorem C.1 C."""
        return self.element / self.point


def shape(found: Features, bound: float) -> Shape:
    """The shape of the strongest neurons; `bound` is B."""
    strengths = found.strengths
    n_classes, _, n_points = strengths.shape
    classes, points = (index.ravel() for index in np.indices((n_classes, n_points)))
    neurons = holders(strengths)[classes, points]
    fiber = found.fibers[classes, points]  # [fact element]
    at_point = np.eye(n_points, dtype=bool)[points]  # [fact point]
    elements, values = found.elements[classes, neurons] / bound, found.points[classes, neurons] / bound
    sums = (elements[:, :, None] + values[:, None, :]) / 2  # [fact element point]
    inside, own = fiber[:, :, None], at_point[:, None, :]
    second = np.sort(strengths, axis=1)[:, -2] if strengths.shape[1] > 1 else np.zeros((n_classes, n_points))
    return Shape(
        strength=float(sums[inside & own].mean()),
        element=float(elements[fiber].mean()),
        point=float(values[at_point].mean()),
        confounder=float(np.abs(sums[inside ^ own]).mean()),
        unrelated=float(sums[~inside & ~own].mean()),
        runner_up=float(second.mean() / bound),
    )


def imbalance(action: GroupAction) -> float:
    """C_alpha of Theorem C.1 C, what V(g) / V(y) should be: 1 if the action is simply transitive.

    Gradient descent adds to V(y) what it adds to the V(g) of a fiber together, and takes from V(g') and V(y) alike
    for a wrong pair; the sums of wrong pairs end at zero. Solving for both gives this ratio.
    """
    n_points, fiber = action.n_points, action.n_elements / action.n_points
    return (1 + fiber * (n_points - 1)) / (fiber + n_points - 1)
