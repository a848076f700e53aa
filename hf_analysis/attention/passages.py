"""From a problem to the row statistics of its passages: tokens, packed rows, forward passes within memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hf_analysis.attention.layout import Row, batch, rows_of, sharing
from hf_analysis.attention.recorder import Recording, record
from hf_analysis.measurement.reductions import PassageRows, passage_rows
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.conditions import Context, Passage, find_condition, tokenise
from hf_analysis.text.problems import Problem
from probes.rows import setting


@dataclass(frozen=True)
class Prepared:
    """One problem as tokens, ready for the model; the tuples run over its conditions."""

    problem: Problem
    conditions: tuple[str, ...]
    passages: tuple[Passage, ...]
    ids: tuple[tuple[int, ...], ...]
    n_question: tuple[int, ...]
    rows: tuple[Row, ...]  # one packed row, or one per condition
    layout: str  # why

    def facts(self) -> dict[str, Any]:
        """How many tokens went through the model, and how many would have without sharing."""
        return {
            "forwarded_tokens": sum(len(row.ids) for row in self.rows),
            "unshared_tokens": sum(len(ids) for ids in self.ids),
            "layout": self.layout,
        }


def prepare(problem: Problem, conditions: Sequence[str], context: Context, share: bool = True) -> Prepared:
    """The passages of `problem` under `conditions`, as tokens and rows."""
    model = context.model
    try:
        passages = tuple(find_condition(name)(problem, context) for name in conditions)
        tokens = [tokenise(model, passage) for passage in passages]
    except ValueError as error:
        raise ValueError(f"problem {problem.id}: {error}") from error
    ids = tuple(tuple(passage) for passage, _ in tokens)
    check_length(problem, model, max(len(passage) for passage in ids))
    chosen, layout = rows_of(ids, share=False), "sharing was switched off"
    if share:
        whole = rows_of(ids, share=True)
        possible, layout = sharing(model.model.config.get_text_config(), len(whole[0].ids))
        chosen = whole if possible else chosen
    n_question = tuple(n for _, n in tokens)
    return Prepared(problem, tuple(conditions), passages, ids, n_question, tuple(chosen), layout)


def check_length(problem: Problem, model: LoadedModel, n_tokens: int) -> None:
    """Refuses a passage that is longer than the model's context."""
    if model.max_tokens is not None and n_tokens > model.max_tokens:
        raise ValueError(
            f"problem {problem.id}: a passage of {n_tokens} tokens, but {model.name} takes at most "
            f"{model.max_tokens}; leave the problem out or use a model with a longer context"
        )


class Forward:
    """Forward passes of at most `n_rows` rows, halved for good whenever memory runs out."""

    def __init__(self, model: LoadedModel, n_rows: int) -> None:
        self.model, self.n_rows = model, n_rows
        self.paths: list[str] = []  # how the layers of the last group were measured, and why

    def __call__(self, group: Sequence[Prepared]) -> list[list[PassageRows]]:
        """The row statistics of every passage of every problem in `group`."""
        rows = [row for item in group for row in item.rows]
        recorded: list[tuple[Recording, int]] = []  # for each row, its recording and its place in it
        while len(recorded) < len(rows):
            part = rows[len(recorded) : len(recorded) + self.n_rows]
            try:
                recording = self._record(part)
            except (torch.OutOfMemoryError, MemoryError) as error:
                if len(part) == 1:
                    raise ValueError(
                        f"a row of {len(part[0].ids)} tokens does not fit into memory; measure fewer "
                        "conditions at once, or use a smaller model or --dtype bfloat16"
                    ) from error
                self.n_rows = len(part) // 2
                continue
            recorded += [(recording, place) for place in range(len(part))]
        taken = {path for recording, _ in recorded for path in recording.paths}
        self.paths = sorted(f"{path.name}: {path.reason}" for path in taken)
        result = []
        for item in group:
            mine, recorded = recorded[: len(item.rows)], recorded[len(item.rows) :]
            result.append(_passages(item, mine))
        return result

    def _record(self, part: Sequence[Row]) -> Recording:
        inputs = batch(part, pad=self.model.pad)
        return record(self.model.model, inputs.ids, position_ids=inputs.positions, mask=inputs.mask)


def _passages(item: Prepared, recorded: Sequence[tuple[Recording, int]]) -> list[PassageRows]:
    """Cuts the passages of one problem out of the recordings of its rows."""
    result = []
    for i, (condition, passage) in enumerate(zip(item.conditions, item.passages)):
        row, branch = (0, i) if len(item.rows) == 1 else (i, 0)
        recording, place = recorded[row]
        where = item.rows[row].passage(branch)
        correct = "" if passage.correct is None else setting(correct=int(passage.correct))
        result.append(passage_rows(recording, place, where, condition, correct, item.ids[i], item.n_question[i]))
    return result
