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
from interp.claims.wen2024._fig6_comparisons import BEYOND, COMPARISONS, PERMUTED, TRAINED, Comparison
from interp.claims.wen2024._pretrained import SMALLEST, WHY_SMALLEST, mean_difference, read_of, sides
from interp.core.claim import Item
from interp.core.contrast import FEWEST_FOR_HEADS, Contrast, Reading, beyond, paired
from interp.core.judging import DIFFERENCE, UNBOUNDED
from interp.core.parts import NotMeasurable, Part, Unit
from interp.core.problem_runs import load, shards, some_problems, unit_of
from interp.statistics import Interval
from probes.rows import concat

SCOPES = ("all", "answer", "final", "first", "window")
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

    p = item.parameters
    run, past = p.get("run", TRAINED), p["start"] - p["first_unit"]
    total = p["limit"] if run == TRAINED else p["baseline_limit"]
    problems = some_problems(p["data"], p["first_unit"], total)[past : past + p["shard"]]
    model = load(p["model"])
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
    found, readings = {}, {}
    places = rows.groupby(["run", "condition", "metric", "scope"], sort=False).indices
    for key, of in COMPARISONS.items():
        sides = [(side, of.primary) for side in (of.first, of.second)]
        asked = {read: (read[0].run, read[0].condition, read[0].metric, read[0].scope) for read in sides}
        if not all(place in places for place in asked.values()):
            continue
        for (side, by_head), place in asked.items():
            if (side, by_head) not in readings:  # many comparisons share a side
                mine = rows.iloc[places[place]]
                readings[side, by_head] = Reading(mine if by_head else head_means(mine), side)
        first, second = (readings[read] for read in sides)
        if len(first.units.union(second.units)) > 1:
            found[key] = paired(first, second)
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
