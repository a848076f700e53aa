"""The summary of traces on made-up rows in which the truth is known."""

import numpy as np
import pandas as pd
import pytest

from interp.core.trace_summary import agreement, receiver_heads, reliability, summary, trace_cluster
from probes import rows

N, S, HEADS = 12, 10, 6


def head_rows(rng, spiky):
    """Kurtoses of two layers of three heads; head 1.2 has `spiky` more than its nulls, sentence for sentence."""
    layer, head = np.divmod(np.arange(HEADS), 3)
    tables = []
    for n in range(N):
        base = rng.normal(0, 1, HEADS) + np.arange(HEADS)
        for condition in ("trace", "rotated", "permuted"):
            value = (
                base + rng.normal(0, 0.1, HEADS) + np.where(np.arange(HEADS) == 5, spiky * (condition == "trace"), 0)
            )
            names = {"run": "m", "condition": condition, "unit": f"p{n}", "metric": "kurtosis"}
            tables.append(rows.table(layer=layer, head=head, value=value, **names))
    return tables


def sentence_rows(rng, shared):
    """Vertical scores and effects of hiding that follow `shared` times one hidden importance, and position."""
    tables = []
    for n in range(N):
        importance, keys = rng.normal(size=S), np.arange(1, S + 1)
        attention = shared * importance + 0.5 * rng.normal(size=S) - 0.4 * keys
        for place in range(HEADS):
            names = {"run": "m", "unit": f"p{n}", "condition": "trace", "metric": "vertical"}
            tables.append(rows.table(layer=place // 3, head=place % 3, key=keys, value=attention, **names))
        names = {"run": "m", "unit": f"p{n}"}
        effect = shared * importance + 0.5 * rng.normal(size=S) - 0.4 * keys
        tables.append(
            rows.table(key=keys, query=S + 1, metric="suppression_effect", condition="hidden", value=effect, **names)
        )
        for arm, more in (("hidden", 0.5), ("control", 0.0)):
            tables.append(
                rows.table(
                    key=keys, query=S + 1, metric="suppression_log_kl", condition=arm, value=effect + more, **names
                )
            )
        lengths = rng.integers(5, 30, S)
        tables.append(
            rows.table(
                key=keys,
                query=S + 1,
                metric="attention_mean",
                condition="trace",
                value=0.1,
                n_tokens=lengths,
                **names,
            )
        )
    return tables


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    return rows.concat([*head_rows(rng, 2.0), *sentence_rows(rng, 1.0)])


def by_name(records):
    return {record["name"]: record for record in records}


def test_the_spiky_head_is_found_beyond_its_nulls_and_only_it(table):
    best = receiver_heads(table, 2)[0]
    assert (best["layer"], best["head"]) == (1, 2)
    assert best["beyond_rotated"] == pytest.approx(2, abs=0.2)
    assert best["p_rotated"] < 0.01
    assert best["clear_rotated"] == best["clear_permuted"] == 1
    found = reliability(table)
    assert found["kurtosis"] > 0.8
    nothing = rows.concat(head_rows(np.random.default_rng(1), 0.0))
    assert receiver_heads(nothing, 1)[0]["clear_rotated"] == 0


def test_agreement_beyond_position_is_told_from_agreement_by_position(table):
    found = {one.name: one.interval for one in agreement(table)}
    pair = "attention and suppression"
    assert found[pair].low > 0.5
    assert found[f"{pair}, given position and length"].low > 0.5
    unrelated = rows.concat(
        [*head_rows(np.random.default_rng(2), 0.0), *sentence_rows(np.random.default_rng(3), 0.0)]
    )
    found = {one.name: one.interval for one in agreement(unrelated)}
    assert found[pair].low > 0.5, "both fall with position"
    assert found[f"{pair}, given position and length"].low < 0 < found[f"{pair}, given position and length"].high


def test_everything_is_plain_and_row_order_does_not_matter(table):
    found = summary(table)
    assert found["traces"] == N
    assert by_name(found["estimates"])["suppression_beyond_control"]["value"] == pytest.approx(0.5)
    shuffled = summary(table.sample(frac=1, random_state=0))
    assert by_name(shuffled["agreement"]).keys() == by_name(found["agreement"]).keys()
    for name, record in by_name(found["agreement"]).items():
        assert by_name(shuffled["agreement"])[name]["value"] == pytest.approx(record["value"])


def test_an_empty_table_says_nothing_and_samples_are_one_cluster():
    found = summary(pd.DataFrame(rows.concat([])))
    assert found == {"receiver_heads": [], "reliability": {}, "estimates": [], "agreement": [], "traces": 0}
    assert trace_cluster("gsm8k-00001 sample=2") == "gsm8k-00001"
