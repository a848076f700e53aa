"""What is judged of models trained from scratch, with CoT and without? The parts of wen2024/fig6-scratch.

Both models of a seed begin with the same weights and are measured on the same texts, token for token, so neither
length nor position nor kind of token differs: only what the models were trained on. Problems and training runs are
both samples, so they are crossed random effects.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from jaxtyping import Float

from interp.claims.wen2024._finetune import SOURCE
from interp.claims.wen2024._pretrained import SMALLEST, WHY_SMALLEST, over_problems_and_runs
from interp.core.judging import DIFFERENCE
from interp.core.parts import Estimator, NotMeasurable, Part, Role
from interp.core.problem_runs import clusters_of
from interp.statistics import Interval
from probes.rows import with_settings

COT, DIRECT = "cot_clean", "no_cot"
"""The two trainings, by the condition that they read; each text ends in the same sentence."""
ARMS = {COT: "with CoT", DIRECT: "without CoT"}
SOLVED = 0.9
"""A model that is right in fewer held-out problems than this has not learned the family."""
Place = tuple[str, str, str]
"""Metric, scope and text."""
Note = Callable[["Trained"], str]


@dataclass(frozen=True)
class Trained:
    """What the parts read: tables of problems by seed, at the end of training."""

    units: tuple[str, ...]
    seeds: tuple[int, ...]
    entropy: Mapping[tuple[str, str, str, str], Float[np.ndarray, "problem run"]]
    """Mean over heads, by training, metric, scope and text."""
    solved: Mapping[str, Float[np.ndarray, "problem run"]]
    """Whether the model's own greedy text is right, by training."""

    def difference(self, place: Place) -> Float[np.ndarray, "problem run"]:
        """Trained with CoT minus without, on the same text."""
        return self.entropy[COT, *place] - self.entropy[DIRECT, *place]


def summary(rows: pd.DataFrame) -> Trained:
    """Entropies and solved problems of the runs' last measurement."""
    table = with_settings(rows)
    last = table[table["tokens"] == table["tokens"].max()]
    units, seeds = (tuple(sorted(last[name].unique())) for name in ("unit", "seed"))
    solved = last[last["metric"] == "solved"]
    entropies = last[last["metric"] != "solved"].groupby(["training", "metric", "scope", "condition"])
    return Trained(
        units=units,
        seeds=tuple(int(seed) for seed in seeds),
        entropy={place: _table(part, units, seeds) for place, part in entropies},  # pyright: ignore[reportArgumentType]
        solved={str(arm): _table(part, units, seeds) for arm, part in solved.groupby("training")},
    )


def _table(part: pd.DataFrame, units, seeds) -> Float[np.ndarray, "problem run"]:
    wide = part.pivot(index="unit", columns="seed", values="value")
    return wide.reindex(index=list(units), columns=list(seeds)).to_numpy()


PLACES: dict[str, tuple[Place, str, Role]] = {
    "published": (("min", "all", COT), "as published", "paper"),
    "sentence": (("min", "final", COT), "closing sentence", "paper"),
    "no_sink": (("sink_excluded_min", "final", COT), "closing sentence, without the sink", "paper"),
    "mean": (("mean", "all", COT), "mean over tokens", "ours"),
    "other_text": (("min", "all", DIRECT), "text without CoT", "ours"),
    "other_mean": (("mean", "all", DIRECT), "text without CoT, mean over tokens", "ours"),
}
"""By part: what is compared between the two models, its name, and whose sentence it is."""
METRICS = tuple(dict.fromkeys(metric for (metric, *_), *_ in PLACES.values()))
WORDS = {"min": "minimum", "mean": "mean", "sink_excluded_min": "minimum, without the first key,"}
TOKENS = {"all": "all tokens of text {}", "final": '"The answer is N." in text {}'}


def parts(_preset: object) -> list[Part]:
    """Whether both models solve the family; then their difference on the same texts."""
    found = [_solves(arm) for arm in ARMS]
    needs = tuple(part.key for part in found)
    for key, (place, name, role) in PLACES.items():
        metric, scope, text = place
        words = f"{WORDS[metric]} over {TOKENS[scope].format(ARMS[text])}"
        note = partial(_both, place=place)
        found.append(_part(key, name, role, partial(difference, place=place), words, needs, note))
    words = 'minimum over "The answer is N.", each model after what it was trained on'
    found.append(_part("own_text", "closing sentence, each on its own text", "ours", own_text, words, needs, None))
    return found


def _part(
    key: str, name: str, role: Role, estimate: Estimator, words: str, needs: tuple[str, ...], note: Note | None
) -> Part:
    return Part(
        key=key,
        name=name,
        role=role,
        source=SOURCE if role == "paper" else "",
        primary=role == "paper",
        quantity=f"normalised entropy, mean over heads, {words}: trained with CoT minus trained without",
        estimate=estimate,
        direction="below",
        threshold=-SMALLEST,
        why=WHY_SMALLEST,
        unit="problems",
        needs=needs,
        note=note,
    )


def _solves(arm: str) -> Part:
    return Part(
        key="cot_solves" if arm == COT else "direct_solves",
        name=f"the models trained {ARMS[arm]} solve held-out problems",
        role="precondition",
        quantity="share of held-out problems whose answer is right in the model's own greedy text",
        estimate=partial(share_solved, arm=arm),
        direction="above",
        threshold=SOLVED,
        why=f"below {SOLVED:g} a model has not learned what it was trained for, and its attention says little",
        unit="problems",
        note=partial(_solved_by_run, arm=arm),
    )


def share_solved(found: Trained, level: float, *, arm: str) -> Interval | NotMeasurable:
    """The share of problems solved, over problems and runs."""
    return over_problems_and_runs(found.solved[arm], clusters_of(found.units), level, (0.0, 1.0))


def difference(found: Trained, level: float, *, place: Place) -> Interval | NotMeasurable:
    """The models' mean difference on the same text."""
    return over_problems_and_runs(found.difference(place), clusters_of(found.units), level, DIFFERENCE)


def own_text(found: Trained, level: float) -> Interval | NotMeasurable:
    """The mean difference over the closing sentence, each model after the text that it was trained on."""
    change = found.entropy[COT, "min", "final", COT] - found.entropy[DIRECT, "min", "final", DIRECT]
    return over_problems_and_runs(change, clusters_of(found.units), level, DIFFERENCE)


def _both(found: Trained, place: Place) -> str:
    means = [np.nanmean(found.entropy[arm, *place]) for arm in ARMS]
    runs = ", ".join(f"{value:+.4f}" for value in np.nanmean(found.difference(place), axis=0))
    return f"{means[0]:.3f} trained with CoT, {means[1]:.3f} without; difference by seed {runs}"


def _solved_by_run(found: Trained, arm: str) -> str:
    shares = ", ".join(f"{share:.0%}" for share in np.nanmean(found.solved[arm], axis=0))
    return f"by seed {shares}, of {len(found.units)} problems"
