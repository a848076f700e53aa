"""Two computations of one layer: agreement is a number, disagreement is refused with the place."""

from dataclasses import replace

import pytest
import torch

from probes.attention.check import explicit, require_agreement, require_group_agreement
from probes.attention.chunked import chunked_row_statistics
from probes.attention.computation import Computation, grouped_mass, row_statistics
from probes.attention.fused import fused_row_statistics


def inputs(n=20):
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 4, n, 8), (2, 2, n, 8), (2, 2, n, 5))
    return [torch.randn(*shape, generator=generator) for shape in shapes]


OPTIONS = {
    "causal": {},
    "window": {"mask": torch.ones(1, 1, 20, 20, dtype=torch.bool).tril().triu(-4)},
    "capped": {"softcap": 2.0, "sinks": torch.zeros(4)},
    "biased": {"bias": torch.linspace(-2, 0, 20).expand(1, 1, 20, 20)},
}
each_option = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


@each_option
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


def sentences():
    """Five groups of neighbouring keys, one of scattered ones, an empty one."""
    groups = torch.zeros(20, 7, dtype=torch.bool)
    for i in range(5):
        groups[4 * i : 4 * i + 4, i] = True
    groups[::3, 5] = True
    return groups


@each_option
@pytest.mark.parametrize("readers", [None, sentences()[:, :5]], ids=["tokens", "sentences"])
def test_mass_on_sentences_by_blocks_agrees_with_patterns(options, readers):
    query, key, value = inputs()
    options = {"value": value, "readers": readers, **options}
    found, output, chosen = grouped_mass(query, key, 0.5, sentences(), **options)
    given = (output, chosen, query, key, 0.5, sentences())
    reference, difference = require_group_agreement(found, *given, **options)
    assert reference == "patterns in float64"
    assert 0 < difference < 1e-5
    for name in ("mass", "without_sink"):
        wrong = getattr(found, name).clone()
        wrong[1, 2, 4, 3] += 0.01
        with pytest.raises(ValueError, match=rf"layer 3, head 2, row 4, group 3 of text 1: {name} is .* \(chunked\)"):
            require_group_agreement(found._replace(**{name: wrong}), *given, layer=3, **options)
    with pytest.raises(ValueError, match="layer 0: attention's output is off by"):
        require_group_agreement(found, output + 0.01, *given[1:], **options)


def test_mass_on_sentences_of_a_faster_computation_is_held_against_blocks():
    query, key, _ = inputs()
    found, _, _ = grouped_mass(query, key, 0.5, sentences())
    kernel = Computation("kernel", "")
    given = (None, kernel, query, key)
    assert require_group_agreement(found, *given, 0.5, sentences()) == ("blocks of scores in float32", 0.0)
    with pytest.raises(ValueError, match="COTLENS_KERNEL=0"):
        require_group_agreement(found, *given, 0.6, sentences())
