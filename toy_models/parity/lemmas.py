"""How large are the quantities that the lemmas of wen2024 (appendix B.4) bound? Each over its bound: at most 1 holds.

Lemma 10: neurons at the start. 16: what the first step changes. 18, 19: what the hidden weights know after it. 21,
22: scores and attention after the second. 24, 25, 26: attention, weights and outputs after the third. 27: the range
in which the hinge loss is linear. What a lemma says of any input is bounded over all, the chain's tokens as free.
"""

import math
from dataclasses import dataclass

import torch

from toy_models.parity.every_input_checks import distance_to_one_hot, margin_range, reachable
from toy_models.parity.span import SpanBlock, updated
from toy_models.parity.statistics import expected_alpha, kappa_1, lemma_7, statistics, true_kappa
from toy_models.parity.task import Parity
from toy_models.parity.three_steps import assumption_2, steps_of
from toy_models.task import Batch


@dataclass(frozen=True)
class Settings:
    """The hyperparameters of Assumption 2, whatever their values."""

    d_model: int
    m: int
    batch: float
    """B in the bounds; with enumerated gradients any B, since their sampling error is none."""
    eps: float
    delta: float
    lr: float
    """eta_0 = eta_1."""
    lr_2: float


def proof_settings(n: int, k: int, batch: int, eps: float, delta: float) -> Settings:
    """The smallest d and m for which the proofs' inequalities hold, with eta_0 at its upper end in Lemma 5.4.

    m: Lemma 5.6. d, a power of two: sqrt(4 k log(100 B m / delta) / d) < 1/100 (Lemma 10), and
    sqrt(log(100 n d / delta) / d) / 4 + k log(100 n d / delta) / d <= 1/2000 (Lemma 21, R). eta_2 is Lemma 25's
    4 eps m / 3; Assumption 2 has 4 k eps / 3, half of that at its m = 2k. Not asked for: B < n k and d < n (Lemma
    5.1), which no affordable n allows beside these, 5.7, and the constants of Lemmas 15, 21 (6) to (8) and 25.
    """
    rate = eps * min(3 * math.sqrt(batch) / (80 * math.sqrt(math.log(300 * n * batch / delta))), n / 120)
    m = math.floor(40 * math.log(n) * 256 * n**2 / rate**2) + 1
    d_model = 2**10
    while not _wide_enough(n, k, d_model, m, batch, delta):
        d_model *= 2
    return Settings(d_model, m, float(batch), eps, delta, lr=m * rate, lr_2=4 * eps * m / 3)


def assumed_settings(n: int, k: int, eps: float, delta: float) -> Settings:
    """Assumption 2's own formulas, d rounded up. Its B, of 10^21, is met by enumerated gradients alone."""
    asked = assumption_2(n, k, delta, eps)
    return Settings(
        math.ceil(asked["d_model"]), round(asked["m"]), asked["batch"], eps, delta, asked["lr_0"], asked["lr_2"]
    )


def _wide_enough(n: int, k: int, d_model: int, m: int, batch: int, delta: float) -> bool:
    log = math.log(100 * n * d_model / delta)
    start = math.sqrt(4 * k * math.log(100 * batch * m / delta) / d_model)
    return start < 0.01 and math.sqrt(log / d_model) / 4 + k * log / d_model <= 1 / 2000


def bounds_over(block: SpanBlock, batches: tuple[Batch, ...], at: Settings) -> dict[str, float]:
    """Takes three steps, one for each of three batches, and gives every quantity over its bound."""
    task, n = block.task, block.task.n
    first, largest_0 = updated(block, batches[0], at.lr)
    second, largest_1 = updated(first, batches[1], at.lr)
    third, largest_2 = updated(second, batches[2], at.lr_2)
    found = {f"7_{name}": value for name, value in _all_7(block, batches, at).items()}
    found |= _start(block, at) | _after_first(block, first, batches[0], at) | _scores(second, at)
    for name, after, power in (("22", second, 10), ("24", third, 9)):
        found[name] = 2 * distance_to_one_hot(after.table(), task) * n**power  # the last line of Lemma 32's proof
    low, high = margin_range(third.table(), third.weight, task)
    centre = at.eps / 3
    found["26"] = max(centre - low, high - centre) / centre
    found["27"] = max(largest_0, largest_1, largest_2) / (at.eps / 3)
    return found | _output_weights(third, at)


def _all_7(block: SpanBlock, batches: tuple[Batch, ...], at: Settings) -> dict[str, float]:
    each = [
        lemma_7(statistics(block, batch, at.m), block.task.n, block.task.k, at.m, at.batch, at.delta)
        for batch in batches
    ]
    return {name: max(one[name] for one in each) for name in each[0]}


def _start(block: SpanBlock, at: Settings) -> dict[str, float]:
    """Lemma 10: <W_{r,1:d}, e_{i,b}> is nu_{r,i,b} up to eps/100, so its sign is nu's."""
    own = block.table().own.flatten(0, 1).T
    nu = at.eps * (2.0 * block.positive - 1)
    wrong = ((own > 0) != block.positive).double().mean().item()
    return {"10": (own - nu).abs().max().item() / (at.eps / 100), "10_wrong": wrong}


def _after_first(before: SpanBlock, after: SpanBlock, batch: Batch, at: Settings) -> dict[str, float]:
    """Lemmas 16, 18 and 19, and Lemma 18 mended."""
    task = before.task
    wrong = ((after.table().own.flatten(0, 1).T > 0) != before.positive).double()
    wrong = wrong[:, reachable(task).flatten()].mean().item()
    stats, kappa, signal = statistics(before, batch, at.m), true_kappa(after), _signal(task, at)
    return lemma_19(after, at) | {
        "16": _largest_change(before, after) / (3 * at.eps / 80),
        "16_wrong": wrong,
        "18": (kappa - kappa_1(stats, task, at.m, at.lr, mended=False)).abs().max().item() / signal,
        "18_mended": (kappa - kappa_1(stats, task, at.m, at.lr, mended=True)).abs().max().item() / signal,
    }


def _signal(task: Parity, at: Settings) -> float:
    """The smallest |kappa| that a secret bit should have after one step."""
    return at.lr / (32 * at.m * (task.n + task.k))


def lemma_19(after: SpanBlock, at: Settings) -> dict[str, float]:
    """Lemma 19 after one step, as printed and with the first step's term, and its bound over the signal it bounds."""
    task, n, k = after.task, after.task.n, after.task.k
    bound = 10 * at.lr / (at.m * n) * math.sqrt(n * k / (at.batch * at.d_model))
    bound *= math.log(300 * at.m * n * at.batch / at.delta)
    places = (steps_of(task) + 1).double().repeat_interleave(2)[:, None]
    expected = at.lr / (8 * at.m) * expected_alpha(task) / places
    off = true_kappa(after) @ after.gram - expected
    return {
        "19": off.abs().max().item() / bound,
        "19_mended": (off - expected.sum(0)).abs().max().item() / bound,
        "19_bound_over_signal": bound / _signal(task, at),
    }


def _largest_change(before: SpanBlock, after: SpanBlock) -> float:
    """max over inputs, steps and neurons of |<W^1 - W^0, [E(b)[i], A(E(b))[i]]>|, attention being uniform."""
    task, n = before.task, before.task.n
    own = (after.table().own - before.table().own).permute(2, 0, 1)  # [kind step token]
    reads = (after.table().attended - before.table().attended).T.unflatten(-1, (task.n_ctx, 2))
    reads = reads.clone()
    reads[:, n, 1] = reads[:, n, 0]  # the end token is always 0
    found = 0.0
    for extreme in (reads.amax(-1), reads.amin(-1)):
        before_step = extreme.cumsum(-1)[:, n - 1 : n + task.k - 1]  # keys before each step
        change = own + (before_step[..., None] + reads[:, n:]) / (steps_of(task) + 1)[:, None]
        found = max(found, change[:, reachable(task)].abs().max().item())
    return found


def _scores(block: SpanBlock, at: Settings) -> dict[str, float]:
    """Lemma 21: at least eta^2 / (256 m n^2) on S[i], at most half of it elsewhere; for queries that occur.

    The query (n + 1, 1) is left out, where the lemma has all: it is never an input, and no step moves its scores.
    """
    task = block.task
    asked = at.lr**2 / (256 * at.m * task.n**2)
    scores = block.table().scores
    secret = torch.zeros(task.k, 2, task.n_ctx, 2, dtype=torch.bool)
    secret[torch.arange(task.k), :, list(task.secret)] = True
    occurs = reachable(task)[:, :, None, None] & scores.isfinite()
    lowest = scores[secret & occurs].min().item()
    others = scores[~secret & occurs].abs().max().item()
    return {"21_secret": asked / lowest if lowest > 0 else math.inf, "21_others": others / (asked / 2)}


def _output_weights(block: SpanBlock, at: Settings) -> dict[str, float]:
    """Lemma 25, and the same with the frequencies of the pairs of bits, 1/4 (1/2 at the first step)."""
    task = block.task
    reads = block.table().attended.unflatten(0, (task.n_ctx, 2))[list(task.secret)]  # [step token kind]
    on = block.positive.T.unflatten(0, (task.k, 2)).double()  # [step token kind]
    gains = on - on.flip(1)  # sign(nu_{r,i,b}) 1(nu_{r,i,0} nu_{r,i,1} < 0)
    side = block.h.sign()
    meant = gains / 4
    meant[0] = torch.stack([on[0, 0], -on[0, 0]]) / 2
    return {
        "25": (reads + side * gains * 2 * at.eps / 3).abs().max().item() / (at.eps / 300),
        "25_mended": (reads + side * meant * 2 * at.eps / 3).abs().max().item() / (at.eps / 300),
    }
