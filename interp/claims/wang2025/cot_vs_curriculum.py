"""wang2025, beyond the paper: does CoT teach k-fold composition from fewer samples than training on easier hops?

The paper compares a curriculum with no help; its discussion names chain of thought as the other remedy (kim2024,
wen2024) without an experiment. Here both learn the same 4-fold composition, and are compared by sequences. Easier
hops: the encoder of fig3-right with a head for each hop, trained on the mixture or stage by stage, all hops of all kN
positions labelled. Chain of thought: the standard decoder, one query per sequence, every intermediate hop a token, so
k labels per sequence. The control has neither help. Initial embeddings have a standard deviation of 0.1, because the
decoder stayed at chance level with GPT-2's 0.02.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from interp.claims.wang2025._encoder_runs import EncoderRun, history_rows, train_encoder
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged
from interp.statistics import bootstrap_mean
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wang2025/cot-vs-curriculum"
FEWER = 0.0
"""log10 of the factor by which chain of thought must save samples: any saving counts."""
CHANCE = 0.3
"""The accuracy below which nothing was learned; chance level is 1/N, 0.2 for N=5."""
SOLVED = 0.99
"""The accuracy at which the last hop counts as learned, for both models."""


@dataclass(frozen=True)
class DecoderRun:
    """The decoder with or without chain of thought."""

    cot: bool
    k: int = 4
    n: int = 5
    layers: int = 4
    d_model: int = 48
    d_mlp: int = 96
    lr: float = 2e-3
    budget: int = 50_000
    eval_every: int = 3_200
    n_test: int = 256
    seed: int = 0

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that say which run a row belongs to, without the setting."""
        condition = "cot" if self.cot else "no_cot"
        return {
            "run": f"{condition},seed={self.seed}",
            "condition": condition,
            "unit": str(self.seed),
            "scope": "test",
        }

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        return Item(self.labels["run"], asdict(self))


@dataclass(frozen=True)
class CotVsCurriculum:
    """Every encoder and decoder for every seed."""

    encoders: tuple[EncoderRun, ...]
    decoders: tuple[DecoderRun, ...]
    seeds: int


_SMOKE = {
    "k": 2, "n": 4, "layers": 2, "d_model": 16, "d_mlp": 32, "budget": 1_280, "eval_every": 640, "n_test": 32
}  # fmt: skip
_CPU = {"budget": 50_000, "eval_every": 3_200}
_PAPER = {"budget": 100_000, "eval_every": 1_600, "d_model": 128, "d_mlp": 512}


def _preset(seeds: int, **size: Any) -> CotVsCurriculum:
    return CotVsCurriculum(
        tuple(EncoderRun("head", curriculum, **size) for curriculum in ("mixture", "stagewise")),
        (DecoderRun(True, **size), DecoderRun(False, **size)),
        seeds,
    )


PRESETS = {"smoke": _preset(2, **_SMOKE), "cpu": _preset(5, **_CPU), "paper": _preset(10, **_PAPER)}


def items(preset: CotVsCurriculum) -> list[Item]:
    """One item for each model and seed."""
    runs: list[EncoderRun | DecoderRun] = [*preset.encoders, *preset.decoders]
    return [replace(run, seed=seed).item for run in runs for seed in range(preset.seeds)]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model."""
    if "told" in item.parameters:
        run = EncoderRun(**item.parameters)
        return history_rows(run, train_encoder(run))
    return _decoder_rows(DecoderRun(**item.parameters), work)


def _decoder_rows(run: DecoderRun, work: Path) -> pd.DataFrame:
    """Accuracy of the last token, free-running, at every evaluation, and the samples that it took."""
    import torch

    from toy_models.engine.decoder import DecoderConfig
    from toy_models.engine.evaluation import rollout
    from toy_models.engine.forward import HookedForward
    from toy_models.engine.training import TrainConfig, train
    from toy_models.kfold.cot_task import KFoldCot

    task = KFoldCot(k=run.k, n=run.n, cot=run.cot, hidden_seed=run.seed)
    test = task.sample(run.n_test, torch.Generator().manual_seed(run.seed + 2_000_000))
    place = setting(k=run.k, n=run.n, layers=run.layers, budget=run.budget, hop=run.k)
    curve: dict[int, float] = {}

    def last_hop(samples: int, model: Any) -> None:
        here = test.to(next(model.parameters()).device)
        predicted = rollout(HookedForward(model), here)[:, -1]
        curve[samples] = (predicted == here.answers[:, -1]).double().mean().item()

    config = TrainConfig(
        seed=run.seed, lr=run.lr, batch_size=64, budget=run.budget, eval_every=run.eval_every,
        n_validation=run.n_test, n_test=run.n_test, entropy_inputs=16,
    )  # fmt: skip
    decoder = DecoderConfig(run.layers, 4, run.d_model, run.d_mlp, init_std=0.1, tied=False)
    result = train(task, decoder, config, on_model=last_hop)
    needed = next((samples for samples, value in curve.items() if value >= SOLVED), result.sample_complexity)
    metric, value = ("sample_complexity", needed) if needed is not None else ("censored_at", max(curve))
    return concat(
        [
            table(metric="accuracy", value=list(curve.values()), samples=list(curve), setting=place, **run.labels),
            table(metric=metric, value=float(value), samples=max(curve), setting=place, **run.labels),
        ]
    )


def complexities(rows: pd.DataFrame) -> pd.DataFrame:
    """Sequences until the last hop is learned, by condition and seed; `censored` marks runs that never learned it."""
    found = with_settings(rows[rows["metric"].isin(["sample_complexity", "censored_at"])])
    return found.assign(censored=found["metric"] == "censored_at")


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The saving of chain of thought over each curriculum, paired by seed, and the control without either."""
    found = complexities(rows)
    samples = found.pivot(index="unit", columns="condition", values="value")
    censored = found.groupby("condition")["censored"].sum()
    k, n = int(found["k"].iloc[0]), int(found["n"].iloc[0])
    verdicts = []
    for condition, name in (
        ("head_mixture", "a mixture of easier hops"),
        ("head_stagewise", "easier hops in stages"),
    ):
        saving = bootstrap_mean(np.log10(samples[condition] / samples["cot"]).to_numpy(), rng=0)
        saving = saving.opened(up=bool(censored[condition]), down=bool(censored["cot"]))
        labels = {"cot": k, condition: k * n * k.bit_length()}
        shown = ", ".join(f"{c}: {samples[c].mean():.0f} sequences of at most {m} labels" for c, m in labels.items())
        verdicts.append(
            judged(
                saving,
                claim=ID,
                part=f"chain of thought takes fewer sequences than {name}",
                quantity="log10 of sequences with easier hops / with chain of thought",
                threshold=FEWER,
                direction="above",
                unit="seeds",
                note=f"{shown}; out of budget: {censored['cot']} and {censored[condition]} of {len(samples)} seeds",
            )
        )
    final = with_settings(rows[(rows["metric"] == "accuracy") & (rows["condition"] == "no_cot")])
    last = final.sort_values("samples").groupby("unit")["value"].last()
    verdicts.append(
        judged(
            bootstrap_mean(last.to_numpy(), rng=0),
            claim=ID,
            part="without chain of thought and easier hops the decoder stays at chance",
            quantity=f"test accuracy of the {k}-hop",
            threshold=CHANCE,
            direction="below",
            unit="seeds",
        )
    )
    return verdicts


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Accuracy of the last hop against the sequences seen."""
    from matplotlib.ticker import EngFormatter

    from interp.figures.style import SERIES, new_figure, styled

    accuracy = with_settings(rows[rows["metric"] == "accuracy"])
    hardest = accuracy[accuracy["hop"] == accuracy["hop"].max()]
    names = {
        "cot": "decoder, chain of thought",
        "head_mixture": "encoder, mixture of hops",
        "head_stagewise": "encoder, hops in stages",
        "no_cot": "decoder, answer only",
    }
    with styled():
        figure = new_figure(6.2, 4.0)
        axes = figure.subplots()
        for style, (condition, name) in zip(SERIES, names.items()):
            for number, (_, of_seed) in enumerate(hardest[hardest["condition"] == condition].groupby("unit")):
                line = of_seed.sort_values("samples")
                label = name if number == 0 else None
                axes.plot(line["samples"], line["value"], **style, markersize=3, linewidth=1, alpha=0.8, label=label)
        axes.axhline(1 / hardest["n"].iloc[0], color="0.4", linewidth=0.8, linestyle=":", label="guessing")
        axes.set(
            xlabel="training sequences seen",
            ylabel=f"test accuracy of the {hardest['hop'].max():.0f}-hop",
            ylim=(0, 1.04),
        )
        axes.xaxis.set_major_formatter(EngFormatter())
        axes.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return {"accuracy": figure}


register(
    Claim(
        id=ID,
        sentence=(
            "Beyond the paper: writing out every intermediate hop (chain of thought) teaches k-fold composition "
            "from fewer sequences than training on easier hops does; without either it is not learned."
        ),
        test=(
            f"Sequences until the k-hop has a test accuracy of {SOLVED:g} (the chain free-running), paired by seed: "
            f"the log10 of easier hops over chain of thought exceeds {FEWER:g}, for the mixture and for stages; a "
            f"run out of budget enters as a bound. The decoder without chain of thought ends below {CHANCE:g}. 95% "
            "intervals over seeds."
        ),
        deviations=(
            "The paper has no such experiment. Both models have the same width, layers, batch size and initial "
            "learning rate; the decoder's rate decays linearly to 0 over its budget, the encoder's is constant. A "
            "sequence has kN labels for each hop with the encoder and k labels with the decoder. cpu: k = 4, N = 5, "
            "50,000 sequences, five seeds. paper: wider models, 100,000 sequences, ten seeds. The comparison is "
            "between two ways to learn one function, paired by seed. The smoke preset is far smaller still: it tests "
            "the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
