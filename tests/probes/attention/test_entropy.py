"""Entropy against closed forms, properties and brute force."""

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probes.attention.entropy import (
    REDUCTIONS,
    causal_visible,
    length_matched_min,
    mean,
    minimum,
    normalised_entropy,
    q10,
    row_entropy,
)

NAN = float("nan")
weights = st.lists(st.floats(0, 1, allow_subnormal=False), min_size=2, max_size=12).filter(lambda w: sum(w) > 1e-3)
values = st.lists(st.floats(0, 1), min_size=1, max_size=9)


def distribution(w: list[float]) -> torch.Tensor:
    row = torch.tensor(w, dtype=torch.float64)
    return row / row.sum()


@pytest.mark.parametrize("n", [1, 2, 3, 10, 1000])
def test_uniform_row_has_entropy_log_n(n):
    assert row_entropy(torch.full((n,), 1 / n, dtype=torch.float64)).item() == pytest.approx(math.log(n), abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_one_hot_row_has_entropy_exactly_zero(n):
    assert (row_entropy(torch.eye(n)) == 0).all()


def test_a_known_row():
    assert row_entropy(torch.tensor([0.5, 0.25, 0.25, 0.0])).item() == pytest.approx(1.5 * math.log(2))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    p = torch.full((4,), 0.25, dtype=dtype)  # exact in both types
    assert row_entropy(p).dtype == torch.float32
    assert row_entropy(p).item() == pytest.approx(math.log(4), abs=1e-6)


@given(weights)
def test_normalised_entropy_is_in_the_unit_interval(w):
    p = distribution(w)
    found = normalised_entropy(row_entropy(p)[None], torch.tensor([len(w)])).item()
    assert 0 <= found <= 1


@given(weights, st.randoms(use_true_random=False))
def test_entropy_does_not_depend_on_the_order_of_keys(w, random):
    shuffled = random.sample(w, len(w))
    assert torch.allclose(row_entropy(distribution(w)), row_entropy(distribution(shuffled)), atol=1e-12)


@given(weights)
def test_uniform_is_the_largest_entropy(w):
    assert row_entropy(distribution(w)).item() <= math.log(len(w)) + 1e-12


def test_causal_rows_are_normalised_by_what_they_see():
    uniform = torch.ones(6, 6).tril()
    uniform = uniform / uniform.sum(-1, keepdim=True)
    found = normalised_entropy(row_entropy(uniform), causal_visible(6))
    assert found[0].isnan()
    assert torch.allclose(found[1:], torch.ones(5), atol=1e-6)
    one_hot = normalised_entropy(row_entropy(torch.eye(6)), causal_visible(6))
    assert one_hot[0].isnan()
    assert (one_hot[1:] == 0).all()


def test_more_than_the_visible_keys_allow_is_refused():
    with pytest.raises(ValueError, match=r"4\.33 times the largest entropy"):
        normalised_entropy(torch.tensor([0.3, 3.0, 9.0]), torch.tensor([2, 2, 1]))
    uniform = torch.full((100, 100), 0.01).bfloat16()  # rounding is no mistake: these sum to 1.001
    assert (normalised_entropy(row_entropy(uniform), torch.full((100,), 100)) == 1).all()


@pytest.mark.parametrize("visible", [0, 1])
def test_a_row_without_two_keys_is_nan_and_never_the_minimum(visible):
    pattern = torch.tensor([[float(visible), 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]])
    found = normalised_entropy(row_entropy(pattern), torch.tensor([visible, 2, 3]))
    assert found[0].isnan()
    for name, reduce in REDUCTIONS.items():
        assert reduce(found).item() == pytest.approx(1.0), name


def test_reductions_pass_over_nan():
    v = torch.tensor([[NAN, 0.4, 0.2, NAN, 0.6], [0.9, NAN, 0.1, 0.5, NAN]])
    assert minimum(v).tolist() == pytest.approx([0.2, 0.1])
    assert mean(v).tolist() == pytest.approx([0.4, 0.5])
    assert q10(v).tolist() == pytest.approx([0.2 + 0.2 * 0.2, 0.1 + 0.2 * 0.4])  # interpolated between the lowest two


@pytest.mark.parametrize("reduce", REDUCTIONS.values(), ids=REDUCTIONS)
def test_a_reduction_over_nothing_is_refused(reduce):
    with pytest.raises(ValueError, match="at least two tokens"):
        reduce(torch.tensor([[0.5, 0.2], [NAN, NAN]]))


@given(values, st.data())
def test_length_matched_min_is_the_mean_minimum_of_all_subsets(v, data):
    m = data.draw(st.integers(1, len(v)))
    subsets = [min(subset) for subset in itertools.combinations(v, m)]
    found = length_matched_min(torch.tensor(v, dtype=torch.float64), m).item()
    assert found == pytest.approx(sum(subsets) / len(subsets), abs=1e-12)


@given(values)
def test_length_matched_min_goes_from_the_mean_down_to_the_minimum(v):
    row = torch.tensor(v, dtype=torch.float64)
    found = [length_matched_min(row, m).item() for m in range(1, len(v) + 1)]
    assert found[0] == pytest.approx(sum(v) / len(v), abs=1e-12)
    assert found[-1] == min(v)
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(found))


@given(values, st.integers(0, 3), st.data())
def test_length_matched_min_ignores_nan_and_order(v, n_nan, data):
    m = data.draw(st.integers(1, len(v)))
    mixed = data.draw(st.permutations(v + [NAN] * n_nan))
    expected = length_matched_min(torch.tensor(v, dtype=torch.float64), m)
    assert torch.equal(length_matched_min(torch.tensor(mixed, dtype=torch.float64), m), expected)


@pytest.mark.parametrize(("n", "m"), [(5000, 1), (5000, 17), (5000, 2500), (5000, 5000)])
def test_length_matched_min_of_the_first_integers(n, m):
    """The expected minimum of m of the numbers 1..n is (n + 1) / (m + 1), also where C(n, m) overflows."""
    ascending = torch.arange(1, n + 1, dtype=torch.float64)
    assert length_matched_min(ascending, m).item() == pytest.approx((n + 1) / (m + 1), rel=1e-9)


def test_length_matched_min_works_row_by_row():
    rows = torch.rand(3, 2, 8, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([torch.stack([length_matched_min(row, 3) for row in pair]) for pair in rows])
    assert torch.equal(length_matched_min(rows, 3), expected)


@pytest.mark.parametrize("m", [-1, 0, 4])
def test_length_matched_min_refuses_an_impossible_subset(m):
    with pytest.raises(ValueError, match=f"subset of {m} queries out of 3"):
        length_matched_min(torch.tensor([0.1, 0.2, NAN, 0.3]), m)


def test_length_matched_min_refuses_rows_of_different_length():
    with pytest.raises(ValueError, match="same number of defined queries"):
        length_matched_min(torch.tensor([[0.1, 0.2], [0.1, NAN]]), 1)
