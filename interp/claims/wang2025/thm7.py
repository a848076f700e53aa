"""wang2025, Theorem 7: does Algorithm 1 as printed make the error small at every input?

As the theorem has it: one labelled query for each of M sequences a stage, M of order k^4 N^6 with the logarithms that
its lemmas write out, all W_KQ and all readouts moved in every stage, the learning rate of the proof, and the error
the largest over all sequences, queries and hops, which at these sizes are enumerated. The curves of Figure 3 are in
wang2025/fig3-left.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from interp.claims.wang2025._bounds import (
    bound_part,
    bound_rows,
    bounded,
    bounds_figure,
    share_within,
    simulated_bounds,
)
from interp.claims.wang2025._parts import MOST
from interp.core.claim import Claim, Item, Scale, World, register, seed_batches
from interp.core.loops import SEEDS
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import concat

ID = "wang2025/thm7"
WORDS = {
    "sup": "error, proof's η",
    "larger": "error, 100 η",
    "attention": "1 - attention, proof's η",
    "bare": "error, M = k⁴N⁶",
    "few": "error, M = 2kN",
}
LARGER = 100.0
DELTA = 0.1
"""The probability with which the lemmas may fail."""


@dataclass(frozen=True)
class Thm7:
    """Runs of Algorithm 1 for every size and seed."""

    sizes: tuple[tuple[int, int], ...]
    """(k, N), of which all inputs are enumerated."""
    seeds: int
    batch: int
    first_unit: int = 0


PRESETS = {
    "smoke": Thm7(((1, 3), (2, 2)), seeds=2, batch=2),
    "cpu": Thm7(((1, 5), (2, 3), (4, 2), (2, 4), (8, 2), (4, 3)), seeds=60, batch=10),
    "paper": Thm7(((1, 5), (1, 6), (2, 3), (4, 2), (2, 4), (8, 2), (4, 3), (2, 5)), seeds=100, batch=5),
}


def items(preset: Thm7) -> list[Item]:
    """Batches of seeds of one size, the costliest first."""
    return [
        Item(
            f"k={k},n={n},seeds={seeds[0]}-{seeds[-1]}",
            {"k": k, "n": n, "seeds": seeds},
        )
        for k, n in reversed(preset.sizes)
        for seeds in seed_batches(preset.seeds, preset.batch, preset.first_unit)
    ]


def epsilon(k: int, n: int) -> float:
    """The largest error that the theorem allows, 1/(k^2 N^3), its logarithms left out."""
    return 1 / (k**2 * n**3)


def rate(k: int, n: int) -> float:
    """The learning rate with the proof's constant and beta_0 = 1: a score of eta/(2 k^2 N^3) is log(2kN/epsilon)."""
    return 2 * k**2 * n**3 * math.log(2 * k * n / epsilon(k, n))


def enough_sequences(k: int, n: int) -> int:
    """The theorem's M with its logarithms, which Lemmas 15, 19, 24 write out: k^2 N^4 d^2 log^2(d/delta).

    That is k^4 N^6 (L+2)^2 log^2(d/delta), d = kN(L+2).
    """
    d = k * n * (k.bit_length() + 2)
    return math.ceil(k**2 * n**4 * d**2 * math.log(d / DELTA) ** 2)


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The largest error and the least attention over all inputs, over what the theorem and its lemmas allow."""
    p, found = item.parameters, []
    k, n = p["k"], p["n"]
    eps, eta, enough = epsilon(k, n), rate(k, n), enough_sequences(k, n)
    for seed in p["seeds"]:
        error, missing = trained(k, n, seed, enough, eta)
        of = [
            ("sup", error / eps),
            ("attention", missing / (eps / 2)),
            ("larger", trained(k, n, seed, enough, LARGER * eta)[0] / eps),
            ("bare", trained(k, n, seed, k**4 * n**6, eta)[0] / eps),
            ("few", trained(k, n, seed, 2 * k * n, eta)[0] / eps),
        ]
        found.append(bound_rows(item.name, seed, [(name, (k, n), value) for name, value in of]))
    return concat(found)


def trained(k: int, n: int, seed: int, n_sequences: int, eta: float) -> tuple[float, float]:
    """After Algorithm 1: the largest error, and the largest attention off the right key, over all inputs."""
    import torch

    from toy_models.kfold.counted import train_counted
    from toy_models.kfold.gradients import every_input, least_attention, sup_error
    from toy_models.kfold.task import KFold
    from toy_models.kfold.theory_model import KFoldTheory

    task, values = KFold(k=k, n=n, cyclic=True, hidden_seed=seed), every_input(k, n)
    model = KFoldTheory(k, n, dtype=torch.float64)
    train_counted(model, task, values, n_sequences, eta, np.random.default_rng(seed))
    return sup_error(model, task, values), 1 - least_attention(model, task, values)


WHY = "with high probability, 0.99 in Theorem 14: nine seeds in ten is a lower bar, and the least that it can mean"


def parts(preset: Thm7) -> list[Part]:
    """The theorem, its freedom in the learning rate, the attention of its lemmas, and a case in which it fails."""
    return [
        bound_part(
            "sup", "every hop's error is at most epsilon at every input", "Theorem 7",
            "sup over all sequences, queries and hops of |softmax - e_hop| of at most 1/(k^2 N^3)", WHY,
            primary=True,
        ),
        bound_part(
            "larger", "so it is at a hundred times the learning rate", "Theorem 7: eta at least of order k^2 N^3 log",
            "the same error within the bound at 100 eta", WHY, primary=True,
        ),
        bound_part(
            "attention", "every layer attends where the construction does, up to epsilon/2, after all stages",
            "Lemmas 15, 19, 24, with 21 and 26 (earlier layers unchanged)",
            "attention off the right key of at most epsilon/2, at every layer and input", WHY, primary=True,
        ),
        bound_part(
            "bare", "k^4 N^6 sequences without the logarithms are enough", "",
            "the same error within the bound at M = k^4 N^6", "ours: the theorem hides its logarithms", role="ours",
        ),
        Part(
            key="few",
            name="with two sequences for each position and stage it fails",
            role="control",
            quantity="share of seeds with an error above epsilon at M = 2kN, least over sizes",
            estimate=share_failing,
            direction="above",
            threshold=MOST,
            why="the error must be able to exceed the bound: said of most runs",
            unit="seeds",
        ),
    ]  # fmt: skip


def share_failing(found: pd.DataFrame, level: float) -> Interval | NotMeasurable:
    """The share of seeds above the bound, at the size where it is smallest."""
    return share_within(found.assign(value=np.where(found["value"] > 1, 0.0, 2.0)), level, condition="few")


def _world(
    held: float, few: float, bare: float, largest: float | None = None
) -> Callable[[np.random.Generator], pd.DataFrame]:
    preset = PRESETS["cpu"]
    theorem, without, control = (
        simulated_bounds(dict.fromkeys(keys, preset.sizes), preset.seeds, held=chance, largest=at)
        for keys, chance, at in ((_THEOREM, held, largest), (("bare",), bare, None), (("few",), few, None))
    )
    return lambda generator: concat([theorem(generator), without(generator), control(generator)])


_THEOREM = ("sup", "larger", "attention")
WORLDS = (
    World(
        "one seed in ten errs somewhere, and half do with few sequences",
        dict.fromkeys((*_THEOREM, "bare", "few"), False),
        _world(held=0.9, few=0.5, bare=0.9),
    ),
    World(
        "it fails at the largest size only",
        dict.fromkeys(_THEOREM, False),
        _world(held=0.999, few=0.05, bare=0.5, largest=0.5),
    ),
    World(
        "as the theorem has it",
        dict.fromkeys((*_THEOREM, "bare", "few"), True),
        _world(held=0.9995, few=0.05, bare=0.9995),
    ),
)


register(
    Claim(
        id=ID,
        sentence=(
            "With M of order k^4 N^6 sequences a stage and a learning rate of order k^2 N^3 log(1/epsilon) or more, "
            "Algorithm 1 leaves every hop with an error of at most epsilon = 1/(k^2 N^3) at every input."
        ),
        method=(
            "Algorithm 1 is run in double precision as printed (one query for each sequence, all W_KQ and all "
            "readouts move in every stage), with M = k^2 N^4 d^2 log^2(d/delta), d = kN(L+2), delta = 0.1, as the "
            "lemmas have it, and the proof's learning rate, and a hundred times that. Samples are multinomial counts "
            "of all inputs, which has the same distribution. The largest error of an output probability is then "
            "taken over all (N!)^k sequences, all kN queries and all hops, and so is the attention that misses the "
            "key of Theorem 4."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: k = 1, N = 3, and k = N = 2"),
            "cpu": Scale(
                "smaller", "a theorem for all k and N: sizes up to k = 8, N = 2, k = 2, N = 4 and k = 4, N = 3"
            ),
            "paper": Scale(
                "smaller", "a theorem for all k and N: sizes up to k = 8, N = 2, k = 4, N = 3, k = 2, N = 5"
            ),
        },
        finding=(
            "The largest error over all inputs was within epsilon in {sup.estimate:.0%} of {sup.n} seeds at the "
            "worst size, in {larger.estimate:.0%} at a hundred times the learning rate, and attention within "
            "epsilon/2 in {attention.estimate:.0%}; without the logarithms in M in {bare.estimate:.0%}; with two "
            "sequences a position it was not in {few.estimate:.0%}."
        ),
        deviations=(
            "The theorem hides constants and powers of log(kN): here M has those of the lemmas with constant 1, eta "
            "the proof's 2 k^2 N^3 log(2kN/epsilon), and epsilon is 1/(k^2 N^3) without a logarithm. beta_0 = 1. "
            "Inputs must be enumerable, so k and N are tiny, and L is at most 4."
        ),
        falls_short=(
            "That so many sequences suffice is hardly tested: at these sizes they are more than there are inputs, so "
            "this is the algorithm near its population limit."
        ),
        clarity=(
            "Even without logarithms M = k^4 N^6 is more than there are inputs, (N!)^k kN, at every size here: the "
            "condition asks for more labels than the task has at k = 1 up to N = 7, at k = 2 up to N = 5, at k = 4 "
            "up to N = 3 and at k = 8 for N = 2. With M beyond the number of inputs the sample is close to the "
            "population: this tests the algorithm at its population limit rather than the sample size. Theorem 14 "
            "restates the theorem with epsilon log(1/epsilon) of order 1/(k^6 N^6) and for the last hop only."
        ),
        history=(
            "No run of this claim was published before. A first version had M = k^4 N^6 without logarithms: with N "
            "= 2, where the proof's separation of scores is tight, one of three exploratory seeds failed at k = 4; "
            "it is now the part `bare`."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=bounded,
        parts=parts,
        worlds=WORLDS,
        figures=partial(bounds_figure, words=WORDS, title="Theorem 7: largest error over all inputs / ε"),
        loops=(SEEDS,),
    )
)
