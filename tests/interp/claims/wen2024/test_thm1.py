"""The parts of wen2024/thm1 on rows made by hand, and its measurement on a problem small enough to check."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from interp.claims.wen2024.thm1 import PRESETS, items, measure
from interp.core.claim import CLAIMS, Item
from probes.rows import concat, setting, table, with_settings

SIZES = ((8, 2), (16, 4), (32, 8), (64, 16))


def _run(n: int, k: int, seed: int, exact: bool, bits: float) -> pd.DataFrame:
    common = {"run": f"{n},{seed}", "condition": "no_cot", "unit": str(seed)}
    place = setting(n=n, k=k, d_model=100, m=k + 1, share=1)
    exactness = {"exact": float(exact), "largest_overlap": 0.4, "size_ratio": 1000.0}
    return concat(
        [
            table(metric=list(exactness), value=list(exactness.values()), scope="float64", setting=place, **common),
            table(
                metric="exact", value=0.0, scope="float64", setting=place.replace("share=1", "share=0.25"), **common
            ),
            table(metric="least_bits", value=bits, scope="rounded", setting=place, **common),
            *(
                table(metric="accuracy", value=1.0, scope=name, setting=place, **common)
                for name in ("float32", "float16", "bfloat16")
            ),
        ]
    )


def _outcomes(exact, bits) -> list[str]:
    rng = np.random.default_rng(0)
    rows = concat(
        _run(n, k, seed, exact(seed), min(round(bits(n) + rng.normal(0, 0.4)), 25))
        for n, k in SIZES
        for seed in range(10)
    )
    judged = CLAIMS["wen2024/thm1"].judge(rows, PRESETS["cpu"])
    *found, size = [verdict.outcome for verdict in judged.verdicts]
    assert size == "refuted"  # a thousand times n k / log n
    return found


def test_exact_constructions_and_logarithmic_bits_support_both_parts():
    assert _outcomes(lambda seed: True, lambda n: 2 + 1.5 * np.log2(n)) == ["supported", "supported"]


def test_frequent_failures_and_bits_linear_in_n_refute_both_parts():
    assert _outcomes(lambda seed: seed % 3 > 0, lambda n: n / 2) == ["refuted", "refuted"]


def test_a_few_failures_are_inconclusive():
    assert _outcomes(lambda seed: seed > 0, lambda n: 5.0)[0] == "inconclusive"


def test_a_search_that_ran_out_of_bits_opens_the_interval():
    assert _outcomes(lambda seed: True, lambda n: 20.0)[1] == "supported"
    assert _outcomes(lambda seed: True, lambda n: 25.0 if n > 30 else 20.0)[1] == "inconclusive"
    assert _outcomes(lambda seed: True, lambda n: 25.0 if n > 30 else 5.0)[1] == "refuted"  # more bits, even steeper


def test_fresh_seeds_are_asked_for():
    fresh = items(replace(PRESETS["smoke"], first_unit=7))
    assert {item.parameters["seed"] for item in fresh} == {7, 8}


def test_one_construction_is_measured_in_full(tmp_path):
    parameters = {"n": 6, "k": 2, "enumerate_all": True, "n_inputs": 0, "seed": 0}
    rows = with_settings(measure(Item("one", parameters), tmp_path))
    whole = rows[rows["share"] == 1].set_index(["metric", "scope"])["value"]
    assert (rows["n_tokens"] == 64).all()
    assert whole["exact", "float64"] == 1
    assert whole["accuracy", "float32"] == 1
    assert 3 <= whole["least_bits", "rounded"] <= 11
    d_model = int(rows[rows["share"] == 1]["d_model"].iloc[0])
    assert d_model == np.ceil(32 * np.log(240))
    assert whole["size_ratio", "float64"] == pytest.approx((d_model**2 + 3 * d_model) * np.log(6) / 12)
    smallest = rows[(rows["share"] == rows["share"].min()) & (rows["metric"] == "largest_overlap")]["value"].iloc[0]
    assert smallest > whole["largest_overlap", "float64"]
