"""The judges of wen2024's training figures on rows made by hand, where the right verdict is known."""

from dataclasses import replace

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun
from interp.core.claim import load_claims
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
) -> pd.DataFrame:
    """A run that is perfect after `samples` (or never, at the budget), with a step in both curves there;
    the entropy's comes at `entropy_at` of that.

    `hits`: by layer, the head's hit rate at every step of the chain. `entropies`: final, by layer.
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
            curve = np.where(steps >= entropy_at * samples, final, 1.0)
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


def verdicts(claim: str, rows) -> dict[str, str]:
    return {v.part: v.outcome for v in load_claims()[f"wen2024/{claim}"].judge(concat(rows))}


def seeds(run: ParityRun, samples, **options) -> list[pd.DataFrame]:
    """Six seeds of `run`; `samples` maps a seed to a number of samples."""
    return [run_rows(replace(run, seed=seed), samples(seed), **options) for seed in range(6)]


COT = ParityRun(cot=True, n=16, k=4, budget=BUDGET)
NO_COT = replace(COT, cot=False, dataset_size=2000)


def test_fig1b_tells_coinciding_from_separate_changes():
    def both(entropy_at: float) -> dict[str, str]:
        with_cot = seeds(COT, lambda s: 1e5 * (1 + 0.1 * s), entropy_at=entropy_at)
        without = seeds(NO_COT, lambda s: 3e5 * (1 + 0.1 * s), entropy_at=entropy_at)
        return verdicts("fig1b", with_cot + without)

    together, early = both(1.0), both(0.4)
    assert together["with CoT: entropy drops when accuracy jumps"] == "supported"
    assert together["without CoT: entropy drops when accuracy jumps"] == "supported"
    assert together["without CoT: entropy starts to fall before accuracy rises"] != "supported"
    assert early["with CoT: entropy drops when accuracy jumps"] == "refuted"
    assert early["without CoT: entropy starts to fall before accuracy rises"] == "supported"


def test_fig1b_without_a_solved_run_is_inconclusive():
    never = seeds(COT, lambda _: BUDGET, accuracy=0.5) + seeds(NO_COT, lambda _: BUDGET, accuracy=0.5)
    assert set(verdicts("fig1b", never).values()) == {"inconclusive"}


def growth(law) -> dict[str, str]:
    rng = np.random.default_rng(0)
    noisy = []
    for k in (4, 8, 16, 32):
        noisy += seeds(replace(COT, k=k, n=32), lambda _, k=k: law(k) * rng.lognormal(0, 0.05))
    return verdicts("fig3a", noisy)


def test_fig3a_tells_linear_from_quadratic_and_constant():
    assert set(growth(lambda k: 3000 * k).values()) == {"supported"}
    assert growth(lambda k: 300 * k**2)["not faster than about linear"] == "refuted"
    assert growth(lambda k: 3000)["not slower than about linear"] == "refuted"


def test_fig4_compares_heads_with_layers_and_cot():
    deep, wide = replace(NO_COT, layers=2), replace(NO_COT, heads=2)
    rows = seeds(deep, lambda s: 6e5 + 1e4 * s) + seeds(wide, lambda s: 2e5 + 1e4 * s)
    rows += seeds(replace(COT, dataset_size=2000), lambda s: 1e4 + 100 * s)
    assert set(verdicts("fig4", rows).values()) == {"supported"}
    swapped = seeds(wide, lambda s: 6e5 + 1e4 * s) + seeds(deep, lambda s: 2e5 + 1e4 * s) + rows[12:]
    assert verdicts("fig4", swapped)["adding heads helps more than adding layers"] == "refuted"


def test_fig4_does_not_conclude_from_budgets():
    deep, wide = replace(NO_COT, layers=2), replace(NO_COT, heads=2)
    rows = seeds(deep, lambda _: BUDGET) + seeds(wide, lambda _: BUDGET)
    rows += seeds(replace(COT, dataset_size=2000), lambda s: 3e5)
    found = verdicts("fig4", rows)
    assert found["repeated data teaches parity without CoT"] == "refuted"
    assert found["adding heads helps more than adding layers"] == "inconclusive"
    assert found["CoT is by far the faster"] == "inconclusive"


def test_fig5_size_needs_the_large_dataset_to_fail():
    small = seeds(NO_COT, lambda s: 3e5)
    fails = seeds(replace(NO_COT, dataset_size=40_000), lambda _: BUDGET, accuracy=0.5, entropy=0.9)
    learns = seeds(replace(NO_COT, dataset_size=40_000), lambda _: 3e5)
    assert set(verdicts("fig5-size", small + fails).values()) == {"supported"}
    assert "supported" not in verdicts("fig5-size", small + learns).values()
    trapped = seeds(replace(NO_COT, dataset_size=40_000), lambda _: BUDGET, accuracy=0.5, entropy=0.1)
    found = verdicts("fig5-size", small + [r.assign(value=r["value"] + 0.001 * s) for s, r in enumerate(trapped)])
    assert found["attention stays diffuse where nothing is learned (1L1H)"] == "refuted"


def test_fig8_looks_at_both_layers():
    model = replace(COT, layers=2, heads=2)
    published = seeds(model, lambda _: 1e5, hits=[(1, 1, 0.9, 1), (0, 0, 0, 0)], entropies=[0.2, 0.95])
    assert set(verdicts("fig8", published).values()) == {"supported"}
    other = seeds(model, lambda _: 1e5, hits=[(1, 1, 0, 0), (0, 0, 1, 1)], entropies=[0.2, 0.3])
    assert set(verdicts("fig8", other).values()) == {"refuted"}
    unsolved = seeds(model, lambda _: BUDGET, accuracy=0.5, hits=[(1, 1), (0, 0)], entropies=[0.2, 0.9])
    assert set(verdicts("fig8", unsolved).values()) == {"inconclusive"}


def test_fig9_needs_failure_without_and_success_with_cot():
    fails = [
        row for heads in (1, 2, 4) for row in seeds(replace(NO_COT, heads=heads), lambda _: BUDGET, accuracy=0.5)
    ]
    repeated = seeds(replace(COT, dataset_size=10_000), lambda s: 7e4 + 1e3 * s)
    fresh = seeds(COT, lambda s: 6e4 + 1e3 * s)
    assert set(verdicts("fig9", fails + repeated + fresh).values()) == {"supported"}
    slow = seeds(COT, lambda s: 5e5 + 1e3 * s)
    assert verdicts("fig9", fails + repeated + slow)["with CoT it succeeds on fresh samples"] == "refuted"
    learned = [row for heads in (1, 2, 4) for row in seeds(replace(NO_COT, heads=heads), lambda _: 1e5)]
    assert verdicts("fig9", learned + repeated + fresh)["without CoT it fails"] == "refuted"


def test_fig11_counts_heads_at_the_jump():
    model = replace(NO_COT, heads=4)
    for entropy_at, expected in ((1.0, "supported"), (1.9, "refuted")):
        found = verdicts("fig11", seeds(model, lambda _: 3e5, entropy=0.05, entropy_at=entropy_at))
        assert list(found.values()) == [expected]
