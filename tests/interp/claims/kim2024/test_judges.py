"""The judges of kim2024 on rows made by hand, where the right verdict is known."""

import math

import numpy as np
import pandas as pd
import pytest

from interp.core.claim import load_claims, seed_batches
from interp.core.judging import growth_exponent, share_verdict
from probes.rows import concat, setting, table

SEEDS = [str(seed) for seed in range(10)]


def judged(claim: str, rows: pd.DataFrame) -> dict[str, str]:
    return {verdict.part: verdict.outcome for verdict in load_claims()[f"kim2024/{claim}"].judge(rows)}


def test_ten_of_ten_are_nearly_all_and_nine_are_not():
    common = {"claim": "kim2024/thm5", "part": "p", "quantity": "q"}

    def outcome(successes: int, expected) -> str:
        found = [True] * successes + [False] * (10 - successes)
        return share_verdict(found, expected=expected, **common).outcome

    assert [outcome(n, "nearly all") for n in (10, 9, 2, 1, 0)] == [
        "supported", "inconclusive", "refuted", "refuted", "refuted",
    ]  # fmt: skip
    assert [outcome(n, "hardly any") for n in (0, 1, 8, 10)] == [
        "supported", "inconclusive", "refuted", "refuted",
    ]  # fmt: skip


def test_seeds_come_in_batches():
    assert list(seed_batches(5, 2)) == [[0, 1], [2, 3], [4]]


def test_the_exponent_of_a_power_law_and_of_no_information():
    sizes = pd.Series(np.repeat([16.0, 32.0, 64.0], 10))
    noise = pd.Series(np.exp(0.1 * np.random.default_rng(0).normal(size=30)))
    none = pd.Series(np.zeros(30, bool))
    found = growth_exponent(sizes, sizes**-2 * noise, none, 2**0.5)
    assert found.low < -2 < found.high
    assert found.high - found.low < 0.5
    unknown = growth_exponent(sizes, sizes, pd.Series(sizes > 16), 2**0.5)
    assert (unknown.low, unknown.high) == (-math.inf, math.inf)


def one_step(first, sup_error: float = 0.01, window: float = 4.0) -> pd.DataFrame:
    """Rows of thm5 in which size d succeeds from n = first(d) on, with steps up to `window`."""
    rng, parts = np.random.default_rng(0), []
    for d in (16, 32, 64):
        start = first(d) * np.exp(0.1 * rng.normal(size=10))
        for n in sorted({d * d, *(2**power for power in range(8, 20))}):
            for eta in (1.5, 8.0):
                place = setting(d=d, k=d // 2, n=n, eta=eta, judged=1, enough=int(n == 2**17), chosen=int(eta == 1.5))
                common = {"run": "r", "condition": "c", "unit": SEEDS, "scope": "test", "setting": place}
                right = (n >= start) & (eta <= window)
                parts += [
                    table(metric="accuracy", value=np.where(right, 1.0, 0.5), **common),
                    table(metric="sup_error", value=np.where(right, sup_error, 2.0), **common),
                    table(metric="child_mass", value=np.ones(10), **common),
                    table(metric="imbalance", value=np.zeros(10), **common),
                ]
    return concat(parts)


class TestThm5:
    def test_success_at_enough_samples_with_slow_growth_supports_every_part(self):
        assert set(judged("thm5", one_step(lambda d: 1000.0 * d)).values()) == {"supported"}

    def test_growth_faster_than_the_square_is_refuted(self):
        found = judged("thm5", one_step(lambda d: 2.0 * d**2.6))
        assert found["samples needed grow at most as d^2"] == "refuted"

    def test_success_at_d_squared_is_refuted(self):
        assert judged("thm5", one_step(lambda d: 100.0))["n = d^2 is too few (d=32, k=16)"] == "refuted"

    def test_right_signs_with_a_large_error_are_no_success(self):
        found = judged("thm5", one_step(lambda d: 1000.0 * d, sup_error=0.2))
        assert found["one step solves it (d=16, k=8)"] == "refuted"
        assert found["samples needed grow at most as d^2"] == "inconclusive"

    def test_children_with_all_the_attention_do_not_make_a_success(self):
        found = judged("thm5", one_step(lambda d: 1000.0 * d, window=1.0))
        assert found["one step solves it (d=64, k=32)"] == "refuted"

    def test_a_large_step_that_works_refutes_the_window(self):
        found = judged("thm5", one_step(lambda d: 1000.0 * d, window=9.0))
        assert found["too large a step fails (d=16, k=8)"] == "refuted"


def noisy(breaks) -> pd.DataFrame:
    """Rows of thm5-noise in which size d fails from an error of breaks(d) / d^2 on."""
    rng, parts = np.random.default_rng(0), []
    errors = [0.0, 0.05, *(0.01 * 2 ** (half / 2) for half in range(20))]
    for kind in ("random", "against", "unequal"):
        for d in (16, 32, 64, 128):
            limit = breaks(d) * np.exp(0.1 * rng.normal(size=10))
            for error in sorted(errors):
                place = setting(d=d, k=d // 2, n=1, error=error)
                value = np.where(error < limit, 1.0, 0.5)
                parts.append(
                    table(run="r", condition=kind, unit=SEEDS, metric="accuracy", value=value, setting=place)
                )
    return concat(parts)


class TestNoise:
    def test_a_breaking_point_like_one_over_d_squared_supports_every_part(self):
        assert set(judged("thm5-noise", noisy(lambda d: 0.3)).values()) == {"supported"}

    @pytest.mark.parametrize(
        ("power", "refuted"),
        [
            (-1, "random: breaking point falls no faster than d^-2.5"),
            (1, "random: breaking point falls faster than d^-1.5"),
        ],
    )
    def test_another_power_is_refuted(self, power, refuted):
        found = judged("thm5-noise", noisy(lambda d: 0.4 * (d / (16 if power < 0 else 128)) ** power))
        assert found[refuted] == "refuted"

    def test_failure_without_any_error_is_no_breaking_point(self):
        found = judged("thm5-noise", noisy(lambda d: -1.0))
        assert found["random: small errors do no harm"] == "refuted"
        assert found["random: breaking point falls faster than d^-1.5"] == "inconclusive"


def levels(**solved_at) -> pd.DataFrame:
    """Rows of thm7 for k = 8: the update at which each level is solved, by condition."""
    parts = []
    for condition, updates in solved_at.items():
        for step in range(4):
            place = {"d": 16, "k": 8, "n": 1, "eta": 1.5}
            common = {"run": condition, "condition": condition, "unit": SEEDS, "update": step}
            parts.append(table(metric="sup_error", value=np.ones(10), setting=setting(**place), **common))
            for level, update in enumerate(updates, start=1):
                value = np.full(10, 1.0 if step >= update else 0.9)
                at_level = setting(level=level, **place)
                parts.append(table(metric="level_accuracy", value=value, setting=at_level, **common))
    return concat(parts)


class TestThm7:
    def test_levels_on_time_and_failures_without_the_recipe_support_every_part(self):
        found = judged("thm7", levels(complete=(1, 2, 3), no_filter=(1, 9, 9), no_rounding=(9, 9, 9)))
        assert set(found.values()) == {"supported"}
        assert len(found) == 3

    @pytest.mark.parametrize("updates", [(1, 2, 9), (1, 2, 2), (0, 2, 3), (2, 3, 3)])
    def test_too_late_and_too_early_are_not_on_time(self, updates):
        found = judged("thm7", levels(complete=updates))
        assert found == {"level l is solved at update l (d=16, k=8)": "refuted"}

    def test_a_root_solved_without_the_filter_refutes_its_need(self):
        found = judged("thm7", levels(complete=(1, 2, 3), no_filter=(1, 2, 2)))
        assert found["without the filter it fails (d=16, k=8)"] == "refuted"


def training(losses: dict[str, float], ratios: dict[str, float]) -> pd.DataFrame:
    """Rows of no-supervision: final losses by regime, and signal-to-noise at k = 8 over that at k = 2 by loss."""
    rng, parts = np.random.default_rng(0), []
    for regime, loss in losses.items():
        for step in (0, 100):
            common = {"run": regime, "condition": regime, "unit": SEEDS, "samples": step, "scope": "test"}
            value = np.full(10, 0.7 if step == 0 else loss) + 0.001 * rng.normal(size=10)
            parts += [
                table(metric="loss", value=value, setting=setting(d=64, k=32), **common),
                table(metric="accuracy", value=np.ones(10), setting=setting(d=64, k=32), **common),
            ]
    for loss, ratio in ratios.items():
        for k in (2, 8):
            value = (ratio if k == 8 else 1.0) * 0.01 * np.exp(0.3 * rng.normal(size=10))
            place = setting(d=16, k=k)
            parts.append(
                table(run="s", condition=loss, unit=SEEDS, metric="signal_to_noise", value=value, setting=place)
            )
    return concat(parts)


LOSSES = {"direct": 0.5, "end_to_end": 0.51, "teacher_forcing": 0.001, "filter": 0.001}
RATIOS = {"direct": 0.01, "end_to_end": 0.01, "teacher_forcing": 1.0}


class TestNoSupervision:
    def test_the_papers_picture_supports_every_part(self):
        assert set(judged("no-supervision", training(LOSSES, RATIOS)).values()) == {"supported"}

    @pytest.mark.parametrize(
        ("regime", "loss", "part"),
        [
            ("direct", 0.1, "root only: not learned"),
            ("end_to_end", 0.0, "own chain without filter: not learned"),
            ("teacher_forcing", 0.5, "teacher forcing: learned"),
            ("filter", 0.5, "own chain with filter: learned"),
        ],
    )
    def test_another_loss_refutes_its_regime_alone(self, regime, loss, part):
        found = judged("no-supervision", training({**LOSSES, regime: loss}, RATIOS))
        assert [p for p, outcome in found.items() if outcome == "refuted"] == [part]

    def test_a_signal_that_stays_is_refuted_and_so_is_a_control_that_shrinks(self):
        found = judged(
            "no-supervision", training(LOSSES, {"end_to_end": 0.8, "teacher_forcing": 0.01, "direct": 1.0})
        )
        assert found["end to end: the gradient's signal shrinks with k"] == "refuted"
        assert found["teacher forcing: it does not (control)"] == "refuted"
