"""The parts of wen2024/lemmas and wen2024/thm2 on simulated rows, where the right verdict is known."""

from dataclasses import replace

import numpy as np
import pytest

from interp.claims.wen2024 import lemmas, thm2
from interp.claims.wen2024._lemmas import STATEMENTS, summary
from interp.claims.wen2024._worlds_lemmas import lemma_rows
from interp.core.claim import CLAIMS

CPU = lemmas.PRESETS["cpu"]
FINE = dict.fromkeys(STATEMENTS, 1.0)


def _outcomes(**holds: float) -> dict[str, str]:
    rows = lemma_rows(CPU, {**FINE, **holds})(np.random.default_rng(0))
    return {v.key: v.outcome for v in CLAIMS["wen2024/lemmas"].judge(rows, CPU).verdicts}


def test_lemmas_that_hold_are_supported():
    assert set(_outcomes().values()) == {"supported"}


@pytest.mark.parametrize("key", [key for key in STATEMENTS if key not in ("lemma7_meant", "lemma21_all", "assumed")])
def test_each_lemma_is_refuted_by_its_own_quantity(key):
    assert {name for name, outcome in _outcomes(**{key: 0.0}).items() if outcome == "refuted"} == {
        key, *(["lemma21_all"] if key == "lemma21" else [])  # the same quantity, at every n
    }  # fmt: skip


def test_lemma_7_prints_a_bound_of_zero_where_j_is_not_the_secret():
    rows = lemma_rows(CPU, FINE)(np.random.default_rng(0))
    rows.loc[rows["metric"] == "7_alpha_other", "value"] = 1e-9
    found = {v.key: v.outcome for v in CLAIMS["wen2024/lemmas"].judge(rows, CPU).verdicts}
    assert (found["lemma7"], found["lemma7_meant"]) == ("refuted", "supported")


def test_only_the_largest_n_is_asked_for_lemma_21():
    rows = lemma_rows(CPU, FINE)(np.random.default_rng(0))
    small = rows["setting"].str.contains("n=32") & (rows["metric"] == "21_others")
    rows.loc[small, "value"] = 9.0
    found = {v.key: v.outcome for v in CLAIMS["wen2024/lemmas"].judge(rows, CPU).verdicts}
    assert (found["lemma21"], found["lemma21_all"]) == ("supported", "refuted")
    assert summary(rows).table["21_others"].max() == 9


def test_items_are_every_arm_size_and_seed():
    names = [item.name for item in lemmas.items(replace(lemmas.PRESETS["smoke"], first_unit=7, seeds=1))]
    assert names == ["sampled,n=12,k=2,seed=7", "sampled,n=8,k=2,seed=7", "enumerated,n=6,k=2,seed=7",
                     "assumed,n=6,k=2,seed=7"]  # fmt: skip


def test_the_lower_bound_needs_its_control():
    claim = CLAIMS["wen2024/thm2"]

    def outcomes(one: float, two: float, many: float) -> list[str]:
        rows = thm2._world({1: one, 2: two, 8: many})(np.random.default_rng(0))
        return [v.outcome for v in claim.judge(rows, thm2.PRESETS["cpu"]).verdicts]

    assert outcomes(1.0, 1.0, 0.0) == ["supported", "supported", "supported"]
    assert outcomes(1.0, 1.0, 1.0) == ["supported", "inconclusive", "supported"]  # never against the bound
    assert outcomes(1.0, 0.0, 0.0) == ["supported", "supported", "refuted"]
    assert outcomes(0.0, 0.0, 0.0) == ["refuted", "not testable here", "refuted"]
