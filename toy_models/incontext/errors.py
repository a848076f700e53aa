"""How often are the examples of a prompt wrong, and in which way? Step-wise transition matrices as laws of an offset.

Along the cycle of a task (li2024, appendix E) step k goes k patterns on. An erroneous step goes e patterns farther,
with a probability that depends on k alone: A_k of equation (15) is circulant along the cycle, and row e = 0, 1, ...
of it is the law of the offset. The K-step matrix B is then the convolution of the laws, so that tau, rho, tau_o,
rho_o and Condition 1 are exact numbers and not estimates.
"""

from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

Spread = Literal["even", "first"]
"""Where the errors are: in every step alike, or all in the first."""

RIVAL = 1
"""The offset of the most frequent wrong pattern, the same in each step."""


@dataclass(frozen=True)
class Errors:
    """For each step the law of its offset: `laws[k - 1][e]` is the chance of landing e past the right pattern."""

    laws: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        sizes = {len(law) for law in self.laws}
        table = np.array(self.laws) if len(sizes) == 1 else np.empty((0, 0))
        if table.size == 0 or table.min() < -1e-12 or not np.allclose(table.sum(1), 1):
            raise ValueError(f"each step needs one probability for every offset, adding up to 1; got {self.laws}")

    @staticmethod
    def none(n_steps: int, n_patterns: int) -> "Errors":
        """Every step of every example is right."""
        return Errors(((1.0,) + (0.0,) * (n_patterns - 1),) * n_steps)

    @staticmethod
    def offset(accuracy: float, n_steps: int, n_patterns: int) -> "Errors":
        """Each step is right with probability `accuracy`, else one pattern too far: K steps have a binomial law."""
        if not 0 < accuracy <= 1 or n_patterns <= n_steps:
            raise ValueError(
                f"offset errors need an accuracy in (0, 1] and more patterns than steps, got {accuracy}, "
                f"{n_patterns} patterns and {n_steps} steps"
            )
        return Errors((_law(accuracy, 1 - accuracy, n_patterns),) * n_steps)

    @staticmethod
    def of(tau: float, rho: float, n_steps: int, n_patterns: int, spread: Spread) -> "Errors":
        """Errors with exactly this tau (20) and rho (15): a rival pattern as likely as rho allows, the rest alike.

        With accuracy a in each erring step the rival has a (1 - rho). It cannot have more than all errors, 1 - a,
        nor less than an equal share of them: rho is between 1 - (1 - a) / a and 1 - (1 - a) / (a (M' - 1)).
        """
        if not (0 < tau < 1 and 0 < rho < 1) or n_steps < 1 or n_patterns < 2:
            raise ValueError(f"errors need tau and rho in (0, 1), steps and patterns, got tau={tau}, rho={rho}")
        accuracy = tau ** (1 / n_steps) if spread == "even" else tau
        low, high = primacy_range(tau, n_steps, n_patterns, spread)
        if not low - 1e-12 <= rho <= high + 1e-12:
            rival = f"a (1 - rho) = {accuracy * (1 - rho):.3g}"
            why = (
                f"a rival of probability {rival} is more than all errors together"
                if rho < low
                else f"{n_patterns - 1} wrong patterns of at most {rival} each cannot hold them"
            )
            raise ValueError(
                f"tau={tau:g} with errors {'in every step' if spread == 'even' else 'in the first step'} means an "
                f"accuracy of a={accuracy:.3g} and errors of {1 - accuracy:.3g} there: {why}; "
                + (f"rho must be between {max(low, 0):.3f} and {high:.3f}" if high > 0 else "tau must be larger")
                + f", got rho={rho:g}"
            )
        erring = _law(accuracy, accuracy * (1 - rho), n_patterns)
        right = _law(1.0, 0.0, n_patterns)
        return Errors((erring,) * n_steps if spread == "even" else (erring,) + (right,) * (n_steps - 1))

    @staticmethod
    def of_label(right: float, rival: float, n_steps: int, n_patterns: int) -> "Errors":
        """Errors, the same in every step, after which the label is right with probability `right`, one pattern too
        far with `rival`: Condition 1 fails if `rival` is larger.

        A step's law is r for all offsets, A more for 0 and B more for 1. The convolution of K such laws has A^K at
        0 and K A^(K-1) B at 1, above what uniform laws leave, (1 - (A + B)^K) / M': solved for A and B by iteration.
        """
        total = 1.0
        for _ in range(200):
            base = (1 - total**n_steps) / n_patterns
            more = max(right - base, 0.0) ** (1 / n_steps)
            extra = (rival - base) / (n_steps * more ** (n_steps - 1)) if more else 0.0
            total = more + extra
        rest = (1 - total) / n_patterns
        law = (more + rest, extra + rest, *[rest] * (n_patterns - 2))
        found = Errors((law,) * n_steps) if rest >= 0 and extra >= 0 else None
        if found is None or not np.allclose(found.label_law[:2], (right, rival), atol=1e-9):
            raise ValueError(f"no step law has labels {right:g} (right) and {rival:g} (rival) after {n_steps} steps")
        return found

    @property
    def n_patterns(self) -> int:
        return len(self.laws[0])

    @property
    def tau(self) -> float:
        """The probability that all K steps of an example are right (20)."""
        return float(np.prod([law[0] for law in self.laws]))

    @property
    def rho(self) -> float:
        """The primacy (15): 1 minus the largest ratio of a wrong pattern's probability to the right one's."""
        return 1 - max(max(law[1:]) / law[0] for law in self.laws)

    @cached_property
    def label_law(self) -> Float[np.ndarray, "offset"]:
        """The law of the offset after K steps: a row of B."""
        return reduce(_convolved, (np.array(law) for law in self.laws))

    @property
    def tau_o(self) -> float:
        """The probability of the most probable label (21)."""
        return float(self.label_law.max())

    @property
    def rho_o(self) -> float:
        """The primacy of B (16): 0 if two labels tie."""
        second, first = np.sort(self.label_law)[-2:]
        return float(1 - second / first)

    @property
    def condition_1(self) -> bool:
        """Whether the right label is the most probable one, and alone so (24)."""
        return bool(self.label_law[0] > self.label_law[1:].max() + 1e-12)

    @property
    def shortcut(self) -> "Errors":
        """The errors of a one-step task whose step is all K steps of this one."""
        return Errors((tuple(self.label_law.tolist()),))

    def matrices(self, order: Int[np.ndarray, "pattern"]) -> Float[np.ndarray, "step pattern pattern"]:
        """A_1, ..., A_K of equation (15) for the task with the cycle `order`."""
        n = self.n_patterns
        found = np.zeros((len(self.laws), n, n))
        for k, law in enumerate(self.laws, start=1):
            for place in range(n):
                found[k - 1, order[place], order[(place + k + np.arange(n)) % n]] = law
        return found


def primacy_range(tau: float, n_steps: int, n_patterns: int, spread: Spread) -> tuple[float, float]:
    """The smallest and the largest rho that go with tau; a negative smallest one leaves all of (0, largest]."""
    accuracy = tau ** (1 / n_steps) if spread == "even" else tau
    ratio = (1 - accuracy) / accuracy
    return 1 - ratio, 1 - ratio / (n_patterns - 1)


def _law(accuracy: float, rival: float, n_patterns: int) -> tuple[float, ...]:
    """`accuracy` for the right pattern, `rival` for the next one, and the rest shared alike."""
    rest = max(0.0, 1 - accuracy - rival) / (n_patterns - 2) if n_patterns > 2 else 0.0
    law = [rest] * n_patterns
    law[0], law[RIVAL] = accuracy, rival
    return tuple(law)


def _convolved(
    first: Float[np.ndarray, "offset"], second: Float[np.ndarray, "offset"]
) -> Float[np.ndarray, "offset"]:
    """The law of the sum of two offsets on the cycle."""
    return sum(p * np.roll(second, e) for e, p in enumerate(first))  # pyright: ignore[reportReturnType]
