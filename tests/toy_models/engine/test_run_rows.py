"""A run as rows: every value against the model itself."""

import math

import pytest
import torch

from probes.rows import validate, with_settings
from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.run_rows import attention_rows, dependence_rows, outcome_rows, training_rows
from toy_models.engine.training import TrainConfig, train
from toy_models.parity.task import Parity

TASK = Parity(n=6, k=2, secret=(4, 1))
LABELS = {"run": "r", "condition": "cot", "unit": "3", "setting": "k=2 n=6"}


@pytest.fixture(scope="module")
def result():
    config = TrainConfig(
        batch_size=64, budget=2048, eval_every=512, n_validation=16, n_test=16, lr=3e-3, stop_when_perfect=False
    )
    result = train(TASK, DecoderConfig(2, 2, 16), config)
    assert sum(p.numel() for p in result.model.parameters()) < 10_000
    return result


@pytest.fixture(scope="module")
def patterns(result):
    _, cache = result.model.run_with_cache(result.test.inputs)
    return torch.stack([cache[f"blocks.{layer}.attn.hook_pattern"] for layer in range(2)])


def test_every_row_carries_its_labels(result):
    for table in (
        training_rows(result.history, **LABELS),
        outcome_rows(result, **LABELS),
        dependence_rows(result, TASK, **LABELS),
        attention_rows(result.model, TASK, result.test, result.samples, **LABELS, n_inputs=1),
    ):
        validate(table)
        assert (table[["run", "condition", "unit"]] == ["r", "cot", "3"]).all(axis=None)
        settings = with_settings(table)
        assert (settings["k"] == 2).all()
        assert (settings["n"] == 6).all()


def test_training_rows_are_the_history(result):
    table = training_rows(result.history, **LABELS)
    for metric in ("accuracy", "token_accuracy", "loss", "train_loss"):
        found = table[table["metric"] == metric]
        assert found["samples"].tolist() == [0, 512, 1024, 1536, 2048]
        assert found["value"].tolist() == [getattr(e, metric) for e in result.history]
    entropies = table[table["metric"] == "entropy_min"].set_index(["samples", "layer", "head"])["value"]
    assert len(entropies) == 5 * 2 * 2
    for e in result.history:
        assert [[entropies[e.samples, layer, head] for head in range(2)] for layer in range(2)] == [
            list(heads) for heads in e.entropies
        ]


def test_outcome_rows_of_a_solved_and_a_censored_run(result):
    import dataclasses

    solved = dataclasses.replace(result, sample_complexity=1024)
    values = outcome_rows(solved, **LABELS).set_index("metric")["value"]
    assert values.to_dict() == {
        "sample_complexity": 1024,
        "test_accuracy": result.test_accuracy,
        "rollout_accuracy": result.rollout_accuracy,
    }
    censored = dataclasses.replace(result, sample_complexity=None)
    values = outcome_rows(censored, **LABELS).set_index("metric")["value"]
    assert values["censored_at"] == 2048
    assert "sample_complexity" not in values


def test_dependence_rows_are_the_attention_on_the_secret_bits(result, patterns):
    table = dependence_rows(result, TASK, **LABELS)
    assert len(table) == 4 * 2 * 2 * TASK.k
    for layer in range(2):
        for head in range(2):
            for step, secret in enumerate(TASK.secret):
                at = (table["layer"] == layer) & (table["head"] == head) & (table["query"] == TASK.n + step)
                values = table[at].set_index("metric")["value"]
                rows = patterns[layer, :, head, TASK.n + step]
                assert values["dependency_mass"] == pytest.approx(rows[:, secret].mean().item(), abs=1e-6)
                assert values["top1_hit"] == pytest.approx((rows.argmax(-1) == secret).float().mean().item())
                assert values["sink_mass"] == pytest.approx(rows[:, 0].mean().item(), abs=1e-6)
                entropy = -(rows * rows.clamp_min(1e-30).log()).sum(-1).mean().item() / math.log(TASK.n + step + 1)
                assert values["row_entropy"] == pytest.approx(entropy, abs=1e-5)


def test_attention_rows_are_the_mean_map_and_the_mask(result, patterns):
    table = attention_rows(result.model, TASK, result.test, result.samples, **LABELS)
    attention = table[table["metric"] == "attention"].set_index(["layer", "head", "query", "key"])["value"]
    assert len(attention) == 2 * 2 * TASK.k * TASK.n_ctx
    for place, value in attention.items():
        layer, head, query, key = place
        assert value == pytest.approx(patterns[layer, :, head, query, key].mean().item(), abs=1e-6)
    assert attention.groupby(level=["layer", "head", "query"]).sum().to_numpy() == pytest.approx(1, abs=1e-5)
    needed = table[(table["metric"] == "dependency") & (table["value"] > 0)]
    assert sorted(zip(needed["query"], needed["key"])) == [(6, 4), (6, 6), (7, 1), (7, 7)]
    assert (table[table["metric"] == "dependency"]["layer"] == -1).all()


def test_single_inputs_are_kept_with_their_tokens(result, patterns):
    table = attention_rows(result.model, TASK, result.test, 7, **LABELS, n_inputs=2)
    assert (table["samples"] == 7).all()
    assert set(table["scope"]) == {"test", "input 0", "input 1"}
    for i in range(2):
        own = table[table["scope"] == f"input {i}"]
        tokens = own[own["metric"] == "token"].sort_values("key")["value"].tolist()
        assert tokens == result.test.inputs[i].tolist()
        attention = own[own["metric"] == "attention"].set_index(["layer", "head", "query", "key"])["value"]
        assert len(attention) == 2 * 2 * TASK.k * TASK.n_ctx
        for (layer, head, query, key), value in attention.items():
            assert value == pytest.approx(patterns[layer, i, head, int(query), int(key)].item(), abs=1e-6)
