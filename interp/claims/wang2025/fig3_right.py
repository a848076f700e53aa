"""wang2025, Figure 3 right: does a standard encoder learn 4-fold composition from a mixture of hops, and only so?

The hop is given to the model in two ways: by an output head for each hop, all of them trained on every sequence of
the mixture (the paper's equation 3), and by a token in front, as printed. A third encoder is closer to the theory
model: three layers, and each hop's head reads its own; in a fourth only the last layer sees the token. Beyond the
paper, attention and linear probes of the models that learned the task ask how they compute it: by doubling, as
Theorem 4 does, or by a chain of single hops.

Why these settings. With a head for each hop, the 2-hop must be learned early enough for another layer to build on it,
and nothing in the training asks for that: with PyTorch's embeddings (standard deviation 1) it is learned in the last
layer, so initial embeddings have 0.1. The probe for the 3-hop is a weak sign of a chain: where the last layer attends
to (i+2, hop^2(j)) it brings along the 1-hop decodable there, which is the 3-hop. The probe (its penalty and its
balanced score) was changed after a first run, in which its test was inconclusive.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from interp.claims.wang2025._encoder_runs import LOOPS, EncoderRun, history_rows, train_encoder
from interp.claims.wang2025._encoders import BETTER, LOOKS, encoder_parts, summary, told_in
from interp.claims.wang2025._parts import MOST
from interp.claims.wang2025._worlds import joined, simulated_accuracy
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.parts import Part
from probes.rows import concat, setting, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wang2025/fig3-right"


@dataclass(frozen=True)
class Fig3Right:
    """Every run for every seed, and the sequences on which attention and probes are measured."""

    runs: tuple[EncoderRun, ...]
    n_probed: int
    seeds: int
    first_unit: int = 0


MIXTURE = EncoderRun("head", "mixture")
HARDEST = EncoderRun("head", "hardest")
TOKEN = EncoderRun("token", "mixture")
HIDDEN = replace(TOKEN, token_from=3)
"""The last of four layers alone sees the token."""
OWN = EncoderRun("head", "mixture", readouts="own", layers=3)
"""As many layers as hops, and each hop's head reads its own, as in the theory model."""


def _resized(*runs: EncoderRun, **size: Any) -> tuple[EncoderRun, ...]:
    return tuple(replace(run, **size) for run in runs)


PRESETS = {
    "smoke": Fig3Right(
        _resized(
            MIXTURE, HARDEST, TOKEN, OWN, *_resized(HIDDEN, replace(HIDDEN, curriculum="hardest"), token_from=1),
            k=2, n=3, layers=2, d_model=16, d_mlp=32, budget=1_280, n_sequences=640, eval_every=640, n_test=32,
        ),
        n_probed=8, seeds=2,
    ),
    "cpu": Fig3Right(
        _resized(
            MIXTURE, replace(HARDEST, budget=300_000), replace(TOKEN, budget=200_000), OWN,
            replace(HIDDEN, budget=400_000), replace(HIDDEN, curriculum="hardest", budget=400_000),
            n_sequences=100_000,
        ),
        n_probed=64, seeds=6,
    ),
    "paper": Fig3Right(
        _resized(
            MIXTURE, HARDEST, TOKEN, OWN, replace(HARDEST, told="token"),
            HIDDEN, replace(HIDDEN, curriculum="hardest"),
            d_model=128, d_mlp=512, lr=1e-3, budget=3_200_000, n_sequences=100_000,
        ),
        n_probed=256, seeds=10,
    ),
}  # fmt: skip


def items(preset: Fig3Right) -> list[Item]:
    """One item for each run and seed."""
    seeds = range(preset.first_unit, preset.first_unit + preset.seeds)
    return [
        Item(item.name, {**item.parameters, "n_probed": preset.n_probed})
        for run in preset.runs
        for item in (replace(run, seed=seed).item for seed in seeds)
    ]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one encoder, then measures its attention and what is decodable from its layers."""
    from interp.claims.wang2025._encoder_probes import mass_rows, probe_rows

    run = EncoderRun(**{name: value for name, value in item.parameters.items() if name != "n_probed"})
    result = train_encoder(run)
    n_probed = item.parameters["n_probed"]
    tables = [history_rows(run, result), mass_rows(result, n_probed, run.labels, run.settings)]
    if run.curriculum != "hardest":
        tables.append(probe_rows(result, n_probed, run.labels, run.settings))
    return concat(tables)


def parts(preset: Fig3Right) -> list[Part]:
    """What each training set of the preset teaches, and how the models that learned compute it."""
    return encoder_parts([run.condition for run in preset.runs])


def _world(
    learned: float, alone: float, halves: float, gap: float, switch: float
) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which seeds learn from the mixture, and alone, with these probabilities, and double with `halves`.

    `gap` and `switch` are the means of the difference between probes and of the attention that the token removes.
    """
    runs, seeds = PRESETS["cpu"].runs, PRESETS["cpu"].seeds
    probed = [run for run in runs if run.told == "head" and run.curriculum == "mixture"]
    kinds = [("mass", {"mask": 2, "hop": 4}), ("probe_accuracy", {"hop": 2}), ("probe_accuracy", {"hop": 3})]
    kinds += [("probe_accuracy", {"hop": 4})]
    told = [("mass", {"mask": 1, "hop": hop}) for hop in (1, 2, 4)]
    lines = [(run, *kind) for run in probed for kind in kinds] + [(TOKEN, *kind) for kind in told]
    place = {
        "run": np.array([f"{run.condition} {seed}" for run, _, _ in lines for seed in range(seeds)]),
        "condition": np.repeat([run.condition for run, _, _ in lines], seeds),
        "unit": np.tile([str(seed) for seed in range(seeds)], len(lines)),
        "setting": np.repeat([setting(**run.settings, **where) for run, _, where in lines], seeds),
        "samples": np.zeros(len(lines) * seeds, int),
        "metric": np.repeat([metric for _, metric, _ in lines], seeds),
    }

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        chances = {run.condition: alone if run.curriculum == "hardest" else learned for run in runs}
        accuracy = {name: np.where(generator.random(seeds) < p, 0.99, 0.2) for name, p in chances.items()}
        values = []
        for _ in probed:
            three = np.clip(1 - gap + generator.normal(0, 0.1, seeds), 0, 1)
            doubles = generator.random(seeds) < halves
            values += [np.where(doubles, 0.95, 0.05), np.ones(seeds), three, np.ones(seeds)]
        values += [np.full(seeds, 0.05), np.clip(0.1 + switch + generator.normal(0, 0.1, seeds), 0, 1)]
        values += [np.full(seeds, 0.1)]
        measured = {**place, "value": np.concatenate(values)}
        return joined(simulated_accuracy(runs, accuracy), measured)

    return rows


_ALONE = ("helps", "helps_token_last", "alone_head", "alone_token_last")
_LEARNED = ("learned_head", "learned_head_own", "learned_token", "learned_token_last")
_MECHANISM = ("halves_head", "half_hop_head", "halves_head_own", "half_hop_head_own", "switched_off")
WORLDS = (
    World(
        "a coin decides whether a run learns, with easier hops and without",
        dict.fromkeys((*_ALONE, *_LEARNED), False),
        _world(learned=MOST, alone=MOST, halves=1.0, gap=0.6, switch=0.8),
    ),
    World(
        "every run learns, half of them by a chain of single hops",
        dict.fromkeys((*_ALONE, *_MECHANISM), False),
        _world(learned=1.0, alone=1.0, halves=MOST, gap=BETTER, switch=LOOKS),
    ),
    World(
        "only the mixture teaches, and models double",
        dict.fromkeys((*_ALONE, *_LEARNED, *_MECHANISM), True),
        _world(learned=1.0, alone=0.0, halves=1.0, gap=0.6, switch=0.8),
    ),
)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Learning curves by condition; attention and probes of every model trained on the mixture."""
    from interp.claims.wang2025._figures import draw_attention, draw_curves, draw_probes

    drawn = {"accuracy": draw_curves(with_settings(rows[rows["metric"] == "accuracy"]))}
    for condition in (name for name in rows["condition"].unique() if name.endswith("_mixture")):
        of_condition = rows[rows["condition"] == condition]
        how = told_in(condition)
        mass, probes = (with_settings(of_condition[of_condition["metric"] == m]) for m in ("mass", "probe_accuracy"))
        untrained = with_settings(of_condition[of_condition["metric"] == "untrained_accuracy"])
        drawn[f"attention_{condition}"] = draw_attention(mass[mass["hop"] == mass["hop"].max()], how)
        drawn[f"probes_{condition}"] = draw_probes(probes, untrained, how)
    return drawn


PUBLISHED = ("accuracy", "mass", "probe_accuracy", "untrained_accuracy")
HISTORY = """\
Before the parts were declared, mean accuracies over seeds were judged, and the token form, which stayed at chance,
was called refuted: the paper's 10^5 examples may be a dataset seen many times, so runs out of budget now bound the
share from below. Doubling was judged by the mean attention over models, now by the share of models.

The probe was changed after a first run: fitted with a weaker penalty and scored by plain accuracy, its test was
inconclusive for heads alone and supported with a layer for each; with the present one both were supported. As parts
are judged now, that of heads alone is inconclusive on those seeds, 0 to 5 (0.47).

The set of 10^5 examples that is seen again, and the three passes of the hardest hop alone, were written without a
pilot: a step of 64 sequences takes about 30 ms of a busy core at width 48 and 140 ms at 128, so that the 50,000
steps of a long training take 25 minutes and two hours a run.

Trials whose rows were not kept, seed 0 unless said, 10^5 sequences unless solved before. A head for each hop: with
PyTorch's embeddings (standard deviation 1) the 2-hop is learned in the last layer, and the 4-hop stays at chance
with 3 and with 4 layers. With 0.1 and 4 layers all of 7 runs solve it, most by doubling; one chain of three looks at
(i+1, hop^1(j)) was seen. With 0.1 and 3 layers 1 of 2 runs does. With a layer of its own for each head, 3 layers and
even PyTorch's embeddings suffice. Labelling one hop per sequence instead of all is enough (2 of 2 runs with 4
layers).

The hop token learned the 1-hop, at best also the 2-hop, and never the 4-hop: with 3 to 6 layers (6 for 3 10^5
sequences), learning rates 3e-4 (for 2 10^5 sequences), 1e-3 and 2e-3, the hops taught in stages (for 2 10^5
sequences, with 3 and with 4 layers), learned, factored and sinusoidal positions, embeddings of 0.1 and 1, MLPs of 8,
96 and 256, the token hidden from all but the last layer, or a cumulative code for the hop. Of the cumulative code
and of one labelled hop per sequence not even the code was kept.

Why the token stalls, looked at in one model: heads of the first layer copy the whole next permutation, and an MLP
looks the 2-hop up; no head composes, so there is nothing for the 4-hop to build on.

Two trials after the run, of its mixture with a token, seed 0: as printed the 4-hop is at chance after ten passes
(998,400 sequences; the 1- and the 2-hop are solved), and with the token hidden from all but the last layer it is
learned after 179,200, which an earlier trial, above, had not found. So what stalls is that early layers compute
otherwise where the hardest hop is asked for. Hence two more arms, the mixture and the hardest hop alone with such a
token, after pilots of the mixture on seeds 0 to 2: learned after 172,800, 313,600 and 198,400 (what differed from the
first trial of seed 0 was not kept). Run without the two new arms on seeds 3000 to 3005: a head for each hop 6 of 6,
the hardest hop alone at chance in 6 of 6, a token 0 of 6."""

register(
    Claim(
        id=ID,
        sentence=(
            "A standard encoder trained with Adam on 10^5 examples learns 4-fold composition from a uniform mixture "
            "of 1-, 2- and 4-fold data, and is unable to learn it from 4-fold data alone."
        ),
        method=(
            "Encoders are trained with Adam on the mixture or on the hardest hop alone, and the accuracy of every "
            "hop is measured on held-out sequences. Of models trained on the mixture, the attention of every head "
            "on the keys of Theorem 4 and linear probes for every hop at every layer are measured afterwards."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: k = 2, N = 3, 1,280 sequences"),
            "cpu": Scale("smaller", "width 48; one to four passes over 10^5 examples; the paper states neither"),
            "paper": Scale("smaller", "width 128; up to 32 passes over 10^5 examples; the paper states neither"),
        },
        finding=(
            "With a head for each hop the mixture taught the hardest hop in {learned_head:.0%} of "
            "{learned_head.n} seeds and the hardest hop alone left {alone_head:.0%} at chance; told by a "
            "token, as printed, {learned_token:.0%} learned it from the mixture before the budget ended; with the "
            "token hidden from all but the last layer {learned_token_last:.0%} did, and the hardest hop alone "
            "left {alone_token_last:.0%} at chance."
        ),
        deviations=(
            "The paper does not state its encoder's size or Adam's settings; here pre-LayerNorm, 4 layers, width 48, "
            "4 heads, an MLP of width 96, learning rate 2e-3, batches of 64. The paper's M = 10^5 examples are read "
            "as a dataset that is repeated; an example of the token form keeps its hop. Training ends when solved, "
            "at the latest after one pass (mixture, heads), two (token), three (hardest hop alone, heads) or four "
            "(token hidden from the first three layers, which is ours); paper: after 32. Every cyclic position is "
            "supervised. The 256 held-out sequences (5,120 labels) that end training are also reported on. cpu: six "
            "seeds. paper: width 128, all controls and 10 seeds. That the mixture is learned and the hardest hop "
            "alone is not is a statement about one model under two training sets. The "
            "smoke preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        published=lambda rows: rows[rows["metric"].isin(PUBLISHED)],
        figures=figures,
        falls_short=(
            "The mixture is read by a head for each hop, or told by a token that the last layer alone sees. With a "
            "token as printed, for all layers, two passes are run (before, on seeds 3000 to 3005, none of six "
            "learned it in them; one trial, seed 0, did not in ten passes). The hardest hop alone is run for three "
            "passes with heads and four with the hidden token. The figure's two curves are not compared as printed."
        ),
        clarity=(
            "The paper does not say how large its encoder is, how it is trained, how often its 10^5 examples are "
            "seen, nor how many seeds the figure shows. A run that has not learned after a few passes is therefore "
            "no evidence against the figure, and that the hardest hop alone fails is shown for as many only. Its "
            "budgets are counted one way: a part on what a mixture teaches is open above where runs ended first, so "
            "it can be supported or stay open but never be refuted, while a hardest hop that was not learned counts "
            "as not learned. `alone_head`, and the hardest hop's share in `helps`, are about three passes, of at "
            "most 4,688 steps; a token's mixture had 3,125. `helps` compares heads for each hop, where the paper has "
            "a token; `helps_token_last` has a token, seen by the last layer alone, and at most as many steps for "
            "both (6,250); it and `alone_token_last` test the paper's words on an encoder that it does not have, and "
            "neither decides. The control of a token as printed is in the `paper` preset alone."
        ),
        history=HISTORY,
    )
)
