"""Would the judge of huang2025's Theorem 5.1 be fooled? Stages that just fail, and groups that hardly differ."""

from functools import cache, partial

import numpy as np
import pandas as pd

from interp.claims.huang2025._runs import REACHED, SEEDS
from interp.claims.huang2025._theory_runs import LENGTHS as ALL
from interp.claims.huang2025._thm5_1 import DILUTED, EPSILON, FAILED, MATTERS
from interp.claims.huang2025._worlds import filled, measured, ramps
from interp.core.claim import World
from probes.rows import setting, table

GROUPS, DEGREES, STAGES, LONGEST = ("S5", "C6"), (0.4, 0.6, 0.8), 4, 33
"""The cpu preset."""
LENGTHS = (*(length for length in ALL if length < LONGEST), LONGEST)
METRICS = ("error", "steps", "labels_right", "ended")
_PLACES = [(1, 0.0), *((stage, degree) for degree in DEGREES for stage in range(2, STAGES + 1))]
"""Stage and E_1 of the models of a seed; all E_1 share the first."""
_LAST = [number for number, (_, degree) in enumerate(_PLACES) if degree in (0.0, DEGREES[-1])]


@cache
def _labels() -> pd.DataFrame:
    """The rows [metric group place seed], then accuracies [group place seed length]."""
    models = [(group, place, seed) for group in GROUPS for place in _PLACES for seed in range(SEEDS)]
    rows = [(*model, metric, 0) for metric in METRICS for model in models]
    rows += [(*model, "accuracy", length) for model in models for length in LENGTHS]
    return table(
        run=[f"{group},{seed}" for group, _, seed, _, _ in rows],
        condition="algorithm_2",
        unit=[str(seed) for _, _, seed, _, _ in rows],
        setting=[
            setting(
                group=group, stage=stage, **({"degree": degree} if degree else {}),
                **({"length": length} if length else {}),
            )
            for group, (stage, degree), _, _, length in rows
        ],
        update=10,
        metric=[metric for *_, metric, _ in rows],
        value=0.0,
    )  # fmt: skip


def simulated(
    generator: np.random.Generator,
    *,
    first: float,
    off: float,
    dilution: float,
    degree: float,
    ended: float = 1.0,
    twice: float | None = None,
    last: float | None = None,
) -> pd.DataFrame:
    """Stage 1 solves up to 2^first, every further one twice that.

    Attention elsewhere is `off` at the largest E_1, `degree` times that at the smallest, `dilution` times less for
    C6; a seed's stages end by their loss with probability `ended`. `twice` is the median of stage 1 at length 4,
    `last` that of the last stage at the longest sentences.
    """
    shape = (len(GROUPS), len(_PLACES), SEEDS)
    stages = np.array([stage for stage, _ in _PLACES], dtype=float)[None, :, None]
    degrees = np.array([degree or DEGREES[-1] for _, degree in _PLACES])[None, :, None]
    tightness = (DEGREES[-1] - degrees) / (DEGREES[-1] - DEGREES[0])
    simple = np.array([False, True])[:, None, None]
    error = off * degree**tightness * np.where(simple, 1 / dilution, 1) * np.exp(generator.normal(0, 0.05, shape))
    reach = first + (stages - 1) + generator.normal(0, 0.1, shape)
    whole = np.broadcast_to(generator.random(SEEDS) < ended, shape)
    shares = ramps(reach, LENGTHS)
    for median, place, length in ((twice, 0, 4), (last, _LAST[-1], LONGEST)):
        if median is not None:
            shares[0, place, :, LENGTHS.index(length)] = generator.uniform(2 * median - 1, 1, SEEDS)
    metrics = np.stack([error, np.full(shape, 100.0), np.ones(shape), whole.astype(float)])
    return filled((_labels(), np.concatenate([metrics.ravel(), measured(shares, generator).ravel()])))


PARTS = (
    "ended", "twice", "stage_attention", "every_length", "first_fails", "diluted", "degree_matters",
    "c6_first_fails",
)  # fmt: skip
_HALF = np.log2(LONGEST) - 2 * (1 - FAILED)
"""`first` with which stage 1 solves half of the longest sentences."""
WORLDS = (
    World(
        "stages that just fail, groups that differ by what would not count",
        dict.fromkeys(
            ("twice", "stage_attention", "every_length", "diluted", "degree_matters"), False
        ),
        partial(
            simulated, first=2.2, off=EPSILON, dilution=DILUTED, degree=MATTERS, twice=REACHED,
            last=REACHED,
        ),
    ),
    World(
        "stage 1 goes half the way by itself, every second seed is cut, groups and E_1 make no difference",
        {"ended": False, "first_fails": False, "c6_first_fails": False, "diluted": False,
         "degree_matters": False},
        partial(simulated, first=_HALF, off=0.1, dilution=1.0, degree=1.0, ended=0.5),
    ),
    World(
        "as the theorem has it",
        dict.fromkeys(PARTS, True),
        partial(simulated, first=2.2, off=0.005, dilution=2.0, degree=5.0),
    ),
)  # fmt: skip
