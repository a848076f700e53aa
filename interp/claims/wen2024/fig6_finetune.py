"""wen2024, Figure 6, second claim as an experiment: does fine-tuning on CoT data make attention sparser?

One base model is fine-tuned twice with LoRA, on the same kind of problem with CoT and without, for equally many
forwarded tokens, and every model is measured on problems that neither arm has seen. Every held-out problem is
measured under every training run. Both are samples, and the runs are few, so intervals treat problems and runs as
crossed random effects (`interp.statistics.crossed`). n counts problems; notes give each run's own mean.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.core.claim import Claim, Item, register
from interp.core.contrast import Contrast, Side, contrast
from interp.core.verdict import Verdict, judged
from interp.statistics import Interval
from interp.statistics.crossed import crossed_mean
from probes.rows import concat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hf_analysis.models.loading import LoadedModel

ID = "wen2024/fig6-finetune"
SMALLEST = 0.01
"""The smallest difference of interest, as in wen2024/fig6."""
LEARNED = 0.1
"""Nats per token by which the held-out loss must fall for an arm to count as fine-tuned."""
ARMS = ("cot", "no_cot")
BASE = "base"
TINY = "tiny "
"""Prefix that asks for a small, randomly initialised model with the tokenizer of the named one."""
CONDITIONS = ("cot", "no_cot", "cot_clean", "shuffled_tokens", "filler")
METRICS = ("min", "mean", "length_matched_min")
TEXTS = {"cot": "CoT text", "no_cot": "no-CoT text"}
REDUCTIONS = {
    "as published": ("min", "all", "minimum over all tokens"),
    "equal length": ("length_matched_min", "answer", "length-matched minimum over answer tokens"),
    "mean": ("mean", "answer", "mean over answer tokens"),
}


@dataclass(frozen=True)
class Test:
    """The CoT-tuned model against another on the same text; less the same difference on a `control` text."""

    against: str
    text: str
    metric: str
    scope: str
    quantity: str
    control: str | None = None


def _tests() -> dict[str, Test]:
    found = {}
    for against, name in ((BASE, "CoT-tuned minus base"), ("no_cot", "CoT-tuned minus no-CoT-tuned")):
        for text, label in TEXTS.items():
            for reduction, (metric, scope, quantity) in REDUCTIONS.items():
                if (text, reduction) != ("no_cot", "mean"):
                    part = f"{name}, {label}, {reduction}"
                    found[part] = Test(against, text, metric, scope, f"{quantity} of {label}, {name}")
    controls = {
        "no CoT at equal length": ("cot", "length_matched_min", "no_cot"),
        "no CoT at equal length and format": ("cot_clean", "length_matched_min", "no_cot"),
        "shuffled tokens": ("cot", "min", "shuffled_tokens"),
        "filler": ("cot", "min", "filler"),
    }
    for name, (text, metric, control) in controls.items():
        quantity = (
            f"{metric.replace('_', ' ')} over answer tokens, CoT-tuned minus base, on {text} minus on {control}"
        )
        found[f"controlled: change on CoT text beyond {name}"] = Test(BASE, text, metric, "answer", quantity, control)
    return found


TESTS = _tests()
"""Declared before any data: two comparisons on both texts, and four controls for the kind of text."""


@dataclass(frozen=True)
class Fig6Finetune:
    """One base model, two arms of fine-tuning, every model on the same held-out problems."""

    model: str
    data: str
    limit: int | None
    """Held-out problems to measure."""
    n_training: int | None
    """Training problems, before the held-out ones are removed."""
    tokens: int
    """Forwarded tokens of each training run."""
    tokens_per_step: int
    lr: float
    rank: int
    seeds: int
    """Training runs of each arm."""


PRESETS = {
    "smoke": Fig6Finetune(TINY + "builtin", "builtin", 3, 40, 1_024, 256, lr=1e-2, rank=4, seeds=2),
    "cpu": Fig6Finetune("builtin", "builtin", 24, 2_000, 16_384, 512, lr=1e-3, rank=16, seeds=3),
    "paper": Fig6Finetune(
        "Qwen/Qwen2-7B", "openai/gsm8k", None, None, 2_000_000, 8_192, lr=2e-4, rank=16, seeds=3
    ),
}  # fmt: skip


def items(preset: Fig6Finetune) -> list[Item]:
    """The base model, and one item for each arm and seed."""
    runs = [Item(BASE, {**asdict(preset), "arm": BASE, "seed": 0})]
    for seed in range(preset.seeds):
        runs += [Item(f"{arm}-seed={seed}", {**asdict(preset), "arm": arm, "seed": seed}) for arm in ARMS]
    return runs


def tune_and_measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains the item's adapters, if it has any, and measures losses and attention on the held-out problems."""
    from hf_analysis.finetuning import FinetuneConfig, finetune, history_rows, loss_rows, training_problems
    from hf_analysis.measurement.measure import measure
    from hf_analysis.text.problems import load_problems

    p = item.parameters
    held_out = load_problems(p["data"], limit=p["limit"])
    model, run, history = _load(p["model"]), BASE, []
    if p["arm"] != BASE:
        run = _run(p["arm"], p["seed"])
        names = ("seed", "tokens", "tokens_per_step", "lr", "rank")
        config = FinetuneConfig(**{name: p[name] for name in names})
        problems = training_problems(p["data"], p["n_training"], held_out)
        tuned = finetune(model, problems, p["arm"], config, work / "checkpoint.safetensors")
        model = tuned.model
        history = [history_rows(tuned.history, condition=p["arm"], seed=p["seed"], run=run)]
    # In its own directory: the rows of the measurement are only part of the item's rows.
    attention = measure(model, held_out, CONDITIONS, work / "measurement", resume=True, run=run)
    attention = attention[attention["metric"].isin(METRICS)]
    return concat([*history, loss_rows(model, held_out, ARMS, run=run), attention])


def _load(name: str) -> "LoadedModel":
    from hf_analysis.models.loading import load_model, tiny_twin

    if name.startswith(TINY):
        return tiny_twin(load_model(name.removeprefix(TINY)), seed=0)
    return load_model(name)


def _run(arm: str, seed: int) -> str:
    return f"{arm}-tuned seed={seed}"


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """Whether each arm learned; then every declared difference, which counts only if the arms it compares did."""
    checks = {arm: _learned(rows, arm) for arm in ARMS}
    verdicts = list(checks.values())
    for part, by_seed in _contrasts(rows).items():
        test = TESTS[part]
        verdict = judged(
            _interval(by_seed),
            claim=ID,
            part=part,
            quantity=f"normalised entropy, mean over heads: {test.quantity}",
            threshold=-SMALLEST,
            direction="below",
            unit="problems",
            note=_note(by_seed),
        )
        untrained = [arm for arm in dict.fromkeys(("cot", test.against)) if arm in ARMS and not _passed(checks[arm])]
        if untrained:
            why = f"not judged, because {' and '.join(untrained)} did not learn; {verdict.note}"
            verdict = replace(verdict, outcome="inconclusive", note=why)
        verdicts.append(verdict)
    return verdicts


def _passed(check: Verdict) -> bool:
    return check.outcome == "supported"


def _learned(rows: pd.DataFrame, arm: str) -> Verdict:
    """Did the held-out loss on the arm's own kind of text fall?"""
    losses = rows[(rows["metric"] == "answer_loss") & (rows["condition"] == arm)]
    by_run = losses.pivot(index="unit", columns="run", values="value").sort_index()
    runs = [_run(arm, seed) for seed in _seeds(rows)]
    changes = by_run[runs].to_numpy() - by_run[[BASE]].to_numpy()
    totals = rows[rows["run"].isin(runs)].groupby("metric")["value"].mean()
    other = rows[(rows["metric"] == "answer_loss") & (rows["condition"] != arm) & rows["run"].isin([*runs, BASE])]
    elsewhere = other.groupby(other["run"] == BASE)["value"].mean()
    return judged(
        crossed_mean(changes),
        claim=ID,
        part=f"check: the arm trained on {TEXTS[arm]} learned",
        quantity=f"held-out loss on {TEXTS[arm]}, nats per token of the continuation: tuned minus base",
        threshold=-LEARNED,
        direction="below",
        unit="problems",
        note=(
            f"{by_run[runs].to_numpy().mean():.3f} against {by_run[BASE].mean():.3f}; on the other text "
            f"{elsewhere[False]:.3f} against {elsewhere[True]:.3f}; trained on {totals['forwarded_tokens']:,.0f} "
            f"forwarded tokens, {totals['supervised_tokens']:,.0f} of them supervised, in {totals['passages']:,.0f} "
            f"passages (means of {len(runs)} runs)"
        ),
    )


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Every difference with its runs, where in the model the differences lie, and what was learned."""
    from interp.claims.wen2024._finetune_figures import difference_forest, learning
    from interp.figures.pretrained import difference_maps

    contrasts = _contrasts(rows)
    forest = {part: (_interval(by_seed), _by_run(by_seed)) for part, by_seed in contrasts.items()}
    maps = {
        part.replace("CoT text, ", "\nCoT text, "): _mean_over_runs(by_seed)
        for part, by_seed in contrasts.items()
        if TESTS[part].text == "cot" and TESTS[part].control is None
    }
    return {
        "differences": difference_forest(forest, -SMALLEST),
        "difference_maps": difference_maps(maps, label="entropy difference, CoT-tuned minus comparison"),
        "learning": learning(rows),
    }


def _contrasts(rows: pd.DataFrame) -> dict[str, list[Contrast]]:
    """For every declared test, one contrast for each training run."""
    seeds, found = _seeds(rows), {}
    pieces = {key: piece for key, piece in rows[rows["layer"] >= 0].groupby(["metric", "scope"])}
    for part, test in TESTS.items():
        piece = pieces[test.metric, test.scope]
        by_text = {text: piece[piece["condition"] == text] for text in (test.text, test.control) if text is not None}
        found[part] = [_contrast(by_text, test, seed) for seed in seeds]
    return found


def _contrast(by_text: Mapping[str, pd.DataFrame], test: Test, seed: int) -> Contrast:
    ours, other = _run("cot", seed), BASE if test.against == BASE else _run(test.against, seed)

    def on(text: str) -> Contrast:
        sides = (Side(text, test.metric, test.scope, run=run) for run in (ours, other))
        return contrast(by_text[text], *sides)

    found = on(test.text)
    if test.control is None:
        return found
    control = on(test.control)
    return Contrast(found.first - control.first, found.second - control.second)


def _seeds(rows: pd.DataFrame) -> list[int]:
    return sorted(int(unit) for unit in rows[rows["metric"] == "training_loss"]["unit"].unique())


def _interval(by_seed: Sequence[Contrast]) -> Interval:
    """Heads averaged within a problem; the interval over problems and runs."""
    return crossed_mean(np.stack([found.differences.mean((1, 2)) for found in by_seed], axis=1))


def _by_run(by_seed: Sequence[Contrast]) -> list[float]:
    return [float(found.differences.mean()) for found in by_seed]


def _mean_over_runs(by_seed: Sequence[Contrast]) -> Contrast:
    return Contrast(
        np.mean([found.first for found in by_seed], axis=0), np.mean([found.second for found in by_seed], axis=0)
    )


def _note(by_seed: Sequence[Contrast]) -> str:
    mean = _mean_over_runs(by_seed)
    runs = ", ".join(f"{value:+.4f}" for value in _by_run(by_seed))
    return f"{mean.first.mean():.3f} against {mean.second.mean():.3f}; by training run {runs}"


register(
    Claim(
        id=ID,
        sentence=(
            "Fine-tuning on CoT data promotes sparser attention: a model trained on problems with CoT has lower "
            "attention entropy than its base, and than its base trained on the same problems without CoT."
        ),
        test=(
            "Same text, same tokens, paired by held-out problem and training seed, heads averaged within a problem: "
            f"the mean difference of the normalised entropy, CoT-tuned minus comparison, is below -{SMALLEST:g}, by "
            "a 95% interval over problems and training runs (crossed random effects). Against the base and the "
            "no-CoT-tuned model; on CoT text and on no-CoT text; minimum over all tokens as published, length-"
            "matched minimum over answer tokens, and on CoT text the mean over answer tokens. Controlled: the change "
            "from the base on CoT text is lower than that on no-CoT text (length-matched, also in the same format), "
            f"on the same tokens shuffled and on filler, by {SMALLEST:g}. Checks: each arm lowers its held-out loss "
            f"by more than {LEARNED:g} nats per token; if not, differences that involve it are inconclusive."
        ),
        deviations=(
            "The paper compares two published checkpoints, Qwen2-Math-7B and Qwen2-7B, which differ in far more than "
            "CoT data; every preset fine-tunes one base itself, with LoRA adapters on every linear layer in place of "
            "full fine-tuning. The loss is on the continuation only, so the arm with CoT has more supervised tokens; "
            "both kinds are counted. cpu: SmolLM2-135M-Instruct, about 16,000 tokens of GSM-symbolic problems a run, "
            "three runs an arm; held-out problems have other names and numbers, but come from the same 85 templates. "
            "paper: Qwen2-7B on the train split of GSM8K, measured on its test split. smoke: a tiny model with fresh "
            "weights, which tests the code, not the claim. A shift that CoT data cause should show at either size; a "
            "short fine-tuning can only show a smaller one."
        ),
        presets=PRESETS,
        items=items,
        measure=tune_and_measure,
        judge=judge,
        figures=figures,
    )
)
