"""kim2024, Theorem 7: does end-to-end training with a filter solve one level of the tree at each update?

log2 k updates are taken under four conditions: as described in the paper, without the filter, without rounding, and
with the filter at an eps_0 below 1, as the proof has it. The paper's filter as written does not cascade for eps_0
below 1 (see `toy_models.tree_parity.filter`), and at these sizes an untrained node's answers deviate by up to 1.7
from -1; the eps_0 used here is larger and cascades by itself. The proof asks for a step size that keeps every level's
weights away from half-integers, because two children that round to different integers are driven apart by the next
steps; a pilot on other seeds chooses it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from interp.claims.kim2024._runs import ACCURATE, LINK, PILOT, generators, planted, true_values
from interp.core.claim import Claim, Item, register, seed_batches
from interp.core.judging import share_verdict
from interp.core.verdict import Verdict
from probes.rows import concat, setting, table, with_settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ID = "kim2024/thm7"
CONDITIONS = ("complete", "no_filter", "no_rounding", "as_written")
AS_WRITTEN = 0.9
"""An eps_0 below 1, as the proof has it: O(d^-1/2)."""
FAILURES = {
    "no_filter": "without the filter it fails",
    "no_rounding": "without rounding it fails",
    "as_written": f"the filter as written (eps_0 = {AS_WRITTEN:g}) fails",
}


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
        for seeds in seed_batches(preset.seeds, preset.batch)
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


def schedule(rows: pd.DataFrame) -> pd.DataFrame:
    """By condition, size, seed, update (`step`) and level: whether the level is solved, and whether it should be."""
    found = with_settings(rows[rows["metric"] == "level_accuracy"])
    return found.assign(solved=found["value"] >= ACCURATE, due=found["update"] >= found["level"])


def judge(rows: pd.DataFrame) -> Sequence[Verdict]:
    """By size: one level at each update; and which parts of the recipe it needs."""
    found = schedule(rows)
    errors = with_settings(rows[rows["metric"] == "sup_error"])
    verdicts = []
    for (d, k), of_size in found.groupby(["d", "k"]):
        size = f"(d={d}, k={k})"
        for condition in CONDITIONS:
            runs = of_size[of_size["condition"] == condition]
            if runs.empty:
                continue
            last = runs[runs["update"] == runs["update"].max()]
            final = errors[(errors["run"].isin(runs["run"])) & (errors["update"] == runs["update"].max())]["value"]
            root = last[last["level"] == last["level"].max()].set_index("unit")["solved"]
            on_time = (runs["solved"] == runs["due"]).groupby(runs["unit"]).all()
            note = (
                f"step {runs['eta'].iloc[0]:g} d^2, n={runs['n'].iloc[0]}; root solved in {root.sum()} of "
                f"{len(root)} seeds, every level on time in {on_time.sum()}; largest error of the root "
                f"{final.median():.3f} (median)"
            )
            if condition == "complete":
                verdicts.append(
                    share_verdict(
                        on_time, claim=ID, part=f"level l is solved at update l {size}", expected="nearly all",
                        quantity="share of seeds in which every level is solved from its own update on, not before",
                        note=note,
                    )
                )  # fmt: skip
            else:
                verdicts.append(
                    share_verdict(
                        root, claim=ID, part=f"{FAILURES[condition]} {size}", expected="hardly any",
                        quantity="share of seeds whose root is solved after log2 k updates", note=note,
                    )
                )  # fmt: skip
    return verdicts


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
        test=(
            f"A level is solved if all its nodes are right on at least {ACCURATE:g} of the test inputs by rollout. "
            "By size, shares of seeds with exact 95% intervals: every level solved from its own update on and not "
            "before, above 0.65 (ten of ten); root solved after log2 k updates without the filter, without rounding, "
            f"and with the filter as written at eps_0 = {AS_WRITTEN:g}, each below 0.35 (none of ten)."
        ),
        deviations=(
            "The theorem leaves the constants open; these are ours: eps_0 = 1.7 (1.8 at d = 16), n' = d augmented "
            "inputs, a step between 1.2 and 2.4 d^2 chosen by a pilot on other seeds. cpu: (d, k) = (16, 8), (32, "
            "16) and (64, 32) with n = 2^18, 2^20 and 2^21, every condition at the first two sizes, the first two "
            "conditions at the third; ten seeds. paper: up to (128, 64) and n = 2^24, every condition at every size, "
            "50 seeds; the paper has no experiment for the theorem. The order in which levels are solved is the "
            "claim and does not depend on the constants, as long as some of them work. The smoke preset is far "
            "smaller still: it tests the code, not the claim."
        ),
        presets=PRESETS,
        items=items,
        measure=measure,
        judge=judge,
        figures=figures,
    )
)
