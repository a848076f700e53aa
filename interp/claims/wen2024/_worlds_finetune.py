"""What would fine-tuned models show, were the truth known? The worlds of wen2024/fig6-finetune."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from interp.claims.wen2024._finetune import MEASURES, NATS, PLACES, SMALLEST
from interp.claims.wen2024._tuned import ARMS, BASE, OTHERS, TRAINING, run_name
from interp.claims.wen2024._worlds_pretrained import deviations
from interp.core.claim import World
from interp.core.problem_runs import built_in
from probes.rows import concat, setting, table

N_PROBLEMS, N_PASSAGES, SEEDS, DOSES = 24, 7, 3, (4_096, 16_384)
"""As in the cpu preset."""
AFTER_COT = ("cot", "cot_clean")
Shifts = Mapping[str, float]
"""By arm: how its entropy moves on CoT text, and in the sentence behind it, by the largest dose."""


def simulated_tuning(
    generator: np.random.Generator, shifts: Shifts, elsewhere: float, sink_only: bool, learned: float, early: float
) -> pd.DataFrame:
    """Rows of a base and of all arms; templates, problems and training runs deviate from what is given.

    `elsewhere`: how the CoT arm moves the sentence right after the question. `sink_only`: without the first token
    nothing moves. `early`: the share of all movement that the first dose has.
    """
    units = built_in(N_PROBLEMS)
    cells = {(BASE, 0, *place): np.full(N_PROBLEMS, 0.4) for place in PLACES}
    cells |= _losses(BASE, 0, units, generator, dict.fromkeys(ARMS, 0.0))
    for arm in ARMS:
        of_problems = deviations(generator, units, (len(PLACES),), 0.01, 0.005)
        for seed in range(SEEDS):
            run = run_name(arm, seed)
            of_run = generator.normal(0, 0.004, len(PLACES))
            for share, dose in zip((early, 1.0), DOSES):
                for i, (metric, scope, text) in enumerate(PLACES):
                    shift = shifts[arm] if text in AFTER_COT else elsewhere * (arm == "cot")
                    unit = NATS / SMALLEST if metric.startswith("entropy_nats") else 1.0
                    shift *= not (sink_only and metric.startswith("sink_excluded"))
                    noise = generator.normal(0, 0.004, N_PROBLEMS)
                    moved = share * (shift + of_run[i] + of_problems[i]) + noise
                    cells[run, dose, metric, scope, text] = 0.4 + unit * moved
                cells |= _losses(run, dose, units, generator, {text: learned * (text == arm) for text in ARMS})
    runs = [(run_name(arm, seed), arm, str(seed)) for arm in ARMS for seed in range(SEEDS)]
    run, arm, seed = (np.repeat(names, len(TRAINING)) for names in zip(*runs))
    counts = table(run=run, condition=arm, unit=seed, metric=list(TRAINING) * len(runs), value=100.0)
    return concat([_table(cells, units), counts])


Cells = dict[tuple[str, int, str, str, str], np.ndarray]
"""By run, dose, metric, scope and text."""


def _losses(
    run: str, dose: int, units: list[str], generator: np.random.Generator, moved: Mapping[str, float]
) -> Cells:
    found: Cells = {}
    for text, change in moved.items():
        of = _PASSAGES if text == "prose" else units
        noise = deviations(generator, of, (), 0.03, 0.02) if dose else 0.0
        value = 1.5 + change + noise + (generator.normal(0, 0.01) if dose else 0.0)
        found[run, dose, "answer_loss", "answer", text] = np.broadcast_to(value, len(of))
    return found


_PASSAGES = [f"prose-{i:05d}" for i in range(1, N_PASSAGES + 1)]


def _table(cells: Cells, units: list[str]) -> pd.DataFrame:
    sizes = [len(values) for values in cells.values()]
    run, _, metric, scope, text = (np.repeat(names, sizes) for names in zip(*cells))
    unit = [one for *_, of in cells for one in (_PASSAGES if of == "prose" else units)]
    values = np.concatenate(list(cells.values()))
    settings = np.repeat([setting(dose=dose) for _, dose, *_ in cells], sizes)
    return table(run=run, setting=settings, metric=metric, scope=scope, condition=text, unit=unit, value=values)


def _world(
    cot: float,
    no_cot: float = 0.0,
    prose: float = 0.0,
    elsewhere: float = 0.0,
    sink_only: bool = False,
    learned: float = -0.5,
    early: float = 0.5,
) -> Callable[[np.random.Generator], pd.DataFrame]:
    shifts = {"cot": cot, "no_cot": no_cot, "prose": prose}

    def rows(generator: np.random.Generator) -> pd.DataFrame:
        return simulated_tuning(generator, shifts, elsewhere, sink_only, learned, early)

    return rows


_MAIN = [*MEASURES, "dose_1", "grows"]
_OVER = [f"over_{arm}" for arm in OTHERS]
_ALL = ["published", *_MAIN, "alone", *_OVER, "beyond_text"]
WORLDS = (
    World(
        "any fine-tuning makes attention sparser on any text",
        dict.fromkeys(_ALL, False) | {"published": True, "alone": True},
        _world(-0.05, -0.05, -0.05, elsewhere=-0.05),
    ),
    World(
        "nothing changes under CoT, and entropy rises under the other texts",
        dict.fromkeys(_ALL, False) | dict.fromkeys(_OVER, True),
        _world(0.0, 0.03, 0.03),
    ),
    World("a fall at the margin, under CoT alone", dict.fromkeys(_ALL, False), _world(-SMALLEST)),
    World(
        "prose does what CoT text does",
        {"published": True, "alone": True, "over_no_cot": True, "over_prose": False}
        | dict.fromkeys(_MAIN, False)
        | {"beyond_text": True},
        _world(-0.05, 0.0, -0.05),
    ),
    World(
        "only attention to the first token moves",
        {"published": True, "sentence": True, "alone": True, "no_sink": False},
        _world(-0.05, sink_only=True),
    ),
    World(
        "the first dose does all, more does nothing",
        {"sentence": True, "dose_1": True, "grows": False},
        _world(-0.05, early=1.0),
    ),
    World(
        "fine-tuning on CoT text makes attention sparser",
        dict.fromkeys((*_ALL, *(f"{arm}_learned" for arm in ARMS)), True),
        _world(-0.05),
    ),
    World(
        "attention moves, but nothing was learned",
        dict.fromkeys([f"{arm}_learned" for arm in ARMS], False),
        _world(-0.05, learned=-0.05),
    ),
)
