"""When does accuracy jump, and what does attention do then? Transitions of runs, for wen2024/fig1b and fig5-slow."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from interp.claims.wen2024._curves import curves, excess_fall
from interp.claims.wen2024._runs import outcomes
from interp.statistics import change_point, onset

NEAR = 0.25
"""Around the jump: within this share of the samples to solution of accuracy's change point."""
RAPID = 0.1
"""A fall of normalised entropy, whose range is 0 to 1, that counts as a rapid decrease."""
WINDOW = 2
"""Change points are fitted up to this many times the samples to solution: the budget must not move them."""


@dataclass(frozen=True)
class Transitions:
    """The solved runs' transitions, and what failed runs do over the same samples."""

    solved: pd.DataFrame
    """One row for each solved run; `drop` is NaN where the curve ends too soon after the jump."""
    failed: pd.DataFrame
    """One row for each failed run, read where the solved runs of its condition were, mean over these: the `fall` of
    its entropy until their accuracy rose, and its `drop` when it jumped."""

    def of(self, condition: str) -> pd.DataFrame:
        """The solved runs of a condition."""
        return self.solved[self.solved["condition"] == condition]


RUN = ("run", "condition", "unit", "dataset_size", "samples")
FOUND = ("accuracy_change", "entropy_change", "rise", "half", "drop", "fall")


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
            drops = [excess_fall(steps, entropy, of["accuracy_change"], of["half"]) for of in alike]
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
    jump = change_point(steps[read], accuracy[read])
    # The plateau ends with the last evaluation before accuracy has gone 10% of its way up.
    rise = steps[max(int(np.searchsorted(steps, onset(steps[read], accuracy[read]))) - 1, 0)]
    # The three periods lie within the curve: where it ends early they shrink, to half their length at most.
    half = min(NEAR * samples, jump / 3, (steps[-1] - jump) / 3)
    half = half if half >= NEAR * samples / 2 else np.nan
    return {
        "accuracy_change": jump,
        "entropy_change": change_point(steps[read], entropy[read]),
        "rise": float(rise),
        "half": half,
        "drop": excess_fall(steps, entropy, jump, half),
        "fall": float(entropy[0] - np.interp(rise, steps, entropy)),
    }
