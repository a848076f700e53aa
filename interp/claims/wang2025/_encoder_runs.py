"""What are the items of wang2025's encoder claims? Runs of a standard encoder on k-fold composition."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from interp.core.claim import Item
from interp.core.loops import evaluations, loop
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from toy_models.kfold.hop_training import HopResult


LOOPS = (loop("budget", "steps", size=64), evaluations("eval_every", of="budget", inputs="n_test"))
"""What a run repeats."""


@dataclass(frozen=True)
class EncoderRun:
    """One encoder trained with Adam; the seed draws hidden permutations, weights and data."""

    told: Literal["head", "token"] = "head"
    """How the hop is given to the model."""
    curriculum: Literal["mixture", "stagewise", "hardest"] = "mixture"
    """Which hops it is trained on."""
    token_from: int = 0
    """The first layer in which other positions may attend to the hop token."""
    readouts: Literal["last", "own"] = "last"
    """Whether all heads read the last layer, or each hop's head a layer of its own, as in the theory model."""
    k: int = 4
    n: int = 5
    layers: int = 4
    d_model: int = 48
    d_mlp: int = 96
    lr: float = 2e-3
    budget: int = 100_000
    n_sequences: int | None = None
    """Size of the training set, seen again and again; None: every sequence is fresh."""
    eval_every: int = 6_400
    n_test: int = 256
    seed: int = 0

    @property
    def condition(self) -> str:
        """The run's name among its claim's conditions."""
        first = "last" if self.token_from == self.layers - 1 else f"from_{self.token_from}"
        hidden = f"_{first}" if self.token_from else ""
        return f"{self.told}{hidden}{'_own' if self.readouts == 'own' else ''}_{self.curriculum}"

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        size = f"k={self.k},n={self.n},L={self.layers},d={self.d_model}"
        size += f",M={self.n_sequences}" if self.n_sequences is not None else ""
        return Item(f"{self.condition},{size},seed={self.seed}", asdict(self))

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that say which run a row belongs to, without the setting."""
        return {"run": self.item.name, "condition": self.condition, "unit": str(self.seed), "scope": "test"}

    @property
    def settings(self) -> dict[str, Any]:
        """What varied, for the column `setting`."""
        return {"k": self.k, "n": self.n, "layers": self.layers, "budget": self.budget}


def train_encoder(run: EncoderRun) -> "HopResult":
    """Trains `run` until it is solved or out of budget."""
    from toy_models.engine.training_run import choose_device
    from toy_models.kfold.encoder import EncoderConfig
    from toy_models.kfold.hop_training import HopTraining, train_hops

    config = HopTraining(
        told=run.told,
        curriculum=run.curriculum,
        token_from=run.token_from,
        seed=run.seed,
        lr=run.lr,
        budget=run.budget,
        n_sequences=run.n_sequences,
        eval_every=run.eval_every,
        n_test=run.n_test,
    )
    encoder = EncoderConfig(run.layers, 4, run.d_model, run.d_mlp, readouts=run.readouts)
    return train_hops(run.k, run.n, encoder, config, choose_device("auto"))


def history_rows(run: EncoderRun, result: "HopResult") -> pd.DataFrame:
    """Accuracy and loss of every hop at every evaluation, and the samples that the hardest hop took.

    `sample_complexity` is there if the hardest hop was learned, otherwise `censored_at`, with the samples seen.
    """
    tables = []
    for found in result.history:
        hops = [setting(**run.settings, hop=hop) for hop in result.task.hops]
        for metric, values in (("accuracy", found.accuracy), ("loss", found.loss)):
            tables.append(table(metric=metric, value=list(values), setting=hops, samples=found.samples, **run.labels))
    needed, seen = result.sample_complexity(), result.history[-1].samples
    metric, value = ("sample_complexity", needed) if needed is not None else ("censored_at", seen)
    tables.append(
        table(metric=metric, value=float(value), samples=seen, setting=setting(**run.settings), **run.labels)
    )
    return concat(tables)


def final_accuracy(rows: pd.DataFrame) -> pd.DataFrame:
    """The accuracy of every hop at the last evaluation: rows with their settings as columns, one per run and hop."""
    curves = with_settings(rows[rows["metric"] == "accuracy"])
    return curves.sort_values("samples").groupby(["condition", "unit", "hop"], as_index=False).last()
