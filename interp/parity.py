"""One parity training run as plain numbers, and how it is trained: what every parity claim's items are."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interp.claim import Item
from probes.rows import concat, read, setting, write

if TYPE_CHECKING:
    import pandas as pd
    from transformer_lens.model_bridge import TransformerBridge

    from toy_models.tasks.parity import Parity
    from toy_models.training import TrainResult


SHOWN = 64
"""Inputs over which a snapshot's mean attention is taken."""


@dataclass(frozen=True)
class ParityRun:
    """A run of the standard decoder on parity; the seed also draws the secret set."""

    cot: bool
    n: int
    k: int
    seed: int
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

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        condition = "cot" if self.cot else "no_cot"
        size = f"n={self.n},k={self.k},L={self.layers},H={self.heads},d={self.d_model}"
        return Item(f"{condition},{size},lr={self.lr:g},seed={self.seed}", asdict(self))

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that say which run a row belongs to."""
        return {
            "run": self.item.name,
            "condition": "cot" if self.cot else "no_cot",
            "unit": str(self.seed),
            "setting": setting(
                n=self.n, k=self.k, layers=self.layers, heads=self.heads, d_model=self.d_model,
                lr=self.lr, eval_every=self.eval_every,
            ),
        }  # fmt: skip


def train_parity(run: ParityRun, work: Path, snapshots: int = 0) -> "tuple[Parity, TrainResult]":
    """Trains `run`, resuming from the checkpoint in `work` if there is one.

    Attention maps are kept in `work` at the start and about `snapshots` times after; `snapshot_rows` reads them.
    """
    import torch

    from toy_models.measurement import attention_rows
    from toy_models.models.decoder import DecoderConfig
    from toy_models.tasks.parity import Parity
    from toy_models.training import TrainConfig, train

    task = Parity(n=run.n, k=run.k, cot=run.cot, secret_seed=run.seed)
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
    shown = task.sample(SHOWN, torch.Generator().manual_seed(run.seed))

    def snapshot(samples: int, model: "TransformerBridge") -> None:
        interval = -(-run.budget // max(snapshots, 1))
        if snapshots and samples // interval != (samples - run.eval_every) // interval:
            maps = attention_rows(model, task, shown, samples, **run.labels, n_inputs=2)
            write(work / "snapshots" / f"{samples:012d}.parquet", maps)

    checkpoint = work / "checkpoint.safetensors"
    return task, train(task, decoder, config, checkpoint_path=checkpoint, on_model=snapshot)


def snapshot_rows(work: Path) -> "pd.DataFrame":
    """The attention maps that `train_parity` kept in `work`, in order."""
    return concat(read(file) for file in sorted((work / "snapshots").glob("*.parquet")))
