"""What are adapters trained on? Problems that are not held out, and passages of prose that are no problem at all."""

from collections.abc import Iterator, Sequence

from hf_analysis.text.problems import Problem, load_problems
from hf_analysis.text.prose import sentence_starts, story

TRAINING_SEED = 1_000_000
"""reasoning-gym makes problem i of seed s from s + i: neighbouring seeds share problems, far ones do not."""
WORDS = 100
"""A passage of prose ends with the sentence that reaches so many words: about as long as a solved problem."""
MOST_PASSAGES = 10_000
"""So many passages of a dataset are read: more than a million tokens."""
HELD_OUT = 0.15
"""The last part of a text is held out."""


def training_problems(data: str, n: int | None, held_out: Sequence[Problem]) -> list[Problem]:
    """The first `n` problems of `data` for training, without those that ask a question of `held_out`.

    Built-in problems are drawn with a seed far from any measurement's; a dataset of the hub gives its split `train`.
    """
    taken = {_key(problem) for problem in held_out}
    pool = load_problems(data, limit=n, seed=TRAINING_SEED, split="train")
    kept = [problem for problem in pool if _key(problem) not in taken]
    if not kept:
        raise ValueError(f"--data {data}: every problem is held out, none is left to train on; use more problems")
    return kept


def prose_passages(source: str = "builtin") -> tuple[list[Problem], list[Problem]]:
    """Passages of prose to train on, and the held-out ones, which come last in the text.

    `builtin` is a story in the public domain (`hf_analysis.text.prose`): 40 passages to train on and 7 held out. Any
    other source is a directory of text files, or a dataset of the hub with a column `text`. A passage has the form of
    a problem: its question is its first sentence, its solution the rest, so that the condition `cot` is the text.
    """
    texts = [story()[a:b] for a, b in _neighbours(sentence_starts(), len(story()))]
    found = list(_passages(texts if source == "builtin" else _dataset(source)))
    n = round((1 - HELD_OUT) * len(found))
    if not 0 < n < len(found):
        raise ValueError(
            f"prose {source}: {len(found)} passages of {WORDS} words; need some to train on and some more"
        )
    return found[:n], found[n:]


def _passages(sentences: Sequence[str] | Iterator[str]) -> Iterator[Problem]:
    taken: list[str] = []
    n = 0
    for sentence in sentences:
        taken.append(sentence.strip())
        if len(taken) > 1 and sum(len(one.split()) for one in taken) >= WORDS:
            n += 1
            yield Problem(f"prose-{n:05d}", taken[0], " ".join(taken[1:]), "")
            taken = []
        if n == MOST_PASSAGES:
            return


def _neighbours(starts: Sequence[int], end: int) -> Iterator[tuple[int, int]]:
    return zip(starts, (*starts[1:], end))


def _dataset(source: str) -> Iterator[str]:
    """The sentences of a dataset's texts, without headings and other short lines."""
    import datasets

    configuration = "wikitext-103-raw-v1" if source.endswith("/wikitext") else None
    try:
        records = datasets.load_dataset(source, configuration, split="train", streaming=True)
    except Exception as error:  # the library raises many kinds for one fact: the dataset is not to be had
        raise ValueError(
            f"prose {source}: neither a directory of text files nor a dataset of the hub that can be loaded "
            f"({type(error).__name__}); use 'builtin'"
        ) from None
    for record in records:
        if len(record["text"].split()) >= 20:
            yield from (f"{sentence}." for sentence in record["text"].strip().rstrip(".").split(". "))


def _key(problem: Problem) -> str:
    """What makes two problems the same: the question, whatever its spaces and capitals."""
    return " ".join(problem.question.lower().split())
