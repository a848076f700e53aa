"""How does the attention of every head change between conditions? The measurement itself.

Problems -> passages -> packed rows -> one forward pass -> row statistics -> rows of the table. Every finished
problem is on disk before the next begins; `store` says where. `Measurer` has a model and computes,
`collect` has the directory and writes: on a cluster there are many of the first (`interp.core.ray_engine`).

On one machine and with one batch size, an interrupted and resumed measurement is bit-identical to an
uninterrupted one. At batch size 1, the default on a CPU, a problem's rows are bit-identical whatever the
order and number of problems, unless the model writes a text itself: it writes those of 16 problems at once, and
tokens whose logits agree to rounding may depend on which. Another batch size, or unshared questions, change the
shapes of the matrix products and with them the last digits: at most 1e-5.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from hf_analysis.attention.passages import BatchedRecorder, Prepared, Tokenised, prepare, tokenised
from hf_analysis.attention.recorder import require_measurable
from hf_analysis.measurement.kept_tokens import token_table
from hf_analysis.measurement.reductions import PassageRows, reduce_problem
from hf_analysis.measurement.request import Request
from hf_analysis.measurement.samples import averaged, keyed, views
from hf_analysis.measurement.store import Store, fingerprint
from hf_analysis.models.generation import BATCH, Decoding
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.chat import in_chat
from hf_analysis.text.conditions import Context
from hf_analysis.text.own import own_texts
from hf_analysis.text.problems import Problem
from probes import rows

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
        author = author or model
        self.problems = in_chat(author, request.problems, request.thinking) if request.chat else request.problems
        self.context = Context(self.problems, request.seed, author, request.paper_mode, request.decoding)
        if request.chat:
            self.context = replace(self.context, cue="")
        self.size = request.batch_size or (8 if model.device.type == "cuda" else 1)
        self.recorder = BatchedRecorder(model, self.size, request.statistics, request.check)
        self._tokenised: dict[int, dict[str, Tokenised]] = {}  # until the problem is measured

    def begin(self, _: None = None) -> tuple[dict[str, Any], list[range]]:
        """What identifies the measurement, and its groups of problems; refuses a problem that cannot be measured."""
        if self.request.own:  # texts would be written before the first pass that refuses the model
            require_measurable(self.model)
        fixed = [name for name in self.request.conditions if name not in self.request.own]
        for i, problem in enumerate(self.problems if fixed else ()):
            self._tokenised[i] = tokenised(problem, fixed, self.context)
        n, size = len(self.problems), self.size
        if self.request.own:  # the problems whose texts are written at once, and several of those measured at once
            size *= max(1, BATCH // self.request.decoding.samples // size)
        identity = fingerprint(self.model, self.run, self.request)
        identity |= {"metrics": list(self.request.metrics), "batch_size": self.size}  # which decides last digits
        return identity, [range(start, min(start + size, n)) for start in range(0, n, size)]

    def measured(self, group: range) -> list[Measured]:
        """The problems of one group. Its composition decides last digits, so it is always computed whole."""
        return list(self.measuring(group))

    def measuring(self, group: range) -> Iterator[Measured]:
        """The same, one by one: each may be written before the next begins."""
        request, own = self.request, self.context.own
        if request.own:
            asked = [self.problems[i] for i in group]
            own.update(own_texts(self.context.model, asked, request.decoding, request.seed, self.context.cue))
        for start in range(group.start, group.stop, self.size):
            part = range(start, min(start + self.size, group.stop))
            found = [self._prepared(i) for i in part]
            recorded = iter(self.recorder([one for one in found if one is not None]))
            for i, item in zip(part, found):
                yield self._reduced(request.problems[i], item, [] if item is None else next(recorded))
        own.clear()

    def _reduced(self, problem: Problem, item: Prepared | None, found: Sequence[PassageRows]) -> Measured:
        """The rows of one problem; `item` is None if it was set aside under every condition."""
        request = self.request
        facts = {"forwarded_tokens": 0, "unshared_tokens": 0, "layout": "no text", "paths": []}
        if item is not None:
            facts = {**item.facts(), "paths": self.recorder.computations}
        present = () if item is None else tuple(map(keyed, item.conditions))
        facts["left_out"] = [name for name in request.conditions if name not in present]
        if request.own:
            facts["generated"] = [text.record() for text in self.context.own[problem.id]]
        if item is None:
            return Measured(problem, rows.concat([]), facts, None)
        tokens = None
        if problem in request.kept:
            first = views(found)[0]
            texts = [[self.model.decode([token]) for token in passage.ids] for passage in first]
            tokens = token_table(self.run, problem.id, first, texts)
        asked = (request.metrics, request.scopes, request.matched)
        reduced = averaged([reduce_problem(self.run, problem.id, view, *asked) for view in views(found)])
        facts["set_aside"] = sorted(reduced.set_aside)
        return Measured(problem, reduced.rows, facts, tokens)

    def _prepared(self, i: int) -> Prepared | None:
        problem, request = self.problems[i], self.request
        found = self._tokenised.pop(i, {})
        missing = [name for name in request.conditions if name not in found]
        if missing:
            found |= tokenised(problem, missing, self.context)
        found = {name: found[name] for name in request.conditions if name in found}
        for sample in range(1, request.decoding.samples if request.own else 1):
            more = tokenised(problem, request.own, replace(self.context, sample=sample))
            found |= {keyed(name, sample): one for name, one in more.items()}
        return prepare(problem, found, self.model, request.share) if found else None


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
    decoding: Decoding | None = None,
    chat: bool = False,
    thinking: bool | None = None,
    run: str | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The rows of `problems` under `conditions`, in the order of `problems`, also written to `out`.

    `batch_size` counts problems (default: 1 on a CPU, 8 on a GPU, halved when memory runs out); `share=False`
    computes every passage on its own. `metrics` are names of `probes.attention.statistics` (default: its
    DEFAULT_METRICS), `scopes` those of `hf_analysis.text.scopes` (default: its DEFAULT_SCOPES). What depends on a
    pair of conditions is computed for all pairs, or for those in `pairs`, in no order.
    `progress(done, total, problem_id)` is called after every problem.
    `decoding` says how the model writes its own texts; with `chat`, every question is put to it by its chat template,
    whose switch `thinking` is. `run` names the run in the table (default: the model's name).
    """
    request = Request(
        problems, conditions, seed, keep_tokens, paper_mode, share, batch_size, metrics, scopes, pairs,
        decoding=decoding or Decoding(), chat=chat, thinking=thinking,
    )  # fmt: skip
    measurer = Measurer(model, request, run)
    identity, groups = measurer.begin()
    return collect(request, identity, groups, lambda missing: map(measurer.measuring, missing), out, resume, progress)


def collect(
    request: Request,
    identity: dict[str, Any],
    groups: Sequence[range],
    measured: Callable[[Sequence[range]], Iterable[Iterable[Measured]]],
    out: Path,
    resume: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Writes what `measured` finds of the groups that `out` does not have yet, in whatever order; the merged rows."""
    return collected(request, identity, groups, measured, out, resume, progress).finish()


def collected(
    request: Request,
    identity: dict[str, Any],
    groups: Sequence[range],
    measured: Callable[[Sequence[range]], Iterable[Iterable[Measured]]],
    out: Path,
    resume: bool = False,
    progress: Progress | None = None,
) -> Store:
    """The store with all problems in it, for `finish` or `finish_parts`."""
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
    return store
