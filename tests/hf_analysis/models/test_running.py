"""Rows that join, leave and grow: the layer against rows kept apart, and the batch against the model itself."""

import pytest
import torch
from torch import Tensor

from hf_analysis.models.decoding import ROOM, RoomyLayer, grouped_attention, split_logits
from hf_analysis.models.running import RunningBatch
from tests.hf_analysis.tiny_models import VOCABULARY, build, loaded


def draw(stream: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=stream)


@pytest.mark.parametrize("seed", range(4))
def test_a_layer_holds_what_rows_kept_apart_hold(seed):
    stream = torch.Generator().manual_seed(seed)
    layer, keys, values = RoomyLayer(5), [], []
    for step in range(ROOM + 60):
        if len(keys) < 5 and step % 7 == 0:
            n, length = min(2, 5 - len(keys)), int(torch.randint(1, 40 + step, (), generator=stream))
            new_keys, new_values = draw(stream, n, 2, length, 3), draw(stream, n, 2, length, 4)
            layer.join(new_keys, new_values)
            keys, values = [*keys, *new_keys], [*values, *new_values]
        new_keys, new_values = draw(stream, len(keys), 2, 1, 3), draw(stream, len(keys), 2, 1, 4)
        seen = layer.update(new_keys, new_values)
        keys = [torch.cat(pair, dim=1) for pair in zip(keys, new_keys)]
        values = [torch.cat(pair, dim=1) for pair in zip(values, new_values)]
        if step % 5 == 4:  # the last row takes the place of a random one
            gone = int(torch.randint(len(keys), (), generator=stream))
            kept = [*range(gone), len(keys) - 1, *range(gone + 1, len(keys) - 1)][: len(keys) - 1]
            layer.batch_select_indices(torch.tensor(kept))
            keys, values = [keys[i] for i in kept], [values[i] for i in kept]
            longest = max((row.shape[1] for row in keys), default=0)
            layer.forget(layer.get_seq_length() - longest if keys else layer.stop - layer.start)
            seen = layer.keys, layer.values
        width = seen[0].shape[2]
        for row, (key, value) in enumerate(zip(keys, values)):
            assert torch.equal(seen[0][row, :, width - key.shape[1] :], key)
            assert torch.equal(seen[1][row, :, width - value.shape[1] :], value)
        assert all(bool(held.isfinite().all()) for held in seen)


def test_what_nobody_reads_is_forgotten_and_what_all_begin_with_is_read_once():
    model = loaded(build("llama"))
    beginning = list(range(1, 13))
    prompts = [[*beginning, *range(20 + n, 20 + 2 * n)] for n in (30, 2, 5)]
    with torch.inference_mode(), grouped_attention(model.model):
        running = RunningBatch(model, 2, prompts)
        assert running.n_shared == len(beginning)
        order, logits = running.join(prompts[:2])
        assert order == [0, 1]
        assert running.room == 0
        for _ in range(3):
            logits = running.step(logits.argmax(-1))
        running.keep([1])
        assert running.mask.shape[1] <= 12 + 2 + 3 + 28  # of the long prompt only the gap of the short one is left
        running.keep([])
        assert running.mask.shape == (0, 0)
        _, logits = running.join(prompts[2:])
        assert running.mask.tolist() == [[1] * 17]
        expected = model.model(input_ids=torch.tensor([prompts[2]])).logits[:, -1]
    torch.testing.assert_close(logits, expected)


def test_equal_prompts_are_read_once(monkeypatch):
    model = loaded(build("qwen2"))
    first, second = [1, 2, 3, 4], [5, 6]
    with torch.inference_mode():
        running = RunningBatch(model, 5, [first, second])
        read = []
        forward = running._forward
        monkeypatch.setattr(running, "_forward", lambda ids, *rest: read.append(ids.shape) or forward(ids, *rest))
        order, logits = running.join([second, first, second, first, second])
        assert read == [(2, 4)]
        assert order == [1, 3, 0, 2, 4]
        more = running.step(torch.tensor([7, 8, 7, 8, 9]))
        for row, (prompt, token) in enumerate(zip([first, first, second, second, second], [7, 8, 7, 8, 9])):
            expected = model.model(input_ids=torch.tensor([[*prompt, token]])).logits[0]
            torch.testing.assert_close(logits[row], expected[-2], atol=1e-4, rtol=1e-4)
            torch.testing.assert_close(more[row], expected[-1], atol=1e-4, rtol=1e-4)


def test_a_model_that_forgets_keeps_its_own_cache_and_takes_rows_when_all_have_left():
    model = loaded(build("mistral"))
    with torch.inference_mode():
        running = RunningBatch(model, 3, [[1, 2, 3]] * 3)
        assert not any(isinstance(layer, RoomyLayer) for layer in running.cache.layers)
        running.join([[1, 2, 3]] * 2)
        assert running.room == 0
        running.keep([])
        assert running.room == 3


def test_logits_in_parts_are_the_logits(monkeypatch):
    model = build("llama")
    head, hidden = model.get_output_embeddings(), torch.randn(3, 1, 48)
    monkeypatch.setattr("hf_analysis.models.decoding.PART", 48 * 4 * 37)  # 300 tokens in parts of 37
    expected = head(hidden)
    with split_logits(model):
        assert "forward" in vars(head)
        torch.testing.assert_close(head(hidden), expected)
        assert head(hidden).shape[-1] == VOCABULARY
    assert "forward" not in vars(head)
