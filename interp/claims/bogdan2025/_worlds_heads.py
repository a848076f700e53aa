"""What would receiver heads look like, were the truth known? The worlds of bogdan2025/receiver-heads.

Attention between sentences is drawn, and scored as measured attention is: `random` heads read earlier sentences by
chance, `placed` ones by where these stand (the earlier the more), `anchored` ones read one sentence of each trace
more than the rest. A null is another draw of the same law, in which what was about the sentences is gone. At the
margin, kurtoses are drawn themselves.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.bogdan2025._heads import BEYOND, EXCESS, NULLS, TRACE, VERSIONS, n_chosen
from interp.core.claim import World
from interp.core.problem_runs import built_in, clusters_of
from probes.rows import table

N_TRACES, N_SENTENCES, N_LAYERS, N_HEADS, GAP = 40, 12, 4, 12, 4
"""Traces of the cpu preset that are long enough, about; fewer heads than the model has."""


def _matrices(
    generator: np.random.Generator, kind: np.ndarray, anchored: bool
) -> Float[np.ndarray, "head reading read"]:
    """Row-stochastic attention of one trace on earlier sentences."""
    weights = generator.gamma(1.5, 1.0, (len(kind), N_SENTENCES, N_SENTENCES))
    weights[kind == "placed"] *= np.exp(-1.2 * np.arange(N_SENTENCES))
    if anchored:
        weights[kind == "anchored", :, generator.integers(N_SENTENCES - GAP)] *= 8.0
    weights = np.tril(weights)
    return weights / weights.sum(-1, keepdims=True)


def _kurtoses(matrices: Float[np.ndarray, "head reading read"]) -> Float[np.ndarray, "head"]:
    far = np.tril(np.ones(matrices.shape[-2:], dtype=bool), -GAP)[:, :-GAP]
    scores = (matrices[:, :, :-GAP] * far).sum(1) / far.sum(0)
    centred = scores - scores.mean(-1, keepdims=True)
    return (centred**4).mean(-1) / (centred**2).mean(-1) ** 2 - 3


def _drawn(kinds: dict[str, int]) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows of a model that has so many heads of each kind, at random places; the rest are random."""
    units = built_in(N_TRACES)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        names = [name for name, n in kinds.items() for _ in range(n)]
        names += ["random"] * (N_LAYERS * N_HEADS - len(names))
        kind = generator.permutation(np.array(names))
        values = {
            name: np.stack([_kurtoses(_matrices(generator, kind, name == TRACE)) for _ in units])
            for name in (TRACE, *NULLS)
        }
        return simulated(units, values)

    return rows


def _at_the_margin(high: float, lost: float, correlation: float) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Kurtoses with heads of equal excess `high`, all but `lost` of it under the nulls; `correlation` by spread."""
    units = built_in(N_TRACES)
    _, codes = np.unique(clusters_of(units), return_inverse=True)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        n_heads = N_LAYERS * N_HEADS
        high_heads = np.zeros(n_heads)
        high_heads[: n_chosen(n_heads)] = high / (1 - n_chosen(n_heads) / n_heads)
        other = generator.normal(0, correlation, n_heads) if correlation else np.zeros(n_heads)
        noise = generator.normal(0, 0.25, (3, codes.max() + 1, 1))[:, codes]
        noise = noise + generator.normal(0, 0.9, (3, N_TRACES, n_heads))
        values = {TRACE: high_heads + other + noise[0]}
        values |= {null: high_heads + other - lost + noise[1 + i] for i, null in enumerate(NULLS)}
        return simulated(units, values)

    return rows


def simulated(units: list[str], values: dict[str, Float[np.ndarray, "trace head"]]) -> pd.DataFrame:
    """Rows of every version alike."""
    layer, head = np.divmod(np.arange(next(iter(values.values())).shape[1]), N_HEADS)
    n_heads, names = len(layer), [(version, name) for version in VERSIONS for name in values]
    size = len(units) * n_heads
    return table(
        run="model",
        condition=np.repeat([name for _, name in names], size),
        metric=np.repeat([version for version, _ in names], size),
        unit=np.tile(np.repeat(units, n_heads), len(names)),
        layer=np.tile(layer, len(units) * len(names)),
        head=np.tile(head, len(units) * len(names)),
        value=np.concatenate([values[name].ravel() for _, name in names]),
        n_tokens=N_SENTENCES,
    )


_SHORT = [version.removeprefix("kurtosis_") for version in list(VERSIONS)[1:]]
_EXISTS = ("exists", *(f"exists_{short}" for short in _SHORT))
_BEYOND = (*(f"beyond_{null}" for null in NULLS), *(f"beyond_rotated_{short}" for short in _SHORT))
_RANKED = tuple(f"reliable_beyond_{null}" for null in NULLS)
WORLDS = (
    World(
        "attention at random, of no model", dict.fromkeys((*_EXISTS, "reliable", *_BEYOND, *_RANKED), False),
        _drawn({}),
    ),
    World(
        "heads that go by place alone", dict.fromkeys((*_EXISTS, "reliable"), True) | dict.fromkeys(_BEYOND, False),
        _drawn({"placed": 15}),
    ),
    World(
        "heads that read one sentence of each trace",
        dict.fromkeys((*_EXISTS, "reliable", *_BEYOND, *_RANKED), True),
        _drawn({"anchored": 20}),
    ),
    World(
        "receiver heads higher by the margin, and so they are beyond the nulls",
        dict.fromkeys((*_EXISTS, *_BEYOND), False), _at_the_margin(EXCESS, BEYOND, 0.0),
    ),
    World("a ranking that comes again, short of the margin", {"reliable": False}, _at_the_margin(0.0, 0.0, 0.25)),
)  # fmt: skip
