"""Fused and chunked row statistics against closed forms and a brute-force softmax in float64."""

import importlib.util
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from probes.attention.chunked import BLOCK_ROWS, chunked_row_statistics
from probes.attention.computation import choose_computation, row_statistics
from probes.attention.fused import fused_row_statistics

FIELDS = ("entropy", "sink_mass", "entropy_without_sink")


def chunked(query, key, scale):
    return chunked_row_statistics(query, key, scale)[0]


@pytest.fixture(params=[fused_row_statistics, chunked], ids=["fused", "chunked"])
def statistics_of(request):
    """Either path, for what both must get right."""
    return request.param


def brute(query, key, scale, mask=None, bias=None, softcap=None):
    """Row by row in float64, with nothing shared with the code under test."""
    query, key = query.double(), key.double()
    group = query.shape[1] // key.shape[1]
    n_batch, n_heads, n_queries, _ = query.shape
    result = {name: torch.full((n_batch, n_heads, n_queries), torch.nan).double() for name in FIELDS}
    for b in range(n_batch):
        for h in range(n_heads):
            for i in range(n_queries):
                scores = key[b, h // group] @ query[b, h, i] * scale
                if softcap is not None:
                    scores = torch.tanh(scores / softcap) * softcap
                if bias is not None:
                    scores = scores + bias[b % bias.shape[0], h % bias.shape[1], i]
                seen = [
                    j
                    for j in range(key.shape[2])
                    if (mask[b % mask.shape[0], 0, i, j] if mask is not None else j <= i)
                ]
                if not seen:
                    continue
                p = torch.softmax(scores[seen], 0)
                result["entropy"][b, h, i] = -torch.xlogy(p, p).sum()
                result["sink_mass"][b, h, i] = p[0] if seen[0] == 0 else 0.0
                rest = [j for j in seen if j > 0]
                if rest:
                    p = torch.softmax(scores[rest], 0)
                    result["entropy_without_sink"][b, h, i] = -torch.xlogy(p, p).sum()
    return result


def random_qk(seed, batch=2, heads=4, kv_heads=2, n=13, d=8, size=2.0, key_bias=0.0):
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(batch, heads, n, d, generator=generator) * size
    key = torch.randn(batch, kv_heads, n, d, generator=generator) * size
    return query, key + key_bias * torch.randn(1, kv_heads, 1, d, generator=generator)


def assert_close(statistics, expected, tolerance):
    for name in FIELDS:
        got = getattr(statistics, name).double()
        torch.testing.assert_close(got, expected[name], atol=tolerance, rtol=0, equal_nan=True, msg=f"{name} differs")


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 40),
    group=st.sampled_from([1, 2, 3]),
    size=st.sampled_from([0.1, 1.0, 4.0]),
)
def test_both_paths_equal_the_brute_force_softmax(seed, n, group, size):
    query, key = random_qk(seed, batch=1, heads=2 * group, kv_heads=2, n=n, size=size)
    expected = brute(query, key, 0.3)
    assert_close(fused_row_statistics(query, key, 0.3), expected, 1e-4)
    assert_close(chunked_row_statistics(query, key, 0.3)[0], expected, 1e-4)


def test_equal_keys_give_uniform_rows(statistics_of):
    query, key = torch.randn(1, 2, 50, 16), torch.ones(1, 1, 50, 16)
    statistics = statistics_of(query, key, 0.25)
    counts = torch.arange(1.0, 51.0)
    torch.testing.assert_close(statistics.entropy, counts.log().expand(1, 2, -1), atol=1e-5, rtol=0)
    torch.testing.assert_close(statistics.sink_mass, (1 / counts).expand(1, 2, -1), atol=1e-6, rtol=0)
    without = (counts[1:] - 1).log().expand(1, 2, -1)
    torch.testing.assert_close(statistics.entropy_without_sink[..., 1:], without, atol=1e-5, rtol=0)


def test_a_strong_sink_keeps_the_digits_of_what_it_leaves(statistics_of):
    """1 - p_1 is about 1e-7 here: the entropy without the sink must not be computed by dividing by it."""
    query, key = torch.ones(1, 1, 64, 8), torch.zeros(1, 1, 64, 8)
    key[:, :, 0] = 20 / 8
    statistics = statistics_of(query, key, 1.0)
    counts = torch.arange(1.0, 64.0)
    assert statistics.sink_mass[..., 1:].min() > 1 - 1e-6
    torch.testing.assert_close(statistics.entropy_without_sink[0, 0, 1:], counts.log(), atol=1e-5, rtol=0)
    rest = counts * math.exp(-20)
    expected = rest / (1 + rest) * (20 + torch.log1p(rest)) + torch.log1p(rest) / (1 + rest)
    torch.testing.assert_close(statistics.entropy[0, 0, 1:], expected, atol=0, rtol=1e-3)


@pytest.mark.parametrize("key_bias", [300.0, 10_000.0])
def test_large_key_biases_do_not_cancel_digits(statistics_of, key_bias):
    query, key = random_qk(1, n=60, d=16, size=0.5, key_bias=key_bias)
    assert_close(statistics_of(query, key, 0.25), brute(query, key, 0.25), 5e-6)


def test_scores_far_apart_are_neither_nan_nor_infinite(statistics_of):
    """Differences of thousands: every row attends to one key, and weights vanish below what float32 can hold."""
    query, key = random_qk(10, n=30, size=60.0)
    expected = brute(query, key, 1.0)
    assert (expected["entropy"][..., 1:] < 1e-3).double().mean() > 0.9
    assert_close(statistics_of(query, key, 1.0), expected, 1e-2)


@pytest.mark.parametrize("n", [BLOCK_ROWS - 1, BLOCK_ROWS, BLOCK_ROWS + 1, 2 * BLOCK_ROWS + 5])
def test_texts_of_several_blocks(n):
    query, key = random_qk(11, batch=2, n=n)
    value = torch.randn(2, 2, n, 5, generator=torch.Generator().manual_seed(2))
    statistics, output = chunked_row_statistics(query, key, 0.4, value=value)
    assert_close(statistics, brute(query, key, 0.4), 1e-5)
    torch.testing.assert_close(output, attention(query, key, value, 0.4), atol=1e-5, rtol=0)


@pytest.fixture(params=[1, 2, 3, 8])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("heads", [(3, 1), (2, 2), (3, 3), (6, 2), (9, 3)])
@pytest.mark.parametrize("n", [5, 70])
@pytest.mark.usefixtures("threads")
def test_any_number_of_threads_and_heads(heads, n):
    """Keys are copied for threads that would idle; odd rows and strided views of a model's projection included."""
    n_heads, n_kv = heads
    generator = torch.Generator().manual_seed(n)
    query, key, value = (torch.randn(2, n, h, 8, generator=generator).transpose(1, 2) for h in (n_heads, n_kv, n_kv))
    statistics, output = chunked_row_statistics(query, key, 0.4, value=value)
    assert_close(statistics, brute(query, key, 0.4), 1e-5)
    torch.testing.assert_close(output, attention(query, key, value, 0.4), atol=1e-5, rtol=0)


def test_queries_that_are_the_last_keys():
    query, key = random_qk(12, n=90)
    value = torch.randn(2, 2, 90, 5)
    whole, output = chunked_row_statistics(query, key, 0.4, value=value)
    part, last = chunked_row_statistics(query[:, :, 20:], key, 0.4, value=value)
    for name in (*FIELDS, "n_visible", "n_visible_without_sink", "top1_mass"):
        torch.testing.assert_close(getattr(part, name), getattr(whole, name)[..., 20:])
    torch.testing.assert_close(last, output[:, :, 20:])


def tree_mask():
    mask = torch.ones(11, 11).tril().bool()
    mask[7:, 4:7] = False  # two branches over a root of four
    return mask


def test_a_tree_mask_is_exact_and_counts_what_a_query_sees():
    query, key = random_qk(2, n=11)
    statistics = row_statistics(query, key, 0.4, mask=tree_mask()[None, None])[0]
    assert_close(statistics, brute(query, key, 0.4, mask=tree_mask()[None, None]), 1e-5)
    assert statistics.n_visible[0, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 5, 6, 7, 8]


def test_batch_rows_may_have_different_masks():
    masks = torch.ones(2, 1, 9, 9).tril().bool()
    masks[1, :, 6:, 3:6] = False
    query, key = random_qk(3, n=9)
    assert_close(row_statistics(query, key, 0.4, mask=masks)[0], brute(query, key, 0.4, mask=masks), 1e-5)


@pytest.mark.parametrize("block_bytes", [1, 700, 10**9])
def test_the_chunked_path_does_not_depend_on_its_blocks(block_bytes):
    query, key = random_qk(4)
    bias = torch.randn(1, 4, 13, 13, generator=torch.Generator().manual_seed(0))
    mask = torch.ones(13, 13).tril().bool()[None, None]
    got, _ = chunked_row_statistics(query, key, 0.4, mask=mask, bias=bias, softcap=3.0, block_bytes=block_bytes)
    assert_close(got, brute(query, key, 0.4, mask=mask, bias=bias, softcap=3.0), 1e-5)
    assert got.top1_mass is not None
    assert ((got.top1_mass >= got.sink_mass) & (got.top1_mass <= 1 + 1e-6)).all()


def test_a_sliding_window_counts_the_keys_it_sees():
    window = torch.ones(13, 13).tril().bool() & torch.ones(13, 13).triu(-3).bool()
    query, key = random_qk(5)
    statistics = row_statistics(query, key, 0.4, mask=window[None, None])[0]
    assert_close(statistics, brute(query, key, 0.4, mask=window[None, None]), 1e-5)
    assert statistics.n_visible[0, 0].tolist() == [1, 2, 3] + [4] * 10
    assert statistics.n_visible_without_sink[0, 0].tolist() == [0, 1, 2, 3] + [4] * 9


def test_a_row_that_sees_nothing_is_nan_and_not_a_minimum():
    mask = torch.ones(5, 5).tril().bool()
    mask[:, 0] = False
    query, key = random_qk(6, n=5)
    statistics = row_statistics(query, key, 0.4, mask=mask[None, None], quantities=("top1_mass",))[0]
    for name in (*FIELDS, "top1_mass"):
        assert getattr(statistics, name)[..., 0].isnan().all(), name
    assert statistics.entropy[..., 1:].isfinite().all()
    value = torch.ones(2, 2, 5, 3)
    _, output = chunked_row_statistics(query, key, 0.4, mask=mask[None, None], value=value)
    assert output is not None
    assert (output[:, :, 0] == 0).all(), "as SDPA has it"
    assert (output[:, :, 1:] > 0.99).all()


def attention(query, key, value, scale, **options):
    options = options or {"is_causal": True}
    return torch.nn.functional.scaled_dot_product_attention(
        query, key, value, scale=scale, enable_gqa=True, **options
    )


@pytest.mark.parametrize("block_bytes", [1, 2000, 10**9])
@pytest.mark.parametrize("hide", ["nothing", "branches", "the sink", "all but the sink", "all but itself"])
def test_the_chunked_output_is_attention(hide, block_bytes):
    query, key = random_qk(7, n=11)
    value = torch.randn(2, 2, 11, 5, generator=torch.Generator().manual_seed(1))
    mask = torch.ones(11, 11).tril().bool()
    if hide == "branches":
        mask = tree_mask()
    elif hide == "the sink":
        mask[3:, 0] = False
    elif hide == "all but the sink":
        mask[4:, 1:] = False
    elif hide == "all but itself":
        mask[4:] &= torch.eye(11, dtype=torch.bool)[4:]
    expected = attention(query, key, value, 0.4, attn_mask=mask)
    options = {"value": value, "block_bytes": block_bytes}
    statistics, output = chunked_row_statistics(query, key, 0.4, mask=mask[None, None], **options)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=0)
    assert_close(statistics, brute(query, key, 0.4, mask=mask[None, None]), 1e-5)
    added = torch.zeros(1, 1, 11, 11).masked_fill(~mask, -torch.inf)
    same, biased = chunked_row_statistics(query, key, 0.4, bias=added, **options)
    torch.testing.assert_close(biased, expected, atol=1e-5, rtol=0)
    for name in (*FIELDS, "top1_mass"):
        torch.testing.assert_close(getattr(same, name), getattr(statistics, name), equal_nan=True)


def test_the_largest_weight_is_that_of_the_pattern():
    query, key = random_qk(13)
    scores = (query @ key.repeat_interleave(2, 1).transpose(-1, -2) * 0.4).double()
    pattern = scores.masked_fill(torch.ones(13, 13).triu(1).bool(), -torch.inf).softmax(-1)
    torch.testing.assert_close(chunked(query, key, 0.4).top1_mass.double(), pattern.amax(-1), atol=1e-5, rtol=0)


def test_half_precision_is_measured_in_float32(statistics_of):
    query, key = random_qk(8, n=30)
    query, key = query.bfloat16(), key.bfloat16()
    statistics = statistics_of(query, key, 0.4)
    assert statistics.entropy.dtype == torch.float32
    assert_close(statistics, brute(query, key, 0.4), 1e-4)


def test_the_choice_of_path_says_why():
    query, key = random_qk(9)
    assert "CPU" in choose_computation(query, key).reason
    assert "capped" in choose_computation(query, key, softcap=30.0).reason
    assert "bias" in choose_computation(query, key, bias=torch.zeros(1, 1, 13, 13)).reason
    assert "single" in choose_computation(query[:, :, :1], key[:, :, :1]).reason
    meta = choose_computation(query.to("meta"), key.to("meta"))
    assert meta.name == "chunked"
    assert "meta" in meta.reason


class OnGpu(torch.Tensor):
    """A tensor that says it is on a GPU, which this machine may not have: enough for choosing."""

    device = torch.device("cuda")


def test_on_a_gpu_the_fused_path_is_taken_where_it_is_exact():
    query, key = (tensor.as_subclass(OnGpu) for tensor in random_qk(9))
    assert choose_computation(query, key).name == "fused"
    assert "causal" in choose_computation(query, key, mask=torch.ones(1, 1, 13, 13).bool().tril()).reason


def test_on_a_gpu_half_precision_goes_to_the_kernel_and_else_to_blocks(monkeypatch):
    query, key = (tensor.bfloat16().as_subclass(OnGpu) for tensor in random_qk(9))
    mask = torch.ones(1, 1, 13, 13).bool().tril()
    capability = (9, 0)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "triton" or None)
    for options in ({}, {"mask": mask}, {"softcap": 30.0}, {"quantities": ("top1_mass",)}):
        assert choose_computation(query, key, **options).name == "kernel"
    assert choose_computation(query[:, :, :3].half(), key.half()).name == "kernel"
    for options in ({"bias": torch.zeros(1, 1, 13, 13)}, {"sinks": torch.zeros(4)}):
        assert choose_computation(query, key, **options).name == "chunked"
    capability = (7, 5)
    assert "8.0, this GPU has 7.5" in choose_computation(query, key).reason
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "triton is not installed" in choose_computation(query, key).reason
    wide = torch.zeros(1, 1, 4, 320, dtype=torch.bfloat16).as_subclass(OnGpu)
    assert "up to 256 numbers" in choose_computation(wide, wide).reason
    monkeypatch.setenv("COTLENS_KERNEL", "0")
    assert "COTLENS_KERNEL" in choose_computation(query, key).reason


@given(shift=st.floats(-50, 50), seed=st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_a_constant_added_to_every_key_changes_nothing(shift, seed):
    query, key = random_qk(seed, n=20)
    before, after = fused_row_statistics(query, key, 0.3), fused_row_statistics(query, key + shift, 0.3)
    torch.testing.assert_close(before.entropy, after.entropy, atol=2e-3, rtol=0)
