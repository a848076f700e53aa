"""kim2024, Theorem 5: does one gradient step with teacher forcing solve parity, and from how many samples on?

One step from zero is taken for every size, number of samples n, step size and seed. Success is a rollout accuracy of
at least 99.9% and an error of the root below 0.1 on every test input. The step size 1.5 d^2 was chosen inside the
window in which one step works: with a larger step the two children hold all of the attention, but unequally. Two
parts are ours and not the theorem's: that n = d^2 samples are too few (an effect of small d), and that a step of
order d^2 can be too large.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._runs import ACCURATE, LINK, SUP_ERROR, answer_rows, generators, planted, true_values
from interp.claims.kim2024._thm5 import first_success, outcomes, parts, published, summary
from interp.claims.kim2024._worlds_one_step import one_step_worlds
from interp.core.claim import Claim, Item, Scale, register, seed_batches
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "kim2024/thm5"


@dataclass(frozen=True)
class Thm5:
    """One gradient for each size, seed and n; one model for each of these and each step size."""

    sizes: tuple[tuple[int, int], ...]
    """(d, k) at which success and failure are judged."""
    more_sizes: tuple[tuple[int, int], ...]
    """Further (d, k) for the growth of n with d."""
    ns: tuple[int, ...]
    """Numbers of samples; d^2 is added."""
    enough: int
    """The n that is claimed to suffice at every size."""
    steps: tuple[float, ...]
    """Step sizes in units of d^2."""
    step: float
    """The step size that is judged."""
    n_test: int
    seeds: int
    batch: int
    """Seeds that are trained in one batch."""
    first_unit: int = 0
    """The first seed."""


def half_octaves(low: int, high: int) -> tuple[int, ...]:
    """2^low to 2^high in factors of about sqrt(2), multiples of 8."""
    return tuple(8 * round(2 ** (half / 2 - 3)) for half in range(2 * low, 2 * high + 1))


STEPS = (0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
SIZES = ((16, 8), (32, 16), (64, 32))
PRESETS = {
    "smoke": Thm5(
        sizes=((8, 4), (16, 8)), more_sizes=(), ns=(1024, 4096, 16_384), enough=16_384,
        steps=(1.0, 1.5, 8.0), step=1.5, n_test=256, seeds=2, batch=2,
    ),
    "cpu": Thm5(
        sizes=SIZES, more_sizes=((128, 64),), ns=half_octaves(8, 18), enough=131_072,
        steps=STEPS, step=1.5, n_test=2048, seeds=10, batch=5,
    ),
    "paper": Thm5(
        sizes=SIZES, more_sizes=((128, 64), (256, 128)), ns=half_octaves(8, 20), enough=131_072,
        steps=STEPS, step=1.5, n_test=16_384, seeds=50, batch=10,
    ),
}  # fmt: skip


def items(preset: Thm5) -> list[Item]:
    """One batch of seeds of one size each; the large sizes come first."""
    found = []
    for d, k in sorted({*preset.sizes, *preset.more_sizes}, reverse=True):
        for seeds in seed_batches(preset.seeds, preset.batch, preset.first_unit):
            parameters = {
                "d": d, "k": k, "seeds": seeds, "ns": sorted({*preset.ns, d * d}), "steps": list(preset.steps),
                "step": preset.step, "enough": preset.enough, "n_test": preset.n_test,
                "judged": (d, k) in preset.sizes, "drawn": seeds[0] == preset.first_unit,
            }  # fmt: skip
            found.append(Item(f"d={d},k={k},seeds={seeds[0]}-{seeds[-1]}", parameters))
    return found


def measure(item: Item, work: Path) -> pd.DataFrame:
    """One step from zero for every n and step size: accuracy, largest error and attention on the children."""
    import torch

    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.gradient import forced_gradients
    from toy_models.tree_parity.links import LINKS
    from toy_models.tree_parity.training import answers

    p, link = item.parameters, LINKS[LINK]
    forest = planted(p["d"], p["k"], p["seeds"])
    test = true_values(forest, p["seeds"], p["n_test"])
    sample = Sample.draw(p["d"], max(p["ns"]), generators(p["seeds"], "train"))
    start = torch.zeros(forest.n_seeds, forest.n_nodes, forest.n_keys)
    labels = {"run": item.name, "condition": "teacher_forcing"}
    tables = []
    for n, gradient in forced_gradients(start, forest, sample, link, stops=p["ns"]):
        for step in p["steps"]:
            weights = -step * p["d"] ** 2 * gradient
            enough, chosen = n == p["enough"], step == p["step"]
            place = setting(
                d=p["d"], k=p["k"], n=n, eta=step, judged=int(p["judged"]), enough=int(enough), chosen=int(chosen)
            )
            found = answers(weights, forest, test, link, "position")
            tables.append(answer_rows(found, p["seeds"], setting=place, **labels))
            if enough and chosen and p["drawn"]:
                of_seed = {"unit": str(p["seeds"][0]), "setting": place, **labels}
                tables.append(_weight_rows(weights[0], forest.needed[0], forest.visible("position"), of_seed))
    return concat(tables)


def _weight_rows(weights, needed, visible, labels: dict[str, str]) -> pd.DataFrame:
    """The first seed's W where it is not masked, and the tree beside it."""
    query, key = visible.nonzero().T.tolist()
    common = {"scope": "weights", "query": query, "key": key, **labels}
    return concat(
        table(metric=metric, value=values[visible].tolist(), **common)
        for metric, values in (("weight", weights), ("dependency", needed.float()))
    )


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Where one step succeeds; the n it takes against d; and the first seed's weights with its tree."""
    from interp.claims.kim2024._figures import phase_diagram, samples_needed, weight_map

    found = outcomes(rows)
    weights = with_settings(rows[rows["scope"] == "weights"])  # of the first seed alone
    drawn = {"phase_diagram": phase_diagram(found), "samples_needed": samples_needed(first_success(found))}
    return drawn | {f"weights_d={d}": weight_map(of_size) for d, of_size in weights.groupby("d")}


register(
    Claim(
        id=ID,
        sentence=(
            "With teacher forcing, one gradient step from zero on n = Omega(d^(2+eps)) samples with a step size of "
            "order d^2 makes the model compute any k-parity by chain of thought, with vanishing error."
        ),
        method=(
            f"Success: rollout accuracy of at least {ACCURATE:g} and largest error of the root below {SUP_ERROR:g} "
            "on the test inputs, after one gradient step of one size on one number of samples. Shares of seeds have "
            "exact intervals and are judged at the worst of the sizes. The samples needed by a seed are the smallest "
            "n of the grid (factors of sqrt(2)) at which any step size of the grid succeeds; their exponent in d is "
            "a censored power law with a bootstrap over seeds."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: (d, k) = (8, 4) and (16, 8), two seeds"),
            "cpu": Scale(
                "smaller",
                "a theorem for large d, with constants of our choice: d up to 64 (128 for growth), k = d/2, 131,072 "
                "samples at every d, ten seeds",
            ),
            "paper": Scale(
                "smaller",
                "a theorem for large d, with constants of our choice: d up to 64 (256 for growth), k = d/2, 131,072 "
                "samples at every d, 50 seeds",
            ),
        },
        finding=(
            "One step on a fixed number of samples solved the parity in {solved.estimate:.0%} of {solved.n} seeds at "
            "the worst of the sizes; the samples needed grew as d to the power {growth}, where the theorem "
            "guarantees success with d^(2+eps) samples."
        ),
        deviations=(
            "The theorem is asymptotic and leaves its constants open; these are ours. The link function is piecewise "
            "quadratic and linear with slopes up to 2.67, the step 1.5 d^2 (the paper: of order d^(2 + eps/16)), the "
            "number of samples 131,072 at every d (the paper: of order d^(2 + eps)), k = d/2. cpu: (d, k) = (16, 8) "
            "to (64, 32), and (128, 64) where the growth with d is fitted; 2048 test inputs, ten seeds. paper: up to "
            "(256, 128) and a million samples, 50 seeds; the paper has no experiment for the theorem. Constants that "
            "work at every d of the range are what the theorem promises. Since n is fixed, eps falls as d grows, and "
            "the theorem's bound on the error, d^(-eps/8), cannot be compared between sizes: only an error below "
            f"{SUP_ERROR:g} is asked for. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "'Sufficiently large' d and constants in Omega, Theta and O that the paper does not give: no finite "
            "experiment can refute the theorem, a failure only says that these constants do not work at these sizes. "
            "The bound on n is sufficient and, as its proof goes by a union bound, far from necessary: samples "
            "needed that grow more slowly than d^2 agree with it, and growth over this range of d, where terms that "
            "fade with d still matter, does not show the limit. With ten seeds a share above 0.9 cannot be shown, "
            "even if all succeed."
        ),
        history=(
            "Until the parts were declared, a share counted as high if ten of ten seeds succeeded (cut-offs of 0.65 "
            "and 0.35, which hold at n = 10 only: 40 of 50 seeds would have passed), each size was judged by "
            "itself, and the two parts that are not the theorem's (n = d^2 is too few, 8 d^2 is too large) counted "
            "like the rest. Success starts at 22,000 samples for d = 16 and 40,000 for d = 128, far below the "
            "theorem's d^2, whose union bound is not tight (noise over signal is of order sqrt(d / n)), and is "
            "dominated at small d by terms that fade as d grows. At d = 128 the first seeds succeed at 1.4 d^2, so "
            "d^2 will not stay too few for long. Step sizes have a window: at 131,072 samples all seeds succeed at "
            "1.5 and 2 d^2 (at d = 128 at 2 and 3 d^2), none up to 1 d^2 and none at 8 d^2, where the children hold "
            "all of the attention (1.0000) but up to 0.7 apart; the upper end rises with n. The growth "
            "of the samples needed was primary until a review: the theorem says how many suffice, so that this part "
            "can hardly fail."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=one_step_worlds(PRESETS["cpu"]),
        published=published,
        figures=figures,
    )
)
