"""Which pair of conditions differs in what? `python -m hf_analysis.text.comparisons > docs/conditions.md`."""

import inspect
from dataclasses import dataclass

from hf_analysis.text.conditions import CONDITIONS


@dataclass(frozen=True)
class Pair:
    """Two conditions and what they differ in."""

    first: str
    second: str
    differs: str
    same_ending: bool
    """Whether both end in the same sentence, " The answer is N."."""
    length: str
    """The number of tokens before that sentence, or of all after the question where there is none."""


EQUAL, NEARLY, OWN = "equal", "nearly equal", "each its own"
PAIRS = (
    Pair(
        "cot_clean",
        "no_cot",
        "whether there is reasoning, and with it how much stands before the sentence",
        True,
        OWN,
    ),
    Pair(
        "cot_clean",
        "swapped_clean",
        "whose reasoning it is, this problem's or another's, and so whether N stands in it",
        True,
        OWN,
    ),
    Pair("cot_clean", "prose_clean", "what the text is: reasoning or a story", True, EQUAL),
    Pair("cot_clean", "shuffled_steps_clean", "the order of the lines", True, NEARLY),
    Pair("cot_clean", "shuffled_tokens_clean", "the order of the tokens", True, EQUAL),
    Pair("cot_clean", "filler_clean", "whether the tokens say anything", True, EQUAL),
    Pair("prose_clean", "filler_clean", "whether the tokens say anything, none of them being reasoning", True, EQUAL),
    Pair("cot_clean", "generated_clean", "who wrote the reasoning: the data set's author or the model", True, OWN),
    Pair("generated_clean", "no_cot", "whether there is reasoning, the model's own", True, OWN),
    Pair("cot", "cot_clean", "format: annotations, and `#### N` or a sentence", False, OWN),
    Pair("cot", "no_cot", "several things: reasoning, format and length (the paper's comparison)", False, OWN),
    Pair("cot", "swapped_cot", "whose solution it is, final answer included", False, OWN),
    Pair("cot", "shuffled_steps", "the order of the lines", False, NEARLY),
    Pair("cot", "shuffled_tokens", "the order of the tokens", False, EQUAL),
    Pair("cot", "filler", "whether the tokens say anything", False, EQUAL),
    Pair("cot", "generated", "who wrote it: the data set's author or the model", False, OWN),
)
ORDER = (
    *("cot", "cot_clean", "generated", "generated_clean"),
    *("shuffled_steps", "shuffled_steps_clean", "shuffled_tokens", "shuffled_tokens_clean"),
    *("swapped_cot", "swapped_clean", "prose_clean", "filler", "filler_clean", "no_cot"),
)
"""The conditions by how much of this problem's reasoning they keep, most first."""
_BEFORE = """# Conditions: what the model reads after the question

Made by `python -m hf_analysis.text.comparisons > docs/conditions.md`; a test compares it with the registry.

| condition | what follows the question |
|---|---|
"""
_BETWEEN = """
N is the gold answer in plain form: a number, a fraction, an option letter or a text.

## Which pair differs in what

| first | second | they differ in | same final sentence | tokens before it |
|---|---|---|---|---|
"""
_AFTER = """
- **First and second.** `cotlens entropy` reports first − second, in whatever order `--conditions` names them. Of two
  conditions that are not in the table, the one that keeps more of the reasoning is the first, and `no_cot` always
  the second. Where lower is sparser, below zero means that the first is sparser.
- **Same final sentence.** Both texts end in " The answer is N.", read as the same tokens wherever the tokenizer does
  not join it to what stands before; the scope `final` measures these tokens alone.
- **Equal** means exactly as many tokens: the control is made of tokens; a problem is set aside there, and counted, if
  the tokenizer joins the end of its question to the solution. **Nearly equal**: the same lines in another order,
  which a tokenizer may cut into a few tokens more or fewer. **Each its own**: another text has another length;
  compare at equal length or position with the scopes made for it.
- `cot_clean` leaves out a closing sentence of the solution itself that only states the answer, and so do the
  conditions made from it. What a reasoning line says stays, the answer included: the last step of most solutions
  computes it. In `swapped_clean` that is another problem's number.
- `<think>` and `</think>` stay in place in every condition that shuffles: the lines or tokens between them are
  shuffled among themselves, those outside among themselves.
- `prose_clean` takes its text from "In the Year 2889" by Michel and Jules Verne, from the start of a random sentence
  on, cut after the right number of tokens, which may be within a sentence.
- A problem without a worked solution can be measured under `no_cot`, `generated` and `generated_clean` only.
- What the model writes (`generated`, `generated_clean`) follows the question and the cue "Solution: Let's think
  step by step.", which counts as part of the answer, or, with `--chat`, the chat template's prompt, which then is
  the question of every condition. It is measured by teacher forcing, and with several samples a problem's rows are
  means over them. `generated_clean` is what it wrote up to the sentence that states its answer, right or wrong,
  tokenised anew with the gold sentence behind it. Texts that are empty, or hold nothing before an answer, are set
  aside and counted. In a chat the other texts still begin with a space, so that their closing sentence has the same
  tokens everywhere.
"""


def reasoning_rank(condition: str) -> int:
    """Where a condition stands in `ORDER`; one of a plug-in stands right before `no_cot`."""
    return ORDER.index(condition) * 2 if condition in ORDER else 2 * len(ORDER) - 3


def page() -> str:
    """The page as Markdown: every condition with the first line of its docstring, and every pair."""
    known = {name: one for name, one in CONDITIONS.items() if one.__module__.startswith("hf_analysis.")}
    conditions = (f"| `{name}` | {_first_line(one)} |" for name, one in sorted(known.items()))
    pairs = (
        f"| `{p.first}` | `{p.second}` | {p.differs} | {'yes' if p.same_ending else 'no'} | {p.length} |"
        for p in PAIRS
    )
    return _BEFORE + "\n".join(conditions) + "\n" + _BETWEEN + "\n".join(pairs) + "\n" + _AFTER


def _first_line(condition: object) -> str:
    return (inspect.getdoc(condition) or "").splitlines()[0]


if __name__ == "__main__":
    print(page(), end="")
