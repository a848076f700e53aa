"""Where does a clause stand? Positions for the clause decoder, which has none unless they are asked for."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class LearnedPlaces(nn.Embedding):
    """A learned vector for each of the first `n_ctx` places, normal at first with standard deviation `std`."""

    def __init__(self, n_ctx: int, width: int, std: float) -> None:
        super().__init__(n_ctx, width)
        with torch.no_grad():
            self.weight.mul_(std)

    def forward(self, input: Int[Tensor, "place"]) -> Float[Tensor, "place width"]:
        """The vectors of these places, counted from 0, in ascending order."""
        if len(input) and input[-1] >= self.num_embeddings:
            raise ValueError(
                f"a sentence of {int(input[-1]) + 1} clauses, but there are learned positions for "
                f"n_ctx={self.num_embeddings}; take more of them or shorter sentences"
            )
        return super().forward(input)


class SinusoidalPlaces(nn.Module):
    """Sines, then cosines, of the place times frequencies from 1 down towards 1/10,000, times `std`; any place."""

    rates: Tensor

    def __init__(self, n_ctx: int, width: int, std: float) -> None:
        super().__init__()
        self.width, self.std, half = width, std, (width + 1) // 2
        self.register_buffer("rates", 10_000.0 ** (-torch.arange(half) / half), persistent=False)

    def forward(self, places: Int[Tensor, "place"]) -> Float[Tensor, "place width"]:
        angles = places[:, None] * self.rates
        return self.std * torch.cat([angles.sin(), angles.cos()], dim=-1)[:, : self.width]
