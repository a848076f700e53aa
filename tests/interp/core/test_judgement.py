"""Do declared parts become the outcomes and the conclusion that the rules say, at the stated error rate?"""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest

from interp.core.judgement import ALPHA, Judgement, conclude, filled, finding_of, judge_parts
from interp.core.judging import SHARE, growth_exponent, mean_over, share_of
from interp.core.parts import NotMeasurable, Part, check_parts
from interp.core.verdict import Verdict, verdict_table
from interp.statistics import Interval


def fixed(value: float, half: float):
    """An estimator whose interval at 95% has this half-width, and scales as a normal one does."""
    from scipy.stats import norm

    def estimate(table: pd.DataFrame, level: float) -> Interval:
        width = half * norm.ppf((1 + level) / 2) / norm.ppf(0.975)
        return Interval(value, value - width, value + width, level, 10)

    return estimate


def part(key: str = "a", value: float = 1.0, half: float = 0.1, **changes) -> Part:
    given = {
        "key": key,
        "name": f"part {key}",
        "role": "paper",
        "quantity": "q",
        "estimate": fixed(value, half),
        "direction": "above",
        "threshold": 0.0,
        "why": "zero is no effect",
        "unit": "seeds",
        "source": "Figure 1",
        "primary": True,
    }
    return Part(**{**given, **changes})


TABLE = pd.DataFrame()


def outcome(one: Part) -> str:
    return judge_parts("x2020/fig1", [dataclasses.replace(one, primary=True, role="paper")], TABLE)[0].outcome


@pytest.mark.parametrize(
    ("value", "direction", "margin", "expected"),
    [
        (1.0, "above", None, "supported"),
        (-1.0, "above", None, "refuted"),
        (0.05, "above", None, "inconclusive"),
        (-1.0, "below", None, "supported"),
        (1.0, "below", None, "refuted"),
        (0.05, "within", 0.5, "supported"),
        (0.45, "within", 0.5, "inconclusive"),
        (0.65, "within", 0.5, "refuted"),
    ],
)
def test_an_interval_decides_by_the_declared_side_or_margin(value, direction, margin, expected):
    assert outcome(part(value=value, direction=direction, margin=margin)) == expected


def test_short_of_the_evidence_does_not_refute_where_zero_means_no_evidence():
    assert outcome(part(value=1.0, threshold=2.0, refuted_at=-2.0)) == "inconclusive"
    assert outcome(part(value=-3.0, threshold=2.0, refuted_at=-2.0)) == "refuted"


def test_a_failed_precondition_makes_its_dependents_untestable_and_leaves_the_others():
    learned = part("learned", value=-1.0, role="precondition", primary=False)
    verdicts = judge_parts("x2020/fig1", [part("a", needs=("learned",)), learned, part("b")], TABLE)
    assert [v.outcome for v in verdicts] == ["not testable here", "refuted", "supported"]
    assert "precondition 'part learned' is refuted" in verdicts[0].note
    assert verdicts[0].estimate is None
    assert verdicts[0].n == 0
    assert verdicts[2].level == pytest.approx(0.95), "an untestable part is no member of the family"


def test_what_cannot_be_measured_is_no_zero():
    lost = part(estimate=lambda table, level: NotMeasurable("no run solved the task"))
    (verdict,) = judge_parts("x2020/fig1", [lost], TABLE)
    assert (verdict.outcome, verdict.estimate, verdict.low, verdict.level) == ("not testable here", None, None, None)
    assert verdict.note == "no run solved the task"
    assert verdict.interval == "no estimate"


def test_holm_steps_down_and_prints_the_level_that_decided():
    # Half-widths at 95%; z for 1 - 0.05/3, 1 - 0.05/2 and 0.95 are 2.39, 2.24 and 1.96.
    sure, later, last = part("a", 1.0, 0.1), part("b", 1.0, 0.85), part("c", 1.0, 0.95)
    verdicts = judge_parts("x2020/fig1", [last, later, sure], TABLE)
    assert {v.key: (v.outcome, round(v.level, 4)) for v in verdicts} == {
        "a": ("supported", round(1 - ALPHA / 3, 4)),
        "b": ("supported", round(1 - ALPHA / 2, 4)),
        "c": ("supported", 0.95),
    }
    alone = judge_parts("x2020/fig1", [later, last], TABLE)
    assert [v.outcome for v in alone] == ["supported", "supported"]
    stuck = judge_parts("x2020/fig1", [part("b", 1.0, 0.95), part("c", 1.0, 0.95)], TABLE)
    assert [v.outcome for v in stuck] == ["inconclusive", "inconclusive"]


def test_secondary_parts_do_not_widen_the_primary_ones():
    verdicts = judge_parts("x2020/fig1", [part("a"), part("b", role="ours", primary=False)], TABLE)
    assert [v.level for v in verdicts] == [pytest.approx(0.95)] * 2


def test_the_family_errs_in_at_most_a_twentieth_of_the_worlds():
    generator = np.random.default_rng(0)
    wrong, n = 0, 1500
    for _ in range(n):
        data = generator.normal(size=(3, 12))

        def estimator(values):
            return lambda table, level: mean_over(values, level)

        parts = [part(k, estimate=estimator(values)) for k, values in zip("abc", data)]
        wrong += any(v.outcome != "inconclusive" for v in judge_parts("x2020/fig1", parts, TABLE))
    assert wrong / n < ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / n)
    assert wrong / n > 0.02, "the procedure is not idle"


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        (["supported", "supported"], "reproduced"),
        (["supported", "refuted"], "partly reproduced"),
        (["supported", "inconclusive"], "partly reproduced"),
        (["refuted", "inconclusive"], "not reproduced"),
        (["refuted", "refuted"], "not reproduced"),
        (["inconclusive", "not testable here"], "undecided"),
    ],
)
def test_the_conclusion_follows_from_the_primary_parts_alone(outcomes, expected):
    values = {"supported": 1.0, "refuted": -1.0, "inconclusive": 0.0}
    parts = []
    for key, name in zip("ab", outcomes):
        estimate = (lambda t, level: NotMeasurable("no")) if name not in values else fixed(values[name], 0.1)
        parts.append(part(key, estimate=estimate))
    others = [part("c", -1.0, role="ours", primary=False), part("d", 1.0, role="control", primary=False)]
    verdicts = judge_parts("x2020/fig1", [*parts, *others], TABLE)
    assert [v.outcome for v in verdicts[:2]] == outcomes
    assert conclude(verdicts) == expected


def test_an_estimator_must_use_the_level_it_is_given():
    lazy = part(estimate=lambda table, level: Interval(1.0, 0.5, 1.5, 0.95, 5))
    with pytest.raises(ValueError, match=r"an interval of level 0.95, asked for 0.975"):
        judge_parts("x2020/fig1", [lazy, part("b")], TABLE)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": "Two words"}, "lower case"),
        ({"source": ""}, "needs `source`"),
        ({"role": "ours"}, "only parts with role paper"),
        ({"threshold": math.inf}, "finite"),
        ({"direction": "within"}, "goes with a margin"),
        ({"direction": "within", "margin": -1.0}, "positive"),
        ({"why": " "}, "where the threshold comes from"),
    ],
)
def test_a_part_that_says_too_little_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        part(**changes)


def test_parts_that_do_not_fit_together_are_refused():
    with pytest.raises(ValueError, match="two parts of one key"):
        check_parts("x2020/fig1", [part("a"), part("a")])
    with pytest.raises(ValueError, match="at least one primary"):
        check_parts("x2020/fig1", [part("a", primary=False)])
    with pytest.raises(ValueError, match="no precondition of it"):
        check_parts("x2020/fig1", [part("a", needs=("b",)), part("b")])


def test_a_finding_takes_its_numbers_from_the_estimates():
    verdicts = judge_parts("x2020/fig1", [part("gain", 0.24, 0.05), part("lost", 1.0)], TABLE)
    assert filled("It gains {gain}, that is {gain.estimate:.0%} ({gain.outcome}).", verdicts) == (
        "It gains 0.24 [0.183, 0.297], that is 24% (supported)."
    )
    assert filled("{gain:10^} times, {lost:2^} times", verdicts) == "1.7 [1.52, 1.98] times, 2 [1.85, 2.16] times"
    with pytest.raises(ValueError, match="the parts are gain, lost"):
        filled("{gane}", verdicts)


def test_a_claim_that_cannot_be_judged_says_why_and_no_numbers():
    learned = part("learned", value=-1.0, role="precondition", primary=False)
    beside = part("beside", role="ours", primary=False)
    unjudged = judge_parts("x2020/fig1", [part("a", needs=("learned",)), learned, beside], TABLE)
    assert finding_of("{a}, {beside}", unjudged) == "Not judged: the precondition 'part learned' is refuted."
    half = judge_parts("x2020/fig1", [part("a", needs=("learned",)), part("b"), learned], TABLE)
    assert finding_of("{a}, {b.estimate:.0f}", half) == "no estimate, 1"


def test_records_survive_json_with_open_ends():
    import json

    opened = part(estimate=lambda t, level: Interval(1.0, 0.5, math.inf, level, 5))
    verdicts = judge_parts("x2020/fig1", [opened], TABLE)
    judgement = Judgement("x2020/fig1", verdicts, conclude(verdicts), "It holds.")
    assert Judgement.read(json.loads(json.dumps(judgement.record(), allow_nan=False))) == judgement
    assert isinstance(judgement.verdicts[0], Verdict)
    assert verdict_table(verdicts).row_count == 1


def test_means_shares_and_exponents_say_when_there_is_nothing_to_measure():
    assert isinstance(mean_over(np.array([1.0]), 0.95), NotMeasurable)
    assert isinstance(share_of([], 0.95), NotMeasurable)
    sizes = pd.Series([1.0, 1.0, 2.0, 2.0])
    censored = pd.Series([False, False, True, True])
    assert isinstance(growth_exponent(sizes, sizes, censored, 2**0.5, 0.95), NotMeasurable)


def test_seeds_that_all_agree_do_not_make_a_mean_certain():
    """Seeds that are 1 or 0.5, their mean at the threshold: zero-width intervals supported this in half the draws."""
    generator = np.random.default_rng(0)
    for n in (5, 10):
        draws = np.where(generator.random((1000, n)) < 0.8, 1.0, 0.5)  # the mean is 0.9
        supported = [mean_over(values, 0.95, SHARE).low > 0.9 for values in draws]
        assert np.mean(supported) <= 0.025
    agreeing = mean_over(np.ones(40), 0.95, SHARE)
    assert agreeing.low == pytest.approx(0.025 ** (1 / 40))
    assert agreeing.low > 0.9, "enough seeds that agree do support it"
    assert mean_over(np.zeros(5), 0.95).low == -math.inf, "without bounds, nothing is known"


def test_floors_and_caps_open_the_interval():
    found = mean_over(np.array([1.0, 2.0, 3.0]), 0.95, open_above=True)
    assert found.high == math.inf
    assert math.isfinite(found.low)
