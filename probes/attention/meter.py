"""Which head looks where the answer comes from? Every head of a hooked model against a dependency mask.

Patterns are reduced inside the hooks, layer by layer and batch by batch, and never kept. Only steps (supervised
queries) count, and the query's own position is left out of the mask: the residual stream carries it anyway.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from probes.attention.dependence import dependency_mass, sink_mass, top1_hit, without_self
from probes.attention.entropy import normalised_entropy, row_entropy
from probes.hooked.points import Hooked, Hooks, n_layers, pattern_name, visible_keys


@dataclass(frozen=True)
class AttentionProbe:
    """Means over inputs. With layers of different numbers of heads the missing ones are NaN."""

    dependency_mass: Float[Tensor, "layer head step"]
    """Attention on the keys that the step depends on, in [0, 1]."""
    top1_hit: Float[Tensor, "layer head step"]
    """Share of inputs at which the most attended key is one of them."""
    row_entropy: Float[Tensor, "layer head step"]
    """Normalised entropy of the step's row, in [0, 1]."""
    sink_mass: Float[Tensor, "layer head step"]
    """Attention on the first key."""
    most_mass: Float[Tensor, "layer head step"]
    """Share of inputs at which this head, of all, has the most mass on the step's keys; sums to 1 over heads."""
    n_inputs: int

    def assignment(self, share: float = 0.5) -> Bool[Tensor, "layer head step"]:
        """Which head serves which step: its top-1 key is a dependency on more than `share` of the inputs."""
        return self.top1_hit > share

    def steps_served(self, share: float = 0.5) -> Float[Tensor, "layer head"]:
        """The share of steps that each head serves."""
        return self.assignment(share).double().mean(-1)


class AttentionMeter:
    """Collects batches of a model's attention; `result` is the probe so far."""

    def __init__(self, model: Hooked) -> None:
        self.model = model
        self.n_inputs = 0
        self._sums: Tensor | None = None

    @torch.no_grad()
    def update(
        self,
        inputs: Shaped[Tensor, "batch *input"],
        dependencies: Bool[Tensor, "batch query key"],
        steps: Int[Tensor, "step"],
        causal: bool = True,
    ) -> None:
        """Runs `inputs` and adds what every head does at `steps`."""
        mask = without_self(dependencies)[:, steps]
        visible = visible_keys(self.model, mask.shape[-1], causal, steps.device)[steps]
        layers: list[Tensor] = []

        def measure(pattern: Tensor, hook: object) -> None:
            at_steps = pattern[:, :, steps].double()
            entropy = normalised_entropy(row_entropy(at_steps), visible)
            measured = (dependency_mass(at_steps, mask), top1_hit(at_steps, mask), entropy, sink_mass(at_steps))
            layers.append(torch.stack([values.double() for values in measured]))

        hooks: Hooks = [(pattern_name(layer), measure) for layer in range(n_layers(self.model))]
        self.model.run_with_hooks(inputs, fwd_hooks=hooks)
        self._add(_padded(layers), len(inputs))

    def _add(self, measured: Float[Tensor, "layer measure batch head step"], n: int) -> None:
        mass = measured[:, 0].nan_to_num(nan=-1.0)  # [layer batch head step]
        by_head = mass.transpose(0, 1).flatten(1, 2)  # [batch layer*head step]
        best = torch.nn.functional.one_hot(by_head.argmax(1), by_head.shape[1]).double().sum(0).T
        sums = torch.cat([measured.sum(2), best.view(len(mass), 1, -1, mass.shape[-1])], dim=1)
        self._sums = sums if self._sums is None else self._sums + sums
        self.n_inputs += n

    def result(self) -> AttentionProbe:
        """The means over all inputs so far."""
        if self._sums is None:
            raise ValueError("no attention was measured: call `update` with at least one batch")
        means = (self._sums / self.n_inputs).unbind(1)
        return AttentionProbe(*means, n_inputs=self.n_inputs)


def _padded(layers: list[Float[Tensor, "measure batch _ step"]]) -> Float[Tensor, "layer measure batch head step"]:
    most = max(layer.shape[2] for layer in layers)
    whole = [torch.nn.functional.pad(layer, (0, 0, 0, most - layer.shape[2]), value=torch.nan) for layer in layers]
    return torch.stack(whole)
