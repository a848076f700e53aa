"""What if training data are a finite set that is gone through again and again? Inputs, and the order of epochs."""

import torch
from jaxtyping import Int
from torch import Tensor

from toy_models.task import Task


class FiniteSet:
    """A training set; its inputs and the order of each epoch follow from the seed, so it has no state to save."""

    def __init__(self, task: Task, n: int, batch_size: int, seed: int) -> None:
        if n < batch_size:
            raise ValueError(
                f"a set of {n} inputs has no whole batch of batch_size={batch_size}; take more inputs or smaller "
                "batches"
            )
        self.inputs = task.sample(n, torch.Generator().manual_seed(seed + 1)).inputs
        self.batch_size, self.seed = batch_size, seed
        self.epoch, self.order = -1, torch.arange(n, device="cpu")

    def rows(self, update: int) -> Int[Tensor, "batch"]:
        """Which of the inputs an update sees; those of an epoch that do not fill a batch are left out of it."""
        epoch, place = divmod(update, len(self.inputs) // self.batch_size)
        if epoch != self.epoch:
            generator = torch.Generator().manual_seed(self.seed + 2 + epoch)
            self.epoch, self.order = epoch, torch.randperm(len(self.inputs), generator=generator)
        return self.order[place * self.batch_size : (place + 1) * self.batch_size]
