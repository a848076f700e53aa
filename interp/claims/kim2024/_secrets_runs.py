"""How is kim2024/thm2 measured? Variances over all secrets, and training under the oracle of the proof."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._runs import generators
from interp.claims.kim2024._thm2 import ORACLES, REVEALED
from interp.core.claim import Item
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    import torch

    from toy_models.tree_parity.direct import DirectModel, Parameters


def measure_spread(item: Item) -> pd.DataFrame:
    """The variance over secrets beside its bounds, at random weights and after training on one secret."""
    import torch

    from toy_models.tree_parity.direct import Adam, find_direct_model, of_seed, stacked
    from toy_models.tree_parity.secrets import every_input, parity, secrets

    p = item.parameters
    d, model = p["d"], find_direct_model(p["model"])
    weights = stacked(model, d, generators(p["seeds"], "weights"))
    bits, training = every_input(d), Adam(weights, rate=0.01)
    draws = generators(p["seeds"], "train")
    hidden = _one_secret(draws, secrets(d, d // 2))
    for _ in range(p["n_updates"]):
        seen = torch.stack([bits[torch.randint(2**d, (p["batch_size"],), generator=g)] for g in draws])
        training.follow(model, seen, parity(seen, hidden))
    tables = []
    for update, stage in ((0, weights), (p["n_updates"], training.now)):
        for place, seed in enumerate(p["seeds"]):
            found = _seed_spread(model, of_seed(stage, place), bits, p["powers"], generators([seed], "test")[0])
            tables += [
                table(
                    run=item.name, condition=p["model"], unit=str(seed), update=update, metric=metric, value=value,
                    setting=setting(d=d, judged=p["judged"], **where), scope="secrets",
                )
                for where, values in found
                for metric, value in values.items()
            ]  # fmt: skip
    return concat(tables)


def _seed_spread(model, weights, bits, powers, generator) -> "list[tuple[dict[str, int], dict[str, float]]]":
    """By k and n (0: all inputs): the variance over secrets, its bound, and for samples the largest correlation."""
    import torch

    from toy_models.tree_parity.direct import gradients
    from toy_models.tree_parity.secrets import (
        correlation,
        correlation_bound,
        input_shares,
        population_bound,
        sample_bound,
        secrets,
        spread,
        walsh,
    )

    d, found = bits.shape[1], []
    slopes = gradients(model, weights, bits)
    squares = slopes.square().sum(1)
    candidates = {k: secrets(d, k) for k in sorted({2, d // 2, d - 2})}
    transformed = walsh(slopes) / len(bits)
    for k, of in candidates.items():
        bound = population_bound(squares.mean().item(), len(of))
        found.append(({"k": k, "n": 0}, {"variance": spread(transformed, of).variance, "bound": bound}))
    for n in (d**power for power in powers):
        shares = input_shares(bits[torch.randint(len(bits), (n,), generator=generator)])
        transformed = walsh(shares[:, None] * slopes)
        for k, of in candidates.items():
            bound, largest = sample_bound(squares.max().item(), len(of), d, n), squares.max().item()
            values = {
                "variance": spread(transformed, of).variance,
                "bound": bound,
                "of_largest": bound / largest,
                "correlation": correlation(shares, d, k) / correlation_bound(d, n),
            }
            found.append(({"k": k, "n": n}, values))
    return found


def _one_secret(draws: "list[torch.Generator]", of: "torch.Tensor") -> "torch.Tensor":
    """One of the secrets for each generator."""
    import torch

    return torch.stack([of[torch.randint(len(of), (), generator=g)] for g in draws])


def ask_oracle(item: Item) -> pd.DataFrame:
    """Adam along the oracle's answers, for every step size; secrets that it would tell apart count as solved.

    Epsilon comes from what was met on the way, so that the union bound over Chebyshev's inequality holds as it stands
    and the share of secrets that stay hidden, Pr(Q) of equation (5), is known. `exact` is the loss with exact
    gradients on one secret for each seed.
    """
    from toy_models.tree_parity.direct import find_direct_model, of_seed, stacked
    from toy_models.tree_parity.secrets import every_input, loss_bound, mean_parity, secrets, squared_errors

    p = item.parameters
    d, k, queries, model = p["d"], p["k"], p["n_queries"], find_direct_model(p["model"])
    bits, target, of = every_input(d), mean_parity(d, k), secrets(d, k)
    fresh = stacked(model, d, generators(p["seeds"], "weights"))
    tables = []
    for rate in p["rates"]:
        trained, met = _follow_mean(model, fresh, bits, k, rate, queries)
        exact = _exact_loss(model, fresh, bits, _one_secret(generators(p["seeds"], "train"), of), rate, queries)
        for place, (seed, along) in enumerate(zip(p["seeds"], met)):
            losses = squared_errors(model.answer(of_seed(trained, place), bits), of)
            for oracle in ORACLES:
                size = _epsilon(oracle, along, queries) if k < d else 1.0
                told = (along.deviations > size).double()
                values = {
                    "revealed": told.mean().item(),
                    "revealed_bound": min(1.0, queries * along.variance / size**2),
                    "loss": (losses * (1 - told)).mean().item(),
                    "loss_bound": loss_bound(1 - told.mean().item(), target.abs().mean().item()),
                    "error_of_gradient": size / along.gradient if k < d else 0.0,
                    "exact": exact[place],
                }
                where = setting(d=d, k=k, rate=rate, oracle=oracle, queries=queries)
                tables += [
                    table(
                        run=item.name, condition=p["model"], unit=str(seed), update=queries, metric=metric,
                        value=value, setting=where, scope=p["kind"],
                    )
                    for metric, value in values.items()
                ]  # fmt: skip
    return concat(tables)


@dataclass(frozen=True)
class _Met:
    """What one seed met on its way along the oracle's answers."""

    variance: float
    """The largest variance of the gradient over secrets."""
    deviations: "torch.Tensor"
    """By secret: the largest distance of its gradient from the mean."""
    gradient: float
    """The root mean square of the mean gradient's norm over the queries."""


def _epsilon(oracle: str, along: _Met, queries: int) -> float:
    """The oracle's error."""
    if oracle == "tenth":
        return along.deviations.quantile(1 - REVEALED, interpolation="higher").item()
    return along.variance ** (1 / 3) if oracle == "third" else (queries * along.variance / REVEALED) ** 0.5


def _follow_mean(
    model: "DirectModel", fresh: "Parameters", bits: "torch.Tensor", k: int, rate: float, queries: int
) -> "tuple[Parameters, list[_Met]]":
    """The parameters after Adam on the mean gradient over secrets, and what each seed met."""
    import torch

    from toy_models.tree_parity.direct import Adam, gradients, of_seed
    from toy_models.tree_parity.secrets import mean_parity, secrets, spread, walsh

    d, n_seeds = bits.shape[1], len(next(iter(fresh.values())))
    training, target, of = Adam(fresh, rate), mean_parity(d, k), secrets(d, k)
    variances, squares = torch.zeros(2, n_seeds, dtype=torch.float64)
    deviations = torch.zeros(n_seeds, len(of), dtype=torch.float64)
    for _ in range(queries):
        for place in range(n_seeds) if k < d else ():  # one secret: there is nothing to vary
            now = of_seed(training.now, place)
            slopes = gradients(model, now, bits)
            found = spread(walsh(slopes) / len(bits), of)
            variances[place] = max(variances[place].item(), found.variance)
            deviations[place] = torch.maximum(deviations[place], found.deviations)
            squares[place] += ((model.answer(now, bits) - target) @ slopes / len(bits)).square().sum() / queries
        training.follow(model, bits, target)
    return training.now, [_Met(v.item(), own, s.sqrt().item()) for v, own, s in zip(variances, deviations, squares)]


def _exact_loss(
    model: "DirectModel", fresh: "Parameters", bits: "torch.Tensor", hidden: "torch.Tensor", rate: float, queries: int
) -> list[float]:
    """The squared error after as many steps of Adam along exact gradients, one secret for each seed."""
    from toy_models.tree_parity.direct import Adam, of_seed
    from toy_models.tree_parity.secrets import parity

    training, targets = Adam(fresh, rate), parity(bits.expand(len(hidden), -1, -1), hidden)
    for _ in range(queries):
        training.follow(model, bits, targets)
    answers = [model.answer(of_seed(training.now, place), bits) for place in range(len(hidden))]
    return [(own - truth).square().mean().item() for own, truth in zip(answers, targets)]
