"""The judge of huang2025/mechanism on rows made by hand, where the right verdict is known."""

import pytest

from interp.claims.huang2025.mechanism import judge
from probes.rows import concat, setting, table


def rows(predicate: float, answer: float, random: float, clean: float = 1.0):
    """Five seeds of one model; a little noise by seed keeps intervals open."""
    values = {"clean": clean, "predicate": predicate, "answer": answer, "random": random}
    return concat(
        table(
            run=f"theory,{seed}", condition="theory", unit=str(seed), setting=setting(group="C6"),
            metric=f"accuracy_{name}", value=value - 0.001 * seed,
        )
        for seed in range(5)
        for name, value in values.items()
    )  # fmt: skip


def outcomes(table) -> list[str]:
    return [verdict.outcome for verdict in judge(table)]


def test_both_clauses_necessary_and_no_other():
    assert outcomes(rows(predicate=0.2, answer=0.2, random=1.0)) == ["supported"] * 3


@pytest.mark.parametrize(
    ("changed", "place"), [({"predicate": 0.8}, 0), ({"answer": 0.8}, 1), ({"random": 0.5}, 2)], ids=str
)
def test_each_part_is_refuted_by_its_own_accuracy(changed, place):
    found = outcomes(rows(**{"predicate": 0.2, "answer": 0.2, "random": 1.0, **changed}))
    assert [i for i, outcome in enumerate(found) if outcome == "refuted"] == [place]


def test_models_that_did_not_learn_the_task_decide_nothing():
    assert outcomes(rows(predicate=0.2, answer=0.2, random=1.0, clean=0.5)) == ["inconclusive"] * 3
