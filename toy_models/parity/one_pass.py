"""Does a small simplified block learn parity without CoT in one pass of SGD? The setting of wen2024, Theorem 2."""

import math

import torch

from toy_models.parity.every_input_checks import step_accuracy
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding
from toy_models.parity.theory_tables import tables
from toy_models.parity.three_steps import sgd_update


def random_block(task: Parity, d_model: int, m: int, generator: torch.Generator) -> SimplifiedBlock:
    """Gaussian weights: A of variance 1/d^2, W of variance 1/2d; h = +-1/sqrt(2m)."""
    if task.cot or d_model < 1 or m < 1:
        raise ValueError(f"a task without CoT, d_model and m of at least 1 are needed: {task}, {d_model}, {m}")
    side = torch.cat([torch.ones(m), -torch.ones(m)]).double()
    block = SimplifiedBlock(random_embedding(task.n_ctx, d_model, generator), side / math.sqrt(2 * m))
    with torch.no_grad():
        block.A.copy_(torch.randn(block.A.shape, generator=generator) / d_model)
        block.W.copy_(torch.randn(block.W.shape, generator=generator) / math.sqrt(2 * d_model))
    return block


def trained_in_one_pass(
    block: SimplifiedBlock, task: Parity, samples: int, batch: int, lr: float, generator: torch.Generator
) -> SimplifiedBlock:
    """The same block after SGD on fresh samples, the rate falling linearly to 0."""
    steps = max(1, samples // batch)
    for step in range(steps):
        sgd_update(block, task.sample(batch, generator), lr * (1 - step / steps))
    return block


def held_out_accuracy(block: SimplifiedBlock, task: Parity, size: int, generator: torch.Generator) -> float:
    """The share of fresh inputs answered rightly."""
    test = task.sample(size, generator)
    return step_accuracy(tables(block, test.supervised, test.inputs.shape[1]), block.h, test)[0]
