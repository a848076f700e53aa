"""Mass on groups of keys and vertical scores against explicit patterns, scipy and the published definitions."""

import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from probes.attention.groups import group_mass
from probes.attention.sentences import depth_ranks, kurtosis, length_residuals, vertical_scores


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("softcap", [None, 3.0])
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("window", [None, 9])
def test_mass_and_output_are_those_of_the_pattern(softcap, learned, window):
    query, key, value = random(2, 6, 70, 8) * 3, random(2, 3, 70, 8, seed=1), random(2, 3, 70, 5, seed=2)
    groups = torch.rand(70, 4, generator=torch.Generator().manual_seed(3)) < 0.4
    mask = torch.ones(70, 70, dtype=torch.bool).tril()
    mask = mask.triu(1 - window) if window else mask
    scores = (query.double() @ key.double().repeat_interleave(2, 1).mT) * 0.4
    scores = scores if softcap is None else softcap * (scores / softcap).tanh()
    scores = scores.masked_fill(~mask, -torch.inf)
    pattern = scores.softmax(-1)
    sinks = random(6, seed=4) if learned else None
    share = 1.0 if sinks is None else torch.sigmoid(scores.logsumexp(-1) - sinks[:, None].double())[..., None]
    found, output = group_mass(
        query, key, 0.4, groups, value=value, mask=mask[None, None] if window else None, softcap=softcap, sinks=sinks,
        block_bytes=2**14,
    )  # fmt: skip
    torch.testing.assert_close(found.mass.double(), pattern @ groups.double(), atol=1e-5, rtol=0)
    others = pattern.clone()
    others[..., 0] = 0
    others = torch.nan_to_num(others / others.sum(-1, keepdim=True))
    torch.testing.assert_close(found.without_sink.double(), others @ groups.double(), atol=1e-5, rtol=0)
    expected = share * (pattern @ value.double().repeat_interleave(2, 1))
    torch.testing.assert_close(output.double(), expected, atol=1e-5, rtol=0)
    alone, nothing = group_mass(
        query, key, 0.4, groups, mask=mask[None, None] if window else None, softcap=softcap, sinks=sinks
    )
    assert nothing is None
    torch.testing.assert_close(alone.mass, found.mass, atol=1e-6, rtol=0)
    readers = torch.rand(70, 5, generator=torch.Generator().manual_seed(5)) < 0.3
    mean, same = group_mass(
        query, key, 0.4, groups, readers=readers, value=value, mask=mask[None, None] if window else None,
        softcap=softcap, sinks=sinks, block_bytes=2**14,
    )  # fmt: skip
    averaging = (readers / readers.sum(0)).T.double()
    torch.testing.assert_close(mean.mass.double(), averaging @ pattern @ groups.double(), atol=1e-5, rtol=0)
    torch.testing.assert_close(mean.without_sink.double(), averaging @ others @ groups.double(), atol=1e-5, rtol=0)
    assert torch.equal(same, output)


def published(matrix, gap, control_depth):
    """Vertical scores as in the code of Bogdan et al., written out."""
    matrix = matrix.copy()
    matrix[np.triu_indices_from(matrix, k=-gap + 1)] = np.nan
    if control_depth:
        counts = np.sum(~np.isnan(matrix), axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            matrix = stats.rankdata(matrix, axis=1, nan_policy="omit") / counts[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # means of nothing
        return np.array([np.nanmean(matrix[i + gap :, i]) for i in range(len(matrix))])


@pytest.mark.parametrize("gap", [1, 4])
def test_scores_and_kurtosis_are_the_published_ones(gap):
    matrices = random(5, 12, 12).abs().tril().double()
    matrices[0, 8:, :3] = 0.25  # ties
    plain, ranked = vertical_scores(matrices, gap), vertical_scores(depth_ranks(matrices, gap), gap)
    for matrix, one, other in zip(matrices.numpy(), plain, ranked):
        np.testing.assert_allclose(one, published(matrix, gap, False), atol=1e-12)
        np.testing.assert_allclose(other, published(matrix, gap, True), atol=1e-12)
    expected = stats.kurtosis(plain.numpy(), axis=-1, fisher=True, bias=True, nan_policy="omit")
    np.testing.assert_allclose(kurtosis(plain), expected, atol=1e-10)


def test_a_kurtosis_of_too_few_or_equal_scores_is_not_defined():
    scores = torch.tensor([[1.0, 2, 4, torch.nan], [1, 1, 1, 1], [0, 0, 0, 1]])
    assert kurtosis(scores).isnan().tolist() == [True, True, False]
    assert kurtosis(torch.tensor([0.0, 0, 0, 0, 0, 0, 0, 0, 0, 9])) == pytest.approx(8 + 1 / 9 - 3)
    with pytest.raises(ValueError, match="a gap of 0 sentences"):
        vertical_scores(random(3, 3), 0)


def test_length_residuals_take_out_a_line_in_the_log_of_the_length():
    lengths = torch.tensor([3.0, 9, 4, 30, 12, 7])
    noise = random(2, 6).double()
    noise[0, 4] = torch.nan
    found = length_residuals(noise + 5 * lengths.double().log() + 2, lengths)
    torch.testing.assert_close(found, length_residuals(noise, lengths), equal_nan=True)
    x, y = lengths.log().numpy()[noise[1].isfinite()], noise[1].numpy()
    line = np.polyfit(x, y, 1)
    np.testing.assert_allclose(found[1], y - np.polyval(line, x), atol=1e-6)
    assert found[0].isnan().tolist() == [False, False, False, False, True, False]
    same = length_residuals(noise, torch.full((6,), 5.0))  # lengths that explain nothing
    torch.testing.assert_close(same[1], noise[1] - noise[1].mean())
