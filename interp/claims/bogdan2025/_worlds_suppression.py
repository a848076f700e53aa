"""What would attention and suppression look like, were the truth known? Worlds of attention-predicts-suppression.

Every sentence has a place, a length, an attention in receiver heads and one in the others, and an effect when it is
hidden; a world says what these share.
"""

from collections.abc import Callable

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.core.claim import World
from interp.core.problem_runs import built_in
from probes.rows import concat, table

N_TRACES, N_SENTENCES, GAP = 21, 12, 4
"""Traces of the cpu preset that are long enough, about."""
N_RECEIVERS, N_HEADS = 4, 32
"""One head in eight is a receiver head, all in one layer."""


def _world(
    shared: float = 0.0, near: float = 0.0, placed: float = 0.0, everywhere: float = 0.0
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """`shared`: what receiver heads read matters when hidden; `near`: so does any span beside it; `placed`: both
    follow place and length; `everywhere`: the other heads read it too."""
    units, shape = built_in(N_TRACES), (N_TRACES, N_SENTENCES - GAP)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        keys = np.broadcast_to(np.arange(1, shape[1] + 1), shape)
        lengths = generator.integers(6, 40, shape)
        by_place = placed * (np.log(lengths) - 0.3 * keys)
        content, beside = generator.normal(0, 1, (2, *shape))
        read = content + beside + by_place + generator.normal(0, 0.5, shape)
        hidden = shared * content + near * beside + by_place + generator.normal(0, 1, shape)
        control = near * beside + by_place + generator.normal(0, 1, shape)
        receivers = read + generator.normal(0, 0.3, (N_RECEIVERS, *shape))
        others = everywhere * read + by_place + generator.normal(0, 3, (N_HEADS - N_RECEIVERS, *shape))
        queries = keys + generator.integers(1, GAP + 1, shape)
        return _rows(units, keys, queries, lengths, np.concatenate([receivers, others]), hidden, control, generator)

    return rows


def _rows(
    units: list[str],
    keys: np.ndarray,
    queries: np.ndarray,
    lengths: np.ndarray,
    scores: Float[np.ndarray, "head trace sentence"],
    hidden: Float[np.ndarray, "trace sentence"],
    control: Float[np.ndarray, "trace sentence"],
    generator: np.random.Generator,
) -> pd.DataFrame:
    n_traces, n_read = hidden.shape
    heads = np.arange(N_HEADS)
    kurtosis = 2.0 * (heads < N_RECEIVERS) + generator.normal(0, 0.5, (n_traces, N_HEADS))
    of_trace = {"run": "model", "condition": "trace"}
    of_pair = {
        "run": "model", "unit": np.repeat(units, n_read), "query": queries.ravel(), "key": keys.ravel(),
        "n_tokens": lengths.ravel(),
    }  # fmt: skip
    effect = hidden - hidden.mean(1, keepdims=True)
    return concat(
        [
            table(
                **of_trace, unit=np.repeat(units, N_HEADS), metric="kurtosis", layer=0,
                head=np.tile(heads, n_traces), value=kurtosis.ravel(), n_tokens=N_SENTENCES,
            ),
            table(
                **of_trace, unit=np.tile(np.repeat(units, n_read), N_HEADS), metric="vertical", layer=0,
                head=np.repeat(heads, n_traces * n_read), key=np.tile(keys.ravel(), N_HEADS), value=scores.ravel(),
                n_tokens=np.tile(lengths.ravel(), N_HEADS),
            ),
            table(**of_pair, condition="trace", metric="attention_mean", value=scores.mean(0).ravel()),
            table(**of_pair, condition="hidden", metric="suppression_effect", value=effect.ravel()),
            table(**of_pair, condition="hidden", metric="suppression_log_kl", value=hidden.ravel()),
            table(**of_pair, condition="control", metric="suppression_log_kl", value=control.ravel()),
        ]
    )  # fmt: skip


_ALL = ("partial", "beyond_control", "all_heads", "pairs", "receivers_over_all")
WORLDS = (
    World("traces at random, of no model", dict.fromkeys((*_ALL, "plain"), False), _world()),
    World(
        "attention and suppression follow place and length alone",
        dict.fromkeys(("partial", "beyond_control"), False) | {"plain": True},
        _world(placed=1.0),
    ),
    World(
        "hiding any span there does as much",
        {"partial": True, "plain": True, "beyond_control": False},
        _world(near=1.5),
    ),
    World(
        "what receiver heads read matters",
        {"partial": True, "plain": True, "beyond_control": True, "receivers_over_all": True},
        _world(shared=1.5),
    ),
    World(
        "what all heads read matters", {"partial": True, "all_heads": True, "pairs": True},
        _world(shared=1.5, everywhere=1.0),
    ),
)  # fmt: skip
