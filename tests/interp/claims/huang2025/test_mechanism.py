"""The judge of huang2025/mechanism on rows made by hand, where the right verdict is known."""

import pytest

from interp.claims.huang2025.mechanism import ID, PRESETS
from interp.core.claim import CLAIMS
from probes.rows import concat, setting, table

PARTS = ["both", "predicate", "answer", "random"]


def rows(predicate: float, answer: float, random: float, clean: float = 1.0):
    """Eight seeds of one model; a little noise by seed keeps intervals open."""
    values = {"clean": clean, "predicate": predicate, "answer": answer, "random": random}
    return concat(
        table(
            run=f"theory,{seed}", condition="theory", unit=str(seed), setting=setting(group="C6"),
            metric=f"accuracy_{name}", value=value - 0.001 * seed,
        )
        for seed in range(8)
        for name, value in values.items()
    )  # fmt: skip


def outcomes(table) -> list[str]:
    """Of the theory-like model on C6."""
    found = {verdict.key: verdict for verdict in CLAIMS[ID].judge(table, PRESETS["cpu"]).verdicts}
    return [found[f"theory_c6_{part}"].outcome for part in PARTS]


def test_both_clauses_necessary_and_no_other():
    assert outcomes(rows(predicate=0.2, answer=0.2, random=1.0)) == ["supported"] * 4


@pytest.mark.parametrize(
    ("changed", "parts"),
    [
        ({"predicate": 0.8}, ["both", "predicate"]),
        ({"answer": 0.8}, ["both", "answer"]),
        ({"random": 0.5}, ["random"]),
    ],
    ids=str,
)
def test_each_part_is_refuted_by_its_own_accuracy(changed, parts):
    found = outcomes(rows(**{"predicate": 0.2, "answer": 0.2, "random": 1.0, **changed}))
    assert [part for part, outcome in zip(PARTS, found) if outcome == "refuted"] == parts


def test_models_that_did_not_learn_the_task_decide_nothing():
    assert outcomes(rows(predicate=0.2, answer=0.2, random=1.0, clean=0.5)) == ["not testable here"] * 4


def test_the_papers_sentence_is_primary_and_the_knockouts_of_single_links_are_ours():
    parts = CLAIMS[ID].parts(PRESETS["cpu"])
    assert [part.key for part in parts if part.primary] == ["theory_c6_both", "theory_s5_both"]
    assert {part.role for part in parts if part.key.endswith(("_predicate", "_answer"))} == {"ours"}
