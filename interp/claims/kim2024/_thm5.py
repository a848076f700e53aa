"""What do the rows of kim2024/thm5 say? Success and largest error by law and size, and the declared parts."""

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from interp.claims.kim2024._parts import HIGH_PROBABILITY, WHY_HIGH_PROBABILITY, counted, least_share, seed_exponents
from interp.claims.kim2024._runs import ACCURATE, SUP_ERROR
from interp.core.judging import mean_over
from interp.core.parts import NotMeasurable, Part
from interp.statistics import Interval
from probes.rows import with_settings

if TYPE_CHECKING:
    from interp.claims.kim2024.thm5 import Thm5

FLOOR = 1e-6
"""Errors below single precision are taken for this."""


def outcomes(rows: pd.DataFrame) -> pd.DataFrame:
    """By link, size, law, step size and seed: the metrics as columns, and whether the step succeeded."""
    tested = with_settings(rows[rows["scope"] == "test"])
    index = ["condition", "role", "d", "k", "eps", "n", "times", "unit"]
    found = tested.pivot(index=index, columns="metric", values="value").reset_index()
    return found.assign(success=(found["accuracy"] >= ACCURATE) & (found["sup_error"] < SUP_ERROR))


@dataclass(frozen=True)
class Summary:
    """What the parts read, all at the step that is judged."""

    sizes: pd.DataFrame
    """`outcomes` of the judged sizes."""
    ks: pd.DataFrame
    """Of other numbers of secret bits."""
    links: pd.DataFrame
    """Of other links."""


def summary(rows: pd.DataFrame) -> Summary:
    """Success by run."""
    found = outcomes(rows)
    found = found[found["times"] == 1]
    return Summary(*(found[found["role"] == role] for role in ("size", "k", "link")))


def percent(eps: float) -> int:
    """An eps as the number that the keys of its parts end in: 25 for 1/4."""
    return round(100 * eps)


def stated(d: int, eps: float) -> float:
    """The theorem's probability of success."""
    return 1 - float(np.exp(-(d ** (eps / 2))))


def parts(preset: "Thm5") -> list[Part]:
    """By law: nearly all seeds are solved, and the error falls with d; then other k and other links."""
    smallest = min(cell.d for cell in preset.cells if cell.role == "size")
    return [
        *(_solved_part(law.eps, smallest) for law in preset.laws),
        # The least eps has the weakest bound, d^(-1/32), which hardly differs from none.
        *(_error_part(law.eps, primary=law.eps > preset.laws[0].eps) for law in preset.laws),
        _other_part("ks", "other numbers of secret bits", "Theorem 5: any target parity p in P"),
        _other_part("links", "other links", "section 2.2: any phi with phi(0) = -1, phi(+-1) = 1 and phi' = 0 there"),
    ]


def asked(d: int, eps: float) -> float:
    """The share of seeds asked for: nine in ten, or what the theorem states at d if that is less."""
    return min(HIGH_PROBABILITY, stated(d, eps))


def _solved_part(eps: float, smallest: int) -> Part:
    said = stated(smallest, eps)
    least = "nine in ten is the least that high probability can mean" if said > HIGH_PROBABILITY else "its own number"
    return Part(
        key=f"solved_{percent(eps)}",
        name=f"eps = {eps:g}: one step solves it with high probability at every size",
        role="paper",
        source="Theorem 5: with probability 1 - exp(-d^(eps/2)) over random sampling",
        primary=True,
        quantity="share of seeds solved by one step, least over sizes",
        estimate=partial(share_solved, eps=eps),
        direction="above",
        threshold=asked(smallest, eps),
        why=f"{least}: the theorem states {said:.2g} at d = {smallest}, the smallest judged",
        unit="seeds",
        note=partial(_solved_note, eps=eps),
    )


def _error_part(eps: float, primary: bool) -> Part:
    return Part(
        key=f"error_{percent(eps)}",
        name=f"eps = {eps:g}: the largest error falls with d at least as the bound does",
        role="paper",
        source="Theorem 5: achieves loss O(d^(-eps/8)) in the supremum norm",
        primary=primary,
        quantity="exponent p of the root's largest error ~ d^p over the judged sizes, by seed, mean over seeds",
        estimate=partial(error_exponent, eps=eps),
        direction="below",
        threshold=-eps / 8,
        why="the stated exponent",
        unit="seeds",
        note=partial(_error_note, eps=eps),
    )


def _other_part(of: str, words: str, source: str) -> Part:
    return Part(
        key=of,
        name=f"{words}: one step solves it with high probability",
        role="paper",
        source=source,
        quantity=f"share of seeds solved by one step, least over the {words} tried, under the middle law",
        estimate=partial(share_other, of=of),
        direction="above",
        threshold=HIGH_PROBABILITY,
        why=WHY_HIGH_PROBABILITY,
        unit="seeds",
        note=partial(_other_note, of=of),
    )


def share_solved(summary: Summary, level: float, *, eps: float) -> Interval | NotMeasurable:
    """The share of seeds solved under a law, at the size where it is smallest."""
    runs = _under(summary, eps)
    return least_share(runs["success"], runs["d"], level)


def error_exponent(summary: Summary, level: float, *, eps: float) -> Interval | NotMeasurable:
    """The exponent of the largest error in d under a law, mean over seeds."""
    runs = _under(summary, eps)
    return mean_over(seed_exponents(runs["d"], runs["sup_error"].clip(lower=FLOOR), runs["unit"]), level)


def share_other(summary: Summary, level: float, *, of: str) -> Interval | NotMeasurable:
    """The share of seeds solved, at the number of secret bits or the link where it is smallest."""
    runs = getattr(summary, of)
    return least_share(runs["success"], runs.groupby(["condition", "d", "k"]).ngroup(), level)


def _under(summary: Summary, eps: float) -> pd.DataFrame:
    return summary.sizes[summary.sizes["eps"] == eps]


def _solved_note(summary: Summary, eps: float) -> str:
    runs = _under(summary, eps)
    bounds = ", ".join(f"{stated(d, eps):.3g} at d={d}" for d in sorted(runs["d"].unique().tolist()))
    samples = ", ".join(f"{n}" for n in sorted(runs["n"].unique()))
    return f"{counted(runs['success'], runs['d'])}; n = {samples}; stated probability {bounds}"


def _error_note(summary: Summary, eps: float) -> str:
    medians = _under(summary, eps).groupby("d")["sup_error"].median()
    return "median " + ", ".join(f"{error:.2g} at d={d}" for d, error in medians.items())


def _other_note(summary: Summary, of: str) -> str:
    runs = getattr(summary, of)
    cells = runs.groupby(["condition", "d", "k"])["success"].agg(["sum", "size"])
    return ", ".join(
        f"{row['sum']} of {row['size']} at d={d}, k={k}, {link}" for (link, d, k), row in cells.iterrows()
    )


def published(rows: pd.DataFrame) -> pd.DataFrame:
    """Success and the weights that are drawn."""
    return rows[rows["metric"].isin(["accuracy", "sup_error", "weight", "dependency"])]
