"""The parts of wen2024's training figures on rows made by hand, where the right verdict is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from interp.claims.wen2024 import (
    fig1b,
    fig2,
    fig3a,
    fig3b,
    fig4,
    fig4_dropout,
    fig5_size,
    fig5_slow,
    fig8,
    fig9,
    fig10,
    fig11,
    n100,
)
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
    "fig4-dropout": fig4_dropout,
    "fig5-size": fig5_size,
    "fig5-slow": fig5_slow,
    "fig8": fig8,
    "fig9": fig9,
    "fig10": fig10,
    "fig11": fig11,
    "n100": n100,
}


def outcomes(claim: str, rows, preset: ParityRuns | None = None) -> dict[str, str]:
    """Outcomes by part; the preset's settings must be those of the rows."""
    found = CLAIMS[f"wen2024/{claim}"].judge(concat(rows), preset or CLAIM[claim].PRESETS["cpu"])
    return {v.key: v.outcome for v in found.verdicts}


def seeds(run: ParityRun, samples, *, n: int = 8, **options) -> list[pd.DataFrame]:
    """Seeds of `run`; `samples` maps a seed to a number of samples. Options may be functions of it too."""
    return [
        run_rows(
            replace(run, seed=seed),
            samples(seed),
            **{name: value(seed) if callable(value) else value for name, value in options.items()},
        )
        for seed in range(n)
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
    for k in (4, 8, 12, 16, 20):
        noisy += seeds(replace(COT, k=k, n=20), lambda _, k=k: law(k) * rng.lognormal(0, 0.05), n=16)
    return outcomes("fig3a", noisy)


def test_fig3a_tells_lines_from_a_parabola_and_a_constant():
    for line in (lambda k: 3000 * k, lambda k: 1000 * (12 + k), lambda k: 1000 * (30 + k)):
        assert set(growth(line).values()) == {"supported"}
    assert growth(lambda k: 300 * k**2)["straight"] == "refuted"
    assert growth(lambda k: 30_000)["grows"] == "inconclusive"
    assert growth(lambda k: 90_000 / k)["grows"] == "refuted"


def test_fig3a_with_a_run_cut_at_its_budget_cannot_judge_the_shape():
    found = growth(lambda k: 60_000 * k)
    assert found["straight"] == found["straight_perfect"] == "not testable here"
    assert found["grows"] == "supported"


def test_fig3a_one_slow_run_at_the_smallest_k_bends_nothing():
    """What a mean would turn into a curve that falls first: one run of sixteen takes seven times as long."""
    rows = []
    for k in (4, 8, 12, 16, 20):
        slowest = 7 if k == 4 else 1
        rows += seeds(
            replace(COT, k=k, n=20), lambda s, k=k, slowest=slowest: 1000 * (30 + k) * (1 if s else slowest), n=16
        )
    found = outcomes("fig3a", rows)
    assert found["straight"] == found["straight_perfect"] == "supported"


DEEP, WIDE, EASY = replace(NO_COT, layers=2), replace(NO_COT, heads=2), replace(NO_COT, k=2)


def failing(run: ParityRun) -> list[pd.DataFrame]:
    """Eight seeds of `run` that stay at chance until the budget ends."""
    return seeds(run, lambda _: BUDGET, accuracy=0.5)


def test_fig4_compares_heads_with_layers_and_cot():
    cot, easy = seeds(replace(COT, dataset_size=2000), lambda s: 1e4 + 100 * s), seeds(EASY, lambda _: 3e4)
    rows = seeds(DEEP, lambda s: 6e5 + 1e4 * s if s else BUDGET) + seeds(WIDE, lambda s: 2e5 + 1e4 * s) + cot + easy
    assert set(outcomes("fig4", rows).values()) == {"supported"}
    swapped = seeds(WIDE, lambda s: 6e5 + 1e4 * s) + seeds(DEEP, lambda s: 2e5 + 1e4 * s) + cot + easy
    assert outcomes("fig4", swapped)["heads"] == "refuted"
    slow = seeds(replace(COT, dataset_size=2000), lambda s: 1e5 + 100 * s)
    assert outcomes("fig4", rows[:16] + slow + easy)["cot"] == "refuted"
    assert outcomes("fig4", rows[:16] + cot + failing(EASY))["easier"] == "refuted"


def test_fig4_does_not_conclude_from_budgets():
    cot, easy = seeds(replace(COT, dataset_size=2000), lambda s: 3e5), seeds(EASY, lambda _: 3e4)
    found = outcomes("fig4", failing(DEEP) + failing(WIDE) + cot + easy, fig4.PRESETS["smoke"])
    assert (found["learns"], found["heads"], found["cot"]) == ("inconclusive", "not testable here", "inconclusive")
    # The paper's number of epochs decides that a run has not learned.
    assert outcomes("fig4", failing(DEEP) + failing(WIDE) + cot + easy)["learns"] == "refuted"
    # Two heads that take longer than the budget of two layers are not behind them.
    late = seeds(WIDE, lambda _: 9e5)
    assert outcomes("fig4", failing(DEEP) + late + cot + easy)["heads"] == "not testable here"


def test_fig4_opens_the_saving_only_where_a_budget_stands():
    cot, easy = seeds(replace(COT, dataset_size=2000), lambda s: 1e5 + 100 * s), seeds(EASY, lambda _: 3e4)
    one_never = [*failing(WIDE)[:1], *seeds(WIDE, lambda s: 2e5 + 1e4 * s)[1:]]
    runs = fig4.summarised(concat(failing(DEEP) + one_never + cot + easy))
    found = fig4.saving(runs, 0.95)
    assert not isinstance(found, NotMeasurable)
    assert found.high == np.inf  # at 95% the ends are the least and the largest of eight values
    # At 90% they are the second ones, and only one seed, the slowest, is open.
    narrower = fig4.saving(runs, 0.9)
    assert not isinstance(narrower, NotMeasurable)
    assert narrower.high < np.log10(3)


def test_fig5_size_needs_the_large_dataset_to_fail():
    small = seeds(replace(NO_COT, heads=4), lambda s: 3e5, entropy=lambda s: 0.1 + 0.01 * s)
    large = replace(NO_COT, heads=4, dataset_size=40_000)
    fails = seeds(large, lambda _: BUDGET, accuracy=0.5, entropy=lambda s: 0.9 + 0.01 * s)
    found = outcomes("fig5-size", small + fails)
    assert found.pop("small_failed") == "not testable here"  # no run failed on the small dataset
    assert set(found.values()) == {"supported"}
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


def recipes(learns, entropy=lambda dropout: 0.7 if dropout else 0.3) -> dict[str, str]:
    """Both recipes on both tasks; `learns` maps dropout, k and a seed to whether a run does."""
    rows = []
    for run in fig4_dropout.PRESETS["cpu"].runs:
        solved = [learns(run.dropout, run.k, seed) for seed in range(8)]
        rows += seeds(
            run,
            lambda s, solved=solved: 3e5 if solved[s] else BUDGET,
            accuracy=lambda s, solved=solved: 1.0 if solved[s] else 0.5,
            entropy=lambda s, run=run: entropy(run.dropout) + 0.01 * s,
        )
    return outcomes("fig4-dropout", rows)


def test_fig4_dropout_tells_what_it_decides_from_what_it_leaves():
    assert set(recipes(lambda dropout, k, seed: dropout > 0 or seed == 0).values()) == {"supported"}
    always = recipes(lambda *_: True, entropy=lambda _: 0.5)
    assert always["learns"] == always["easier"] == "supported"
    assert always["helps"] == always["helps_easy"] == "inconclusive"
    assert always["diffuse"] == "refuted"
    harms = recipes(lambda dropout, k, seed: not dropout)
    assert harms["helps"] == harms["easier"] == "refuted"
    assert harms["learns"] == "inconclusive"  # at fewer epochs than the paper's a failure stays open


def sizes_of_data(learns, entropy_of_failed: float) -> dict[str, str]:
    """Five sizes; `learns` maps the place of a size to whether it teaches, which makes attention sparse."""
    rows = []
    for place, run in enumerate(sorted(fig10.PRESETS["cpu"].runs, key=lambda run: run.dataset_size)):
        taught = learns(place)
        rows += seeds(
            run,
            lambda s, taught=taught: 3e5 if taught else BUDGET,
            accuracy=1.0 if taught else 0.5,
            entropy=lambda s, taught=taught: 0.01 * s + (0.2 if taught else entropy_of_failed),
        )
    return outcomes("fig10", rows)


def test_fig10_the_largest_must_fail_where_smaller_ones_teach():
    published = sizes_of_data(lambda place: place in (1, 2, 3), entropy_of_failed=0.85)
    assert set(published.values()) == {"supported"}
    memorised = sizes_of_data(lambda place: place in (1, 2, 3), entropy_of_failed=0.2)
    assert memorised["diffuse"] == memorised["same_data"] == "refuted"
    assert memorised["smaller_teach"] == "supported"
    reverse = sizes_of_data(lambda place: place == 4, entropy_of_failed=0.85)
    assert (reverse["largest_fails"], reverse["smaller_teach"]) == ("refuted", "refuted")
    assert reverse["diffuse"] == "not testable here"


def test_n100_needs_failure_without_cot_far_beyond_what_cot_takes():
    easy = seeds(replace(NO_COT, n=100, k=n100.EASY), lambda s: 5e4)
    fails = seeds(replace(NO_COT, n=100), lambda _: BUDGET, accuracy=0.5)
    fast, slow = (seeds(replace(COT, n=100), lambda s, at=at: at + 1e3 * s) for at in (1e5, 8e5))
    assert set(outcomes("n100", fails + easy + fast).values()) == {"supported"}
    late = outcomes("n100", fails + easy + slow)  # the budget is hardly more than CoT takes
    assert (late["fails"], late["saves"]) == ("not testable here", "inconclusive")
    learned = outcomes("n100", seeds(replace(NO_COT, n=100), lambda s: 9e5 - 1e4 * s) + easy + slow)
    assert (learned["fails"], learned["saves"]) == ("not testable here", "refuted")
    early = seeds(replace(NO_COT, n=100), lambda s: 9e5 - 1e4 * s)
    assert outcomes("n100", early + easy + fast)["fails"] == "refuted"
    nothing = outcomes("n100", fails + seeds(replace(NO_COT, n=100, k=1), lambda _: BUDGET) + fast)
    assert (nothing["fails"], nothing["easier"]) == ("not testable here", "refuted")
