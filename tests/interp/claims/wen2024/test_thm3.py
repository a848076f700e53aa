"""The parts of wen2024/thm3 on rows made by hand, where the right verdict is known."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import pytest

from interp.claims.wen2024.thm3 import PRESETS, items
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from probes.rows import concat, setting, table

GOOD = {
    "hit": (0.0, 1.0, 1.0, 1.0),
    "parity_hit": (0.0, 1.0, 1.0, 1.0),
    "first_over_own": (0.0, 2.0, 2.0, 2.0),
    "exponent": (0.0, 0.0, 12.0, 12.0),
    "margin": (-1.0, -1.0, -0.1, 0.5),
    "accuracy": (0.1, 0.1, 0.5, 0.99),
}


def _judged(
    changed: Mapping[str, tuple[float, ...]], batches: tuple[int, ...] = (100,), seeds: int = 10
) -> Judgement:
    """Verdicts for seeds with `GOOD` values after 0 to 3 steps, changed at the first batch size."""
    parts: list[pd.DataFrame] = []
    for B in batches:
        for seed in range(seeds):
            common = {"run": f"{B},{seed}", "condition": "cot", "unit": str(seed)}
            for metric, values in {**GOOD, **(changed if batches[0] == B else {})}.items():
                places = [setting(n=16, k=4, B=B, phase=phase) for phase in range(4)]
                # seeds differ a little, so that intervals have a width
                small = [0.0001 * seed * phase * (metric in ("exponent", "margin", "accuracy")) for phase in range(4)]
                shifted = [value + shift for value, shift in zip(values, small)]
                parts.append(table(metric=metric, value=shifted, setting=places, **common))
            place = setting(n=16, k=4, B=B, phase=3)
            for name in ("batch", "lr_0"):
                parts.append(table(metric=["used", "assumed"], value=[1.0, 2.0], scope=name, setting=place, **common))
    claim, rows = CLAIMS["wen2024/thm3"], concat(parts)
    judged = claim.judge(rows, PRESETS["cpu"])
    assert claim.judge(claim.published(rows), PRESETS["cpu"]) == judged
    return judged


def _verdicts(changed: Mapping[str, tuple[float, ...]], **how) -> dict[str, str]:
    return {v.key: v.outcome for v in _judged(changed, **how).verdicts}


def test_the_theorem_as_written_supports_every_part_with_enough_seeds():
    found = _judged({}, seeds=45)
    assert len(found.verdicts) == 6
    assert {v.outcome for v in found.verdicts} == {"supported"}
    assert found.conclusion == "reproduced"


def test_ten_seeds_cannot_show_a_high_probability():
    found = _judged({})
    assert {v.outcome for v in found.verdicts if v.primary} == {"inconclusive"}
    assert {v.outcome for v in found.verdicts if not v.primary} == {"supported"}
    assert found.conclusion == "undecided"


def test_only_the_largest_batch_is_judged():
    nothing = dict.fromkeys(GOOD, (-1.0, -1.0, -1.0, -1.0))
    assert "refuted" not in _verdicts(nothing, batches=(50, 100)).values()
    assert "supported" not in _verdicts(nothing, batches=(100, 50)).values()


@pytest.mark.parametrize(
    ("metric", "values", "refuted"),
    [
        ("parity_hit", (0, 0.75, 1, 1), {"phase_1_parity"}),
        ("hit", (0, 0.14, 1, 1), {"phase_1"}),
        ("exponent", (0, 0, 7.5, 12), {"phase_2"}),
        ("exponent", (0, 0, 12, 7.5), {"one_hot"}),
        ("margin", (-1, -1, 0.1, -0.5), {"right"}),
        ("accuracy", (0.1, 0.1, 0.98, 0.99), {"phase_3"}),
    ],
)
def test_each_part_is_refuted_by_its_own_measure(metric, values, refuted):
    assert {key for key, outcome in _verdicts({metric: values}).items() if outcome == "refuted"} == refuted


def test_fresh_seeds_are_asked_for():
    names = [item.name for item in items(replace(PRESETS["smoke"], first_unit=20))]
    assert names == ["n=6,k=2,B=1024,seed=20", "n=6,k=2,B=1024,seed=21", "n=6,k=2,B=64,seed=20"]
