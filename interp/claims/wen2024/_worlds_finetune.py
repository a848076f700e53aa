"""What would fine-tuned models show, were the truth known? The worlds of wen2024/fig6-finetune."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from interp.claims.wen2024._finetune import ARMS, BASE, SMALLEST, TESTS, run_name
from interp.claims.wen2024._worlds_pretrained import built_in, deviations, simulated_entropies
from interp.core.claim import World
from probes.rows import concat, table

N_PROBLEMS, SEEDS = 24, 3
"""As in the cpu preset."""
PLACES = sorted(
    {(text, test.metric, test.scope) for test in TESTS.values() for text in (test.text, test.control) if text}
)
COT = ("cot", "cot_clean")
TRAINING = {"training_loss": 1.0, "forwarded_tokens": 16_000.0, "supervised_tokens": 9_000.0, "passages": 100.0}


def simulated_tuning(
    generator: np.random.Generator, cot: Mapping[str, float], no_cot: Mapping[str, float], learned: float = -0.5
) -> pd.DataFrame:
    """Rows of a base and of both arms; `cot` and `no_cot` say how an arm's entropy moves on each text.

    Templates, problems and training runs deviate from that.
    """
    units = built_in(N_PROBLEMS)
    values = {(BASE, *place): np.full(N_PROBLEMS, 0.4) for place in PLACES}
    losses, training = {(BASE, text): np.full(N_PROBLEMS, 1.5) for text in ARMS}, []
    for arm, shifts in (("cot", cot), ("no_cot", no_cot)):
        of_problems = deviations(generator, units, (len(PLACES) + 1,), 0.01, 0.005)
        for seed in range(SEEDS):
            run = run_name(arm, seed)
            of_run = generator.normal(0, 0.004, len(PLACES))
            noise = generator.normal(0, 0.004, (len(PLACES), N_PROBLEMS))
            for i, place in enumerate(PLACES):
                shift = shifts.get(place[0], 0.0)
                values[run, *place] = 0.4 + shift + of_run[i] + of_problems[i] + noise[i]
            for text in ARMS:
                moved = learned * (text == arm) + 5 * of_problems[-1] + generator.normal(0, 0.01)
                losses[run, text] = 1.5 + moved
            training.append((run, arm, str(seed)))
    runs, texts = zip(*losses)
    held_out = table(
        run=np.repeat(runs, N_PROBLEMS),
        condition=np.repeat(texts, N_PROBLEMS),
        unit=units * len(losses),
        metric="answer_loss",
        scope="answer",
        value=np.concatenate(list(losses.values())),
    )
    run, arm, seed = (np.repeat(names, len(TRAINING)) for names in zip(*training))
    counts = {"metric": list(TRAINING) * len(training), "value": list(TRAINING.values()) * len(training)}
    return concat([simulated_entropies(units, values), held_out, table(run=run, condition=arm, unit=seed, **counts)])


def _world(
    cot: Mapping[str, float], no_cot: Mapping[str, float], learned: float = -0.5
) -> Callable[[np.random.Generator], pd.DataFrame]:
    def rows(generator: np.random.Generator) -> pd.DataFrame:
        return simulated_tuning(generator, cot, no_cot, learned)

    return rows


def _named(*prefixes: str) -> list[str]:
    return [key for key in TESTS if key.startswith(prefixes)]


_DIRECT, _ARMS = ["published", "length", "mean"], ["arms_published", "arms_length", "arms_mean"]
_OTHER, _BEYOND = _named("other_", "arms_other_"), _named("beyond_")
_ELSEWHERE: dict[str, float] = dict.fromkeys(("no_cot", "shuffled_tokens", "filler"), 0.03)
_EVERYWHERE: dict[str, float] = dict.fromkeys((*COT, *_ELSEWHERE), -0.04)
WORLDS = (
    World(
        "entropy rises on other text and stays on CoT text",
        dict.fromkeys((*_DIRECT, *_ARMS, *_BEYOND, *_OTHER), False),
        _world(_ELSEWHERE, {}),
    ),
    World(
        "a fall at the margin, on CoT text alone",
        dict.fromkeys((*_DIRECT, *_ARMS, *_BEYOND), False) | dict.fromkeys(_OTHER, True),
        _world(dict.fromkeys(COT, -SMALLEST), {}),
    ),
    World(
        "any fine-tuning makes attention sparser on any text",
        dict.fromkeys(_DIRECT, True) | dict.fromkeys((*_ARMS, *_BEYOND), False),
        _world(_EVERYWHERE, _EVERYWHERE),
    ),
    World(
        "fine-tuning on CoT data makes attention to CoT text sparser",
        {"cot_learned": True, "no_cot_learned": True} | dict.fromkeys((*_DIRECT, *_ARMS, *_BEYOND, *_OTHER), True),
        _world(dict.fromkeys(COT, -0.04), {}),
    ),
    World(
        "attention moves, but nothing was learned",
        {"cot_learned": False, "no_cot_learned": False},
        _world(_EVERYWHERE, {}, learned=-0.1),
    ),
)
