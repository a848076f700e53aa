"""The parts of wang2025 on rows made by hand, where the right verdict is known."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from interp.claims.wang2025 import construction, cot_vs_curriculum, fig3_left, fig3_middle, fig3_right
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from probes.rows import concat, setting, table

SEEDS = range(6)
MODULES = {
    "construction": construction,
    "fig3-left": fig3_left,
    "fig3-middle": fig3_middle,
    "fig3-right": fig3_right,
    "cot-vs-curriculum": cot_vs_curriculum,
}


def judgement(claim: str, rows: pd.DataFrame) -> Judgement:
    found = CLAIMS[f"wang2025/{claim}"]
    judged = found.judge(rows, found.presets["cpu"])
    assert found.judge(found.published(rows), found.presets["cpu"]) == judged
    return judged


def outcomes(claim: str, rows: pd.DataFrame) -> dict[str, str]:
    return {v.key: v.outcome for v in judgement(claim, rows).verdicts}


@pytest.mark.parametrize("claim", list(MODULES))
def test_fresh_seeds_are_asked_for_and_nothing_else_changes(claim):
    module = MODULES[claim]
    preset = module.PRESETS["smoke"]
    items, fresh = module.items(preset), module.items(replace(preset, first_unit=100))
    seeds = {item.parameters["seed"] for item in items}
    assert seeds == set(range(preset.seeds))
    assert {item.parameters["seed"] for item in fresh} == {100 + seed for seed in seeds}
    for old, new in zip(items, fresh, strict=True):
        assert {**new.parameters, "seed": old.parameters["seed"]} == old.parameters


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
        row(metric, error * (1 + 0.1 * seed) * falls if metric == "max_error" else 0.0, seed, **place, scale=scale)
        for seed in SEEDS
        for metric in ("max_error", "error_rate")
        for scale, falls in ((12.0, np.exp(8.0)), (20.0, 1.0))
        for place in ({"k": 4, "n": 5, "hop": 4},)
    )
    found = judgement("construction", rows)
    assert found.verdicts[0].outcome == outcome
    if error == 1e-7:
        expected = np.log10(error * (1 + 0.1 * np.arange(6))).mean()
        assert found.verdicts[0].estimate == pytest.approx(expected)
        assert found.verdicts[1].estimate == pytest.approx(-1)


def test_one_wrong_permutation_leaves_the_construction_open():
    rows = concat(
        row(metric, 1.0 if seed == 3 else 1e-7 * (1 + seed), seed, k=4, n=5, hop=4, scale=20.0)
        for seed in SEEDS
        for metric in ("max_error", "error_rate")
    )
    assert outcomes("construction", rows) == {"exact": "inconclusive", "vanishes": "not testable here"}


def searches(power_of_k: float, power_of_n: float, most: float = np.inf) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    tables = []
    for k, n in ((2, 5), (4, 5), (8, 5), (4, 3), (4, 8)):
        for seed in SEEDS:
            needed = 50 * k**power_of_k * n**power_of_n * np.exp(0.1 * rng.normal())
            metric = "sample_complexity" if needed <= most else "censored_at"
            tables.append(row(metric, min(needed, most), seed, k=k, n=n, queries=1))
    return concat(tables)


def stages(late: float = 0.0, late_seeds: int = len(SEEDS), early: bool = False) -> pd.DataFrame:
    """k=4: hop l is learned at step 2l + 2; `late` is the error that remains after it in the first `late_seeds`."""
    tables = []
    for seed in SEEDS:
        for step in range(7):
            for stage in range(3):
                learned = step > 2 * stage or early
                error = ((late if seed < late_seeds else 0.0) if learned else 0.8) + 0.001 * seed
                place = {"k": 4, "n": 5, "queries": 20, "sequences": 100, "hop": 2**stage, "trained": "W_KQ"}
                tables.append(row("error", error, seed, update=step, **place))
                tables.append(row("loss", 2 * error, seed, update=step, **place))
    return concat(tables)


def test_one_hop_per_stage_and_small_powers_support_the_curriculum():
    found = judgement("fig3-left", concat([stages(), searches(1.5, 1.0)]))
    assert {v.outcome for v in found.verdicts} == {"supported"}
    assert found.conclusion == "reproduced"


def test_a_hop_that_is_not_learned_refutes_its_stage():
    found = judgement("fig3-left", concat([stages(late=0.3), searches(1.5, 1.0)]))
    assert {v.key for v in found.verdicts if v.outcome == "refuted"} == {"learned", "final"}
    assert found.conclusion == "not reproduced"


def test_a_seed_that_fails_is_counted_and_not_averaged_away():
    found = judgement("fig3-left", concat([stages(late=0.3, late_seeds=1), searches(1.5, 1.0)]))
    assert found.verdicts[0].estimate == pytest.approx(5 / 6)
    assert found.verdicts[0].outcome == "inconclusive"


def test_hops_that_are_known_before_their_stage_fail_the_control():
    assert outcomes("fig3-left", concat([stages(early=True), searches(1.5, 1.0)]))["before"] == "refuted"


def test_more_samples_than_the_theorem_needs_refute_its_powers():
    found = outcomes("fig3-left", concat([stages(), searches(5.0, 7.5)]))
    assert (found["growth_k"], found["growth_n"]) == ("refuted", "refuted")


def test_steep_growth_is_refuted_even_if_the_largest_searches_are_cut_short():
    found = outcomes("fig3-left", concat([stages(), searches(6.0, 0.0, most=3e5)]))
    assert found["growth_k"] == "refuted"


def test_a_search_cut_short_bounds_its_power_from_below():
    found = judgement("fig3-left", concat([stages(), searches(3.0, 1.0, most=3e4)]))
    growth = {v.key: v for v in found.verdicts}["growth_k"]
    assert growth.outcome == "inconclusive"
    assert growth.high == np.inf
    assert growth.estimate == pytest.approx(3, abs=0.2)
    grid = 0.5 * np.log(2**0.5) * 2 / (2 * np.log(2))
    exact = {v.key: v for v in judgement("fig3-left", concat([stages(), searches(3.0, 1.0)])).verdicts}["growth_k"]
    assert exact.low < 3 - grid < 3 + grid < exact.high  # the grid's step is part of the interval


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
    found = judgement("fig3-middle", mixture({0: 1, 1: 2, 2: 3}))
    assert {v.outcome for v in found.verdicts} == {"supported"}
    assert found.conclusion == "reproduced"


@pytest.mark.parametrize(
    ("learned_at", "refuted"),
    [({0: 1, 1: 1, 2: 3}, {"both", "order"}), ({0: 1, 1: 2, 2: 9}, {"both", "order", "final"})],
)
def test_a_layer_out_of_turn_refutes_it(learned_at, refuted):
    found = outcomes("fig3-middle", mixture(learned_at))
    assert {part for part, outcome in found.items() if outcome == "refuted"} == refuted


def encoders(mixture: float, alone: float, doubling: float, three: float, told_4: float) -> pd.DataFrame:
    tables = []
    for seed in SEEDS:
        noise = 0.001 * seed
        reached = dict.fromkeys(("head_mixture", "head_own_mixture", "token_last_mixture"), mixture)
        reached |= {"head_hardest": alone, "token_last_hardest": alone, "token_mixture": 0.2}
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
    found = judgement("fig3-right", encoders(0.98, 0.2, doubling=0.9, three=0.2, told_4=0.1))
    by_key = {v.key: v for v in found.verdicts}
    token = by_key.pop("learned_token")  # one pass is no evidence against a figure that does not state its passes
    assert (token.outcome, token.estimate, token.high) == ("inconclusive", 0.0, 1.0)
    assert {v.outcome for v in by_key.values()} == {"supported"}
    assert found.conclusion == "partly reproduced"


def test_a_chain_is_not_called_doubling_and_other_failures_are_seen():
    found = outcomes("fig3-right", encoders(0.98, 0.7, doubling=0.05, three=0.98, told_4=0.8))
    assert (found.pop("helps"), found.pop("helps_token_last")) == ("supported", "supported")
    assert found.pop("learned_token") == "inconclusive"
    for told in ("head", "head_own", "token_last"):
        assert found.pop(f"learned_{told}") == "supported"
    assert set(found.values()) == {"refuted"}
    assert len(found) == 7


def test_a_mixture_that_is_not_needed_does_not_help():
    found = judgement("fig3-right", encoders(0.98, 0.98, doubling=0.9, three=0.2, told_4=0.1))
    helps = found.verdicts[0]
    assert (helps.key, helps.estimate, helps.outcome) == ("helps", 0.0, "inconclusive")
    assert found.conclusion == "undecided"


def test_models_that_did_not_learn_do_not_judge_the_mechanism():
    found = outcomes("fig3-right", encoders(0.2, 0.2, doubling=0.05, three=0.2, told_4=0.1))
    assert found["learned_head"] == "inconclusive"
    assert {found[part] for part in found if part.startswith("hal")} == {"not testable here"}


def against(cot: float, easier: float, cut: str = "", control: float = 0.2) -> list[str]:
    """The outcomes of the decoder without help, against the mixture and against stages."""
    samples = {"cot": cot, "head_mixture": easier, "head_stagewise": easier, "no_cot": 5e4}
    tables = []
    for seed in SEEDS:
        for condition, value in samples.items():
            metric = "censored_at" if condition in (cut, "no_cot") else "sample_complexity"
            tables.append(row(metric, value * (1 + 0.01 * seed), seed, condition, k=4, n=5))
        tables.append(row("accuracy", control + 0.005 * seed, seed, "no_cot", samples=100, k=4, n=5, hop=4))
    # The ratios are the same for every seed but for these.
    tables[1]["value"] *= 1.05
    tables[2]["value"] *= 1.04
    return list(outcomes("cot-vs-curriculum", concat(tables)).values())


def test_chain_of_thought_against_curriculum_goes_either_way():
    assert against(1e4, 3e4) == ["supported", "supported", "supported"]
    assert against(3e4, 1e4, control=0.9) == ["refuted", "refuted", "refuted"]


def test_a_run_out_of_budget_is_a_bound_and_not_a_value():
    assert against(5e4, 1e4, cut="cot")[1:] == ["refuted", "refuted"]  # chain of thought takes even longer
    assert against(5e4, 6e4, cut="cot")[1:] == ["inconclusive", "inconclusive"]
    assert against(3e4, 1e4, cut="head_mixture")[1:] == ["inconclusive", "refuted"]
