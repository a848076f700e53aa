"""How does every head's normalised attention entropy change between conditions? The measurement itself.

Problems -> passages -> packed rows -> one forward pass -> row statistics -> rows of the table. Every finished
problem is on disk before the next begins; `hf_analysis.store` says where.

On one machine and with one batch size, an interrupted and resumed measurement is bit-identical to an
uninterrupted one. At batch size 1, the default on a CPU, a problem's rows are bit-identical whatever the
order and number of problems. Another batch size, or unshared questions, change the shapes of the matrix
products and with them the last digits: at most 1e-5.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from hf_analysis.conditions import Context, find_condition
from hf_analysis.forward import Forward, prepare
from hf_analysis.models import LoadedModel
from hf_analysis.problems import Problem
from hf_analysis.reductions import reduce_problem, token_table
from hf_analysis.store import Store, fingerprint

Progress = Callable[[int, int, str], None]
PAPER_CONDITIONS = ("cot", "no_cot")


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
    run: str | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """The rows of `problems` under `conditions`, in the order of `problems`, also written to `out`.

    `batch_size` counts problems (default: 1 on a CPU, 8 on a GPU, halved when memory runs out); `share=False`
    computes every passage on its own. `progress(done, total, problem_id)` is called after every problem.
    `run` names the run in the table (default: the model's name).
    """
    check_request(problems, conditions, batch_size, keep_tokens, paper_mode)
    context = Context(problems, seed, model, paper_mode)
    run = model.name if run is None else run
    fixed = [name for name in conditions if name != "generated"]
    for problem in problems if fixed else ():  # one that cannot be measured is refused before any is
        prepare(problem, fixed, context, share)
    store = Store(out, problems, keep_tokens)
    store.open(fingerprint(model, problems, conditions, seed, keep_tokens, paper_mode, share, run), resume)
    size = batch_size or (8 if model.device.type == "cuda" else 1)
    forward = Forward(model, size)
    for start in range(0, len(problems), size):
        group = problems[start : start + size]
        if all(store.has(problem) for problem in group):
            continue
        # The whole group is computed again even if part of it is done: its composition decides last digits.
        prepared = [prepare(problem, conditions, context, share) for problem in group]
        for item, measured in zip(prepared, forward(prepared)):
            problem = item.problem
            if store.has(problem):
                continue
            if store.keeps_tokens(problem):
                texts = [[model.decode([token]) for token in passage] for passage in item.ids]
                store.write_tokens(problem, token_table(problem.id, measured, texts))
            facts = {**item.facts(), "paths": forward.paths}
            store.write(problem, reduce_problem(run, problem.id, measured, paper_mode), facts)
            if progress is not None:
                progress(store.n_done, len(problems), problem.id)
    return store.finish(paper_mode)


def check_request(
    problems: Sequence[Problem],
    conditions: Sequence[str],
    batch_size: int | None,
    keep_tokens: int,
    paper_mode: bool,
) -> None:
    """Refuses what cannot be measured; needs no model."""
    for name in conditions:
        find_condition(name)
    if not conditions or len(set(conditions)) != len(conditions):
        raise ValueError(f"conditions {list(conditions)}: need at least one, and none twice")
    if paper_mode and tuple(conditions) != PAPER_CONDITIONS:
        raise ValueError(f"paper mode measures the conditions cot no_cot, got {' '.join(conditions)}")
    if not problems:
        raise ValueError("no problem to measure")
    if len({problem.id for problem in problems}) != len(problems):
        raise ValueError("two problems have the same id; ids must be unique")
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"batch size {batch_size}: need at least 1")
    if keep_tokens < 0:
        raise ValueError(f"keep_tokens {keep_tokens}: need 0 or more")
