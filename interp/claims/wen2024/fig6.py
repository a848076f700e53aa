"""wen2024, Figures 6 and 7: does CoT text make the attention of a pretrained model sparser?

The same model reads the same problems with CoT and without; differences of the normalised attention entropy are
paired by problem. Judged as published, and under controls that the published comparison lacks: the minimum over more
tokens is lower even if nothing else changes, so CoT is also compared at equal length, in equal format, and with
shuffled and filler tokens. These controls leave token type, position and attention sinks free.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.core.claim import Claim, Item, register
from interp.core.contrast import FEWEST_FOR_HEADS, Contrast, Side, contrast
from interp.core.verdict import Verdict, judged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig6"
SMALLEST = 0.01
"""The smallest difference of interest: one hundredth of the range of the normalised entropy."""

CONTRASTS = {
    "as published": (
        Side("cot", "min", "all"), Side("no_cot", "min", "all"),
        "minimum over all tokens, with CoT minus without",
    ),
    "as published, answer tokens": (
        Side("cot", "min", "answer"), Side("no_cot", "min", "answer"),
        "minimum over answer tokens, with CoT minus without",
    ),
    "controlled: equal length": (
        Side("cot", "length_matched_min", "answer"), Side("no_cot", "length_matched_min", "answer"),
        "length-matched minimum over answer tokens, with CoT minus without",
    ),
    "controlled: equal length and format": (
        Side("cot_clean", "length_matched_min", "answer"), Side("no_cot", "length_matched_min", "answer"),
        "length-matched minimum over answer tokens, CoT in the format of no_cot minus no_cot",
    ),
    "controlled: shuffled tokens": (
        Side("cot", "min", "answer"), Side("shuffled_tokens", "min", "answer"),
        "minimum over answer tokens, CoT minus the same tokens shuffled",
    ),
    "controlled: filler": (
        Side("cot", "min", "answer"), Side("filler", "min", "answer"),
        "minimum over answer tokens, CoT minus equally many full stops",
    ),
}  # fmt: skip
"""Each test: first side, second side, what the difference is."""


@dataclass(frozen=True)
class Fig6:
    """A measurement in shards of problems; a shard is one item."""

    model: str
    data: str
    limit: int | None
    shard: int
    conditions: tuple[str, ...] = ("cot", "no_cot", "cot_clean", "shuffled_tokens", "filler")
    keep_tokens: int = 0
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""


PRESETS = {
    "smoke": Fig6("builtin", "builtin", limit=4, shard=2),
    "cpu": Fig6("builtin", "builtin", limit=100, shard=10, keep_tokens=1),
    "paper": Fig6("Qwen/Qwen2-7B", "openai/gsm8k", limit=None, shard=100),
}


def items(preset: Fig6) -> list[Item]:
    """One item for each shard of problems."""
    from hf_analysis.text.problems import load_problems

    total = preset.limit or len(load_problems(preset.data))
    starts = range(0, total, preset.shard)
    return [
        Item(f"problems={start}-{min(start + preset.shard, total) - 1}", {**asdict(preset), "start": start})
        for start in starts
    ]


def measure_shard(item: Item, work: Path) -> pd.DataFrame:
    """Measures the item's problems under all conditions."""
    from hf_analysis.measurement.measure import measure
    from hf_analysis.models.loading import load_model
    from hf_analysis.text.problems import load_problems

    p = item.parameters
    problems = load_problems(p["data"], limit=p["limit"])[p["start"] : p["start"] + p["shard"]]
    keep = p["keep_tokens"] if p["start"] == 0 else 0
    return measure(load_model(p["model"]), problems, p["conditions"], work, keep_tokens=keep, resume=True)


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """Each contrast whose two sides were measured."""
    return [
        judged(
            found.overall(),
            claim=ID,
            part=part,
            quantity=f"normalised entropy, mean over heads: {CONTRASTS[part][2]}",
            threshold=-SMALLEST,
            direction="below",
            unit="problems",
            note=_heads_note(found),
        )
        for part, found in _contrasts(rows).items()
    ]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The paper's sorted bars, heads paired across conditions, and difference maps with significance."""
    from interp.figures.pretrained import difference_maps, paired_heads, sorted_bars

    contrasts = _contrasts(rows)
    drawn = {"paired_heads": paired_heads(contrasts), "difference_maps": difference_maps(contrasts)}
    if "as published" in contrasts:
        drawn["sorted_bars"] = sorted_bars(contrasts["as published"])
    return drawn


def _contrasts(rows: pd.DataFrame) -> dict[str, Contrast]:
    measured = set(zip(rows["condition"], rows["metric"], rows["scope"]))
    return {
        part: contrast(rows, first, second)
        for part, (first, second, _) in CONTRASTS.items()
        if all((side.condition, side.metric, side.scope) in measured for side in (first, second))
    }


def _heads_note(found: Contrast) -> str:
    means = f"{found.first.mean():.3f} against {found.second.mean():.3f}"
    if len(found.first) < FEWEST_FOR_HEADS:
        return f"{means}; single heads cannot be told apart with {len(found.first)} problems"
    lower, higher = found.head_shares()
    return f"{means}; {lower:.0%} of heads clearly lower, {higher:.0%} clearly higher (max-T, familywise 5%)"


register(
    Claim(
        id=ID,
        sentence=(
            "The normalised attention entropy of a pretrained model is lower on text with CoT than without: "
            "real-world CoT data has a sparser structure."
        ),
        test=(
            "Paired by problem, heads averaged within a problem: the mean difference (CoT minus comparison) is "
            f"below -{SMALLEST:g}, by a 95% interval over problems. As published: plain minimum over all tokens, "
            "against no CoT. Controlled: length-matched minimum over answer tokens, against no CoT; the same with "
            "the format of the two texts made equal; plain minimum against the same tokens shuffled and against "
            "equally many filler tokens. Per head: sign-flip max-T over problems."
        ),
        deviations=(
            "The paper measures Qwen2-7B on the GSM8K test set, which is the paper preset. cpu: the built-in "
            "SmolLM2-135M-Instruct on 100 GSM-symbolic problems (the same kind of problem, generated offline); "
            "smoke: four of these. The claim is about pretrained language models and grade-school reasoning in "
            "general, so it should hold there too; a verdict is about the model and the problems that were measured."
        ),
        presets=PRESETS,
        items=items,
        measure=measure_shard,
        judge=judge,
        figures=figures,
    )
)
