"""Shared questions: a packed row gives what separate passages give, and fewer tokens are forwarded."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import LlamaConfig, MistralConfig, Qwen2Config

from hf_analysis.attention.layout import batch, packed, rows_of, sharing
from hf_analysis.attention.recorder import record
from tests.hf_analysis.tiny_models import CONFIGS, build

PASSAGES = [[5, 6, 7, 8, 9, 10, 11], [5, 6, 7, 30, 31], [5, 6, 7, 30, 40, 41, 42, 43]]
SHAREABLE = sorted(set(CONFIGS) - {"mistral", "gemma2"})


def test_a_packed_row_holds_the_root_once():
    row = packed(PASSAGES)
    assert (row.n_root, row.branches) == (3, (4, 2, 5))
    assert row.ids == (5, 6, 7, 8, 9, 10, 11, 30, 31, 30, 40, 41, 42, 43)
    for i, passage in enumerate(PASSAGES):
        assert [row.ids[j] for j in row.passage(i)] == passage


@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=9), min_size=1, max_size=5))
def test_every_passage_can_be_read_back(passages):
    for share in (True, False):
        rows = rows_of(passages, share)
        places = [(rows[0], i) for i in range(len(passages))] if len(rows) == 1 else [(row, 0) for row in rows]
        read = [[row.ids[j] for j in row.passage(i)] for row, i in places]
        assert read == passages
        assert sum(len(row.ids) for row in rows) <= sum(map(len, passages))


@given(st.lists(st.lists(st.integers(0, 2), min_size=2, max_size=9), min_size=2, max_size=4))
@settings(max_examples=60)
def test_a_token_sees_exactly_its_own_past(passages):
    passages = [[9, *passage] for passage in passages]
    row = packed(passages)
    inputs = batch([row, packed([[9, 1], [9, 2, 2]])], pad=0)
    assert inputs.mask is not None
    assert inputs.positions is not None
    for i in range(len(passages)):
        where = row.passage(i).tolist()
        for n, place in enumerate(where):
            assert inputs.mask[0, 0, place].nonzero().flatten().tolist() == where[: n + 1]
            assert inputs.positions[0, place] == n


@pytest.mark.parametrize("name", SHAREABLE)
def test_shared_equals_unshared(name):
    """Also across a batch of rows of different lengths."""
    model = build(name)
    generator = torch.Generator().manual_seed(0)
    root = torch.randint(1, 300, (20,), generator=generator).tolist()
    passages = [root + torch.randint(1, 300, (n,), generator=generator).tolist() for n in (25, 3, 14)]
    rows = [packed(passages), packed(passages[:2])]
    inputs = batch(rows, pad=0)
    together = record(model, inputs.ids, position_ids=inputs.positions, mask=inputs.mask)
    for place, row in enumerate(rows):
        for i in range(len(row.branches)):
            alone = record(model, torch.tensor([passages[i]]))
            for field in ("normalised_entropy", "normalised_entropy_without_sink", "sink_mass"):
                got = together[field][:, place][..., row.passage(i)]
                torch.testing.assert_close(got, alone[field][:, 0], atol=1e-5, rtol=0, equal_nan=True)


def test_plain_rows_need_no_mask():
    assert batch([packed([[1, 2, 3]]), packed([[4]])], pad=7).mask is None
    assert batch([packed([[1, 2, 3]]), packed([[4]])], pad=7).ids.tolist() == [[1, 2, 3], [4, 7, 7]]


def test_nothing_in_common_is_not_shared():
    assert len(rows_of([[1, 2], [3, 4]], share=True)) == 2


@pytest.mark.parametrize(
    ("config", "shared", "why"),
    [
        (LlamaConfig(), True, "once"),
        (Qwen2Config(), True, "once"),
        (MistralConfig(sliding_window=512), True, "once"),
        (MistralConfig(sliding_window=50), False, "window of 50"),
        (CONFIGS["gemma2"], False, "window of 8"),
        (LlamaConfig(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}), False, "rotary"),
    ],
)
def test_models_that_cannot_share_say_why(config, shared, why):
    possible, reason = sharing(config, 100)
    assert possible is shared
    assert why in reason
