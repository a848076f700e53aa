"""How does the attention of every head change between conditions? The measurement itself.

Problems -> passages -> packed rows -> one forward pass -> row statistics -> rows of the table. Every finished
problem is on disk before the next begins; `store` says where. `Measurer` has a model and computes,
`collect` has the directory and writes: on a cluster there are many of the first (`interp.core.ray_engine`).

On one machine and with one batch size, an interrupted and resumed measurement is bit-identical to an
uninterrupted one. At batch size 1, the default on a CPU, a problem's rows are bit-identical whatever the
order and number of problems. Another batch size, or unshared questions, change the shapes of the matrix
products and with them the last digits: at most 1e-5.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from hf_analysis.attention.passages import BatchedRecorder, Prepared, Tokenised, prepare, tokenised
from hf_analysis.measurement.reductions import reduce_problem, token_table
from hf_analysis.measurement.request import Request
from hf_analysis.measurement.store import Store, fingerprint
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.conditions import Context
from hf_analysis.text.problems import Problem

Progress = Callable[[int, int, str], None]


@dataclass(frozen=True)
class Measured:
    """One finished problem."""

    problem: Problem
    rows: pd.DataFrame
    facts: dict[str, Any]
    tokens: pd.DataFrame | None


class Measurer:
    """A model that measures groups of problems of one request."""

    def __init__(
        self, model: LoadedModel, request: Request, run: str | None = None, author: LoadedModel | None = None
    ) -> None:
        """`author` writes what is generated, if it is not the model itself."""
        self.model, self.request = model, request
        self.run = model.name if run is None else run
        self.context = Context(request.problems, request.seed, author or model, request.paper_mode)
        self.size = request.batch_size or (8 if model.device.type == "cuda" else 1)
        self.recorder = BatchedRecorder(model, self.size, request.statistics)
        self._tokenised: dict[int, dict[str, Tokenised]] = {}  # until the problem is measured

    def begin(self, _: None = None) -> tuple[dict[str, Any], list[range]]:
        """What identifies the measurement, and its groups of problems; refuses a problem that cannot be measured."""
        request = self.request
        fixed = [name for name in request.conditions if name != "generated"]
        for i, problem in enumerate(request.problems if fixed else ()):
            self._tokenised[i] = tokenised(problem, fixed, self.context)
        n = len(request.problems)
        return fingerprint(self.model, self.run, request), [
            range(start, min(start + self.size, n)) for start in range(0, n, self.size)
        ]

    def measured(self, group: range) -> list[Measured]:
        """The problems of one group. Its composition decides last digits, so it is always computed whole."""
        request = self.request
        prepared = [self._prepared(i) for i in group]
        results = []
        for item, found in zip(prepared, self.recorder(prepared)):
            tokens = None
            if item.problem in request.kept:
                texts = [[self.model.decode([token]) for token in passage] for passage in item.ids]
                tokens = token_table(item.problem.id, found, texts)
            asked = (request.metrics, request.scopes, request.matched)
            reduced = reduce_problem(self.run, item.problem.id, found, *asked)
            facts = {**item.facts(), "paths": self.recorder.computations, "set_aside": list(reduced.set_aside)}
            results.append(Measured(item.problem, reduced.rows, facts, tokens))
        return results

    def _prepared(self, i: int) -> Prepared:
        problem, names = self.request.problems[i], self.request.conditions
        found = self._tokenised.pop(i, {})
        missing = [name for name in names if name not in found]
        if missing:
            found |= tokenised(problem, missing, self.context)
        return prepare(problem, {name: found[name] for name in names}, self.model, self.request.share)


def measure(
    model: LoadedModel,
    problems: Sequence[Problem],
    conditions: Sequence[str],
    out: Path,
    *,
    seed: int = 0,
    batch_size: int | None = None,
    keep_tokens: int = 0,
    resume: bool = False,
    paper_mode: bool = False,
    share: bool = True,
    metrics: Sequence[str] | None = None,
    scopes: Sequence[str] | None = None,
    pairs: Sequence[tuple[str, str]] | None = None,
    run: str | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The rows of `problems` under `conditions`, in the order of `problems`, also written to `out`.

    `batch_size` counts problems (default: 1 on a CPU, 8 on a GPU, halved when memory runs out); `share=False`
    computes every passage on its own. `metrics` are names of `probes.attention.statistics` (default: its
    DEFAULT_METRICS), `scopes` those of `hf_analysis.text.scopes` (default: its DEFAULT_SCOPES). What depends on a
    pair of conditions is computed for all pairs, or for those in `pairs`, in no order.
    `progress(done, total, problem_id)` is called after every problem.
    `run` names the run in the table (default: the model's name).
    """
    request = Request(problems, conditions, seed, keep_tokens, paper_mode, share, batch_size, metrics, scopes, pairs)
    measurer = Measurer(model, request, run)
    identity, groups = measurer.begin()
    return collect(request, identity, groups, lambda missing: map(measurer.measured, missing), out, resume, progress)


def collect(
    request: Request,
    identity: dict[str, Any],
    groups: Sequence[range],
    measured: Callable[[Sequence[range]], Iterable[list[Measured]]],
    out: Path,
    resume: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Writes what `measured` finds of the groups that `out` does not have yet, in whatever order; the merged rows."""
    store = Store(out, request)
    store.open(identity, resume)
    missing = [group for group in groups if not all(store.has(request.problems[i]) for i in group)]
    for found in measured(missing):
        for one in found:
            if store.has(one.problem):
                continue
            if one.tokens is not None:
                store.write_tokens(one.problem, one.tokens)
            store.write(one.problem, one.rows, one.facts)
            if progress is not None:
                progress(store.n_done, len(request.problems), one.problem.id)
    return store.finish()
