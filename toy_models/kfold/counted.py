"""What does Algorithm 1 of wang2025 learn from a very large sample? Any number of samples, where inputs are few.

M sequences with one labelled query each are M draws out of (N!)^k kN inputs, of which all that a gradient needs is
how often each was drawn. Multinomial counts make a step's cost that of one pass over all inputs, whatever M is; the
result has exactly the distribution of `curricula.stagewise` with one query a sequence and all matrices moved.
"""

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from toy_models.kfold.curricula import query_losses
from toy_models.kfold.gradients import labelled
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory


def drawn_shares(n_inputs: int, n_sequences: int, generator: np.random.Generator) -> Float[Tensor, "input"]:
    """How often each input was drawn, over the number of draws."""
    counts = generator.multinomial(n_sequences, np.full(n_inputs, 1 / n_inputs))
    return torch.from_numpy(counts / n_sequences)


def train_counted(
    model: KFoldTheory,
    task: KFold,
    values: Int[Tensor, "batch k n"],
    n_sequences: int,
    rate: float,
    generator: np.random.Generator,
) -> None:
    """Algorithm 1 as printed: in stage l one step of all W_KQ, then one of all readouts, on M fresh draws.

    `values` are all sequences. Stage l's loss reaches layers up to l alone, so only these have a gradient.
    """
    data = labelled(task, values)
    for stage in range(model.n_layers):
        shares = drawn_shares(len(values) * model.kn, n_sequences, generator).reshape(len(values), model.kn)
        matrices = [block.attn.W_KQ for block in model.blocks[: stage + 1]]
        for parameters in (matrices, [model.readout]):
            for parameter in model.parameters():
                parameter.requires_grad_(any(parameter is moved for moved in parameters))
            loss = (query_losses(model, data, [stage])[:, 0] * shares).sum()
            _step(parameters, torch.autograd.grad(loss, parameters), rate)


@torch.no_grad()
def _step(parameters: list[nn.Parameter], gradients: tuple[Tensor, ...], rate: float) -> None:
    for parameter, gradient in zip(parameters, gradients):
        parameter -= rate * gradient
