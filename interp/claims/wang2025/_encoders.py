"""What do trained encoders show? The parts of wang2025/fig3-right: which data teach, and how models compute it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from interp.claims.wang2025._encoder_runs import final_accuracy
from interp.claims.wang2025._parts import AT_CHANCE, MOST, WHY_MOST
from interp.core.judging import mean_over, share_of
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval, proportion_difference
from probes.rows import with_settings

LEARNS = 0.9
"""The accuracy of the hardest hop that counts as learned."""
LOOKS = 0.5
"""The attention of some head on a key above which the model attends there."""
BETTER = 0.3
"""How much better a linear probe must decode the (k/2)-hop than the (k-1)-hop."""
TOLD = {
    "head": "a head for each hop",
    "head_own": "a head and a layer for each hop",
    "token": "hop told by a token",
    "token_last": "hop told by a token that the last layer alone sees",
}
SAID = "Section 6, Figure 3 right"
LEARNED_FROM = {
    "token_mixture": f"{SAID}: with the hop prepended, uniformly mixed examples teach the 4-fold task",
    "head_mixture": f"{SAID}, with section 5.4's equivalent: several hops are predicted for each sequence at once",
}


@dataclass(frozen=True)
class Encoders:
    """What the parts read: tables with a line for each seed and a column for each condition."""

    accuracy: pd.DataFrame
    """Of the hardest hop, on test sequences, at the end."""
    easier: pd.DataFrame
    """Final accuracy of every hop, one line for each run and hop."""
    looks: pd.DataFrame
    """The largest attention of a head on the key of Theorem 4's last layer."""
    holds: pd.DataFrame
    """Accuracy of the best linear probe for the (k/2)-hop minus that for the (k-1)-hop."""
    told: pd.DataFrame
    """Of the model with a hop token: the largest attention on the second layer's key, a column for each hop told."""
    chance: float


def summary(rows: pd.DataFrame) -> Encoders:
    """Final accuracies, and the attention and probes of models trained on a mixture."""
    final = final_accuracy(rows)
    hardest = final[final["hop"] == final["hop"].max()]
    mass, probes = (with_settings(rows[rows["metric"] == metric]) for metric in ("mass", "probe_accuracy"))
    best = probes.groupby(["unit", "condition", "hop"])["value"].max().unstack("hop")
    k = int(best.columns.max())
    last = mass[(mass["mask"] == mass["mask"].max()) & (mass["hop"] == mass["hop"].max())]
    token = mass[(mass["condition"] == "token_mixture") & (mass["mask"] == 1)]
    return Encoders(
        accuracy=hardest.pivot(index="unit", columns="condition", values="value"),
        easier=final,
        looks=last.groupby(["unit", "condition"])["value"].max().clip(upper=1.0).unstack("condition"),
        holds=(best[k // 2] - best[k - 1]).unstack("condition"),
        told=token.groupby(["unit", "hop"])["value"].max().unstack("hop"),
        chance=1 / float(final["n"].iloc[0]),
    )


def encoder_parts(conditions: Sequence[str]) -> list[Part]:
    """What each training set teaches, and, of the models that learned the hardest hop, how they compute it."""
    mixtures = [condition for condition in conditions if condition.endswith("_mixture")]
    alone = [condition for condition in conditions if condition.endswith("_hardest")]
    doubling = [condition for condition in mixtures if condition.startswith("head")]
    return [
        *(_helps(condition) for condition in alone),
        *(_learned(condition) for condition in mixtures),
        *(_at_chance(condition) for condition in alone),
        *(part for condition in doubling for part in _doubling(condition)),
        Part(
            key="switched_off",
            name=f"{TOLD['token']}: the token switches the second hop's attention off",
            role="ours",
            quantity="attention of some head on (i+1, hop^1(j)), told the 2-hop minus told the hardest; seeds' mean",
            estimate=switched_off,
            direction="above",
            threshold=LOOKS,
            why="attended to when the 2-hop is told, and no longer when the hardest is",
            unit="seeds",
            note=_when_told,
        ),
    ]


def _helps(condition: str) -> Part:
    told, words = _key(condition), told_in(condition)
    return Part(
        key="helps" if told == "head" else f"helps_{told}",
        name=f"easier hops in the training data help to learn the hardest, {words}",
        role="paper",
        source=f"{SAID}: training with a curriculum learning strategy helps the model to learn the 4-fold task",
        primary=told == "head",
        quantity="share of runs that learn the hardest hop from the mixture minus share that learns it from the "
        f"hardest hop alone, {words}",
        estimate=partial(gain, told=told),
        direction="above",
        threshold=0.0,
        why="helps: any increase",
        unit="runs",
    )


def _key(condition: str) -> str:
    return condition.rsplit("_", 1)[0]


def told_in(condition: str) -> str:
    """How a condition tells the model its hop, in words."""
    return TOLD.get(_key(condition), _key(condition).replace("_", " "))


def _learned(condition: str) -> Part:
    source = LEARNED_FROM.get(condition, "")
    return Part(
        key=f"learned_{_key(condition)}",
        name=f"{told_in(condition)}: the mixture teaches the hardest hop",
        role="paper" if source else "ours",
        source=source,
        primary=condition == "token_mixture",
        quantity=f"share of seeds with a test accuracy of the hardest hop of at least {LEARNS:g}",
        estimate=partial(share_learned, condition=condition),
        direction="above",
        threshold=MOST,
        why=f"{WHY_MOST}; a run that has not learned yet may learn in more passes, so a share is a lower bound",
        unit="seeds",
        note=partial(_other_hops, condition=condition),
    )


def _at_chance(condition: str) -> Part:
    return Part(
        key=f"alone_{_key(condition)}",
        name=f"{told_in(condition)}: the hardest hop alone teaches nothing",
        role="paper",
        source=f"{SAID}: if we only train on the 4-fold composition data, the transformer is unable to learn",
        quantity=f"share of seeds with a test accuracy of the hardest hop below guessing plus {AT_CHANCE:g}",
        estimate=partial(share_at_chance, condition=condition),
        direction="above",
        threshold=MOST,
        why=WHY_MOST,
        unit="seeds",
    )


def _doubling(condition: str) -> list[Part]:
    where = told_in(condition)
    note = partial(_how_many, condition=condition)
    return [
        Part(
            key=f"halves_{_key(condition)}",
            name=f"doubling, {where}: the last hop is composed of two halves",
            role="ours",
            quantity="share of models that learned the hardest hop in which some head has more than "
            f"{LOOKS:g} of its attention on (i + k/2, hop^(k/2)(j))",
            estimate=partial(share_doubling, condition=condition),
            direction="above",
            threshold=MOST,
            why="Theorem 4's last layer attends there; said of most models",
            unit="seeds",
            note=note,
        ),
        Part(
            key=f"half_hop_{_key(condition)}",
            name=f"doubling, {where}: the half hop is computed and the (k-1)-hop is not",
            role="ours",
            quantity="accuracy of linear probes, each largest over layers: (k/2)-hop minus (k-1)-hop, mean over "
            "models that learned the hardest hop",
            estimate=partial(probe_gap, condition=condition),
            direction="above",
            threshold=BETTER,
            why="ours: a chain of single hops computes both, doubling the first alone",
            unit="seeds",
            note=note,
        ),
    ]


def gain(found: Encoders, level: float, *, told: str) -> Interval | NotMeasurable:
    """The difference between two shares of runs that learned the hardest hop: from the mixture, and from it alone."""
    mixed, alone = (found.accuracy[f"{told}_{which}"].dropna() >= LEARNS for which in ("mixture", "hardest"))
    return proportion_difference((int(mixed.sum()), len(mixed)), (int(alone.sum()), len(alone)), level=level)


def share_learned(found: Encoders, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The share of seeds that learned the hardest hop; open above if the budget ended before one did."""
    learned = found.accuracy[condition].dropna() >= LEARNS
    share = share_of(learned, level)
    if isinstance(share, NotMeasurable) or learned.all():
        return share
    return Interval(share.value, share.low, 1.0, level, share.n, f"{share.method}, open above")


def share_at_chance(found: Encoders, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The share of seeds that learned nothing of the hardest hop."""
    return share_of(found.accuracy[condition].dropna() < found.chance + AT_CHANCE, level)


def _of_learned(found: Encoders, values: pd.DataFrame, condition: str) -> pd.Series | NotMeasurable:
    learned = found.accuracy.index[found.accuracy[condition] >= LEARNS]
    of = values[condition].reindex(learned) if condition in values else pd.Series(dtype=float)
    return of if len(of) else NotMeasurable("no model learned the hardest hop")


def share_doubling(found: Encoders, level: float, *, condition: str) -> Interval | NotMeasurable:
    """The share of models that learned in which some head attends as Theorem 4's last layer does."""
    looks = _of_learned(found, found.looks, condition)
    return looks if isinstance(looks, NotMeasurable) else share_of(looks > LOOKS, level)


def probe_gap(found: Encoders, level: float, *, condition: str) -> Interval | NotMeasurable:
    """How much better the (k/2)-hop is decoded than the (k-1)-hop."""
    holds = _of_learned(found, found.holds, condition)
    return holds if isinstance(holds, NotMeasurable) else mean_over(holds, level, bounds=(-1.0, 1.0))


def switched_off(found: Encoders, level: float) -> Interval | NotMeasurable:
    """The attention on the second layer's key when the 2-hop is told, minus that when the hardest is."""
    if found.told.shape[1] < 3:
        return NotMeasurable("the 2-hop is the hardest, or nothing was told by a token")
    return mean_over(np.asarray(found.told[2] - found.told[found.told.columns.max()]), level, bounds=(-1.0, 1.0))


def _other_hops(found: Encoders, condition: str) -> str:
    of = found.easier[(found.easier["condition"] == condition) & (found.easier["hop"] < found.easier["hop"].max())]
    means = of.groupby("hop")["value"].mean()
    return "mean accuracy of the other hops: " + ", ".join(f"{hop:.0f}-hop {mean:.3f}" for hop, mean in means.items())


def _how_many(found: Encoders, condition: str) -> str:
    learned = found.accuracy[condition] >= LEARNS
    return f"{learned.sum()} of {len(learned)} models learned the hardest hop; only these are judged"


def _when_told(found: Encoders) -> str:
    means = found.told.mean()
    return "mean attention by the hop told: " + ", ".join(f"{hop:.0f}-hop {mean:.2f}" for hop, mean in means.items())
