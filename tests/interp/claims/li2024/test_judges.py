"""The judges of li2024 on rows made by hand, where the right verdict is known."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from interp.claims.li2024._runs import exam_rows, over_seeds, required, trained, weakest_order
from interp.core.claim import load_claims
from probes.rows import concat, setting, table, with_settings
from toy_models.incontext.errors import Errors

SEEDS = [str(seed) for seed in range(5)]
LENGTHS = (5, 10, 20, 40, 80, 160, 320)


def judged(claim: str, rows: pd.DataFrame) -> dict[str, str]:
    return {verdict.part: verdict.outcome for verdict in load_claims()[f"li2024/{claim}"].judge(rows)}


def jitter(n: int, seed: int = 0) -> np.ndarray:
    return np.exp(0.05 * np.random.default_rng(seed).normal(size=n))


def curve(metric: str, scope: str, scale: float, place: dict, seed: int, lengths=LENGTHS) -> list[pd.DataFrame]:
    """Errors 0.9 exp(-l / scale), which fall below 0.05 at l = 2.9 scale."""
    common = {"run": "r", "condition": "c", "unit": SEEDS, "scope": scope, "n_tokens": 1000, "metric": metric}
    scales = scale * jitter(5, seed)
    return [
        table(value=0.9 * np.exp(-length / scales), setting=setting(l=length, **place), **common)
        for length in lengths
    ]


def factor_rows(
    law: Callable[[float, float, float], float], names: tuple[str, str, str], metric: str, scopes: tuple[str, ...]
) -> pd.DataFrame:
    parts = []
    for scope in scopes:
        for line, name in enumerate(names):
            for number, value in enumerate((0.2, 0.4, 0.8)):
                values = [0.8, 0.8, 0.8]
                values[line] = value
                place = {"line": name, **dict(zip(names, values))}
                parts += curve(metric, scope, law(*values), place, seed=10 * line + number)
    return concat(parts)


CLAIMS = {
    "fig2": (("alpha", "tau", "rho"), "cot_error", ("panel", "required")),
    "fig3": (("alpha", "tau_o", "rho_o"), "icl_error", ("panel",)),
}


@pytest.mark.parametrize("claim", CLAIMS)
class TestRequirements:
    def test_the_law_of_the_theorem_supports_every_part_but_the_limit_it_touches(self, claim):
        found = judged(claim, factor_rows(lambda a, t, r: 0.9 * (a * t * r) ** -2, *CLAIMS[claim]))
        squares = [outcome for part, outcome in found.items() if "square" in part]
        panels = [outcome for part, outcome in found.items() if ": error" in part]
        assert squares == ["supported"] * 3
        assert panels == ["supported"] * 6
        assert found["required examples grow no faster than the bound"] == "inconclusive"

    def test_growth_as_the_first_power_keeps_the_bound_and_refutes_the_squares(self, claim):
        found = judged(claim, factor_rows(lambda a, t, r: 2.5 / (a * t * r), *CLAIMS[claim]))
        assert found["required examples grow no faster than the bound"] == "supported"
        assert [outcome for part, outcome in found.items() if "square" in part] == ["refuted"] * 3

    def test_an_error_that_does_not_depend_on_the_factor_is_no_order(self, claim):
        found = judged(claim, factor_rows(lambda a, t, r: 10.0, *CLAIMS[claim]))
        assert "supported" not in [outcome for part, outcome in found.items() if "rises" in part]

    def test_an_error_that_stays_is_no_fall(self, claim):
        found = judged(claim, factor_rows(lambda a, t, r: 1e6, *CLAIMS[claim]))
        assert {outcome for part, outcome in found.items() if "falls with" in part} == {"refuted"}


def test_required_interpolates_and_censors():
    rows = concat([*curve("e", "s", 10.0, {"x": 1}, 0), *curve("e", "s", 1e4, {"x": 2}, 0)])
    found = required(with_settings(rows), ["x"])
    easy = found[found["x"] == 1]
    assert not easy["censored"].any()
    np.testing.assert_allclose(easy["needed"], 10 * jitter(5) * np.log(0.9 / 0.05), rtol=0.15)
    assert found[found["x"] == 2]["censored"].all()


def test_the_interval_of_no_error_at_all_has_a_width():
    rows = table(run="r", condition="c", unit=SEEDS, metric="e", value=np.zeros(5), n_tokens=1000)
    found = over_seeds(rows)
    assert found.low == found.value == 0
    assert 0.0005 < found.high < 0.001


def test_the_least_clear_pair_is_named():
    rows = pd.DataFrame(
        {
            "l": 20, "x": np.repeat([0.2, 0.4, 0.8], 5), "unit": SEEDS * 3,
            "value": np.r_[0.5 + 0.01 * np.arange(5), 0.3 + 0.02 * np.arange(5), 0.3 - 0.01 * np.arange(5)],
        }
    )  # fmt: skip
    interval, pair = weakest_order(rows, "x", 20)
    assert pair == "0.4 against 0.8"
    assert interval.low < 0.06


def fig4_rows(icl_failing: float, cot: float, icl_holding: float) -> pd.DataFrame:
    parts = []
    for accuracy, icl in ((0.72, icl_failing), (0.85, icl_holding)):
        for metric, last in (("icl_error", icl), ("cot_label_error", cot)):
            for length, value in ((5, max(last, 0.6)), (160, last)):
                place = setting(a=accuracy, l=length, condition_1=int(accuracy > 0.75), tau_o=0.5, rho_o=0.2)
                common = {"run": "r", "condition": "c", "scope": "test", "n_tokens": 1000}
                parts.append(table(metric=metric, value=value * jitter(5), unit=SEEDS, setting=place, **common))
    return concat(parts)


class TestFig4:
    def test_as_the_paper_says(self):
        assert set(judged("fig4", fig4_rows(0.7, 0.001, 0.001)).values()) == {"supported"}

    def test_icl_that_recovers_is_a_refutation(self):
        found = judged("fig4", fig4_rows(0.2, 0.001, 0.001))
        assert found["ICL stays wrong where Condition 1 fails (a=0.72)"] == "refuted"

    def test_cot_that_fails_is_a_refutation(self):
        found = judged("fig4", fig4_rows(0.7, 0.3, 0.001))
        assert found["CoT is right where Condition 1 fails (a=0.72)"] == "refuted"
        assert found["CoT is right where Condition 1 holds (a=0.85)"] == "refuted"
        assert found["ICL is right where Condition 1 holds (a=0.85)"] == "supported"


def fig5_rows(step_time: float, pattern_time: float, final: float = 0.97) -> pd.DataFrame:
    steps, parts = np.unique(np.geomspace(1, 4000, 60).round()), []
    for seed in range(10):
        other_step = 0.6 * (steps < step_time * (1 + 0.01 * seed)) + 0.005
        other_pattern = 0.2 * (steps < pattern_time * (1 + 0.01 * seed)) + (1 - final - 0.01)
        kinds = {
            "same_pattern_other_step": other_step / 5, "other_pattern_other_step": other_step * 4 / 5,
            "other_pattern_same_step": other_pattern, "same_pattern_same_step": 1 - other_step - other_pattern,
            "loss": other_pattern,
        }  # fmt: skip
        common = {"run": "r", "condition": "cot", "unit": str(seed), "scope": "test", "update": steps}
        parts += [table(metric=kind, value=values, **common) for kind, values in kinds.items()]
    return concat(parts)


class TestFig5:
    order, end = "other steps vanish before other patterns", "attention ends on the query's pattern and step"

    def test_two_stages_in_this_order(self):
        found = judged("fig5", fig5_rows(100, 1000))
        assert found == {self.order: "supported", self.end: "supported"}

    def test_the_other_order_or_both_at_once_refute_it(self):
        assert judged("fig5", fig5_rows(1000, 100))[self.order] == "refuted"
        assert judged("fig5", fig5_rows(300, 300))[self.order] == "refuted"

    def test_patterns_that_never_vanish_come_later_and_end_low(self):
        found = judged("fig5", fig5_rows(100, 1e9, final=0.7))
        assert found == {self.order: "supported", self.end: "refuted"}

    def test_steps_that_never_vanish_are_no_first_stage(self):
        assert judged("fig5", fig5_rows(1e9, 1000))[self.order] == "refuted"


def phase_rows(failing: float, holding: float, first: float) -> pd.DataFrame:
    """The advantage of CoT in each kind of cell."""
    parts = []
    cells = [("even", 0.25, 0.45, 0, failing), ("even", 0.15, 0.15, 0, 0.0), ("even", 0.55, 0.85, 1, holding)]
    for spread, tau, rho, condition_1, advantage in [*cells, ("first", 0.45, 0.45, 1, first)]:
        for length in (10, 160):
            place = setting(spread=spread, tau=tau, rho=rho, rho_o=rho, condition_1=condition_1, l=length)
            common = {"run": "r", "condition": "c", "unit": SEEDS, "scope": "test", "setting": place}
            parts += [
                table(metric="cot_label_error", value=np.full(5, 0.3), **common),
                table(metric="icl_error", value=0.3 + advantage * jitter(5), **common),
            ]
    return concat(parts)


class TestPhase:
    def test_cot_wins_where_condition_1_fails_and_nowhere_else(self):
        assert set(judged("phase", phase_rows(0.5, 0.01, 0.001)).values()) == {"supported"}

    def test_each_part_can_be_refuted(self):
        found = judged("phase", phase_rows(0.02, 0.2, -0.3))
        assert found["CoT wins wherever Condition 1 fails"] == "refuted"
        assert found["ICL wins nowhere"] == "refuted"
        assert found["little is left to win where Condition 1 holds"] == "refuted"
        assert judged("phase", phase_rows(0.5, 0.0, 0.3))["nobody wins with all errors in one step"] == "refuted"


def decoder_rows(icl: float, cot: float, focus: float = 0.8) -> pd.DataFrame:
    parts = []
    for condition, failing in (("icl", icl), ("cot", cot)):
        common = {"run": "r", "condition": condition, "unit": SEEDS}
        for accuracy, value in ((0.7, failing), (0.9, 0.03), (1.0, 0.001)):
            place = setting(a=accuracy, l=20, condition_1=int(accuracy > 0.75))
            parts.append(
                table(
                    metric="label_error",
                    value=value * jitter(5),
                    scope="errors",
                    setting=place,
                    n_tokens=1000,
                    **common,
                )
            )
        parts.append(table(metric="dependency_mass", value=focus * jitter(5), scope="test", **common))
    return concat(parts)


class TestDecoder:
    def test_like_the_theory_model(self):
        assert set(judged("decoder", decoder_rows(0.7, 0.1)).values()) == {"supported"}

    def test_no_advantage_and_no_focus(self):
        found = judged("decoder", decoder_rows(0.7, 0.65, focus=0.2))
        assert found["CoT is better where Condition 1 fails (a=0.7)"] == "refuted"
        assert found["CoT's decoder looks at the query's pattern and step"] == "refuted"
        assert found["ICL is wrong where Condition 1 fails (a=0.7)"] == "supported"


def test_exam_rows_do_not_depend_on_chunks_of_seeds_and_count_every_query():
    both, alone = (trained(seeds, 20) for seeds in ([0, 1], [1]))
    arguments = (Errors.offset(0.8, 3, 10), 0.8, [5, 10], 230)
    found, single = (exam_rows(models, *arguments, run="r", scope="s") for models in (both, alone))
    assert (found["n_tokens"] == 230).all()
    counts = found[found["metric"] == "icl_error"]["value"] * 230
    np.testing.assert_allclose(counts, counts.round(), atol=1e-6)
    of_one = found[found["unit"] == "1"].reset_index(drop=True)
    np.testing.assert_allclose(of_one["value"], single["value"], atol=0.01)
