"""kim2024, Theorem 5: does one gradient step with teacher forcing solve parity on n = C d^(2+eps) samples?

Three laws for n (eps = 1/4, 1/2 and 1) with one constant each, a step of (9 / c) d^(2+eps/16), c being the link's
curvature, and one step from zero for every size, law and seed: the theorem's own scaling, with constants that were
chosen on other seeds. Judged are the share of seeds solved and the exponent of the largest error in d, which the
theorem bounds by -eps/8; then numbers of secret bits other than d/2, and the other links. The seeds of a batch are
one tensor program.
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
from interp.claims.kim2024._thm5 import outcomes, parts, published, summary
from interp.claims.kim2024._worlds_one_step import one_step_worlds
from interp.core.claim import Claim, Item, Scale, register, seed_batches
from interp.core.loops import Loop
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "kim2024/thm5"


@dataclass(frozen=True)
class Law:
    """n = constant d^(2 + eps) samples."""

    eps: float
    constant: float

    def samples(self, d: int) -> int:
        """The n of size d, rounded up to a multiple of 8."""
        return 8 * -(-int(self.constant * d ** (2 + self.eps)) // 8)


@dataclass(frozen=True)
class Cell:
    """A size with the link of its model, and what it is there for."""

    d: int
    k: int
    link: str = "quartic"
    role: str = "size"
    """size: judged, and its error enters the exponent; small: shown beside them; k, link: judged as such."""


@dataclass(frozen=True)
class Thm5:
    """One gradient for each cell, seed and law; one model for each of these and each step size."""

    cells: tuple[Cell, ...]
    laws: tuple[Law, ...]
    step: float
    """The step is step / c d^(2 + eps/16)."""
    others: tuple[float, ...]
    """Multiples of it that are measured and shown, and not judged."""
    n_test: int
    seeds: int
    batch: int
    """Seeds that are trained in one tensor program."""
    first_unit: int = 0


STEP, OTHERS = 9.0, (0.5, 0.75, 1.5, 2.0)
LAWS = (Law(0.25, 4.0), Law(0.5, 2.0), Law(1.0, 0.25))
PRESETS = {
    "smoke": Thm5(
        (Cell(16, 8), Cell(32, 16), Cell(32, 4, role="k"), Cell(32, 16, "cosine", "link")), LAWS,
        step=STEP, others=(0.5,), n_test=128, seeds=2, batch=2,
    ),
    "cpu": Thm5(
        (
            Cell(32, 16, role="small"), Cell(64, 32), Cell(96, 32), Cell(128, 64), Cell(64, 4, role="k"),
            Cell(64, 8, role="k"), Cell(128, 16, role="k"), Cell(64, 32, "piecewise", "link"),
            Cell(64, 32, "cosine", "link"),
        ),
        LAWS, step=STEP, others=OTHERS, n_test=512, seeds=100, batch=25,
    ),
    "paper": Thm5(
        (
            Cell(32, 16, role="small"), Cell(64, 32), Cell(96, 32), Cell(128, 64), Cell(192, 64), Cell(256, 128),
            Cell(64, 4, role="k"), Cell(64, 8, role="k"), Cell(128, 16, role="k"), Cell(256, 16, role="k"),
            Cell(128, 64, "piecewise", "link"), Cell(128, 64, "cosine", "link"),
        ),
        LAWS, step=STEP, others=OTHERS, n_test=16_384, seeds=400, batch=25,
    ),
}  # fmt: skip


def items(preset: Thm5) -> list[Item]:
    """One batch of seeds of one cell each; the large sizes come first."""
    found = []
    for cell in sorted(preset.cells, key=lambda cell: -cell.d * cell.k):
        laws = [law for law in preset.laws if cell.role in ("size", "small") or law == _middle(preset)]
        for seeds in seed_batches(preset.seeds, preset.batch, preset.first_unit):
            parameters = {
                "d": cell.d, "k": cell.k, "link": cell.link, "role": cell.role, "seeds": seeds,
                "laws": [[law.eps, law.samples(cell.d)] for law in laws], "step": preset.step,
                "others": list(preset.others) if cell.role in ("size", "small") else [], "n_test": preset.n_test,
                "drawn": seeds[0] == preset.first_unit and cell.role == "size",
            }  # fmt: skip
            found.append(Item(f"d={cell.d},k={cell.k},{cell.link},seeds={seeds[0]}-{seeds[-1]}", parameters))
    return found


def _middle(preset: Thm5) -> Law:
    """The one law under which other numbers of secret bits and other links are tried."""
    return preset.laws[len(preset.laws) // 2]


def measure(item: Item, work: Path) -> pd.DataFrame:
    """One step from zero for every law and step size: accuracy, largest error and attention on the children."""
    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.gradient import forced_gradients
    from toy_models.tree_parity.links import find_link
    from toy_models.tree_parity.training import answers

    p, link = item.parameters, find_link(item.parameters["link"])
    d, laws = p["d"], p["laws"]
    most = max(n for _, n in laws)
    forest = planted(d, p["k"], p["seeds"])
    test = true_values(forest, p["seeds"], p["n_test"])
    sample = Sample.draw(d, most, generators(p["seeds"], "train"))
    labels = {"run": item.name, "condition": p["link"]}
    tables = []
    for n, gradient in forced_gradients(forest.no_weights(), forest, sample, link, stops=[n for _, n in laws]):
        tried = [(eps, times) for eps, samples in laws if samples == n for times in (1.0, *p["others"])]
        for eps, times in tried:
            weights = -times * p["step"] / link.curvature * d ** (2 + eps / 16) * gradient
            place = setting(d=d, k=p["k"], n=n, eps=eps, times=times, role=p["role"])
            found = answers(weights, forest, test, link, "position")
            tables.append(answer_rows(found, p["seeds"], setting=place, **labels))
            if p["drawn"] and (eps, times) == (laws[-1][0], 1.0):
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
    """Seeds solved and largest error against d by law; and the first seed's weights at the least d."""
    from interp.claims.kim2024._figures import weight_map
    from interp.claims.kim2024._figures_thm5 import solved_against_d

    weights = with_settings(rows[rows["scope"] == "weights"])  # of the first seed alone
    of_size = weights[weights["d"] == weights["d"].min()]
    return {"solved_against_d": solved_against_d(outcomes(rows)), "weights": weight_map(of_size)}


LOOPS = (
    Loop(
        "samples",
        lambda p: max(n for _, n in p["laws"]),
        lambda p, n: {"laws": [[eps, n] for eps, _ in p["laws"][-1:]]},
        least=2048,
        holds=drawn_bytes,
    ),
    Loop(
        "tests",
        lambda p: len(p["laws"]) * (1 + len(p["others"])),
        lambda p, n: {"laws": p["laws"][-1:], "others": p["others"][: n - 1]},
    ),
)
"""What an item repeats: the largest sample holds the others, and every law is tested with every step size."""


register(
    Claim(
        id=ID,
        sentence=(
            "With teacher forcing, one gradient step from zero on n = Omega(d^(2+eps)) samples with a step size of "
            "order d^(2+eps/16) makes the model compute any k-parity by chain of thought: with probability "
            "1 - exp(-d^(eps/2)) the largest error is O(d^(-eps/8))."
        ),
        method=(
            f"Success: rollout accuracy of at least {ACCURATE:g} and largest error of the root below {SUP_ERROR:g} "
            "on the test inputs, after one gradient step. The number of samples follows n = C d^(2+eps) for three "
            "eps, the step eta = (9 / c) d^(2+eps/16). Shares of seeds have exact intervals, least over sizes; the "
            "exponent of the largest error in d is fitted by seed over the judged sizes and averaged over seeds."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: d = 16 and 32, two seeds"),
            "cpu": Scale(
                "smaller", "a theorem for large d, with constants of our choice: d from 64 to 128, 100 seeds"
            ),
            "paper": Scale(
                "smaller", "a theorem for large d, with constants of our choice: d from 64 to 256, 400 seeds"
            ),
        },
        finding=(
            "One step solved the parity in {solved_25.estimate:.0%}, {solved_50.estimate:.0%} and "
            "{solved_100.estimate:.0%} of {solved_50.n} seeds at the worst size for eps = 1/4, 1/2 and 1; the "
            "largest error scaled as d to the power {error_25}, {error_50} and {error_100}, where the theorem has "
            "at most -eps/8. With other numbers of secret bits {ks.estimate:.0%} were solved, with other links "
            "{links.estimate:.0%}."
        ),
        falls_short=(
            "'Any k-parity' and 'any phi' are not shown: at other numbers of secret bits and with other links the "
            "share of seeds solved is not clearly above nine in ten, and these parts do not decide. The exponents "
            "asked of the error, at most -eps/8, are so near to 0 that an error which falls with d at all would do."
        ),
        deviations=(
            "The theorem is asymptotic and leaves its constants open; these are ours, chosen on seeds below 20: n "
            "= 4 d^(9/4), 2 d^(5/2) and d^3 / 4, a step of 9 / c, and d = 64 as sufficiently large (d = 32 is "
            "shown, not judged: there most of these n are too few). The link is the quartic one, which has the "
            "widest window of step sizes; piecewise and cosine are tried at d = 64. 512 test inputs at cpu. The "
            "paper has no experiment for the theorem."
        ),
        clarity=(
            "'Sufficiently large' d and constants in Omega, Theta and O that the paper does not give: no finite "
            "experiment can refute the theorem, a failure only says that these constants do not work at these sizes. "
            "The stated probability is 0.81, 0.94 and 0.9997 at d = 64 for the three eps; it is asked for, but no "
            "more than nine in ten. The bound on the error rests on d exp(-Omega(d^(eps/16))) being small, which "
            "with d^(eps/16) below 1.4 at these sizes is a matter of the constant 9 alone; errors therefore fall "
            "with d because sampling noise does, far faster than the bound: in units of 1/d^2, which the step makes "
            "weights of, the difference of two children falls about as d^(-(3+eps)/2), since the error vanishes to "
            "second order where they differ, and other entries as d^(-(1+eps)/2) (at eps = 1/2 exponents of -1.5 "
            "and -0.6 were measured from d = 32 to 96, four seeds below 1000). A step too small for d would let "
            "errors rise again."
        ),
        history=(
            "Until the theorem's own scaling was run, n was 131,072 at every d with ten seeds and the piecewise "
            "link; all of ten seeds succeeded at d = 16 to 64, which cannot show a share above 0.9. Parts that are "
            "not the theorem's (n = d^2 is too few, a step of 8 d^2 is too large, the growth of the samples "
            "needed) are gone. At eps = 1/4 nine in ten was asked for where the theorem states 0.81, until a review. "
            "Step sizes have a window: too small leaves attention on other positions, too large "
            "blows up the difference between the two children that sampling leaves."
        ),
        presets=PRESETS,
        loops=LOOPS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=one_step_worlds(PRESETS["cpu"]),
        published=published,
        figures=figures,
    )
)
