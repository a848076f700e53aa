"""Paired contrasts against values computed by hand."""

import numpy as np
import pandas as pd
import pytest

from hf_analysis.text.problems import template_of
from interp.core.contrast import N_FLIPS, Contrast, NotPaired, Side, cluster_totals, contrast, head_test
from interp.statistics import sign_flip_max_t
from probes.rows import concat, table

RNG = np.random.default_rng(0)


def _rows(condition: str, values: np.ndarray, run: str = "m", units: list[str] | None = None) -> pd.DataFrame:
    n_problems, n_layers, n_heads = values.shape
    units = units or [f"p{i}" for i in range(n_problems)]
    layer, head = np.indices((n_layers, n_heads)).reshape(2, -1)
    return concat(
        table(
            run=run, condition=condition, unit=unit, metric="min", scope="all", layer=layer, head=head,
            value=values[i].reshape(-1),
        )
        for i, unit in enumerate(units)
    )  # fmt: skip


COT, NO_COT = Side("cot", "min", "all"), Side("no_cot", "min", "all")


def test_problems_are_paired_by_id_whatever_their_order():
    first, second = RNG.random((6, 2, 3)), RNG.random((6, 2, 3))
    order = [3, 1, 5, 0, 2, 4]
    rows = concat([_rows("cot", first), _rows("no_cot", second[order], units=[f"p{i}" for i in order])])
    found = contrast(rows.sample(frac=1, random_state=1), COT, NO_COT)
    np.testing.assert_array_equal(found.differences, first - second)
    assert found.overall().value == pytest.approx((first - second).mean())
    assert found.overall().n == 6


def test_problems_without_both_sides_are_left_out():
    first, second = RNG.random((4, 1, 2)), RNG.random((3, 1, 2))
    found = contrast(concat([_rows("cot", first), _rows("no_cot", second)]), COT, NO_COT)
    assert len(found.first) == 3


def test_runs_are_kept_apart():
    first, second = RNG.random((3, 1, 2)), RNG.random((3, 1, 2))
    rows = concat([_rows("cot", first, run="a"), _rows("cot", second, run="b")])
    found = contrast(rows, Side("cot", "min", "all", run="a"), Side("cot", "min", "all", run="b"))
    np.testing.assert_array_equal(found.second, second)
    with pytest.raises(ValueError, match="values of"):  # both runs in one side: twice as many values as heads
        contrast(rows, COT, Side("cot", "min", "all", run="b"))


def test_heads_that_move_are_found_and_others_are_not():
    noise = RNG.normal(0, 0.01, (40, 2, 3))
    shift = np.array([[-0.1, 0.0, 0.0], [0.0, 0.1, 0.0]])
    found = contrast(
        concat([_rows("cot", 0.5 + shift + noise), _rows("no_cot", np.full((40, 2, 3), 0.5))]), COT, NO_COT
    )
    clear = found.head_p_values() < 0.05
    np.testing.assert_array_equal(clear, shift != 0)
    assert found.head_shares() == (1 / 6, 1 / 6)


def test_problems_of_one_template_are_one_cluster():
    """Copies of six problems under ids that share a template say no more than the six."""
    units = [f"gsm-symbolic-0-{place:05d}" for place in range(1, 61)]
    templates = sorted({template_of(unit) for unit in units})
    by_template = dict(zip(templates, RNG.normal(0.1, 0.1, (len(templates), 1, 2))))
    first = np.stack([by_template[template_of(unit)] for unit in units])
    found = contrast(concat([_rows("cot", first, units=units), _rows("no_cot", 0 * first, units=units)]), COT, NO_COT)
    assert found.overall(0.9).n == found.n_clusters == len(templates) < 60
    assert found.overall().value == pytest.approx(first.mean())
    naive = Contrast(found.first, found.second).overall()
    assert found.overall().high - found.overall().low > naive.high - naive.low
    totals = cluster_totals(first.reshape(60, 2), found.labels)
    assert totals.shape == (len(templates), 2)
    np.testing.assert_array_equal(found.head_p_values().ravel(), head_test(totals).p_adjusted)


def test_a_missing_condition_names_those_there_are():
    with pytest.raises(ValueError, match="the conditions cot"):
        contrast(_rows("cot", RNG.random((3, 1, 2))), COT, NO_COT)


def test_one_common_problem_is_too_few():
    rows = concat([_rows("cot", RNG.random((1, 1, 2))), _rows("no_cot", RNG.random((1, 1, 2)))])
    with pytest.raises(ValueError, match="at least 2"):
        contrast(rows, COT, NO_COT)


def test_a_missing_metric_names_those_there_are():
    with pytest.raises(ValueError, match="the metrics min; the scopes all"):
        contrast(_rows("cot", RNG.random((3, 1, 2))), Side("cot", "effective_keys_mean", "all"), COT)


def test_heads_are_tested_once_for_verdict_figures_and_report(monkeypatch):
    calls = []

    def counted(*arguments, **options):
        calls.append(1)
        return sign_flip_max_t(*arguments, **options)

    monkeypatch.setattr("interp.core.contrast.sign_flip_max_t", counted)
    first, second = RNG.random((8, 2, 3)), RNG.random((8, 2, 3))
    rows = concat([_rows("cot", first), _rows("no_cot", second)])
    once, again = contrast(rows, COT, NO_COT), contrast(rows, COT, NO_COT)
    once.head_shares()
    flat = (first - second).reshape(8, -1)
    expected = sign_flip_max_t(flat, rng=0, n_flips=N_FLIPS).p_adjusted
    for found in (once.head_p_values().ravel(), again.head_p_values().ravel(), head_test(flat).p_adjusted):
        np.testing.assert_array_equal(found, expected)
    assert len(calls) == 1
    head_test(flat + 0.1)
    assert len(calls) == 2


def _matched(condition: str, values: np.ndarray, setting: str, scope: str = "answer", run: str = "m") -> pd.DataFrame:
    made = _rows(condition, values, run=run)
    return made.assign(setting=setting, metric="length_matched_min", scope=scope)


def test_each_side_is_read_at_the_length_of_the_other():
    own, long, short, other = (RNG.random((3, 1, 2)) for _ in range(4))
    rows = concat(
        [
            _matched("cot", own, "m=50"),
            _matched("cot", long, "against=no_cot m=7"),
            _matched("cot", other, "against=filler m=9"),
            _matched("no_cot", short, "m=7"),
            _matched("cot_clean", other, "against=cot m=50"),
        ]
    )
    cot, no_cot, clean = (Side(name, "length_matched_min", "answer") for name in ("cot", "no_cot", "cot_clean"))
    np.testing.assert_array_equal(contrast(rows, cot, no_cot).differences, long - short)
    np.testing.assert_array_equal(contrast(rows, no_cot, cot).differences, short - long)
    np.testing.assert_array_equal(contrast(rows, clean, cot).differences, other - own)


def test_sides_of_unequal_length_are_refused():
    rows = concat([_matched("cot", RNG.random((3, 1, 2)), "m=50"), _matched("no_cot", RNG.random((3, 1, 2)), "m=7")])
    cot, no_cot = (Side(name, "length_matched_min", "answer") for name in ("cot", "no_cot"))
    with pytest.raises(NotPaired, match="over 50 and 7 tokens in problem p0: no rows of this pair"):
        contrast(rows, cot, no_cot)


def test_two_models_on_one_text_need_a_length_by_name():
    first, second, own = (RNG.random((3, 1, 2)) for _ in range(3))
    rows = concat(
        [_matched("cot", values, "against=no_cot m=7", run=run) for run, values in (("a", first), ("b", second))]
        + [_matched("cot", own, "m=50", run=run) for run in "ab"]
    )
    place = ("cot", "length_matched_min", "answer")
    found = contrast(rows, *(Side(*place, run=run, against="no_cot") for run in "ab"))
    np.testing.assert_array_equal(found.differences, first - second)
    with pytest.raises(NotPaired, match="compared with the same text"):
        contrast(rows, Side(*place, run="a"), Side(*place, run="b"))


def test_rows_from_before_pairs_had_their_own_are_taken_as_they_are():
    first, second = RNG.random((3, 1, 2)), RNG.random((3, 1, 2))
    rows = concat([_matched("cot", first, ""), _matched("no_cot", second, "")])
    cot, no_cot = (Side(name, "length_matched_min", "answer") for name in ("cot", "no_cot"))
    np.testing.assert_array_equal(contrast(rows, cot, no_cot).differences, first - second)


def test_a_problem_without_rows_of_the_pair_takes_those_of_its_own_length():
    """The longer text differs from problem to problem."""
    a, b = RNG.random((2, 1, 2)), RNG.random((2, 1, 2))
    made = (
        (_matched("cot", a, "m=5"), "p0"),
        (_matched("cot", a, "against=clean m=4"), "p1"),
        (_matched("clean", b, "against=cot m=5"), "p0"),
        (_matched("clean", 9 + b, "m=6"), "p0"),
        (_matched("clean", b, "m=4"), "p1"),
    )
    rows = concat(table[table["unit"] == unit] for table, unit in made)
    cot, clean = (Side(name, "length_matched_min", "answer") for name in ("cot", "clean"))
    np.testing.assert_array_equal(contrast(rows, cot, clean).differences, a - b)
