"""Cuts and their controls: what is cut, that the control has its length and distance, and when there is none."""

import itertools

import pytest
import torch

from hf_analysis.causal.edges import EDGES, KINDS, LOCAL, NUMBERS, REACH, Written, cut, number_cut, span_cut
from hf_analysis.text.problems import Problem
from hf_analysis.text.spans import Number, Solution, solution

WORKED = Problem(
    "w",
    "Ann has 12 pens and 5 cups. She buys 12 more pens, and Bob brings her 30 things. How many things are hers now?",
    "The pens are 12+12=24 of them.\nWith cups there are 24+5=29 in all.\nIn the end 29+30=59 things.\n#### 59",
    "59",
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_the_control_cuts_as_many_keys_at_the_same_queries(kind, seed, llama):
    worked = solution(llama, WORKED)
    found = cut(worked, kind, torch.Generator().manual_seed(seed))
    assert found.target.any()
    assert torch.equal(found.target.sum(-1), found.control.sum(-1))
    both = found.target | found.control
    assert not both.triu().any(), "a query loses its own or a later token"
    assert not both[:, 0].any(), "the sink is cut"
    again = cut(worked, kind, torch.Generator().manual_seed(seed))
    assert torch.equal(found.control, again.control)
    assert torch.equal(found.target, cut(worked, kind, torch.Generator().manual_seed(seed + 100)).target)


@pytest.mark.parametrize("kind", EDGES)
def test_whole_spans_are_cut_but_for_the_tokens_before_a_query(kind, llama):
    worked = solution(llama, WORKED)
    starts = set()
    for seed in range(20):
        found = cut(worked, kind, torch.Generator().manual_seed(seed))
        assert torch.equal(found.target, EDGES[kind](worked).tril(-1 - LOCAL))
        assert not found.control.triu(-LOCAL).any()
        for keys in found.control:
            places = keys.nonzero()[:, 0].tolist()
            assert places == list(range(places[0], places[-1] + 1)) if places else True, "contiguous"
        starts.add(int(found.control[-1].int().argmax()))
    assert len(starts) > 1 or not found.control[-1].any()


def test_a_random_span_reaches_from_the_second_key_to_the_last_distant_one():
    edges = torch.zeros(20, 20, dtype=torch.bool)
    edges[19, 1:4] = True
    spans = {
        tuple(span_cut(edges, torch.Generator().manual_seed(seed)).control[19].nonzero()[:, 0].tolist())
        for seed in range(300)
    }
    assert spans == {(i, i + 1, i + 2) for i in range(1, 19 - LOCAL - 3 + 1)}
    for query, key in ((5, 0), (5, 5), (5, 6)):
        wrong = torch.zeros(20, 20, dtype=torch.bool)
        wrong[query, key] = True
        with pytest.raises(ValueError, match="they have no control"):
            span_cut(wrong, torch.Generator())


def spans_of(keys: torch.Tensor) -> set[int]:
    return set(keys.nonzero()[:, 0].tolist())


def test_numbers_are_cut_where_they_stood_before(llama):
    worked = solution(llama, WORKED)
    where = {}
    for number in worked.numbers:
        where.setdefault(number.value, []).append(set(number.tokens))
    first, second, third = worked.lines
    generator = torch.Generator().manual_seed(0)

    results = cut(worked, "steps to earlier results", generator).target
    assert not results[list(first)].any()
    assert {frozenset(spans_of(row)) for row in results[list(second)]} == {frozenset(where["24"][0])}
    assert {frozenset(spans_of(row)) for row in results[list(third)]} == {frozenset(where["29"][0])}
    assert not results[list(worked.ending)].any()

    asked = cut(worked, "steps to numbers of the question", generator).target
    assert spans_of(asked[first[0]]) == set.union(*where["12"][:2])
    assert spans_of(asked[second[0]]) == where["5"][0]
    assert spans_of(asked[third[-1]]) == where["30"][0]

    answer = cut(worked, "answer to its number in the steps", generator).target
    assert spans_of(answer[worked.ending[0]]) == spans_of(answer[worked.ending[-1]]) == where["59"][0]
    assert not answer[: worked.ending[0]].any()


@pytest.mark.parametrize("kind", NUMBERS)
def test_the_control_of_a_number_is_as_long_and_about_as_far_away(kind, llama):
    worked = solution(llama, WORKED)
    for seed in range(20):
        found = cut(worked, kind, torch.Generator().manual_seed(seed))
        assert not (found.target & found.control).any()
        for queries in (*worked.lines, worked.ending):
            for row in found.control[list(queries)]:
                assert spans_of(row) == spans_of(found.control[queries[0]]), "all of a line lose the same"
            ours, theirs = (sorted(spans_of(arm[queries[0]])) for arm in (found.target, found.control))
            farthest = max((abs(a - b) for a, b in itertools.product(ours, theirs)), default=0)
            spread = max(ours, default=0) - min(ours, default=0)
            assert farthest <= spread + REACH + 4, "a number has at most four tokens here"


def crowded(n: int, numbers: list[tuple[int, ...]]) -> tuple[Solution, list[Written]]:
    """A text of n tokens whose last one writes numbers that stood before."""
    found = tuple(Number("7", tokens) for tokens in numbers)
    return Solution(tuple(range(n)), 1, (), (n - 1,), (n - 1,), found), [Written((n - 1,), found)]


def test_without_room_nearby_the_control_is_the_nearest_there_is():
    worked, written = crowded(40, [tuple(range(12, 39))])
    assert number_cut(worked, written, torch.Generator()).target.sum() == 0, "no 27 keys are left before it"
    worked, written = crowded(40, [(i,) for i in range(5, 39)])
    found = number_cut(worked, written, torch.Generator())
    assert spans_of(found.control[39]) == {1, 2, 3, 4}
    assert found.target.sum() == 4, "a number without a control is not cut either"
    worked, written = crowded(40, [tuple(range(20, 22)), tuple(range(22, 39))])
    for seed in range(10):
        control = spans_of(number_cut(worked, written, torch.Generator().manual_seed(seed)).control[39])
        assert {i for i in control if i >= 11}, "within reach of the first"


def test_the_first_token_is_no_number_to_cut():
    worked, written = crowded(20, [(0,), (10,)])
    assert spans_of(number_cut(worked, written, torch.Generator()).target[19]) == {10}


def test_kinds_of_edges_are_what_they_say(llama, problems):
    worked = solution(llama, problems[1])
    assert len(worked.lines) == 2
    first, second = worked.lines
    steps = EDGES["steps to earlier steps"](worked)
    assert steps[list(second)][:, list(first)].all()
    assert steps.sum() == len(first) * len(second)
    both = EDGES["steps and answer to earlier steps"](worked)
    assert torch.equal(both, steps | EDGES["answer to steps"](worked))
    whole = EDGES["continuation to question"](worked)
    assert whole.sum() == (len(worked.ids) - worked.n_question) * (worked.n_question - 1)
