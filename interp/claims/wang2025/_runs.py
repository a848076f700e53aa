"""What are the items of the claims on Algorithms 1 and 2? Runs of wang2025's theory model as plain numbers.

In the rows of these runs `step` counts gradient steps, and `condition` is the algorithm.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from interp.core.claim import Item
from interp.core.loops import Loop
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from toy_models.kfold.curricula import Snapshot

SOLVED = 0.01
"""The largest share of wrong predictions with which a hop counts as learned."""
RATE = 30.0
"""Learning rate in units of (kN)^2 / beta_0, with beta_0 = 1: turns the gradient's 1/(kN)^2 into a scale of 30."""
FINER = 2**0.5
"""The ratio of neighbouring sample sizes in the search for the smallest that suffices."""


def _sequences(p: Mapping[str, Any]) -> float:
    """Of one run, or of all that a search makes on its way up to the most that it may try."""
    total = tried = p["n_sequences"]
    while p.get("search") and (tried := tried * FINER) <= p["most"]:
        total += tried
    return total


def _few_sequences(p: Mapping[str, Any], n: int) -> dict[str, Any]:
    return {"n_sequences": n} | ({"most": n} if p.get("search") else {})


SEQUENCES = Loop("sequences of each stage", _sequences, _few_sequences, least=64)
"""What a run repeats."""


@dataclass(frozen=True)
class TheoryRun:
    """One run of an algorithm; the seed draws hidden permutations, data and test sequences."""

    algorithm: Literal["stagewise", "mixture"]
    k: int
    n: int
    n_sequences: int
    """Training sequences, in each stage for the stagewise algorithm (the paper's M)."""
    one_query: bool = False
    """Whether one query of each sequence is labelled, as in the paper, or all kN of them."""
    n_test: int = 100
    """Test sequences; all their queries are tested."""
    seed: int = 0

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        return Item(f"{self.algorithm},{self._size},M={self.n_sequences},seed={self.seed}", asdict(self))

    @property
    def search_item(self) -> Item:
        """The search for the smallest number of sequences, which starts from `n_sequences`, as an item of work."""
        return Item(f"search,{self._size},seed={self.seed}", {**asdict(self), "search": True})

    @property
    def _size(self) -> str:
        return f"k={self.k},n={self.n},{'one' if self.one_query else 'all'}"

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that say which run a row belongs to, without the setting."""
        return {"run": self.item.name, "condition": self.algorithm, "unit": str(self.seed), "scope": "test"}

    @property
    def settings(self) -> dict[str, Any]:
        """What varied, for the column `setting`."""
        return {
            "k": self.k,
            "n": self.n,
            "sequences": self.n_sequences,
            "queries": 1 if self.one_query else self.k * self.n,
        }


def train_theory(run: TheoryRun, stop_above: float = 1.0) -> "list[Snapshot]":
    """The snapshots of one run; the stagewise algorithm ends after a stage whose error exceeds `stop_above`."""
    import torch

    from toy_models.engine.training_run import choose_device, moved
    from toy_models.kfold.curricula import examples, mixture, stagewise
    from toy_models.kfold.task import KFold
    from toy_models.kfold.theory_model import KFoldTheory

    device = choose_device("auto")
    task = KFold(k=run.k, n=run.n, cyclic=True, hidden_seed=run.seed)
    model = moved(KFoldTheory(run.k, run.n), device)
    data = torch.Generator().manual_seed(2 * run.seed)
    test = examples(task, run.n_test, torch.Generator().manual_seed(2 * run.seed + 1)).to(device)
    rate = RATE * (run.k * run.n) ** 2
    if run.algorithm == "mixture":
        return list(mixture(model, task, run.n_sequences, rate, data, test, run.one_query))
    return list(stagewise(model, task, run.n_sequences, rate, data, test, run.one_query, stop_above=stop_above))


def snapshot_rows(run: TheoryRun, snapshots: "Sequence[Snapshot]") -> pd.DataFrame:
    """Loss and error of every hop, and attention mass of every layer, after every gradient step."""
    tables = []
    for found in snapshots:
        place = {"update": found.update, **run.labels}
        hops = [setting(**run.settings, hop=2**index, trained=found.trained) for index in range(len(found.loss))]
        tables.append(table(metric="loss", value=list(found.loss), setting=hops, **place))
        tables.append(table(metric="error", value=list(found.error), setting=hops, **place))
        layers = list(range(len(found.mass)))
        of_run = setting(**run.settings, trained=found.trained)
        tables.append(table(metric="mass", value=list(found.mass), layer=layers, setting=of_run, **place))
    return concat(tables)


def search_rows(run: TheoryRun, most: int) -> pd.DataFrame:
    """The number of sequences per stage that suffices for every hop, on a geometric grid around the run's own.

    Upwards to the first that suffices or, if the run's own does, downwards to the last that does. Metric
    `sample_complexity`, or `censored_at` if more than `most` would be needed.
    """
    n_sequences = float(run.n_sequences)
    found = _suffices(run, n_sequences)
    if found:
        while n_sequences > 1 and _suffices(run, n_sequences / FINER):
            n_sequences /= FINER
    while not found and n_sequences * FINER <= most:
        n_sequences *= FINER
        found = _suffices(run, n_sequences)
    place = {key: value for key, value in run.settings.items() if key != "sequences"}
    labels = {**run.labels, "run": run.search_item.name}
    metric = "sample_complexity" if found else "censored_at"
    return table(metric=metric, value=float(round(n_sequences)), setting=setting(**place), **labels)


def _suffices(run: TheoryRun, n_sequences: float) -> bool:
    """Whether every hop has an error of at most SOLVED after its own stage, and at the end."""
    snapshots = train_theory(replace(run, n_sequences=round(n_sequences)), stop_above=SOLVED)
    finished = len(snapshots) == 2 * run.k.bit_length() + 1
    return finished and max(snapshots[-1].error) <= SOLVED
