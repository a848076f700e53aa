"""What are the items of the parity claims? One training run as plain numbers, and how it is trained."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.core.claim import Item
from interp.core.loops import evaluations, loop
from probes.rows import concat, read, setting, with_settings, words, write

if TYPE_CHECKING:
    from probes.hooked.points import Hooked
    from toy_models.engine.attention_control import AttentionControl
    from toy_models.engine.training import TrainResult
    from toy_models.parity.task import Parity

LOOPS = (loop("budget", "steps", size=512), evaluations("eval_every", of="budget", inputs="n_held_out"))
"""What a run repeats."""
SHOWN = 64
"""Inputs over which the attention of a snapshot is averaged."""
SNAPSHOTS = 8
"""Attention maps stored during the training of a preset's first seed, where a figure shows them."""


@dataclass(frozen=True)
class ParityRun:
    """A run of the standard decoder on parity; the seed also draws the secret set."""

    cot: bool
    n: int
    k: int
    seed: int = 0
    layers: int = 1
    heads: int = 1
    d_model: int = 128
    d_mlp: int = 512
    lr: float = 1e-4
    budget: int = 1_000_000
    eval_every: int = 2048
    n_held_out: int = 2048
    stop_when_perfect: bool = True
    dataset_size: int = 0
    """0: fresh samples in every batch; otherwise epochs over a dataset of this size."""

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        condition = "cot" if self.cot else "no_cot"
        size = f"n={self.n},k={self.k},L={self.layers},H={self.heads},d={self.d_model}"
        data = f",data={self.dataset_size}" if self.dataset_size else ""
        return Item(f"{condition},{size},lr={self.lr:g}{data},seed={self.seed}", asdict(self))

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that say which run a row belongs to."""
        return {
            "run": self.item.name,
            "condition": "cot" if self.cot else "no_cot",
            "unit": str(self.seed),
            "setting": setting(
                n=self.n, k=self.k, layers=self.layers, heads=self.heads, d_model=self.d_model,
                lr=self.lr, dataset_size=self.dataset_size, eval_every=self.eval_every,
            ),
        }  # fmt: skip


@dataclass(frozen=True)
class RecipeRun(ParityRun):
    """A run whose recipe is chosen too. The paper's text states no dropout; its published code has 0.1 and clips."""

    dropout: float = 0.0
    """On attention weights, embeddings and the outputs of attention and MLP alike."""
    clip: float = 0.0
    """The largest norm of all gradients together; 0: no clipping."""
    decay_over: int = 0
    """Samples over which the learning rate falls to 0, whatever the budget; 0: the budget."""

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        code = f",dropout={self.dropout:g}" if self.dropout else ""
        return Item(f"{super().item.name}{code}", asdict(self))

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that say which run a row belongs to."""
        of_run = super().labels
        return {**of_run, "setting": setting(**words(of_run["setting"]), dropout=self.dropout)}


@dataclass(frozen=True)
class BatchRun(RecipeRun):
    """A run whose batch is chosen too: with a smaller dataset, a smaller batch keeps the updates of an epoch."""

    batch: int = 512

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        return Item(f"{super().item.name},batch={self.batch}", asdict(self))

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that say which run a row belongs to."""
        of_run = super().labels
        return {**of_run, "setting": setting(**words(of_run["setting"]), batch=self.batch)}


def run_of(parameters: Mapping[str, Any]) -> ParityRun:
    """The run that an item's parameters describe."""
    kind = BatchRun if "batch" in parameters else RecipeRun if "decay_over" in parameters else ParityRun
    return kind(**parameters)


@dataclass(frozen=True)
class ParityRuns:
    """A preset made of runs, each repeated for every seed."""

    runs: tuple[ParityRun, ...]
    seeds: int
    first_unit: int = 0

    @property
    def items(self) -> list[Item]:
        """One item for each run and seed; all seeds of a run stand together."""
        seeds = range(self.first_unit, self.first_unit + self.seeds)
        return [replace(run, seed=seed).item for run in self.runs for seed in seeds]


def measure_run(item: Item, work: Path, snapshots: int = 0) -> pd.DataFrame:
    """Trains the run `item` and returns its outcome, its attention against the dependency mask, and its history."""
    from toy_models.engine.run_rows import dependence_rows, outcome_rows, training_rows

    run = run_of(item.parameters)
    task, result = train_parity(run, work, snapshots)
    return concat(
        [
            outcome_rows(result, **run.labels),
            dependence_rows(result, task, **run.labels),
            snapshot_rows(work),
            training_rows(result.history, **run.labels),
        ]
    )


def with_maps(items: Sequence[Item], first_unit: int) -> list[Item]:
    """`items`, with those of the first seed marked to keep attention maps; seed 0 keeps them without a mark."""
    return [
        Item(item.name, {**item.parameters, "maps": True})
        if first_unit and item.parameters["seed"] == first_unit
        else item
        for item in items
    ]


def measure_with_maps(item: Item, work: Path) -> pd.DataFrame:
    """`measure_run`, with snapshots of attention if the item belongs to the first seed (`with_maps`)."""
    run = {name: value for name, value in item.parameters.items() if name != "maps"}
    kept = item.parameters.get("maps", run["seed"] == 0)
    return measure_run(Item(item.name, run), work, SNAPSHOTS if kept else 0)


def drawn_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """What the figures of the runs with attention maps read: the last map, averaged over inputs, and the curves."""
    maps = rows["metric"].isin(["attention", "dependency"]) & (rows["scope"] == "test")
    last = rows["samples"] == rows["samples"].where(maps).groupby(rows["run"]).transform("max")
    curves = rows["metric"].isin(["accuracy", "token_accuracy", "loss", "train_loss", "entropy_min"])
    return rows[(maps & last) | (curves & rows["run"].isin(rows.loc[maps, "run"].unique()))]


def outcomes(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each run: its settings, `samples` to the first perfect validation, and `test_accuracy`.

    `censored` marks a run whose budget ran out first; its samples are the budget.
    """
    found = rows[rows["metric"].isin(["sample_complexity", "censored_at"])]
    found = found.assign(censored=found["metric"] == "censored_at", samples=found["value"]).drop(columns="value")
    accuracy = rows[rows["metric"] == "test_accuracy"].set_index("run")["value"].rename("test_accuracy")
    return with_settings(found).join(accuracy, on="run").sort_values("run", ignore_index=True)


def parity_of(run: ParityRun) -> "Parity":
    """The task of a run."""
    from toy_models.parity.task import Parity

    return Parity(n=run.n, k=run.k, cot=run.cot, secret_seed=run.seed)


def train_parity(
    run: ParityRun, work: Path, snapshots: int = 0, control: "AttentionControl | None" = None
) -> "tuple[Parity, TrainResult]":
    """Trains `run`, resuming from the checkpoint in `work` if there is one; `control`: what is done to attention.

    Attention maps are stored in `work` at the start and about `snapshots` times after; `snapshot_rows` reads them.
    """
    import torch

    from toy_models.engine.decoder import DecoderConfig
    from toy_models.engine.forward import Dropout
    from toy_models.engine.run_rows import attention_rows
    from toy_models.engine.training import TrainConfig, train

    task = parity_of(run)
    decoder = DecoderConfig(run.layers, run.heads, run.d_model, run.d_mlp)
    config = TrainConfig(
        seed=run.seed,
        lr=run.lr,
        budget=run.budget,
        eval_every=run.eval_every,
        stop_when_perfect=run.stop_when_perfect,
        dataset_size=run.dataset_size,
        n_validation=run.n_held_out,
        n_test=run.n_held_out,
    )
    if isinstance(run, RecipeRun):
        dropout = Dropout(attention=run.dropout, embedding=run.dropout, residual=run.dropout)
        config = replace(config, dropout=dropout, clip=run.clip, decay_over=run.decay_over)
    if isinstance(run, BatchRun):
        config = replace(config, batch_size=run.batch)
    shown = task.sample(SHOWN, torch.Generator().manual_seed(run.seed))

    def snapshot(samples: int, model: "Hooked") -> None:
        interval = -(-run.budget // max(snapshots, 1))
        if snapshots and samples // interval != (samples - run.eval_every) // interval:
            maps = attention_rows(model, task, shown, samples, **run.labels, n_inputs=2)
            write(work / "snapshots" / f"{samples:012d}.parquet", maps)

    checkpoint = work / "checkpoint.safetensors"
    return task, train(task, decoder, config, checkpoint_path=checkpoint, on_model=snapshot, control=control)


def snapshot_rows(work: Path) -> pd.DataFrame:
    """The attention maps that `train_parity` stored in `work`, in order."""
    return concat(read(file) for file in sorted((work / "snapshots").glob("*.parquet")))
