"""What is judged of fine-tuned models? The parts of wen2024/fig6-finetune.

Every held-out problem is measured under every training run. Both are samples, and the runs are few, so intervals
treat problems and runs as crossed random effects (`interp.statistics.crossed`), and problems of one template as a
cluster. A change that is only of CoT text must be a fall on CoT text, not a rise elsewhere: such a part estimates the
larger of two numbers, the change on CoT text and that minus the change on the other text.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pandas as pd
from jaxtyping import Float

from hf_analysis.measurement.pairs import matched_to
from interp.claims.wen2024._pretrained import DIFFERENCE, SMALLEST, WHY_SMALLEST, clusters_of, unit_of
from interp.core.judging import UNBOUNDED, mean_over
from interp.core.parts import NotMeasurable, Part, Role
from interp.statistics import Interval
from interp.statistics.crossed import crossed_mean

LEARNED = 0.1
"""Nats per token by which the held-out loss must fall for an arm to count as fine-tuned."""
ARMS = ("cot", "no_cot")
BASE = "base"
TEXTS = {"cot": "CoT text", "no_cot": "no-CoT text"}
SHORTEST = "no_cot"
"""The text whose length all others have in length-matched minima: every model reads the same texts."""
REDUCTIONS = {
    "published": ("min", "all", "minimum over all tokens"),
    "length": ("length_matched_min", "answer", "length-matched minimum over answer tokens"),
    "mean": ("mean", "answer", "mean over answer tokens"),
}
"""Metric, scope, and what it is in words."""
ELSEWHERE = {
    "no_cot": ("cot", "length_matched_min", "no_cot", "no CoT at equal length"),
    "format": ("cot_clean", "length_matched_min", "no_cot", "no CoT at equal length and format"),
    "shuffled": ("cot", "min", "shuffled_tokens", "the same tokens shuffled"),
    "filler": ("cot", "min", "filler", "filler"),
}
"""Text with CoT, metric over answer tokens, the text it is compared with, and that in words."""
TRAINING = ("training_loss", "forwarded_tokens", "supervised_tokens", "passages")
"""Metrics of a training run; its unit is the seed."""
SOURCE = "section 4.3, observation 2: fine-tuning on CoT data further enhances attention sparsity on the input data"


@dataclass(frozen=True)
class Test:
    """The CoT-tuned model against another on the same text; if there is one, also less that on a `control` text."""

    name: str
    against: str
    text: str
    metric: str
    scope: str
    quantity: str
    role: Role
    control: str | None = None


def _tests() -> dict[str, Test]:
    found = {}
    for short, against, name in (
        ("", BASE, "CoT-tuned minus base"),
        ("arms_", "no_cot", "CoT-tuned minus no-CoT-tuned"),
    ):
        for text, label in TEXTS.items():
            for key, (metric, scope, words) in REDUCTIONS.items():
                if (text, key) == ("no_cot", "mean"):
                    continue
                role = (
                    "ours" if text == "no_cot" else "control" if short else "paper" if key == "published" else "ours"
                )
                quantity = f"{words} of {label}, {name}"
                full = f"{short}{'' if text == 'cot' else 'other_'}{key}"
                found[full] = Test(f"{name}, {label}, {words}", against, text, metric, scope, quantity, role)
    for key, (text, metric, control, words) in ELSEWHERE.items():
        what = f"{metric.replace('_', ' ')} over answer tokens, CoT-tuned minus base"
        quantity = f"{what}: the larger of the change on {text} and of that minus the change on {control}"
        name = f"it falls on CoT text, and more than on {words}"
        found[f"beyond_{key}"] = Test(name, BASE, text, metric, "answer", quantity, "control", control)
    return found


TESTS = _tests()
"""By part: two comparisons on both texts, and four controls for the kind of text."""


Table = Float[np.ndarray, "problem run"]


@dataclass(frozen=True)
class Tuned:
    """What the parts read, by held-out problem."""

    units: tuple[str, ...]
    """The problems."""
    entropy: Mapping[tuple[str, str, str, str], Float[np.ndarray, "problem"]]
    """Mean over heads, by metric, scope, text and run."""
    losses: Mapping[tuple[str, str], Float[np.ndarray, "problem"]]
    """Held-out loss, by text and run."""
    totals: Mapping[str, pd.Series]
    """Of each arm, means over training runs: tokens and passages."""
    seeds: tuple[int, ...]

    @cached_property
    def clusters(self) -> np.ndarray:
        """The template of each problem."""
        return clusters_of(self.units)

    def changes(self, test: Test, text: str) -> Table:
        """The CoT-tuned model minus the other on a text, by problem and training run."""
        place = (test.metric, test.scope, text)
        other = [BASE if test.against == BASE else run_name(test.against, seed) for seed in self.seeds]
        pairs = [(run_name("cot", seed), run) for seed, run in zip(self.seeds, other)]
        return np.stack([self.entropy[*place, ours] - self.entropy[*place, run] for ours, run in pairs], axis=1)

    def loss(self, text: str, arm: str) -> Table:
        """The held-out loss on a text of an arm's runs."""
        return np.stack([self.losses[text, run_name(arm, seed)] for seed in self.seeds], axis=1)


def run_name(arm: str, seed: int) -> str:
    """The run of one arm and seed."""
    return f"{arm}-tuned seed={seed}"


def summary(rows: pd.DataFrame) -> Tuned:
    """Entropies and losses by problem, and what the runs were trained on."""
    training, losses = rows[rows["metric"].isin(TRAINING)], rows[rows["metric"] == "answer_loss"]
    units = tuple(sorted(losses["unit"].unique()))
    rows = matched_to(rows[rows["layer"] >= 0], SHORTEST)
    heads = rows.groupby(["unit", "metric", "scope", "condition", "run"])["value"].mean()
    entropy = heads.unstack(["metric", "scope", "condition", "run"]).reindex(list(units))
    by_run = losses.pivot(index="unit", columns=["condition", "run"], values="value").reindex(list(units))
    totals = training.groupby(["condition", "metric"])["value"].mean()
    return Tuned(
        units=units,
        entropy=dict(zip(entropy.columns, entropy.to_numpy().T)),
        losses=dict(zip(by_run.columns, by_run.to_numpy().T)),
        totals={arm: totals[arm] for arm in ARMS},
        seeds=tuple(sorted(int(unit) for unit in training["unit"].unique())),
    )


def parts(data: str) -> list[Part]:
    """Whether each arm learned; then every difference, which counts only if the arms it compares did."""
    unit = unit_of(data)
    learned = [
        Part(
            key=f"{arm}_learned",
            name=f"the arm trained on {TEXTS[arm]} learned",
            role="precondition",
            quantity=f"held-out loss on {TEXTS[arm]}, nats per token of the continuation: tuned minus base",
            estimate=partial(loss_change, arm=arm),
            direction="below",
            threshold=-LEARNED,
            why=f"a model whose loss falls by less than {LEARNED:g} nats per token has hardly been fine-tuned",
            unit=unit,
            note=partial(_learning, arm=arm),
        )
        for arm in ARMS
    ]
    return [*learned, *(_difference(key, test, data) for key, test in TESTS.items())]


def _difference(key: str, test: Test, data: str) -> Part:
    other = test.text == "no_cot"
    why = f"the paper says nothing of this text: less than {SMALLEST:g} either way, of a range of 1, is no change"
    return Part(
        key=key,
        name=f"{test.name}: no change" if other else test.name,
        role=test.role,
        source=SOURCE if test.role == "paper" else "",
        primary=test.role == "paper",
        quantity=f"normalised entropy, mean over heads: {test.quantity}",
        estimate=partial(difference, test=test),
        direction="within" if other else "below",
        threshold=0.0 if other else -SMALLEST,
        margin=SMALLEST if other else None,
        why=why if other else WHY_SMALLEST,
        unit=unit_of(data),
        needs=tuple(f"{arm}_learned" for arm in ("cot", test.against) if arm in ARMS),
        note=partial(_changes_note, test=test),
    )


def loss_change(found: Tuned, level: float, *, arm: str) -> Interval | NotMeasurable:
    """How the held-out loss on the arm's own kind of text changed."""
    return _crossed(found.loss(arm, arm) - found.losses[arm, BASE][:, None], found.clusters, level, UNBOUNDED)


def difference(found: Tuned, level: float, *, test: Test) -> Interval | NotMeasurable:
    """The mean change over problems and runs; with a control text, the larger of it and of what it is beyond that.

    The larger of two numbers is below a threshold only if both are, each judged at the level given; so the ends of
    its interval are the larger ones of theirs.
    """
    change = found.changes(test, test.text)
    first = _crossed(change, found.clusters, level, DIFFERENCE)
    if test.control is None or isinstance(first, NotMeasurable):
        return first
    second = _crossed(change - found.changes(test, test.control), found.clusters, level, (-2.0, 2.0))
    if isinstance(second, NotMeasurable):
        return second
    value, low, high = (max(getattr(of, end) for of in (first, second)) for end in ("value", "low", "high"))
    return Interval(value, low, high, level, first.n, f"{first.method}, larger of two")


def _crossed(
    changes: Table, clusters: np.ndarray, level: float, bounds: tuple[float, float]
) -> Interval | NotMeasurable:
    complete = ~np.isnan(changes).any(1)
    values, clusters = changes[complete], clusters[complete]
    n, n_runs = len(np.unique(clusters)), values.shape[1]
    if min(n, n_runs) < 2:
        return NotMeasurable(f"{n} templates of problems and {n_runs} training runs; an interval needs two of each")
    if np.ptp(values) == 0:
        return mean_over(values[0], level, bounds)
    return crossed_mean(values, level=level, clusters=clusters)


def _changes_note(found: Tuned, test: Test) -> str:
    shown = []
    for text in (test.text, test.control):
        if text is not None:
            changes = np.nanmean(found.changes(test, text), axis=0)
            runs = ", ".join(f"{value:+.4f}" for value in changes)
            shown.append(f"on {text} {changes.mean():+.4f}, by training run {runs}")
    return "; ".join(shown)


def _learning(found: Tuned, arm: str) -> str:
    other, total = next(text for text in ARMS if text != arm), found.totals[arm]
    own, elsewhere = (
        f"{found.loss(text, arm).mean():.3f} against {found.losses[text, BASE].mean():.3f}" for text in (arm, other)
    )
    return (
        f"{own}; on the other text {elsewhere}; trained on {total['forwarded_tokens']:,.0f} forwarded tokens, "
        f"{total['supervised_tokens']:,.0f} of them supervised, in {total['passages']:,.0f} passages (means of "
        f"{len(found.seeds)} runs)"
    )
