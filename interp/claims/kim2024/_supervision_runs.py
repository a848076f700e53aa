"""How is kim2024/no-supervision measured? Training told every node or the root alone, and the gradient's signal."""

import pandas as pd

from interp.claims.kim2024._runs import LINK, generators, planted, true_values
from interp.core.claim import Item
from probes.rows import concat, setting, table


def train_theory(item: Item) -> pd.DataFrame:
    """SGD of the theory model in one regime: the root's loss and accuracy on the way."""
    from toy_models.tree_parity.filter import Filter
    from toy_models.tree_parity.links import LINKS
    from toy_models.tree_parity.training import sgd

    p = item.parameters
    forest = planted(p["d"], p["k"], p["seeds"])
    progress = sgd(
        forest,
        p["regime"],
        true_values(forest, p["seeds"], p["n_test"]),
        generators(p["seeds"], "train"),
        eta=p["eta"] * p["d"] ** 2,
        link=LINKS[LINK],
        n_updates=p["n_steps"],
        batch_size=p["batch_size"],
        eval_every=p["eval_every"],
        check=Filter(p["eps_0"]),
        n_augmented=p["d"],
        start=forest.random_weights(generators(p["seeds"], "weights")) if p["regime"] == "direct" else None,
    )
    return concat(
        table(metric=metric, value=values.tolist(), samples=at.update * p["batch_size"], **_labels(item, p["regime"]))
        for at in progress
        for metric, values in (("loss", at.loss), ("accuracy", at.accuracy))
    )


def train_other(item: Item) -> pd.DataFrame:
    """Adam on fresh batches in single precision, told the root alone."""
    import torch

    from toy_models.tree_parity.direct import Adam, find_direct_model, of_seed, stacked
    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.training import root_scores

    p, n = item.parameters, item.parameters["batch_size"]
    model, forest = find_direct_model(p["model"]), planted(p["d"], p["k"], p["seeds"])
    fresh = stacked(model, p["d"], generators(p["seeds"], "weights"), p["width"])
    training = Adam({name: values.float() for name, values in fresh.items()}, p["eta"])
    test = true_values(forest, p["seeds"], p["n_test"])
    streams, tables = generators(p["seeds"], "train"), []
    for update in range(p["n_steps"] + 1):
        if update % p["eval_every"] == 0:
            bits = test[:, : p["d"]].transpose(1, 2)
            answers = torch.stack([model.answer(of_seed(training.now, i), x) for i, x in enumerate(bits)])
            found = zip(("loss", "accuracy"), root_scores(answers, test[:, -1]))
            tables += [
                table(metric=metric, value=values.tolist(), samples=update * n, **_labels(item, p["model"]))
                for metric, values in found
            ]
        seen = forest.grown(Sample.draw(p["d"], n, streams).values(0, n))
        training.follow(model, seen[:, : p["d"]].transpose(1, 2), seen[:, -1])
    return concat(tables)


def _labels(item: Item, condition: str) -> dict:
    p = item.parameters
    return {
        "run": item.name, "condition": condition, "unit": [str(seed) for seed in p["seeds"]],
        "setting": setting(d=p["d"], k=p["k"], eta=p["eta"]), "scope": "test",
    }  # fmt: skip


def measure_signal(item: Item) -> pd.DataFrame:
    """The gradient's signal-to-noise ratio at random weights, over all inputs."""
    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.links import LINKS
    from toy_models.tree_parity.signal import LOSSES, signal_to_noise

    p = item.parameters
    forest = planted(p["d"], p["k"], p["seeds"])
    weights = forest.random_weights(generators(p["seeds"], "weights"))
    inputs = Sample.every_input(p["d"], forest.n_seeds)
    common = {
        "run": item.name, "unit": [str(seed) for seed in p["seeds"]], "setting": setting(d=p["d"], k=p["k"]),
        "scope": "every input", "metric": "signal_to_noise",
    }  # fmt: skip
    return concat(
        table(condition=loss, value=signal_to_noise(weights, forest, inputs, LINKS[LINK], loss).tolist(), **common)
        for loss in LOSSES
    )
