"""How are Theorems B.1 and C.1 of huang2025 judged? Facts read off the weights of trained theory models."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from interp.core.claim import Item
from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import setting, table, with_settings

SNAPSHOTS = 40
"""How often the facts are looked at while they are learned."""
ALL, MOST, NEAR, SMALL, ORDER, MORE = 0.9, 0.5, 0.1, 0.1, 0.5, 0.25
RATIO = 0.2
"""How near the ratio of the weights must come to C_alpha, relative to it."""
BEND = 5.0
"""At a large q, rho log d."""
BASE = "C6, large q"
"""The condition that the theorem's parts read; the others change one thing."""


@dataclass(frozen=True)
class NeuronRun:
    """One model that learns the states at length 1; the seed draws weights and sentences."""

    condition: str
    group: str
    d: int
    power: int
    """q of the smoothed ReLU."""
    bend: float
    """The smoothed ReLU is bent up to rho = bend / log d."""
    lr: float
    steps: int
    response: float = 0.0
    """Slope of the response to negative inputs (Assumption B.2)."""
    m: int = 12
    clip: float = 2.0
    seed: int = 0

    @property
    def item(self) -> Item:
        """The run as an item of work."""
        name = self.condition.replace(", ", "_").replace(" ", "_")
        return Item(f"{name},d={self.d},seed={self.seed}", asdict(self))


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model and reads its neurons."""
    run = NeuronRun(**item.parameters)
    metrics = _trained(run)
    return table(
        metric=list(metrics), value=list(metrics.values()), run=item.name, condition=run.condition,
        unit=str(run.seed), scope="test", update=run.steps, setting=setting(group=run.group, d=run.d),
    )  # fmt: skip


def _trained(run: NeuronRun) -> dict[str, float]:
    import torch

    from toy_models.engine.training_run import choose_device, moved
    from toy_models.lego.groups import group_action
    from toy_models.lego.neurons import curriculum, features, held_by_one, holders, imbalance, shape
    from toy_models.lego.task import STATE, Lego
    from toy_models.lego.theory_model import LegoTheory, LegoTheoryConfig
    from toy_models.lego.theory_training import Descent, train_slot

    weights, data = (torch.Generator().manual_seed(4_000_000 + 10 * run.seed + stream) for stream in range(2))
    action = group_action(run.group)
    task = Lego(run.group, 1, run.d - 1 - action.n_elements - action.n_points)
    config = LegoTheoryConfig(run.m, run.clip, run.power, run.bend, run.response)
    model = moved(LegoTheory(run.d, config, weights), choose_device("auto"))
    first, seen, loss = features(model, task).strengths, [], 0.0
    for _ in range(SNAPSHOTS):
        loss = train_slot(model, task, STATE, Descent(run.lr, max(run.steps // SNAPSHOTS, 1), 144), data)
        seen.append(features(model, task).strengths.max(1))  # [class point]
    found, chosen = features(model, task), curriculum(first)
    learned = (np.stack(seen) > seen[-1] / 2).argmax(0)  # the first snapshot at half of what it comes to
    at_first = np.take_along_axis(first, chosen[:, None], axis=1)[:, 0]
    of = shape(found, model.mlp.bound)
    return {
        "one": held_by_one(found.strengths).mean().item(),
        "predicted": (holders(found.strengths) == chosen).mean().item(),
        "order": _rank_correlation(at_first, -learned),
        "ratio": of.ratio / imbalance(action),
        "loss": loss,
        **asdict(of),
    }


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's; 0 if either is constant."""
    from scipy.stats import spearmanr

    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return 0.0
    return float(spearmanr(a.ravel(), b.ravel()).statistic)


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """By condition, d and seed: the metrics as columns."""
    found = with_settings(rows)
    return found.pivot(index=["condition", "d", "unit"], columns="metric", values="value").reset_index()


def value(
    found: pd.DataFrame, level: float, *, condition: str, metric: str, bounds: tuple[float, float]
) -> Interval | NotMeasurable:
    """The mean over seeds of one metric, at the largest d of the condition."""
    of = found[found["condition"] == condition]
    return mean_over(of[of["d"] == of["d"].max()][metric], level, bounds)


def difference(
    found: pd.DataFrame, level: float, *, condition: str, metric: str, minus: str
) -> Interval | NotMeasurable:
    """The mean over seeds of the difference of two conditions, at the d that both have."""
    one, other = (found[found["condition"] == name] for name in (condition, minus))
    shared = sorted(set(one["d"]) & set(other["d"]))
    if not shared:
        return NotMeasurable(f"{condition} and {minus} have no d in common")
    one, other = (runs[runs["d"] == shared[0]].set_index("unit")[metric] for runs in (one, other))
    return mean_over(one - other, level, (-1.0, 1.0))


def _by_d(found: pd.DataFrame, *, metric: str, condition: str = BASE) -> str:
    means = found[found["condition"] == condition].groupby("d")[metric].mean()
    return "by d: " + ", ".join(f"{mean:.2f} at {d}" for d, mean in means.items())


def _floor(found: pd.DataFrame) -> str:
    """About where confounding pairs stop: an input below rho hardly moves a neuron of large q."""
    sizes = sorted(found[found["condition"] == BASE]["d"].unique())
    floors = ", ".join(f"{BEND / (NeuronRun.clip * np.log(d) ** 2):.2f} at {d}" for d in sizes)
    return f"{_by_d(found, metric='confounder')}; cannot fall below about rho / B, {floors}"


def parts(_preset: object) -> list[Part]:
    """The shape of the neurons of C6, what was to be told beforehand, the fibers, and what q and B.2 change."""
    return [*_simple(), *_fibers(), *_changes()]


def _part(key: str, name: str, metric: str, quantity: str, claimed: tuple, **rest: Any) -> Part:
    direction, threshold, why = claimed
    condition = rest.pop("condition", BASE)
    bounds = rest.pop("bounds", (-np.inf, np.inf))
    estimate: Callable = partial(value, condition=condition, metric=metric, bounds=bounds)
    note = partial(_by_d, metric=metric, condition=condition)
    rest = {"role": "paper", "unit": "seeds", "estimate": estimate, "note": note} | rest
    return Part(key=key, name=name, quantity=quantity, direction=direction, threshold=threshold, why=why, **rest)


def _simple() -> list[Part]:
    share: dict[str, Any] = {"bounds": (0.0, 1.0), "primary": True}
    return [
        _part(
            "one", "every fact is held by one neuron, which holds no other", "one",
            "share of facts (g, y) to which one neuron of the class answers, and that one to no other",
            ("above", ALL, "all of them in the theorem; one in ten may be shared at this d"),
            source="Theorem B.1 A, D; section 6.1.2: exactly one neuron", **share,
        ),
        _part(
            "predicted", "the first weights tell which neuron", "predicted",
            "share of facts whose strongest neuron is the one that Definition B.3 chooses before the training",
            ("above", MOST, "all of them in the theorem, one in twelve by chance; at this d some are nearly tied"),
            source="Theorem B.1 with Definition B.3", **share,
        ),
        _part(
            "strength", "the neuron's weights come to B", "strength",
            "(V(g) + V(y)) / 2B of the strongest neurons, mean over facts",
            ("within", 1.0, "B up to o(1)"), margin=NEAR, source="Theorem B.1 A, equation 17a", primary=True,
        ),
        _part(
            "balanced", "in equal parts", "ratio", "V(g) / V(y) of the strongest neurons",
            ("within", 1.0, "the difference is o(1)"), margin=NEAR, source="Theorem B.1 E, equation 17a",
        ),
        _part(
            "runner_up", "other neurons stay small", "runner_up",
            "(V(g) + V(y)) / 2B of the second strongest neuron, mean over facts",
            ("below", SMALL, "o(1); a tenth of B"), source="Theorem B.1 D",
        ),
        _part(
            "cancelled", "confounding pairs cancel", "confounder",
            "|V(g) + V(y')| / 2B and |V(g') + V(y)| / 2B, mean over confounding pairs",
            ("below", SMALL, "o(1); a tenth of B"), source="Theorem B.1 B, equation 17c", bounds=(0.0, np.inf),
            note=_floor,
        ),
        _part(
            "unrelated", "unrelated pairs come to -B", "unrelated", "(V(g') + V(y')) / 2B, mean over unrelated pairs",
            ("below", -ALL, "-B up to o(1), or less"), source="Theorem B.1 C, equation 17b",
        ),
        _part(
            "order", "facts are learned in the order of their first weights", "order",
            "rank correlation of the strength at the start and the time at which half of the last is reached, "
            "turned round",
            ("above", ORDER, "a strict order in the theorem; half may be lost to near ties and to the grid of times"),
            source="section 6.1.2: implicit curriculum", bounds=(-1.0, 1.0),
        ),
    ]  # fmt: skip


def _fibers() -> list[Part]:
    return [
        _part(
            "fibers", "in a symmetric group a neuron holds a whole fiber", "one",
            "share of facts (j, y) to which one neuron of the class answers, and that one to no other",
            ("above", ALL, "all of them in the theorem; one in ten may be shared at this d"),
            condition="symmetric, large q", source="Theorem C.1 A, D", bounds=(0.0, 1.0),
        ),
        _part(
            "imbalance", "with the weights in the ratio C_alpha", "ratio",
            "V(g) / V(y) of the strongest neurons, over C_alpha",
            ("within", 1.0, "C_alpha up to o(1)"), margin=RATIO, condition="symmetric, large q",
            source="Theorem C.1 C, equation 18a",
        ),
    ]  # fmt: skip


def _changes() -> list[Part]:
    ours: dict[str, Any] = {"role": "ours", "unit": "seeds"}
    return [
        Part(
            key="large_q", name="it takes a large q", direction="above", threshold=MORE,
            quantity="share of facts held by one neuron at the larger q less that at q = 4",
            estimate=partial(difference, condition=BASE, metric="one", minus="C6, q = 4"),
            role="paper", unit="seeds", source="Definition 3.4: q a large even integer",
            why="the competition of neurons rests on it; a quarter of the facts is the least that counts",
            note=partial(_by_d, metric="one", condition="C6, q = 4"),
        ),
        Part(
            key="response", name="Assumption B.2's response makes no difference", direction="within", threshold=0.0,
            margin=MORE, quantity="share of facts held by one neuron with the response less that without",
            estimate=partial(difference, condition="C6, response", metric="one", minus=BASE),
            why="a quarter of the facts, as for q", **ours,
        ),
    ]  # fmt: skip
