"""wang2025, Theorem 4: do log2(k) + 1 attention layers compute k-fold composition exactly?

The weights of the proof are built in double precision, with random hidden permutations and inputs by seed, and the
largest error of an output is measured against the softmax scale.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.core.claim import Claim, Item, register
from interp.core.verdict import Verdict, judged
from interp.statistics import bootstrap_mean
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "wang2025/construction"
SCALE = 20.0
"""The softmax scale at which the construction is judged."""
EXACT = -4.0
"""log10 of the largest error in an output of 0 or 1 that still counts as exact."""
FLOOR = 1e-17
"""Stands for an error of exactly zero on a log scale: below the resolution of double precision."""


@dataclass(frozen=True)
class Construction:
    """Every size (k, N) at every softmax scale, with hidden permutations and sequences by seed."""

    sizes: tuple[tuple[int, int], ...]
    scales: tuple[float, ...]
    n_sequences: int
    seeds: int


SIZES = ((2, 3), (4, 5), (8, 5), (16, 5), (8, 10), (32, 5))
SCALES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0, 15.0, 20.0, 30.0, 40.0)
PRESETS = {
    "smoke": Construction(SIZES[:3], (2.0, 8.0, 20.0), n_sequences=8, seeds=2),
    "cpu": Construction(SIZES, SCALES, n_sequences=16, seeds=5),
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
        for seed in range(preset.seeds)
    ]


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


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """The largest error over sizes, hops, positions and sequences of each seed, at the declared scale."""
    found = with_settings(rows)
    found = found[found["scale"] == SCALE]
    worst = found[found["metric"] == "max_error"].groupby("unit")["value"].max()
    wrong = found.loc[found["metric"] == "error_rate", "value"].max()
    sizes = sorted({(int(k), int(n)) for k, n in zip(found["k"], found["n"])})
    return [
        judged(
            bootstrap_mean(np.log10(worst.clip(lower=FLOOR).to_numpy()), rng=0),
            claim=ID,
            part=f"exact at softmax scale {SCALE:g}",
            quantity="log10 of the largest error of an output, over sizes, hops, positions and sequences",
            threshold=EXACT,
            direction="below",
            unit="seeds",
            note=f"(k, N) in {', '.join(map(str, sizes))}; largest share of wrong predictions {wrong:g}",
        )
    ]


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


register(
    Claim(
        id=ID,
        sentence=(
            "For k a power of two there is an attention-only transformer with log2(k) + 1 layers and embedding "
            "dimension kN(3 + log2 k) that expresses k-fold composition exactly."
        ),
        test=(
            f"At softmax scale {SCALE:g} the largest error of an output, over all sizes, hops, positions and "
            f"sequences, is below 10^{EXACT:g}; 95% interval of its log10 over seeds."
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
        judge=judge,
        figures=figures,
    )
)
