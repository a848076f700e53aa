"""Other metrics than the usual ones: oracle values, and nothing else changes when they are asked for."""

import numpy as np
import pandas as pd
import pytest
import torch

from hf_analysis.measurement.measure import measure
from hf_analysis.text.conditions import Context, find_condition, tokenise
from probes.attention.entropy import length_matched_min
from probes.attention.statistics import DEFAULT_METRICS
from tests.hf_analysis.measurement.test_measure import PAIR, eager_patterns


def test_any_metric_is_measured_and_equals_the_eager_oracle(llama, problems, tmp_path):
    metrics = ["entropy_nats_mean", "effective_keys_q10", "min", "top1_mass_max", "entropy_nats_length_matched_min"]
    table = measure(llama, problems[:2], PAIR, tmp_path / "out", metrics=metrics)
    assert list(table["metric"].unique()) == metrics
    context = Context(problems[:2], 0, llama)
    for problem in problems[:2]:
        passages = {name: tokenise(llama, find_condition(name)(problem, context)) for name in PAIR}
        shortest = min(len(ids) - start for ids, start in passages.values())
        for name, (ids, start) in passages.items():
            patterns = eager_patterns(ids)
            nats = -torch.xlogy(patterns, patterns).sum(-1)[..., start:]
            expected = {
                "entropy_nats_mean": nats.mean(-1),
                "effective_keys_q10": nats.exp().quantile(0.1, dim=-1),
                "top1_mass_max": patterns.amax(-1)[..., start:].amax(-1),
                "entropy_nats_length_matched_min": length_matched_min(nats, shortest),
            }
            mine = table[(table.unit == problem.id) & (table.condition == name) & (table.scope == "answer")]
            for metric, value in expected.items():
                got = mine[mine.metric == metric].sort_values(["layer", "head"])
                np.testing.assert_allclose(got["value"], value.reshape(-1), rtol=1e-3, atol=1e-4)


def test_asking_for_more_leaves_the_usual_metrics_alone(llama, problems, tmp_path):
    usual = measure(llama, problems[:2], PAIR, tmp_path / "usual")
    more = measure(llama, problems[:2], PAIR, tmp_path / "more", metrics=[*DEFAULT_METRICS, "top1_mass_mean"])
    kept = more[more.metric != "top1_mass_mean"].reset_index(drop=True)
    pd.testing.assert_frame_equal(kept, usual, check_exact=True)


def test_a_resume_with_other_metrics_is_refused(llama, problems, tmp_path):
    measure(llama, problems[:2], PAIR, tmp_path / "a")
    with pytest.raises(ValueError, match=r"another run \(metrics: \['min', .* there, \['mean'\] here\)"):
        measure(llama, problems[:2], PAIR, tmp_path / "a", resume=True, metrics=["mean"])
    measure(llama, problems[:2], PAIR, tmp_path / "b", metrics=["mean"])
    with pytest.raises(ValueError, match=r"another run \(metrics: \['mean'\] there, \['min', .* here\)"):
        measure(llama, problems[:2], PAIR, tmp_path / "b", resume=True)


def test_tokens_are_kept_whatever_the_metrics(llama, problems, tmp_path):
    measure(llama, problems[:1], PAIR, tmp_path / "a", keep_tokens=1)
    measure(llama, problems[:1], PAIR, tmp_path / "b", keep_tokens=1, metrics=["entropy_nats_mean"])
    kept = [pd.read_parquet(tmp_path / name / "tokens.parquet") for name in "ab"]
    assert [set(table["statistic"]) - {"normalised_entropy"} for table in kept] == [
        {"sink_mass", "normalised_entropy_without_sink"},
        {"entropy_nats"},
    ]
    usual = [table[table["statistic"] == "normalised_entropy"].reset_index(drop=True) for table in kept]
    pd.testing.assert_frame_equal(*usual, check_exact=True)


def test_every_passage_is_made_and_tokenised_once(llama, problems, tmp_path, monkeypatch):
    made = []

    def counted(model, passage):
        made.append(passage)
        return tokenise(model, passage)

    monkeypatch.setattr("hf_analysis.attention.passages.tokenise", counted)
    measure(llama, problems, [*PAIR, "generated"], tmp_path / "out")
    assert len(made) == 3 * len(problems)
