"""kim2024, Theorem 7: does end-to-end training with a filter solve one level of the tree at each update?

log2 k updates are taken under four conditions: as described in the paper, without the filter, without rounding, and
with the filter at an eps_0 below 1, as the proof has it. The paper's filter as written does not cascade for eps_0
below 1 (see `toy_models.tree_parity.filter`), and at these sizes an untrained node's answers deviate by up to 1.7
from -1, so that it may not even close the first time; the eps_0 used here is larger and cascades by itself. The proof
asks for a step size that keeps every level's weights away from half-integers, because two children that round to
different integers are driven apart by the next steps; a pilot on other seeds chooses it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._runs import ACCURATE, LINK, PILOT, SUP_ERROR, generators, planted, true_values
from interp.claims.kim2024._thm7 import AS_WRITTEN, parts, published, schedule, summary
from interp.claims.kim2024._worlds_levels import level_worlds
from interp.core.claim import Claim, Item, Scale, register, seed_batches
from probes.rows import concat, setting, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "kim2024/thm7"
CONDITIONS = ("complete", "no_filter", "no_rounding", "as_written")


@dataclass(frozen=True)
class Size:
    """A problem with the numbers and the conditions it is run under."""

    d: int
    k: int
    n: int
    eps_0: float
    conditions: tuple[str, ...] = CONDITIONS


@dataclass(frozen=True)
class Thm7:
    """log2 k updates for each size, condition and seed."""

    sizes: tuple[Size, ...]
    n_pilot: int
    pilots: int
    """Seeds of the pilot."""
    n_test: int
    seeds: int
    batch: int
    first_unit: int = 0


PRESETS = {
    "smoke": Thm7((Size(16, 8, 65_536, 1.8),), n_pilot=65_536, pilots=2, n_test=256, seeds=2, batch=2),
    "cpu": Thm7(
        (
            Size(16, 8, 2**18, 1.8),
            Size(32, 16, 2**20, 1.7),
            Size(64, 32, 2**21, 1.7, ("complete", "no_filter")),
        ),
        n_pilot=2**18, pilots=4, n_test=2048, seeds=10, batch=5,
    ),
    "paper": Thm7(
        (Size(16, 8, 2**18, 1.8), Size(32, 16, 2**20, 1.7), Size(64, 32, 2**22, 1.7), Size(128, 64, 2**24, 1.5)),
        n_pilot=2**20, pilots=8, n_test=16_384, seeds=50, batch=5,
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
        for condition in size.conditions
        for seeds in seed_batches(preset.seeds, preset.batch, preset.first_unit)
    ]  # fmt: skip


def measure(item: Item, work: Path) -> pd.DataFrame:
    """The accuracy of every level at the start and after each update, by rollout on test inputs."""
    import torch

    from toy_models.tree_parity.filter import Filter
    from toy_models.tree_parity.forest import Sample
    from toy_models.tree_parity.links import LINKS
    from toy_models.tree_parity.training import answers, clear_rate, solve_levels

    p, link = item.parameters, LINKS[LINK]
    d, k, condition, seeds = p["d"], p["k"], p["condition"], p["seeds"]
    pilots = [PILOT + pilot for pilot in range(p["pilots"])]
    pilot = Sample.draw(d, p["n_pilot"], generators(pilots, "train"))
    eta = clear_rate(planted(d, k, pilots), pilot, link, 1.2 * d**2, 2.4 * d**2)
    checks = {"no_filter": None, "as_written": Filter(AS_WRITTEN)}
    forest = planted(d, k, seeds)
    updates = solve_levels(
        forest,
        Sample.draw(d, p["n"], generators(seeds, "train")),
        Sample.draw(d, d, generators(seeds, "augmented")),
        eta=eta,
        link=link,
        check=checks.get(condition, Filter(p["eps_0"])),
        rounding=condition != "no_rounding",
    )
    test = true_values(forest, seeds, p["n_test"])
    units = [str(seed) for seed in seeds]
    common = {"run": item.name, "condition": condition, "scope": "test"}
    tables = []
    start = torch.zeros(forest.n_seeds, forest.n_nodes, forest.n_keys)
    for step, weights in enumerate([start, *updates]):
        found = answers(weights, forest, test, link, "level")
        place = {"d": d, "k": k, "n": p["n"], "eta": round(eta / d**2, 4)}
        for level, accuracy in enumerate(found.level_accuracy.T.tolist(), start=1):
            at_level = setting(level=level, **place)
            tables.append(
                table(metric="level_accuracy", value=accuracy, unit=units, update=step, setting=at_level, **common)
            )
        errors = found.sup_error.tolist()
        tables.append(
            table(metric="sup_error", value=errors, unit=units, update=step, setting=setting(**place), **common)
        )
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
            "something left out at each size, without the bound on the error."
        ),
        scale={
            "smoke": Scale("smaller", "a test of the code: (d, k) = (16, 8), two seeds"),
            "cpu": Scale(
                "smaller",
                "a theorem for large d, with constants of ours: d up to 64, k = d/2, an exact gradient, ten seeds",
            ),
            "paper": Scale(
                "smaller",
                "a theorem for large d, with constants of ours: d up to 128, k = d/2, an exact gradient, 50 seeds",
            ),
        },
        finding=(
            "With filter and rounding log2 k updates solved the root in {root.estimate:.0%} of {root.n} seeds at the "
            "worst of the sizes, and every level became correct at its own update, neither sooner nor later, in "
            "{on_time.estimate:.0%}."
        ),
        deviations=(
            "The theorem leaves the constants open; these are ours: eps_0 = 1.7 (1.8 at d = 16), n' = d augmented "
            "inputs, a step between 1.2 and 2.4 d^2 chosen by a pilot on other seeds; the oracle makes no error. "
            "cpu: (d, k) = (16, 8), (32, 16) and (64, 32) with n = 2^18, 2^20 and 2^21, every condition at the first "
            "two sizes, the first two conditions at the third; ten seeds. paper: up to (128, 64) and n = 2^24, every "
            "condition at every size, 50 seeds; the paper has no experiment for the theorem. The order in which "
            "levels are solved is the claim and does not depend on the constants, as long as some of them work. The "
            "smoke preset is far smaller still: it tests the code, not the claim."
        ),
        clarity=(
            "The paper's filter needs eps_0 above O(d^(-1/2)) and, for its proof to go through, must close every "
            "level above a closed one; as written it does not (zeros are not near -1). At these sizes eps_0 = "
            f"{AS_WRITTEN:g} has a second fault: untrained nodes deviate by more, so that the first level may not "
            "close at all. What fails here as written is both together; a filter that cascades, at that eps_0, "
            "would separate them and has not been run. That the filter is needed the paper argues and does not "
            "state as a theorem; rounding it calls a simplification. At our sizes n = d^(2+eps) with an eps that "
            "falls from 2.5 to 1.5, so that the bound on the error, exp(-Omega(d^(eps/16))), is nearly the same at "
            "all of them: that the error falls with d is neither promised nor tested here. With ten "
            "seeds a share above 0.9 cannot be shown, even if all succeed."
        ),
        history=(
            "Until the parts were declared, a share counted as high if ten of ten seeds succeeded and as low if none "
            "did (cut-offs of 0.65 and 0.35, which hold at n = 10 only), the error of the root was not judged, and "
            "what is left out of the recipe counted like the theorem's own statements. Rounding makes the two "
            "children of a node exactly equal, and then they stay: a difference of 0.4 between them is blown up by "
            "the next steps of order d^2, to 10 and to hundreds at (16, 8). Without the filter seven of ten seeds "
            "are solved at (16, 8), some ahead of time: its need shows from four levels on. The same holds of the "
            "filter as written (none of ten at (32, 16), five at (16, 8)). In a trial outside the suite the first "
            "closure was missing in four to seven of ten seeds as written, and off-child weights rounded to -1 "
            "instead of the proof's 0 in 100 of 112 cases at d = 16."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        summary=summary,
        parts=parts,
        worlds=level_worlds(PRESETS["cpu"]),
        published=published,
        figures=figures,
    )
)
