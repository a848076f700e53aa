"""wen2024, Figure 6, second claim: is a model trained on CoT data sparser than its base on the same text?

Two models with one tokenizer read the same CoT text; differences of the normalised entropy are paired by problem.
`cotlens entropy --model B --against A` compares any other pair; wen2024/fig6-finetune trains the pair itself. Against
an untrained model the comparison is a positive control of the test and says nothing about CoT.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.wen2024._pretrained import CLUSTERED, SMALLEST, WHY_SMALLEST, mean_difference, read_of, sides
from interp.claims.wen2024._worlds_pretrained import deviations, simulated_entropies
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.contrast import Contrast, Side, contrast
from interp.core.parts import NotMeasurable, Part
from interp.core.problem_runs import PROBLEMS, built_in, load, some_problems, unit_of
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hf_analysis.models.loading import LoadedModel

ID = "wen2024/fig6-model"
AGAINST = "against "
"""Prefix of the runs of the comparison model."""
UNTRAINED = "untrained "
"""Prefix that asks for a model with randomly initialised weights."""
REDUCTIONS = {
    "published": ("min", "all", "minimum over all tokens"),
    "mean": ("mean", "answer", "mean over answer tokens"),
}
"""Metric, scope, and what it is in words."""


@dataclass(frozen=True)
class Fig6Model:
    """Two models on the same problems with CoT."""

    model: str
    against: str
    data: str
    limit: int | None
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""
    first_unit: int = 0
    """The first problem."""


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

    p = item.parameters
    problems = some_problems(p["data"], p["first_unit"], p["limit"])
    model = _load(p[item.name])
    require_same_tokenizer(model, _load(p["model" if item.name == "against" else "against"]))
    prefix = AGAINST if item.name == "against" else ""
    return measure(model, problems, ["cot"], work, resume=True, run=f"{prefix}{model.name}")


def _load(name: str) -> "LoadedModel":
    from hf_analysis.models.baselines import untrained

    if name.startswith(UNTRAINED):
        return untrained(load(name.removeprefix(UNTRAINED)), seed=0)
    return load(name)


@dataclass(frozen=True)
class Pair:
    """What the parts read."""

    contrasts: Mapping[str, Contrast]
    """By reduction: the model minus the comparison model."""
    untrained: bool
    """Whether the comparison model has random weights."""
    names: str


def summary(rows: pd.DataFrame) -> Pair:
    """Both models on the same tokens, paired by problem."""
    runs = list(rows["run"].unique())
    ours = next(run for run in runs if not run.startswith(AGAINST))
    other = next(run for run in runs if run.startswith(AGAINST))
    measured = set(rows.groupby(["metric", "scope"]).groups)
    rows = published(rows)
    found = {
        key: contrast(rows, Side("cot", metric, scope, run=ours), Side("cot", metric, scope, run=other))
        for key, (metric, scope, _) in REDUCTIONS.items()
        if (metric, scope) in measured  # paper mode measures the published reduction only
    }
    return Pair(found, UNTRAINED in other, f"{ours} {other}")


def parts(preset: Fig6Model) -> list[Part]:
    """The published reduction is the paper's; a comparison with an untrained model is a control."""
    return [
        Part(
            key=f"control_{key}" if control else key,
            name=f"{name}, {reduction}",
            role="control" if control else "paper" if key == "published" else "ours",
            source="section 4.3 and Figure 6: on the same With CoT data, Qwen2-Math-7B has lower attention entropy"
            if key == "published" and not control
            else "",
            primary=key == "published" and not control,
            quantity=f"normalised entropy on CoT text, mean over heads, {reduction}: model minus comparison",
            estimate=partial(difference, key=key, control=control),
            direction="below",
            threshold=-SMALLEST,
            why=WHY_SMALLEST,
            unit=unit_of(preset.data),
            note=partial(_note, key=key),
        )
        for control, name in ((False, "trained on CoT data against its base"), (True, "trained against untrained"))
        for key, (_, _, reduction) in REDUCTIONS.items()
    ]


def difference(pair: Pair, level: float, *, key: str, control: bool) -> Interval | NotMeasurable:
    """The mean difference over problems, if the pair is of the kind that the part is about."""
    if key not in pair.contrasts:
        return NotMeasurable(f"the {REDUCTIONS[key][2]} was not measured")
    if pair.untrained != control:
        kind = "has random weights" if pair.untrained else "is a trained one"
        return NotMeasurable(f"the comparison model {kind}: {pair.names}")
    return mean_difference(pair.contrasts[key], level)


def _note(pair: Pair, key: str) -> str:
    return f"{pair.names}: {sides(pair.contrasts[key])}"


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """The two reductions."""
    return read_of(rows, {("cot", metric, scope) for metric, scope, _ in REDUCTIONS.values()})


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Layer x head maps of the difference between the models."""
    from interp.figures.pretrained import difference_maps

    pair = summary(rows)
    return {"model_difference": difference_maps({REDUCTIONS[key][2]: of for key, of in pair.contrasts.items()})}


def _world(change: float, other: str) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows of a model whose entropy differs by `change` from that of the model called `other`."""
    limit = PRESETS["cpu"].limit
    assert limit is not None
    units = built_in(limit)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        noise = deviations(generator, units, (len(REDUCTIONS),), 0.02, 0.01)
        values = {}
        for (metric, scope, _), of_reduction in zip(REDUCTIONS.values(), noise):
            values["model", "cot", metric, scope] = 0.3 + change + of_reduction
            values[AGAINST + other, "cot", metric, scope] = np.full(len(units), 0.3)
        return simulated_entropies(units, values)

    return rows


_PAIR, _CONTROL = ("published", "mean"), ("control_published", "control_mean")
WORLDS = (
    World("training changes nothing that counts", dict.fromkeys(_PAIR, False), _world(-SMALLEST, "base")),
    World("training makes attention sparser", dict.fromkeys(_PAIR, True), _world(-0.04, "base")),
    World("no difference from random weights", dict.fromkeys(_CONTROL, False), _world(-SMALLEST, f"{UNTRAINED}twin")),
    World("random weights attend evenly", dict.fromkeys(_CONTROL, True), _world(-0.2, f"{UNTRAINED}twin")),
    World(
        "random weights attend evenly, which says nothing about CoT",
        dict.fromkeys(_PAIR, False),
        _world(-0.2, f"{UNTRAINED}twin"),
    ),
)


register(
    Claim(
        id=ID,
        sentence=(
            "On the same CoT text the model fine-tuned on CoT data has lower attention entropy than its base: "
            "fine-tuning on CoT data promotes sparser attention."
        ),
        method=(
            "Two models with one tokenizer read the same CoT text; differences of the normalised entropy (model "
            "minus comparison) are paired by problem, heads averaged within a problem: of the minimum over all "
            f"tokens, as published, and of the mean over answer tokens. {CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: SmolLM2-135M-Instruct and an untrained twin"),
            "cpu": Scale(
                "another model", "SmolLM2-135M-Instruct and an untrained twin: a control, since no pair can be had"
            ),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "On the same CoT text the minimum of the normalised entropy of the model trained on CoT data minus that "
            "of its base: {published}; of a trained model minus an untrained one, as a control: {control_published}."
        ),
        deviations=(
            "The paper compares Qwen2-Math-7B with Qwen2-7B on GSM8K; that is the paper preset. No such pair of "
            "checkpoints can be had offline, so the smoke and cpu presets compare the built-in SmolLM2-135M-Instruct "
            "with an untrained twin (same architecture and tokenizer, fresh weights) on GSM-symbolic problems. That "
            "is a positive control of this test, not evidence about CoT training: the paper's part is not testable "
            "there."
        ),
        clarity=(
            "Qwen2-Math-7B differs from Qwen2-7B in far more than CoT data; one pair of checkpoints cannot say which "
            "difference matters. wen2024/fig6-finetune varies the data alone."
        ),
        history=(
            "Before the parts were declared, the comparison with an untrained model was judged under the claim's own "
            "name, marked as a control in its text only, and problems of one template were taken as independent."
        ),
        presets=PRESETS,
        loops=(PROBLEMS,),
        items=items,
        measure=measure_model,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        published=published,
        figures=figures,
    )
)
