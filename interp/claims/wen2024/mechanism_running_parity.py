"""wen2024, Theorem 3 and section 3.3: is the running parity computed where the theory computes it, and not before?

In the proof of Theorem 3 a step's attention retrieves S[i] and its MLP takes the xor with the running parity; the
paper does not look inside trained models, so the claim is ours. Linear probes do: parity number i + 1 is probed for
at its own step (the position that predicts it), before the block, after attention and after the MLP, and at earlier
positions. The first parity is a copy of one bit and is left out. Each probe is fitted to half of 600 test inputs and
scored on the other half, beside a control task, an untrained model and shuffled labels. The control task labels the
same window of tokens, part of which is decodable anyway, so it has a high accuracy itself and bounds the selectivity
that can be seen.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import ParityRun, ParityRuns, outcomes, train_parity
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged
from interp.statistics import cautious_mean
from probes.rows import concat, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/mechanism-running-parity"
SOLVED = 0.99
"""Test accuracy at which a model has learned the task."""
COMPUTED = 0.9
"""Balanced accuracy of the probe above which the parity counts as decodable."""
ABSENT = 0.6
"""Balanced accuracy below which it counts as not decodable; chance level is 0.5."""
EARLIER = 0.55
"""The same for the mean over many earlier positions, which has less noise."""
ADVANTAGE = 0.3
"""By how much the probe must beat the control task and the untrained model."""
N_INPUTS = 600
BEFORE = 4
"""Positions before the first step that are probed too."""
PLACES = {
    "hook_resid_pre": "before the block",
    "hook_resid_mid": "after attention",
    "hook_resid_post": "after the MLP",
}

_SMOKE = ParityRun(
    cot=True, n=8, k=2, d_model=32, d_mlp=128, lr=3e-3, budget=8_192, eval_every=1024, n_held_out=32,
    stop_when_perfect=False,
)  # fmt: skip
_CPU = ParityRun(cot=True, n=20, k=6, lr=3e-4, budget=100_000, stop_when_perfect=False)
PRESETS = {
    "smoke": ParityRuns((_SMOKE,), seeds=2),
    "cpu": ParityRuns((_CPU,), seeds=5),
    "paper": ParityRuns((replace(_CPU, d_model=720, d_mlp=3072, lr=6e-5, budget=1_000_000),), seeds=10),
}


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model and probes its residual stream for every running parity."""
    from interp.core.probe_rows import state_rows
    from toy_models.engine.decoder import DecoderConfig, hooked_decoder
    from toy_models.engine.probing import state_probes
    from toy_models.engine.run_rows import outcome_rows

    run = ParityRun(**item.parameters)
    task, result = train_parity(run, work)
    decoder = DecoderConfig(run.layers, run.heads, run.d_model, run.d_mlp)
    untrained = hooked_decoder(decoder, task.d_vocab, task.n_ctx, seed=run.seed + 1_000_000)
    positions = range(task.n - BEFORE, task.n_ctx)
    rng = np.random.default_rng(run.seed)
    found = list(state_probes(result.model, untrained, task, result.test[:N_INPUTS], rng, positions))
    return concat([outcome_rows(result, **run.labels), state_rows(found, run.labels)])


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """Where the parities are decodable, against where the theory computes them, and against the baselines."""
    runs = outcomes(rows)
    solved = runs.loc[runs["test_accuracy"] >= SOLVED, "run"]
    found = _placed(rows[rows["run"].isin(solved)])
    after, mid = (found[found["hook"] == f"hook_resid_{place}"] for place in ("post", "mid"))
    own = after[after["own"]]
    note = f"{len(solved)} of {len(runs)} models reach {SOLVED:.0%} test accuracy; only these are judged"
    if len(own):
        means = own[["probe_control", "probe_untrained", "probe_shuffled", "probe_bits"]].mean()
        note += "; control {:.2f}, untrained {:.2f}, shuffled {:.2f}; {:.2f} bits per parity".format(*means)
    quantity = "balanced accuracy of the probe"
    parts: tuple[tuple[str, pd.Series, pd.DataFrame, str, float, Literal["above", "below"]], ...] = (
        ("computed by the MLP of its step", own["probe_accuracy"], own, f"{quantity}, own step, after the MLP",
         COMPUTED, "above"),
        ("not yet there after attention", mid["probe_accuracy"], mid[mid["own"]],
         f"{quantity}, own step, after attention", ABSENT, "below"),
        ("not there at earlier positions", after["probe_accuracy"], after[after["earlier"]],
         f"{quantity}, earlier positions, after the MLP", EARLIER, "below"),
        ("more than the control task", own["probe_accuracy"] - own["probe_control"], own,
         "selectivity: accuracy minus that of the control task", ADVANTAGE, "above"),
        ("more than an untrained model", own["probe_accuracy"] - own["probe_untrained"], own,
         "accuracy minus that from an untrained model", ADVANTAGE, "above"),
    )  # fmt: skip
    return [
        judged(
            cautious_mean(_by_seed(values, of), rng=0, bounds=(-1, 1)),
            claim=ID, part=part, quantity=text, threshold=threshold, direction=direction, unit="seeds", note=note,
        )
        for part, values, of, text, threshold, direction in parts
    ]  # fmt: skip


def _placed(rows: pd.DataFrame) -> pd.DataFrame:
    """One line for each probe of a parity after the first: its place, whether that is its own step, its metrics."""
    probes = with_settings(rows[rows["metric"].str.startswith("probe_")])
    if probes.empty:
        empty = {"unit": "str", "hook": "str", "own": bool, "earlier": bool, "state": int, "pos": int}
        metrics = dict.fromkeys(
            ["probe_accuracy", "probe_control", "probe_untrained", "probe_shuffled", "probe_bits"]
        )
        return pd.DataFrame({name: pd.Series(dtype=kind or float) for name, kind in {**empty, **metrics}.items()})
    wide = probes.pivot_table(index=["unit", "hook", "pos", "state", "n"], columns="metric", values="value")
    wide = wide.reset_index()
    home = wide["n"] + wide["state"]
    return wide.assign(own=wide["pos"] == home, earlier=wide["pos"] < home)[wide["state"] > 0]


def _by_seed(values: pd.Series, of: pd.DataFrame):
    return values.loc[of.index].groupby(of["unit"]).mean().to_numpy(float)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """At the own step: accuracy and baselines by place; and the accuracy at every position after the MLP."""
    from interp.figures.style import SERIES, new_figure, styled

    found = _placed(rows)
    names = {"probe_accuracy": "running parity", "probe_control": "control task",
             "probe_untrained": "untrained model", "probe_shuffled": "shuffled labels"}  # fmt: skip
    with styled():
        figure = new_figure(10.5, 3.8)
        left, right = figure.subplots(1, 2)
        own = found[found["own"]]
        for number, ((metric, label), style) in enumerate(zip(names.items(), SERIES)):
            by_place = own.groupby("hook")[metric].agg(["mean", "min", "max"]).reindex(list(PLACES))
            errors = [by_place["mean"] - by_place["min"], by_place["max"] - by_place["mean"]]
            places = [place + 0.05 * (number - 1.5) for place in range(len(PLACES))]
            left.errorbar(places, by_place["mean"], yerr=errors, capsize=3, label=label, **style)
        left.set_xticks(range(len(PLACES)), list(PLACES.values()))
        left.set(
            ylabel="balanced accuracy\n(mean; bars: all seeds and steps)", ylim=(0, 1.03), title="at the own step"
        )
        left.legend(fontsize=8, loc="lower left")
        after = found[found["hook"] == "hook_resid_post"]
        for (state, of), style in zip(after.groupby("state"), SERIES):
            means = of.assign(offset=of["pos"] - of["n"]).groupby("offset")["probe_accuracy"].mean()
            right.plot(means.index, means, **style, label=f"parity {state + 1}")
        right.set(xlabel="position (0: end token, the first step)", ylabel="balanced accuracy, mean over seeds",
                  ylim=(0, 1.03), title="after the MLP, by position")  # fmt: skip
        right.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return {"running_parity": figure}


register(
    Claim(
        id=ID,
        sentence=(
            "Beyond the paper: with CoT the running parity is linearly decodable at the step that computes it, "
            "after the MLP, and not before: neither after that step's attention nor at earlier positions."
        ),
        test=(
            f"Models with a test accuracy of at least {SOLVED:g}; parities 2 to k; held-out balanced accuracy of a "
            f"logistic regression, mean over parities, interval over seeds. Own step after the MLP above "
            f"{COMPUTED:g}, after attention below {ABSENT:g}; mean over earlier positions (the last {BEFORE} input "
            f"bits and the steps before) after the MLP below {EARLIER:g}; more than {ADVANTAGE:g} above the "
            "control task and above an untrained model. 95% intervals."
        ),
        deviations=(
            "The paper has no such experiment. cpu: n=20, k=6, one layer, one head, width 128, learning rate 3e-4, "
            "five seeds. paper: the paper's width of 720 and learning rate 6e-5, ten seeds. The theory is about one "
            "layer and one head, which every preset has; the width should not matter. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=lambda preset: preset.items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
