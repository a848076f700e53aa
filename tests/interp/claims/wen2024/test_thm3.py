"""The judge of wen2024/thm3 on rows made by hand, where the right verdict is known."""

from collections.abc import Mapping

import pandas as pd

from interp.claims.wen2024.thm3 import judge
from probes.rows import concat, setting, table

GOOD = {
    "hit": (0.0, 1.0, 1.0, 1.0),
    "parity_hit": (0.0, 1.0, 1.0, 1.0),
    "first_over_own": (0.0, 2.0, 2.0, 2.0),
    "exponent": (0.0, 0.0, 12.0, 12.0),
    "margin": (-1.0, -1.0, -0.1, 0.5),
    "accuracy": (0.1, 0.1, 0.5, 1.0),
}


def _verdicts(changed: Mapping[str, tuple[float, ...]], batches: tuple[int, ...] = (100,)) -> dict[str, str]:
    """Outcomes by part for ten seeds with `GOOD` values after 0 to 3 steps, changed at the first batch size."""
    parts: list[pd.DataFrame] = []
    for B in batches:
        for seed in range(10):
            common = {"run": f"{B},{seed}", "condition": "cot", "unit": str(seed)}
            for metric, values in {**GOOD, **(changed if batches[0] == B else {})}.items():
                places = [setting(n=16, k=4, B=B, phase=phase) for phase in range(4)]
                # seeds differ a little, so that intervals have a width
                shifted = [v + 0.001 * seed if metric in ("exponent", "margin", "accuracy") else v for v in values]
                parts.append(table(metric=metric, value=shifted, setting=places, **common))
            place = setting(n=16, k=4, B=B, phase=3)
            for name in ("batch", "lr_0"):
                parts.append(table(metric=["used", "assumed"], value=[1.0, 2.0], scope=name, setting=place, **common))
    return {v.part: v.outcome for v in judge(concat(parts))}


def test_the_theorem_as_written_supports_every_part():
    found = _verdicts({})
    assert len(found) == 6
    assert set(found.values()) == {"supported"}


def test_only_the_largest_batch_is_judged():
    nothing = dict.fromkeys(GOOD, (-1.0, -1.0, -1.0, -1.0))
    assert set(_verdicts(nothing, batches=(50, 100)).values()) == {"supported"}
    assert "supported" not in _verdicts(nothing, batches=(100, 50)).values()


def test_each_part_is_refuted_by_its_own_measure():
    def refuted(**changed: tuple[float, ...]) -> list[str]:
        return [part for part, outcome in _verdicts(changed).items() if outcome == "refuted"]

    assert refuted(parity_hit=(0, 0.75, 1, 1)) == ["phase 1: S[i] stands out given the running parity"]
    assert refuted(hit=(0, 0.14, 1, 1)) == ["phase 1 as in Lemma 19: S[i] outweighs every other key"]
    assert refuted(exponent=(0, 0, 7.5, 12)) == ["phase 2: attention becomes one-hot"]
    assert refuted(exponent=(0, 0, 12, 7.5)) == ["after training: right and one-hot"]
    assert refuted(margin=(-1, -1, 0.1, -0.5)) == [
        "phase 3: the output is right",
        "after training: right and one-hot",
    ]
    assert refuted(accuracy=(0.1, 0.1, 0.98, 1)) == ["phase 3: it is the third step that makes it right"]
