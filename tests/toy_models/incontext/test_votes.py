"""Votes on given prompts, against counting by loops, and against the exact error where it is known."""

from collections import Counter

import pytest
import torch

from interp.claims.li2024._vote import vote_errors
from toy_models.incontext.errors import Errors
from toy_models.incontext.prompts import Prompts, draw_prompts
from toy_models.incontext.tokens_task import IncontextTokens
from toy_models.incontext.votes import cot_votes, icl_votes

LENGTHS = [1, 4, 9]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def winners(pairs: list[tuple[int, int]], asked: int, n_patterns: int) -> set[int]:
    """The outputs that come most often after `asked`; all of them if it never comes."""
    counts = Counter(output for given, output in pairs if given == asked)
    return {o for o in counts if counts[o] == max(counts.values())} if counts else set(range(n_patterns))


@pytest.mark.parametrize("spread", ["even", "first"])
def test_every_answer_of_a_chain_is_one_that_counting_allows(spread):
    prompts = draw_prompts(60, 6, 9, 0.5, Errors.of(0.5, 0.8, 3, 6, spread), generator())
    found = cot_votes(prompts, 6, LENGTHS, generator(1))
    labels = icl_votes(prompts, 6, LENGTHS, generator(1))
    for number, length in enumerate(LENGTHS):
        for row in range(60):
            shown, asked = prompts.examples[row, :length].tolist(), int(prompts.query[row, 0])
            assert int(labels[number, row]) in winners([(e[0], e[-1]) for e in shown], asked, 6)
            for step in range(3):
                allowed = winners([(e[step], e[step + 1]) for e in shown], asked, 6)
                asked = int(found[number, row, step])
                assert asked in allowed


def test_ties_are_broken_evenly():
    examples = torch.tensor([[[0, 1], [0, 2], [3, 3]]]).expand(4000, -1, -1)
    found = cot_votes(Prompts(examples, torch.zeros(4000, 2, dtype=torch.long)), 5, [3], generator())[0, :, 0]
    assert set(found.tolist()) == {1, 2}
    assert (found == 1).double().mean().item() == pytest.approx(0.5, abs=0.03)


def test_the_error_is_the_exact_one_of_errors_in_the_first_step():
    prompts = draw_prompts(4000, 10, 20, 0.8, Errors.of(0.5, 0.5, 3, 10, "first"), generator())
    wrong = (cot_votes(prompts, 10, [5, 20], generator(1)) != prompts.query[:, 1:]).double().mean((1, 2))
    # Examples that start elsewhere cannot meet the query's pattern at the first step, so the exact vote counts all.
    assert wrong.tolist() == pytest.approx(vote_errors(0.8, 0.5, 0.5, [5, 20]), abs=4 * (0.25 / 4000) ** 0.5)


@pytest.mark.parametrize("cot", [True, False])
def test_prompts_read_back_from_tokens_are_those_that_were_drawn(cot):
    task = IncontextTokens(n_patterns=6, n_examples=4, cot=cot, accuracy=0.8)
    batch = task.sample(12, generator())
    drawn = draw_prompts(12, 6, 4, task.alpha, task.errors, (again := generator())).shuffled(again)
    drawn = drawn if cot else drawn.shortcut
    found = task.prompts(batch)
    assert torch.equal(found.examples, drawn.examples)
    assert torch.equal(found.query, drawn.query)
