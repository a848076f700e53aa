"""wen2024, Figures 6 and 7: does CoT text make the attention of a pretrained model sparser?

The same model reads the same problems with CoT and without; differences of the normalised attention entropy are
paired by problem. Judged as published; and under controls that the published comparison lacks: the minimum over more
tokens is lower even if nothing else changes, so CoT is also compared at equal length, in equal format, and with
shuffled and filler tokens. These controls leave token type, position and attention sinks free.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from hf_analysis.measurement.pairs import matched_to
from interp.claims.wen2024._pretrained import (
    CLUSTERED,
    SMALLEST,
    WHY_SMALLEST,
    mean_difference,
    read_of,
    shards,
    sides,
    some_problems,
    unit_of,
)
from interp.claims.wen2024._worlds_pretrained import built_in, deviations, simulated_entropies
from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.contrast import FEWEST_FOR_HEADS, Contrast, Side, contrast
from interp.core.parts import NotMeasurable, Part, Role
from interp.statistics import Interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wen2024/fig6"


@dataclass(frozen=True)
class Comparison:
    """Text with CoT against another text, by one reduction over tokens."""

    name: str
    first: Side
    second: Side
    what: str
    """What the difference is."""
    role: Role = "control"
    source: str = ""


COMPARISONS = {
    "published": Comparison(
        "as published", Side("cot", "min", "all"), Side("no_cot", "min", "all"),
        "minimum over all tokens, with CoT minus without", role="paper",
        source="section 4.3 and Figure 6: the entropy is lower for With CoT data compared to No CoT data",
    ),
    "answer": Comparison(
        "as published, answer tokens", Side("cot", "min", "answer"), Side("no_cot", "min", "answer"),
        "minimum over answer tokens, with CoT minus without", role="ours",
    ),
    "length": Comparison(
        "at equal length",
        Side("cot", "length_matched_min", "answer"), Side("no_cot", "length_matched_min", "answer"),
        "length-matched minimum over answer tokens, with CoT minus without", role="paper",
        source="section 4.3: it is the sparse dependence of real-world CoT data that leads to sparser attention, "
        "so it must show where both texts offer the minimum equally many tokens",
    ),
    "format": Comparison(
        "equal length and format",
        Side("cot_clean", "length_matched_min", "answer"), Side("no_cot", "length_matched_min", "answer"),
        "length-matched minimum over answer tokens, CoT in the format of no_cot minus no_cot",
    ),
    "shuffled": Comparison(
        "shuffled tokens", Side("cot", "min", "answer"), Side("shuffled_tokens", "min", "answer"),
        "minimum over answer tokens, CoT minus the same tokens shuffled",
    ),
    "filler": Comparison(
        "filler", Side("cot", "min", "answer"), Side("filler", "min", "answer"),
        "minimum over answer tokens, CoT minus equally many full stops",
    ),
}  # fmt: skip
"""By part."""


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
    first_unit: int = 0
    """The first problem."""


PRESETS = {
    "smoke": Fig6("builtin", "builtin", limit=4, shard=2),
    "cpu": Fig6("builtin", "builtin", limit=100, shard=10, keep_tokens=1),
    "paper": Fig6("Qwen/Qwen2-7B", "openai/gsm8k", limit=None, shard=100),
}


def items(preset: Fig6) -> list[Item]:
    """One item for each shard of problems."""
    return shards(preset, preset.limit or len(some_problems(preset.data, preset.first_unit, None)))


def measure_shard(item: Item, work: Path) -> pd.DataFrame:
    """Measures the item's problems under all conditions."""
    from hf_analysis.measurement.measure import measure
    from hf_analysis.models.loading import load_model

    p = item.parameters
    past = p["start"] - p["first_unit"]
    problems = some_problems(p["data"], p["first_unit"], p["limit"])[past : past + p["shard"]]
    keep = p["keep_tokens"] if past == 0 else 0
    return measure(load_model(p["model"]), problems, p["conditions"], work, keep_tokens=keep, resume=True)


def summary(rows: pd.DataFrame) -> dict[str, Contrast]:
    """By part, the two sides paired by problem, if both were measured."""
    measured = set(rows.groupby(["condition", "metric", "scope"]).groups)
    rows = published(rows)
    return {
        key: contrast(rows, of.first, of.second)
        for key, of in COMPARISONS.items()
        if all((side.condition, side.metric, side.scope) in measured for side in (of.first, of.second))
    }


def parts(preset: Fig6) -> list[Part]:
    """What the paper measures and what it infers from that are its own; the other comparisons are controls."""
    return [
        Part(
            key=key,
            name=of.name if of.role != "control" else f"controlled: {of.name}",
            role=of.role,
            source=of.source,
            primary=of.role == "paper",
            quantity=f"normalised entropy, mean over heads: {of.what}",
            estimate=partial(difference, key=key),
            direction="below",
            threshold=-SMALLEST,
            why=WHY_SMALLEST,
            unit=unit_of(preset.data),
            note=partial(_heads_note, key=key),
        )
        for key, of in COMPARISONS.items()
    ]


def difference(found: Mapping[str, Contrast], level: float, *, key: str) -> Interval | NotMeasurable:
    """The mean difference over problems; problems of one template are a cluster."""
    if key not in found:
        of = COMPARISONS[key]
        return NotMeasurable(f"{of.first.condition} and {of.second.condition} were not both measured")
    return mean_difference(found[key], level)


def _heads_note(contrasts: Mapping[str, Contrast], key: str) -> str:
    found = contrasts[key]
    if found.first[0].size == 1:
        return sides(found)
    if found.n_clusters < FEWEST_FOR_HEADS:
        return f"{sides(found)}; too few to tell single heads apart"
    lower, higher = found.head_shares()
    return f"{sides(found)}; {lower:.0%} of heads clearly lower, {higher:.0%} clearly higher (max-T, familywise 5%)"


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """The sides of the comparisons, each at the length of the other."""
    sides_of = [
        (one, other) for of in COMPARISONS.values() for one, other in ((of.first, of.second), (of.second, of.first))
    ]
    kept = [
        matched_to(read_of(rows, {(side.condition, side.metric, side.scope)}), other.condition).index
        for side, other in sides_of
    ]
    return rows[rows.index.isin(np.concatenate(kept))]


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The paper's sorted bars, heads paired across conditions, and difference maps with significance."""
    from interp.figures.pretrained import difference_maps, paired_heads, sorted_bars

    found = summary(rows)
    contrasts = {COMPARISONS[key].name: of for key, of in found.items()}
    drawn = {"paired_heads": paired_heads(contrasts), "difference_maps": difference_maps(contrasts)}
    if "published" in found:
        drawn["sorted_bars"] = sorted_bars(found["published"])
    return drawn


def _world(**changes: float) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows in which CoT text differs by `changes` from what each part compares it with.

    Templates differ more than problems of one template do, as far as the paper's claim allows.
    """
    limit = PRESETS["cpu"].limit
    assert limit is not None
    units = built_in(limit)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        noise = dict(zip(COMPARISONS, deviations(generator, units, (len(COMPARISONS),), 0.03, 0.01)))
        values = {}
        for key, of in COMPARISONS.items():
            other = 0.3 - changes[key] + noise[key]
            for side, entropy in ((of.first, np.full(len(units), 0.3)), (of.second, other)):
                values.setdefault(("model", side.condition, side.metric, side.scope), entropy)
        return simulated_entropies(units, values)

    return rows


_ALL = tuple(COMPARISONS)
_LENGTH = {"published": -0.03, "answer": -0.1, "length": 0.0, "format": 0.0, "shuffled": 0.0, "filler": -0.1}
WORLDS = (
    World(
        "a difference at the margin, of templates rather than of problems",
        dict.fromkeys(_ALL, False),
        _world(**dict.fromkeys(_ALL, -SMALLEST)),
    ),
    World(
        "the minimum follows the number of tokens and nothing else",
        {key: change < -SMALLEST for key, change in _LENGTH.items()},
        _world(**_LENGTH),
    ),
    World("CoT text is sparser", dict.fromkeys(_ALL, True), _world(**dict.fromkeys(_ALL, -0.05))),
)


register(
    Claim(
        id=ID,
        sentence=(
            "The normalised attention entropy of a pretrained model is lower on text with CoT than without: "
            "real-world CoT data has a sparser structure."
        ),
        method=(
            "Every head's normalised entropy is measured on the same problems under several conditions; differences "
            "(CoT minus comparison) are paired by problem, heads averaged within a problem. As published: plain "
            "minimum over all tokens, against no CoT. Controlled: length-matched minimum over answer tokens, against "
            "no CoT; the same with the format of the two texts made equal; plain minimum against the same tokens "
            f"shuffled and against equally many filler tokens. Per head: sign-flip max-T. {CLUSTERED}"
        ),
        scale={
            "smoke": Scale("another model", "a test of the code: SmolLM2-135M-Instruct on 4 GSM-symbolic problems"),
            "cpu": Scale("another model", "SmolLM2-135M-Instruct for Qwen2-7B, 100 GSM-symbolic problems for GSM8K"),
            "paper": Scale("the paper's own numbers"),
        },
        finding=(
            "On this model, normalised entropy with CoT minus without, minimum over all tokens: {published}; at "
            "equal length, over answer tokens: {length}; against the same CoT tokens shuffled: {shuffled}."
        ),
        deviations=(
            "The paper measures Qwen2-7B on the GSM8K test set, which is the paper preset. cpu: the built-in "
            "SmolLM2-135M-Instruct on 100 GSM-symbolic problems (the same kind of problem, generated offline from 85 "
            "templates); smoke: four of these. The claim is about pretrained language models and grade-school "
            "reasoning in general, so it should hold there too; a verdict is about the model and the problems that "
            "were measured."
        ),
        clarity=(
            "The paper infers from the lower minimum that CoT data has a sparser structure. A minimum over more "
            "tokens is lower whatever they are, and the two texts also differ in their kinds of token, in the "
            "position of these and in format. The controls here take away the number of tokens and the format; they "
            "do not compare the same sentence at the same place, so they limit what the published difference shows, "
            "on this model, and do not settle what the structure is."
        ),
        history=(
            "Before the parts were declared, problems were taken as independent, which problems of one template are "
            "not, and no part was marked as the paper's own: the controls counted as much as the published "
            "comparison. The comparison at equal length was a control; it became the test of what the paper infers "
            "after these rows had been seen. The margin of 0.01 is as it was."
        ),
        presets=PRESETS,
        items=items,
        measure=measure_shard,
        summary=summary,
        parts=parts,
        worlds=WORLDS,
        published=published,
        figures=figures,
    )
)
