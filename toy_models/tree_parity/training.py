"""How is the theory model trained? Theorem 7 and plain SGD (kim2024), for a whole batch of seeds at once.

Theorem 5 needs no loop: its one update is -eta times the first of `tree_gradient.forced_gradients`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from toy_models.tree_parity.filter import Filter
from toy_models.tree_parity.forest import Forest, Mask, Sample
from toy_models.tree_parity.gradient import (
    Oracle,
    Weights,
    chain_gradient,
    chain_part,
    forced_gradients,
    forced_part,
    through_softmax,
)
from toy_models.tree_parity.links import Link
from toy_models.tree_parity.theory_model import attention, generate

REGIMES = ("direct", "end_to_end", "teacher_forcing", "filter")
"""What SGD is told: the root alone of the chain that the model writes; every node of that chain; every node, the true
chain being given; every node of the model's own chain, as far as the filter lets it through."""


def solve_levels(
    forest: Forest,
    sample: Sample,
    augmented: Sample,
    *,
    eta: float,
    link: Link,
    check: Filter | None,
    rounding: bool = True,
    oracle: Oracle | None = None,
    generators: Sequence[torch.Generator] = (),
) -> Iterator[Weights]:
    """Theorem 7: the weights after each of log2 k updates of the end-to-end loss (4), starting from zero.

    `check` is the filter, None for none; `rounding` takes every weight to the nearest integer after each update;
    `oracle` adds its error to every gradient, with `generators` if it is random.
    """
    shown = augmented.values(0, augmented.n)
    weights = forest.no_weights()
    for _ in forest.levels:
        opened = check.opened(weights, forest, shown, link) if check else None
        gradient = chain_gradient(weights, forest, sample, link, "level", opened)
        weights = weights - eta * (oracle(gradient, forest, generators) if oracle else gradient)
        weights = weights.round() if rounding else weights
        yield weights


def clear_rate(forest: Forest, sample: Sample, link: Link, low: float, high: float) -> float:
    """The learning rate in [low, high] at which every level's weights land farthest from a half-integer.

    Theorem 7 asks that no leading term lands on one, where rounding would tell two children apart. The leading term
    of level l is eta times the mean gradient of its children, measured on a pilot sample with the true keys; the
    distance counts in standard deviations of the children's gradients, which grow with eta too.
    """
    start = forest.no_weights()
    (_, gradient), *_ = forced_gradients(start, forest, sample, link, "level")
    children = -gradient.gather(-1, forest.children)
    by_level = [children[:, level].flatten() for level in forest.levels]
    leading, spread = (torch.stack([statistic(part) for part in by_level]) for statistic in (torch.mean, torch.std))
    candidates = torch.linspace(low, high, 1001, device=leading.device)[:, None]
    landed = candidates * leading
    distance = (landed - landed.floor() - 0.5).abs()
    return float(candidates[(distance / (candidates * spread)).amin(-1).argmax()])


@dataclass(frozen=True)
class Progress:
    """Where a run of SGD stands, with which weights and root loss on the test inputs."""

    update: int
    """How many gradient updates were made."""
    weights: Weights
    loss: Float[Tensor, "seed"]
    """Half the squared error of the root, averaged over inputs: 0 if solved, 0.5 for the answer 0."""
    accuracy: Float[Tensor, "seed"]
    """The share of inputs whose root has the right sign."""


def sgd(
    forest: Forest,
    regime: str,
    test: Float[Tensor, "seed pos sample"],
    generators: Sequence[torch.Generator],
    *,
    eta: float,
    link: Link,
    n_updates: int,
    batch_size: int,
    eval_every: int,
    check: Filter,
    n_augmented: int,
    start: Weights | None = None,
) -> Iterator[Progress]:
    """SGD on fresh batches in one of the REGIMES, evaluated at the start and every `eval_every` updates.

    All chains have the level mask, so that the regimes differ only in what they are told. `start` are the first
    weights, zero if None, as in the paper. From zero, told the root alone, all nodes of a level have one value and
    one gradient for ever, so that no parity of four bits or more is ever reached: give `direct` random ones.
    """
    if regime not in REGIMES:
        raise ValueError(f"unknown regime {regime!r}; the regimes are {', '.join(REGIMES)}")
    device = forest.children.device
    shown = Sample.draw(forest.d, n_augmented, generators).to(device).values(0, n_augmented)
    weights = forest.no_weights() if start is None else start
    for update in range(n_updates + 1):
        pattern = attention(weights, forest.visible("level"))
        opened = check.opened(weights, forest, shown, link) if regime == "filter" else None
        if update % eval_every == 0:
            root = generate(test[:, : forest.d], pattern, forest.levels, link, opened)[0][:, -1]
            yield Progress(update, weights, *root_scores(root, test[:, -1]))
        values = forest.grown(Sample.draw(forest.d, batch_size, generators).to(device).values(0, batch_size))
        if regime == "teacher_forcing":
            _, gradient = forced_part(values[:, :-1], values[:, forest.d :], pattern, link)
        else:
            _, gradient = chain_part(values, pattern, forest.levels, link, opened, root_only=regime == "direct")
        weights = weights - eta / batch_size * through_softmax(pattern, gradient)


def root_scores(
    root: Float[Tensor, "seed sample"], truth: Float[Tensor, "seed sample"]
) -> tuple[Float[Tensor, "seed"], Float[Tensor, "seed"]]:
    """Half the mean squared error, and the share of right signs."""
    return (root - truth).square().mean(-1) / 2, (root.sign() == truth).float().mean(-1)


@dataclass(frozen=True)
class Answers:
    """How a seed batch does on test inputs by rollout, and where it looks."""

    accuracy: Float[Tensor, "seed"]
    """The share of inputs whose root has the right sign."""
    sup_error: Float[Tensor, "seed"]
    """The largest error of the root over the inputs, in [0, 2]."""
    level_accuracy: Float[Tensor, "seed level"]
    """The share of inputs for which every node of the level has the right sign."""
    child_mass: Float[Tensor, "seed"]
    """The attention on the two children, the least over nodes."""
    imbalance: Float[Tensor, "seed"]
    """The difference between the attention on the two children, the largest over nodes; 0 if they are equal."""


def answers(
    weights: Weights, forest: Forest, test: Float[Tensor, "seed pos sample"], link: Link, mask: Mask
) -> Answers:
    """The model's own chain on `test`, compared with the true one."""
    pattern = attention(weights, forest.visible(mask))
    chain, _ = generate(test[:, : forest.d], pattern, forest.stages(mask), link)
    right = chain[:, forest.d :].sign() == test[:, forest.d :]
    on_children = pattern.gather(-1, forest.children)
    return Answers(
        accuracy=right[:, -1].float().mean(-1),
        sup_error=(chain[:, -1] - test[:, -1]).abs().amax(-1),
        level_accuracy=torch.stack([right[:, level].all(1).float().mean(-1) for level in forest.levels], -1),
        child_mass=on_children.sum(-1).amin(-1),
        imbalance=on_children.diff(dim=-1).abs().squeeze(-1).amax(-1),
    )
