"""The judges of bogdan2025 against independent computations, and what must not reach them."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from interp.claims.bogdan2025 import _heads
from interp.claims.bogdan2025._heads import (
    NULLS,
    TRACE,
    Scores,
    agreement,
    chosen_elsewhere,
    half_correlations,
    scores,
)
from interp.claims.bogdan2025._suppression import sentence_scores, summary
from interp.claims.bogdan2025._worlds_heads import WORLDS as HEAD_WORLDS
from interp.claims.bogdan2025._worlds_suppression import N_RECEIVERS, WORLDS
from interp.core.parts import NotMeasurable
from interp.core.trace_summary import agreement as agreement_of_measures


@pytest.fixture(scope="module")
def heads():
    world = next(world for world in HEAD_WORLDS if world.name.startswith("heads that read"))
    return world.rows(np.random.default_rng(0))


def test_scores_are_the_rows_by_trace_and_head(heads):
    found = scores(heads, "kurtosis")
    assert found.of[TRACE].shape == (len(found.units), len(found.heads)) == (40, 48)
    for condition in (TRACE, *NULLS):
        chosen = heads[(heads["metric"] == "kurtosis") & (heads["condition"] == condition)]
        one = chosen[(chosen["unit"] == found.units[3]) & (chosen["layer"] == 2) & (chosen["head"] == 5)]
        assert found.of[condition][3, found.heads.index((2, 5))] == one["value"].item()


def test_a_head_without_a_score_on_one_trace_is_left_out(heads):
    lost = (heads["unit"] == heads["unit"].iloc[0]) & (heads["layer"] == 0) & (heads["head"] == 0)
    found = scores(heads[~(lost & (heads["condition"] == "rotated"))], "kurtosis")
    assert (0, 0) not in found.heads
    assert len(found.heads) == 47


def test_heads_are_chosen_without_the_template_they_are_tried_on(heads):
    found = scores(heads, "kurtosis")
    before = chosen_elsewhere(found)
    inside = found.clusters == found.clusters[0]
    own = found.of[TRACE].copy()
    own[inside, :20] += 100.0
    after = chosen_elsewhere(Scores(found.units, found.clusters, {**found.of, TRACE: own}, found.heads))
    assert (after[inside] == before[inside]).all()
    assert (after[~inside] < 20).all()


def test_correlations_with_the_other_half_are_spearmans(monkeypatch):
    monkeypatch.setattr(_heads, "N_SPLITS", 1)
    generator = np.random.default_rng(1)
    values, clusters = generator.normal(size=(4, 9)), np.array(["a", "b", "c", "d"])
    first = np.isin(np.arange(4), np.random.default_rng(0).permutation(4)[:2])
    found = half_correlations(values, clusters)
    for i in range(4):
        other = values[first != first[i]].mean(0)
        assert found[i] == pytest.approx(spearmanr(values[i], other).statistic)


def test_the_same_ranking_everywhere_agrees_and_few_traces_say_so():
    clusters = np.arange(6)
    values = np.tile(np.arange(10.0), (6, 1)) + np.arange(6)[:, None]
    assert half_correlations(values, clusters) == pytest.approx(np.ones(6))
    few = Scores(("a", "b"), np.array(["a", "b"]), {TRACE: values[:2]}, ((0, 0), (0, 1), (0, 2)))
    assert isinstance(agreement({"kurtosis": few}, 0.95, version="kurtosis"), NotMeasurable)


@pytest.fixture(scope="module")
def sentences():
    world = next(world for world in WORLDS if world.name.startswith("what receiver"))
    return world.rows(np.random.default_rng(0))


def test_attention_is_that_of_the_heads_which_other_templates_chose(sentences):
    found = sentence_scores(sentences).set_index(["unit", "key"])
    vertical = sentences[(sentences["metric"] == "vertical") & (sentences["head"] < N_RECEIVERS)]
    expected = vertical.groupby(["unit", "key"])["value"].mean()
    np.testing.assert_allclose(found["receivers"], expected.reindex(found.index), atol=1e-12)


def test_partial_correlations_are_those_of_the_trace_summary(sentences):
    found = summary(sentences)
    said = {one.name: one.interval for one in agreement_of_measures(sentences, top=N_RECEIVERS)}
    expected = said["attention and suppression, given position and length"]
    assert found["partial"].mean() == pytest.approx(expected.value)
    assert found["plain"].mean() == pytest.approx(said["attention and suppression"].value)
