"""The parts of wen2024's training figures on rows made by hand, where the right verdict is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from interp.claims.wen2024 import fig1b, fig2, fig3a, fig3b, fig4, fig5_size, fig5_slow, fig8, fig9, fig11
from interp.claims.wen2024._curves import difference_of_means, excess_fall
from interp.claims.wen2024._runs import ParityRun, ParityRuns
from interp.core.claim import CLAIMS
from interp.core.parts import NotMeasurable
from probes.rows import concat, table

BUDGET = 1_000_000


def run_rows(
    run: ParityRun,
    samples: float,
    accuracy: float = 1.0,
    entropy: float = 0.1,
    hits=(),
    entropies=None,
    entropy_at: float = 1.0,
    drift: float = 0.0,
) -> pd.DataFrame:
    """A run that is perfect after `samples` (or never, at the budget), with a step in both curves there;
    the entropy's comes at `entropy_at` of that.

    `hits`: by layer, the head's hit rate at every step of the chain. `entropies`: final, by layer. `drift`: instead,
    entropy falls along a line, by this much at `samples`.
    """
    common = {key: run.labels[key] for key in ("run", "condition", "unit")}
    place = run.labels["setting"]
    solved = samples < BUDGET
    outcome = {"sample_complexity" if solved else "censored_at": samples, "test_accuracy": accuracy}
    steps = np.linspace(0, 2 * samples, 41)
    after = steps >= samples
    tables = [
        table(metric=list(outcome), value=list(outcome.values()), scope="test", setting=place, **common),
        table(
            metric="accuracy",
            value=np.where(after, accuracy, 0.5),
            samples=steps.astype(int),
            setting=place,
            **common,
        ),
    ]
    for layer, final in enumerate(entropies or [entropy]):
        for head in range(run.heads):
            curve = 1 - drift * steps / samples if drift else np.where(steps >= entropy_at * samples, final, 1.0)
            tables.append(
                table(
                    metric="entropy_min",
                    value=curve,
                    samples=steps.astype(int),
                    layer=layer,
                    head=head,
                    setting=place,
                    **common,
                )
            )
    for layer, rates in enumerate(hits):
        for query, rate in enumerate(rates):
            at = {"layer": layer, "head": 0, "query": query, "setting": place}
            tables.append(table(metric="top1_hit", value=rate, **at, **common))
            final = (entropies or [entropy])[layer]
            tables.append(table(metric="row_entropy", value=final, **at, **common))
    return concat(tables)


CLAIM = {
    "fig1b": fig1b,
    "fig3a": fig3a,
    "fig4": fig4,
    "fig5-size": fig5_size,
    "fig5-slow": fig5_slow,
    "fig8": fig8,
    "fig9": fig9,
    "fig11": fig11,
}


def outcomes(claim: str, rows, preset: ParityRuns | None = None) -> dict[str, str]:
    """Outcomes by part; the preset's settings must be those of the rows."""
    found = CLAIMS[f"wen2024/{claim}"].judge(concat(rows), preset or CLAIM[claim].PRESETS["cpu"])
    return {v.key: v.outcome for v in found.verdicts}


def seeds(run: ParityRun, samples, **options) -> list[pd.DataFrame]:
    """Eight seeds of `run`; `samples` maps a seed to a number of samples. Options may be functions of it too."""
    return [
        run_rows(
            replace(run, seed=seed),
            samples(seed),
            **{name: value(seed) if callable(value) else value for name, value in options.items()},
        )
        for seed in range(8)
    ]


COT = ParityRun(cot=True, n=16, k=4, budget=BUDGET)
NO_COT = replace(COT, cot=False, dataset_size=2000)


def test_excess_fall_is_blind_to_lines_and_sees_a_step():
    steps = np.linspace(0, 100, 101)
    for line in (1 - 0.005 * steps, np.full(101, 0.3)):
        assert excess_fall(steps, line, 40.0, 60.0) == pytest.approx(0, abs=1e-12)
    assert excess_fall(steps, np.where(steps >= 50, 0.2, 0.9), 40.0, 60.0) == pytest.approx(0.7)
    assert excess_fall(steps, np.where(steps >= 30, 0.2, 0.9), 40.0, 60.0) == pytest.approx(-0.7 * 20 / 40 / 2)
    assert excess_fall(steps, np.where(steps >= 70, 0.2, 0.9), 40.0, 60.0) == pytest.approx(-0.35)
    assert np.isnan(excess_fall(steps, steps, 40.0, 95.0))


def test_difference_of_means_widens_for_few_units_and_for_units_that_agree():
    rng = np.random.default_rng(0)
    many = difference_of_means(rng.normal(0.6, 0.1, 30), rng.normal(0.4, 0.1, 30), 0.95, (0.0, 1.0))
    assert 0.1 < many.low < 0.2 < many.high < 0.3
    few = difference_of_means(np.array([0.6, 0.7]), np.array([0.4, 0.5]), 0.95, (0.0, 1.0))
    assert few.low < 0 < few.high
    agree = difference_of_means(np.ones(4), np.zeros(4), 0.95, (0.0, 1.0))
    assert agree.value == agree.high == 1
    assert agree.low < 0.5
    assert isinstance(difference_of_means(np.ones(1), np.zeros(4), 0.95, (0.0, 1.0)), NotMeasurable)


def both_conditions(**options) -> dict[str, str]:
    """Eight runs that solve the task in each condition, and without CoT eight more that fail, whose entropy stays."""
    with_cot = seeds(COT, lambda s: 1e5 * (1 + 0.1 * s), **options)
    without = seeds(NO_COT, lambda s: 3e5 * (1 + 0.1 * s), **options)
    fails = seeds(replace(NO_COT, lr=3e-4), lambda _: BUDGET, accuracy=0.5, entropy=lambda s: 0.97 + 0.005 * s)
    return outcomes("fig1b", with_cot + without + fails)


def test_fig1b_tells_coinciding_from_separate_changes():
    assert set(both_conditions(entropy=lambda s: 0.1 + 0.01 * s).values()) == {"supported"}
    early = both_conditions(entropy=lambda s: 0.1 + 0.01 * s, entropy_at=0.4)
    assert early["cot_drop"] == early["no_cot_drop"] == "refuted"
    assert early["control"] != "supported"


def test_fig1b_does_not_take_a_drift_for_a_drop():
    """Entropy falls along a line in every run, solved or not: it says nothing about accuracy."""
    slope = lambda s: 0.4 + 0.01 * s  # noqa: E731
    solved = seeds(COT, lambda s: 1e5, drift=slope) + seeds(NO_COT, lambda s: 3e5, drift=slope)
    fails = seeds(replace(NO_COT, lr=3e-4), lambda _: BUDGET, accuracy=0.5, drift=lambda s: slope(s) * BUDGET / 3e5)
    found = outcomes("fig1b", solved + fails)
    assert found["cot_drop"] == found["no_cot_drop"] == "refuted"
    assert found["control"] != "supported"


def test_fig1b_without_a_solved_run_is_not_testable():
    never = seeds(COT, lambda _: BUDGET, accuracy=0.5) + seeds(NO_COT, lambda _: BUDGET, accuracy=0.5)
    assert set(outcomes("fig1b", never).values()) == {"not testable here"}


def slow_mode(small_fails: float, **solved) -> dict[str, str]:
    """Eight runs each: solved on the small dataset, failed there with this entropy, failed on the large one."""
    fails = {"samples": lambda _: BUDGET, "accuracy": 0.5, "entropy_at": 0.1}
    return outcomes(
        "fig5-slow",
        seeds(NO_COT, lambda s: 3e5 * (1 + 0.05 * s), **solved)
        + seeds(replace(NO_COT, lr=3e-4), entropy=lambda s: small_fails + 0.005 * s, **fails)
        + seeds(replace(NO_COT, dataset_size=40_000), entropy=lambda s: 0.95 + 0.005 * s, **fails),
    )


def test_fig5_slow_compares_the_plateau_with_both_kinds_of_failure():
    early = {"entropy": lambda s: 0.3 + 0.01 * s, "entropy_at": 0.5}
    assert set(slow_mode(small_fails=0.9, **early).values()) == {"supported"}
    memorised = slow_mode(small_fails=0.3, **early)  # what repeats the data is as sparse, though it fails
    assert memorised["plateau"] == memorised["falls"] == "supported"
    assert memorised["same_data"] != "supported"


def test_fig5_slow_a_fall_at_the_jump_is_none_on_the_plateau():
    late = slow_mode(small_fails=0.9, entropy=lambda s: 0.3 + 0.01 * s)
    assert "supported" not in late.values()


def growth(law) -> dict[str, str]:
    rng = np.random.default_rng(0)
    noisy = []
    for k in (6, 12, 18, 30):
        noisy += seeds(replace(COT, k=k, n=30), lambda _, k=k: law(k) * rng.lognormal(0, 0.05))
    return outcomes("fig3a", noisy)


def test_fig3a_tells_lines_from_a_parabola_and_a_constant():
    for line in (lambda k: 3000 * k, lambda k: 1000 * (12 + k), lambda k: 1000 * (30 + k)):
        assert set(growth(line).values()) == {"supported"}
    assert growth(lambda k: 300 * k**2)["straight"] == "refuted"
    assert growth(lambda k: 30_000)["grows"] == "inconclusive"
    assert growth(lambda k: 90_000 / k)["grows"] == "refuted"


def test_fig3a_with_a_run_cut_at_its_budget_cannot_judge_the_shape():
    found = growth(lambda k: 40_000 * k)
    assert found["straight"] == "not testable here"
    assert found["grows"] == "supported"


def test_fig4_compares_heads_with_layers_and_cot():
    deep, wide = replace(NO_COT, layers=2), replace(NO_COT, heads=2)
    rows = seeds(deep, lambda s: 6e5 + 1e4 * s if s else BUDGET) + seeds(wide, lambda s: 2e5 + 1e4 * s)
    rows += seeds(replace(COT, dataset_size=2000), lambda s: 1e4 + 100 * s)
    assert set(outcomes("fig4", rows).values()) == {"supported"}
    swapped = seeds(wide, lambda s: 6e5 + 1e4 * s) + seeds(deep, lambda s: 2e5 + 1e4 * s) + rows[12:]
    assert outcomes("fig4", swapped)["heads"] == "refuted"


def test_fig4_does_not_conclude_from_budgets():
    deep, wide = replace(NO_COT, layers=2), replace(NO_COT, heads=2)
    rows = seeds(deep, lambda _: BUDGET) + seeds(wide, lambda _: BUDGET)
    rows += seeds(replace(COT, dataset_size=2000), lambda s: 3e5)
    found = outcomes("fig4", rows)
    assert set(found.values()) == {"inconclusive"}
    rows = seeds(deep, lambda _: BUDGET) + seeds(wide, lambda s: BUDGET if s else 3e5) + rows[12:]
    assert outcomes("fig4", rows)["learns"] == "inconclusive"
    assert outcomes("fig4", rows, fig4.PRESETS["paper"])["learns"] == "refuted"  # the paper's budget decides


def test_fig5_size_needs_the_large_dataset_to_fail():
    small = seeds(replace(NO_COT, heads=4), lambda s: 3e5, entropy=lambda s: 0.1 + 0.01 * s)
    large = replace(NO_COT, heads=4, dataset_size=40_000)
    fails = seeds(large, lambda _: BUDGET, accuracy=0.5, entropy=lambda s: 0.9 + 0.01 * s)
    assert set(outcomes("fig5-size", small + fails).values()) == {"supported"}
    learns = seeds(large, lambda _: 3e5)
    assert "supported" not in outcomes("fig5-size", small + learns).values()
    trapped = seeds(large, lambda _: BUDGET, accuracy=0.5, entropy=lambda s: 0.1 + 0.01 * s)
    found = outcomes("fig5-size", small + trapped)
    assert found["high"] == found["diffuse"] == "refuted"


def test_fig5_size_attention_that_never_moved_is_no_evidence():
    """High entropy is where every run starts: failed runs must be more diffuse than solved ones."""
    start = lambda s: 0.9 + 0.01 * s  # noqa: E731
    small = seeds(replace(NO_COT, heads=4), lambda s: 3e5, entropy=start)
    fails = seeds(replace(NO_COT, heads=4, dataset_size=40_000), lambda _: BUDGET, accuracy=0.5, entropy=start)
    found = outcomes("fig5-size", small + fails)
    assert (found["high"], found["diffuse"]) == ("supported", "refuted")


def test_fig8_looks_at_both_layers():
    model = replace(COT, layers=2, heads=2)
    slight = lambda first, second: lambda s: [first + 0.01 * s, second + 0.005 * s]  # noqa: E731
    published = seeds(model, lambda _: 1e5, hits=[(1, 1, 0.9, 1), (0, 0, 0, 0)], entropies=slight(0.2, 0.95))
    assert set(outcomes("fig8", published).values()) == {"supported"}
    other = seeds(model, lambda _: 1e5, hits=[(1, 1, 0, 0), (0, 0, 1, 1)], entropies=slight(0.7, 0.3))
    assert set(outcomes("fig8", other).values()) == {"refuted"}
    unsolved = seeds(model, lambda _: BUDGET, accuracy=0.5, hits=[(1, 1), (0, 0)], entropies=[0.2, 0.9])
    assert set(outcomes("fig8", unsolved).values()) == {"not testable here"}


def test_fig9_needs_failure_without_and_success_with_cot():
    fails = [
        row for heads in (1, 2, 4) for row in seeds(replace(NO_COT, heads=heads), lambda _: BUDGET, accuracy=0.5)
    ]
    repeated = seeds(replace(COT, dataset_size=10_000), lambda s: 7e4 + 1e3 * s)
    fresh = seeds(COT, lambda s: 6e4 + 1e3 * s)
    easy = seeds(replace(NO_COT, k=2, dataset_size=0), lambda _: 5e4)
    assert set(outcomes("fig9", fails + easy + repeated + fresh).values()) == {"supported"}
    slow = seeds(COT, lambda s: 5e5 + 1e3 * s)
    assert outcomes("fig9", fails + easy + repeated + slow)["fresh_samples"] == "refuted"
    learned = [row for heads in (1, 2, 4) for row in seeds(replace(NO_COT, heads=heads), lambda _: 1e5)]
    assert outcomes("fig9", learned + repeated + easy + fresh)["fails"] == "refuted"
    nothing = seeds(replace(NO_COT, k=2, dataset_size=0), lambda _: BUDGET, accuracy=0.5)
    assert outcomes("fig9", fails + nothing + repeated + fresh)["easier"] == "refuted"


def test_fig11_counts_heads_at_the_jump():
    model = replace(NO_COT, heads=4)
    for entropy_at, expected in ((1.0, "supported"), (1.9, "refuted")):
        found = outcomes("fig11", seeds(model, lambda _: 3e5, entropy=0.05, entropy_at=entropy_at))
        assert found == {"all_sparse": expected, "control": "not testable here"}


def test_fig11_heads_that_are_sparse_in_failed_runs_too_are_no_evidence():
    model = replace(NO_COT, heads=4)
    solved = seeds(model, lambda _: 3e5, entropy=0.05, entropy_at=0.5)
    for entropy_at, expected in ((0.1, "inconclusive"), (1.9, "supported")):
        fails = seeds(replace(model, lr=3e-4), lambda _: BUDGET, accuracy=0.5, entropy=0.05, entropy_at=entropy_at)
        assert outcomes("fig11", solved + fails)["control"] == expected


@pytest.mark.parametrize("module", [fig1b, fig2, fig3a, fig3b, fig4, fig5_size, fig5_slow, fig8, fig9, fig11])
def test_worlds_make_rows_that_every_part_can_read(module):
    claim = CLAIMS[module.ID]
    for world in claim.worlds:
        rows = world.rows(np.random.default_rng(0))
        found = claim.judge(rows, claim.presets["cpu"])
        assert set(world.truth) <= {v.key for v in found.verdicts}
        assert claim.judge(claim.published(rows), claim.presets["cpu"]) == found
