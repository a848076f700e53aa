"""Is attention sparser with CoT, and because of it? The comparisons of Figure 6's claims, and how they are measured.

The difference as published; then the *same* sentence " The answer is N." with and without CoT before it, token for
token, so that neither the number nor the kind of the measured tokens differs; the same without the attention sink;
the same positions; and that sentence after the CoT of another problem. No comparison is free of all rivals: CoT or
nothing before the sentence is also a longer or a shorter context, another problem's CoT rarely holds the number N. So
the sentence is compared after equally long text as well, and a model with permuted weights shows what each
difference is where nothing is computed by the weights.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from hf_analysis.measurement.pairs import matched_to
from interp.claims.wen2024._pretrained import (
    DIFFERENCE,
    SMALLEST,
    WHY_SMALLEST,
    mean_difference,
    read_of,
    shards,
    sides,
    some_problems,
    unit_of,
)
from interp.core.claim import Item
from interp.core.contrast import FEWEST_FOR_HEADS, Contrast, Side, beyond, contrast
from interp.core.judging import UNBOUNDED
from interp.core.parts import Direction, NotMeasurable, Part, Role, Unit
from interp.statistics import Interval
from probes.rows import concat

TRAINED, PERMUTED = "model", "permuted"
"""Runs of the table: the model, and the same with the entries of its weight matrices permuted."""
SCOPES = ("all", "answer", "final", "first", "window")
NATS = 0.05
WHY_NATS = f"{SMALLEST:g} of the normalised entropy, times the logarithm of the 150 or so tokens that are seen"
INFERS = (
    "section 4.3 infers from it that real-world CoT data has a sparser structure, which leads to sparser attention"
)


@dataclass(frozen=True)
class Comparison:
    """One statistic of two texts."""

    name: str
    first: Side
    second: Side
    what: str
    """What the difference is."""
    role: Role = "control"
    source: str = ""
    direction: Direction = "below"
    threshold: float = -SMALLEST
    margin: float | None = None
    why: str = WHY_SMALLEST

    @property
    def primary(self) -> bool:
        return self.role == "paper"


def _compared(first: str, second: str, metric: str, scope: str, run: str = TRAINED) -> tuple[Side, Side]:
    return Side(first, metric, scope, run), Side(second, metric, scope, run)


def _sentence_after(other: str, name: str, what: str) -> Comparison:
    return Comparison(
        f"same sentence, {name}",
        *_compared("cot_clean", other, "min", "final"),
        f"minimum over the closing sentence, after CoT minus after {what}",
    )


def _without_training(of: str, second: str, scope: str, first: str = "cot_clean") -> Comparison:
    return Comparison(
        f"permuted weights: {of}",
        *_compared(first, second, "min", scope, PERMUTED),
        f"the same difference in a model with permuted weights: {first} minus {second}, minimum, {scope}",
        direction="above",
        why=f"a difference of {SMALLEST:g} or more in a model that has learned nothing is no evidence of learning",
    )


COMPARISONS = {
    "published": Comparison(
        "as published", *_compared("cot", "no_cot", "min", "all"),
        "minimum over all tokens, with CoT minus without", role="paper",
        source="section 4.3 and Figure 6: the entropy is lower for With CoT data compared to No CoT data",
    ),
    "sentence": Comparison(
        "same sentence", *_compared("cot_clean", "no_cot", "min", "final"),
        "minimum over the closing sentence, after CoT minus after the question alone", role="paper",
        source=f"{INFERS}: so it must show in a sentence that both texts have",
    ),
    "no_sink": Comparison(
        "same sentence, without the sink", *_compared("cot_clean", "no_cot", "sink_excluded_min", "final"),
        "minimum over the closing sentence without the first key, after CoT minus after the question alone",
        role="paper", source=f"{INFERS}: attention on what is read, not on the first token",
    ),
    "position": Comparison(
        "same positions", *_compared("cot_clean", "no_cot", "min", "first"),
        "minimum over the first tokens after the question, as many as the sentence has, with CoT minus without",
        role="paper", source=f"{INFERS}: so it must show where both texts stand at the same positions",
    ),
    "relevance": Comparison(
        "relevance", *_compared("cot_clean", "swapped_clean", "min", "final"),
        "minimum over the closing sentence, after the problem's CoT minus after another problem's", role="paper",
        source=f"{INFERS}: the sparse dependence is that on the problem's own steps",
    ),
    "prose": _sentence_after("prose_clean", "after prose", "a story of equal length"),
    "steps": _sentence_after("shuffled_steps_clean", "steps out of order", "its lines in another order"),
    "tokens": _sentence_after("shuffled_tokens_clean", "tokens out of order", "its tokens in another order"),
    "filler": _sentence_after("filler_clean", "after filler", "equally many full stops"),
    "sentence_mean": Comparison(
        "same sentence, mean over tokens", *_compared("cot_clean", "no_cot", "mean", "final"),
        "mean over the closing sentence, after CoT minus after the question alone",
    ),
    "sentence_nats": Comparison(
        "same sentence, in nats", *_compared("cot_clean", "no_cot", "entropy_nats_min", "final"),
        "entropy in nats, minimum over the closing sentence, after CoT minus after the question alone",
        threshold=-NATS, why=WHY_NATS,
    ),
    "no_sink_nats": Comparison(
        "same sentence, without the sink, in nats",
        *_compared("cot_clean", "no_cot", "entropy_nats_without_sink_min", "final"),
        "entropy in nats without the first key, minimum over the sentence, after CoT minus after the question alone",
        threshold=-NATS, why=WHY_NATS,
    ),
    "length": Comparison(
        "at equal length", *_compared("cot", "no_cot", "length_matched_min", "answer"),
        "length-matched minimum over answer tokens, with CoT minus without",
    ),
    "format": Comparison(
        "equal length and format", *_compared("cot_clean", "no_cot", "length_matched_min", "answer"),
        "length-matched minimum over answer tokens, CoT in the format of no_cot minus no_cot",
    ),
    "window": Comparison(
        "neighbouring tokens", *_compared("cot_clean", "no_cot", "min", "window"),
        "minimum over as many neighbouring answer tokens as the sentence has, with CoT minus without",
    ),
    "sentence_same": Comparison(
        "same sentence: no difference", *_compared("cot_clean", "no_cot", "min", "final"),
        "minimum over the closing sentence, after CoT minus after the question alone",
        role="ours", direction="within", threshold=0.0, margin=SMALLEST, why="less than we count, either way",
    ),
    "relevance_same": Comparison(
        "relevance: no difference", *_compared("cot_clean", "swapped_clean", "min", "final"),
        "minimum over the closing sentence, after the problem's CoT minus after another problem's",
        role="ours", direction="within", threshold=0.0, margin=SMALLEST, why="less than we count, either way",
    ),
    "permuted_published": _without_training("as published", "no_cot", "all", first="cot"),
    "permuted_sentence": _without_training("same sentence", "no_cot", "final"),
    "permuted_tokens": _without_training("tokens out of order", "shuffled_tokens_clean", "final"),
}  # fmt: skip
"""By part."""
BEYOND = {
    "published_beyond": ("published", "permuted_published"),
    "sentence_beyond": ("sentence", "permuted_sentence"),
}
"""By part: two comparisons, the model's and that of the model with permuted weights."""
METRICS = tuple(dict.fromkeys(of.first.metric for of in COMPARISONS.values()))
PAIRS = tuple(dict.fromkeys((of.first.condition, of.second.condition) for of in COMPARISONS.values()))
CONDITIONS = tuple(dict.fromkeys(name for pair in PAIRS for name in pair))


@dataclass(frozen=True)
class Fig6:
    """A measurement in shards of problems; a shard is one item."""

    model: str
    data: str
    limit: int | None
    shard: int
    baseline_limit: int
    """Problems that the model with permuted weights reads as well."""
    keep_tokens: int = 0
    seeds: int = 1
    """Problems, not seeds, are the unit of replication."""
    first_unit: int = 0
    """The first problem."""


def items(preset: Fig6) -> list[Item]:
    """One item for each shard of problems, for either model."""
    total = preset.limit or len(some_problems(preset.data, preset.first_unit, None))
    permuted = shards(preset, min(total, preset.baseline_limit))
    return [
        *shards(preset, total),
        *(Item(f"{PERMUTED},{item.name}", {**item.parameters, "run": PERMUTED}) for item in permuted),
    ]


def measure_shard(item: Item, work: Path) -> pd.DataFrame:
    """What the comparisons read of the item's problems."""
    from hf_analysis.measurement.measure import measure
    from hf_analysis.models.baselines import permuted
    from hf_analysis.models.loading import load_model

    p = item.parameters
    run, past = p.get("run", TRAINED), p["start"] - p["first_unit"]
    total = p["limit"] if run == TRAINED else p["baseline_limit"]
    problems = some_problems(p["data"], p["first_unit"], total)[past : past + p["shard"]]
    model = load_model(p["model"])
    if run == PERMUTED:
        model = permuted(model, seed=0)
    keep = p["keep_tokens"] if past == 0 and run == TRAINED else 0
    found = measure(
        model, problems, CONDITIONS, work, keep_tokens=keep, resume=True, metrics=METRICS, scopes=SCOPES,
        pairs=PAIRS, run=run,
    )  # fmt: skip
    return _sides(found, COMPARISONS.values())


def read_by_parts(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows that are published: every head where single heads are tested, the mean over heads elsewhere.

    Such means have no layer and no head.
    """
    heads = _sides(rows, [of for of in COMPARISONS.values() if of.primary])
    rest = _sides(rows, [of for of in COMPARISONS.values() if not of.primary])
    rest = rest[~rest.index.isin(heads.index)]
    return concat([heads, head_means(rest).assign(layer=-1, head=-1)])


def _sides(rows: pd.DataFrame, comparisons: Iterable[Comparison]) -> pd.DataFrame:
    kept: set[int] = set()
    for of in comparisons:
        for side, other in ((of.first, of.second), (of.second, of.first)):
            mine = read_of(rows[rows["run"] == side.run], {(side.condition, side.metric, side.scope)})
            kept |= set(matched_to(mine, other.condition).index)
    return rows[rows.index.isin(kept)]


def head_means(rows: pd.DataFrame) -> pd.DataFrame:
    """One row, as of one head, for the mean over heads."""
    if rows["layer"].nunique() <= 1 and rows["head"].nunique() <= 1:
        return rows.assign(layer=0, head=0)
    labels = [name for name in rows.columns if name not in ("layer", "head", "value")]
    means = rows.groupby(labels, sort=False, dropna=False)["value"].mean().reset_index()
    return means.assign(layer=0, head=0)[rows.columns]


def summary(rows: pd.DataFrame) -> dict[str, Contrast]:
    """By part, the two sides paired by problem, if both were measured; heads are kept apart in primary parts."""
    found = {}
    places = rows.groupby(["run", "condition", "metric", "scope"], sort=False).indices
    for key, of in COMPARISONS.items():
        asked = [(side.run, side.condition, side.metric, side.scope) for side in (of.first, of.second)]
        if all(place in places for place in asked):
            both = concat([rows.iloc[places[place]] for place in asked])
            both = both if of.primary else head_means(both)
            if both["unit"].nunique() > 1:
                found[key] = contrast(both, of.first, of.second)
    for key, (ours, reference) in BEYOND.items():
        if ours in found and reference in found and (more := beyond(found[ours], found[reference])):
            found[key] = more
    return found


def parts(preset: Fig6) -> list[Part]:
    """What the paper measures, and what it infers from that, are its own; the other comparisons are controls."""
    return [
        Part(
            key=key,
            name=of.name if of.role != "control" else f"controlled: {of.name}",
            role=of.role,
            source=of.source,
            primary=of.primary,
            quantity=f"{'' if 'nats' in of.first.metric else 'normalised entropy, '}mean over heads: {of.what}",
            estimate=partial(difference, key=key),
            direction=of.direction,
            threshold=of.threshold,
            margin=of.margin,
            why=of.why,
            unit=unit_of(preset.data),
            note=partial(_heads_note, key=key),
        )
        for key, of in COMPARISONS.items()
    ] + [_beyond_part(key, unit_of(preset.data)) for key in BEYOND]


def _beyond_part(key: str, unit: Unit) -> Part:
    of = COMPARISONS[BEYOND[key][0]]
    return Part(
        key=key,
        name=f"{of.name}: more than with permuted weights",
        role="ours",
        quantity=f"normalised entropy, mean over heads: {of.what}; the model's minus that with permuted weights",
        estimate=partial(difference, key=key),
        direction="below",
        threshold=-SMALLEST,
        why=WHY_SMALLEST,
        unit=unit,
        note=partial(_heads_note, key=key),
        added_later=True,
    )


def difference(found: Mapping[str, Contrast], level: float, *, key: str) -> Interval | NotMeasurable:
    """The mean difference over problems; problems of one template are a cluster."""
    of = COMPARISONS[key if key in COMPARISONS else BEYOND[key][0]]
    if key not in found:
        return NotMeasurable(f"{of.first.condition} and {of.second.condition} were not both measured")
    bounded = "nats" not in of.first.metric and key in COMPARISONS
    return mean_difference(found[key], level, DIFFERENCE if bounded else UNBOUNDED)


def _heads_note(contrasts: Mapping[str, Contrast], key: str) -> str:
    found = contrasts[key]
    if found.first[0].size == 1:
        return sides(found)
    if found.n_clusters < FEWEST_FOR_HEADS:
        return f"{sides(found)}; too few to tell single heads apart"
    lower, higher = found.head_shares()
    return f"{sides(found)}; {lower:.0%} of heads clearly lower, {higher:.0%} clearly higher (max-T, familywise 5%)"
