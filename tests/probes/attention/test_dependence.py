"""Attention against a dependency mask, by closed form and a slow loop."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from probes.attention.dependence import dependency_mass, sink_mass, top1_hit, without_self


def random_case(seed: int, batch: int = 3, head: int = 2, query: int = 4, key: int = 5):
    generator = torch.Generator().manual_seed(seed)
    pattern = torch.randn(batch, head, query, key, generator=generator).softmax(-1)
    mask = torch.rand(batch, query, key, generator=generator) < 0.4
    return pattern, mask


@given(st.integers(0, 2**31))
def test_mass_and_hits_equal_a_slow_loop(seed):
    pattern, mask = random_case(seed)
    mass, hit = dependency_mass(pattern, mask), top1_hit(pattern, mask)
    for b, h, q in torch.cartesian_prod(*(torch.arange(n) for n in pattern.shape[:3])).tolist():
        row = pattern[b, h, q].tolist()
        expected = sum(p for p, wanted in zip(row, mask[b, q].tolist()) if wanted)
        assert abs(mass[b, h, q].item() - expected) < 1e-6
        assert hit[b, h, q].item() == mask[b, q, row.index(max(row))].item()


@given(st.integers(0, 2**31))
def test_mass_is_a_share_and_complements_add_up(seed):
    pattern, mask = random_case(seed)
    mass = dependency_mass(pattern, mask)
    assert mass.min() >= 0
    assert mass.max() <= 1 + 1e-6
    assert torch.allclose(mass + dependency_mass(pattern, ~mask), torch.ones_like(mass), atol=1e-6)


def test_one_hot_attention():
    pattern = torch.eye(3)[None, None]
    on = torch.eye(3, dtype=torch.bool)[None]
    assert (dependency_mass(pattern, on) == 1).all()
    assert top1_hit(pattern, on).all()
    assert (dependency_mass(pattern, ~on) == 0).all()
    assert not top1_hit(pattern, ~on).any()


def test_a_tie_counts_as_its_first_key():
    pattern = torch.tensor([[[[0.25, 0.25, 0.25, 0.25]]]])
    assert top1_hit(pattern, torch.tensor([[[True, False, False, False]]])).item()
    assert not top1_hit(pattern, torch.tensor([[[False, True, True, True]]])).item()


def test_sink_mass_is_the_first_key():
    pattern = torch.tensor([[1.0, 0.0], [0.3, 0.7]])
    assert sink_mass(pattern).tolist() == pattern[:, 0].tolist()


def test_without_self_removes_the_diagonal_only():
    everything = torch.ones(2, 4, 4, dtype=torch.bool)
    assert torch.equal(without_self(everything)[0], ~torch.eye(4, dtype=torch.bool))
    assert everything.all(), "the argument was changed"


def test_without_self_takes_fewer_queries_as_the_last_ones():
    last_two = without_self(torch.ones(1, 2, 4, dtype=torch.bool))[0]
    assert last_two.tolist() == [[True, True, False, True], [True, True, True, False]]
