"""What would the rows of the theorems' models look like, were the truth known? For wen2024/thm1 and wen2024/thm3."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from probes.rows import concat, setting, table

Draw = Callable[[np.random.Generator], pd.DataFrame]


def representation_rows(
    sizes: Sequence[tuple[int, int]],
    seeds: int,
    searched: tuple[int, int],
    exact: float,
    bits: Callable[[np.ndarray], np.ndarray],
    size: float = 500.0,
) -> Draw:
    """Constructions of which a share `exact` is right on every input and that need about `bits(n)` bits.

    `sizes` are pairs (n, k), `searched` the fewest and the most bits that a search can end with, `size` the
    theorem's (d^2 + d m) log n / (n k).
    """
    n, k = np.repeat(np.array(sizes).T, seeds, axis=1)
    units = np.tile([str(seed) for seed in range(seeds)], len(sizes))
    place = [setting(n=length, k=secret, share=1.0) for length, secret in zip(n.tolist(), k.tolist())]
    formats = [("accuracy", name) for name in ("float32", "float16", "bfloat16")]
    metrics = [("exact", "float64"), ("largest_overlap", "float64"), ("size_ratio", "float64"), *formats]
    metrics += [("least_bits", "rounded")]

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        right = generator.random(n.size) < exact
        needed = np.clip(np.round(bits(n) + generator.normal(0, 0.4, n.size)), *searched)
        values = [right, np.full(n.size, 0.4), np.full(n.size, size), *(right for _ in formats), needed]
        return table(
            run=np.tile([f"{length} {unit}" for length, unit in zip(n, units)], len(metrics)),
            condition="no_cot",
            unit=np.tile(units, len(metrics)),
            setting=np.tile(place, len(metrics)),
            metric=np.repeat([metric for metric, _ in metrics], n.size),
            scope=np.repeat([scope for _, scope in metrics], n.size),
            value=np.concatenate(values).astype(float),
        )

    return rows


@dataclass(frozen=True)
class Growth:
    """A smallest batch that grows with n, seed by seed."""

    sizes: tuple[int, ...]
    seeds: int
    slope: float
    """Of its log2 per doubling of n."""
    spread: float
    widths: tuple[int, ...]


def three_step_rows(
    place: tuple[int, int, int],
    seeds: int,
    holds: Mapping[str, float],
    gain: float,
    exponent: float,
    grown: Growth,
    stored: Sequence[int],
) -> Draw:
    """Runs at `place` (n, k, B) in which each statement holds with the probability `holds` names.

    The names are hit, lemma19, parity_hit, one_hot_2 and one_hot (after two and three steps), right, and stored (at
    each n of `stored`, with few bits); a distance to one-hot attention of n^-`exponent` is the one that counts. The
    third step adds `gain`.
    """
    unit = [str(seed) for seed in range(seeds)]
    n, k, batch = place
    places = [setting(n=n, k=k, B=batch, phase=phase) for phase in range(4)]

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        seen = {name: generator.random(seeds) < p for name, p in holds.items()}
        none, noise = np.zeros(seeds), generator.normal(0, 0.05, seeds)
        far, near = exponent - 2, exponent + 4
        values = {
            "hit": [none, *([np.where(seen["hit"], 1.0, 0.5)] * 3)],
            "parity_hit": [none, *([np.where(seen["parity_hit"], 1.0, 0.5)] * 3)],
            "lemma19": [none, np.where(seen["lemma19"], 0.5, 1.5), none, none],
            "vacuous": [none + 4] * 4,
            "largest_output": [none + 0.5] * 4,
            "first_over_own": [none, none + 2, none + 2, none + 2],
            "exponent": [none, none, *(np.where(seen[name], near, far) for name in ("one_hot_2", "one_hot"))],
            "margin": [none - 1, none - 1, none - 0.1, np.where(seen["right"], 0.5, -0.5)],
            "accuracy": [none, none, none + 0.5, 0.5 + gain + noise],
        }
        size = len(values) * len(places)
        phases = table(
            run=np.tile([f"{batch} {seed}" for seed in unit], size),
            condition="phases",
            unit=np.tile(unit, size),
            setting=np.tile(np.repeat(places, seeds), len(values)),
            metric=np.repeat(list(values), len(places) * seeds),
            value=np.concatenate([value for each in values.values() for value in each]),
        )
        return concat([phases, _grown(grown, generator), _stored(stored, holds["stored"], unit, generator)])

    return rows


def _grown(growth: Growth, generator: np.random.Generator) -> pd.DataFrame:
    cells = [(width, n) for width in growth.widths for n in growth.sizes]
    steps = np.repeat([np.log2(n / min(growth.sizes)) for _, n in cells], growth.seeds)
    height = growth.slope * steps + generator.normal(0, growth.spread, len(steps))
    return table(
        run="simulated",
        condition="samples",
        unit=[str(seed) for seed in range(growth.seeds)] * len(cells),
        metric="enough",
        value=2 ** (np.round(2 * height) / 2 + 8),
        setting=np.repeat([setting(n=n, k=2, wide=width) for width, n in cells], growth.seeds),
    )


def _stored(sizes: Sequence[int], chance: float, unit: Sequence[str], generator: np.random.Generator) -> pd.DataFrame:
    enough = generator.random(len(sizes) * len(unit)) < chance
    return table(
        run="simulated",
        condition="bits",
        unit=[*unit] * (2 * len(sizes)),
        metric=np.repeat(["bits_enough", "least_bits"], len(enough)),
        value=np.concatenate([enough.astype(float), np.where(enough, 3.0, 9.0)]),
        setting=np.tile(np.repeat([setting(n=n, k=2) for n in sizes], len(unit)), 2),
    )
