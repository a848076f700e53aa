"""How far can a verdict be trusted? A judge's error rates in simulated worlds, in words beside the verdict."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from interp.core.severity import Severity


@dataclass(frozen=True)
class Errors:
    """What the simulated worlds say of one part, or of several together; None where no world asks."""

    false_support: float | None
    """Largest share of draws that support a false part."""
    false_refutation: float | None
    """Largest share of draws that refute a true part."""
    power: tuple[float, float] | None
    """Smallest and largest share of draws that support a true part."""
    worlds: int
    draws: int

    @property
    def words(self) -> str:
        """All of it in one line."""
        said = []
        if self.false_support is not None:
            said.append(f"false support {_share(self.false_support)}")
        if self.false_refutation is not None:
            said.append(f"false refutation {_share(self.false_refutation)}")
        if self.power is not None:
            low, high = map(_share, self.power)
            said.append(f"power {low}" if low == high else f"power {low} to {high}")
        return ", ".join(said)

    @property
    def sentence(self) -> str:
        """All of it in a sentence, beside the verdict of a run of the size that was simulated."""
        return f"This judge {self._simulated}."

    def elsewhere(self, size: str) -> str:
        """The same beside a run of another size than the simulated one, which is `size` in words."""
        return f"At the published size ({size}) {self._simulated}; not known for a run of this size."

    @property
    def _simulated(self) -> str:
        return f"in {self.worlds} simulated worlds, {self.draws} draws each, primary parts: {self.words}"


def errors(found: Iterable[Severity], keys: Sequence[str]) -> Errors | None:
    """The rates of the parts called `keys`, the worst of each kind; None if no world has one of them."""
    rows = [row for row in found if row.part in keys]
    if not rows:
        return None
    true, false = [row for row in rows if row.truth], [row for row in rows if not row.truth]
    return Errors(
        false_support=max((row.wrong for row in false), default=None),
        false_refutation=max((row.wrong for row in true), default=None),
        power=(min(row.right for row in true), max(row.right for row in true)) if true else None,
        worlds=len({row.world for row in rows}),
        draws=max(row.n for row in rows),
    )


def _share(value: float) -> str:
    return f"{100 * value:.3g}%"
