"""The judges of wang2025 on rows made by hand, where the right verdict is known."""

import numpy as np
import pandas as pd
import pytest

from interp.core.claim import load_claims
from probes.rows import concat, setting, table

SEEDS = range(5)


def outcomes(claim: str, rows: pd.DataFrame) -> dict[str, str]:
    return {v.part: v.outcome for v in load_claims()[f"wang2025/{claim}"].judge(rows)}


def row(
    metric: str, value: float, seed: int, condition: str = "c", samples: int = 0, update: int = 0, layer: int = -1,
    **settings,
):  # fmt: skip
    """One row; a little noise by seed keeps intervals open."""
    place = {"run": f"{condition}{seed}", "condition": condition, "unit": str(seed), "layer": layer}
    moment = {"samples": samples, "update": update}
    return table(metric=metric, value=float(value), setting=setting(**settings), **moment, **place)


@pytest.mark.parametrize(("error", "outcome"), [(1e-7, "supported"), (0.0, "supported"), (0.01, "refuted")])
def test_the_construction_is_exact_or_not(error, outcome):
    rows = concat(
        row(metric, error * (1 + 0.1 * seed) if metric == "max_error" else 0.0, seed, k=4, n=5, scale=20.0, hop=4)
        for seed in SEEDS
        for metric in ("max_error", "error_rate")
    )
    assert list(outcomes("construction", rows).values()) == [outcome]


def searches(power_of_k: float, power_of_n: float) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    tables = []
    for k, n in ((2, 5), (4, 5), (8, 5), (4, 3), (4, 8)):
        for seed in SEEDS:
            needed = 50 * k**power_of_k * n**power_of_n * np.exp(0.1 * rng.normal())
            tables.append(row("sample_complexity", needed, seed, k=k, n=n, queries=1))
    return concat(tables)


def stages(late: float = 0.0) -> pd.DataFrame:
    """k=4: hop l is learned at step 2l + 2; `late` is the error that remains after it."""
    tables = []
    for seed in SEEDS:
        for step in range(7):
            for stage in range(3):
                error = (0.0 if step > 2 * stage else 0.8) + (late if step > 2 * stage else 0.0) + 0.001 * seed
                place = {"k": 4, "n": 5, "queries": 20, "sequences": 100, "hop": 2**stage, "trained": "W_KQ"}
                tables.append(row("error", error, seed, update=step, **place))
                tables.append(row("loss", 2 * error, seed, update=step, **place))
    return concat(tables)


def test_one_hop_per_stage_and_small_powers_support_the_curriculum():
    assert set(outcomes("fig3-left", concat([stages(), searches(1.5, 1.0)])).values()) == {"supported"}


def test_a_hop_that_is_not_learned_refutes_its_stage():
    found = outcomes("fig3-left", concat([stages(late=0.3), searches(1.5, 1.0)]))
    assert {part.split(" (")[0] for part, outcome in found.items() if outcome == "refuted"} == {
        "error goes to 0 at its own stage", "loss goes to 0 at its own stage",
    }  # fmt: skip


def test_more_samples_than_the_theorem_needs_refute_its_powers():
    found = outcomes("fig3-left", concat([stages(), searches(5.0, 7.5)]))
    assert [outcome for part, outcome in found.items() if part.startswith("samples")] == ["refuted", "refuted"]


def mixture(learned_at: dict[int, int]) -> pd.DataFrame:
    """k=4: layer l attends rightly from step learned_at[l] on; the readouts follow at step 4."""
    tables = []
    for seed in SEEDS:
        for step in range(5):
            for layer in range(3):
                place = {"k": 4, "n": 5, "queries": 20, "sequences": 100, "trained": "W_KQ"}
                learned = step >= learned_at[layer]
                tables.append(
                    row("mass", (0.98 if learned else 0.05) + 0.001 * seed, seed, update=step, layer=layer, **place)
                )
                read = learned and step == 4
                for metric, value in (("loss", 0.0 if read else 0.9), ("error", 0.0 if read else 0.8)):
                    tables.append(row(metric, value + 0.0001 * seed, seed, update=step, hop=2**layer, **place))
    return concat(tables)  # fmt: skip


def test_one_layer_per_step_supports_the_mixture():
    assert set(outcomes("fig3-middle", mixture({0: 1, 1: 2, 2: 3})).values()) == {"supported"}


@pytest.mark.parametrize(
    ("learned_at", "refuted"),
    [
        ({0: 1, 1: 1, 2: 3}, {"and not before"}),
        (
            {0: 1, 1: 2, 2: 9},
            {"layer t is learned at step t", "then every loss goes to 0", "and every hop is learned"},
        ),
    ],
)
def test_a_layer_out_of_turn_refutes_it(learned_at, refuted):
    found = outcomes("fig3-middle", mixture(learned_at))
    assert {part for part, outcome in found.items() if outcome == "refuted"} == refuted


def encoders(mixture: float, alone: float, doubling: float, three: float, told_4: float) -> pd.DataFrame:
    tables = []
    for seed in SEEDS:
        noise = 0.001 * seed
        reached = {"head_mixture": mixture, "head_own_mixture": mixture, "head_hardest": alone, "token_mixture": 0.2}
        for condition, accuracy in reached.items():
            for hop, value in ((1, 1.0), (2, 1.0), (4, accuracy + noise)):
                tables.append(row("accuracy", value, seed, condition, samples=100, k=4, n=5, hop=hop))
        for condition in ("head_mixture", "head_own_mixture"):
            tables.append(row("mass", doubling + noise, seed, condition, layer=2, mask=2, hop=4))
            tables.append(row("probe_accuracy", 0.99, seed, condition, layer=1, hop=2))
            tables.append(row("probe_accuracy", three + noise, seed, condition, layer=2, hop=3))
            tables.append(row("probe_accuracy", 1.0, seed, condition, layer=2, hop=4))
        for hop, mass in ((1, 0.1), (2, 0.9), (4, told_4 + noise)):
            tables.append(row("mass", mass, seed, "token_mixture", layer=1, mask=1, hop=hop))
    return concat(tables)


def test_what_the_paper_says_about_encoders():
    found = outcomes("fig3-right", encoders(0.99, 0.2, doubling=0.9, three=0.2, told_4=0.1))
    assert found.pop("hop told by a token: the mixture learns the hardest hop") == "refuted"
    assert set(found.values()) == {"supported"}


def test_a_chain_is_not_called_doubling_and_other_failures_are_seen():
    found = outcomes("fig3-right", encoders(0.99, 0.7, doubling=0.05, three=0.98, told_4=0.8))
    for told in ("a head for each hop", "a head and a layer for each hop"):
        assert found.pop(f"{told}: the mixture learns the hardest hop") == "supported"
    assert set(found.values()) == {"refuted"}
    assert len(found) == 7


def test_models_that_did_not_learn_do_not_judge_the_mechanism():
    found = outcomes("fig3-right", encoders(0.2, 0.2, doubling=0.05, three=0.2, told_4=0.1))
    assert found["a head for each hop: the mixture learns the hardest hop"] == "refuted"
    assert {outcome for part, outcome in found.items() if part.startswith("doubling")} == {"inconclusive"}


def against(cot: float, easier: float, cut: str = "", control: float = 0.2) -> list[str]:
    """The outcomes against the mixture and against stages, and of the control."""
    samples = {"cot": cot, "head_mixture": easier, "head_stagewise": easier, "no_cot": 5e4}
    tables = []
    for seed in SEEDS:
        for condition, value in samples.items():
            metric = "censored_at" if condition in (cut, "no_cot") else "sample_complexity"
            tables.append(row(metric, value * (1 + 0.01 * seed), seed, condition, k=4, n=5))
        tables.append(row("accuracy", control + 0.01 * seed, seed, "no_cot", samples=100, k=4, n=5, hop=4))
    # The ratio of the two is the same for every seed but for this.
    tables[1]["value"] *= 1.05
    return list(outcomes("cot-vs-curriculum", concat(tables)).values())


def test_chain_of_thought_against_curriculum_goes_either_way():
    assert against(1e4, 3e4) == ["supported", "supported", "supported"]
    assert against(3e4, 1e4, control=0.9) == ["refuted", "refuted", "refuted"]


def test_a_run_out_of_budget_is_a_bound_and_not_a_value():
    assert against(5e4, 1e4, cut="cot")[:2] == ["refuted", "refuted"]  # chain of thought takes even longer
    assert against(5e4, 6e4, cut="cot")[:2] == ["inconclusive", "inconclusive"]
    assert against(3e4, 1e4, cut="head_mixture")[:2] == ["inconclusive", "refuted"]
