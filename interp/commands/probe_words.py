"""What do the columns and names in the tables of `cotlens probe` and `cotlens heads` mean? A line for each."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

PROBE = {
    "accuracy": {
        "chance": "the share of the most frequent answer, which a constant guess has; at chance nothing was learned",
    },
    "attention": {
        "steps served": "steps at which the head's largest weight is on a token that the step depends on, for more "
        "than half of the inputs",
        "mass on dependencies": "the step's attention on those tokens; its own token does not count as one",
        "entropy": "of the step's attention, divided by log(visible tokens): 1 is even, 0 is all on one token",
        "sink": "the step's attention on the first token",
    },
    "linear": {
        "place": "layer and hook point of the residual stream",
        "control": "the same probe, asked for labels drawn at random for each type of input (a few tokens up to that "
        "position); where it is as good as `accuracy`, the probe memorises, and its accuracy shows nothing",
        "untrained": "the same value, read from such a model with random weights: what the inputs alone give",
        "shuffled": "the value's labels exchanged between inputs: the floor, what a probe has by luck",
        "bits": "code length a label, from all inputs, by probes that learn as they go; log2(number of values), "
        "which is 1 for a bit, if nothing is decodable; less is better",
    },
    "knockouts": {
        "clean": "accuracy with nothing hidden, on the inputs of this table",
        "its keys hidden from it": "the tokens that the step depends on, without its own, hidden from it alone",
        "random keys hidden from it": "as many tokens that it does not depend on, hidden instead: the control",
        "lowest other step, its keys hidden everywhere": "the tokens that the step depends on, with the one at which "
        "it stands if that is one of them, hidden from all other positions: the accuracy of the other step that "
        "suffers most; if it stays high, only this step needs them",
    },
    "effects": {
        "knockout": "the tokens that each step depends on are hidden from it, in this head alone",
        "mean": "the head's output is replaced by its mean over inputs, at each position",
        "resample": "the head's output is replaced by that for another input",
        "patch": "the head's output is replaced by that for the same input with one token changed, on which the step "
        "depends",
        "edge": "of that changed input only what flows from the changed token to this step through the head",
        "step": "where the head's effect is largest; `interval` is 95% over inputs, `p` of no effect, adjusted over "
        "all heads and steps of one edit",
    },
}
"""Of each table its columns, or in the last one the names of the edits."""
HEADS = {
    "previous_token": "attention on the token before",
    "duplicate_token": "attention on earlier occurrences of the same token",
    "induction": "attention on the tokens right behind those occurrences",
    "sink": "attention on the first token",
    "copy_from_question": "where the solution repeats a number of the question: attention on that number minus "
    "that on the question's others",
}
TEXTS = {
    "cot_clean": "question and worked solution",
    "repeated": "the tokens of that text in random order, twice: nothing but repetition to go by",
}


def probe_legend(name: str, lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The legend under one of the summary's tables: a line for each column, or edit, that `lines` have."""
    shown = {*lines[0], *(line["edit"] for line in lines if "edit" in line)} if lines else set()
    return [f"{term}: {what}" for term, what in PROBE[name].items() if term in shown]


def heads_legend(found: Iterable[Mapping[str, Any]]) -> list[str]:
    """The legend under the heads by kind: the kinds, texts and columns of the printed records."""
    records = list(found)
    kinds, texts = ({record[column] for record in records} for column in ("kind", "text"))
    said = {name: what for name, what in (HEADS | TEXTS).items() if name in kinds | texts}
    if records:
        said["chance"] = "the score of a head that attends alike to all it sees; 0 for copying"
    if any(record["clear_heads"] is not None for record in records):
        said["clear heads"] = "how many heads copy more than by chance, p < 0.05 over all heads together"
    return [f"{term}: {what}" for term, what in said.items()]
