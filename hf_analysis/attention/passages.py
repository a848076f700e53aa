"""From a problem to the row statistics of its passages: tokens, packed rows, forward passes within memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from hf_analysis.attention.layers import listed
from hf_analysis.attention.layout import Row, batch, packing, rows_of
from hf_analysis.attention.recorder import Recording, record
from hf_analysis.measurement.reductions import PassageRows, passage_rows
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.conditions import Context, Passage, SetAside, check_length, find_condition, tokenise
from hf_analysis.text.problems import Problem
from hf_analysis.text.scopes import TokenCounts, ending_tokens
from probes.rows import setting


@dataclass(frozen=True)
class Prepared:
    """One problem as tokens, ready for the model; the tuples run over its conditions."""

    problem: Problem
    conditions: tuple[str, ...]
    passages: tuple[Passage, ...]
    ids: tuple[tuple[int, ...], ...]
    counts: tuple[TokenCounts, ...]
    rows: tuple[Row, ...]  # one packed row, or one per condition
    layout: str  # why

    def facts(self) -> dict[str, Any]:
        """How many tokens went through the model, and how many would have without sharing; what was read."""
        texts = zip(self.conditions, self.passages, self.counts)
        return {
            "forwarded_tokens": sum(len(row.ids) for row in self.rows),
            "unshared_tokens": sum(len(ids) for ids in self.ids),
            "layout": self.layout,
            "passages": [{"condition": c, **asdict(passage), "tokens_of": asdict(n)} for c, passage, n in texts],
        }


@dataclass(frozen=True)
class Tokenised:
    """One passage as tokens."""

    passage: Passage
    ids: tuple[int, ...]
    counts: TokenCounts


def tokenised(problem: Problem, conditions: Iterable[str], context: Context) -> dict[str, Tokenised]:
    """The passages of `problem` under `conditions`; refuses one that cannot be made or is too long for the model.

    A condition under which the problem is set aside is left out.
    """
    model = context.model
    found = {}
    try:
        for name in conditions:
            try:
                passage = find_condition(name)(problem, context)
            except SetAside:
                continue
            ids, n_question = tokenise(model, passage)
            n_ending = ending_tokens(model, passage, tuple(ids))
            found[name] = Tokenised(passage, tuple(ids), TokenCounts(len(ids), n_question, n_ending))
    except ValueError as error:
        raise ValueError(f"problem {problem.id}: {error}") from error
    check_length(problem, model, max((len(one.ids) for one in found.values()), default=0))
    return found


def prepare(problem: Problem, found: Mapping[str, Tokenised], model: LoadedModel, share: bool = True) -> Prepared:
    """The passages of `problem`, one for each condition, laid out as rows."""
    ids = tuple(one.ids for one in found.values())
    chosen, layout = rows_of(ids, share=False), "sharing was switched off"
    if share:
        whole = rows_of(ids, share=True)
        possible, layout = packing(model.model, len(whole[0].ids))
        chosen = whole if possible else chosen
    passages, counts = zip(*((one.passage, one.counts) for one in found.values()))
    return Prepared(problem, tuple(found), passages, ids, counts, tuple(chosen), layout)


class BatchedRecorder:
    """Records passages in forward passes of at most `n_rows` rows, halved for good whenever memory runs out."""

    def __init__(self, model: LoadedModel, n_rows: int, statistics: Sequence[str], check: bool = False) -> None:
        """`check`: the first forward pass is computed a second time, by slower computations; see `record`."""
        self.model, self.n_rows, self.statistics, self.check = model, n_rows, statistics, check
        self.computations: list[str] = []  # how the layers of the last group were measured, and why

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
        taken = {one for recording, _ in recorded for one in recording.computations}
        compared = {one for recording, _ in recorded for one in recording.differences.items()}
        self.computations = sorted([
            *map(str, taken), *(f"checked: within {difference:.1e} of {name}" for name, difference in compared)
        ])  # fmt: skip
        attending = {recording.layers for recording, _ in recorded if len(recording.layers) < self.model.n_layers}
        self.computations += [f"layers {listed(layers)} of {self.model.n_layers} attend" for layers in attending]
        result = []
        for item in group:
            mine, recorded = recorded[: len(item.rows)], recorded[len(item.rows) :]
            result.append(_passages(item, mine))
        return result

    def _record(self, part: Sequence[Row]) -> Recording:
        inputs = batch(part, pad=self.model.pad)
        options = {"position_ids": inputs.positions, "mask": inputs.mask, "statistics": self.statistics}
        recording = record(self.model.model, inputs.ids, check=self.check, **options)
        self.check = False
        return recording


def _passages(item: Prepared, recorded: Sequence[tuple[Recording, int]]) -> list[PassageRows]:
    """Cuts the passages of one problem out of the recordings of its rows."""
    result = []
    for i, (condition, passage) in enumerate(zip(item.conditions, item.passages)):
        row, branch = (0, i) if len(item.rows) == 1 else (i, 0)
        recording, place = recorded[row]
        where = item.rows[row].passage(branch)
        correct = "" if passage.correct is None else setting(correct=int(passage.correct))
        result.append(passage_rows(recording, place, where, condition, correct, item.ids[i], item.counts[i]))
    return result
