"""The mechanism claims' judges: rows of a model that does as claimed, and of models that do not."""

import numpy as np
import pytest

from interp.claims.wen2024 import mechanism_knockout as knockout
from interp.claims.wen2024 import mechanism_running_parity as running
from interp.claims.wen2024._runs import ParityRun
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from interp.core.probe_rows import knockout_rows, state_rows
from probes.hooked.linear import LinearProbe
from probes.rows import concat, table
from toy_models.engine.probing import StateProbe, StepKnockouts

N, K, SEEDS = 6, 3, 6


def labels(seed: int) -> dict:
    return ParityRun(cot=True, n=N, k=K, seed=seed).labels


def outcome(seed: int, accuracy: float = 1.0):
    return table(metric=["sample_complexity", "test_accuracy"], value=[100.0, accuracy], **labels(seed))


def knocked_out(seed: int, own: float, others: float, random: float, accuracy: float = 1.0):
    """Margins in which a share `own` of the inputs stays right where it should not, and so on."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def margins(on: float, off: float):
        share = torch.where(torch.eye(K, dtype=torch.bool), on, off)[:, None]
        return torch.rand(K, 200, K, generator=generator).lt(share).double() - 0.5

    found = StepKnockouts(
        clean=torch.ones(200, K).double(),
        at_step=margins(own, 1.0),
        everywhere=margins(own, others),
        random=margins(random, 1.0),
    )
    return concat([outcome(seed, accuracy), knockout_rows(found, labels(seed))])


def judged(module, tables) -> Judgement:
    """The verdicts on models of one layer and one head."""
    claim, rows = CLAIMS[module.ID], concat(tables)
    found = claim.judge(rows, module.PRESETS["smoke"])
    assert claim.judge(claim.published(rows), module.PRESETS["smoke"]) == found
    return found


def verdicts(module, tables) -> dict[str, str]:
    return {v.key.removesuffix("_1l1h"): v.outcome for v in judged(module, tables).verdicts}


def test_knockouts_as_claimed_are_supported():
    found = verdicts(knockout, [knocked_out(seed, 0.5, 1.0, 1.0) for seed in range(SEEDS)])
    assert set(found.values()) == {"supported"}


@pytest.mark.parametrize(
    ("shares", "parts"),
    [
        ((0.9, 1.0, 1.0), {"only", "each", "destroyed"}),
        ((0.5, 0.7, 1.0), {"only", "each", "others"}),
        ((0.5, 1.0, 0.7), {"random"}),
    ],
)
def test_each_part_of_the_knockout_claim_can_be_refuted(shares, parts):
    found = verdicts(knockout, [knocked_out(seed, *shares) for seed in range(SEEDS)])
    assert {name for name, outcome in found.items() if outcome == "refuted"} == parts


def test_a_single_step_out_of_line_is_seen_beside_the_mean():
    tables = [knocked_out(seed, 0.5, 1.0, 1.0) for seed in range(SEEDS)]
    for rows in tables:
        place = rows.index[(rows["metric"] == "step_accuracy") & (rows["scope"] == "everywhere")]
        other = next(i for i in place if "hidden=0 step=1" in rows.at[i, "setting"])
        rows.loc[other, "value"] = 0.9
    found = verdicts(knockout, tables)
    assert (found["only"], found["others"], found["each"]) == ("supported", "supported", "refuted")


def test_models_that_did_not_learn_are_not_judged():
    mixed = [knocked_out(seed, 0.5, 1.0, 1.0) for seed in range(SEEDS)]
    failed = [knocked_out(seed + 10, 0.9, 0.5, 0.5, accuracy=0.6) for seed in range(SEEDS)]
    assert judged(knockout, mixed + failed).verdicts[0].n == judged(knockout, mixed).verdicts[0].n == SEEDS
    for verdict in judged(knockout, failed).verdicts:
        assert verdict.outcome == "not testable here"
        assert verdict.estimate is None


def test_one_model_of_another_kind_is_counted_and_not_averaged_away():
    models = [knocked_out(seed, 0.9 if seed == 0 else 0.5, 1.0, 1.0) for seed in range(SEEDS)]
    found = judged(knockout, models)
    assert found.verdicts[0].estimate == pytest.approx(5 / 6)
    assert found.verdicts[0].outcome == "inconclusive"
    assert found.conclusion == "undecided"


def test_two_layers_never_decide_the_papers_claim():
    declared = knockout.parts(knockout.PRESETS["cpu"])
    assert {part.role for part in declared if part.key.endswith("2l2h")} == {"ours", "control"}
    assert [part.key for part in declared if part.primary] == ["only_1l1h"]


def probed(seed: int, post: float = 0.98, mid: float = 0.5, earlier: float = 0.5, control: float = 0.5,
           untrained: float = 0.5, accuracy: float = 1.0):  # fmt: skip
    rng = np.random.default_rng(seed)
    found = []
    for place in ("pre", "mid", "post"):
        for position in range(N - 2, N + K):
            for state in range(K):
                own = position == N + state
                level = (
                    {"pre": 0.5, "mid": mid, "post": post}[place] if own else earlier if position < N + state else 1
                )
                value = float(np.clip(level + 0.01 * rng.normal(), 0, 1))
                probe = LinearProbe(value, value, value, control, untrained, 0.5, 0.5, 0.4, 1.1, 1.0, 300)
                found.append(StateProbe(f"blocks.0.hook_resid_{place}", position, state, probe))
    return concat([outcome(seed, accuracy), state_rows(found, labels(seed))])


def test_a_parity_that_is_computed_where_the_theory_says_is_supported():
    assert set(verdicts(running, [probed(seed) for seed in range(SEEDS)]).values()) == {"supported"}


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ({"post": 0.55}, {"by_mlp", "after_mlp", "control", "untrained"}),
        ({"mid": 0.9}, {"by_mlp", "after_attention"}),
        ({"earlier": 0.7}, {"earlier"}),
        ({"control": 0.99}, {"control"}),
        ({"untrained": 0.99}, {"untrained"}),
    ],
)  # fmt: skip
def test_each_part_of_the_parity_claim_can_be_refuted(change, parts):
    found = verdicts(running, [probed(seed, **change) for seed in range(SEEDS)])
    assert {name for name, outcome in found.items() if outcome == "refuted"} == parts


def test_a_control_task_that_is_easy_itself_does_not_hide_selectivity():
    models = [probed(seed, post=1.0, control=0.7) for seed in range(SEEDS)]
    assert verdicts(running, models)["control"] == "supported"


def test_no_learned_model_leaves_the_parity_claim_open():
    found = judged(running, [probed(seed, accuracy=0.6) for seed in range(SEEDS)])
    assert {v.outcome for v in found.verdicts} == {"not testable here"}
    assert found.conclusion == "undecided"
