"""What are the items of huang2025's figures? Clause decoders trained on LEGO in the paper's regime, as plain numbers.

Length 5 from scratch, one Adam rate for all parameters, constant or lowered once. A run is read at *points*: when its
loss first falls below each of `LOSSES`, and at its end, which comes a fixed number of steps after it has left the
plateau. So groups can be compared at equal loss and after as much training since, however long the plateau lasted;
that is kept apart, as the steps to each point. The claims share their models: `_training.taught` trains a run once
and keeps it.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.core.claim import Item, Preset
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    import torch

    from interp.claims.huang2025._training import Taught
    from toy_models.lego.clause_decoder import ClauseDecoder, ClauseDecoderConfig
    from toy_models.lego.task import Lego
    from toy_models.lego.training import Stage

REACHED = 0.9
"""A length counts as reached if at least this share of its sentences has all steps right."""
SOLVES = 0.99
"""A model solves the length it was trained at if at least this share of the sentences has all steps right."""
LEARNED = 0.1
"""Nats per clause below which a run has left its plateau, which is at the entropy of a state, 1.6 to 1.8."""
LOSSES = (LEARNED, 0.01, 0.001)
"""The losses at which runs are read."""
END = "end"
KEYS = ("condition", "group", "unit", "point")
"""What tells the accuracy curves of a claim apart."""


def after(steps: int) -> str:
    """The name of the point so many steps after the plateau."""
    return f"after_{steps}"


def at_loss(loss: float) -> str:
    """The name of the point at which the loss first fell below `loss`."""
    return f"loss_{loss:g}"


@dataclass(frozen=True)
class LegoRun:
    """One decoder trained on one group; the seed draws weights, data and test sentences."""

    group: str = "C6"
    model: Literal["standard", "theory"] = "theory"
    """The two variants of the clause decoder."""
    change: str = ""
    """What was changed in the model or its training, in words; the fields below say it in numbers."""
    rate: float = 1e-3
    """Adam's constant learning rate."""
    attention: float = 1.0
    """Factor of the attention's learning rate."""
    first: int = 0
    """Steps at length 1 with attention fixed before the training, where the group alone is learned."""
    n_sentences: int | None = None
    """Size of the training set; None: every sentence is fresh."""
    embeddings: Literal["learned", "orthonormal"] = "learned"
    """Learned, or fixed and orthogonal."""
    n_variables: int = 170
    d_token: int = 32
    d_mlp: int = 512
    batch_size: int = 64
    steps: int = 22_000
    """Steps after which a run ends at the latest."""
    further: int = 2000
    """Steps from the end of the plateau, when the loss first falls below `LEARNED`, to the end of the run."""
    length: int = 5
    lengths: tuple[int, ...] = (5, 10, 20, 40, 80, 160)
    """The lengths of test sentences."""
    n_test: int = 128
    """Test sentences of each length, of the loss, and of attention."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", tuple(self.lengths))  # a list, if it comes from JSON

    @property
    def read_at(self) -> tuple[int, ...]:
        """Steps from the end of the plateau after which the run is read too, besides `LOSSES` and its end."""
        return ()

    @property
    def lowered(self) -> tuple[int, float] | None:
        """Steps from the end of the plateau after which the rate is lowered, and to what; None: it never is."""
        return None

    @property
    def patience(self) -> int:
        """Steps after which a run ends that is still on its plateau: a rate that is to fall must have time for it."""
        return self.steps - self.further if self.lowered and self.steps > self.further else self.steps

    @property
    def condition(self) -> str:
        """The run's name among its claim's conditions."""
        return f"{self.model}, {self.change}" if self.change else self.model

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        name = f"{self.condition.replace(', ', '_').replace(' ', '_')},{self.group},seed={self.seed}"
        return Item(name, asdict(self))

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that say which run a row belongs to, without the setting."""
        return {"run": self.item.name, "condition": self.condition, "unit": str(self.seed), "scope": "test"}

    @property
    def settings(self) -> dict[str, Any]:
        """What varied, for the column `setting`."""
        return {"group": self.group}

    @property
    def task(self) -> "Lego":
        """The task at the training length."""
        from toy_models.lego.task import Lego

        return Lego(self.group, self.length, self.n_variables)

    @property
    def decoder(self) -> "ClauseDecoderConfig":
        """The variant, with this run's sizes."""
        from toy_models.lego.clause_decoder import STANDARD, THEORY

        variant = STANDARD if self.model == "standard" else THEORY
        return replace(variant, d_token=self.d_token, d_mlp=self.d_mlp, embeddings=self.embeddings)

    @property
    def stages(self) -> "tuple[Stage, ...]":
        """The training at `length`, after one at length 1 if there is to be one."""
        from toy_models.lego.training import Stage

        stage = Stage(
            length=self.length,
            updates=self.steps,
            lr=self.rate,
            attention_lr=self.attention * self.rate,
            batch_size=self.batch_size,
            schedule="constant",
            n_sentences=self.n_sentences,
            tables=self.model == "theory",
        )
        alone = replace(stage, length=1, updates=max(self.first, 1), attention_lr=0.0, n_sentences=None)
        return (alone, stage) if self.first else (stage,)

    def generator(self, stream: int) -> "torch.Generator":
        """A generator for test data, independent of the training data of every run."""
        import torch

        return torch.Generator().manual_seed(2_000_000 + 10 * self.seed + stream)


@dataclass(frozen=True)
class LongRun(LegoRun):
    """A run that is read on its way as well."""

    reads: tuple[int, ...] = ()
    """`read_at`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "reads", tuple(self.reads))

    @property
    def read_at(self) -> tuple[int, ...]:
        return self.reads


@dataclass(frozen=True)
class SettledRun(LongRun):
    """A run that leaves its plateau at one rate and settles at another."""

    reads: tuple[int, ...] = (2000, 5000)
    further: int = 8000
    steps: int = 30_000
    settles: int = 2000
    """Steps from the end of the plateau to the change of the rate."""
    late: float = 1e-4
    """The rate from then on: the paper's."""

    @property
    def lowered(self) -> tuple[int, float] | None:
        return None if self.late == self.rate else (self.settles, self.late)


THEORY = LegoRun(model="theory")
STANDARD = LegoRun(model="standard")
"""Runs at one constant rate, ten times the paper's."""
SEEDS = 8
"""Their seeds."""
SETTLED_THEORY = SettledRun(model="theory")
SETTLED_STANDARD = SettledRun(model="standard")
"""The runs of Figures 1a, 2, 5, 6 and 7 and of the mechanism at the cpu preset."""
SETTLED_SEEDS = 12
"""Their seeds: of S5 in the theory-like block six of eight solved length 5 at a constant rate."""
SMOKE: dict[str, Any] = {
    "d_token": 8, "d_mlp": 32, "n_variables": 24, "steps": 4, "further": 2, "lengths": (5, 10), "n_test": 8,
}  # fmt: skip
PAPER: dict[str, Any] = {
    "rate": 1e-4, "embeddings": "orthonormal", "d_token": 170, "d_mlp": 1024, "n_sentences": 20_000,
    "steps": 300 * 20_000 // 64, "further": 300 * 20_000 // 64, "n_test": 1000,
}  # fmt: skip
"""What the presets change: the paper's rate, its 300 epochs, and its orthogonal embeddings."""


@dataclass(frozen=True)
class LegoRuns:
    """A preset: every run for both groups and every seed."""

    runs: tuple[LegoRun, ...]
    seeds: int
    first_unit: int = 0


def presets(*runs: LegoRun, seeds: int = SEEDS) -> dict[str, LegoRuns]:
    """These runs at the sizes of every preset, with so many seeds at cpu."""
    return {
        "smoke": LegoRuns(tuple(replace(run, **SMOKE) for run in runs), seeds=2),
        "cpu": LegoRuns(runs, seeds=seeds),
        "paper": LegoRuns(tuple(replace(run, **PAPER) for run in runs), seeds=8),
    }


def by_group(preset: LegoRuns) -> list[Item]:
    """One item for each run, of C6 and of S5, and seed."""
    return by_seed([replace(run, group=group) for run in preset.runs for group in ("C6", "S5")], preset)


def by_seed(runs: Sequence[LegoRun], preset: Preset) -> list[Item]:
    """One item for each run and each of the preset's seeds."""
    seeds = range(preset.first_unit, preset.first_unit + preset.seeds)
    return [replace(run, seed=seed).item for run in runs for seed in seeds]


def run_rows(run: LegoRun, found: "Taught") -> pd.DataFrame:
    """At every point of a run: its steps at length 5, the accuracy by length, and the loss."""
    points = list(found.updates)
    updates = [found.updates[point] for point in points]
    where = [setting(**run.settings, point=point) for point in points]
    steps = table(metric="updates", value=[float(n) for n in updates], update=updates, setting=where, **run.labels)
    return concat([steps, *(point_rows(run, model, found.updates[at], point=at) for at, model in found.models())])


def point_rows(run: LegoRun, model: "ClauseDecoder", step: int, **places: int | str) -> pd.DataFrame:
    """The share of sentences with all steps right, by length, and the loss at the training length on fresh ones."""
    from toy_models.lego.generation import share_solved
    from toy_models.lego.training import held_out_loss

    loss = held_out_loss(model, run.task, 4 * run.n_test, run.generator(0))
    shares = [
        share_solved(model, replace(run.task, length=length), run.n_test, run.generator(1)) for length in run.lengths
    ]
    where = [setting(**run.settings, **places, length=length) for length in run.lengths]
    place = {**run.labels, "update": step, "n_tokens": run.n_test}
    return concat(
        [
            table(metric="accuracy", value=shares, setting=where, **place),
            table(metric="loss", value=loss, setting=setting(**run.settings, **places, length=run.length), **place),
        ]
    )


def solved_rows(run: LegoRun, found: "Taught") -> pd.DataFrame:
    """The accuracy at the training length alone, at the end: whether the run is to be judged."""
    return point_rows(replace(run, lengths=(run.length,)), found.model(), found.updates[END], point=END)


def of_solving(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the runs that solve the training length, by `solved_rows` among them; settings as columns."""
    found = with_settings(rows)
    solves = found[(found["metric"] == "accuracy") & (found["value"] >= SOLVES)]
    return found[found["run"].isin(solves["run"])]


def to_draw(rows: pd.DataFrame, *metrics: str) -> pd.DataFrame:
    """The rows of these metrics of the runs that solve the training length, or of all runs if none does."""
    solving, every = of_solving(rows), with_settings(rows)
    found = solving if len(solving) else every
    return found[found["metric"].isin(metrics)]


def reached(curves: pd.DataFrame) -> Float[np.ndarray, "curve"]:
    """log2 of the length at which each accuracy curve falls below `REACHED`; lengths are columns.

    Accuracy is interpolated linearly in log length. A curve that is below at the shortest length gets half of it, one
    that never falls the longest, so values are bounded. Lengths that a curve was not tested at are NaN, and the
    longest of all.
    """
    logs, shares = np.log2(curves.columns.to_numpy(float)), curves.to_numpy(float)
    below, every = shares < REACHED, np.arange(len(curves))
    first = below.argmax(1)
    before = np.maximum(first - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        part = (shares[every, before] - REACHED) / (shares[every, before] - shares[every, first])
        crossing = logs[before] + (logs[first] - logs[before]) * part
    ends = logs[(~np.isnan(shares)).sum(1) - 1]
    return np.where(~below.any(1), ends, np.where(first == 0, logs[0] - 1, crossing))


def curve_metrics(accuracy: pd.DataFrame, keys: Sequence[str] = KEYS) -> pd.DataFrame:
    """By `keys`: the accuracy at the shortest length (`training`) and at the longest (`longest`), and `octaves`.

    `octaves` is the area under accuracy against log2 of the length, from the shortest to the longest length tested: a
    model that solves everything up to a length l and nothing beyond has log2(l / shortest). It is the restricted mean
    of the log length solved, so neither a model that never fails nor one that fails at once is cut off. `solves` says
    whether at least `SOLVES` of the sentences of the shortest length, that of training, are right.
    """
    curves = accuracy.pivot(index=list(keys), columns="length", values="value")
    logs, shares = np.log2(curves.columns.to_numpy(float)), curves.to_numpy(float)
    found = {
        "training": shares[:, 0],
        "longest": shares[:, -1],
        "octaves": np.trapezoid(shares, logs, axis=1),
        "reach": reached(curves),
        "solves": shares[:, 0] >= SOLVES,
    }
    return pd.DataFrame(found, index=curves.index).reset_index()


def span(accuracy: pd.DataFrame) -> float:
    """The octaves from the shortest to the longest length tested."""
    return float(np.log2(accuracy["length"].max() / accuracy["length"].min()))
