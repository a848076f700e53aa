"""Which sums over a batch do the lemmas of wen2024 bound? The auxiliary statistics of its Table 1, divided by B.

Positions count from 0 here and from 1 in the paper: i of the paper is position + 1. Only supervised steps i > n and
keys j <= i are kept. The table has i in [n + k], but at i = n the next token is always 0, so that delta and alpha are
of order B there and Lemma 7 would be false; and at j = i + 1, the token to be predicted, alpha is of order B too.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from toy_models.parity.span import SpanBlock
from toy_models.parity.task import Parity
from toy_models.parity.three_steps import steps_of
from toy_models.task import Batch

Cell = Float[Tensor, "cells slots"]
"""By (step, its token), step-major, and (key, its token), position-major."""


@dataclass(frozen=True)
class Statistics:
    """Table 1 for one batch and one draw of nu, everything that counts sequences divided by B."""

    delta: Float[Tensor, "cells"]
    alpha: Cell
    mean_alpha: Cell
    """alpha's expectation, alpha bar."""
    secret: Cell
    """1 where j = S[i]."""
    beta: Float[Tensor, "slots"]
    psi: Float[Tensor, "kinds slots"]
    gamma: Float[Tensor, "cells cells"]
    zeta: Cell


def statistics(block: SpanBlock, batch: Batch, m: int) -> Statistics:
    """Table 1. `block` gives the signs of nu."""
    task = block.task
    alpha, delta = _correlations(task, batch)
    seen, secret = _seen(task), _secret(task)
    per_key = (alpha * seen * (1 - secret)) / _places(task)[:, None]
    together = _active_together(block)
    expected = (0.5 + 0.5 * torch.eye(2 * task.k).double()) * m
    return Statistics(
        delta=delta,
        alpha=alpha * seen,
        mean_alpha=expected_alpha(task),
        secret=secret,
        beta=per_key.sum(0),
        psi=block.positive.double() @ per_key,
        gamma=(together - expected) / _places(task),
        zeta=together @ per_key,
    )


def _correlations(task: Parity, batch: Batch) -> tuple[Cell, Float[Tensor, "cells"]]:
    """sum over sequences of (-1)^b[i+1] 1(b[j] = b_1, b[i] = b_2), and of (-1)^b[i+1] 1(b[i] = b), over B."""
    sign = (1 - 2 * batch.answers).double()
    own = batch.inputs[:, task.n :]
    at_step = torch.stack([sign * (own == 0), sign * (own == 1)], -1).flatten(1)  # [batch, cells]
    present = torch.stack([batch.inputs == 0, batch.inputs == 1], -1).flatten(1).double()
    return at_step.T @ present / len(batch), at_step.mean(0)


def expected_alpha(task: Parity) -> Cell:
    """(-1)^(b_1 + b_2) / 4 at j = S[i]; before the first step only the parity 0 occurs: (-1)^b_1 1(b_2 = 0) / 2."""
    found = torch.zeros(task.k, 2, task.n_ctx, 2).double()
    for step, secret in enumerate(task.secret):
        found[step, :, secret] = torch.tensor([[0.25, -0.25], [-0.25, 0.25]]).double()
    found[0, :, task.secret[0]] = torch.tensor([[0.5, -0.5], [0.0, 0.0]]).double()
    return found.flatten(0, 1).flatten(1)


def _secret(task: Parity) -> Cell:
    found = torch.zeros(task.k, 2, task.n_ctx, 2).double()
    found[torch.arange(task.k), :, list(task.secret)] = 1
    return found.flatten(0, 1).flatten(1)


def _seen(task: Parity) -> Cell:
    seen = torch.arange(task.n_ctx) <= steps_of(task)[:, None]
    return seen.double().repeat_interleave(2, 0).repeat_interleave(2, 1)


def _places(task: Parity) -> Float[Tensor, "cells"]:
    """i of the paper, by cell."""
    return (steps_of(task) + 1).double().repeat_interleave(2)


def _active_together(block: SpanBlock) -> Float[Tensor, "cells cells"]:
    """How many of the 2m neurons have nu > 0 at both of two cells."""
    on = block.positive.double()
    return on.T @ (on * block.count[:, None])


def lemma_7(found: Statistics, n: int, k: int, m: int, batch: float, delta: float) -> dict[str, float]:
    """Each statistic over its bound in Lemma 7, with B = `batch`.

    `alpha_secret` and `alpha_other` are j = S[i] and j != S[i]; the lemma prints its bound times 1(j = S[i]), so for
    `alpha_other` it says 0, and what is given here is the ratio to the bound without the indicator.
    """
    log, wide, narrow = (math.log(c / delta) for c in (300 * n * batch, 300 * m * n * batch, 200 * n))
    off = (found.alpha - found.mean_alpha).abs() * batch
    return {
        "delta": found.delta.abs().max().item() * batch / math.sqrt(batch * log),
        "alpha_secret": (off * found.secret).max().item() / math.sqrt(2 * batch * log),
        "alpha_other": (off * (1 - found.secret)).max().item() / math.sqrt(2 * batch * log),
        "beta": found.beta.abs().max().item() * batch * n / math.sqrt(2 * batch * k * log),
        "psi": found.psi.abs().max().item() * batch * n / (2 * math.sqrt(batch * k * wide)),
        "gamma": found.gamma.abs().max().item() * n / math.sqrt(2 * m * narrow),
        "zeta": found.zeta.abs().max().item() * batch * n / (4 * m * math.sqrt(k * batch * wide)),
    }


def kappa_1(found: Statistics, task: Parity, m: int, lr: float, *, mended: bool) -> Float[Tensor, "cells slots"]:
    """kappa_{1,i,b} of Lemma 18, as coefficients of the embeddings.

    As printed, or mended: the first step's alpha does not cancel over b_2, because only the parity 0 occurs before
    it, and Lemma 14's alpha bar is the batch's alpha.
    """
    places = _places(task)[:, None]
    alpha = found.alpha * found.secret if mended else found.mean_alpha
    first = lr / (8 * m) * alpha / places
    second = lr / (4 * m**2) * (found.gamma @ alpha)
    third = lr / (4 * m**2) * found.zeta
    left_over = lr / (8 * m) * (alpha / places).sum(0) if mended else 0.0
    return first + second + third + left_over


def true_kappa(block: SpanBlock) -> Float[Tensor, "cells slots"]:
    """kappa_{t,i,b} = -sum_r 1(nu_{r,i,b} > 0) h_r W_{r,d+1:2d}, as coefficients of the embeddings."""
    return -(block.positive.double() * block.weight[:, None]).T @ block.attended
