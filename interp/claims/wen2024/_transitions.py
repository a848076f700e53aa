"""When does accuracy jump, and what does attention do then? Transitions of runs, for wen2024/fig1b and fig5-slow."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from interp.claims.wen2024._curves import curves, excess_fall
from interp.claims.wen2024._runs import outcomes
from interp.statistics import change_point, onset

RAPID = 0.1
"""A fall of normalised entropy, whose range is 0 to 1, that counts as a rapid decrease."""
WINDOW = 2
"""Change points are fitted up to this many times the samples to solution: the budget must not move them."""


@dataclass(frozen=True)
class Transitions:
    """The solved runs' transitions, and what failed runs do over the same samples."""

    solved: pd.DataFrame
    """One row for each solved run: `rise`, when accuracy leaves its plateau; the `fall` of entropy until then, and
    its `drop` from then until accuracy is perfect, beyond its trend, NaN where the curve ends too soon after; `late`,
    the same drop from half of accuracy's way up on."""
    failed: pd.DataFrame
    """One row for each failed run, read where the solved runs of its condition were, mean over these: the `fall` of
    its entropy until their accuracy rose, and its `drop` while it did."""

    def of(self, condition: str) -> pd.DataFrame:
        """The solved runs of a condition."""
        return self.solved[self.solved["condition"] == condition]


RUN = ("run", "condition", "unit", "dataset_size", "samples")
FOUND = ("accuracy_change", "entropy_change", "rise", "drop", "late", "fall")


def transitions(rows: pd.DataFrame) -> Transitions:
    """When accuracy jumps in each run, and what entropy does then."""
    history = {
        str(run): (curve["samples"].to_numpy(), curve["accuracy"].to_numpy(), curve["entropy_min"].to_numpy())
        for run, curve in curves(rows).groupby("run")
    }
    columns = [*RUN, "censored"]
    runs = [dict(zip(columns, values)) for values in outcomes(rows)[columns].itertuples(index=False, name=None)]
    solved = [{**run, **_transition(*history[run["run"]], run["samples"])} for run in runs if not run["censored"]]
    failed = []
    for run in runs:
        alike = [of for of in solved if of["condition"] == run["condition"]]
        if run["censored"]:
            steps, _, entropy = history[run["run"]]
            falls = [entropy[0] - np.interp(of["rise"], steps, entropy) for of in alike]
            drops = [excess_fall(steps, entropy, of["rise"], of["samples"]) for of in alike]
            # Without a solved run there is nothing to compare with.
            failed.append({**run, "fall": _mean(falls), "drop": _mean([d for d in drops if np.isfinite(d)])})
    return Transitions(
        pd.DataFrame(solved, columns=[*RUN, *FOUND]), pd.DataFrame(failed, columns=[*columns, "fall", "drop"])
    )


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else np.nan


def _transition(steps: np.ndarray, accuracy: np.ndarray, entropy: np.ndarray, samples: float) -> dict[str, float]:
    """The change points and the falls of one solved run."""
    read = steps <= WINDOW * samples
    rise, half = (_last_before(steps[read], accuracy[read], share) for share in (0.1, 0.5))
    return {
        "accuracy_change": change_point(steps[read], accuracy[read]),
        "entropy_change": change_point(steps[read], entropy[read]),
        "rise": rise,
        "drop": excess_fall(steps, entropy, rise, samples),
        "late": excess_fall(steps, entropy, half, samples),
        "fall": float(entropy[0] - np.interp(rise, steps, entropy)),
    }


def _last_before(steps: np.ndarray, accuracy: np.ndarray, share: float) -> float:
    """The last evaluation before accuracy has gone `share` of its way up; at 10% its plateau has ended."""
    return float(steps[max(int(np.searchsorted(steps, onset(steps, accuracy, share))) - 1, 0)])
