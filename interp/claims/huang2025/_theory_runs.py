"""What are the items of huang2025's theorems? Theory models trained by Algorithm 1 or 2, as plain numbers.

In the rows of these runs `condition` is the algorithm and `update` counts gradient steps on Q, over all stages.
"""

import copy
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from interp.core.claim import Item
from interp.core.loops import Loop, loop
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    import torch

    from toy_models.lego.task import Lego
    from toy_models.lego.theory_model import LegoTheory

LENGTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Lengths of test sentences, as long as there are enough variables."""
SAMPLED = (2, 4, 8, 16, 32)
"""Lengths at which equation 5 is measured."""
STATE_DESCENT = {"C6": (20.0, 300), "S3": (10.0, 300), "S4": (15.0, 500), "S5": (15.0, 2500)}
"""Step size and steps with which the states of a group are learned at length 1."""
_STREAMS = ("weights", "variables", "states", "attention", "test")


LOOPS = (
    Loop(
        "steps at length 1",
        lambda p: p["first"] * STATE_DESCENT[p["group"]][1],
        lambda p, n: {"first": n / STATE_DESCENT[p["group"]][1]},
    ),
    Loop(
        "steps on Q",
        lambda p: p["budget"] * p["d"] ** 1.5,
        lambda p, n: {"budget": n / p["d"] ** 1.5},
    ),
    Loop(
        "steps of each later stage",
        lambda p: p["most"] if p["algorithm"] == "algorithm_2" else 0,
        lambda p, n: {"most": n},
    ),
    loop("n_test", "test sentences of each length", least=16),
)
"""What a run repeats."""


@dataclass(frozen=True)
class TheoryRun:
    """One model trained by one algorithm; the seed draws weights, data and test sentences."""

    algorithm: Literal["algorithm_1", "algorithm_2"]
    group: str
    d: int
    """Number of tokens."""
    lr: float
    """Step size of Q, in units of the number of variables."""
    variables: int = 0
    """Number of variables; 0: all tokens that the group does not need. Tokens left over never occur."""
    clip: float = 3.0
    """C_B of Assumption 3.4."""
    m: int = 12
    """Neurons of each class."""
    first: float = 1.0
    """Steps that teach the states at length 1, at most, in units of those in STATE_DESCENT."""
    first_degree: float | None = None
    """If given, they end when their loss is at most d^-first_degree."""
    per_token: float = 1.0
    """Sentences in a step on Q, in units of d."""
    budget: float = 0.2
    """Steps on Q at length 2, in units of d^1.5."""
    stages: int = 4
    """Algorithm 2: stage k is at length 2^k, k = 1 to `stages`."""
    degrees: tuple[float, ...] = ()
    """Algorithm 2: the E_1 that are tried; a stage after the first ends when its loss is at most d^-E_1."""
    most: int = 2000
    """Algorithm 2: the largest number of steps of such a stage."""
    longest: int = 256
    """The longest test sentences."""
    n_test: int = 64
    """Test sentences of each length."""
    seed: int = 0

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        name = f"{self.algorithm},{self.group},d={self.d},batch={self.batch},seed={self.seed}"
        given = {field: value for field, value in asdict(self).items() if value is not None}
        return Item(name, {**given, "degrees": list(self.degrees)})

    @property
    def task(self) -> "Lego":
        """Sentences of length 2."""
        from toy_models.lego.groups import group_action
        from toy_models.lego.task import Lego

        action = group_action(self.group)
        return Lego(self.group, 2, self.variables or self.d - 1 - action.n_elements - action.n_points)

    @property
    def batch(self) -> int:
        """Sentences in a step on Q."""
        return max(round(self.per_token * self.d), 1)

    @property
    def lengths(self) -> list[int]:
        """Lengths of the test sentences; for Algorithm 2 also the longest that variables allow (Corollary 5.1)."""
        most = self.task.n_variables - 1
        wanted = {*LENGTHS, most} if self.algorithm == "algorithm_2" else set(LENGTHS)
        return sorted(length for length in wanted if length <= min(most, self.longest))

    @property
    def n_steps(self) -> int:
        """Steps on Q at length 2."""
        return max(round(self.budget * self.d**1.5), 1)

    def generator(self, stream: str, stage: int = 0) -> "torch.Generator":
        """One of the seed's random streams; each stage of Algorithm 2 has its own."""
        import torch

        number = _STREAMS.index(stream) + len(_STREAMS) * stage
        return torch.Generator().manual_seed(3_000_000 + 100 * self.seed + number)

    def rows(self, metrics: dict[str, float], step: int, **places: Any) -> pd.DataFrame:
        """One row for each metric."""
        labels = {"run": self.item.name, "condition": self.algorithm, "unit": str(self.seed), "scope": "test"}
        place = setting(d=self.d, group=self.group, batch=self.batch, **places)
        return table(metric=list(metrics), value=list(metrics.values()), update=step, setting=place, **labels)


def one_step_model(run: TheoryRun) -> "tuple[LegoTheory, dict[str, float]]":
    """A model after stage 1, which learned variables and states on sentences of length 1; and its last losses."""
    from toy_models.engine.training_run import choose_device, moved
    from toy_models.lego.task import ANSWERED, STATE
    from toy_models.lego.theory_model import LegoTheory, LegoTheoryConfig
    from toy_models.lego.theory_training import Descent, train_slot

    fresh = LegoTheory(run.d, LegoTheoryConfig(m=run.m, clip=run.clip), run.generator("weights"))
    model = moved(fresh, choose_device("auto"))
    lr, n_steps = STATE_DESCENT[run.group]
    variables = train_slot(model, run.task, ANSWERED, Descent(1.0, 60, 144), run.generator("variables"))
    descent = Descent(lr, round(run.first * n_steps), 144)
    bound = 0.0 if run.first_degree is None else run.d**-run.first_degree
    states = train_slot(model, run.task, STATE, descent, run.generator("states"), bound)
    return model, {"variable_loss": variables, "state_loss": states}


def attention_metrics(run: TheoryRun, model: "LegoTheory", length: int) -> dict[str, float]:
    """Entries of both blocks of Q, and attention on the two target clauses in sentences of `length`."""
    from toy_models.lego.theory_training import entries, routing

    found: dict[str, float] = {}
    for name, block in (("43", model.attn.Q_43), ("44", model.attn.Q_44)):
        of_block = entries(block, run.task)
        found |= {f"{metric}_{name}": value for metric, value in asdict(of_block).items()}
    looks = routing(model, replace(run.task, length=length), 4 * run.n_test, run.generator("test"))
    return found | {"predicate": looks.predicate, "answer": looks.answer, "error": looks.error}


def accuracy_rows(run: TheoryRun, model: "LegoTheory", step: int, **places: Any) -> pd.DataFrame:
    """By length: the share of sentences whose every generated answer is right, and Acc_L (5)."""
    from toy_models.lego.theory_training import all_right, sampled_accuracy

    tables = []
    for length in run.lengths:
        clauses = replace(run.task, length=length).sample(run.n_test, run.generator("test")).inputs
        clauses = clauses.to(model.mlp.W.device)
        found = {"accuracy": all_right(model, clauses).double().mean().item()}
        if length in SAMPLED:
            found["sampled"] = sampled_accuracy(model, clauses).double().mean().item()
        tables.append(run.rows(found, step, length=length, **places))
    return concat(tables)


def run_algorithm_1(run: TheoryRun) -> pd.DataFrame:
    """Stage 1, then Q on both states of sentences of length 2; measured at steps evenly spaced in log time."""
    from toy_models.lego.theory_training import Descent, attention_updates

    model, losses = one_step_model(run)
    descent = Descent(run.lr, run.n_steps, run.batch)
    keep = {0, *np.geomspace(1, run.n_steps, 16).round().astype(int).tolist()}
    tables = [run.rows(losses, 0)]
    for step, loss in enumerate(attention_updates(model, run.task, [0, 1], descent, run.generator("attention"))):
        if step in keep:
            tables.append(run.rows({**attention_metrics(run, model, 2), "loss": loss}, step))
    tables.append(run.rows(attention_metrics(run, model, 2), run.n_steps))
    return concat([*tables, accuracy_rows(run, model, run.n_steps)])


def run_algorithm_2(run: TheoryRun) -> pd.DataFrame:
    """Stage 1, whose steps on Q at length 2 are counted, then every E_1 from there: 4, 8, ..., by its own answers."""
    return concat(_algorithm_2(run))


def _algorithm_2(run: TheoryRun) -> Iterator[pd.DataFrame]:
    from toy_models.lego.theory_training import Descent, attention_updates

    model, losses = one_step_model(run)
    yield run.rows(losses, 0, stage=0)
    descent = Descent(run.lr, run.n_steps, run.batch)
    for loss in attention_updates(model, run.task, [1], descent, run.generator("attention", 1)):
        losses = {"loss": loss, "steps": run.n_steps}
    yield run.rows({**attention_metrics(run, model, 2), **losses}, run.n_steps, stage=1)
    yield accuracy_rows(run, model, run.n_steps, stage=1)
    for degree in run.degrees:
        yield from _stages(run, copy.deepcopy(model), degree)


def _stages(run: TheoryRun, model: "LegoTheory", degree: float) -> Iterator[pd.DataFrame]:
    """The stages from the second on, each on the answers of the one before."""
    from toy_models.lego.theory_training import Descent, self_labelled, self_train

    total, bound = run.n_steps, run.d**-degree
    for stage in range(2, run.stages + 1):
        task, teacher = replace(run.task, length=2**stage), copy.deepcopy(model)
        truth = task.sample(4 * run.n_test, run.generator("test")).inputs.to(model.mlp.W.device)
        right = (self_labelled(teacher, truth, 2) == truth).flatten(1).all(-1)
        descent = Descent(run.lr, run.most, run.batch)
        taken, loss = self_train(model, task, bound, descent, run.generator("attention", stage), teacher)
        total += taken
        metrics = {**attention_metrics(run, model, task.length), "loss": loss, "steps": taken}
        metrics |= {"labels_right": right.double().mean().item(), "ended": float(loss <= bound)}
        yield run.rows(metrics, total, stage=stage, degree=degree)
        yield accuracy_rows(run, model, total, stage=stage, degree=degree)


def run_theory(run: TheoryRun) -> pd.DataFrame:
    """The rows of one run."""
    return (run_algorithm_1 if run.algorithm == "algorithm_1" else run_algorithm_2)(run)


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model."""
    parameters = item.parameters
    return run_theory(TheoryRun(**{**parameters, "degrees": tuple(parameters["degrees"])}))
