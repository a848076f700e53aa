"""How are fine-tuned models measured, dose by dose? The experiment of wen2024/fig6-finetune, and a view of its rows.

A run is trained once; at every dose it stops, is measured, and goes on. The rows of a dose are on disk before the
next begins, so that a run that is killed goes on from its last checkpoint and measures no dose twice.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.core.problem_runs import clusters_of
from probes import rows

if TYPE_CHECKING:
    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.problems import Problem

TEXTS = {"cot": "CoT text", "no_cot": "text without CoT", "prose": "prose"}
ARMS, OTHERS = tuple(TEXTS), ("no_cot", "prose")
TRAINED_ON = {"cot": "cot_clean", "no_cot": "no_cot", "prose": "cot"}
"""The condition of each arm's texts: those with CoT and without end in the same sentence, so that learning to write
that sentence is no difference between them; a passage of prose is its own `cot`."""
BASE = "base"
FINAL = "final"
"""The scope of the sentence " The answer is N.", whose tokens are the same after CoT and without."""
CONDITIONS = ("cot", "cot_clean", "no_cot")
METRICS = ("min", "mean", "sink_excluded_min", "entropy_nats_min")
TRAINING = ("training_loss", "forwarded_tokens", "supervised_tokens", "passages")
"""Metrics of a training run; its unit is the seed."""
Table = Float[np.ndarray, "problem run"]


def run_name(arm: str, seed: int) -> str:
    """The run of one arm and seed."""
    return f"{arm}-tuned seed={seed}"


def attention_rows(model: "LoadedModel", problems: Sequence["Problem"], run: str, out: Path) -> pd.DataFrame:
    """Mean over heads of each metric, by problem: all tokens of CoT text, and the closing sentence after CoT or none.

    The measurement is in `out`, and goes on there after a kill. A problem whose sentence is not the same tokens in
    both texts has no rows of it.
    """
    from hf_analysis.measurement.measure import measure

    options = {"metrics": METRICS, "scopes": ("all", FINAL), "resume": True, "run": run}
    heads = measure(model, problems, CONDITIONS, out, **options)
    read = (heads["scope"] == FINAL) | ((heads["condition"] == "cot") & (heads["metric"] == "min"))
    place = ["unit", "condition", "metric", "scope", "n_tokens"]
    found = heads[read].groupby(place, sort=False, as_index=False)["value"].mean()
    return rows.table(run=run, **{name: found[name].to_numpy() for name in (*place, "value")})


def dose_rows(
    model: "LoadedModel", problems: Sequence["Problem"], prose: Sequence["Problem"], run: str, dose: int, work: Path
) -> pd.DataFrame:
    """Attention and held-out losses of one model; `setting` names the dose."""
    from hf_analysis.finetuning import loss_rows

    attention = attention_rows(model, problems, run, work / f"measurement-{dose}")
    losses = [
        loss_rows(model, prose if arm == "prose" else problems, [text], run=run).assign(condition=arm)
        for arm, text in TRAINED_ON.items()
    ]
    return rows.concat([attention, *losses]).assign(setting=rows.setting(dose=dose))


def tuned_rows(
    model: "LoadedModel",
    texts: Sequence["Problem"],
    arm: str,
    config: Any,
    doses: Sequence[int],
    measured: Callable[["LoadedModel", str, int], pd.DataFrame],
    work: Path,
) -> pd.DataFrame:
    """Trains one run and measures it at every dose; goes on where it was killed."""
    from hf_analysis.finetuning import Finetuner, history_rows

    run, path = run_name(arm, config.seed), work / "checkpoint.safetensors"
    tuner = Finetuner(model, texts, TRAINED_ON[arm], config)
    if path.exists():
        tuner.restore(path)
    for dose in doses:
        file = _file(work, dose)
        if not file.exists():
            rows.write(file, measured(tuner.train(dose, path).model, run, dose))
    history = history_rows(tuner.history, condition=arm, seed=config.seed, run=run)
    return rows.concat([history, *(rows.read(_file(work, dose)) for dose in doses)])


def _file(work: Path, dose: int) -> Path:
    return work / "doses" / f"{dose}.parquet"


@dataclass(frozen=True)
class Tuned:
    """What the parts read, by held-out problem; NaN where a problem was not measured."""

    units: tuple[str, ...]
    """The problems."""
    passages: tuple[str, ...]
    """The held-out passages of prose."""
    entropy: Mapping[tuple[str, str, str, str, int], Float[np.ndarray, "problem"]]
    """Mean over heads, by metric, scope, text, run and dose."""
    losses: Mapping[tuple[str, str, int], Float[np.ndarray, "text"]]
    """Held-out loss, by text, run and dose."""
    totals: Mapping[str, pd.Series]
    """Of each arm, means over training runs: tokens and passages."""
    seeds: tuple[int, ...]
    doses: tuple[int, ...]
    """Larger than 0."""

    def clusters(self, arm: str = "cot") -> np.ndarray:
        """The template of each problem; a passage of prose is its own."""
        return clusters_of(self.passages if arm == "prose" else self.units)

    def change(self, place: tuple[str, str, str], arm: str, dose: int) -> Table:
        """An arm's models minus the base, by problem and training run."""
        base = self.entropy[*place, BASE, 0]
        return np.stack([self.entropy[*place, run_name(arm, seed), dose] - base for seed in self.seeds], axis=1)

    def loss_change(self, text: str, arm: str, dose: int) -> Table:
        """How an arm's training changed the held-out loss on a text."""
        base = self.losses[text, BASE, 0]
        return np.stack([self.losses[text, run_name(arm, seed), dose] - base for seed in self.seeds], axis=1)


def summary(table: pd.DataFrame) -> Tuned:
    """Entropies and losses by problem, run and dose, and what the runs were trained on."""
    training = table[table["metric"].isin(TRAINING)]
    measured = rows.with_settings(table[~table["metric"].isin(TRAINING)])
    losses = measured[measured["metric"] == "answer_loss"]
    attention = measured[measured["metric"] != "answer_loss"]
    prose = losses["condition"] == "prose"
    units, passages = (tuple(sorted(losses[which]["unit"].unique())) for which in (~prose, prose))
    totals = training.groupby(["condition", "metric"])["value"].mean()
    return Tuned(
        units=units,
        passages=passages,
        entropy=dict(_by_unit(attention, ["metric", "scope", "condition", "run", "dose"], units)),
        losses={
            **dict(_by_unit(losses[~prose], ["condition", "run", "dose"], units)),
            **dict(_by_unit(losses[prose], ["condition", "run", "dose"], passages)),
        },
        totals={arm: totals[arm] for arm in ARMS},
        seeds=tuple(sorted(int(unit) for unit in training["unit"].unique())),
        doses=tuple(sorted(int(dose) for dose in measured["dose"].unique() if dose > 0)),
    )


def _by_unit(
    table: pd.DataFrame, names: list[str], units: Sequence[str]
) -> Iterator[tuple[Any, Float[np.ndarray, "unit"]]]:
    wide = table.pivot(index="unit", columns=names, values="value").reindex(list(units))
    for place, values in zip(wide.columns, wide.to_numpy().T):
        yield (*place[:-1], int(place[-1])), values
