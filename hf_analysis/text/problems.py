"""Which problems are measured? Questions with worked solutions, checked before any model is loaded.

A source is `builtin` (reasoning-gym's GSM-symbolic, seeded, offline), a local .jsonl or .parquet file with
the columns `question` and `answer`, or a dataset of the Hugging Face hub such as `openai/gsm8k`. A solution
ends in `#### N`, as in GSM8K.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

from probes.base.lazy import collector_paused

MARKER = "####"
_NUMBER = r"[-+−]?\s*\$?\s*[-−]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?"
N_TEMPLATES = 85
"""Templates that built-in problems are drawn from."""
_SYMBOLIC_SUFFIX = " Give the result as your final answer. Do not include units."


@dataclass(frozen=True)
class Problem:
    id: str
    question: str
    solution: str  # as in the source, ending in "#### N"
    answer: str  # the final answer as a plain number: "70000", "-10", "2.5"


def load_problems(
    source: str, *, limit: int | None = None, seed: int = 0, split: str = "test", offline: bool = False
) -> list[Problem]:
    """The first `limit` problems of `source`; a malformed record is a ValueError with its file and line."""
    if limit is not None and limit < 1:
        raise ValueError(f"--limit {limit}: need at least one problem")
    path = Path(source)
    if source == "builtin":
        problems = _builtin(24 if limit is None else limit, seed)
    elif path.suffix == ".jsonl":
        problems = _from_records(islice(_jsonl(path), limit), path.stem)
    elif path.suffix == ".parquet":
        problems = _from_records(islice(_parquet(path), limit), path.stem)
    elif path.exists():
        raise ValueError(f"--data {source}: expected a .jsonl or .parquet file with question and answer")
    else:
        problems = _from_records(islice(_hub(source, split, offline), limit), source.replace("/", "_"))
    if not problems:
        raise ValueError(f"--data {source}: holds no problem")
    return problems


@cache
def template_of(problem_id: str) -> str:
    """What a problem shares with others: the template of a built-in one; any other problem is alone, with its id.

    Problems of one template differ in names and numbers only, so they are one cluster. The generator draws all
    templates first, from its seed; the seed and the place in its sequence stand in the id.
    """
    found = re.fullmatch(r"gsm-symbolic-(-?\d+)-(\d{5,7})", problem_id, flags=re.ASCII)
    if found is None or int(found[2]) == 0:
        return problem_id
    seed, place = int(found[1]), int(found[2])
    return f"template {_templates(seed, 1000 * -(-place // 1000))[place - 1]}"


@cache
def _templates(seed: int, n: int) -> list[int]:
    """The templates of the first n built-in problems, as reasoning-gym draws them."""
    return Random(seed).choices(range(N_TEMPLATES), k=n)


def final_answer(solution: str) -> str:
    """The number after the last `####`: thousands separators, currency and a final full stop removed."""
    if MARKER not in solution:
        raise ValueError(f"the answer has no final '{MARKER} N'")
    text = solution.rsplit(MARKER, 1)[1].strip()
    number = plain_number(text)
    if number is None:
        raise ValueError(f"the text after '{MARKER}' is {text[:40]!r}, expected a number")
    return number


def plain_number(text: str) -> str | None:
    """`text` as a plain number ("$70,000." is "70000"), or None if it is not one number."""
    text = re.sub(r"[.\s%]+$", "", text.strip())
    if not re.search(r"\d", text) or not re.fullmatch(_NUMBER, text, flags=re.ASCII):
        return None
    if sum(text.count(sign) for sign in "-−+") > 1:
        return None
    negative = "-" in text or "−" in text
    digits = re.sub(r"[^\d.]", "", text, flags=re.ASCII)
    return ("-" if negative else "") + ("0" if digits.startswith(".") else "") + digits


def stated_answer(text: str) -> str | None:
    """The final answer of a free text: after its last `####` or "answer is", else its last number."""
    for marker in (MARKER, "answer is", "answer:"):
        if marker in text.lower():
            after = text[text.lower().rindex(marker) + len(marker) :]
            numbers = _numbers(after)
            if numbers:
                return numbers[0]
    numbers = _numbers(text)
    return numbers[-1] if numbers else None


def same_number(first: str, second: str) -> bool:
    """Whether two plain numbers are equal: "2.50" and "2.5" are."""
    return Decimal(first) == Decimal(second)


def without_annotations(solution: str) -> str:
    """`solution` without GSM8K's calculator annotations `<<...>>`."""
    return re.sub(r"<<[^<>]*>>", "", solution)


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


def _numbers(text: str) -> list[str]:
    """Every number in `text`, in order. A minus is a sign only where no digit or word stands before it."""
    found = re.findall(r"(?<![\w.)])[-−]?\$?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?", text, flags=re.ASCII)
    plain = [plain_number(number) for number in found]
    return [number for number in plain if number is not None]


def _from_records(records: Iterable[tuple[str, Any]], stem: str) -> list[Problem]:
    problems: dict[str, Problem] = {}
    for n, (place, record) in enumerate(records, start=1):
        problem = _problem(place, record, f"{stem}-{n:05d}")
        if problem.id in problems:
            raise ValueError(f"{place}: the id {problem.id!r} occurs twice; ids must be unique")
        problems[problem.id] = problem
    return list(problems.values())


def _problem(place: str, record: Any, default_id: str) -> Problem:
    if not isinstance(record, dict):
        raise ValueError(f"{place}: expected an object with question and answer, got {type(record).__name__}")
    for name in ("question", "answer"):
        text = record.get(name)
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{place}: {name!r} must be a text that is not empty, got {str(text)[:40]!r}")
        _require_unicode(place, name, text)
    try:
        answer = final_answer(record["answer"])
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
    identity = default_id if record.get("id") is None else str(record["id"])
    _require_unicode(place, "id", identity)
    return Problem(identity, record["question"], record["answer"], answer)


def _require_unicode(place: str, name: str, text: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError(f"{place}: {name!r} holds a lone surrogate, which is not valid Unicode text")


def _jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    if not path.is_file():
        raise ValueError(f"--data {path}: no such file")
    with path.open("rb") as lines:
        for n, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                yield f"{path}, line {n}", json.loads(line.decode("utf-8-sig" if n == 1 else "utf-8"))
            except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
                raise ValueError(f"{path}, line {n}: not a JSON object in UTF-8 ({error})") from None


def _parquet(path: Path) -> Iterator[tuple[str, Any]]:
    import pyarrow.parquet as pq

    if not path.is_file():
        raise ValueError(f"--data {path}: no such file")
    try:
        records = pq.read_table(path).to_pylist()
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise ValueError(f"{path}: not a readable Parquet file ({error})") from None
    for n, record in enumerate(records, start=1):
        yield f"{path}, row {n}", record


def _hub(name: str, split: str, offline: bool) -> Iterator[tuple[str, Any]]:
    import datasets
    import huggingface_hub.constants

    configuration = "main" if name.endswith("gsm8k") else None
    download = datasets.DownloadConfig(local_files_only=offline)
    if offline:  # local_files_only alone still asks the hub whether the dataset has changed
        huggingface_hub.constants.HF_HUB_OFFLINE = True
        datasets.config.HF_HUB_OFFLINE = True
    try:
        records = datasets.load_dataset(name, configuration, split=split, download_config=download)
    except Exception as error:  # the library raises many kinds for one fact: the dataset is not to be had
        raise ValueError(
            f"--data {name}: neither a file nor a dataset of the hub that can be loaded "
            f"({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}); "
            "pass a .jsonl or .parquet file, or 'builtin'"
        ) from None
    for n, record in enumerate(records, start=1):
        yield f"{name} [{split}], record {n}", record


def _builtin(n: int, seed: int) -> list[Problem]:
    with collector_paused():  # it imports all of its tasks
        import reasoning_gym

    dataset = reasoning_gym.create_dataset("gsm_symbolic", size=n, seed=seed)
    records = (
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
    return _from_records(records, "builtin")
