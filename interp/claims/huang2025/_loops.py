"""What does a run of huang2025's figures repeat? Steps, and test sentences at every point where it is read."""

from collections.abc import Mapping
from typing import Any

from interp.claims.huang2025._runs import LOSSES
from interp.core.loops import Loop, loop

SHORT = 1000
"""Steps within which no run leaves its plateau at the paper's rate, so that it is tested at its end alone."""
AT_ONCE = 128
"""Test sentences that are generated together."""


def test_bytes(p: Mapping[str, Any]) -> float:
    """Bytes, at most, of what one test sentence adds to a batch: the clauses of four sentences for the loss.

    For each clause there are seven vectors of its width, two of the MLP's, and two of scores of every token.
    """
    numbers = 7 * 5 * p["d_token"] + 2 * p["d_mlp"] + 2 * 5 * (p["n_variables"] + p["d_token"])
    return 4 * 4 * 2 * p["length"] * numbers


def _points(p: Mapping[str, Any]) -> int:
    """At how many points a run is tested, at most: its end, two of LOSSES, and where it is read on its way."""
    return 1 if p["steps"] <= SHORT else len(LOSSES) + len(p.get("reads", ()))


TRAINING = (loop("first", "steps at length 1"), loop("steps", "steps"))
LOOPS = (*TRAINING, loop("n_test", "test sentences", least=AT_ONCE, holds=test_bytes))
"""What a run repeats that is tested at its end, whatever the number of lengths."""
READ = (
    *TRAINING,
    Loop(
        "test sentences of each length",
        lambda p: p["n_test"] * _points(p),
        lambda p, n: {"n_test": n},
        least=AT_ONCE,
        holds=lambda p: test_bytes(p) / _points(p),
    ),
)
"""What a run repeats that is tested at all its points."""
