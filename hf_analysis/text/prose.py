"""What is fluent and no reasoning? A story in the public domain: "In the Year 2889" by Michel and Jules Verne (1889).

reasoning-gym ships it for tasks of its own; the frame that Project Gutenberg puts around it is left out.
"""

import random
import re
from functools import cache
from importlib import resources

from hf_analysis.models.loading import LoadedModel

FILE = ("reasoning_gym.data", "in_the_year_2889.txt")
_FIRST, _LAST = "Little though they seem", "End of Project Gutenberg's"


@cache
def story() -> str:
    """The story as one paragraph."""
    text = resources.files(FILE[0]).joinpath(FILE[1]).read_text(encoding="utf-8")
    if _FIRST not in text or _LAST not in text:
        raise ValueError(
            f"{'/'.join(FILE)} is not the story that was expected; install reasoning-gym 0.1.20 or newer"
        )
    return " ".join(text[text.index(_FIRST) : text.index(_LAST)].replace("_", "").split()).removesuffix(
        " Jules Verne."
    )


@cache
def sentence_starts() -> tuple[int, ...]:
    """Where a sentence of the story begins."""
    return (0, *(found.end() for found in re.finditer(r"(?<=[a-z]{2}[.!?]) (?=[A-Z])", story())))


def prose_tokens(model: LoadedModel, question: str, n: int, generator: random.Random) -> list[int]:
    """n tokens of the story as they are read after `question`, from the start of a random sentence on.

    Behind its end the story begins again.
    """
    start = generator.choice(sentence_starts())
    text, before = story()[start:], len(model.encode(question))
    characters = 8 * n + 100  # English has about four to a token
    while True:
        while len(text) < characters:
            text += " " + story()
        tokens = model.encode(f"{question} {text[:characters]}")[before:]
        if len(tokens) > n:  # the very last token may be half a word
            return tokens[:n]
        characters *= 2
