"""kim2024, Theorem 5: how large an error of the gradient does the one step tolerate?

The theorem allows any error of order d^(-2 - eps/8) per entry, adversarial ones included. Three errors of a given
size are tried: random (uniform, one direction for each seed), against the signal (both children lowered, the rest
raised), and unequal (one child raised, the other lowered). The breaking point of a seed is the smallest error of the
grid (factors of sqrt(2)) at which it fails. Success is a rollout accuracy of at least 99.9%, without the bound on the
largest error, which sampling noise alone comes close to at the small sizes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._runs import ACCURATE, LINK, answer_rows, generators, planted, true_values
from interp.claims.kim2024._thm5_noise import KINDS, TOLERATED, breaking_points, outcomes, parts, summary
from interp.claims.kim2024._worlds_one_step import noise_worlds
from interp.core.claim import Claim, Item, Scale, register, seed_batches
from probes.rows import concat, setting

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "kim2024/thm5-noise"


@dataclass(frozen=True)
class Noise:
    """One gradient for each size and seed; one model for each of these, each kind of error and each size of it."""

    sizes: tuple[tuple[int, int], ...]
    errors: tuple[float, ...]
    """Sizes of the error in units of 1/d^2."""
    n: int
    step: float
    """In units of d^2."""
    n_test: int
    seeds: int
    batch: int
    first_unit: int = 0


ERRORS = (TOLERATED, *(round(0.1 * 2 ** (half / 2), 4) for half in range(-6, 11) if half != -2))
PRESETS = {
    "smoke": Noise(((8, 4), (16, 8)), (TOLERATED, 0.2, 1.0), n=16_384, step=1.5, n_test=256, seeds=2, batch=2),
    "cpu": Noise(
        ((16, 8), (32, 16), (64, 32), (128, 64)), ERRORS, n=131_072, step=2.0, n_test=2048, seeds=10, batch=5,
    ),
    "paper": Noise(
        ((16, 8), (32, 16), (64, 32), (128, 64), (256, 128)), ERRORS, n=1_048_576, step=2.0, n_test=16_384,
        seeds=50, batch=10,
    ),
}  # fmt: skip


def items(preset: Noise) -> list[Item]:
    """One batch of seeds of one size each; the large sizes come first."""
    return [
        Item(
            f"d={d},k={k},seeds={seeds[0]}-{seeds[-1]}",
            {
                "d": d, "k": k, "seeds": seeds, "errors": sorted(preset.errors), "n": preset.n, "step": preset.step,
                "n_test": preset.n_test,
            },
        )
        for d, k in sorted(preset.sizes, reverse=True)
        for seeds in seed_batches(preset.seeds, preset.batch, preset.first_unit)
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """One step from zero along the oracle's gradient, for every kind and size of error and without any."""
    import torch

    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.gradient import Oracle, forced_gradients
    from toy_models.tree_parity.links import LINKS
    from toy_models.tree_parity.training import answers

    p, link = item.parameters, LINKS[LINK]
    forest = planted(p["d"], p["k"], p["seeds"])
    test = true_values(forest, p["seeds"], p["n_test"])
    sample = Sample.draw(p["d"], p["n"], generators(p["seeds"], "train"))
    start = torch.zeros(forest.n_seeds, forest.n_nodes, forest.n_keys)
    (_, exact), *_ = forced_gradients(start, forest, sample, link)
    tables = []
    for kind in KINDS:
        for error in (0.0, *p["errors"]):
            oracle = Oracle(error / p["d"] ** 2, kind)
            gradient = oracle(exact, forest, generators(p["seeds"], "noise"))
            found = answers(-p["step"] * p["d"] ** 2 * gradient, forest, test, link, "position")
            place = setting(d=p["d"], k=p["k"], n=p["n"], error=error)
            tables.append(answer_rows(found, p["seeds"], run=item.name, condition=kind, setting=place))
    return concat(tables)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """The share of seeds solved against the size of the error, and the breaking point against d."""
    from interp.claims.kim2024._figures import noise_tolerance

    found = outcomes(rows)
    return {"noise_tolerance": noise_tolerance(found, breaking_points(found))}


register(
    Claim(
        id=ID,
        sentence=(
            "The one-step guarantee holds for any gradient oracle whose entries are off by at most O(d^(-2-eps/8)), "
            "even adversarially."
        ),
        method=(
            f"Success: rollout accuracy of at least {ACCURATE:g} after one step along the gradient plus an error, of "
            "three kinds and many sizes. A seed is unharmed if it succeeds without error and with every error up to "
            f"{TOLERATED:g}/d^2; shares of seeds have exact intervals and are judged at the worst of the sizes. The "
            "breaking point is the smallest error at which a seed fails; its exponent in d is a censored power law "
            "with a bootstrap over seeds, its interval open where the smallest error of the grid already breaks a "
            "seed."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: (d, k) = (8, 4) and (16, 8), two seeds"),
            "cpu": Scale(
                "smaller",
                "a theorem for large d, with constants of our choice: d from 16 to 128, k = d/2, 131,072 samples at "
                "every d, ten seeds",
            ),
            "paper": Scale(
                "smaller",
                "a theorem for large d, with constants of our choice: d from 16 to 256, k = d/2, a million samples "
                "at every d, 50 seeds",
            ),
        },
        finding=(
            f"With errors up to {TOLERATED:g}/d^2 in every entry of the gradient one step still solved the parity in "
            "{random_tolerated.estimate:.0%} of {random_tolerated.n} seeds (random errors), "
            "{against_tolerated.estimate:.0%} (errors against the signal) and {unequal_tolerated.estimate:.0%} "
            "(errors between the children) at the worst of the sizes; the errors that break it scale as d to the "
            "power {random_scaling}, {against_scaling} and {unequal_scaling}."
        ),
        deviations=(
            "The constants are ours, as in kim2024/thm5. cpu: n = 131,072 and a step of 2 d^2 at every d from 16 to "
            "128, ten seeds; with n fixed, sampling noise takes a growing share of the tolerance as d grows, which "
            "can steepen the fitted exponents: they are therefore no part of the paper's claim, which lets n grow as "
            "d^(2 + eps). At d = 32 that noise is about as large as the error tolerated. paper: up to d = 256 with a "
            "million samples, 50 seeds; the paper has no experiment for the theorem. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "The theorem is about every error; three kinds are examples of it, and none is adversarial in the "
            "theorem's sense: signs aligned with the sampled imbalance between the two children would do more harm "
            "than those of `unequal`, which are fixed beforehand. The constant in O(d^(-2-eps/8)) is not given, so "
            f"harm at {TOLERATED:g}/d^2 would refute this constant and not the theorem. With ten seeds a share above "
            "0.9 cannot be shown, even if all succeed."
        ),
        history=(
            "Until the parts were declared, a share counted as high if ten of ten seeds succeeded (a cut-off of "
            "0.65, which holds at n = 10 only), counted over seeds solved at every d at once; and the exponent was "
            "judged twice, above -2.5 and below -1.5, as if the paper had said so. Random errors break the step from "
            "about 0.2/d^2 on, errors between the two children from about 0.1/d^2, errors against the signal only "
            "from about 1/d^2: what one step cannot bear is children told apart. The intervals of the exponents "
            "exclude d^-2 but lie within the declared range; the number of nodes and levels that must all hold grows "
            "with d, and the paper too allows a little less than d^-2. One of ten seeds fails at 0.05/d^2 between "
            "children, at d = 64. In a trial outside the suite, errors between children with aligned signs broke the "
            "step at 0.0707/d^2, where the fixed signs did not."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=noise_worlds(PRESETS["cpu"]),
        published=lambda rows: rows[rows["metric"] == "accuracy"],
        figures=figures,
    )
)
