"""What are the items of huang2025's theorems? Theory models trained by Algorithm 1 or 2, as plain numbers.

In the rows of these runs `condition` is the algorithm and `step` counts gradient steps on Q, over all stages.
"""

import copy
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from interp.claims.huang2025._runs import REACHED, reached
from interp.core.claim import Item
from interp.core.loops import Loop
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    import torch

    from toy_models.lego.task import Lego
    from toy_models.lego.theory_model import LegoTheory

LENGTHS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Lengths of test sentences, as long as there are enough variables."""
STATE_DESCENT = {"C6": (20.0, 300), "S3": (10.0, 300), "S4": (15.0, 500), "S5": (15.0, 2500)}
"""Step size and steps with which the states of a group are learned at length 1."""
ENDS = ["condition", "group", "d", "unit", "stage"]
"""What tells the trained models of a claim apart."""
_STREAMS = ("weights", "variables", "states", "attention", "test")


LOOPS = (
    Loop(
        "steps on Q",
        lambda p: p["budget"] * p["d"] ** 1.5 if p["algorithm"] == "algorithm_1" else 0,
        lambda p, n: {"budget": n / p["d"] ** 1.5},
    ),
    Loop(
        "steps of each stage",
        lambda p: p["most"] if p["algorithm"] == "algorithm_2" else 0,
        lambda p, n: {"most": n},
    ),
)
"""What a run repeats."""


@dataclass(frozen=True)
class TheoryRun:
    """One model trained by one algorithm; the seed draws weights, data and test sentences."""

    algorithm: Literal["algorithm_1", "algorithm_2"]
    group: str
    d: int
    """Number of tokens: those that the group does not need are variables."""
    lr: float
    """Step size of Q, in units of the number of variables."""
    clip: float = 3.0
    """C_B of Assumption 3.4."""
    m: int = 12
    """Neurons of each class."""
    first: float = 1.0
    """Steps that teach the states at length 1, in units of those in STATE_DESCENT."""
    batch: int = 128
    """Sentences in a step on Q."""
    budget: float = 0.2
    """Algorithm 1: steps on Q in units of d^1.5."""
    stages: int = 4
    """Algorithm 2: stage k is at length 2^k, k = 1 to `stages`."""
    bound: float = 0.6
    """Algorithm 2: a stage ends when its loss is below d^-bound (the paper's E_1)."""
    most: int = 2000
    """Algorithm 2: the largest number of steps of a stage."""
    longest: int = 256
    """The longest test sentences."""
    n_test: int = 64
    """Test sentences of each length."""
    seed: int = 0

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        return Item(f"{self.algorithm},{self.group},d={self.d},seed={self.seed}", asdict(self))

    @property
    def task(self) -> "Lego":
        """Sentences of length 2."""
        from toy_models.lego.groups import group_action
        from toy_models.lego.task import Lego

        action = group_action(self.group)
        return Lego(self.group, 2, self.d - 1 - action.n_elements - action.n_points)

    @property
    def n_steps(self) -> int:
        """Algorithm 1: steps on Q."""
        return max(round(self.budget * self.d**1.5), 1)

    def generator(self, stream: str, stage: int = 0) -> "torch.Generator":
        """One of the seed's random streams; each stage of Algorithm 2 has its own."""
        import torch

        number = _STREAMS.index(stream) + len(_STREAMS) * stage
        return torch.Generator().manual_seed(3_000_000 + 100 * self.seed + number)

    def rows(self, metrics: dict[str, float], step: int, **places: Any) -> pd.DataFrame:
        """One row for each metric."""
        labels = {"run": self.item.name, "condition": self.algorithm, "unit": str(self.seed), "scope": "test"}
        place = setting(d=self.d, group=self.group, **places)
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
    states = train_slot(model, run.task, STATE, Descent(lr, round(run.first * n_steps), 144), run.generator("states"))
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
    """The share of sentences whose every generated answer is right, by length."""
    from toy_models.lego.theory_training import all_right

    tables = []
    for length in LENGTHS:
        if length < min(run.task.n_variables, run.longest + 1):
            clauses = replace(run.task, length=length).sample(run.n_test, run.generator("test")).inputs
            accuracy = all_right(model, clauses).double().mean().item()
            tables.append(run.rows({"accuracy": accuracy}, step, length=length, **places))
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
    """Stage 1.1, then Q at length 2 with true answers, then at 4, 8, ... with the last stage's own answers."""
    return concat(_stages(run))


def _stages(run: TheoryRun) -> Iterator[pd.DataFrame]:
    from toy_models.lego.theory_training import Descent, self_labelled, self_train

    model, losses = one_step_model(run)
    yield run.rows(losses, 0)
    teacher, total = None, 0
    for stage in range(1, run.stages + 1):
        task = replace(run.task, length=2**stage)
        labels: dict[str, float] = {}
        if teacher is not None:
            truth = task.sample(4 * run.n_test, run.generator("test")).inputs
            right = (self_labelled(teacher, truth, 2) == truth).flatten(1).all(-1)
            labels = {"labels_right": right.double().mean().item()}
        descent = Descent(run.lr, run.most, run.batch)
        taken, loss = self_train(model, task, run.d**-run.bound, descent, run.generator("attention", stage), teacher)
        total, teacher = total + taken, copy.deepcopy(model)
        metrics = {**attention_metrics(run, model, task.length), **labels, "loss": loss, "steps": taken}
        yield run.rows(metrics, total, stage=stage)
        yield accuracy_rows(run, model, total, stage=stage)


def run_theory(run: TheoryRun) -> pd.DataFrame:
    """The rows of one run."""
    return (run_algorithm_1 if run.algorithm == "algorithm_1" else run_algorithm_2)(run)


def ends(rows: pd.DataFrame) -> pd.DataFrame:
    """By algorithm, group, d, seed and stage (0 for Algorithm 1): the metrics after training, as columns.

    Also the accuracy at each length (columns 2, 3, ...), log2 of the length reached (`reach`), and whether every
    length tested is solved (`capped`) or not even the shortest (`failed`), so that it is a bound only.
    """
    found = with_settings(rows)
    found["stage"] = found["stage"].fillna(0) if "stage" in found else 0
    accuracy = found[found["metric"] == "accuracy"]
    curves = accuracy.pivot(index=ENDS, columns="length", values="value")
    curves.columns = curves.columns.astype(int)
    last = found[(found["metric"] != "accuracy") & ((found["condition"] == "algorithm_1") | (found["stage"] > 0))]
    last = last[last["update"] == last.groupby(ENDS)["update"].transform("max")]
    metrics = last.pivot(index=ENDS, columns="metric", values="value")
    shares = curves.to_numpy(float)
    lengths = {
        "reach": reached(curves),
        "capped": ~(shares < REACHED).any(1),
        "failed": shares[:, 0] < REACHED,
    }
    return metrics.join(curves).join(pd.DataFrame(lengths, index=curves.index)).reset_index()


def final(rows: pd.DataFrame, algorithm: str, *, simple: bool) -> pd.DataFrame:
    """`ends` of one algorithm, on C6, which acts simply transitively (`simple`), or on the symmetric group."""
    found = ends(rows[rows["condition"] == algorithm])
    return found[(found["group"] == "C6") == simple].reset_index(drop=True)


def slopes(found: pd.DataFrame, x: str, y: pd.Series) -> pd.Series:
    """By seed: the slope of `y` against the column `x`, by least squares; every seed has the same values of x."""
    values = found.assign(y=y).pivot(index="unit", columns=x, values="y")
    centred = values.columns.to_numpy(float) - values.columns.to_numpy(float).mean()
    return pd.Series(values.to_numpy(float) @ centred / (centred @ centred), index=values.index)


def lead(rows: pd.DataFrame) -> float:
    """The largest difference of the diagonals of Q_{4,3} and Q_{4,4} along Algorithm 1, at the largest d on C6, mean
    over seeds."""
    found = with_settings(rows[(rows["condition"] == "algorithm_1") & rows["metric"].str.startswith("diagonal_")])
    found = found[(found["group"] == "C6") & (found["d"] == found["d"].max())]
    wide = found.pivot(index=["unit", "update"], columns="metric", values="value")
    return float((wide["diagonal_43"] - wide["diagonal_44"]).groupby("unit").max().mean())
