"""Which word problems can a small model learn in minutes? Stories of gains and losses, with small numbers.

Someone has some things, and one or two events follow; the solution has a line for each. The stream of training
problem i depends on the seed and on i alone, so that a run can go on anywhere. Held-out problems are held out by
their solution: no training problem has the same numbers gained and lost in the same order, whatever its words are.
"""

from random import Random

from hf_analysis.text.problems import Problem

LARGEST, MOST_AT_ONCE, MOST_EVENTS = 20, 6, 2
"""No number exceeds the first, no event gains or loses more than the second."""
MOST_AT_FIRST = 12
NAMES = (
    "Ann", "Ben", "Cora", "Dan", "Eva", "Finn", "Gina", "Hugo", "Ida", "Jack", "Kira", "Leo", "Mia", "Nils", "Olga",
    "Paul",
)  # fmt: skip
THINGS = ("apples", "books", "coins", "pens", "stamps", "shells", "cards", "marbles")
VERBS = {"+": ("buys", "finds", "gets", "wins"), "-": ("loses", "sells", "drops", "spends")}


def training_problem(seed: int, place: int) -> Problem:
    """Problem `place` of a training run."""
    return _drawn(f"training {seed}", place)


def held_out_problems(n: int, first: int = 0) -> list[Problem]:
    """n problems of two events, from number `first` on, of which no two have the same solution.

    Those of one event are single additions, too few to hold many out.
    """
    found: dict[str, Problem] = {}
    place = 0
    while len(found) < first + n:
        problem = _drawn("held out", place)
        if problem.solution.count("=") == MOST_EVENTS:
            found.setdefault(problem.solution, problem)
        place += 1
    return list(found.values())[first:]


def texts_of_family(n: int) -> list[str]:
    """Questions and solutions of n draws, for a vocabulary."""
    drawn = (_drawn("vocabulary", place) for place in range(n))
    return [f"{problem.question} {problem.solution}" for problem in drawn]


def _drawn(purpose: str, place: int) -> Problem:
    stream = Random(f"{purpose} {place}")
    name, things, has = stream.choice(NAMES), stream.choice(THINGS), stream.randint(1, MOST_AT_FIRST)
    story, steps = [f"{name} has {has} {things}."], []
    for _ in range(stream.randint(1, MOST_EVENTS)):
        sign, change, then = _event(stream, has)
        story.append(f"{name} {stream.choice(VERBS[sign])} {change}.")
        steps.append(f"{has} {sign} {change} = {then}.")
        has = then
    question = " ".join([*story, f"How many {things} does {name} have?"])
    identity = f"family-{purpose.replace(' ', '-')}-{place:07d}"
    return Problem(identity, question, "\n".join([*steps, f"#### {has}"]), str(has))


def _event(stream: Random, has: int) -> tuple[str, int, int]:
    """A sign, a number and what there is then, which is neither negative nor large."""
    while True:
        sign, change = stream.choice("+-"), stream.randint(1, MOST_AT_ONCE)
        then = has + change if sign == "+" else has - change
        if 0 <= then <= LARGEST:
            return sign, change, then
