"""What do the probes say of a trained toy model? Any task's mask and states, turned into the probes' arguments."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from probes.attention.dependence import without_self
from probes.attention.meter import AttentionMeter, AttentionProbe
from probes.hooked.causal import answer_margin, knock_out, random_keys, unchanged
from probes.hooked.edits import Read
from probes.hooked.linear import LinearProbe, linear_probe
from probes.hooked.points import Hooked, residual_names
from probes.hooked.stream import ActivationStream
from toy_models.engine.evaluation import chunks
from toy_models.engine.forward import Reader, next_token_logits
from toy_models.task import Batch, Task, intermediate_states, is_causal

TYPES = 16
"""The control task labels windows of tokens: as many tokens as make this many types. A single token of a vocabulary
of two would have no more types than labels, and every representation holds it."""


def read_margins(batch: Batch, read: Reader = next_token_logits) -> Read:
    """The margin of the right answer at every supervised position, from the model's output by way of `read`."""
    steps, answers = batch.supervised, batch.answers
    return lambda output: answer_margin(read(output, steps), answers)


def attention_probe(model: Hooked, task: Task, batch: Batch) -> AttentionProbe:
    """Every head at the supervised positions against the task's dependency mask."""
    meter = AttentionMeter(model)
    for part in chunks(batch):
        meter.update(part.inputs, task.dependencies(part), part.supervised, is_causal(task))
    return meter.result()


@dataclass(frozen=True)
class StateProbe:
    """The linear probe of one intermediate state at one hook point and position."""

    hook: str
    position: int
    state: int
    probe: LinearProbe


def state_probes(
    model: Hooked,
    untrained: Hooked,
    task: Task,
    batch: Batch,
    rng: np.random.Generator,
    positions: Sequence[int] | None = None,
) -> Iterator[StateProbe]:
    """A probe for every state, position and point of the residual stream; one hook point is kept at a time.

    A state that is the same in every input is passed over: there is nothing to decode.
    """
    states = intermediate_states(task, batch).cpu().numpy()
    varying = [state for state in range(states.shape[1]) if len(np.unique(states[:, state])) > 1]
    groups = np.arange(len(batch))
    names = residual_names(model)
    streams = (ActivationStream(one, batch.inputs, names) for one in (model, untrained))
    for (name, features), (_, blank) in zip(*streams, strict=True):
        for position in range(features.shape[1]) if positions is None else positions:
            types = token_windows(batch.inputs, position, task.d_vocab)
            for state in varying:
                place = features[:, position], blank[:, position], states[:, state], types, groups
                yield StateProbe(name, position, state, linear_probe(*place, rng))


def token_windows(
    inputs: Shaped[Tensor, "batch pos *features"], position: int, d_vocab: int
) -> Int[np.ndarray, "batch"]:
    """The number of the window of tokens that ends at `position`, long enough for `TYPES` of them.

    Where a position holds more than one token, the number of what it holds.
    """
    if inputs.ndim > 2:
        held = inputs[:, position].flatten(1).cpu().numpy()
        return np.unique(held, axis=0, return_inverse=True)[1].reshape(-1)
    length = max(1, int(np.ceil(np.log(TYPES) / np.log(d_vocab))))
    window = inputs[:, max(0, position + 1 - length) : position + 1].cpu().numpy()
    return window @ d_vocab ** np.arange(window.shape[1])


@dataclass(frozen=True)
class StepKnockouts:
    """Margins of every step when the keys that step number `hidden` needs cannot be attended to, in any head."""

    clean: Float[Tensor, "batch step"]
    at_step: Float[Tensor, "hidden batch step"]
    """Hidden from that step alone."""
    everywhere: Float[Tensor, "hidden batch step"]
    """Hidden from every other position, and with them the token at which that step stands."""
    random: Float[Tensor, "hidden batch step"]
    """As many keys that the step does not need, hidden from that step alone."""


def step_knockouts(
    model: Hooked, task: Task, batch: Batch, generator: torch.Generator, reader: Reader = next_token_logits
) -> StepKnockouts:
    """Knocks out the dependencies of each step in turn; a step's own position is never hidden from it."""
    read = read_margins(batch, reader)
    needed = task.dependencies(batch)
    eligible = (~needed if not is_causal(task) else ~needed & torch.ones_like(needed[0]).tril()) & _others(needed)
    at_step = _at_each_step(without_self(needed), batch.supervised)
    columns = needed[:, batch.supervised].transpose(0, 1)[:, :, None] & _others(needed)  # [hidden batch query key]
    instead = torch.stack([random_keys(keys, eligible, generator) for keys in at_step])
    return StepKnockouts(
        clean=unchanged(model, batch.inputs, read),
        at_step=knock_out(model, batch.inputs, read, at_step),
        everywhere=knock_out(model, batch.inputs, read, columns),
        random=knock_out(model, batch.inputs, read, instead),
    )


def _others(mask: Bool[Tensor, "batch query key"]) -> Bool[Tensor, "query key"]:
    return ~torch.eye(mask.shape[-1], dtype=torch.bool, device=mask.device)


def _at_each_step(
    needed: Bool[Tensor, "batch query key"], steps: Int[Tensor, "step"]
) -> Bool[Tensor, "step batch query key"]:
    """For each step the mask with that query's row alone."""
    rows = torch.nn.functional.one_hot(steps, needed.shape[1]).bool()  # [step query]
    return needed & rows[:, None, :, None]
