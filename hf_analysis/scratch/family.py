"""Which word problems can a small model learn? Some templates of reasoning-gym's GSM-symbolic, with small numbers.

A problem is a template and a stream; the stream of training problem i depends on the seed and on i alone, so that a
run can go on anywhere. Held-out problems are held out by template and numbers: no training problem has the numbers of
one of them in its question, whatever its names are.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any

from hf_analysis.text.problems import CLUSTER, Problem
from probes.base.lazy import collector_paused

TEMPLATES = (10, 16, 24, 31, 39, 43, 48, 54, 57, 72)
"""reasoning-gym's generators whose texts are short (questions and solutions of at most 61 words and marks each on
average) and hold whole numbers of at most `LARGEST` only, in 200 draws of each."""
LARGEST = 150
_NUMBER = re.compile(r"\d+(?:[.,/]\d+)*")


def training_problem(seed: int, place: int) -> Problem | None:
    """Problem `place` of a training run; None where the draw is not of the family."""
    return _drawn(f"training {seed}", place)


def held_out_problems(n: int, first: int = 0) -> list[Problem]:
    """n problems, from number `first` on, of which no two have the same template and numbers."""
    found: dict[tuple[str, ...], Problem] = {}
    place = 0
    while len(found) < first + n:
        problem = _drawn("held out", place)
        if problem is not None:
            found.setdefault(numbers_of(problem), problem)
        place += 1
    return list(found.values())[first:]


def numbers_of(problem: Problem) -> tuple[str, ...]:
    """The template of a problem of the family and the numbers of its question: what holding out goes by."""
    return (problem.id.partition(CLUSTER)[2], *_NUMBER.findall(problem.question))


def texts_of_family(n: int) -> list[str]:
    """Questions and solutions of n draws, for a vocabulary."""
    drawn = (_drawn("vocabulary", place) for place in range(n))
    return [f"{problem.question} {problem.solution}" for problem in drawn if problem is not None]


def _drawn(purpose: str, place: int) -> Problem | None:
    stream = Random(f"{purpose} {place}")
    template = stream.choice(TEMPLATES)
    entry = _generators()[template](stream, 1.0)
    solution = entry["metadata"]["answer_cot"].strip()
    if not _small(_NUMBER.findall(f"{entry['question']} {solution}")):
        return None
    identity = f"family-{purpose.replace(' ', '-')}-{place:07d}{CLUSTER}{template}"
    return Problem(identity, entry["question"].strip(), solution, solution.rpartition("####")[2].strip())


def _small(numbers: Sequence[str]) -> bool:
    return all(number.isdecimal() and int(number) <= LARGEST for number in numbers)


@cache
def _generators() -> dict[int, Callable[[Random, float], dict[str, Any]]]:
    with collector_paused():  # it imports all of its tasks
        from reasoning_gym.arithmetic import GSMSymbolicDataset, GSMSymbolicDatasetConfig

    return GSMSymbolicDataset(GSMSymbolicDatasetConfig(seed=0, size=1)).generators
