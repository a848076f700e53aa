"""kim2024, Theorem 7: does end-to-end training with a filter solve one level of the tree at each update?

log2 k updates are taken under six conditions: as described in the paper, with an oracle that errs, without the
filter, without rounding, and with the filter at an eps_0 below 1, once as it is and once made to cascade. The paper
asks of eps_0 only that it be above O(d^(-1/2)). Below 1 its filter does not close what stands above a closed level
(see `toy_models.tree_parity.filter`), and at these sizes an untrained node's answers deviate by up to 1.7 from -1, so
that it may not even close the first time; an eps_0 in (1, 2), as used here, cascades by itself. The proof also asks
for a step size that keeps every level's weights away from half-integers, because two children that round to different
integers are driven apart by the next steps; a pilot on other seeds chooses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._runs import (
    ACCURATE,
    LINK,
    PILOT,
    SUP_ERROR,
    drawn_bytes,
    generators,
    planted,
    true_values,
)
from interp.claims.kim2024._thm7 import BELOW_ONE, ERROR, parts, published, schedule, summary
from interp.claims.kim2024._worlds_levels import level_worlds
from interp.core.claim import Claim, Item, Scale, register, seed_batches
from interp.core.loops import loop
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "kim2024/thm7"


@dataclass(frozen=True)
class Size:
    """A problem with the numbers and the conditions it is run under."""

    d: int
    k: int
    n: int
    eps_0: float
    seeds: tuple[tuple[str, int], ...]
    """Conditions with their numbers of seeds: what is left out needs fewer than what must hold nearly always."""


@dataclass(frozen=True)
class Thm7:
    """log2 k updates for each size, condition and seed."""

    sizes: tuple[Size, ...]
    n_pilot: int
    pilots: int
    """Seeds of the pilot."""
    n_test: int
    seeds: int
    """Of the complete recipe; other conditions may have fewer."""
    batch: int
    first_unit: int = 0


def _conditions(complete: int, noisy: int, cascade: int, left_out: int) -> tuple[tuple[str, int], ...]:
    others = tuple((condition, left_out) for condition in ("no_filter", "no_rounding", "below_one"))
    found = (("complete", complete), ("noisy", noisy), ("cascade", cascade), *others)
    return tuple((condition, seeds) for condition, seeds in found if seeds)


PRESETS = {
    "smoke": Thm7(
        (Size(16, 8, 65_536, 1.8, _conditions(2, 2, 2, 2)),), n_pilot=65_536, pilots=2, n_test=256, seeds=2, batch=2
    ),
    "cpu": Thm7(
        (
            Size(16, 8, 2**18, 1.8, _conditions(79, 79, 20, 20)),
            Size(32, 16, 2**20, 1.7, _conditions(79, 0, 10, 6)),
        ),
        n_pilot=2**18, pilots=4, n_test=1024, seeds=79, batch=10,
    ),
    "paper": Thm7(
        (
            Size(16, 8, 2**18, 1.8, _conditions(100, 100, 100, 50)),
            Size(32, 16, 2**20, 1.7, _conditions(100, 100, 100, 50)),
            Size(64, 32, 2**22, 1.7, _conditions(100, 100, 100, 50)),
            Size(128, 64, 2**24, 1.5, _conditions(100, 100, 100, 50)),
        ),
        n_pilot=2**20, pilots=8, n_test=16_384, seeds=100, batch=5,
    ),
}  # fmt: skip


def items(preset: Thm7) -> list[Item]:
    """One batch of seeds of one size and condition each; the large sizes come first."""
    return [
        Item(
            f"{condition},d={size.d},k={size.k},seeds={seeds[0]}-{seeds[-1]}",
            {
                "condition": condition, "d": size.d, "k": size.k, "n": size.n, "eps_0": size.eps_0, "seeds": seeds,
                "n_pilot": preset.n_pilot, "pilots": preset.pilots, "n_test": preset.n_test,
            },
        )
        for size in sorted(preset.sizes, key=lambda size: -size.d)
        for condition, n_seeds in size.seeds
        for seeds in seed_batches(n_seeds, preset.batch, preset.first_unit)
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The accuracy of every level at the start and after each update, by rollout on test inputs; induction (11)."""
    from toy_models.tree_parity.filter import Filter
    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.gradient import Oracle
    from toy_models.tree_parity.links import LINKS
    from toy_models.tree_parity.training import answers, clear_rate, solve_levels

    p, link = item.parameters, LINKS[LINK]
    d, k, condition, seeds = p["d"], p["k"], p["condition"], p["seeds"]
    pilots = [PILOT + pilot for pilot in range(p["pilots"])]
    pilot = Sample.draw(d, p["n_pilot"], generators(pilots, "train"))
    eta = clear_rate(planted(d, k, pilots), pilot, link, 1.2 * d**2, 2.4 * d**2)
    checks = {
        "no_filter": None,
        "below_one": Filter(BELOW_ONE),
        "cascade": Filter(BELOW_ONE, cascade=True),
    }
    forest = planted(d, k, seeds)
    updates = solve_levels(
        forest,
        Sample.draw(d, p["n"], generators(seeds, "train")),
        Sample.draw(d, d, generators(seeds, "augmented")),
        eta=eta,
        link=link,
        check=checks.get(condition, Filter(p["eps_0"])),
        rounding=condition != "no_rounding",
        oracle=Oracle(ERROR / d**2, "aligned") if condition == "noisy" else None,
    )
    test = true_values(forest, seeds, p["n_test"])
    units = [str(seed) for seed in seeds]
    common = {"run": item.name, "condition": condition, "scope": "test"}
    tables = []
    others = forest.visible("level") & ~forest.needed
    for step, weights in enumerate([forest.no_weights(), *updates]):
        found = answers(weights, forest, test, link, "level")
        place = {"d": d, "k": k, "n": p["n"], "eta": round(eta / d**2, 4)}
        for level, accuracy in enumerate(found.level_accuracy.T.tolist(), start=1):
            at_level = setting(level=level, **place)
            tables.append(
                table(metric="level_accuracy", value=accuracy, unit=units, update=step, setting=at_level, **common)
            )
        apart = weights.gather(-1, forest.children).diff(dim=-1).abs().amax((1, 2))
        zero = ((weights == 0) & others).sum((1, 2)) / others.sum((1, 2))
        tables += [
            table(metric=metric, value=values.tolist(), unit=units, update=step, setting=setting(**place), **common)
            for metric, values in (("sup_error", found.sup_error), ("others_zero", zero), ("children_apart", apart))
        ]
    return concat(tables)


def figures(rows: pd.DataFrame) -> Mapping[str, "Figure"]:
    """Levels solved against updates, by size and condition."""
    from interp.claims.kim2024._figures import levels_solved

    return {"levels_solved": levels_solved(schedule(rows))}


register(
    Claim(
        id=ID,
        sentence=(
            "Without teacher forcing, but with a filter on augmented data and integer weights, log2 k end-to-end "
            "updates solve the parity: each level of the tree becomes correct at its own update."
        ),
        method=(
            f"A level is solved if all its nodes are right on at least {ACCURATE:g} of the test inputs by rollout, "
            "before the first update and after each of log2 k. The root counts as solved if it is right on as many "
            f"and its largest error is below {SUP_ERROR:g}, as in kim2024/thm5. Shares of seeds have exact "
            "intervals; those of the complete recipe are judged at the worst of the sizes, those of a recipe with "
            "something left out at each size, without the bound on the error. The oracle that errs adds "
            f"{ERROR:g}/d^2 to one child of every node and takes it from the other, each time in the direction in "
            "which sampling has told them apart. Induction (11) of the proof is read off the weights after each "
            "seed's last update."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: (d, k) = (16, 8), two seeds"),
            "cpu": Scale(
                "smaller",
                "a theorem for large d, with constants of ours: d = 16 and 32, k = d/2, 79 seeds of what must hold "
                "nearly always, 6 to 20 of what is left out",
            ),
            "paper": Scale(
                "smaller",
                "a theorem for large d, with constants of ours: d up to 128, k = d/2, 50 to 100 seeds",
            ),
        },
        finding=(
            "With filter and rounding log2 k updates solved the root in {root.estimate:.0%} of {root.n} seeds at the "
            "worst of the sizes, and every level became correct at its own update, neither sooner nor later, in "
            "{on_time.estimate:.0%}; with an oracle that errs against the sample {noisy.estimate:.0%} were solved. "
            "The two children of every node had equal weights, as induction (11) of the proof has it, in "
            "{children_equal.estimate:.0%}."
        ),
        falls_short=(
            "Two sizes, with steps, filter and numbers of samples found by trial where the theorem leaves constants "
            "open. The theorem's oracle may err; that an oracle which errs against the sample does no harm is not "
            "decided (see below), and was tried at the smaller size alone."
        ),
        deviations=(
            "The theorem leaves the constants open; these are ours: the piecewise link, eps_0 = 1.7 (1.8 at d = 16), "
            "n' = d augmented inputs, a step between 1.2 and 2.4 d^2 chosen by a pilot on other seeds, n = 2^18 and "
            "2^20 at d = 16 and 32. (64, 32) and (128, 64), which take minutes a seed, are left to the paper preset, "
            "and so is the erring oracle beyond d = 16. The order in which levels are solved is the claim and does "
            "not depend on the constants, as long as some of them work. The smoke preset is far smaller still: it "
            "tests the code, not the claim."
        ),
        clarity=(
            "The paper asks eps_0 to be above O(d^(-1/2)), a lower limit, and its proof presumes that the filter "
            "closes every level above a closed one. For that eps_0 must lie in (1, 2), which the paper does not say; "
            "below 1 it does not cascade, since zeros are not that near to -1. The complete recipe here, at 1.7 and "
            f"1.8, is the paper's filter. At these sizes eps_0 = {BELOW_ONE:g} has a second fault: untrained nodes "
            "deviate by more, so that the first level may not close at all; made to cascade it has the second fault "
            "alone. Induction (11) says that weights on other positions than the children round to 0. Their gradient "
            "has a part of 4c/(m-1)^3, which a step of order d^2 makes into a weight of order -c/d: it rounds to 0 "
            "only from d of about 50 on, and is of one sign and nearly one size for all of them, so that attention "
            "does not mind; the part on them is ours. That the filter is needed the paper argues and does not state "
            "as a theorem; rounding it calls a simplification. n = d^(2+eps) has an eps of 2.5 and 2 here, so that "
            "the bound on the error, exp(-Omega(d^(eps/16))), is nearly the same at both sizes: only an error below "
            "0.1 is asked for, and its fall with d is ours."
        ),
        history=(
            "Until the parts were declared, a share counted as high if ten of ten seeds succeeded and as low if none "
            "did (cut-offs of 0.65 and 0.35, which hold at n = 10 only), the error of the root was not judged, and "
            "what is left out of the recipe counted like the theorem's own statements; ten seeds then could not show "
            "a share above 0.9 and went up to d = 64. Rounding makes the two children of a node exactly equal, and "
            "then they stay: a difference of 0.4 between them is blown up by the next steps of order d^2. In a trial "
            "outside the suite the first closure was missing in four to seven of ten seeds at eps_0 = 0.9. That "
            "condition was called the filter as written, which the complete recipe is too, and both halves of "
            "induction (11) were one part of the paper's, until a review before the declared run; there were 60 "
            "seeds, of which one might fail. The quartic link was tried with twelve seeds below 1000 before the "
            "piecewise one was kept."
        ),
        presets=PRESETS,
        loops=(
            loop("n", "samples", least=8192, holds=drawn_bytes),
            loop("n_pilot", "pilot samples", least=8192, holds=lambda p: p["pilots"] * p["d"] / 8),
        ),
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=level_worlds(PRESETS["cpu"]),
        published=published,
        figures=figures,
    )
)
