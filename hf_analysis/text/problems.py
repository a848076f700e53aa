"""Which problems are measured? Questions with worked solutions, checked before any model is loaded.

A source is `builtin` (reasoning-gym's GSM-symbolic, seeded, offline), a file or a dataset of the Hugging Face hub
(`sources` reads them, `columns` finds question, solution and answer in a record, `answers` the final answer).
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from hf_analysis.text.answers import MARKER
from hf_analysis.text.columns import Columns, parts_of
from hf_analysis.text.sources import Records, records
from probes.base.lazy import collector_paused

N_TEMPLATES = 85
"""Templates that built-in problems are drawn from."""
MOST = 100_000
"""Built-in problems that are made at most: more would take minutes, and say nothing new of so few templates."""
CLUSTER = " cluster="
"""Between the id of a problem and the name of its cluster, so that rows alone tell which problems belong together."""
COPY = " copy="
"""Between the id of a repeated problem and the id of the first one with its question and solution."""
_SYMBOLIC_SUFFIX = " Give the result as your final answer. Do not include units."


@dataclass(frozen=True)
class Problem:
    id: str
    question: str
    solution: str  # as in the source; GSM8K's end in "#### N"; empty where the source has none
    answer: str  # the final answer in plain form: "70000", "-10", "2.5", "5/2", "B", "Paris"


def load_problems(
    source: str,
    *,
    limit: int | None = None,
    seed: int = 0,
    split: str = "test",
    offline: bool = False,
    question: str | None = None,
    answer: str | None = None,
    solution: str | None = None,
    cluster: str | None = None,
) -> list[Problem]:
    """The first `limit` problems of `source`; a malformed record is a ValueError with its file and line.

    `question`, `answer` and `solution` name columns where they do not have usual names (`columns`). `cluster` names a
    column whose values group the problems: intervals are then over groups. A repeated question and solution is one
    unit with the first, whatever its own id and group; its id says so (`COPY`).
    """
    if limit is not None and limit < 1:
        raise ValueError(f"--limit {limit}: need at least one problem")
    columns = Columns(question, answer, solution, cluster)
    if source == "builtin":
        if columns != Columns():
            raise ValueError("built-in problems have no columns to name; columns are named for --data FILE")
        return _builtin(24 if limit is None else limit, seed)
    path = Path(source)
    stem = path.stem if path.is_file() else source.replace("/", "_")
    problems = _from_records(islice(records(source, split, offline), limit), stem, columns)
    if not problems:
        raise ValueError(f"--data {source}: holds no problem")
    return problems


@cache
def template_of(problem_id: str) -> str:
    """What a problem shares with others: the template of a built-in one, or the cluster that its id names; a copy
    belongs to the problem it repeats; any other problem is alone, with its id.

    Problems of one template differ in names and numbers only, so they are one cluster. The generator draws all
    templates first, from its seed; the seed and the place in its sequence stand in the id.
    """
    if COPY in problem_id.partition(CLUSTER)[0]:
        return template_of(problem_id.partition(COPY)[2])
    if CLUSTER in problem_id:
        return f"cluster {problem_id.partition(CLUSTER)[2]}"
    found = re.fullmatch(r"gsm-symbolic-(-?\d+)-(\d{5,7})", problem_id, flags=re.ASCII)
    if found is None or int(found[2]) == 0:
        return problem_id
    seed, place = int(found[1]), int(found[2])
    return f"template {_templates(seed, 1000 * -(-place // 1000))[place - 1]}"


@cache
def _templates(seed: int, n: int) -> list[int]:
    """The templates of the first n built-in problems, as reasoning-gym draws them."""
    return Random(seed).choices(range(N_TEMPLATES), k=n)


def paper_answer(solution: str) -> str:
    """The final answer as wen2024's published script reads it: the digits at the very end, and nothing else.

    "#### 2,125" gives "125" and "#### -10" gives "10"; `paper_quirks` counts how often.
    """
    digits = re.search(r"\d+$", solution.strip(), flags=re.ASCII)
    if digits is None:
        raise ValueError("the paper's script needs a solution that ends in a digit")
    return digits.group()


def paper_quirks(problems: Iterable[Problem]) -> dict[str, int]:
    """How many problems each known defect of the published script touches."""
    counts = {
        "problems": 0,
        "answer_truncated_by_trailing_digits": 0,
        "cot_keeps_calculator_annotations": 0,
        "cot_ends_in_marker_not_in_sentence": 0,
    }
    for problem in problems:
        counts["problems"] += 1
        counts["answer_truncated_by_trailing_digits"] += paper_answer(problem.solution) != problem.answer
        counts["cot_keeps_calculator_annotations"] += "<<" in problem.solution
        counts["cot_ends_in_marker_not_in_sentence"] += MARKER in problem.solution
    return counts


def _from_records(found: Records, stem: str, columns: Columns) -> list[Problem]:
    problems: dict[str, Problem] = {}
    first: dict[tuple[str, str], str] = {}  # by question and solution: the id of the first problem with them
    for n, (place, record) in enumerate(found, start=1):
        try:
            problem = _problem(record, f"{stem}-{n:05d}", columns)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        if problem.id in problems:
            raise ValueError(f"{place}: the id {problem.id!r} occurs twice; ids must be unique")
        original = first.setdefault((problem.question, problem.solution), problem.id)
        copied = template_of(original) != template_of(problem.id)  # else they are of one cluster already
        identity = f"{problem.id.partition(CLUSTER)[0]}{COPY}{original}" if copied else problem.id
        problems[problem.id] = replace(problem, id=identity)
    return list(problems.values())


def _problem(record: Any, default_id: str, columns: Columns) -> Problem:
    parts = parts_of(record, columns)
    identity = given_id(record, default_id)
    for mark in (CLUSTER, COPY):
        if mark in identity:
            raise ValueError(f"the id {identity!r} holds {mark!r}, which marks clusters and copies; use other ids")
    if parts.cluster is not None:
        require_readable(parts.cluster, columns.cluster or "cluster")
        identity += CLUSTER + parts.cluster
    return Problem(identity, parts.question, parts.solution, parts.answer)


def given_id(record: Mapping[str, Any], default: str) -> str:
    """The id that a record has, or else the default; a ValueError if it is none that can be printed in one line."""
    given = record.get("id")
    if not isinstance(given, str | int | float | None):
        raise ValueError(f"'id' must be a text or a number, got {type(given).__name__}")
    empty = given is None or given != given or not str(given).strip()  # a cell that is empty: NaN, or no text
    identity = default if empty else str(given)
    require_readable(identity, "id")
    return identity


def require_readable(name: str, column: str) -> None:
    """A ValueError unless an id can be printed in one line: it names rows, files and lines of progress."""
    for character in name:
        if unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp"):
            what = "a lone surrogate, which is not valid Unicode text"
            if unicodedata.category(character) != "Cs":
                what = f"the control character U+{ord(character):04X}; use ids that can be printed in one line"
            raise ValueError(f"{column!r} holds {what}")


def _builtin(n: int, seed: int) -> list[Problem]:
    if n > MOST:
        raise ValueError(f"--limit {n}: at most {MOST} built-in problems are made")
    with collector_paused():  # it imports all of its tasks
        import reasoning_gym

    dataset = reasoning_gym.create_dataset("gsm_symbolic", size=n, seed=seed)
    made = (
        (
            f"builtin (seed {seed}), problem {i}",
            {
                "id": f"gsm-symbolic-{seed}-{i:05d}",
                "question": entry["question"].removesuffix(_SYMBOLIC_SUFFIX),
                "answer": entry["metadata"]["answer_cot"],
            },
        )
        for i, entry in enumerate(dataset, start=1)
    )
    return _from_records(made, "builtin", Columns())
