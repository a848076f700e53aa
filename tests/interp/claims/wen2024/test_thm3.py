"""The parts of wen2024/thm3 on rows made by hand, where the right verdict is known."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import pytest

from interp.claims.wen2024.thm3 import PRESETS, items, measure
from interp.core.claim import CLAIMS
from interp.core.judgement import Judgement
from probes.rows import concat, setting, table

GOOD = {
    "hit": (0.0, 1.0, 1.0, 1.0),
    "parity_hit": (0.0, 1.0, 1.0, 1.0),
    "first_over_own": (0.0, 2.0, 2.0, 2.0),
    "lemma19": (0.0, 0.5, 0.5, 0.5),
    "vacuous": (0.0, 4.0, 4.0, 4.0),
    "largest_output": (0.0, 0.5, 0.5, 0.5),
    "exponent": (0.0, 0.0, 12.0, 12.0),
    "margin": (-1.0, -1.0, -0.1, 0.5),
    "accuracy": (0.1, 0.1, 0.5, 0.99),
}


def _judged(
    changed: Mapping[str, tuple[float, ...]],
    batches: tuple[int, ...] = (100,),
    seeds: int = 10,
    power: float = 1.0,
    stored: float = 1.0,
) -> Judgement:
    """Verdicts for seeds with `GOOD` values after 0 to 3 steps, changed at the first batch size."""
    parts: list[pd.DataFrame] = []
    for seed in range(seeds):
        unit = {"run": str(seed), "unit": str(seed)}
        for B in batches:
            common = {"condition": "phases", **unit}
            for metric, values in {**GOOD, **(changed if batches[0] == B else {})}.items():
                places = [setting(n=16, k=4, B=B, phase=phase) for phase in range(4)]
                # seeds differ a little, so that intervals have a width
                small = [0.0001 * seed * phase * (metric in ("exponent", "margin", "accuracy")) for phase in range(4)]
                shifted = [value + shift for value, shift in zip(values, small)]
                parts.append(table(metric=metric, value=shifted, setting=places, **common))
            place = setting(n=16, k=4, B=B, phase=3)
            for name in ("batch", "lr_0"):
                parts.append(table(metric=["used", "assumed"], value=[1.0, 2.0], scope=name, setting=place, **common))
        for n in (8, 16, 32):
            enough = [2 ** (seed % 3 * n / 64) * 32 * n**power] * 2  # seeds differ in their exponent
            places = [setting(n=n, k=2, wide=wide) for wide in (1024, 256)]
            parts.append(table(condition="samples", metric="enough", value=enough, setting=places, **unit))
            place, values = setting(n=n, k=2), [float(n < 32 or stored), 3.0]
            bits = {"condition": "bits", "metric": ["bits_enough", "least_bits"], "setting": place}
            parts.append(table(value=values, **bits, **unit))
    claim, rows = CLAIMS["wen2024/thm3"], concat(parts)
    judged = claim.judge(rows, PRESETS["cpu"])
    assert claim.judge(claim.published(rows), PRESETS["cpu"]) == judged
    return judged


def _verdicts(changed: Mapping[str, tuple[float, ...]], **how) -> dict[str, str]:
    return {v.key: v.outcome for v in _judged(changed, **how).verdicts}


def test_the_theorem_as_written_supports_every_part_with_enough_seeds():
    found = _judged({}, seeds=60)
    assert len(found.verdicts) == 10
    assert {v.outcome for v in found.verdicts} == {"supported"}
    assert found.conclusion == "reproduced"


def test_ten_seeds_cannot_show_a_high_probability():
    found = _judged({})
    assert {v.key for v in found.verdicts if v.outcome == "inconclusive"} == {"right", "one_hot", "bits"}
    assert found.conclusion != "reproduced"


def test_only_the_largest_batch_is_judged():
    nothing = dict.fromkeys(GOOD, (-1.0, -1.0, -1.0, -1.0))
    assert "refuted" not in _verdicts(nothing, batches=(50, 100)).values()
    supported = {key for key, outcome in _verdicts(nothing, batches=(100, 50)).items() if outcome == "supported"}
    assert supported == {"samples", "samples_narrow", "lemma19"}


@pytest.mark.parametrize(
    ("metric", "values", "refuted"),
    [
        ("parity_hit", (0, 0.75, 1, 1), {"phase_1_parity"}),
        ("hit", (0, 0.14, 1, 1), {"phase_1"}),
        ("lemma19", (0, 1.01, 0, 0), {"lemma19"}),
        ("exponent", (0, 0, 7.5, 12), {"phase_2"}),
        ("exponent", (0, 0, 12, 7.5), {"one_hot"}),
        ("margin", (-1, -1, 0.1, -0.5), {"right"}),
        ("accuracy", (0.1, 0.1, 0.98, 0.99), {"phase_3"}),
    ],
)
def test_each_part_is_refuted_by_its_own_measure(metric, values, refuted):
    assert {key for key, outcome in _verdicts({metric: values}).items() if outcome == "refuted"} == refuted


def test_quadratic_samples_and_too_few_bits_at_the_largest_n_refute():
    assert _verdicts({}, power=2.0)["samples"] == _verdicts({}, power=2.0)["samples_narrow"] == "refuted"
    assert _verdicts({}, stored=0.0)["bits"] == "refuted"


def test_a_search_that_reached_the_end_of_its_grid_cannot_support():
    assert _verdicts({}, power=3.0)["samples"] == "refuted"  # 32 n^3 ends beyond the grid at n = 32: larger still
    assert _verdicts({}, power=0.0)["samples"] == "supported"


def test_fresh_seeds_are_asked_for():
    names = [item.name for item in items(replace(PRESETS["smoke"], first_unit=20, samples=(6,), bits=()))]
    assert names[:3] == [f"phases,n=6,k=2,B={B},seed={seed}" for B, seed in ((1024, 20), (1024, 21), (64, 20))]
    assert names[3:5] == ["samples,n=6,k=2,m=6144,seed=20", "samples,n=6,k=2,m=6144,seed=21"]


def test_the_smallest_batch_and_the_next_one_succeed(tmp_path):
    (item,) = [item for item in items(PRESETS["smoke"]) if item.name == "samples,n=6,k=2,m=6144,seed=1"]
    rows = measure(item, tmp_path)
    assert rows["metric"].tolist() == ["enough"]
    assert 2**4 <= rows["value"].item() < 2**16
