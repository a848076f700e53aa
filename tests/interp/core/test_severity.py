"""Does the severity table notice a judge that errs, and one that does not?"""

import numpy as np
import pandas as pd
import pytest

from interp.core.claim import World
from interp.core.judging import mean_over
from interp.core.severity import Severity, severity, undecidable
from interp.statistics import Interval
from tests.interp.core.test_protocol import PART, a_claim


def drawn(mean: float):
    def rows(generator: np.random.Generator) -> pd.DataFrame:
        return pd.DataFrame({"value": generator.normal(mean, 1.0, 8)})

    return rows


WORLDS = (World("no gain", {"gain": False}, drawn(0.5)), World("gain", {"gain": True}, drawn(3.0)))


def with_estimator(estimate):
    import dataclasses

    return dataclasses.replace(a_claim(dataclasses.replace(PART, estimate=estimate)), worlds=WORLDS)


def test_an_honest_judge_stays_at_its_level_and_has_power():
    honest = with_estimator(lambda table, level: mean_over(table["value"], level))
    false, true = severity(honest, n=400)
    assert (false.truth, true.truth) == (False, True)
    assert not false.above_nominal
    assert false.wrong > 0, "at the threshold it errs at times"
    assert true.right > 0.9


def test_a_judge_with_intervals_too_narrow_is_found():
    def narrow(table: pd.DataFrame, level: float) -> Interval:
        mean = float(table["value"].mean())
        return Interval(mean, mean - 0.01, mean + 0.01, level, len(table))

    false, _ = severity(with_estimator(narrow), n=100)
    assert false.wrong == pytest.approx(0.5, abs=0.2)
    assert false.above_nominal


def test_a_world_about_an_unknown_part_is_refused():
    import dataclasses

    claim = dataclasses.replace(a_claim(), worlds=(World("odd", {"gane": True}, drawn(0.0)),))
    with pytest.raises(ValueError, match="no part 'gane'"):
        severity(claim, n=1)


def test_the_conclusion_errs_if_any_primary_part_does():
    """Two primary parts of independent rows, both at their thresholds, judged without Holm's correction."""
    import dataclasses

    def at_95(table: pd.DataFrame, level: float, column: str = "value") -> Interval:
        found = mean_over(table[column], 0.95)
        assert isinstance(found, Interval)
        return dataclasses.replace(found, level=level)

    def both(generator: np.random.Generator) -> pd.DataFrame:
        return pd.DataFrame(generator.normal(0.5, 1.0, (40, 2)), columns=["value", "other"])

    other = dataclasses.replace(PART, key="other", name="other", estimate=lambda t, level: at_95(t, level, "other"))
    claim = a_claim(dataclasses.replace(PART, estimate=at_95))
    parts = [*claim.parts(claim.presets["cpu"]), other]
    truth = {part.key: False for part in parts if part.primary}
    claim = dataclasses.replace(claim, parts=lambda _: parts, worlds=(World("none", truth, both),))
    *single, family = severity(claim, n=1500)
    assert family.part == "conclusion"
    assert len(single) == len(truth) == 2
    assert all(row.wrong == pytest.approx(0.025, abs=0.015) for row in single), "one-sided, each alone"
    assert family.wrong == pytest.approx(1 - 0.975**2, abs=0.02)


def test_what_is_hardly_ever_found_where_it_is_true_is_too_small_to_show():
    def row(part: str, truth: bool, right: float) -> Severity:
        return Severity("a/b", f"world of {right}", part, truth, right, 0.0, 100)

    rows = [row("hidden", True, 0.0), row("hidden", True, 0.04), row("seen", True, 0.0), row("seen", True, 0.3)]
    assert undecidable([*rows, row("false everywhere", False, 0.0)]) == ["hidden"]
