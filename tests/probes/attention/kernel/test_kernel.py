"""The kernel, run by Triton's interpreter, against blocks of scores and against whole patterns in float64.

The interpreter takes a millisecond for every operation on a tile: texts are short, and tiles as small as they can be.
"""

import pytest
import torch

from probes.attention.check import VALUES, explicit
from probes.attention.chunked import chunked_row_statistics
from probes.attention.groups import group_mass
from probes.attention.kernel.launch import kernel_group_mass, kernel_row_statistics, shifted_keys
from probes.attention.kernel.tiles import Sizes, group_ranges, tile_lists

pytestmark = [
    pytest.mark.usefixtures("interpreted"),
    pytest.mark.filterwarnings("ignore:overflow encountered in exp2"),  # infinite odds are meant
]
SMALL = Sizes(rows=16, keys=16, warps=4, stages=2)
ROUNDING = {torch.float32: 1e-5, torch.float16: 2**-10, torch.bfloat16: 2**-7}  # of the largest value, in the output


def inputs(n=37, n_queries=None, d=16, d_value=16, batch=1, heads=1, kv_heads=1, dtype=torch.bfloat16, bias=0.0):
    generator = torch.Generator().manual_seed(0)

    def random(*shape):
        return torch.randn(*shape, generator=generator)

    query = 2 * random(batch, n if n_queries is None else n_queries, heads, d).transpose(1, 2)  # as models have them
    key = 2 * random(batch, kv_heads, n, d) + bias * random(1, kv_heads, 1, d)
    return query.to(dtype), key.to(dtype), random(batch, kv_heads, n, d_value).to(dtype)


def assert_same(found, expected, tolerance=1e-5):
    for name in VALUES:
        got, wanted = getattr(found, name).double(), getattr(expected, name).double()
        torch.testing.assert_close(got, wanted, atol=tolerance, rtol=0, equal_nan=True, msg=f"{name} differs")
    assert torch.equal(found.n_visible, expected.n_visible)
    assert torch.equal(found.n_visible_without_sink, expected.n_visible_without_sink)


def check(query, key, value, tolerance=1e-5, sizes=SMALL, **options):
    """Statistics and output against both oracles."""
    found, output = kernel_row_statistics(query, key, 0.3, value=value, sizes=sizes, **options)
    assert found.entropy.dtype == torch.float32
    assert output.dtype == query.dtype
    for oracle in (chunked_row_statistics, explicit):
        expected, product = oracle(query, key, 0.3, value=value, **options)
        assert_same(found, expected, tolerance)
        allowed = ROUNDING[query.dtype] * float(value.abs().max())
        torch.testing.assert_close(output.double(), product.double(), atol=allowed, rtol=0)
    return found


def window(n, width):
    return torch.ones(n, n, dtype=torch.bool).tril().triu(1 - width)[None, None]


def packed(n, n_root, n_first):
    """Two continuations of one question, as `hf_analysis.attention.layout.batch` has them."""
    mask = torch.ones(n, n, dtype=torch.bool).tril()
    mask[n_root + n_first :, n_root : n_root + n_first] = False
    return mask[None, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("n", [1, 2, 16, 37])
def test_causal_attention(dtype, n):
    check(*inputs(n, dtype=dtype))


def test_heads_that_share_keys_and_texts_of_a_batch():
    check(*inputs(18, batch=2, heads=4, kv_heads=2))


@pytest.mark.parametrize(("d", "d_value"), [(8, 8), (20, 24), (64, 64), (80, 48), (128, 128), (192, 128), (256, 256)])
def test_head_sizes(d, d_value):
    check(*inputs(19, d=d, d_value=d_value))


def test_later_queries_of_a_text_whose_first_keys_are_known():
    check(*inputs(37, n_queries=7))


@pytest.mark.parametrize("mask", [window(37, 5), window(50, 20), packed(40, 5, 17), packed(37, 20, 3)])
def test_windows_and_packed_conditions(mask):
    check(*inputs(mask.shape[-1]), mask=mask)


def test_a_mask_for_each_text_with_pads_on_either_side_and_rows_that_see_nothing():
    mask = torch.ones(2, 1, 37, 37, dtype=torch.bool).tril()
    mask[0, :, :, 30:] = False  # pads on the right
    mask[1, :, :, :20] = False  # pads on the left: key 1 is hidden, and 20 queries see nothing
    found = check(*inputs(37, batch=2), mask=mask)
    assert found.entropy[1, :, :20].isnan().all()
    mask[0, :, 5:, 1:] = False  # nothing but key 1
    assert check(*inputs(37, batch=2), mask=mask).sink_mass[0, :, 5:].eq(1).all()


@pytest.mark.parametrize("mask", [None, window(37, 9)])
def test_capped_scores(mask):
    check(*inputs(37), mask=mask, softcap=3.0)


def together(n, n_root, n_first, width):
    """Two rows of a batch: a packed one with pads on its right, and one with pads on its left; both with a window."""
    mask = (packed(n, n_root, n_first) & window(n, width)).repeat(2, 1, 1, 1)
    mask[0, :, :, n - 4 :] = False
    mask[1] = window(n, width)[0]
    mask[1, :, :, :3] = False
    return mask


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_all_options_at_once_at_odd_sizes(softcap):
    """Three query heads for each key head: not every ratio is a power of two."""
    mask = together(29, 7, 11, 13)
    check(*inputs(29, batch=2, heads=6, kv_heads=2, d=72, d_value=40), mask=mask, softcap=softcap)


def test_a_large_bias_of_all_keys_costs_no_digits():
    """A bias of 300 makes scores of thousands, of which float32 knows three digits behind the point."""
    query, key, value = inputs(37, bias=300.0)
    check(query, key, value)
    for keys in (key, inputs(37)[1], inputs(37, dtype=torch.float16)[1]):
        parts, exact = shifted_keys(keys), keys.double() - keys[:, :, 1:2].double()
        assert torch.equal(parts.key.double() + parts.rest.double(), exact)
    assert parts.rest.any(), "one part does not suffice"


def test_the_entropy_without_a_sink_that_has_all_the_mass():
    query, key, value = inputs(37, dtype=torch.float16)
    key[:, :, 0] = 10 * query[:, :1].mean(2) / query.mean(2)[:, :1].norm()
    query += 30 * query.mean(2, keepdim=True)
    found = check(query, key, value, tolerance=1e-4)
    assert found.sink_mass[0, 0, -1] > 1 - 1e-7
    assert found.entropy_without_sink[0, 0, -1] > 1e-3


def test_numbers_that_are_not_finite_reach_only_those_who_see_them():
    query, key, value = inputs(37)
    clean, mixed = kernel_row_statistics(query, key, 0.3, value=value, sizes=SMALL)
    key[:, :, 20, 3] = torch.inf
    value[:, :, 25, 0] = torch.nan
    found, output = kernel_row_statistics(query, key, 0.3, value=value, sizes=SMALL)
    assert torch.equal(found.entropy[:, :, :20], clean.entropy[:, :, :20])
    assert torch.equal(output[:, :, :20], mixed[:, :, :20])
    assert found.entropy[:, :, 20:].isnan().all()
    assert output[:, :, 20:].isnan().all()


def test_statistics_alone_and_without_the_largest_weights():
    query, key, value = inputs(37)
    whole, _ = kernel_row_statistics(query, key, 0.3, value=value, sizes=SMALL)
    alone, nothing = kernel_row_statistics(query, key, 0.3, sizes=SMALL, top1=False)
    assert nothing is None
    assert alone.top1_mass is None
    assert torch.equal(alone.entropy, whole.entropy)
    query.requires_grad_()
    with pytest.raises(ValueError, match="no gradient"):
        kernel_row_statistics(query, key, 0.3)


def test_a_gpu_for_which_it_cannot_be_built_is_told_in_one_line(monkeypatch):
    from triton.runtime.errors import OutOfResources

    from probes.attention.kernel import device

    class Refusing:
        def __getitem__(self, grid):
            def launch(**arguments):
                raise OutOfResources(200_000, 101_376, "shared memory")

            return launch

    monkeypatch.setattr(device, "attention_rows", Refusing())
    with pytest.raises(ValueError, match=r"cannot be built for cpu \(OutOfResources: .*; set COTLENS_KERNEL=0"):
        kernel_row_statistics(*inputs()[:2], 0.3)


def test_the_sizes_of_a_gpu():
    check(*inputs(150), sizes=None)


@pytest.mark.parametrize(
    "options", [{}, {"mask": window(37, 9)}, {"softcap": 3.0}, {"mask": packed(37, 9, 11)}],
    ids=["causal", "window", "capped", "packed"],
)  # fmt: skip
def test_mass_on_groups(options):
    query, key, value = inputs(37)
    groups = torch.zeros(37, 19, dtype=torch.bool)
    for i in range(18):
        groups[2 * i : 2 * i + 2, i] = True  # sentences, more than one block of them
    groups[::5, 2] = True  # a group of scattered keys, which are in others too
    found, output = kernel_group_mass(query, key, 0.3, groups, value=value, sizes=SMALL, **options)
    expected, _ = group_mass(query.double(), key.double(), 0.3, groups, **options)
    torch.testing.assert_close(found.mass.double(), expected.mass, atol=1e-6, rtol=0)
    torch.testing.assert_close(found.without_sink.double(), expected.without_sink, atol=1e-6, rtol=0)
    assert found.mass[..., 18].eq(0).all(), "an empty group"
    assert torch.equal(output, kernel_row_statistics(query, key, 0.3, value=value, sizes=SMALL, **options)[1])


@pytest.mark.parametrize("softcap", [None, 3.0])
def test_mass_on_groups_of_heads_that_share_keys_in_texts_with_pads(softcap):
    query, key, _ = inputs(29, batch=2, heads=6, kv_heads=2, d=72)
    groups = torch.zeros(29, 4, dtype=torch.bool)
    for group, (start, stop) in enumerate([(0, 3), (3, 12), (12, 13), (13, 29)]):
        groups[start:stop, group] = True
    options = {"mask": together(29, 7, 11, 13), "softcap": softcap}
    found, _ = kernel_group_mass(query, key, 0.3, groups, sizes=SMALL, **options)
    expected, _ = group_mass(query.double(), key.double(), 0.3, groups, **options)
    for name in ("mass", "without_sink"):
        got, wanted = getattr(found, name).double(), getattr(expected, name)
        torch.testing.assert_close(got, wanted, atol=1e-6, rtol=0, equal_nan=True, msg=f"{name} differs")


def test_tiles_that_nobody_sees_are_left_out():
    lists = tile_lists(window(64, 16), SMALL)
    assert lists.n_seen.tolist() == [[1, 2, 2, 2]]
    assert lists.n_whole.tolist() == [[0, 0, 0, 0]]
    lists = tile_lists(window(64, 64), SMALL)
    assert lists.n_seen.tolist() == [[1, 2, 3, 4]]
    assert lists.n_whole.tolist() == [[0, 0, 1, 2]], "neither the diagonal nor the tile of key 1"
    assert lists.tiles[0, 3].tolist() == [1, 2, 0, 3]
    lists = tile_lists(packed(64, 16, 32), SMALL)
    assert lists.tiles[0, 3, : lists.n_seen[0, 3]].tolist() == [0, 3], "the question and itself"
    groups = torch.zeros(64, 32, dtype=torch.bool)
    groups[20:40, 3] = True
    begins, ends = group_ranges(groups, SMALL)
    assert begins[0] == 1
    assert ends.tolist() == [3, 0]
