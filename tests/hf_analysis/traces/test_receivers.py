"""Receiver heads: rows against a direct computation, nulls, and a head that is one by construction."""

import numpy as np
import pytest
import torch
from scipy import stats

from hf_analysis.traces.attention import SentenceAttention, permuted, rotated, sentence_attention
from hf_analysis.traces.measures import MEASURES, Study, find_measure, register
from hf_analysis.traces.receivers import VERSIONS, permutations, receiver_scores, rotations, vertical
from hf_analysis.traces.tokens import trace_tokens
from probes import rows
from tests.hf_analysis.traces.made import made_trace


@pytest.fixture(scope="module")
def text(llama):
    return trace_tokens(llama, made_trace())


@pytest.fixture(scope="module")
def study(llama, text):
    return Study(llama, [text], "tiny", gap=2, rotations=2, permutations=1, keep=frozenset({"t"}))


@pytest.fixture(scope="module")
def table(study, text):
    return find_measure("attention")(text, study)


def column(table, **names):
    for name, value in names.items():
        table = table[table[name] == value]
    return table


def test_the_rows_are_what_eager_matrices_give(llama, text, table):
    rows.validate(table)
    matrix = sentence_attention(llama, text).mean[:, :, 1:-1, 1:-1].double().numpy()
    scores = np.stack([matrix[:, :, i + 2 :, i].mean(-1) for i in range(8)], -1)
    found = column(table, metric="vertical").sort_values(["layer", "head", "key"])
    np.testing.assert_allclose(found["value"].to_numpy().reshape(3, 4, 8), scores, atol=1e-12)
    assert set(found["key"]) == set(range(1, 9)), "units: the question is number 0"
    expected = stats.kurtosis(scores, axis=-1)
    found = column(table, metric="kurtosis", condition="trace").sort_values(["layer", "head"])
    np.testing.assert_allclose(found["value"].to_numpy().reshape(3, 4), expected, atol=1e-6)  # single precision
    assert set(column(table, condition="trace", key=-1)["metric"]) == set(VERSIONS)
    pairs = column(table, metric="attention_mean", layer=-1)
    assert len(pairs) == 12 * 13 // 2
    kept = table[(table["metric"] == "attention_mean") & (table["layer"] >= 0)]
    assert len(kept) == 3 * 4 * len(pairs)
    means = kept.groupby(["query", "key"])["value"].mean()
    np.testing.assert_allclose(means, pairs.set_index(["query", "key"])["value"].sort_index(), atol=1e-9)


def test_nulls_are_means_over_draws_of_the_same_computation(llama, text, study, table):
    for null, draws in (("rotated", rotations(study, text)), ("permuted", permutations(study, text))):
        kurtoses = []
        for draw in draws:
            other = permuted(text, draw) if null == "permuted" else text
            units = rotated(text, draw) if null == "rotated" else other.units
            moved = type(text)(text.trace, other.ids, units)
            kurtoses.append(receiver_scores(vertical(sentence_attention(llama, moved), moved, 2))["kurtosis"])
        found = column(table, metric="kurtosis", condition=null).sort_values(["layer", "head"])["value"]
        expected = torch.stack(kurtoses).mean(0)
        np.testing.assert_allclose(found.to_numpy().reshape(3, 4), expected, atol=1e-4)
    assert rotations(study, text) == rotations(study, text)
    assert 0 not in rotations(study, text)


def test_a_head_that_reads_one_sentence_is_a_receiver_and_only_at_its_own_boundaries(text):
    n = len(text.units)
    generator = torch.Generator().manual_seed(0)
    mass = torch.rand(1, 2, n, n, generator=generator).tril() * 0.01
    mass[0, 1, :, 3] += 0.5
    lengths = torch.tensor([float(unit.n_tokens) for unit in text.units])
    found = receiver_scores(vertical(SentenceAttention(mass, mass, lengths, lengths), text, 2))
    for version in VERSIONS:
        if version != "kurtosis_depth":  # ranks cannot be spiky
            assert found[version][0, 1] > found[version][0, 0] + 1


def test_a_short_trace_has_no_kurtosis_and_no_null(llama):
    text = trace_tokens(llama, made_trace(4))
    found = find_measure("attention")(text, Study(llama, [text], "tiny"))
    assert set(found["condition"]) == {"trace"}
    assert not found["metric"].str.startswith("kurtosis").any()
    assert set(found["metric"]) >= {"attention_mean", "attention_mass_without_sink"}


def test_unknown_measures_options_and_doubles_are_refused(llama, text):
    with pytest.raises(ValueError, match=r"unknown measure 'atention'; the measures are attention"):
        find_measure("atention")

    def attention(tokens, study):
        return rows.concat([])

    with pytest.raises(ValueError, match="already registered"):
        register(attention)
    assert "attention" in MEASURES
    with pytest.raises(ValueError, match="--gap 0: need 1 or more"):
        Study(llama, [text], "tiny", gap=0)
    with pytest.raises(ValueError, match=r"--heads 3.0: tiny-llama has layers 0 to 2 of heads 0 to 3"):
        Study(llama, [text], "tiny", heads=((3, 0),))
