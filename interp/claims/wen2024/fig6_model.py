"""wen2024, Figure 6, second claim: is a model trained on CoT data sparser than its base on the same text?

Two models with one tokenizer read the same CoT text; differences of the normalised entropy are paired by problem.
`cotlens entropy --model B --against A` judges any other pair; wen2024/fig6-finetune trains the pair itself.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.core.claim import Claim, Item, register
from interp.core.contrast import Contrast, Side, contrast
from interp.core.verdict import Verdict, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hf_analysis.models.loading import LoadedModel

ID = "wen2024/fig6-model"
SMALLEST = 0.01
"""The smallest difference of interest, as in wen2024/fig6."""
AGAINST = "against "
"""Prefix of the runs of the comparison model."""
UNTRAINED = "untrained "
"""Prefix that asks for a model with randomly initialised weights."""


@dataclass(frozen=True)
class Fig6Model:
    """Two models on the same problems with CoT."""

    model: str
    against: str
    data: str
    limit: int | None
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""


PRESETS = {
    "smoke": Fig6Model("builtin", UNTRAINED + "builtin", "builtin", limit=3),
    "cpu": Fig6Model("builtin", UNTRAINED + "builtin", "builtin", limit=24),
    "paper": Fig6Model("Qwen/Qwen2-Math-7B", "Qwen/Qwen2-7B", "openai/gsm8k", limit=None),
}


def items(preset: Fig6Model) -> list[Item]:
    """One item for each model."""
    return [Item(side, {**asdict(preset), "side": side}) for side in ("model", "against")]


def measure_model(item: Item, work: Path) -> pd.DataFrame:
    """Measures one of the two models on text with CoT."""
    from hf_analysis.measurement.measure import measure
    from hf_analysis.models.loading import require_same_tokenizer
    from hf_analysis.text.problems import load_problems

    p = item.parameters
    problems = load_problems(p["data"], limit=p["limit"])
    model = _load(p[item.name])
    require_same_tokenizer(model, _load(p["model" if item.name == "against" else "against"]))
    prefix = AGAINST if item.name == "against" else ""
    return measure(model, problems, ["cot"], work, resume=True, run=f"{prefix}{model.name}")


def _load(name: str) -> "LoadedModel":
    from hf_analysis.models.loading import load_model, untrained_twin

    if name.startswith(UNTRAINED):
        return untrained_twin(load_model(name.removeprefix(UNTRAINED)), seed=0)
    return load_model(name)


def _contrasts(rows: pd.DataFrame) -> tuple[str, dict[str, Contrast]]:
    runs = list(rows["run"].unique())
    ours = next(run for run in runs if not run.startswith(AGAINST))
    other = next(run for run in runs if run.startswith(AGAINST))
    tests = {"as published": ("min", "all"), "answer tokens, mean": ("mean", "answer")}
    measured = set(zip(rows["metric"], rows["scope"]))
    found = {
        part: contrast(rows, Side("cot", metric, scope, run=ours), Side("cot", metric, scope, run=other))
        for part, (metric, scope) in tests.items()
        if (metric, scope) in measured  # paper mode measures the published reduction only
    }
    kind = "control, no evidence about CoT: trained against untrained" if UNTRAINED in other else f"{ours} {other}"
    return kind, found


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The difference of the two models on the same tokens, paired by problem."""
    kind, contrasts = _contrasts(rows)
    return [
        judged(
            found.overall(),
            claim=ID,
            part=f"{kind}; {part}",
            quantity="normalised entropy on CoT text, mean over heads: model minus comparison",
            threshold=-SMALLEST,
            direction="below",
            unit="problems",
            note=f"{found.first.mean():.3f} against {found.second.mean():.3f}",
        )
        for part, found in contrasts.items()
    ]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Layer x head maps of the difference between the models."""
    from interp.figures.pretrained import difference_maps

    return {"model_difference": difference_maps(_contrasts(rows)[1])}


register(
    Claim(
        id=ID,
        sentence=(
            "On the same CoT text the model fine-tuned on CoT data has lower attention entropy than its base: "
            "fine-tuning on CoT data promotes sparser attention."
        ),
        test=(
            "Same text, same tokens, paired by problem, heads averaged within a problem: the mean difference (model "
            f"minus comparison) of the normalised entropy is below -{SMALLEST:g}, by a 95% interval over problems; "
            "minimum over all tokens as published, and mean over answer tokens. Models must share their tokenizer."
        ),
        deviations=(
            "The paper compares Qwen2-Math-7B with Qwen2-7B on GSM8K; that is the paper preset. No such pair of "
            "checkpoints can be had offline, so the smoke and cpu presets compare the built-in SmolLM2-135M-Instruct "
            "with an untrained twin (same architecture and tokenizer, fresh weights) on GSM-symbolic problems. That "
            "is a positive control of this test, not evidence about CoT training, and its verdict is named so."
        ),
        presets=PRESETS,
        items=items,
        measure=measure_model,
        judge=judge,
        figures=figures,
    )
)
