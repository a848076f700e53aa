"""wang2025, Figure 3 right: does a standard encoder learn 4-fold composition from a mixture of hops, and only so?

The hop is given to the model in two ways: by an output head for each hop, all of them trained on every sequence of
the mixture (the paper's equation 3), and by a token in front, as printed. A third encoder is closer to the theory
model: three layers, and each hop's head reads its own. Beyond the paper, attention and linear probes of the models
that learned the task ask how they compute it: by doubling, as Theorem 4 does, or by a chain of single hops.

Why these settings. With a head for each hop, the 2-hop must be learned early enough for another layer to build on it,
and nothing in the training asks for that: with PyTorch's embeddings (standard deviation 1) it is learned in the last
layer, so initial embeddings have 0.1. The probe for the 3-hop is a weak sign of a chain: where the last layer attends
to (i+2, hop^2(j)) it brings along the 1-hop decodable there, which is the 3-hop. The probe (its penalty and its
balanced score) was changed after a first run, in which its test was inconclusive; its parts are exploratory.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from interp.claims.wang2025._encoder_runs import EncoderRun, final_accuracy, history_rows, train_encoder
from interp.core.claim import Claim, Item, register
from interp.core.judging import seed_verdict
from interp.core.verdict import Verdict
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wang2025/fig3-right"
LEARNS = 0.9
"""The accuracy of the hardest hop that counts as learned."""
CHANCE = 0.3
"""The accuracy below which it is not learned at all; chance level is 1/N, 0.2 for N=5."""
LOOKS = 0.5
"""The attention of some head on a key above which the model attends there."""
TOLD = {"head": "a head for each hop", "head_own": "a head and a layer for each hop", "token": "hop told by a token"}
BETTER = 0.3
"""How much better a linear probe must decode the (k/2)-hop than the (k-1)-hop."""


@dataclass(frozen=True)
class Fig3Right:
    """Every run for every seed, and the sequences on which attention and probes are measured."""

    runs: tuple[EncoderRun, ...]
    n_probed: int
    seeds: int


MIXTURE = EncoderRun("head", "mixture")
HARDEST = EncoderRun("head", "hardest")
TOKEN = EncoderRun("token", "mixture")
OWN = EncoderRun("head", "mixture", readouts="own", layers=3)
"""As many layers as hops, and each hop's head reads its own, as in the theory model."""


def _resized(*runs: EncoderRun, **size: Any) -> tuple[EncoderRun, ...]:
    return tuple(replace(run, **size) for run in runs)


PRESETS = {
    "smoke": Fig3Right(
        _resized(
            MIXTURE, HARDEST, TOKEN, OWN,
            k=2, n=3, layers=2, d_model=16, d_mlp=32, budget=1_280, eval_every=640, n_test=32,
        ),
        n_probed=8, seeds=2,
    ),
    "cpu": Fig3Right((MIXTURE, HARDEST, TOKEN, OWN), n_probed=64, seeds=5),
    "paper": Fig3Right(
        _resized(
            MIXTURE, HARDEST, TOKEN, OWN, replace(HARDEST, told="token"), replace(TOKEN, token_from=3),
            d_model=128, d_mlp=512, lr=1e-3,
        ),
        n_probed=256, seeds=10,
    ),
}  # fmt: skip


def items(preset: Fig3Right) -> list[Item]:
    """One item for each run and seed."""
    return [
        Item(item.name, {**item.parameters, "n_probed": preset.n_probed})
        for run in preset.runs
        for item in (replace(run, seed=seed).item for seed in range(preset.seeds))
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


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The hardest hop's accuracy by condition; then how the models that learned it compute it."""
    final = final_accuracy(rows)
    hardest = final[final["hop"] == final["hop"].max()]
    verdicts = []
    for condition, group in hardest.groupby("condition"):
        told, curriculum = str(condition).rsplit("_", 1)
        learns = curriculum != "hardest"
        n_learned = int((group["value"] >= LEARNS).sum())
        others = final[(final["condition"] == condition) & (final["hop"] < final["hop"].max())]
        by_hop = ", ".join(
            f"{hop:.0f}-hop {value:.3f}" for hop, value in others.groupby("hop")["value"].mean().items()
        )
        verdicts.append(
            seed_verdict(
                ID,
                f"{TOLD.get(told, told.replace('_', ' '))}: "
                + ("the mixture learns the hardest hop" if learns else "the hardest hop alone stays at chance"),
                group["value"],
                f"test accuracy of the {group['hop'].iloc[0]:.0f}-hop",
                LEARNS if learns else CHANCE,
                "above" if learns else "below",
                f"{n_learned} of {len(group)} seeds learn it; mean accuracy of the others: {by_hop}",
                bounds=(0.0, 1.0),
            )
        )
    for condition in ("head_mixture", "head_own_mixture"):
        verdicts += _how_it_computes(rows, hardest, condition)
    return verdicts + _why_the_token_stalls(rows)


def _how_it_computes(rows: pd.DataFrame, hardest: pd.DataFrame, condition: str) -> list[Verdict]:
    """Doubling or chain, for the models of a condition that learned the hardest hop."""
    learned = hardest[(hardest["condition"] == condition) & (hardest["value"] >= LEARNS)]["unit"]
    of_learned = rows[(rows["condition"] == condition) & rows["unit"].isin(learned)]
    where = TOLD[condition.rsplit("_", 1)[0]]
    mass, probes = (with_settings(of_learned[of_learned["metric"] == name]) for name in ("mass", "probe_accuracy"))
    if mass.empty:
        looks = holds = pd.Series(dtype=float)
    else:
        looks = mass[mass["mask"] == mass["mask"].max()].groupby("unit")["value"].max().clip(upper=1.0)
        best = probes.groupby(["unit", "hop"])["value"].max().unstack("hop")
        k = best.columns.max()
        holds = best[k // 2] - best[k - 1]
    note = f"{len(learned)} models that learned the hardest hop"
    return [
        seed_verdict(
            ID, f"doubling, {where}: the last hop is composed of two halves", looks,
            "attention of some head on (i + k/2, hop^(k/2)(j)), as in Theorem 4's last layer",
            LOOKS, "above", note, (0.0, 1.0),
        ),
        seed_verdict(
            ID, f"doubling, {where}: the half hop is computed and the (k-1)-hop is not", holds,
            "accuracy of linear probes, each largest over layers: (k/2)-hop minus (k-1)-hop", BETTER, "above", note,
        ),
    ]  # fmt: skip


def _why_the_token_stalls(rows: pd.DataFrame) -> list[Verdict]:
    """Is the second hop's attention present when the token says 2, and absent when it says 4?"""
    mass = with_settings(rows[(rows["metric"] == "mass") & (rows["condition"] == "token_mixture")])
    second = mass[mass["mask"] == 1].groupby(["unit", "hop"])["value"].max().unstack("hop")
    if second.shape[1] < 3:
        return []
    hardest = second[second.columns.max()]
    return [
        seed_verdict(
            ID,
            f"{TOLD['token']}: the token switches the second hop's attention off",
            second[2] - hardest,
            "attention of some head on (i+1, hop^1(j)), told the 2-hop minus told the hardest",
            LOOKS,
            "above",
            f"mean {second[2].mean():.2f} told the 2-hop, {hardest.mean():.2f} told the hardest",
        )
    ]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Learning curves by condition; attention and probes of every model trained on the mixture."""
    from interp.claims.wang2025._figures import draw_attention, draw_curves, draw_probes

    drawn = {"accuracy": draw_curves(with_settings(rows[rows["metric"] == "accuracy"]))}
    for condition in ("head_mixture", "head_own_mixture", "token_mixture"):
        of_condition = rows[rows["condition"] == condition]
        how = TOLD[condition.rsplit("_", 1)[0]]
        mass, probes = (with_settings(of_condition[of_condition["metric"] == m]) for m in ("mass", "probe_accuracy"))
        untrained = with_settings(of_condition[of_condition["metric"] == "untrained_accuracy"])
        drawn[f"attention_{condition}"] = draw_attention(mass[mass["hop"] == mass["hop"].max()], how)
        drawn[f"probes_{condition}"] = draw_probes(probes, untrained, how)
    return drawn


register(
    Claim(
        id=ID,
        sentence=(
            "A standard encoder trained with Adam on 10^5 examples learns 4-fold composition from a uniform mixture "
            "of 1-, 2- and 4-fold data, and is unable to learn it from 4-fold data alone."
        ),
        test=(
            f"By seed, at the end of training: the test accuracy of the hardest hop exceeds {LEARNS:g} after the "
            f"mixture and is below {CHANCE:g} after the hardest hop alone. Beyond the paper, for models that learned "
            f"it: some head puts more than {LOOKS:g} of its attention on the key of Theorem 4's last layer, and a "
            f"linear probe finds the (k/2)-hop more often, by {BETTER:g}, than the (k-1)-hop, which doubling does "
            "not need; and for the token form: attention on the second layer's key falls by more than "
            f"{LOOKS:g} from the 2-hop token to the token of the hardest hop. 95% intervals over seeds."
        ),
        deviations=(
            "The paper does not state its encoder's size or Adam's settings; here pre-LayerNorm, 4 layers, width 48, "
            "4 heads, an MLP of width 96, learning rate 2e-3, batches of 64. The paper's M = 10^5 examples may be a "
            "dataset that is repeated; here they are 10^5 fresh sequences, one pass, fewer if solved before. Every "
            "cyclic position is supervised. The 256 held-out sequences (5,120 labels) that end training are also "
            "reported on. cpu: five seeds. paper: width 128, both controls and 10 seeds. That the mixture is learned "
            "and the hardest hop alone is not is a statement about one model under two training sets. The smoke "
            "preset is far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
