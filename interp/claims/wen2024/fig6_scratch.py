"""wen2024, Figure 6, second claim with known training data: is a model that was trained on CoT text sparser?

Small language models are trained from fresh weights on generated word problems, some with CoT and some without, until
they solve held-out ones, and both are measured on both texts. What is judged stands in `_scratch.py`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._scratch import ARMS, METRICS, PLACES, SOLVED, parts, summary
from interp.claims.wen2024._worlds_scratch import WORLDS
from interp.core.claim import Claim, Item, Scale, register
from interp.core.loops import Loop, loop
from probes import rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hf_analysis.models.loading import LoadedModel
    from hf_analysis.text.problems import Problem

ID = "wen2024/fig6-scratch"
NEW_TOKENS = 32
"""Longer than any solution of the family."""


@dataclass(frozen=True)
class Fig6Scratch:
    """Two trainings for each seed, and the held-out problems that all models read."""

    d_model: int
    n_layers: int
    n_heads: int
    d_mlp: int
    tokens: int
    """Forwarded tokens of each training."""
    points: int
    """Measurements of each training, evenly spaced; the last is judged."""
    lr: float
    limit: int
    """Held-out problems."""
    seeds: int
    first_unit: int = 0
    """The first seed, and the first held-out problem."""


PRESETS = {
    "smoke": Fig6Scratch(32, 2, 2, 64, tokens=8_000, points=2, lr=3e-3, limit=6, seeds=2),
    "cpu": Fig6Scratch(128, 4, 4, 512, tokens=2_000_000, points=4, lr=2e-3, limit=100, seeds=3),
    "paper": Fig6Scratch(256, 5, 8, 1_024, tokens=20_000_000, points=10, lr=1e-3, limit=400, seeds=5),
}


def items(preset: Fig6Scratch) -> list[Item]:
    """One item for each training and seed."""
    seeds = range(preset.first_unit, preset.first_unit + preset.seeds)
    return [
        Item(f"{arm}-seed={seed}", {**asdict(preset), "training": arm, "seed": seed})
        for seed in seeds
        for arm in ARMS
    ]


def train_and_measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains one model; at every point its attention, and what it solves. Goes on where it was killed."""
    from hf_analysis.scratch.family import held_out_problems
    from hf_analysis.scratch.pretraining import Pretraining, PretrainingConfig

    p = item.parameters
    problems = held_out_problems(p["limit"], p["first_unit"])
    names = ("seed", "d_model", "n_layers", "n_heads", "d_mlp", "tokens", "lr")
    run = Pretraining(p["training"], PretrainingConfig(**{name: p[name] for name in names}), problems)
    path = work / "checkpoint.safetensors"
    if path.exists():
        run.restore(path)
    found = []
    for point in range(1, p["points"] + 1):
        tokens = p["tokens"] * point // p["points"]
        file = work / "points" / f"{tokens}.parquet"
        if not file.exists():
            model = run.train(tokens, path)
            rows.write(file, _measured(model, problems, item.name, work / f"measurement-{tokens}"))
        where = rows.setting(training=p["training"], seed=p["seed"], tokens=tokens)
        found.append(rows.read(file).assign(setting=where))
    return rows.concat(found)


def _measured(model: "LoadedModel", problems: "list[Problem]", run: str, out: Path) -> pd.DataFrame:
    """Mean entropies over heads by problem and text, and whether the model's own text is right."""
    from hf_analysis.measurement.measure import measure
    from hf_analysis.models.generation import Decoding
    from hf_analysis.text.own import own_texts

    heads = measure(model, problems, tuple(ARMS), out, metrics=METRICS, scopes=("all", "final"), resume=True, run=run)
    place = ["unit", "condition", "metric", "scope", "n_tokens"]
    means = heads.groupby(place, sort=False, as_index=False)["value"].mean()
    texts = own_texts(model, problems, Decoding(max_new_tokens=NEW_TOKENS), seed=0, cue="")
    right = [float(texts[problem.id][0].outcome == "right") for problem in problems]
    return rows.concat(
        [
            rows.table(run=run, **{name: means[name].to_numpy() for name in (*place, "value")}),
            rows.table(
                run=run,
                condition="generated",
                unit=[problem.id for problem in problems],
                metric="solved",
                value=right,
            ),
        ]
    )


def published(table: pd.DataFrame) -> pd.DataFrame:
    """What the parts and figures read."""
    read = {(metric, scope) for (metric, scope, _), *_ in PLACES.values()} | {("solved", "all")}
    return table[[pair in read for pair in zip(table["metric"], table["scope"])]]


def figures(table: pd.DataFrame) -> Mapping[str, "Figure"]:
    """What the models solve and how their entropy moves in training; both models problem by problem."""
    from interp.claims.wen2024._scratch_figures import both_models, in_training

    return {"both_models": both_models(summary(table)), "in_training": in_training(table)}


LOOPS = (
    loop("tokens", "tokens", least=16_384),
    Loop("problems read", lambda p: p["points"] * p["limit"], lambda p, n: {"points": 1, "limit": n}),
)
"""What an item repeats."""


register(
    Claim(
        id=ID,
        sentence=(
            "Training on CoT data promotes sparser attention: on the same text, a model trained on problems with CoT "
            "has lower attention entropy than one trained on the same problems without."
        ),
        method=(
            "Llama models with fresh weights are trained on generated word problems (someone has some things, and "
            "gains or loses some, once or twice), on question, CoT and 'The answer is N.', or on question and 'The "
            "answer is N.' alone; both of a seed begin with the same weights and read as many tokens, all "
            "supervised. Held out are problems of two events whose solution no training problem has. A training "
            f"counts if its models solve {SOLVED:g} of them by their own greedy texts. Then both models read the "
            "same texts: minimum of the normalised entropy over all tokens of text with CoT, as published; over the "
            "closing sentence, with the first token and without; and text without CoT. Heads are averaged within a "
            "problem; intervals are for new problems of this kind and new training runs (crossed random effects); n "
            "counts problems."
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: models that have learned nothing"),
            "cpu": Scale(
                "another model",
                "Llamas of 1.1 million parameters trained from scratch on two million tokens of stories with one or "
                "two sums, for Qwen2-Math-7B and Qwen2-7B on GSM8K",
            ),
            "paper": Scale(
                "another model", "Llamas of 5.3 million parameters trained from scratch on 20 million tokens"
            ),
        },
        finding=(
            "On the same text the minimum of the normalised entropy of models trained with CoT minus that of models "
            "trained without is {published} over all tokens of CoT text, {sentence} over its closing sentence and "
            "{no_sink} without the first token; on text without CoT {other_text}. They solve {cot_solves} and "
            "{direct_solves} of held-out problems."
        ),
        deviations=(
            "The paper compares two published checkpoints, Qwen2-Math-7B and Qwen2-7B; what these were trained on is "
            "not known in full. Here all training data are known, and differ in one thing: whether the steps stand "
            "between question and answer. It can say whether CoT text makes the attention of such models sparser; "
            "it cannot say what CoT data add to a model that has read much else. As many tokens without CoT hold "
            "more problems. The model trained without CoT has never read a step, the other no question followed by "
            "its answer: on each text one of the two models is out of its depth, so both texts are measured, and "
            "each model on its own."
        ),
        clarity=(
            "The paper says that fine-tuning on CoT data enhances sparsity and shows one pair of checkpoints; that a "
            "model trained from scratch shows it as well is our reading of the sentence."
        ),
        history=(
            "Looked at before, on seed 0 and other problems, for sizes, budget and the kind of problems; no entropy "
            "of any model. Templates of GSM-symbolic came first: models of 5.3 million parameters did not learn "
            "them within 1.1 million tokens, nor smaller ones, with small numbers, within 2.8 million (with CoT 43% "
            "of six templates; without CoT 97% of one and hardly any of two others). Stories with up to four events "
            "were learned with CoT (94% after 0.9 million tokens) and not without (14%); with up to two, without "
            "CoT, 82% were right after 1.3 million tokens. The entropies of the run with seeds 1000 to 1002 were "
            "looked at, though the precondition left nothing to judge: the closing sentence has more entropy after "
            "training with CoT in all three, by 0.02, 0.14 and 0.32. Eight new seeds, from 1100 on, are declared "
            "for this."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=train_and_measure,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        published=published,
        figures=figures,
    )
)
