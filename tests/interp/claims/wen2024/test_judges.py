"""The parts of wen2024's figures 2 and 3b on rows made by hand, where the right verdict is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from interp.claims.wen2024 import fig2, fig3b
from interp.core.claim import CLAIMS
from probes.rows import concat, setting, table

BUDGET = 1_000_000
KS = (1, 2, 3, 4)


def _run(condition: str, k: int, seed: int, samples: float) -> pd.DataFrame:
    cut = samples >= BUDGET
    place = setting(n=30, k=k, layers=1, heads=1, d_model=128, lr=1e-4, eval_every=2048)
    return table(
        run=f"{condition}{k}{seed}", condition=condition, unit=str(seed), setting=place, scope="test",
        metric="censored_at" if cut else "sample_complexity", value=float(BUDGET if cut else samples),
    )  # fmt: skip


def _outcomes(no_cot, cot, sd: float = 0.1) -> dict[str, str]:
    """Outcomes on medians no_cot(k) and cot(k) with lognormal noise, five seeds."""
    rng = np.random.default_rng(0)
    rows = concat(
        _run(condition, k, seed, median(k) * np.exp(sd * rng.normal()))
        for condition, median in (("no_cot", no_cot), ("cot", cot))
        for k in KS
        for seed in range(5)
    )
    found = CLAIMS[fig2.ID].judge(rows, replace(fig2.PRESETS["cpu"], layers_heads=((1, 1),)))
    return {v.key: v.outcome for v in found.verdicts}


def test_exponential_without_and_linear_with_cot_support_every_part():
    assert set(_outcomes(lambda k: 7_000 * 3.0**k, lambda k: 20_000 * k, sd=0.02).values()) == {"supported"}


def test_an_overhead_beside_a_power_is_not_called_exponential():
    found = _outcomes(lambda k: 60_000 + 9_000 * k**3, lambda k: 20_000 * k, sd=0.05)
    assert found["exponential"] != "supported"


@pytest.mark.parametrize("power", [1, 2, 4])
def test_a_power_of_k_without_cot_is_not_called_exponential(power):
    found = _outcomes(lambda k: 3_000 * k**power, lambda k: 3_000 * k, sd=0.05)
    assert found["exponential"] == "refuted"
    assert found["faster"] != "supported"
    assert found["saves"] == ("refuted" if power == 1 else "supported")


@pytest.mark.parametrize("last", [2 * BUDGET, BUDGET / 2])
def test_a_cliff_at_the_largest_size_is_not_called_exponential(last):
    assert _outcomes(lambda k: 20_000 * k if k < 4 else last, lambda k: 20_000 * k)["exponential"] != "supported"


def test_a_cliff_at_the_third_of_three_solved_sizes_is_not_testable():
    found = _outcomes(lambda k: {1: 30_000, 2: 60_000, 3: 300_000, 4: 2 * BUDGET}[k], lambda k: 20_000 * k)
    assert found["exponential"] == "not testable here"


def test_quadratic_growth_with_cot_refutes_linear():
    assert _outcomes(lambda k: 7_000 * 3.0**k, lambda k: 10_000 * k**2.2)["linear"] == "refuted"


def test_two_solved_sizes_cannot_tell_laws_apart():
    found = _outcomes(lambda k: 30_000 * k if k < 3 else 2 * BUDGET, lambda k: 20_000 * k)
    assert found["exponential"] == "not testable here"
    assert found["faster"] == "supported"  # k=3 takes at least the budget, and a line three times k=1
    nothing_solved = _outcomes(lambda k: 2 * BUDGET, lambda k: 2 * BUDGET, sd=0.0)
    assert nothing_solved == {
        "faster": "inconclusive",
        "exponential": "not testable here",
        "linear": "not testable here",
        "saves": "inconclusive",
        "saves_2": "inconclusive",
        "growth_2": "not testable here",
    }


def test_a_saving_at_the_largest_size_need_not_be_one_at_two():
    found = _outcomes(lambda k: 7_000 * 3.0**k, lambda k: 90_000 if k == 2 else 20_000 * k)
    assert (found["saves"], found["saves_2"]) == ("supported", "refuted")


def test_a_lower_bound_cannot_refute_the_saving():
    """Every run without CoT is cut off at the budget, just above what CoT needs: the saving may be any larger."""
    found = _outcomes(lambda k: 2 * BUDGET if k > 2 else 30_000 * k, lambda k: 150_000 * k)
    assert found["saves"] == "inconclusive"


def _attention(accuracy: float, mass: float, hit: float) -> dict[str, str]:
    width = fig3b.PRESETS["smoke"].widths[0]
    place = setting(n=8, k=2, layers=1, heads=1, d_model=width.d_model, lr=1e-3, eval_every=1024, dropout=0.0)
    metrics = {"test_accuracy": accuracy, "top1_hit": hit, "dependency_mass": mass}
    rows = concat(
        table(
            run=f"r{seed}", condition="cot", unit=str(seed), setting=place, metric=metric, value=value - 0.001 * seed
        )
        for seed in range(8)
        for metric, value in metrics.items()
    )
    found = CLAIMS[fig3b.ID].judge(rows, fig3b.PRESETS["smoke"])
    return {v.key: v.outcome for v in found.verdicts}


def test_models_that_did_not_learn_do_not_judge_attention():
    assert set(_attention(1.0, mass=0.3, hit=0.5).values()) == {"refuted"}
    assert set(_attention(0.4, mass=0.3, hit=0.5).values()) == {"not testable here"}


def test_predominant_attention_need_not_be_one_hot():
    assert _attention(1.0, mass=0.7, hit=0.99) == {"mass": "supported", "points": "supported", "one_hot": "refuted"}


def test_fresh_seeds_keep_names_apart_and_the_first_keeps_its_maps():
    for claim, module in (("wen2024/fig2", fig2), ("wen2024/fig3b", fig3b)):
        preset = module.PRESETS["smoke"]
        first, fresh = (CLAIMS[claim].items(replace(preset, first_unit=unit)) for unit in (0, 100))
        assert not {item.name for item in first} & {item.name for item in fresh}
        assert {item.parameters["seed"] for item in fresh} == {100, 101}
    assert [item.parameters.get("maps") for item in fresh] == [True, None]
    assert all("maps" not in item.parameters for item in first)
