"""What is judged when attention is intervened on? The arms and the parts of wen2024/causal-sparsity.

Every arm is compared with free attention at the same seed: same secret bits, same data, same initial weights. A run
whose budget ended counts with its budget, and the side on which its true value lies is open.
"""

from functools import partial

import numpy as np
import pandas as pd

from interp.claims.wen2024._runs import outcomes
from interp.core.judging import mean_over, share_of
from interp.core.parts import Direction, Estimator, NotMeasurable, Part, Role
from interp.statistics import Interval

ARMS = {
    "free": "free attention",
    "uniform": "held uniform",
    "given": "given: on the bits that matter",
    "misplaced": "given: on other bits",
    "transplanted": "from a trained model",
    "pressed_sparse": "pressed to be sparse",
    "weakly_sparse": "pressed weakly to be sparse",
    "pressed_dense": "pressed to be dense",
    "weakly_dense": "pressed weakly to be dense",
}
FACTOR = 2.0
"""A change of the number of samples by less than this factor is too small to call a key factor."""
WHY_FACTOR = f"a factor of {FACTOR:g} in samples, the smallest that could be called a key factor"
MOST = 0.5
DENSE = 0.5
"""A model all of whose normalised entropies are above this does not attend sparsely; uniform attention has 1."""
ABSTRACT = "Abstract: sparsity in attention layers is a key factor of the improvement induced by CoT"
Which = tuple[str, int]
"""A problem: condition and number of secret bits."""


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """One row for each run: arm, samples, censored, and the lowest entropy of its last evaluation."""
    entropy = rows[rows["metric"] == "entropy_min"]
    last = entropy[entropy["samples"] == entropy.groupby("run")["samples"].transform("max")]
    return outcomes(rows).join(last.groupby("run")["value"].min().rename("entropy"), on="run")


def problems(runs: pd.DataFrame) -> list[Which]:
    """The problems, with CoT first, easier ones first."""
    return sorted({(str(c), int(k)) for c, k in zip(runs["condition"], runs["k"])})


def of_arm(runs: pd.DataFrame, problem: Which, arm: str) -> pd.DataFrame:
    """The runs of one arm on one problem, by seed."""
    condition, k = problem
    found = runs[(runs["condition"] == condition) & (runs["k"] == k) & (runs["arm"] == arm)]
    return found.set_index("unit").sort_index()


def cost(runs: pd.DataFrame, level: float, *, problem: Which, arm: str) -> Interval | NotMeasurable:
    """log10 of samples under `arm` over those with free attention, by seed; seeds that solve neither say nothing."""
    other, free = of_arm(runs, problem, arm), of_arm(runs, problem, "free")
    told = ~(other["censored"] & free["censored"])
    if not told.any():
        return NotMeasurable("no seed solved the problem in either arm within the budget")
    other, free = other[told], free[told]
    return mean_over(
        np.log10(other["samples"] / free["samples"]),
        level,
        open_above=bool(other["censored"].any()),
        open_below=bool(free["censored"].any()),
    )


def share_solved(
    runs: pd.DataFrame, level: float, *, problem: Which, arm: str, above: float = 0.0
) -> Interval | NotMeasurable:
    """The share of seeds that solve the problem, with all entropies above `above`."""
    found = of_arm(runs, problem, arm)
    return share_of(~found["censored"] & (found["entropy"] >= above), level)


def parts(chain: Which, easy: Which, hard: Which) -> list[Part]:
    """`chain`: a problem with CoT; `easy` and `hard`: without CoT, solved with free attention and not."""
    with_cot, without = f"with CoT (k={chain[1]})", f"without CoT (k={easy[1]})"
    hardest = f"without CoT (k={hard[1]})"
    return [
        _share("cot_learns", f"{with_cot} free attention learns", "precondition", chain, "free"),
        _share("direct_learns", f"{without} free attention learns", "precondition", easy, "free"),
        _cost("dense", f"{with_cot} attention held uniform costs samples", chain, "uniform", "above"),
        _cost("given", f"{without} attention on the right bits saves samples", easy, "given", "below"),
        _cost("pressed_dense", f"{with_cot} pressure to be dense costs samples", chain, "pressed_dense", "above"),
        _cost("pressed_sparse", f"{with_cot} pressure to be sparse saves them", chain, "pressed_sparse", "below"),
        _cost("weakly_dense", f"{with_cot} weak pressure to be dense costs samples", chain, "weakly_dense", "above"),
        _cost("weakly_sparse", f"{with_cot} weak pressure to be sparse saves them", chain, "weakly_sparse", "below"),
        _cost("transplanted", f"{with_cot} a trained model's attention saves them", chain, "transplanted", "below"),
        _share("dense_learns", f"{with_cot} dense attention learns", "ours", chain, "pressed_dense", above=DENSE),
        _share("misplaced", f"{with_cot} attention on other bits fails", "ours", chain, "misplaced", fails=True),
        _cost(
            "given_cot", f"{with_cot} attention on the right bits saves samples", chain, "given", "below", later=True
        ),
        _cost(
            "given_any", f"{without} the same, also where free attention fails", easy, "given", "below", later=True
        ),
        _share("alone", f"{hardest} attention on the right bits is enough", "ours", hard, "given"),
    ]


def _cost(key: str, name: str, problem: Which, arm: str, direction: Direction, later: bool = False) -> Part:
    primary = key in ("dense", "given")
    limit = float(np.log10(FACTOR))
    return Part(
        key=key,
        name=name,
        role="paper" if primary else "ours",
        source=ABSTRACT if primary else "",
        primary=primary,
        quantity=f"log10 of samples to solution, attention {ARMS[arm]} / free, paired by seed",
        estimate=partial(cost, problem=problem, arm=arm),
        direction=direction,
        threshold=limit if direction == "above" else -limit,
        why=WHY_FACTOR,
        unit="seeds",
        needs=() if later else ("cot_learns" if problem[0] == "cot" else "direct_learns",),
        added_later=later,
        note=partial(_outcome, problem=problem, arm=arm),
    )


def _share(
    key: str, name: str, role: Role, problem: Which, arm: str, above: float = 0.0, fails: bool = False
) -> Part:
    estimate: Estimator = partial(share_solved, problem=problem, arm=arm, above=above)
    entropies = f" with every lowest entropy at least {above:g}" if above else ""
    return Part(
        key=key,
        name=name,
        role=role,
        quantity=f"share of seeds solved within the budget{entropies}, attention {ARMS[arm]}",
        estimate=estimate,
        direction="below" if fails else "above",
        threshold=MOST,
        why="more than half of the seeds is the least that it can mean",
        unit="seeds",
        needs=("cot_learns",) if role == "ours" and problem[0] == "cot" else (),
        note=partial(_outcome, problem=problem, arm=arm),
    )


def _outcome(runs: pd.DataFrame, problem: Which, arm: str) -> str:
    found = of_arm(runs, problem, arm)
    solved = found[~found["censored"]]
    samples = f", median {solved['samples'].median():,.0f} samples" if len(solved) else ""
    entropy = f"lowest entropy at the end {found['entropy'].min():.2f} to {found['entropy'].max():.2f}"
    return f"{len(solved)} of {len(found)} solved{samples}; {entropy}"
