"""wen2024/causal-sparsity: what each arm does to attention, and how its runs are compared."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch

from interp.claims.wen2024 import causal_sparsity
from interp.claims.wen2024._causal import cost, share_solved
from interp.claims.wen2024._runs import ParityRun, parity_of, train_parity
from interp.claims.wen2024.causal_sparsity import PRESETS, later_parts, share_rescued
from interp.core.claim import load_claims
from interp.core.parts import NotMeasurable
from toy_models.engine.attention_control import learned_pattern

CHAIN = ParityRun(cot=True, n=8, k=3, seed=4, d_model=32, d_mlp=64, lr=3e-3, budget=2_048, n_held_out=16)


def control(arm: str, tmp_path, run: ParityRun = CHAIN):
    return causal_sparsity._control(arm, run, 0.3, tmp_path)


def test_given_attention_is_on_the_dependencies_and_misplaced_attention_on_none_of_them(tmp_path):
    task = parity_of(CHAIN)
    for step, secret in enumerate(task.secret):
        query = task.n + step
        row = control("given", tmp_path).pattern[0, query]
        assert row[secret] == row[query] == 0.5
        row = control("misplaced", tmp_path).pattern[0, query]
        assert row[query] == 0.5, "the running parity stays"
        (bit,) = [key for key in row.nonzero().flatten().tolist() if key != query]
        assert bit < task.n
        assert bit not in task.secret
    direct = parity_of(replace(CHAIN, cot=False))
    row = control("given", tmp_path, replace(CHAIN, cot=False)).pattern[0, direct.n]
    assert sorted(row.nonzero().flatten().tolist()) == sorted(direct.secret)


def test_a_transplant_takes_the_attention_of_the_run_with_free_attention(tmp_path):
    found = control("transplanted", tmp_path).pattern
    task, donor = train_parity(CHAIN, tmp_path / "again")
    inputs = task.sample(causal_sparsity.DONOR_INPUTS, torch.Generator().manual_seed(CHAIN.seed)).inputs
    torch.testing.assert_close(found, learned_pattern(donor.model, inputs))


def test_pressure_has_the_sign_and_strength_of_its_name(tmp_path):
    weights = {arm: control(arm, tmp_path).entropy_weight for arm in causal_sparsity.PRESSED}
    assert weights == pytest.approx(
        {"pressed_sparse": 0.3, "weakly_sparse": 0.03, "pressed_dense": -0.3, "weakly_dense": -0.03}
    )
    assert control("free", tmp_path) is None


def runs(free: list[float], other: list[float], budget: float = 1000.0) -> pd.DataFrame:
    """Two arms of one problem, by seed; at the budget a run is cut."""
    parts = []
    for arm, samples in (("free", free), ("uniform", other)):
        values = np.minimum(samples, budget)
        parts.append(
            pd.DataFrame(
                {
                    "unit": [str(seed) for seed in range(len(values))],
                    "condition": "cot",
                    "k": 6,
                    "arm": arm,
                    "samples": values,
                    "censored": values >= budget,
                    "entropy": 0.4,
                }
            )
        )
    return pd.concat(parts)


def test_a_cost_is_paired_by_seed_and_open_where_a_budget_cut():
    found = cost(runs([10, 20, 40], [100, 200, 400]), 0.95, problem=("cot", 6), arm="uniform")
    assert (found.value, found.n) == (pytest.approx(1.0), 3)
    cut = cost(runs([10, 20, 40], [100, 5000, 5000]), 0.95, problem=("cot", 6), arm="uniform")
    assert cut.high == np.inf
    assert np.isfinite(cut.low)
    neither = cost(runs([10, 20, 5000], [100, 200, 5000]), 0.95, problem=("cot", 6), arm="uniform")
    assert neither.n == 2, "a seed that solves neither says nothing"
    nothing = cost(runs([5000, 5000], [5000, 5000]), 0.95, problem=("cot", 6), arm="uniform")
    assert isinstance(nothing, NotMeasurable)


def test_a_run_with_sparse_attention_does_not_count_as_learned_with_dense():
    table = runs([10, 20, 40], [100, 200, 5000])
    assert share_solved(table, 0.95, problem=("cot", 6), arm="uniform").value == pytest.approx(2 / 3)
    assert share_solved(table, 0.95, problem=("cot", 6), arm="uniform", above=0.5).value == 0


def test_rescued_are_seeds_that_one_of_the_two_arms_solves_alone():
    found = share_rescued(runs([10, 5000, 5000, 5000], [20, 30, 40, 5000]), 0.95, problem=("cot", 6), arm="uniform")
    assert (found.value, found.n) == (1.0, 2), "what both solve, or neither, says nothing of the difference"
    lost = share_rescued(runs([10, 20, 5000], [5000, 20, 30]), 0.95, problem=("cot", 6), arm="uniform")
    assert (lost.value, lost.n) == (0.5, 2)
    alike = share_rescued(runs([10, 5000], [20, 5000]), 0.95, problem=("cot", 6), arm="uniform")
    assert isinstance(alike, NotMeasurable)


def test_parts_added_after_the_data_are_ours_and_leave_the_declared_ones_as_they_were():
    later = {part.key for part in later_parts(("cot", 6), ("no_cot", 2))}
    declared = load_claims()[causal_sparsity.ID].parts(PRESETS["cpu"])
    assert later <= {part.key for part in declared if part.added_later and not part.primary}
    assert {part.key for part in declared if part.primary} == {"dense", "given"}
