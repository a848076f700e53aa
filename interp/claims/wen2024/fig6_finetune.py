"""wen2024, Figure 6, second claim as an experiment: does fine-tuning on CoT data make attention sparser?

One base model is fine-tuned with LoRA on three kinds of text, for equally many tokens, all of them supervised:
problems with CoT, the same problems with their answers only, and prose. Every run is measured at several doses, on
problems that no arm has seen. What is judged stands in `_finetune.py`, how it is measured in `_tuned.py`.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.wen2024._finetune import LEARNED, parts
from interp.claims.wen2024._pretrained import CLUSTERED
from interp.claims.wen2024._tuned import ARMS, BASE, dose_rows, summary, tuned_rows
from interp.claims.wen2024._worlds_finetune import WORLDS
from interp.core.claim import Claim, Item, Scale, register
from interp.core.loops import Loop
from interp.core.problem_runs import TINY, load, some_problems

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig6-finetune"


@dataclass(frozen=True)
class Fig6Finetune:
    """One base model, three arms of fine-tuning, every model on the same held-out problems."""

    model: str
    data: str
    prose: str
    """Where the arm of prose has its text: builtin, a directory, or a dataset of the hub."""
    limit: int | None
    """Held-out problems to measure."""
    n_training: int | None
    """Training problems, before the held-out ones are removed."""
    doses: tuple[int, ...]
    """Forwarded tokens after which a training run is measured; each run is trained once, to the last."""
    tokens_per_step: int
    lr: float
    rank: int
    seeds: int
    """Training runs of each arm."""
    first_unit: int = 0
    """The first seed, and the first held-out problem."""


PRESETS = {
    "smoke": Fig6Finetune(
        TINY + "builtin", "builtin", "builtin", 3, 40, (256, 512), 256, lr=1e-2, rank=4, seeds=2
    ),
    "cpu": Fig6Finetune(
        "builtin", "builtin", "builtin", 24, 2_000, (4_096, 16_384), 512, lr=5e-4, rank=16, seeds=3
    ),
    "paper": Fig6Finetune(
        "Qwen/Qwen2-7B", "openai/gsm8k", "Salesforce/wikitext", None, None, (65_536, 262_144, 1_048_576), 8_192,
        lr=1e-4, rank=16, seeds=3,
    ),
}  # fmt: skip


def items(preset: Fig6Finetune) -> list[Item]:
    """The base model, and one item for each arm and seed."""
    common = {**asdict(preset), "doses": list(preset.doses)}
    runs = [Item(BASE, {**common, "arm": BASE, "seed": 0})]
    for seed in range(preset.first_unit, preset.first_unit + preset.seeds):
        runs += [Item(f"{arm}-seed={seed}", {**common, "arm": arm, "seed": seed}) for arm in ARMS]
    return runs


def tune_and_measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains the item's adapters, if it has any, and measures losses and attention at every dose."""
    from hf_analysis.finetuning import FinetuneConfig
    from hf_analysis.training_text import prose_passages, training_problems

    p = item.parameters
    held_out = some_problems(p["data"], p["first_unit"], p["limit"])
    prose, held_out_prose = prose_passages(p["prose"])
    model = load(p["model"])
    if p["arm"] == BASE:
        return dose_rows(model, held_out, held_out_prose, BASE, 0, work)
    texts = prose if p["arm"] == "prose" else training_problems(p["data"], p["n_training"], held_out)
    names = ("seed", "tokens_per_step", "lr", "rank")
    options = {name: p[name] for name in names}
    config = FinetuneConfig(**options, tokens=p["doses"][-1], decay=False, whole=True)
    return tuned_rows(
        model,
        texts,
        p["arm"],
        config,
        p["doses"],
        lambda tuned, run, dose: dose_rows(tuned, held_out, held_out_prose, run, dose, work),
        work,
    )


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Entropy against the dose, and what was learned."""
    from interp.claims.wen2024._finetune_figures import dose_response, learning

    found = summary(rows)
    return {"dose_response": dose_response(found), "learning": learning(found, rows)}


SHORT = 512
"""Tokens of a training step in a rehearsal."""
LOOPS = (
    Loop(
        f"steps of {SHORT} tokens",
        lambda p: 0 if p["arm"] == BASE else p["doses"][-1] / SHORT,
        lambda p, n: {"doses": [n * SHORT], "tokens_per_step": SHORT},
        least=1,
    ),
    Loop(
        "problems read",
        lambda p: p["limit"] * (1 if p["arm"] == BASE else len(p["doses"])),
        lambda p, n: {"limit": n, "first_unit": 0, "doses": p["doses"][-1:]},
    ),
)
"""What an item repeats."""


register(
    Claim(
        id=ID,
        sentence=(
            "Fine-tuning on CoT data promotes sparser attention: a model trained on problems with CoT has lower "
            "attention entropy than its base, and than its base trained on other text."
        ),
        method=(
            "One base model is fine-tuned on problems with CoT, on the same problems with answers only, and on "
            "prose, for equally many tokens, all supervised, at a constant learning rate; each run is measured along "
            "the way, at every dose, on held-out problems. As published: the minimum of the normalised entropy over "
            "all tokens of CoT text, tuned on CoT minus base. At equal length: the minimum over the same tokens, the "
            "closing sentence 'The answer is N.' after CoT, with the first token and without; this counts only if it "
            "falls in the CoT arm, and by more than in each of the other arms (the largest of the three numbers is "
            "judged). Differences are paired by problem and training seed, heads averaged within a problem, over "
            "problems and training runs (crossed random effects). Each arm must lower the held-out loss on its own "
            f"kind of text by more than {LEARNED:g} nats per token; if not, what involves it is not testable. "
            f"{CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: a tiny model with fresh weights, 512 tokens"),
            "cpu": Scale(
                "another model",
                "SmolLM2-135M-Instruct for Qwen2-7B; LoRA; doses of 4,096 and 16,384 tokens, for 64 thousand to a "
                "million",
            ),
            "paper": Scale(
                "another model",
                "Qwen2-7B fine-tuned here with LoRA for the published Qwen2-Math-7B; doses of 65,536, 262,144 and "
                "1,048,576 tokens",
            ),
        },
        finding=(
            "On this model, fine-tuning on CoT text for the largest dose changes the minimum of the normalised "
            "entropy by {published} over CoT text as published, and by {alone} over the same closing sentence: "
            "{over_no_cot} beyond fine-tuning on the answers without CoT, {over_prose} beyond fine-tuning on prose."
        ),
        falls_short=(
            "16,384 tokens stand for a training on mathematics of many billions. At a quarter of them the "
            "published number had not moved; at 16,384 it had fallen by less than we count, and after prose or "
            "bare answers by more: what fails here is that CoT text does more than other text at this dose, not "
            "that more of it would lower entropy."
        ),
        deviations=(
            "The paper compares two published checkpoints, Qwen2-Math-7B and Qwen2-7B, which differ in far more than "
            "CoT data; every preset fine-tunes one base itself, with LoRA adapters on every linear layer in place of "
            "full fine-tuning. All tokens but a text's first are supervised, so that arms of equal length are equal "
            "in supervised tokens too; without CoT the same number of tokens holds more problems. cpu: "
            "SmolLM2-135M-Instruct on GSM-symbolic problems, three runs an arm; held-out problems have other names "
            "and numbers, but come from the same 85 templates. Its prose is one story, 6,162 tokens to train on and "
            "1,126 held out, so that the largest dose reads it between two and three times, and no problem twice. 64 "
            "thousand tokens and more are not affordable on two cores; these doses stand in the paper preset, for a "
            "GPU: "
            "Qwen2-7B on the train split of GSM8K and on WikiText-103, measured on GSM8K's test split. smoke: a tiny "
            "model with fresh weights, which tests the code, not the claim. A shift that CoT data cause should show "
            "at either size; a short fine-tuning can only show a smaller one, so a verdict is about this model and "
            "these doses."
        ),
        clarity=(
            "The paper shows one pair of checkpoints and does not say how much CoT data is needed, nor whether other "
            "text would do the same. That CoT data do it, and not any further training, is what its sentence means; "
            "the arms that test it are ours."
        ),
        history=(
            "First, two arms of 16,384 forwarded tokens with a falling learning rate and loss on the continuation "
            "only, measured at the end by minima over all and over answer tokens; all differences counted alike. Its "
            "controls were met because entropy rose on other text; then the CoT side had to fall too. After that run "
            "on the first 24 built-in problems with seeds 0 to 2, the design was changed to doses, a third arm "
            "(prose), all tokens supervised, a constant learning rate of half the former initial one, and the same "
            "closing sentence as the statistic; the needed fall of the loss was lowered from 0.1 to 0.05, because "
            "loss is now on all tokens. Looked at before this was declared: the held-out loss of one run on prose "
            "(seed 97), which fell by 0.087 within 2,048 tokens; no entropy of a tuned model. The learning rate of "
            "the first design was chosen on losses of other problems. Then, before any run of this design, the texts "
            "with CoT were given the same closing sentence as those without: it is what is measured, and only the "
            "arm without CoT had been trained on it."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=tune_and_measure,
        summary=summary,
        parts=lambda preset: parts(preset.data, preset.doses),
        worlds=WORLDS,
        figures=figures,
    )
)
