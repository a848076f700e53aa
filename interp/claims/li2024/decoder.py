"""li2024, beyond the paper: does a standard decoder, trained as usual, fail and succeed where the theory model does?

A one-layer GPT-2 style decoder (LayerNorm, MLP, learned positions, all weights trained by Adam on cross-entropy)
reads one token for each column of a prompt; a second one is trained on inputs and labels alone. Both are trained on
prompts without errors, as in the paper, and tested on prompts with offset errors, CoT by rollout. Training goes on
until validation, which has no errors in its examples, is perfect, because with a fixed budget some decoders do not
learn the task at all.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.li2024._runs import difference, errors_of, over_seeds
from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged
from interp.statistics import cautious_mean
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "li2024/decoder"
VIOLATED, SATISFIED = 0.7, 0.9
"""Accuracies of a step, on either side of 0.75."""
HIGH, LOW, CLEAN = 0.5, 0.1, 0.02
"""Errors that count as large, as small, and as those of a decoder that has learned the task."""
ADVANTAGE = 0.3
"""How much better CoT should be where Condition 1 fails."""
FOCUSED = 0.5
"""The attention on the relevant columns; uniform attention would put 0.13 there with CoT, 0.38 without."""


@dataclass(frozen=True)
class Decoder:
    """Two decoders for each seed: with steps and without."""

    accuracies: tuple[float, ...]
    n_examples: int
    budget: int
    """Training samples at most; training stops at the first evaluation without an error."""
    n_queries: int
    seeds: int
    d_model: int = 64
    lr: float = 3e-3
    alpha: float = 0.8


ACCURACIES = (0.6, 0.65, VIOLATED, 0.75, 0.8, 0.85, SATISFIED, 1.0)
PRESETS = {
    "smoke": Decoder((VIOLATED, SATISFIED, 1.0), n_examples=5, budget=512, n_queries=40, seeds=2, d_model=16),
    "cpu": Decoder(ACCURACIES, n_examples=20, budget=81_920, n_queries=1000, seeds=5),
    "paper": Decoder(ACCURACIES, n_examples=80, budget=409_600, n_queries=10_000, seeds=20, d_model=256, lr=1e-3),
}


def items(preset: Decoder) -> list[Item]:
    """One decoder each."""
    return [
        Item(
            f"{condition},seed={seed}",
            {
                "cot": condition == "cot", "seed": seed, "n_examples": preset.n_examples, "budget": preset.budget,
                "accuracies": list(preset.accuracies), "n_queries": preset.n_queries, "d_model": preset.d_model,
                "lr": preset.lr, "alpha": preset.alpha,
            },
        )
        for seed in range(preset.seeds)
        for condition in ("cot", "icl")
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """Trains a decoder: its error of the label by accuracy of a step, its attention on the relevant columns."""
    import torch

    from toy_models.engine.decoder import DecoderConfig
    from toy_models.engine.evaluation import rollout
    from toy_models.engine.forward import HookedForward
    from toy_models.engine.run_rows import dependence_rows, outcome_rows
    from toy_models.engine.training import TrainConfig, train
    from toy_models.incontext.tokens_task import IncontextTokens

    p = item.parameters
    task = IncontextTokens(n_examples=p["n_examples"], cot=p["cot"])
    config = TrainConfig(
        seed=p["seed"], lr=p["lr"], batch_size=128, budget=p["budget"], eval_every=5120,
        n_validation=256, n_test=256, entropy_inputs=64,
    )  # fmt: skip
    decoder = DecoderConfig(n_layers=1, n_heads=1, d_model=p["d_model"], tied=False)
    result = train(task, decoder, config, checkpoint_path=work / "checkpoint.safetensors")
    labels = {"run": item.name, "condition": "cot" if p["cot"] else "icl", "unit": str(p["seed"])}
    tables = [
        outcome_rows(result, **labels, setting=setting(l=p["n_examples"])),
        dependence_rows(result, task, **labels, setting=setting(l=p["n_examples"])),
    ]
    device = next(result.model.parameters()).device
    for accuracy in p["accuracies"]:
        tested = IncontextTokens(n_examples=p["n_examples"], cot=p["cot"], alpha=p["alpha"], accuracy=accuracy)
        batch = tested.sample(p["n_queries"], torch.Generator().manual_seed(1_000_003 + p["seed"])).to(device)
        wrong = rollout(HookedForward(result.model), batch)[:, -1] != batch.answers[:, -1]
        place = setting(a=accuracy, alpha=p["alpha"], l=p["n_examples"], condition_1=int(tested.errors.condition_1))
        tables.append(
            table(
                metric="label_error", value=wrong.double().mean().item(), scope="errors", setting=place,
                n_tokens=p["n_queries"], **labels,
            )
        )  # fmt: skip
    return concat(tables)


def attention(rows: pd.DataFrame) -> pd.Series:
    """By condition and seed: the attention on the examples' columns of the query's pattern and step."""
    found = rows[rows["metric"] == "dependency_mass"]
    return found.groupby(["condition", "unit"])["value"].mean()


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """Without errors, on either side of Condition 1, and the attention of the decoders."""
    found = errors_of(rows, "label_error", "errors")

    def at(condition: str, accuracy: float) -> pd.DataFrame:
        return found[(found["condition"] == condition) & (found["a"] == accuracy)]

    verdict = partial(judged, claim=ID, unit="seeds")
    names = {"cot": "CoT", "icl": "ICL"}
    focus = attention(rows)
    return [
        *(
            verdict(
                over_seeds(at(condition, 1.0)), part=f"{name} learns the task", threshold=CLEAN, direction="below",
                quantity=f"{name}'s error of the label on examples without errors",
            )
            for condition, name in names.items()
        ),
        verdict(
            over_seeds(at("icl", VIOLATED)), part=f"ICL is wrong where Condition 1 fails (a={VIOLATED:g})",
            threshold=HIGH, direction="above", quantity="ICL's error of the label",
        ),
        verdict(
            difference(at("icl", VIOLATED), at("cot", VIOLATED)), threshold=ADVANTAGE, direction="above",
            part=f"CoT is better where Condition 1 fails (a={VIOLATED:g})",
            quantity="error of the label, ICL minus CoT",
            note=f"CoT's error {at('cot', VIOLATED)['value'].mean():.3f}",
        ),
        *(
            verdict(
                over_seeds(at(condition, SATISFIED)), threshold=LOW, direction="below",
                part=f"{name} is right where Condition 1 holds (a={SATISFIED:g})",
                quantity=f"{name}'s error of the label",
            )
            for condition, name in names.items()
        ),
        *(
            verdict(
                cautious_mean(focus[condition].sort_index().to_numpy(float), rng=0, bounds=(0, 1)),
                part=f"{name}'s decoder looks at the query's pattern and step", threshold=FOCUSED, direction="above",
                quantity="attention on the examples' columns of the query's pattern and step",
            )
            for condition, name in names.items()
        ),
    ]  # fmt: skip


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The error of the label against the accuracy of a step, for both decoders."""
    from interp.claims.li2024._figures import decoder_errors

    return {"decoder_errors": decoder_errors(errors_of(rows, "label_error", "errors"))}


register(
    Claim(
        id=ID,
        sentence=(
            "CoT performs better than ICL if Condition 1 fails, by attending to examples of the query's pattern and "
            "step (Remark 2, Proposition 1). Beyond the paper: so does a standard decoder, trained as usual."
        ),
        test=(
            f"One-layer decoders, 5 seeds, 1000 queries, 95% intervals over seeds. Without errors in the examples "
            f"both have an error below {CLEAN:g}. At a={VIOLATED:g}, where Condition 1 fails, ICL's error is above "
            f"{HIGH:g} and CoT's lower by more than {ADVANTAGE:g}; at a={SATISFIED:g} both are below {LOW:g}. More "
            f"than {FOCUSED:g} of the attention of the query's columns is on examples of the same pattern and step."
        ),
        deviations=(
            "The paper's model has one trained matrix, fixed values and no MLP; all else here is a standard "
            "decoder's. alpha = 0.4 in training, alpha' = 0.8 and as many examples in testing. A decoder of tokens "
            "has no unseen patterns and no noise; what is unseen are the tasks. cpu: 20 examples, 5 seeds of 1000 "
            "queries. paper: 80 examples, 20 seeds of 10,000 queries, a wider model. Remark 2 is about the "
            "statistics of the examples, not about the architecture, so it should carry over. The smoke preset is "
            "far smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
