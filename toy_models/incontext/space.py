"""Which vectors are the patterns, the noise and the positions? The geometry of li2024, section C.1.

Training patterns are orthonormal; testing patterns are orthonormal combinations of them (22); positional vectors are
orthonormal and orthogonal to every pattern; noise is orthogonal to the testing patterns and to the positions. A
prompt is a sequence of columns (input; output), K of them for each example: here [pos 2d], one row each.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True)
class Space:
    """The vectors of one seed, or of a batch of them."""

    training: Float[Tensor, "*seed m d"]
    testing: Float[Tensor, "*seed n d"]
    positions: Float[Tensor, "*seed step d"]
    """The vectors c_k, where they are added."""
    directions: Float[Tensor, "*seed r d"]
    """An orthonormal basis of where noise may point."""

    @staticmethod
    def draw(d_x: int, n_training: int, n_testing: int, n_steps: int, generator: torch.Generator) -> "Space":
        """Random orthonormal vectors."""
        if not 2 <= n_testing <= n_training <= d_x - n_steps:
            raise ValueError(
                f"orthonormal patterns and positions need 2 <= M' <= M <= d - K, got M'={n_testing}, "
                f"M={n_training}, d={d_x}, K={n_steps}"
            )
        basis = _rotation(d_x, generator)
        training, rest = basis[:n_training], basis[n_training:]
        rotation = _rotation(n_training, generator)
        inside = rotation[n_testing:] @ training
        return Space(training, rotation[:n_testing] @ training, rest[:n_steps], torch.cat([inside, rest[n_steps:]]))

    @staticmethod
    def stacked(spaces: Sequence["Space"]) -> "Space":
        """One space for each seed, of equal sizes."""
        return Space(
            torch.stack([s.training for s in spaces]),
            torch.stack([s.testing for s in spaces]),
            torch.stack([s.positions for s in spaces]),
            torch.stack([s.directions for s in spaces]),
        )

    def of_seed(self, seed: int) -> "Space":
        """The space of one seed of the batch."""
        return Space(self.training[seed], self.testing[seed], self.positions[seed], self.directions[seed])

    def leaning(self, share: float) -> "Space":
        """The space with testing patterns of which only a share of the squared length is in the training span.

        The rest is along directions of noise outside the span, one for each pattern, in which noise no longer points.
        """
        n, m = self.testing.shape[-2], self.training.shape[-2]
        inside, outside = self.directions.split([m - n, self.noise_dimension - (m - n)], dim=-2)
        if not 0 <= share <= 1 or outside.shape[-2] <= n:
            raise ValueError(
                f"patterns outside the span need a share in [0, 1] and more than M'={n} dimensions beside those of "
                f"training patterns and positions, got share={share} and {outside.shape[-2]}"
            )
        testing = share**0.5 * self.testing + (1 - share) ** 0.5 * outside[..., :n, :]
        return Space(self.training, testing, self.positions, torch.cat([inside, outside[..., n:, :]], dim=-2))

    @property
    def noise_dimension(self) -> int:
        return self.directions.shape[-2]


def noise_coordinates(
    shape: Sequence[int], dimension: int, length: float, generator: torch.Generator
) -> Float[Tensor, "*shape r"]:
    """Vectors of one length in uniformly random directions, as coordinates along `Space.directions`."""
    return length * torch.nn.functional.normalize(torch.randn(*shape, dimension, generator=generator), dim=-1)


def example_columns(vectors: Float[Tensor, "*batch example place d"]) -> Float[Tensor, "*batch pos width"]:
    """The columns E_1, ..., E_l of equation (1) from the vectors x_i, y_{i,1}, ..., y_{i,K}."""
    return torch.cat([vectors[..., :-1, :], vectors[..., 1:, :]], dim=-1).flatten(-3, -2)


def shortcut_columns(
    vectors: Float[Tensor, "*batch example place d"],
) -> Float[Tensor, "*batch pos width"]:
    """The columns of the ICL prompt (8): (x_i; y_{i,K}) and K - 1 columns of zeros for each example."""
    columns = vectors.new_zeros(*vectors.shape[:-2], vectors.shape[-2] - 1, 2 * vectors.shape[-1])
    columns[..., 0, :] = torch.cat([vectors[..., 0, :], vectors[..., -1, :]], dim=-1)
    return columns.flatten(-3, -2)


def query_columns(vectors: Float[Tensor, "*batch place d"]) -> Float[Tensor, "*batch pos width"]:
    """The columns Q_K of equation (1) from z_0, ..., z_{K-1}: each with its output, the last with zeros."""
    outputs = torch.nn.functional.pad(vectors[..., 1:, :], (0, 0, 0, 1))
    return torch.cat([vectors, outputs], dim=-1)


def placed(
    columns: Float[Tensor, "*batch pos width"],
    steps: Int[Tensor, "pos"],
    n_steps: int,
    positions: Float[Tensor, "*spaces step d"] | None,
) -> Float[Tensor, "*batch pos placed"]:
    """The columns with c_k of their step: appended as a unit vector, or added to the input half if `positions`."""
    if positions is None:
        units = torch.eye(n_steps, dtype=columns.dtype, device=columns.device)[steps]
        return torch.cat([columns, units.expand(*columns.shape[:-1], n_steps)], dim=-1)
    d = positions.shape[-1]
    return torch.cat([columns[..., :d] + positions[..., steps, :], columns[..., d:]], dim=-1)


def features(
    patterns: Float[Tensor, "*seed m d"], n_steps: int, positions: Float[Tensor, "*seed step d"] | None
) -> Float[Tensor, "*seed feature placed"]:
    """What every column is a sum of: m patterns as input, m as output, K positions; orthonormal rows."""
    m, d = patterns.shape[-2:]
    pure = patterns.new_zeros(*patterns.shape[:-2], 2 * m, 2 * d)
    pure[..., :m, :d], pure[..., m:, d:] = patterns, patterns
    empty = pure.new_zeros(*pure.shape[:-2], n_steps, 2 * d)
    steps = placed(empty, torch.arange(n_steps, device=empty.device), n_steps, positions)
    return torch.cat([torch.nn.functional.pad(pure, (0, steps.shape[-1] - 2 * d)), steps], dim=-2)


def _rotation(size: int, generator: torch.Generator) -> Float[Tensor, "size size"]:
    """A uniformly random orthogonal matrix."""
    q, r = torch.linalg.qr(torch.randn(size, size, generator=generator, dtype=torch.float64))
    return (q * r.diagonal().sign()).float()
