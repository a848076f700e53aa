"""Has the model learned anything? The accuracy of every step against the best constant guess."""

from dataclasses import dataclass

import torch

from probes.hooked.points import Hooked
from toy_models.engine.evaluation import teacher_forced_logits
from toy_models.engine.forward import HookedForward, Reader
from toy_models.task import Batch

LEVEL = 0.001
"""A step is above chance if guessing would be right as often with less than this probability, over all steps."""


@dataclass(frozen=True)
class StepAccuracy:
    """Accuracy on a batch, teacher-forced, by step."""

    accuracy: tuple[float, ...]
    chance: tuple[float, ...]
    """The share of the step's most frequent answer: what a constant guess has."""
    above: tuple[bool, ...]
    """Whether the step is clearly above chance."""
    n_inputs: int

    def sentences(self) -> list[str]:
        """What a reader should know before any probe: the accuracy, and a warning if steps were not learned."""
        n_steps, mean = len(self.accuracy), sum(self.accuracy) / len(self.accuracy)
        chance = sum(self.chance) / n_steps
        found = [f"accuracy {mean:.3f} by step, chance {chance:.3f} ({n_steps} steps, {self.n_inputs} test inputs)"]
        missed = [str(step + 1) for step, above in enumerate(self.above) if not above]
        if len(missed) == n_steps:
            found.append(
                "WARNING: the model is at chance, it has learned nothing: what follows describes an untrained "
                "mechanism, and a p-value says only that an effect is not exactly zero"
            )
        elif missed:
            found.append(f"WARNING: at chance at the steps {', '.join(missed)} of {n_steps}: these were not learned")
        return found


@torch.no_grad()
def step_accuracy(model: Hooked, read: Reader, batch: Batch) -> StepAccuracy:
    """How often every step is right, and how often a constant guess would be."""
    from scipy.stats import binom  # here because it takes most of a second

    right = teacher_forced_logits(HookedForward(model, read=read), batch).argmax(-1) == batch.answers
    n = len(batch)
    counts = [int(hits) for hits in right.sum(0)]
    chance = [int(answers.unique(return_counts=True)[1].max()) / n for answers in batch.answers.T]
    tails = [float(binom.sf(hits - 1, n, guess)) for hits, guess in zip(counts, chance)]
    return StepAccuracy(
        accuracy=tuple(hits / n for hits in counts),
        chance=tuple(chance),
        above=tuple(
            tail < LEVEL / len(tails) or hits == n * guess == n for tail, guess, hits in zip(tails, chance, counts)
        ),
        n_inputs=n,
    )
