"""What is printed of a measurement's effects: recommended pairs, few metrics, 80 columns."""

import io
import re
from typing import Any

import pytest
from rich.console import Console

from interp.core.effect_table import RECOMMENDED, SHOWN_METRICS, effect_table, main_effects, reading_of
from interp.core.effects import Effect

MEASURED = ("min", "mean", "q10", "length_matched_min", "sink_excluded_mean")
CONDITIONS = ("cot", "no_cot", "cot_clean", "shuffled_tokens", "filler")


def made(first: str, second: str, metric: str = "min", scope: str = "all", estimate: float = -0.03125) -> Effect:
    told: dict[str, Any] = {
        "estimate": estimate, "low": estimate - 0.004, "high": estimate + 0.004, "level": 0.95, "n": 24,
        "unit": "problems", "problems": 24, "method": "t", "first_mean": 0.5, "second_mean": 0.5,
        "heads_lower": None, "heads_higher": None,
    }  # fmt: skip
    return Effect(metric, scope, first, second, quantity="q", **told)


ALL = [
    made(first, second, metric, scope)
    for place, first in enumerate(CONDITIONS)
    for second in CONDITIONS[place + 1 :]
    for metric in MEASURED
    for scope in ("all", "answer", "final")
]


def printed(found: list[Effect], width: int = 80) -> list[str]:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(effect_table(found, "a model [of mine]"))
    return console.export_text().splitlines()


def test_by_default_the_entropy_of_the_pairs_that_are_meant_to_be_compared_is_shown():
    found = main_effects(ALL, SHOWN_METRICS)
    assert {effect.metric for effect in found} == {"min", "mean"}
    pairs = {(effect.first, effect.second) for effect in found}
    assert ("cot", "no_cot") in pairs
    assert ("shuffled_tokens", "filler") not in pairs
    assert all(frozenset(pair) in RECOMMENDED for pair in pairs)
    assert len(found) == 2 * 3 * 5 < len(ALL)


def test_what_was_asked_for_is_shown_even_if_nothing_is_recommended():
    others = [made("no_cot", "filler", "entropy_nats_mean"), made("shuffled_tokens", "filler", "entropy_nats_mean")]
    assert main_effects(others, ["entropy_nats_mean"]) == others
    models = [made("m: cot", "against m: cot"), made("m: cot", "m: no_cot"), made("m: no_cot", "m: filler")]
    assert main_effects(models, ["min"]) == models[:2]


def test_the_table_fits_80_columns_and_breaks_no_name_of_a_metric():
    long = "entropy_nats_length_matched_min"
    lines = printed([*main_effects(ALL, SHOWN_METRICS), made("cot_clean", "shuffled_tokens_clean", long)])
    assert any("a model [of mine]" in line for line in lines)
    assert {"min", "mean", long} <= {line.strip() for line in lines}
    assert all(len(line) <= 80 for line in lines)
    whole = re.compile(r"(all|answer|final) +-0\.0312 \[-0\.0353, -0\.0272\]")
    assert sum(bool(whole.search(line)) for line in lines) == 2 * 3 * 5 + 1


def test_below_the_table_stands_which_sign_is_sparser_and_which_pairs_are_of_equal_length():
    said = reading_of([made("cot_clean", "no_cot"), made("cot_clean", "prose_clean"), made("cot", "filler", "mean")])
    first = "the first of a pair is sparser. Of equal length:"
    assert said == f"Below zero: {first} cot_clean − prose_clean, cot − filler."
    assert reading_of([made("cot", "no_cot")]) == f"Below zero: {first} no pair here."
    higher = [made("m: cot", "against m: cot", "sink_mass")]
    assert reading_of(higher) == f"Above zero: {first} two models on the same text."
    assert reading_of([*higher, made("cot", "no_cot")]).startswith("Below zero (sink_mass: above): the first")


@pytest.mark.parametrize(
    ("estimate", "half", "said"),
    [
        (-0.000000004, 0.00000001, "0.0000 [0.0000, 0.0000]"),
        (-0.03124, 0.004, "-0.0312 [-0.0352, -0.0272]"),
        (3.26, 2.0, "3.3 [1.3, 5.3]"),
    ],
)
def test_an_interval_has_four_decimals_at_most(estimate, half, said):
    one = made("cot", "no_cot", estimate=estimate)
    assert type(one)(**{**vars(one), "low": estimate - half, "high": estimate + half}).interval == said
