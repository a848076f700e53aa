"""The judges of wen2024 on rows made by hand, where the right verdict is known."""

import numpy as np
import pandas as pd
import pytest

from interp.core.claim import load_claims
from probes.rows import concat, setting, table

BUDGET = 1_000_000


def _run(condition: str, k: int, seed: int, samples: float) -> pd.DataFrame:
    cut = samples >= BUDGET
    place = setting(n=30, k=k, layers=1, heads=1, d_model=128, lr=1e-4, eval_every=2048)
    return table(
        run=f"{condition}{k}{seed}", condition=condition, unit=str(seed), setting=place, scope="test",
        metric="censored_at" if cut else "sample_complexity", value=float(BUDGET if cut else samples),
    )  # fmt: skip


def _verdicts(no_cot, cot, sd: float = 0.1, ks=(1, 2, 3, 4)) -> dict[str, str]:
    """Verdicts on medians no_cot(k) and cot(k) with lognormal noise, five seeds."""
    rng = np.random.default_rng(0)
    rows = concat(
        _run(condition, k, seed, median(k) * np.exp(sd * rng.normal()))
        for condition, median in (("no_cot", no_cot), ("cot", cot))
        for k in ks
        for seed in range(5)
    )
    return {v.part.split(":")[0]: v.outcome for v in load_claims()["wen2024/fig2"].judge(rows)}


def test_exponential_without_and_linear_with_cot_support_every_part():
    found = _verdicts(lambda k: 8_000 * 4.0**k, lambda k: 20_000 * k)
    assert set(found.values()) == {"supported"}


def test_linear_growth_without_cot_is_not_called_exponential():
    found = _verdicts(lambda k: 10_000 * k, lambda k: 10_000 * k, ks=(1, 2, 4, 8, 16, 32))
    assert found["without CoT"] == "refuted"
    assert found["CoT needs fewer samples"] == "refuted"


def test_quadratic_growth_with_cot_refutes_linear():
    assert _verdicts(lambda k: 8_000 * 4.0**k, lambda k: 10_000 * k**2.2)["with CoT"] == "refuted"


def test_no_information_is_inconclusive_not_refuted():
    only_k_1_solved = _verdicts(lambda k: 30_000 if k == 1 else 2 * BUDGET, lambda k: 20_000 * k)
    assert only_k_1_solved["without CoT"] in ("supported", "inconclusive")
    nothing_solved = _verdicts(lambda k: 2 * BUDGET, lambda k: 2 * BUDGET, sd=0.0)
    assert set(nothing_solved.values()) == {"inconclusive"}


def test_a_lower_bound_cannot_refute_the_saving():
    """Every run without CoT is cut off at the budget, just above what CoT needs: the saving may be any larger."""
    found = _verdicts(lambda k: 2 * BUDGET if k > 2 else 30_000 * k, lambda k: 150_000 * k)
    assert found["CoT needs fewer samples"] == "inconclusive"


@pytest.mark.parametrize(("accuracy", "outcome"), [(1.0, "refuted"), (0.4, "inconclusive")])
def test_models_that_did_not_learn_do_not_judge_attention(accuracy, outcome):
    place = setting(n=8, k=2, layers=1, heads=1, d_model=32, lr=1e-3, eval_every=1024)
    metrics = {"test_accuracy": accuracy, "top1_hit": 0.5, "dependency_mass": 0.3}
    rows = concat(
        table(
            run=f"r{seed}", condition="cot", unit=str(seed), setting=place, metric=metric, value=value + 0.001 * seed
        )
        for seed in range(3)
        for metric, value in metrics.items()
    )
    verdicts = load_claims()["wen2024/fig3b"].judge(rows)
    assert {v.outcome for v in verdicts} == {outcome}
