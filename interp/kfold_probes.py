"""Does a trained encoder compute k-fold composition as Theorem 4 does? Its attention, and what its layers hold.

Doubling would attend from (i, j) to (i, pi_i(j)), then (i+1, hop^1(j)), then (i+2, hop^2(j)), and hold the 1-, 2- and
4-hop after these layers. A chain would attend to (i+1, hop^1(j)) again and again, and hold the 1-, 2-, 3- and 4-hop.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from probes.rows import concat, setting, table

if TYPE_CHECKING:
    import torch

    from toy_models.hop_training import HopResult
    from toy_models.models.encoder import HookedEncoder
    from toy_models.tasks.kfold import KFold


def mass_rows(
    result: "HopResult", n_sequences: int, labels: Mapping[str, Any], place: Mapping[str, Any]
) -> pd.DataFrame:
    """Mean attention of every head on the key of each of the construction's layers (setting `mask`).

    A model that is told the hop by a token is measured once for each hop (setting `hop`).
    """
    import torch

    from probes.dependence import dependency_mass
    from toy_models.hop_training import with_hop
    from toy_models.task import Batch

    task, model = result.task, result.model
    batch = _fresh(task, n_sequences)
    offset = int(task.hop_token)
    names = [f"blocks.{layer}.attn.hook_pattern" for layer in range(model.config.n_layers)]
    tables = []
    for index, hop in enumerate(task.hops):
        if not task.hop_token and index < len(task.hops) - 1:
            continue
        with torch.no_grad():
            _, cache = model.run_with_cache(with_hop(task, batch.inputs, index), names_filter=names)
        for mask in range(len(task.hops)):
            wanted = task.layer_dependencies(Batch(batch.inputs, batch.targets), mask)
            for layer, name in enumerate(names):
                mass = dependency_mass(cache[name], wanted)[:, :, offset:].double().mean((0, 2))
                where = {
                    "layer": layer,
                    "head": list(range(len(mass))),
                    "setting": setting(**place, mask=mask, hop=hop),
                }
                tables.append(table(metric="mass", value=mass.tolist(), **where, **labels))
    return concat(tables)


def probe_rows(
    result: "HopResult", n_sequences: int, labels: Mapping[str, Any], place: Mapping[str, Any]
) -> pd.DataFrame:
    """Held-out accuracy of linear probes for the 1-, 2-, 3-, ..., k-hop at every layer, and for an untrained encoder.

    Metrics `probe_accuracy` and `untrained_accuracy`; layer 0 is the embedding, layer l the residual stream after
    block l - 1. A probe is one logistic regression over all positions, fitted to one half of the sequences and
    tested on the other. The model is told the last hop.
    """
    import torch

    from toy_models.hop_training import fresh_encoder
    from toy_models.tasks.kfold import hop_results

    task = result.task
    inputs = _fresh(task, 2 * n_sequences).inputs
    values = inputs[:, int(task.hop_token) :].view(-1, task.k, task.n)
    hidden = torch.tensor(task.hidden)
    targets = {hop: hop_results(values, hidden, hop).flatten(1).numpy() for hop in range(1, task.k + 1)}
    untrained = fresh_encoder(task, result.model.config, seed=task.hidden_seed + 1)
    tables = []
    for metric, model in (("probe_accuracy", result.model), ("untrained_accuracy", untrained)):
        for layer, features in enumerate(_states(model, task, inputs)):
            for hop, target in targets.items():
                accuracy = held_out_accuracy(features, target)
                where = {"layer": layer, "setting": setting(**place, hop=hop)}
                tables.append(table(metric=metric, value=accuracy, **where, **labels))
    return concat(tables)


def held_out_accuracy(
    features: Float[np.ndarray, "sequence pos d"], targets: Int[np.ndarray, "sequence pos"]
) -> float:
    """Accuracy of a logistic regression on the second half of the sequences, fitted to the first half."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    half = len(features) // 2
    flat = features.reshape(-1, features.shape[-1]), targets.reshape(-1)
    cut = half * features.shape[1]
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=1.0, max_iter=100, tol=1e-3))
    probe.fit(flat[0][:cut], flat[1][:cut])
    return float(probe.score(flat[0][cut:], flat[1][cut:]))


def _states(
    model: "HookedEncoder", task: "KFold", inputs: "Int[torch.Tensor, 'batch pos']"
) -> list[Float[np.ndarray, "sequence pos d"]]:
    """The residual stream at the kN positions before the first and after every block, told the last hop."""
    import torch

    from toy_models.hop_training import with_hop

    last = model.config.n_layers - 1
    names = ["blocks.0.hook_resid_pre", *(f"blocks.{layer}.hook_resid_post" for layer in range(last + 1))]
    with torch.no_grad():
        _, cache = model.run_with_cache(with_hop(task, inputs, len(task.hops) - 1), names_filter=names)
    return [cache[name][:, int(task.hop_token) :].numpy() for name in names]


def _fresh(task: "KFold", n_sequences: int):
    import torch

    return task.sample(n_sequences, torch.Generator().manual_seed(task.hidden_seed + 3_000_000))
