"""How does a small model read? A tokenizer of whole words, whole numbers and marks, made from the family's texts."""

import re
from functools import cache
from typing import TYPE_CHECKING

from hf_analysis.scratch.family import LARGEST, texts_of_family

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

PAD, UNKNOWN, START, END = SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
"""Tokens 0 to 3."""
DRAWS = 2_000
"""Problems whose words are known; the tests meet no other word in further problems."""
_CLOSING = ("The", "answer", "is", ".", "####", *map(str, range(LARGEST + 1)))
_PIECES = r"\d+|\w+|[^\w\s]"


@cache
def words() -> tuple[str, ...]:
    """Every word, number and mark of the family, sorted, after the special tokens."""
    found = {piece for text in texts_of_family(DRAWS) for piece in re.findall(_PIECES, text)}
    return (*SPECIAL, *sorted(found | set(_CLOSING)))


def family_tokenizer() -> "PreTrainedTokenizerFast":
    """A tokenizer of `words`, which puts START first; what it decodes has a space between any two tokens."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    known = {word: token for token, word in enumerate(words())}
    tokenizer = Tokenizer(models.WordLevel(known, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(rf"####|{_PIECES}"), "removed", invert=True)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{START} $A", special_tokens=[(START, known[START])]
    )
    special = {"bos_token": START, "unk_token": UNKNOWN, "pad_token": PAD, "eos_token": END}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
