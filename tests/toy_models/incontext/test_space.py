"""Testing patterns inside and outside the span of the training patterns: lengths, angles and noise."""

import pytest
import torch

from toy_models.incontext.space import Space


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_leaning_patterns_are_orthonormal_and_have_the_share_in_the_span(share):
    generators = [torch.Generator().manual_seed(seed) for seed in range(2)]
    space = Space.stacked([Space.draw(14, 5, 4, 3, generator) for generator in generators]).leaning(share)
    torch.testing.assert_close(space.testing @ space.testing.mT, torch.eye(4).expand(2, -1, -1), atol=1e-5, rtol=0)
    inside = (space.testing @ space.training.mT).square().sum(-1)
    torch.testing.assert_close(inside, torch.full((2, 4), share), atol=1e-5, rtol=0)
    for other in (space.testing, space.positions):
        assert (space.directions @ other.mT).abs().max() < 1e-5
    assert space.noise_dimension == 1 + 2


def test_too_few_dimensions_are_refused():
    with pytest.raises(ValueError, match="more than M'=4 dimensions"):
        Space.draw(10, 5, 4, 3, torch.Generator()).leaning(0.5)
