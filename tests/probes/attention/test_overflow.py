"""A number that is not finite reaches the rows that see it, and no other."""

import pytest
import torch

from probes.attention.chunked import chunked_row_statistics

FIELDS = ("entropy", "sink_mass", "entropy_without_sink", "top1_mass", "top1_mass_without_sink")
N, AT = 20, 11


def packed_mask():
    """Two branches behind four shared tokens: the second does not see the first."""
    mask = torch.ones(N, N, dtype=torch.bool).tril()
    mask[14:, 4:14] = False
    return mask[None, None]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("what", ["query", "key", "value"])
@pytest.mark.parametrize("number", [torch.inf, -torch.inf, torch.nan])
def test_rows_that_do_not_see_it_are_as_if_it_were_not_there(masked, what, number):
    generator = torch.Generator().manual_seed(0)
    tensors = {name: torch.randn(1, heads, N, 8, generator=generator) for name, heads in SIZES.items()}
    mask = packed_mask() if masked else None
    clean, mixed = chunked_row_statistics(**tensors, scale=0.5, mask=mask)
    tensors[what][0, 1, AT, 3] = number
    found, output = chunked_row_statistics(**tensors, scale=0.5, mask=mask)
    sees = torch.zeros(1, 4, N, dtype=torch.bool)
    seeing = (torch.ones(N, N).tril().bool() if mask is None else mask[0, 0])[:, AT]
    if what == "query":
        sees[0, 1, AT] = True
    else:
        sees[0, 2:] = seeing  # the heads of the second key/value head
    assert 0 < sees.sum() < sees.numel() / 2
    for name in FIELDS:
        one, other = getattr(found, name), getattr(clean, name)
        assert one[sees].isnan().all(), name
        torch.testing.assert_close(one[~sees], other[~sees], atol=1e-6, rtol=1e-6, equal_nan=True)
    assert output[sees].isnan().all()
    torch.testing.assert_close(output[~sees], mixed[~sees], atol=1e-6, rtol=1e-6)


SIZES = {"query": 4, "key": 2, "value": 2}
