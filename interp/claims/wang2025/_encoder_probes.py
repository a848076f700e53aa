"""Does a trained encoder compute k-fold composition as Theorem 4 does? Its attention, and linear probes by layer.

Doubling would attend from (i, j) to (i, pi_i(j)), then (i+1, hop^1(j)), then (i+2, hop^2(j)), with the 1-, 2- and
4-hop decodable after these layers. A chain would attend to (i+1, hop^1(j)) again and again, with the 1-, 2-, 3- and
4-hop decodable.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from toy_models.kfold.hop_training import HopResult
    from toy_models.kfold.task import KFold


def mass_rows(
    result: "HopResult", n_sequences: int, labels: Mapping[str, Any], place: Mapping[str, Any]
) -> pd.DataFrame:
    """Mean attention of every head on the key of each of the construction's layers (setting `mask`).

    A model that is given the hop by a token is measured once for each hop (setting `hop`).
    """
    import torch

    from probes.attention.dependence import dependency_mass
    from toy_models.kfold.hop_training import with_hop
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
    """Held-out balanced accuracy of linear probes for the 1-, 2-, 3-, ..., k-hop at every layer, with two baselines.

    Metrics `probe_accuracy`, `untrained_accuracy`, and `control_accuracy` (random labels by position and token);
    layer 0 is the embedding, layer l the residual stream after block l - 1. A probe is one logistic regression over
    all positions, fitted to one half of the sequences and tested on the other. The model is given the last hop.
    """
    import torch

    from probes.hooked.linear import balanced_accuracy, predictions, random_labels, split_groups
    from probes.hooked.stream import ActivationStream
    from toy_models.kfold.hop_training import fresh_encoder, with_hop
    from toy_models.kfold.task import hop_results

    task, last = result.task, result.model.config.n_layers - 1
    inputs, offset = _fresh(task, 2 * n_sequences).inputs, int(task.hop_token)
    tokens = inputs[:, offset:]
    values, hidden = tokens.view(-1, task.k, task.n), torch.tensor(task.hidden)
    groups = np.repeat(np.arange(len(inputs)), task.k * task.n)
    rng = np.random.default_rng(task.hidden_seed)
    fit, test = split_groups(groups, rng)
    control = random_labels((torch.arange(task.k * task.n) * task.n + tokens).flatten().numpy(), task.n, rng)
    names = ["blocks.0.hook_resid_pre", *(f"blocks.{layer}.hook_resid_post" for layer in range(last + 1))]
    told = with_hop(task, inputs, len(task.hops) - 1)
    untrained = fresh_encoder(task, result.model.config, seed=task.hidden_seed + 1)
    streams = (ActivationStream(model, told, names) for model in (result.model, untrained))
    tables = []
    for layer, ((_, features), (_, blank)) in enumerate(zip(*streams, strict=True)):
        trained_rows, blank_rows = (of[:, offset:].reshape(len(groups), -1) for of in (features, blank))
        probed = [("control_accuracy", 0, trained_rows, control)]
        for hop in range(1, task.k + 1):
            target = hop_results(values, hidden, hop).flatten().numpy()
            probed += [("probe_accuracy", hop, trained_rows, target), ("untrained_accuracy", hop, blank_rows, target)]
        for metric, hop, rows, target in probed:
            accuracy = balanced_accuracy(target[test], predictions(rows, target, fit, test))
            where = {"layer": layer, "setting": setting(**place, hop=hop)}
            tables.append(table(metric=metric, value=accuracy, **where, **labels))
    return concat(tables)


def _fresh(task: "KFold", n_sequences: int):
    import torch

    return task.sample(n_sequences, torch.Generator().manual_seed(task.hidden_seed + 3_000_000))
