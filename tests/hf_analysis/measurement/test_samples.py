"""Several texts of one problem, against each of them measured alone."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from hf_analysis.measurement.pairs import matched_to, sizes_of_pairs
from hf_analysis.measurement.reductions import PassageRows, reduce_problem
from hf_analysis.measurement.samples import averaged, views
from hf_analysis.text.scopes import TokenCounts
from interp.core.contrast import Side, contrast
from probes.rows import concat

ASKED = (["mean", "length_matched_min"], ["answer", "final", "first"])


def passages(lengths, seed=0, endings=None):
    """Texts by key, of so many tokens after a question of three; the closing sentence of two, if it has one."""
    generator = torch.Generator().manual_seed(seed)
    return [
        PassageRows(
            key, "correct=1" if "generated" in key else "", (*range(1 + n), *(endings or {}).get(key, (7, 8))),
            TokenCounts(3 + n, 3, 2 if "clean" in key else None),
            {"normalised_entropy": torch.rand((2, 2, 3 + n), generator=generator)}, (0, 1),
        )
        for key, n in lengths.items()
    ]  # fmt: skip


def measured_alone(found, keys, unit="p0"):
    """What `found` has under `keys` only, each a condition."""
    alone = [replace(p, condition=keys[p.condition]) for p in found if p.condition in keys]
    return reduce_problem("m", unit, alone, *ASKED).rows


LENGTHS = {"no_cot": 4, "cot_clean": 8, "generated": 9, "generated_clean": 6, "generated#1": 7}
FIRST = {name: name for name in ("no_cot", "cot_clean", "generated", "generated_clean")}
SECOND = {"no_cot": "no_cot", "cot_clean": "cot_clean", "generated#1": "generated"}


def test_a_view_has_no_text_of_another_sample():
    found = views(passages(LENGTHS))
    assert [[passage.condition for passage in view] for view in found] == [list(FIRST), list(SECOND.values())]
    assert [passage.counts.n_answer for passage in found[1]] == [4, 8, 7]
    only_second = {name: n for name, n in LENGTHS.items() if name in SECOND}
    assert [[passage.condition for passage in view] for view in views(passages(only_second))] == [
        list(SECOND.values())
    ]
    fixed = {name: n for name, n in LENGTHS.items() if "generated" not in name}
    assert [[passage.condition for passage in view] for view in views(passages(fixed))] == [list(fixed)]


@pytest.mark.parametrize(
    ("metric", "scope"), [("mean", "answer"), ("length_matched_min", "answer"), ("mean", "first")]
)
def test_both_sides_of_a_pair_are_means_over_the_samples_that_have_both(metric, scope):
    tables, alone = [], []
    for i in range(3):
        found, unit = passages(LENGTHS, seed=i), f"p{i}"
        tables.append(averaged([reduce_problem("m", unit, view, *ASKED) for view in views(found)]).rows)
        alone.append([measured_alone(found, keys, unit) for keys in (FIRST, SECOND)])
    table, samples = concat(tables), [concat(one) for one in zip(*alone)]

    def difference(rows: pd.DataFrame, first: str, second: str) -> np.ndarray:
        return contrast(rows, Side(first, metric, scope), Side(second, metric, scope)).differences

    for pair in (("generated", "generated_clean"), ("generated_clean", "no_cot"), ("generated_clean", "cot_clean")):
        np.testing.assert_array_equal(difference(table, *pair), difference(samples[0], *pair))
    for pair in (("generated", "no_cot"), ("cot_clean", "no_cot"), ("generated", "cot_clean")):
        expected = sum(difference(one, *pair) for one in samples) / 2
        np.testing.assert_allclose(difference(table, *pair), expected, rtol=0, atol=1e-12)


def test_rows_of_a_pair_are_at_the_length_that_a_sample_has():
    found = passages(LENGTHS)
    table = averaged([reduce_problem("m", "p0", view, *ASKED) for view in views(found)]).rows
    mine = table[(table["condition"] == "generated") & (table["metric"] == "length_matched_min")]
    sizes = {other: set(sizes_of_pairs(matched_to(mine[mine["scope"] == "answer"], other))) for other in FIRST}
    assert sizes["generated_clean"] == {"6"}  # that of sample 0, not of the text of sample 1 beside it
    assert sizes["no_cot"] == {"4"}
    assert sizes["cot_clean"] == {"7.5"}  # 8 and 7


def test_two_models_may_be_compared_on_texts_of_different_samples():
    """Rows for a pair of texts, of no m tokens, do not stand in the way of those over all samples."""
    tables = []
    for run in ("a", "b"):
        for i in range(2):
            each = [reduce_problem(run, f"p{i}", view, *ASKED) for view in views(passages(LENGTHS, seed=i))]
            tables.append(averaged(each).rows)
    found = contrast(concat(tables), *(Side("generated", "mean", "answer", run) for run in "ab"))
    np.testing.assert_array_equal(found.differences, np.zeros((2, 2, 2)))


def test_a_scope_is_set_aside_where_no_sample_has_rows_in_it():
    lengths = {"cot_clean": 8, "generated_clean": 6, "generated_clean#1": 7}
    for odd, expected in ((["generated_clean#1"], ()), (["generated_clean", "generated_clean#1"], ("final",))):
        found = passages(lengths, endings=dict.fromkeys(odd, (8, 8)))
        each = averaged([reduce_problem("m", "p0", view, *ASKED) for view in views(found)])
        assert each.set_aside == expected
        assert ("final" in set(each.rows["scope"])) == (not expected)
