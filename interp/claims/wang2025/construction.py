"""wang2025, Theorem 4: do log2(k) + 1 attention layers compute k-fold composition exactly?

The weights of the proof are built in double precision, with random hidden permutations and inputs by seed, and the
largest error of an output is measured against the softmax scale.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.core.claim import Claim, Item, Scale, World, register
from interp.core.judging import mean_over
from interp.core.loops import Loop
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wang2025/construction"
SCALE = 20.0
"""The softmax scale at which the construction is judged."""
EXACT = -4.0
"""log10 of the largest error in an output of 0 or 1 that still counts as exact."""
LARGE = 12.0
"""From this scale on a softmax over every tested size has less than a thousandth of its mass off the target."""
RATE_MARGIN = 0.1
"""The departure from one e-fold per unit of scale that is too small to matter."""
FLOOR = 1e-17
"""Stands for an error of exactly zero on a log scale: below the resolution of double precision."""


@dataclass(frozen=True)
class Construction:
    """Every size (k, N) at every softmax scale, with hidden permutations and sequences by seed."""

    sizes: tuple[tuple[int, int], ...]
    scales: tuple[float, ...]
    n_sequences: int
    seeds: int
    first_unit: int = 0


SIZES = ((2, 3), (4, 5), (8, 5), (16, 5), (8, 10), (32, 5))
SCALES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0, 20.0, 30.0, 40.0)
PRESETS = {
    "smoke": Construction(SIZES[:3], (2.0, 8.0, 20.0), n_sequences=8, seeds=2),
    "cpu": Construction(SIZES, SCALES, n_sequences=16, seeds=6),
    "paper": Construction((*SIZES, (64, 5), (16, 16)), SCALES, n_sequences=64, seeds=20),
}


def items(preset: Construction) -> list[Item]:
    """One item for each size and seed."""
    return [
        Item(
            f"k={k},n={n},seed={seed}",
            {"k": k, "n": n, "seed": seed, "scales": list(preset.scales), "n_sequences": preset.n_sequences},
        )
        for k, n in preset.sizes
        for seed in range(preset.first_unit, preset.first_unit + preset.seeds)
    ]


SEQUENCES = Loop(
    "sequences at one scale",
    lambda p: len(p["scales"]) * p["n_sequences"],
    lambda p, n: {"scales": p["scales"][:1], "n_sequences": n},
)
"""What an item repeats."""


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The largest error of each hop's outputs, and the share of wrong predictions, at every scale."""
    import torch
    import torch.nn.functional as F

    from toy_models.kfold.curricula import examples
    from toy_models.kfold.task import KFold
    from toy_models.kfold.theory_model import KFoldTheory

    k, n, seed = (int(item.parameters[name]) for name in ("k", "n", "seed"))
    task = KFold(k=k, n=n, cyclic=True, hidden_seed=seed)
    data = examples(task, int(item.parameters["n_sequences"]), torch.Generator().manual_seed(seed))
    model = KFoldTheory(k, n, dtype=torch.float64)
    expected = F.one_hot(data.results, n)
    tables = []
    for scale in item.parameters["scales"]:
        model.construct(task.hidden, scale)
        with torch.no_grad():
            output = model(data.values)
        largest = (output - expected).abs().amax((0, 2, 3))
        wrong = (output.argmax(-1) != data.results).double().mean((0, 2))
        for metric, values in (("max_error", largest), ("error_rate", wrong)):
            settings = [setting(k=k, n=n, scale=scale, hop=hop) for hop in task.hops]
            labels = {"run": item.name, "condition": "construction", "unit": str(seed), "scope": "test"}
            tables.append(table(metric=metric, value=values.tolist(), setting=settings, **labels))
    return concat(tables)


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """The largest error of an output and the share of wrong predictions at every size, scale and hop of each seed."""
    return with_settings(rows)


def parts(preset: Construction) -> list[Part]:
    """The size of the error at one large scale, and how it falls as the scale grows."""
    return [
        Part(
            key="exact",
            name=f"exact at softmax scale {SCALE:g}",
            role="paper",
            source="Theorem 4: exactly express the k-fold composition task",
            primary=True,
            quantity="log10 of the largest error of an output over sizes, hops, places, sequences; mean over seeds",
            estimate=largest_error,
            direction="below",
            threshold=EXACT,
            why="outputs are 0 and 1, and a softmax of scale 20 leaks about kN e^-20, at most 10^-6, in each layer",
            unit="seeds",
            note=_sizes,
        ),
        Part(
            key="vanishes",
            name="the error vanishes as the scale grows",
            role="paper",
            source="Appendix A.1: taking beta to infinity, attention concentrates",
            quantity="change of the log of the largest error per unit of softmax scale, "
            f"from scale {LARGE:g} to {SCALE:g}; mean over seeds",
            estimate=rate_of_error,
            direction="within",
            threshold=-1.0,
            margin=RATE_MARGIN,
            why="off its target one softmax has a mass of about kN e^-beta, so the log falls by 1 per unit",
            unit="seeds",
        ),
    ]


def _worst(found: pd.DataFrame) -> pd.DataFrame:
    """The largest error over sizes and hops, one line for each seed, one column for each scale."""
    largest = found[found["metric"] == "max_error"].groupby(["unit", "scale"])["value"].max()
    return largest.clip(lower=FLOOR, upper=1.0).unstack("scale")


def largest_error(found: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """log10 of the largest error at the declared scale; an error lies between rounding and 1."""
    return mean_over(np.log10(_worst(found)[SCALE]), level, bounds=(float(np.log10(FLOOR)), 0.0))


def rate_of_error(found: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """The slope of the log of the largest error against the scale."""
    worst = _worst(found)
    scales = worst.columns[(worst.columns >= LARGE) & (worst.columns <= SCALE)].to_numpy(float)
    if len(scales) < 2:
        return NotMeasurable(f"fewer than two softmax scales from {LARGE:g} to {SCALE:g}")
    slopes = np.polyfit(scales, np.log(worst[scales].to_numpy()).T, 1)[0]
    return mean_over(slopes, level)


def _sizes(found: pd.DataFrame) -> str:
    sizes = sorted({(int(k), int(n)) for k, n in zip(found["k"], found["n"])})
    at = found[(found["scale"] == SCALE) & (found["metric"] == "error_rate")]
    return f"(k, N) in {', '.join(map(str, sizes))}; largest share of wrong predictions {at['value'].max():g}"


def _world(typical: float, failing: float = 0.0, falls: bool = True) -> Callable[[np.random.Generator], pd.DataFrame]:
    """Rows with an error of `typical` at the declared scale; a share `failing` of the constructions errs by 1."""
    preset = PRESETS["cpu"]
    scales = np.array([scale for scale in preset.scales if LARGE <= scale <= SCALE])
    shape = (len(preset.sizes), preset.seeds, len(scales))
    settings = [setting(k=k, n=n, scale=scale, hop=k) for k, n in preset.sizes for scale in scales]
    by_size = np.array(settings).reshape(len(preset.sizes), 1, -1)
    unit = np.array([str(seed) for seed in range(preset.seeds)]).reshape(1, -1, 1)

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        leak = np.exp((SCALE - scales) * falls) * np.exp(generator.normal(0, 0.1, shape))
        fails = generator.random(shape[:2])[..., None] < failing
        error = np.where(fails, 1.0, np.minimum(typical * leak, 1.0)).ravel()
        place = {name: np.broadcast_to(of, shape).ravel() for name, of in (("setting", by_size), ("unit", unit))}
        both = {name: np.tile(values, 2) for name, values in place.items()}
        metric = np.repeat(["max_error", "error_rate"], error.size)
        return table(run="r", condition="construction", metric=metric, value=np.tile(error, 2), **both)

    return rows


WORLDS = (
    World("one hidden permutation in ten is not expressed", {"exact": False}, _world(1e-6, failing=0.1)),
    World(
        "an error of 10^-4 remains at every scale",
        {"exact": False, "vanishes": False},
        _world(10**EXACT, falls=False),
    ),
    World("as the theorem has it", {"exact": True, "vanishes": True}, _world(1e-6)),
)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Error against the softmax scale, one curve for each size, beside the mass that leaves one softmax."""
    from interp.figures.style import SERIES, new_figure, styled

    errors = with_settings(rows[rows["metric"] == "max_error"])
    worst = errors.groupby(["k", "n", "scale"])["value"].max().clip(lower=FLOOR)
    sizes = sorted({(int(k), int(n)) for k, n in zip(errors["k"], errors["n"])}, key=lambda size: size[0] * size[1])
    with styled():
        figure = new_figure(6.5, 4.4)
        axes = figure.subplots()
        for (k, n), style in zip(sizes, cycle(SERIES)):
            curve = worst[k][n]
            axes.plot(curve.index, curve, **style, label=f"k={k}, N={n}")
        k, n = sizes[-1]
        scale = np.linspace(errors["scale"].min(), errors["scale"].max(), 200)
        leak = (k * n - 1) / (np.exp(scale) + k * n - 1)
        axes.plot(scale, leak, color="0.5", linestyle=":", label=f"mass off target of one softmax\nover {k * n} keys")
        axes.axhline(10**EXACT, color="0.3", linewidth=0.8)
        axes.text(scale[-1], 10**EXACT * 1.4, "counts as exact below", ha="right", fontsize=8, color="0.3")
        axes.set(
            yscale="log",
            xlabel="softmax scale β of the constructed W_KQ",
            ylabel="largest error of an output (0 or 1)",
            title="Theorem 4: all hops 1, 2, ..., k at all positions",
        )
        axes.legend(fontsize=8)
    return {"error_against_scale": figure}


def _published(rows: pd.DataFrame) -> pd.DataFrame:
    judged = rows["setting"].str.endswith(f"scale={SCALE}")
    return rows[(rows["metric"] == "max_error") | judged]


register(
    Claim(
        id=ID,
        sentence=(
            "For k a power of two there is an attention-only transformer with log2(k) + 1 layers and embedding "
            "dimension kN(3 + log2 k) that expresses k-fold composition exactly."
        ),
        method=(
            "The weights of the proof are built in double precision for random hidden permutations, at several sizes "
            "and softmax scales, and applied to random sequences; the largest error of an output is taken over all "
            "hops, positions and sequences, and over sizes by seed."
        ),
        scale={
            "smoke": Scale(
                "smaller", "a test of the code: three sizes, eight sequences; the theorem has any k and N"
            ),
            "cpu": Scale("smaller", "sizes up to k = 32, N = 5 and k = 8, N = 10, at a finite softmax scale"),
            "paper": Scale("smaller", "sizes up to k = 64, N = 5 and k = N = 16, at a finite softmax scale"),
        },
        finding=(
            f"At softmax scale {SCALE:g} the largest error of an output of 0 or 1 was 10^{{exact:.1f}} "
            "(mean of {exact.n} seeds); its logarithm changed by {vanishes} per unit of scale, where the "
            "proof's limit has -1."
        ),
        deviations=(
            "The theorem holds in the limit of infinite softmax scale, and for the queries of the first permutation. "
            "Here the scale is finite, and all kN cyclic positions and every hop 1, 2, 4, ..., k are tested, with "
            "the readout summed over blocks instead of the last one alone, since a cyclic query may end in any "
            "block. The presets differ in sizes, sequences and seeds only. An error that vanishes as the scale grows "
            "is what the theorem says."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=errors,
        parts=parts,
        worlds=WORLDS,
        published=_published,
        figures=figures,
        loops=(SEQUENCES,),
        clarity=(
            "The theorem is a statement about every hidden permutation, proved by a construction; a test can only "
            "try some. The construction treats all of them alike, and a share of one in ten that it failed would "
            "show (see the worlds)."
        ),
        history=(
            "Until the parts were declared, seeds that agree exactly gave an interval without width; now the error "
            "is bounded by rounding and 1. The rate at which the error vanishes was added with the parts."
        ),
    )
)
