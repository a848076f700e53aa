"""What would the rows of wang2025's runs look like, were the truth known? For the judges' error rates."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from interp.claims.wang2025._encoder_runs import EncoderRun
from interp.claims.wang2025._runs import TheoryRun
from probes.rows import setting, table


def simulated_stages(
    runs: Sequence[TheoryRun], seeds: int, learned: Bool[np.ndarray, "run seed"], early: Bool[np.ndarray, "run seed"]
) -> dict[str, list]:
    """Columns of losses and errors around the stages; a run learns every hop but, unless `learned`, the last one.

    If `early`, the last hop is learned before its own stage.
    """
    columns: dict[str, list] = {name: [] for name in ("run", "unit", "setting", "update", "metric", "value")}
    for number, run in enumerate(runs):
        stages = run.k.bit_length()
        chance = 1 - 1 / run.n
        places = [setting(**run.settings, hop=2**stage, trained="readout") for stage in range(stages)]
        for stage, place in enumerate(places):
            last = stage == stages - 1
            for update in sorted({2 * stage, 2 * stage + 2, 2 * stages}):
                for metric in ("error", "loss"):
                    before = update <= 2 * stage
                    for seed in range(seeds):
                        fails = last and not learned[number, seed]
                        high = (before and not (last and early[number, seed])) or (not before and fails)
                        columns["run"].append(f"{number} {seed}")
                        columns["unit"].append(str(seed))
                        columns["setting"].append(place)
                        columns["update"].append(update)
                        columns["metric"].append(metric)
                        columns["value"].append((chance if metric == "error" else np.log(run.n)) if high else 1e-4)
    return columns


def simulated_searches(
    searches: Sequence[TheoryRun], needed: Float[np.ndarray, "search seed"], most: float, ratio: float
) -> dict[str, list]:
    """Columns of the sequences needed, found on a grid of neighbours' ratio `ratio`, or censored above `most`."""
    columns: dict[str, list] = {name: [] for name in ("run", "unit", "setting", "update", "metric", "value")}
    for run, values in zip(searches, needed):
        place = setting(**{name: value for name, value in run.settings.items() if name != "sequences"})
        start = float(run.n_sequences)
        grid = start * ratio ** np.ceil(np.log(values / start) / np.log(ratio) - 1e-9)
        highest = start * ratio ** np.floor(np.log(most / start) / np.log(ratio))
        for seed, value in enumerate(grid):
            columns["run"].append(f"{place} {seed}")
            columns["unit"].append(str(seed))
            columns["setting"].append(place)
            columns["update"].append(0)
            columns["metric"].append("sample_complexity" if value <= most else "censored_at")
            columns["value"].append(float(round(min(value, highest))))
    return columns


def simulated_accuracy(
    runs: Sequence[EncoderRun], accuracy: Mapping[str, Float[np.ndarray, "seed"]]
) -> dict[str, np.ndarray]:
    """Columns of the final accuracy of the hardest hop, by condition and seed."""
    seeds = len(next(iter(accuracy.values())))
    place = [setting(**run.settings, hop=run.k) for run in runs]
    return {
        "run": np.array([f"{run.condition} {seed}" for run in runs for seed in range(seeds)]),
        "condition": np.repeat([run.condition for run in runs], seeds),
        "unit": np.tile([str(seed) for seed in range(seeds)], len(runs)),
        "setting": np.repeat(place, seeds),
        "samples": np.repeat([run.budget for run in runs], seeds),
        "metric": np.repeat("accuracy", len(runs) * seeds),
        "value": np.concatenate([accuracy[run.condition] for run in runs]),
    }


def joined(*parts: Mapping[str, Sequence | np.ndarray], **constant: str) -> pd.DataFrame:
    """One table of all columns."""
    columns = {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}
    return table(**columns, **constant)
