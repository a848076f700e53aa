"""The patching bench compares the same numbers, and its records are complete. Nothing is timed here."""

import pytest
import torch

from interp.bench import patching
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.parity.task import Parity

TINY = DecoderConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=32, init_std=0.3)


def test_both_contenders_find_the_same_margins():
    task = Parity(n=6, k=2)
    model = hooked_decoder(TINY, task.d_vocab, task.n_ctx, seed=0)
    batched, looped = patching.contenders(task, model, 5)
    assert batched().shape == (4, 5)
    assert torch.allclose(batched(), looped(), atol=1e-5)
    assert batched().std(0).min() > 0, "the heads do not differ"


def test_records_name_the_peer_and_the_ratio():
    (record,) = patching.run(batches=(4,), decoder=TINY, turns=1, n=6, k=2)
    assert record["heads"] == 4
    assert set(record["ms"]) == {"batched", "TransformerLens loop"}
    assert record["ratio"] > 0


def test_contenders_that_differ_are_refused(monkeypatch):
    monkeypatch.setattr(patching, "AGREE", -1.0)
    with pytest.raises(ValueError, match="the contenders differ"):
        next(patching.run(batches=(4,), decoder=TINY, turns=1, n=6, k=2))
