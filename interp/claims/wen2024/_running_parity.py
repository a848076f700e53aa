"""Where is the running parity? The parts of wen2024/mechanism-running-parity."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd

from interp.claims.wen2024._runs import outcomes
from interp.core.judging import share_of
from interp.core.parts import NotMeasurable, Part, Role
from interp.statistics import Interval
from probes.rows import with_settings

SOLVED = 0.99
"""Test accuracy at which a model has learned the task."""
COMPUTED = 0.9
"""Balanced accuracy of the probe above which the parity counts as decodable."""
ABSENT = 0.6
"""Balanced accuracy below which it counts as not decodable; chance level is 0.5."""
EARLIER = 0.55
"""The same for the mean over many earlier positions, which has less noise."""
GONE = 0.5
"""The share of a baseline's errors that the probe must do without."""
MOST = 0.5
"""The share of models in which the mechanism must be seen."""
BASELINES = ["probe_accuracy", "probe_control", "probe_untrained", "probe_shuffled", "probe_bits"]
SHOWN = {
    "probe_accuracy": "after the MLP", "attention": "after attention", "earlier": "earlier",
    "probe_control": "control task", "probe_untrained": "untrained", "probe_shuffled": "shuffled labels",
}  # fmt: skip
"""What the notes name, with the column of the summary."""


@dataclass(frozen=True)
class Probed:
    """What the parts read."""

    models: pd.DataFrame
    """A line for each model that learned the task; mean accuracies over parities, of the probe and its baselines."""
    trained: int


def summary(rows: pd.DataFrame) -> Probed:
    """Where the parities are decodable, in models that learned the task, mean over parities."""
    runs = outcomes(rows)
    solved = runs.loc[runs["test_accuracy"] >= SOLVED, "run"]
    found = placed(rows[rows["run"].isin(solved)])
    after, mid = (found[found["hook"] == f"hook_resid_{place}"] for place in ("post", "mid"))
    own = after[after["own"]].groupby("unit")[BASELINES].mean()
    elsewhere = {
        "attention": mid[mid["own"]].groupby("unit")["probe_accuracy"].mean(),
        "earlier": after[after["earlier"]].groupby("unit")["probe_accuracy"].mean(),
    }
    return Probed(own.join(pd.DataFrame(elsewhere, dtype=float)), len(runs))


def parts(preset: Any) -> list[Part]:
    """Where the parities are decodable, against where the theory computes them, and against the baselines."""
    mlp = f"the parity is decoded above {COMPUTED:g} at its own step after the MLP"
    attention = f"below {ABSENT:g} at its own step after attention"
    said = "Theorem 3 and section 3.3, phase 3: "
    beyond = (
        f"of the errors that the probe makes {{}} it makes more than {GONE:.0%} fewer after the MLP of its own step"
    )
    shown: tuple[tuple[str, str, Role, str, str], ...] = (
        ("by_mlp", "the MLP of its step computes it, attention does not", "paper",
         f"{said}attention retrieves S[i], and the FFN layers learn the mapping to the output",
         f"{mlp} and {attention}"),
        ("after_mlp", "it is there after the MLP of its step", "paper",
         f"{said}the FFN layers learn the correct mapping to the output", mlp),
        ("after_attention", "it is not there yet after attention", "paper",
         f"{said}attention retrieves the embedding of S[i]", f"it is decoded {attention}"),
        ("earlier", "it is not there at earlier positions", "ours", "",
         f"it is decoded below {EARLIER:g} after the MLP at earlier positions"),
        ("control", "the probe does more than on a control task", "control", "",
         beyond.format("on the control task")),
        ("untrained", "the probe does more than on an untrained model", "control", "",
         beyond.format("on an untrained model")),
    )  # fmt: skip
    return [
        Part(
            key=key,
            name=name,
            role=role,
            source=source,
            primary=key == "by_mlp",
            quantity=f"share of models that learned the task in which {quantity} (mean over parities)",
            estimate=partial(share_of_models, column=key),
            direction="above",
            threshold=MOST,
            why="said of trained models as such, so the least that it can mean: of most",
            unit="seeds",
            note=_means,
        )
        for key, name, role, source, quantity in shown
    ]


def share_of_models(found: Probed, level: float, *, column: str) -> Interval | NotMeasurable:
    """The share of models that learned the task in which a probe finds what is claimed."""
    models = found.models
    if models.empty:
        return NotMeasurable(f"no model reached {SOLVED:.0%} test accuracy")
    errors = 1 - models["probe_accuracy"]
    mlp, attention = models["probe_accuracy"] > COMPUTED, models["attention"] < ABSENT
    seen = {
        "by_mlp": mlp & attention,
        "after_mlp": mlp,
        "after_attention": attention,
        "earlier": models["earlier"] < EARLIER,
        "control": errors < (1 - GONE) * (1 - models["probe_control"]),
        "untrained": errors < (1 - GONE) * (1 - models["probe_untrained"]),
    }
    return share_of(seen[column], level)


def _means(found: Probed) -> str:
    means = found.models.mean()
    shown = ", ".join(f"{name} {means[column]:.2f}" for column, name in SHOWN.items())
    few = f"{len(found.models)} of {found.trained} models reach {SOLVED:.0%} test accuracy"
    return f"{few}; means of these: {shown}; {means['probe_bits']:.2f} bits per parity"


def placed(rows: pd.DataFrame) -> pd.DataFrame:
    """One line for each probe of a parity after the first: its place, whether that is its own step, its metrics."""
    probes = with_settings(rows[rows["metric"].str.startswith("probe_")])
    if probes.empty:
        empty = {"unit": "str", "hook": "str", "own": bool, "earlier": bool, "state": int, "pos": int}
        metrics = dict.fromkeys(BASELINES)
        return pd.DataFrame({name: pd.Series(dtype=kind or float) for name, kind in {**empty, **metrics}.items()})
    wide = probes.pivot_table(index=["unit", "hook", "pos", "state", "n"], columns="metric", values="value")
    wide = wide.reset_index()
    home = wide["n"] + wide["state"]
    return wide.assign(own=wide["pos"] == home, earlier=wide["pos"] < home)[wide["state"] > 0]
