"""wen2024, Figure 6, second claim as an experiment: does fine-tuning on CoT data make attention sparser?

One base model is fine-tuned twice with LoRA, on the same kind of problem with CoT and without, for equally many
forwarded tokens, and every model is measured on problems that neither arm has seen. What is judged stands in
`_finetune.py`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hf_analysis.measurement.pairs import matched_to
from interp.claims.wen2024._finetune import (
    ARMS,
    BASE,
    LEARNED,
    SHORTEST,
    TESTS,
    TRAINING,
    Test,
    Tuned,
    difference,
    parts,
    run_name,
    summary,
)
from interp.claims.wen2024._pretrained import CLUSTERED, SMALLEST, TINY, load, read_of, some_problems
from interp.claims.wen2024._worlds_finetune import WORLDS
from interp.core.claim import Claim, Item, Scale, register
from interp.core.contrast import Contrast, Side, contrast
from interp.core.parts import NotMeasurable
from interp.statistics import Interval
from probes.rows import concat

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig6-finetune"
CONDITIONS = ("cot", "no_cot", "cot_clean", "shuffled_tokens", "filler")
METRICS = ("min", "mean", "length_matched_min")


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
    first_unit: int = 0
    """The first seed, and the first held-out problem."""


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
    for seed in range(preset.first_unit, preset.first_unit + preset.seeds):
        runs += [Item(f"{arm}-seed={seed}", {**asdict(preset), "arm": arm, "seed": seed}) for arm in ARMS]
    return runs


def tune_and_measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains the item's adapters, if it has any, and measures losses and attention on the held-out problems."""
    from hf_analysis.finetuning import FinetuneConfig, finetune, history_rows, loss_rows, training_problems
    from hf_analysis.measurement.measure import measure

    p = item.parameters
    held_out = some_problems(p["data"], p["first_unit"], p["limit"])
    model, run, history = load(p["model"]), BASE, []
    if p["arm"] != BASE:
        run = run_name(p["arm"], p["seed"])
        names = ("seed", "tokens", "tokens_per_step", "lr", "rank")
        config = FinetuneConfig(**{name: p[name] for name in names})
        problems = training_problems(p["data"], p["n_training"], held_out)
        tuned = finetune(model, problems, p["arm"], config, work / "checkpoint.safetensors")
        model = tuned.model
        history = [history_rows(tuned.history, condition=p["arm"], seed=p["seed"], run=run)]
    # In its own directory: the rows of the measurement are only part of the item's rows.
    options = {"scopes": ("all", "answer"), "pairs": [(name, SHORTEST) for name in CONDITIONS if name != SHORTEST]}
    attention = measure(model, held_out, CONDITIONS, work / "measurement", resume=True, run=run, **options)
    attention = matched_to(attention[attention["metric"].isin(METRICS)], SHORTEST)
    return concat([*history, loss_rows(model, held_out, ARMS, run=run), attention])


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """Losses, training, and the texts and reductions that are compared."""
    texts = [(test, text) for test in TESTS.values() for text in (test.text, test.control) if text is not None]
    attention = read_of(rows, {(text, test.metric, test.scope) for test, text in texts})
    return rows[rows.index.isin(attention.index) | rows["metric"].isin(["answer_loss", *TRAINING])]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Every difference with its runs, where in the model the differences lie, and what was learned."""
    from interp.claims.wen2024._finetune_figures import difference_forest, learning
    from interp.figures.pretrained import difference_maps

    on_cot = [test for test in TESTS.values() if test.text == "cot" and test.control is None]
    attention = rows[rows["layer"] >= 0]
    maps = {test.name.replace(", CoT text", ",\nCoT text"): _over_runs(attention, test) for test in on_cot}
    return {
        "differences": difference_forest(_forest(summary(rows)), -SMALLEST),
        "difference_maps": difference_maps(maps, label="entropy difference, CoT-tuned minus comparison"),
        "learning": learning(rows),
    }


def _forest(found: Tuned) -> dict[str, tuple[Interval, Sequence[float]]]:
    """Every change with its 95% interval and its training runs; where two texts are compared, both changes."""
    lines: dict[str, tuple[Interval, Sequence[float]]] = {}
    for test in TESTS.values():
        for text in (test.text, test.control):
            if text is None:
                continue
            on = Test(test.name, test.against, text, test.metric, test.scope, test.quantity, test.role)
            interval = difference(found, 0.95, test=on)
            name = test.name if test.control is None else f"CoT-tuned minus base, {text}, {test.metric} over answer"
            if not isinstance(interval, NotMeasurable):
                lines[name] = (interval, [float(value) for value in np.nanmean(found.changes(on, text), axis=0)])
    return lines


def _over_runs(rows: pd.DataFrame, test: Test) -> Contrast:
    """Both models of a comparison by problem and head, means over training runs."""
    seeds = sorted({str(run).rsplit("=", 1)[1] for run in rows["run"].unique() if run != BASE}, key=int)
    found = []
    for seed in seeds:
        other = BASE if test.against == BASE else run_name(test.against, int(seed))
        runs = (run_name("cot", int(seed)), other)
        sides = (Side(test.text, test.metric, test.scope, run=run, against=SHORTEST) for run in runs)
        found.append(contrast(rows, *sides))
    first, second = (np.mean([getattr(of, side) for of in found], axis=0) for side in ("first", "second"))
    return Contrast(first, second, found[0].clusters)


register(
    Claim(
        id=ID,
        sentence=(
            "Fine-tuning on CoT data promotes sparser attention: a model trained on problems with CoT has lower "
            "attention entropy than its base, and than its base trained on the same problems without CoT."
        ),
        method=(
            "Same text, same tokens, paired by held-out problem and training seed, heads averaged within a problem: "
            "differences of the normalised entropy, CoT-tuned minus comparison, over problems and training runs "
            "(crossed random effects). Against the base and the no-CoT-tuned model; on CoT text and on no-CoT text; "
            "minimum over all tokens as published, length-matched minimum over answer tokens, and on CoT text the "
            "mean over answer tokens. Controlled: entropy falls on CoT text, and by more than on no-CoT text (length-"
            "matched, also in the same format), on the same tokens shuffled and on filler. Each arm must lower its "
            f"held-out loss by more than {LEARNED:g} nats per token; if not, differences that involve it are not "
            f"testable. {CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: a tiny model with fresh weights, 1,024 tokens"),
            "cpu": Scale(
                "another model", "SmolLM2-135M-Instruct for Qwen2-7B, 16,384 tokens of fine-tuning with LoRA"
            ),
            "paper": Scale("another model", "Qwen2-7B fine-tuned here with LoRA for the published Qwen2-Math-7B"),
        },
        finding=(
            "Change of the minimum of the normalised entropy by fine-tuning on CoT data, on this model: on held-out "
            "CoT text {published}, on text without CoT {other_published}; difference from fine-tuning without CoT, "
            "on CoT text: {arms_published}."
        ),
        deviations=(
            "The paper compares two published checkpoints, Qwen2-Math-7B and Qwen2-7B, which differ in far more than "
            "CoT data; every preset fine-tunes one base itself, with LoRA adapters on every linear layer in place of "
            "full fine-tuning. The loss is on the continuation only, so the arm with CoT has more supervised tokens; "
            "both kinds are counted. cpu: SmolLM2-135M-Instruct, about 16,000 tokens of GSM-symbolic problems a run, "
            "three runs an arm; held-out problems have other names and numbers, but come from the same 85 templates. "
            "paper: Qwen2-7B on the train split of GSM8K, measured on its test split. smoke: a tiny model with fresh "
            "weights, which tests the code, not the claim. A shift that CoT data cause should show at either size; a "
            "short fine-tuning can only show a smaller one, so a verdict is about this model and this many tokens."
        ),
        clarity=(
            "The paper shows one pair of checkpoints and does not say how much CoT data is needed, nor whether the "
            "fall is of CoT text alone. What is compared with a model tuned without CoT, and with other texts, is a "
            "control of ours; what happens on text without CoT is no part of the paper's claim."
        ),
        history=(
            "Before the parts were declared, all differences counted alike, without a correction for their number, "
            "and the controls asked only whether the change on CoT text lies below that on another text. They were "
            "met because entropy rose on the other text; now the CoT side must fall too. Changes on no-CoT text were "
            "asked to be falls; now they are asked to be none. Each arm gets worse on the other's text. Tried "
            "before: only the learning rate, on losses of other problems."
        ),
        presets=PRESETS,
        items=items,
        measure=tune_and_measure,
        summary=summary,
        parts=lambda preset: parts(preset.data),
        worlds=WORLDS,
        published=published,
        figures=figures,
    )
)
