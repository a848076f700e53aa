"""How are the rows of wen2024/thm3 measured? Three steps, phase by phase; batches that are enough; bits that are."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log, log2
from typing import Any

import pandas as pd

from interp.claims.wen2024._three_steps import BITS, DELTA, EXPONENT, FEWEST_BITS, FEWEST_LOG2, MOST_LOG2
from probes.rows import concat, setting, table

N_TEST = 1024
SHOWN = 16
"""Inputs over which the attention map is averaged."""


@dataclass(frozen=True)
class Run:
    """Three steps on one problem."""

    kind: str
    n: int
    k: int
    d_model: int
    m: int
    batch: int
    eps: float
    score: float
    seed: int

    @property
    def labels(self) -> dict[str, Any]:
        return {"condition": self.kind, "unit": str(self.seed)}

    def lrs(self) -> tuple[float, float, float]:
        """eta_0 = eta_1 for the expected score, and Lemma 25's eta_2."""
        from toy_models.parity.three_steps import lr_for_score

        lr = lr_for_score(self.score, self.n, self.m)
        return lr, lr, 4 * self.eps * self.m / 3

    def start(self):
        """Task, random stream and block."""
        import torch

        from toy_models.parity.span import span_block
        from toy_models.parity.task import Parity
        from toy_models.parity.theory_model import random_embedding

        task = Parity(n=self.n, k=self.k, secret_seed=self.seed, order="random")
        generator = torch.Generator().manual_seed(self.seed)
        rows = random_embedding(task.n_ctx, self.d_model, generator).flatten(0, 1)
        return task, generator, rows, span_block(task, rows @ rows.T, self.m, self.eps, generator)


def phases(run: Run, name: str) -> pd.DataFrame:
    """Takes the three steps and measures the block before and after each."""
    from toy_models.engine.run_rows import attention_rows
    from toy_models.parity.lemmas import Settings, lemma_19
    from toy_models.parity.span import realised, updated
    from toy_models.parity.three_steps import assumption_2

    task, generator, embedding, block = run.start()
    test, lrs = task.sample(N_TEST, generator), run.lrs()
    place = setting(n=run.n, k=run.k, B=run.batch)
    labels = {"run": name, **run.labels}

    def rows(values: Mapping[str, float], step: int, scope: str = "all") -> pd.DataFrame:
        where = {"setting": f"{place} phase={step}", "samples": step * run.batch, "scope": scope}
        return table(metric=list(values), value=list(values.values()), **where, **labels)

    tables = [rows(_measured(block, test), 0)]
    for step, eta in enumerate(lrs):
        block, largest = updated(block, task.sample(run.batch, generator), eta)
        found = {**_measured(block, test), "largest_output": largest}
        if step == 0:
            at = Settings(run.d_model, run.m, float(run.batch), run.eps, DELTA, lrs[0], lrs[2])
            found |= {"lemma19": lemma_19(block, at)["19"], "vacuous": lemma_19(block, at)["19_bound_over_signal"]}
        tables.append(rows(found, step + 1))
    if run.seed % 1000 == 0:
        shown = realised(block, embedding.unflatten(0, (task.n_ctx, 2)))
        tables.append(attention_rows(shown, task, test[:SHOWN], 3 * run.batch, setting=place, **labels))
    used = {"d_model": run.d_model, "m": run.m, "batch": run.batch, "lr_0": lrs[0], "lr_2": lrs[2]}
    assumed = assumption_2(run.n, run.k, DELTA, run.eps)
    for part, value in used.items():
        tables.append(rows({"used": float(value), "assumed": assumed[part]}, 3, scope=part))
    return concat(tables)


def _measured(block, test) -> dict[str, float]:
    from toy_models.parity.every_input_checks import correlation, distance_to_one_hot, step_accuracy, worst_margin

    task, at, h = block.task, block.table(), block.weight
    known = correlation(at, h, task)
    distance = distance_to_one_hot(at, task)
    return {
        "hit": known.hit,
        "parity_hit": known.parity_hit,
        "first_over_own": known.first_over_own,
        "exponent": -log(max(distance, 1e-300)) / log(task.n),
        "margin": worst_margin(at, h, task),
        "accuracy": step_accuracy(at, h, test)[0],
    }


def tried(most: float) -> list[int]:
    """The batches in which the smallest that suffices is looked for, up to 2^`most`."""
    return [round(2 ** (half / 2)) for half in range(round(2 * FEWEST_LOG2), round(2 * most) + 1)]


def samples(run: Run, name: str, most: float = MOST_LOG2) -> pd.DataFrame:
    """The smallest batch, on a grid up to 2^`most`, at which three steps succeed, and at the next one too; one above
    the grid's last stands for more."""
    from toy_models.parity.every_input_checks import distance_to_one_hot, worst_margin
    from toy_models.parity.span import updated

    task, generator, _, start = run.start()
    found, before, step = 2 ** (most + 0.5), False, FEWEST_LOG2
    while step <= most:
        block = start
        for eta in run.lrs():
            block, _ = updated(block, task.sample(round(2**step), generator), eta)
        at = block.table()
        one_hot = distance_to_one_hot(at, task) < run.n**-EXPONENT
        succeeds = one_hot and worst_margin(at, block.weight, task) > 0
        if succeeds and before:
            found = 2 ** (step - 0.5)
            break
        before, step = succeeds, step + 0.5
    place = setting(n=run.n, k=run.k, wide=run.m // run.n)
    return table(run=name, metric="enough", value=[found], setting=place, **run.labels)


def bits(run: Run, name: str) -> pd.DataFrame:
    """Whether the trained block has no error with BITS log2(n) significant bits, and the fewest without one.

    Weights and activations are rounded after training, which is exact.
    """
    from toy_models.parity.construction import rounded
    from toy_models.parity.span import realised, updated
    from toy_models.parity.theory_tables import stored_outputs

    task, generator, embedding, block = run.start()
    for eta in run.lrs():
        block, _ = updated(block, task.sample(run.batch, generator), eta)
    test = task.sample(N_TEST, generator)
    stored = realised(block, embedding.unflatten(0, (task.n_ctx, 2)))

    def right(precision: int) -> bool:
        outputs = stored_outputs(stored, test.inputs, test.supervised, rounded(precision), block.count)
        return bool(((2 * test.answers - 1) * outputs > 0).all())

    least = ceil(BITS * log2(run.n))
    enough = right(least)
    while enough and least > FEWEST_BITS and right(least - 1):
        least -= 1
    found = {"bits_enough": float(enough), "least_bits": float(least if enough else least + 1)}
    place = setting(n=run.n, k=run.k)
    return table(run=name, metric=list(found), value=list(found.values()), setting=place, **run.labels)
