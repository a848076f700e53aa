"""Two computations of one layer: agreement is a number, disagreement is refused with the place."""

from dataclasses import replace

import pytest
import torch

from probes.attention.check import explicit, require_agreement
from probes.attention.chunked import chunked_row_statistics
from probes.attention.computation import Computation, row_statistics
from probes.attention.fused import fused_row_statistics


def inputs(n=20):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 4, n, 8), (2, 2, n, 8), (2, 2, n, 5))
    return [torch.randn(*shape, generator=generator) for shape in shapes]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask": torch.ones(1, 1, 20, 20, dtype=torch.bool).tril().triu(-4)},
        {"softcap": 2.0, "sinks": torch.zeros(4)},
        {"bias": torch.linspace(-2, 0, 20).expand(1, 1, 20, 20)},
    ],
    ids=["causal", "window", "capped", "biased"],
)
def test_blocks_of_scores_agree_with_patterns(options):
    query, key, value = inputs()
    found, output, chosen = row_statistics(query, key, 0.5, value=value, quantities=("top1_mass",), **options)
    assert (
        require_agreement(found, output, chosen, query, key, 0.5, value=value, **options)[0] == "patterns in float64"
    )
    wrong = replace(found, entropy=found.entropy.clone())
    wrong.entropy[1, 2, 7] += 0.01
    with pytest.raises(ValueError, match=r"layer 3, head 2, token 7 of text 1: entropy is .* \(chunked\), but"):
        require_agreement(wrong, output, chosen, query, key, 0.5, value=value, layer=3, **options)
    with pytest.raises(ValueError, match="layer 0: attention's output is off by"):
        require_agreement(found, output + 0.01, chosen, query, key, 0.5, value=value, **options)
    missing = replace(found, sink_mass=found.sink_mass.masked_fill(torch.arange(20) == 4, torch.nan))
    with pytest.raises(ValueError, match="token 4 of text 0: sink_mass is nan"):
        require_agreement(missing, output, chosen, query, key, 0.5, value=value, **options)


def test_faster_computations_are_held_against_blocks_of_scores():
    query, key, _ = inputs()
    found, chosen = fused_row_statistics(query, key, 0.5), Computation("fused", "")
    reference, difference = require_agreement(found, None, chosen, query, key, 0.5)
    assert reference == "blocks of scores in float32"
    assert 0 < difference < 1e-5
    with pytest.raises(ValueError, match="COTLENS_KERNEL=0"):
        require_agreement(found, None, Computation("kernel", ""), query, key, 0.6)


def test_rows_that_see_nothing_or_an_infinity_agree():
    query, key, value = inputs()
    key[0, 1, 9] = torch.inf
    mask = torch.ones(2, 1, 20, 20, dtype=torch.bool).tril()
    mask[1, :, 3] = False
    found, output = chunked_row_statistics(query, key, 0.5, value=value, mask=mask)
    expected, _ = explicit(query, key, 0.5, value=value, mask=mask)
    assert torch.equal(found.entropy.isnan(), expected.entropy.isnan())
    chosen = Computation("chunked", "")
    assert require_agreement(found, output, chosen, query, key, 0.5, value=value, mask=mask)[1] < 1e-5
