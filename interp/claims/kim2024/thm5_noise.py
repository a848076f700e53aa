"""kim2024, Theorem 5: how large an error of the gradient does the one step tolerate?

The theorem allows any error of order d^(-2 - eps/8) per entry, adversarial ones included. Three errors of a given
size are tried on n = d^3 samples (eps = 1): random (uniform, one direction for each seed), against the signal (both
children lowered, the rest raised), and aligned: at every node the child that sampling happened to raise more is
raised further and the other lowered, which is what one step bears least. The breaking point of a seed is the smallest
error of the grid (factors of sqrt(2)) at which it fails. Success is that of kim2024/thm5: right signs, and a small
error of the root.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._runs import (
    ACCURATE,
    SUP_ERROR,
    answer_rows,
    drawn_bytes,
    generators,
    planted,
    true_values,
)
from interp.claims.kim2024._thm5_noise import KINDS, TOLERATED, breaking_points, outcomes, parts, summary
from interp.claims.kim2024._worlds_one_step import noise_worlds
from interp.core.claim import Claim, Item, Scale, register, seed_batches
from interp.core.loops import entries, loop
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
    constant: float
    """n = constant d^3."""
    step: float
    """The step is step / c d^(2 + 1/16), c being the curvature of the quartic link."""
    n_test: int
    seeds: int
    batch: int
    first_unit: int = 0

    def n(self, d: int) -> int:
        """The samples of size d."""
        return 8 * -(-int(self.constant * d**3) // 8)


LINK, STEP = "quartic", 7.0
ERRORS = tuple(round(TOLERATED * 2 ** (half / 2), 5) for half in range(-3, 14))
PRESETS = {
    "smoke": Noise(
        ((16, 8), (32, 16)), (TOLERATED, 0.2, 1.0), constant=2.0, step=STEP, n_test=128, seeds=2, batch=2,
    ),
    "cpu": Noise(((48, 16), (64, 32), (96, 32)), ERRORS, constant=1.0, step=STEP, n_test=512, seeds=100, batch=25),
    "paper": Noise(
        ((48, 16), (64, 32), (96, 32), (128, 64), (192, 64), (256, 128)), ERRORS, constant=1.0, step=STEP,
        n_test=16_384, seeds=200, batch=25,
    ),
}  # fmt: skip


def items(preset: Noise) -> list[Item]:
    """One batch of seeds of one size each; the large sizes come first."""
    return [
        Item(
            f"d={d},k={k},seeds={seeds[0]}-{seeds[-1]}",
            {
                "d": d, "k": k, "seeds": seeds, "errors": sorted(preset.errors), "n": preset.n(d),
                "step": preset.step, "n_test": preset.n_test,
            },
        )
        for d, k in sorted(preset.sizes, reverse=True)
        for seeds in seed_batches(preset.seeds, preset.batch, preset.first_unit)
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """One step from zero along the oracle's gradient, for every kind and size of error and without any."""
    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.gradient import Oracle, forced_gradients
    from toy_models.tree_parity.links import find_link
    from toy_models.tree_parity.training import answers

    p, link = item.parameters, find_link(LINK)
    forest = planted(p["d"], p["k"], p["seeds"])
    test = true_values(forest, p["seeds"], p["n_test"])
    sample = Sample.draw(p["d"], p["n"], generators(p["seeds"], "train"))
    (_, exact), *_ = forced_gradients(forest.no_weights(), forest, sample, link)
    rate = p["step"] / link.curvature * p["d"] ** (2 + 1 / 16)
    tables = []
    for kind in KINDS:
        for error in (0.0, *p["errors"]):
            oracle = Oracle(error / p["d"] ** 2, kind)
            gradient = oracle(exact, forest, generators(p["seeds"], "noise"))
            found = answers(-rate * gradient, forest, test, link, "position")
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
            f"Success: rollout accuracy of at least {ACCURATE:g} and largest error of the root below {SUP_ERROR:g}, "
            "as in kim2024/thm5, after one step along the gradient plus an error, of three kinds and many sizes. A "
            f"seed is unharmed if it succeeds without error and with every error up to {TOLERATED:g}/d^2; shares of "
            "seeds have exact intervals and are judged at the worst of the sizes. The breaking point is the smallest "
            "error at which a seed fails; its exponent in d is a censored power law with a bootstrap over seeds, its "
            "interval open where the smallest error of the grid already breaks a seed."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: d = 16 and 32, two seeds"),
            "cpu": Scale(
                "smaller",
                "a theorem for large d, with constants of our choice: d from 48 to 96, n = d^3 samples, 100 seeds",
            ),
            "paper": Scale(
                "smaller",
                "a theorem for large d, with constants of our choice: d from 48 to 256, n = d^3 samples, 200 seeds",
            ),
        },
        finding=(
            f"With errors up to {TOLERATED:g}/d^2 in every entry of the gradient one step still solved the parity in "
            "{random_tolerated.estimate:.0%} of {random_tolerated.n} seeds (random errors), "
            "{against_tolerated.estimate:.0%} (errors against the signal) and {aligned_tolerated.estimate:.0%} "
            "(errors aligned with the sampled imbalance of the children) at the worst of the sizes; the errors that "
            "break it scale as d to the power {random_scaling}, {against_scaling} and {aligned_scaling}."
        ),
        falls_short=(
            "'Even adversarially' is three kinds of error of ours, the worst that we thought of, at one constant of "
            "the order that the theorem names; an adversary who sees more could do more."
        ),
        deviations=(
            "The constants are ours, as in kim2024/thm5: the quartic link, a step of (7 / c) d^(2+1/16), chosen on "
            "seeds below 8 among 7 to 10, n = d^3, that is eps = 1, for which the theorem allows errors of order "
            f"d^(-2-1/8); {TOLERATED:g}/d^2 is taken for such a number, and over these sizes d^(-1/8) changes by a "
            "tenth. (d, k) = (48, 16), (64, 32) and (96, 32) at cpu, up to (256, 128) at paper. The paper has no "
            "experiment for the theorem. The smoke preset is far smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "The theorem is about every error; three kinds are examples of it, the third of them chosen with "
            "knowledge of the sample. The constant in O(d^(-2-eps/8)) is not given, so harm at "
            f"{TOLERATED:g}/d^2 would refute this constant and not the theorem. It is a small part of the signal on "
            "a child, 2c (d/m)^2 in these units; what limits it is that a step of 7 blows the difference of two "
            "children up."
        ),
        history=(
            "Before, n was 131,072 at every d from 16 to 128 with ten seeds and the piecewise link, so that sampling "
            "noise took a growing share of the tolerance as d grew, and the errors between the children had fixed "
            "signs, which are not adversarial: at d = 32 aligned signs broke the step at 0.0707/d^2, where the fixed "
            "ones did not. Until the parts were declared, a share counted as high if ten of ten seeds succeeded. "
            "Success was then a matter of signs alone, and 0.05/d^2 had to be borne; a review asked for the error of "
            "the root too, which at d = 48 and 0.05/d^2 was 0.17 (median of eight seeds below 1000, aligned errors), "
            "and 0.05 at half of that, which is asked now."
        ),
        presets=PRESETS,
        loops=(loop("n", "samples", least=2048, holds=drawn_bytes), entries("errors", "errors of the oracle")),
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=noise_worlds(PRESETS["cpu"]),
        published=lambda rows: rows[rows["metric"].isin(["accuracy", "sup_error"])],
        figures=figures,
    )
)
