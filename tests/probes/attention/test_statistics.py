"""The registry of statistics: every statistic against a plain softmax in float64, and what registering refuses."""

import dataclasses
import math
import subprocess
import sys

import pytest
import torch

from probes.attention import entropy, statistics
from probes.attention.chunked import chunked_row_statistics
from probes.attention.computation import row_statistics
from probes.attention.fused import fused_row_statistics
from probes.attention.row import RowsOfPattern, RowStatistics
from probes.attention.statistics import (
    DEFAULT_METRICS,
    QUANTITIES,
    REDUCTIONS,
    STATISTICS,
    find_metric,
    find_statistic,
    known_metrics,
    load_statistics,
    register,
    statistics_of,
)

N = 23


@pytest.fixture
def untouched():
    """The registry as it was, once the test is over."""
    load_statistics()
    before = dict(STATISTICS)
    yield
    STATISTICS.clear()
    STATISTICS.update(before)


def random_qk(seed, n=N):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(2, 4, n, 8, generator=generator)
    return query, torch.randn(2, 2, n, 8, generator=generator)


def softmax_pattern(query, key, scale, mask=None):
    """In float64, with nothing shared with the code under test."""
    key = key.double().repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query.double() @ key.transpose(-1, -2) * scale
    visible = torch.ones(scores.shape[-2:]).tril().bool() if mask is None else mask
    return scores.masked_fill(~visible, -torch.inf).softmax(-1)


def naive(name, row, n_visible):
    """One statistic of one row of a pattern, by its definition."""
    positive = [p for p in row.tolist() if p > 0]
    nats = -sum(p * torch.tensor(p).double().log().item() for p in positive)
    others = row[1:] / row[1:].sum()
    nats_others = -torch.xlogy(others, others).sum().item()
    log = torch.arange(n_visible + 1).double().log()
    return {
        "entropy_nats": lambda: nats,
        "effective_keys": lambda: 2.718281828459045**nats,
        "top1_mass": lambda: max(positive),
        "sink_mass": lambda: row[0].item(),
        "normalised_entropy": lambda: nats / log[n_visible].item(),
        "normalised_entropy_without_sink": lambda: nats_others / log[n_visible - 1].item(),
        "entropy_nats_without_sink": lambda: nats_others,
        "effective_keys_without_sink": lambda: 2.718281828459045**nats_others,
        "top1_mass_without_sink": lambda: max(others.tolist()),
        "learned_sink_mass": lambda: 0.0,
    }[name]()


def test_every_statistic_of_the_suite_equals_its_definition():
    query, key = random_qk(0)
    pattern = softmax_pattern(query, key, 0.7)
    found = chunked_row_statistics(query, key, 0.7)[0]
    for name, statistic in load_statistics().items():
        values = statistic.of(found)
        assert values.shape == (2, 4, N), name
        for b, h, i in ((0, 0, 2), (1, 3, 9), (0, 2, N - 1), (1, 1, 15)):
            expected = naive(name, pattern[b, h, i, : i + 1], i + 1)
            assert values[b, h, i].item() == pytest.approx(expected, rel=1e-4), name
        low, high = statistic.low, statistic.high
        defined = values[~values.isnan()]
        assert (defined >= low - 1e-5).all()
        assert high is None or (defined <= high + 1e-5).all()


@pytest.mark.parametrize("window", [None, 6])
def test_a_pattern_gives_what_queries_and_keys_give(window):
    query, key = random_qk(1)
    mask = torch.ones(N, N).tril().triu(1 - (window or N)).bool()
    n_visible = mask.sum(-1)
    of_pattern = RowsOfPattern(softmax_pattern(query, key, 0.7, mask), n_visible, n_visible - mask[:, 0].long())
    expected, _ = chunked_row_statistics(query.double(), key.double(), 0.7, mask=mask[None, None])
    for name in QUANTITIES:
        got, wanted = torch.broadcast_tensors(getattr(of_pattern, name), getattr(expected, name))
        torch.testing.assert_close(got, wanted, atol=1e-9, rtol=0, equal_nan=True, msg=name)
    for name, statistic in load_statistics().items():
        torch.testing.assert_close(
            statistic.of(of_pattern), statistic.of(expected), atol=1e-8, rtol=1e-8, equal_nan=True, msg=name
        )


def test_a_row_of_a_pattern_that_sees_nothing_has_no_value():
    pattern = torch.tensor([[[0.0, 0.0], [1.0, 0.0]]])
    rows = RowsOfPattern(pattern, torch.tensor([0, 1]))
    for name in ("entropy", "sink_mass", "top1_mass", "entropy_without_sink", "top1_mass_without_sink"):
        assert getattr(rows, name)[0, 0].isnan(), name
    assert rows.entropy_without_sink[0, 1].isnan()
    assert rows.top1_mass_without_sink[0, 1].isnan()
    assert RowsOfPattern(torch.ones(1, 1, 1), torch.tensor([1])).top1_mass_without_sink.isnan().all()
    assert rows.entropy[0, 1] == 0


def test_nothing_of_a_pattern_is_computed_before_it_is_read():
    rows = RowsOfPattern(torch.full((1, 3, 3), 1 / 3), torch.tensor([1, 2, 3]))
    find_statistic("entropy_nats").of(rows)
    assert {"entropy"} == set(vars(rows)) & set(QUANTITIES) - {"n_visible", "n_visible_without_sink"}


def test_the_quantities_are_the_fields_of_row_statistics():
    assert tuple(field.name for field in dataclasses.fields(RowStatistics)) == QUANTITIES


def test_every_reduction_has_a_label_and_a_function():
    assert set(REDUCTIONS) == set(entropy.REDUCTIONS) | set(entropy.LENGTH_MATCHED)
    values = torch.tensor([[0.1, 0.5, torch.nan, 0.9]])
    expected = {"min": 0.1, "max": 0.9, "mean": 0.5, "q10": 0.18}
    for name, value in {**expected, "length_matched_min": 0.1, "length_matched_max": 0.9}.items():
        assert entropy.reduced(name, values).item() == pytest.approx(value), name
    assert entropy.reduced("length_matched_min", values, 2).item() == pytest.approx((0.1 + 0.1 + 0.5) / 3)
    assert entropy.reduced("length_matched_max", values, 2).item() == pytest.approx((0.9 + 0.9 + 0.5) / 3)


def test_top1_mass_is_computed_where_it_is_asked_for_only():
    query, key = random_qk(2)
    assert row_statistics(query, key, 0.5)[0].top1_mass is None
    without, _, how = row_statistics(query, key, 0.5, quantities=("top1_mass_without_sink",))
    others = softmax_pattern(query, key, 0.5)[..., 1:]
    expected = (others / others.sum(-1, keepdim=True)).amax(-1)[..., 1:]
    torch.testing.assert_close(without.top1_mass_without_sink[..., 1:].double(), expected, atol=1e-5, rtol=0)
    assert without.top1_mass_without_sink[..., 0].isnan().all(), "the first query sees key 1 only"
    assert how.name == "chunked"
    found, _, how = row_statistics(query, key, 0.5, quantities=("top1_mass",))
    expected = softmax_pattern(query, key, 0.5).amax(-1)
    torch.testing.assert_close(found.top1_mass.double(), expected, atol=1e-5, rtol=0)
    assert how.name == "chunked"
    assert fused_row_statistics(query, key, 0.5).top1_mass is None


def test_metrics_of_the_pretrained_half_keep_their_names_and_come_first():
    assert tuple(known_metrics())[:7] == DEFAULT_METRICS
    assert (
        find_metric("min").statistic.name == find_metric("length_matched_min").statistic.name == "normalised_entropy"
    )
    assert find_metric("sink_excluded_mean").reduction == "mean"
    assert statistics_of(["sink_mass", "min", "mean"]) == ("sink_mass", "normalised_entropy")
    assert find_metric("effective_keys_q10").label == "10% quantile of the effective number of keys"
    assert all(metric.statistic.label and metric.name == name for name, metric in known_metrics().items())


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match=r"unknown metric 'entropy'.*length_matched_min.*top1_mass_mean"):
        find_metric("entropy")
    with pytest.raises(ValueError, match=r"unknown statistic 'min'.*effective_keys.*sink_mass"):
        find_statistic("min")


def test_a_new_statistic_has_metrics_at_once(untouched):
    @register(label="rest", reductions=("mean", "min"), unit="share", high=1.0)
    def beyond_sink(sink_mass):
        return 1 - sink_mass

    assert find_metric("beyond_sink_min").statistic.reads == ("sink_mass",)
    query, key = random_qk(3)
    found = chunked_row_statistics(query, key, 0.5)[0]
    torch.testing.assert_close(find_statistic("beyond_sink").of(found), 1 - found.sink_mass)


@pytest.mark.parametrize(
    ("returned", "complaint"),
    [
        (lambda entropy: entropy * 100, r"gave [\d.]+, outside the low=0 and high=2 that it was registered with"),
        (lambda entropy: entropy.clamp(max=1) - 2, "gave -[12].*, outside the low=0"),
        (lambda entropy: entropy.mean(1, keepdim=True), r"gave \(2, 1, 23\); expected a tensor \(2, 4, 23\)"),
        (lambda entropy: entropy[..., 1:], r"gave \(2, 4, 22\)"),
        (lambda entropy: None, "gave NoneType; expected a tensor"),
        (lambda entropy: 1.0, "gave float; expected a tensor"),
    ],
)
def test_what_is_not_one_number_per_row_within_the_bounds_is_refused(untouched, returned, complaint):
    def mine(entropy):
        return returned(entropy)

    register(label="mine", reductions=("mean",), high=2.0)(mine)
    found = chunked_row_statistics(*random_qk(5), 0.5)[0]
    with pytest.raises(ValueError, match=f"statistic 'mine' {complaint}"):
        find_statistic("mine").of(found)


def test_rounding_and_rows_without_a_value_are_within_the_bounds(untouched):
    @register(label="mine", reductions=("mean",), high=1.0)
    def mine(entropy):
        values = (entropy * 0 + 1.0001).index_fill(-1, torch.tensor([0]), torch.inf)  # it sees one key only
        return values.index_fill(-1, torch.tensor([1]), torch.nan)

    found = find_statistic("mine").of(chunked_row_statistics(*random_qk(6), 0.5)[0])
    assert found[0, 0, :3].tolist() == pytest.approx([math.inf, math.nan, 1.0001], nan_ok=True)


@pytest.mark.parametrize(
    ("name", "parameter", "options", "complaint"),
    [
        ("sink_mass", "sink_mass", {}, "registered twice"),
        ("mine", "weights", {}, "unknown quantity 'weights'; need at least one of entropy"),
        ("mine", "entropy", {"reductions": ("median",)}, "unknown reduction 'median'; need at least one of min"),
        ("mine", "entropy", {"reductions": ()}, "no reduction"),
        ("mine", "entropy", {"metric": "{reduction}"}, "the metric 'mean' is one of 'normalised_entropy'"),
        ("mine", "entropy", {"metric": "mine", "reductions": ("mean", "min")}, "has two metrics 'mine'"),
        ("mine", "entropy", {"low": 3.0, "high": 1.0}, "low 3 must be below high 1"),
        ("mine", "entropy", {"label": " "}, "needs a function's name, a label"),
        ("mine", "entropy", {"metric": "my {reduction}"}, "'my mean' cannot be a metric's name"),
    ],
)
def test_what_registering_refuses(untouched, name, parameter, options, complaint):
    before = dict(STATISTICS)
    namespace: dict = {}
    exec(f"def {name}({parameter}): return {parameter}", namespace)
    with pytest.raises(ValueError, match=complaint):
        register(**{"label": "mine", "reductions": ("mean",), **options})(namespace[name])
    assert before == STATISTICS


def test_a_rerun_cell_replaces_its_statistic_and_a_script_does_not(untouched):
    def cell(module):
        def of_a_cell(entropy):
            return entropy

        of_a_cell.__module__ = module
        return register(label="cell", reductions=("mean",))(of_a_cell)

    cell("__main__")
    again = cell("__main__")
    assert STATISTICS["of_a_cell"].function is again
    with pytest.raises(ValueError, match="registered twice"):
        cell("another")


def test_a_strong_sink_keeps_the_digits_of_the_largest_weight_behind_it():
    """1 - p_1 is about 1e-7 here: the weights of the others must not be divided by it."""
    query, key = torch.ones(1, 1, 64, 8), torch.zeros(1, 1, 64, 8)
    key[:, :, 0], key[:, :, 5] = 20 / 8, 2 / 8
    found = chunked_row_statistics(query, key, 1.0)[0]
    n_others = torch.arange(6.0, 64.0)
    expected = math.e**2 / (math.e**2 + n_others - 1)
    torch.testing.assert_close(found.top1_mass_without_sink[0, 0, 6:], expected, atol=1e-5, rtol=0)


def test_rows_with_one_key_behind_the_first_are_not_sparse_without_the_sink():
    found = chunked_row_statistics(*random_qk(4), 0.5)[0]
    for name in (n for n in load_statistics() if n.endswith("_without_sink")):
        values = find_statistic(name).of(found)
        assert values[..., :2].isnan().all(), name
        assert not values[..., 2:].isnan().any(), name


def test_labels_are_known_without_torch():
    code = f"import sys; import {statistics.__name__} as s; s.known_metrics(); print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    )
