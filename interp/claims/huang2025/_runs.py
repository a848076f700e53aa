"""What are the items of huang2025's figures? Clause decoders trained on LEGO, as plain numbers.

In the rows of these runs `step` counts gradient steps over all stages, and `condition` names the model and what was
changed in it.
"""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.core.claim import Item, Preset
from interp.core.loops import loop
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    import torch

    from toy_models.lego.clause_decoder import ClauseDecoder, ClauseDecoderConfig
    from toy_models.lego.task import Lego
    from toy_models.lego.training import OnPoint, Stage

REACHED = 0.9
"""A length counts as reached if at least this share of its sentences has all steps right."""
SOLVES = 0.99
"""A model solves the length it was trained at if at least this share of the sentences has all steps right."""
KEYS = ("condition", "group", "unit", "update")
"""What tells the accuracy curves of a claim apart."""

RATES = {"theory": (1e-2, 1e-3, 1e-2), "standard": (3e-3, 1e-3, 1e-2)}
"""Learning rates by model: at length 1, where attention is fixed; afterwards; of the attention afterwards."""


LOOPS = (
    loop("first", "steps"),
    loop("steps", "steps"),
    loop("stage_steps", "steps of each further stage"),
    loop("evaluations", "evaluations"),
)
"""What a run repeats."""


@dataclass(frozen=True)
class LegoRun:
    """One decoder trained on one group; the seed draws weights, data and test sentences."""

    group: str = "C6"
    model: Literal["standard", "theory"] = "theory"
    """The two variants of the clause decoder."""
    change: str = ""
    """What was changed in the model or its training, in words; the fields below say it in numbers."""
    residual: bool | None = None
    """Whether the block has a residual connection; None: as in the variant."""
    embed_std: float | None = None
    """Standard deviation of the initial embeddings; None: as in the variant."""
    rate: float = 1.0
    """Factor of all learning rates."""
    n_variables: int = 170
    d_token: int = 32
    d_mlp: int = 512
    first: int = 400
    """Steps at length 1, where there is nothing to retrieve: the group is learned here."""
    steps: int = 600
    """Steps at `length`."""
    evaluations: int = 6
    """Evaluations during these, evenly spaced."""
    length: int = 5
    lengths: tuple[int, ...] = (5, 10, 20, 40, 80, 160)
    """The lengths of test sentences."""
    n_test: int = 64
    """Test sentences of each length, of the loss, and of attention."""
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengths", tuple(self.lengths))  # a list, if it comes from JSON

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
        """The variant, with this run's changes."""
        from toy_models.lego.clause_decoder import STANDARD, THEORY

        variant = STANDARD if self.model == "standard" else THEORY
        changes = {"residual": self.residual, "embed_std": self.embed_std}
        changed = {name: value for name, value in changes.items() if value is not None}
        return replace(variant, d_token=self.d_token, d_mlp=self.d_mlp, **changed)

    @property
    def stages(self) -> "tuple[Stage, ...]":
        """Length 1, which teaches the group, then the training length, which teaches retrieval."""
        from toy_models.lego.training import Stage

        alone, rate, attention = (self.rate * value for value in RATES[self.model])
        return Stage(1, self.first, alone, 0.0, 128), Stage(self.length, self.steps, rate, attention)

    def generator(self, stream: int) -> "torch.Generator":
        """A generator for test data, independent of the training data of every run."""
        import torch

        return torch.Generator().manual_seed(2_000_000 + 10 * self.seed + stream)


THEORY = LegoRun(model="theory")
STANDARD = LegoRun(model="standard", first=1000)
"""The runs at the cpu preset; the standard model needs longer to learn a group."""


@dataclass(frozen=True)
class LegoRuns:
    """A preset: every run for both groups and every seed."""

    runs: tuple[LegoRun, ...]
    seeds: int
    first_unit: int = 0


def by_group(preset: LegoRuns) -> list[Item]:
    """One item for each run, of C6 and of S5, and seed."""
    return by_seed([replace(run, group=group) for run in preset.runs for group in ("C6", "S5")], preset)


def by_seed(runs: Sequence[LegoRun], preset: Preset) -> list[Item]:
    """One item for each run and each of the preset's seeds."""
    seeds = range(preset.first_unit, preset.first_unit + preset.seeds)
    return [replace(run, seed=seed).item for run in runs for seed in seeds]


def evaluation_steps(run: LegoRun) -> list[int]:
    """The steps at which a run is evaluated, counted from the start of the training."""
    return [run.first + round(run.steps * (i + 1) / run.evaluations) for i in range(run.evaluations)]


def trained(
    run: LegoRun,
    at: Collection[int] = (),
    on_point: "OnPoint" = lambda _point, _model: None,
    more: "Sequence[Stage]" = (),
) -> "ClauseDecoder":
    """The model after the run's stages and `more`; `on_point` as in `train_lego`."""
    from toy_models.engine.training_run import choose_device
    from toy_models.lego.training import train_lego

    stages = (*run.stages, *more)
    return train_lego(run.task, run.decoder, stages, run.seed, at, on_point, choose_device("auto"))


def accuracy_rows(run: LegoRun, model: "ClauseDecoder", step: int, **places: int) -> pd.DataFrame:
    """The share of sentences with all steps right, by length, and the loss at the training length."""
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


def reach(accuracy: pd.DataFrame) -> pd.DataFrame:
    """By condition, group, seed and step: log2 of the longest length at which `REACHED` of the sentences are solved.

    `accuracy` has its settings as columns; it is interpolated linearly in log length between the lengths tested. A
    model that fails at the shortest gets half of it, one that never fails the longest, so values are bounded.
    """
    curves = accuracy.pivot(index=list(KEYS), columns="length", values="value")
    return pd.DataFrame({"value": reached(curves)}, index=curves.index).reset_index()


def reached(curves: pd.DataFrame) -> Float[np.ndarray, "curve"]:
    """log2 of the length at which each accuracy curve falls below `REACHED`, as `reach` says; lengths are columns.

    Lengths that a curve was not tested at are NaN, and the longest of all.
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
