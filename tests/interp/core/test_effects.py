"""Effects against values computed by hand, and how they are stored."""

import json
import math
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import torch

from hf_analysis.measurement.reductions import PassageRows, reduce_problem
from hf_analysis.text.problems import load_problems
from hf_analysis.text.scopes import TokenCounts
from interp.core.contrast import NotPaired, Side, contrast
from interp.core.effects import (
    Effect,
    compared,
    effect_of,
    effects,
    head_effects,
    pairs,
    read_effects,
    write_effects,
    write_heads,
)
from interp.figures.measurement import measurement_figures
from interp.report.pretrained import _data_set
from probes.parts import Frame
from probes.rows import concat, table, words
from tests.interp.core.naive_contrast import naive_contrast

RNG = np.random.default_rng(0)
LAYER, HEAD = np.indices((2, 3)).reshape(2, -1)


def rows(conditions, metrics=("min",), scopes=("all",), runs=("m",), n=8, shift=0.1):
    return concat(
        table(
            run=run, condition=condition, unit=f"p{i}", metric=metric, scope=scope, layer=LAYER, head=HEAD,
            value=0.3 + shift * number + 0.01 * RNG.random(6),
        )
        for run in runs
        for number, condition in enumerate(conditions)
        for metric in metrics
        for scope in scopes
        for i in range(n)
    )  # fmt: skip


def test_every_pair_of_conditions_in_every_metric_and_scope():
    found = effects(rows(("cot", "filler", "no_cot"), ("min", "mean"), ("all", "answer")))
    assert len(found) == len(set(found)) == 3 * 2 * 2
    for effect in found:
        steps = ["cot", "filler", "no_cot"]
        expected = 0.1 * (steps.index(effect.first) - steps.index(effect.second))
        assert effect.low < expected < effect.high
        assert expected == pytest.approx(effect.estimate, abs=0.01)
        assert effect.estimate == pytest.approx(effect.first_mean - effect.second_mean)
        assert (effect.n, effect.unit, effect.problems, effect.level) == (8, "problems", 8, 0.95)
        assert (effect.heads_lower, effect.heads_higher) == (1.0, 0.0)


def test_the_first_of_a_pair_has_more_of_the_reasoning_in_whatever_order_they_were_measured():
    named = ("filler", "no_cot", "prose_clean", "a_plugins", "cot_clean", "cot")
    expected = ["cot", "cot_clean", "prose_clean", "filler", "a_plugins", "no_cot"]
    for order in (named, named[::-1]):
        found = [(a.condition, b.condition) for a, b in pairs(Side(name, "min", "all", "m") for name in order)]
        assert found == list(combinations(expected, 2))
    turned = effects(rows(("no_cot", "cot_clean")))
    assert [(effect.first, effect.second) for effect in turned] == [("cot_clean", "no_cot")]
    assert turned[0].estimate == pytest.approx(0.1, abs=0.01)


def test_two_models_are_compared_under_each_condition():
    both = rows(("cot", "no_cot"), runs=("m", "against m"))
    found = [
        (a.run, a.condition, b.run, b.condition)
        for a, b in pairs(
            Side(condition, "min", "all", run) for run in ("m", "against m") for condition in ("cot", "no_cot")
        )
    ]
    assert found == [
        ("m", "cot", "m", "no_cot"),
        ("m", "cot", "against m", "cot"),
        ("m", "no_cot", "against m", "no_cot"),
        ("against m", "cot", "against m", "no_cot"),
    ]
    assert {(e.first, e.second) for e in effects(both)} >= {("m: cot", "against m: cot")}


def test_too_few_problems_for_heads_and_for_an_interval():
    assert {effect.heads_lower for effect in effects(rows(("cot", "no_cot"), n=5))} == {None}
    assert effects(rows(("cot", "no_cot"), n=1)) == []
    assert effects(rows(("cot",))) == []
    assert measurement_figures(Frame(rows(("cot",))), [], []) == {}


def test_problems_of_one_template_leave_no_interval():
    one = rows(("cot", "no_cot"), n=2).replace({"unit": {"p0": "gsm-symbolic-0-00002", "p1": "gsm-symbolic-0-00014"}})
    assert effects(one) == []


def test_copies_of_problems_do_not_shrink_an_interval(tmp_path):
    asked = [{"question": f"{i} and {i}?", "answer": f"#### {2 * i}"} for i in range(8)] * 4
    (tmp_path / "d.jsonl").write_text("\n".join(map(json.dumps, asked)))
    ids = [problem.id for problem in load_problems(str(tmp_path / "d.jsonl"))]
    once = rows(("cot", "no_cot")).replace({"unit": {f"p{i}": ids[i] for i in range(8)}})
    again = [once.replace({"unit": dict(zip(ids[:8], ids[k : k + 8]))}) for k in (8, 16, 24)]
    (alone,), (copied,) = effects(once), effects(concat([once, *again]))
    assert (copied.n, copied.unit, copied.problems) == (8, "clusters", 32)
    assert copied.estimate == pytest.approx(alone.estimate)
    assert copied.high - copied.low == pytest.approx(alone.high - alone.low, rel=0.05)


def test_equal_problems_are_no_certainty():
    same = rows(("cot", "no_cot"), ("min", "entropy_nats_mean"))
    same["value"] = 0.25
    bounded, open_ended = effects(same)
    assert bounded.estimate == open_ended.estimate == 0
    assert -1 < bounded.low < 0 < bounded.high < 1
    assert (open_ended.low, open_ended.high) == (-math.inf, math.inf)  # nats have no largest value
    assert Effect.read(open_ended.record()) == open_ended
    assert open_ended.interval == "0 [−∞, ∞]"


def test_pairs_without_common_problems_or_of_unequal_length_are_left_out():
    measured = rows(("cot", "no_cot"), ("min", "length_matched_min"), ("answer", "final"))
    final = measured["scope"] == "final"
    few = measured[~final | measured["unit"].isin(["p0"])]  # all but one set aside
    assert {(e.metric, e.scope) for e in effects(few)} == {("min", "answer"), ("length_matched_min", "answer")}
    matched = measured["metric"] == "length_matched_min"
    measured.loc[matched, "setting"] = measured[matched]["condition"].map({"cot": "m=9", "no_cot": "m=3"})
    assert {effect.metric for effect in effects(measured)} == {"min"}


def measured_texts(n=4):
    """Rows as they are measured: texts of other lengths in every problem, one text missing, two models."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for run in ("m", "against m"):
        for i in range(n):
            lengths = {"cot": 9 + i, "no_cot": 4, "filler": 11 - i, "cot_clean": 9}
            if i == 1:
                del lengths["filler"]
            passages = [
                PassageRows(
                    condition, "", tuple(range(3 + k)), TokenCounts(3 + k, 3),
                    {"normalised_entropy": torch.rand((2, 3, 3 + k), generator=generator)}, (0, 1),
                )
                for condition, k in lengths.items()
            ]  # fmt: skip
            asked = ["min", "mean", "length_matched_min"], ["all", "answer", "first", "window"]
            made.append(reduce_problem(run, f"p{i}", passages, *asked).rows)
    return concat(made)


def test_all_pairs_at_once_are_bit_for_bit_those_one_by_one():
    measured = measured_texts()
    found = iter(compared(measured))
    n_refused = 0
    for (metric, scope), piece in measured.groupby(["metric", "scope"], sort=False):
        keys = piece[["condition", "run"]].drop_duplicates().itertuples(index=False)
        for first, second in pairs([Side(condition, metric, scope, run) for condition, run in keys]):
            try:
                expected = naive_contrast(measured, first, second)
            except NotPaired:
                n_refused += 1
                with pytest.raises(NotPaired):
                    contrast(measured, first, second)
                continue
            pair = next(found)
            assert (pair.first, pair.second) == (first, second)
            for one in (pair.contrast, contrast(measured, first, second)):
                np.testing.assert_array_equal(one.first, expected.first)
                np.testing.assert_array_equal(one.second, expected.second)
                assert (one.units, one.clusters) == (expected.units, expected.clusters)
    assert next(found, None) is None
    assert n_refused  # two models on one text, at a length that depends on the pair


def test_the_layers_of_a_hybrid_keep_their_numbers():
    whole = measured_texts(n=7)
    hybrid = whole.assign(layer=whole["layer"].map({0: 3, 1: 7}))
    sides = Side("cot", "mean", "all", "m"), Side("no_cot", "mean", "all", "m")
    plain, found = contrast(whole, *sides), contrast(hybrid, *sides)
    np.testing.assert_array_equal(found.differences, plain.differences)
    assert (plain.layer_numbers.tolist(), found.layer_numbers.tolist()) == ([0, 1], [3, 7])
    heads = head_effects(compared(hybrid))
    assert set(heads["layer"]) == {3, 7}
    np.testing.assert_array_equal(heads["effect"], head_effects(compared(whole))["effect"])
    shown = _data_set("m", hybrid[hybrid["run"] == "m"], None)
    assert shown["layers"] == 8
    assert shown["tests"]
    mixed = pd.concat([whole[whole["condition"] != "cot"], hybrid[hybrid["condition"] == "cot"]])
    with pytest.raises(NotPaired, match="attend in different layers"):
        contrast(mixed, *sides)


def test_settings_are_read_once_for_each_side(monkeypatch):
    measured, read = measured_texts(), []
    monkeypatch.setattr("hf_analysis.measurement.pairs.words", lambda text: read.append(text) or words(text))
    n_texts = len(measured[["metric", "scope", "run", "condition", "setting"]].drop_duplicates())
    pairs_found = compared(measured)
    assert len(read) == 2 * n_texts  # for `against` and for `m`, however many pairs there are
    effects_found = [effect_of(pair) for pair in pairs_found]
    measurement_figures(Frame(measured[measured["metric"] != "min"]), pairs_found, effects_found)
    head_effects(pairs_found)
    assert len(read) == 2 * n_texts


def test_every_head_has_its_effect_and_adjusted_p(tmp_path):
    measured = rows(("cot", "no_cot", "filler"), ("min", "mean"), ("all", "answer"))
    write_heads(tmp_path / "heads.csv", [head_effects(compared(measured))])
    found = pd.read_csv(tmp_path / "heads.csv")
    names = ["first", "second", "metric", "scope", "layer", "head", "effect", "adjusted_p"]
    assert list(found) == names
    assert len(found) == 3 * 2 * 2 * 6
    for (first, second, metric, scope), part in found.groupby(names[:4]):
        direct = contrast(measured, Side(first, metric, scope), Side(second, metric, scope))
        np.testing.assert_allclose(part["effect"], direct.differences.mean(0).ravel(), rtol=1e-5)
        np.testing.assert_allclose(part["adjusted_p"], direct.head_p_values().ravel(), rtol=1e-5)
    write_heads(tmp_path / "few.csv", [head_effects(compared(rows(("cot", "no_cot"), n=5)))])
    assert not (tmp_path / "few.csv").exists()


def test_effects_are_stored_and_read(tmp_path):
    found = effects(rows(("cot", "no_cot"), ("min", "mean")))
    write_effects(tmp_path / "effects.json", "cotlens entropy", found)
    assert read_effects(tmp_path / "effects.json") == found
    for wrong in ("[]", "{}", '{"effects": [{}]}', '{"effects": 3}', "no"):
        (tmp_path / "effects.json").write_text(wrong)
        with pytest.raises(ValueError, match=r"effects.json is not a file of effects"):
            read_effects(tmp_path / "effects.json")


def test_figures_name_what_was_compared():
    measured = rows(("filler", "no_cot"), ("entropy_nats_mean",), ("all", "answer"), shift=2.0)
    drawn = measurement_figures(Frame(measured), compared(measured), effects(measured))
    assert set(drawn) == {"effects", "paired_heads", "difference_maps"}
    assert drawn["paired_heads"].axes[0].get_title() == "entropy_nats_mean, answer tokens\nfiller − no_cot"
    assert drawn["paired_heads"].get_supylabel() == "entropy with filler"
    both = rows(("cot", "no_cot"))
    assert "sorted_bars" in measurement_figures(Frame(both), compared(both), effects(both))
