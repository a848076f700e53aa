"""Checkpoints of a training run: whatever is damaged or of another run is refused by name."""

import dataclasses
import json
import struct

import pytest

from probes.base import checkpoint
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.forward import next_token_logits
from toy_models.engine.training import TrainConfig, Trainer, train
from toy_models.parity.task import Parity

TASK, DECODER = Parity(n=6, k=2), DecoderConfig(1, 1, 8)
CONFIG = TrainConfig(batch_size=16, budget=128, eval_every=32, n_validation=8, n_test=8, lr=1e-3)


@pytest.fixture
def saved(tmp_path):
    """A checkpoint in the middle of a run."""
    path = tmp_path / "checkpoint.safetensors"
    trainer = Trainer(TASK, DECODER, CONFIG)
    trainer.evaluate()
    trainer.train_until_evaluation()
    trainer.evaluate()
    trainer.save(path)
    return path


def header_length(data: bytes) -> int:
    return 8 + struct.unpack("<Q", data[:8])[0]


def rewritten(path, change_tensors=lambda t: None, change_state=lambda s: None) -> None:
    tensors, state = checkpoint.load(path)
    change_tensors(tensors)
    change_state(state)
    checkpoint.save(path, tensors, state)


def assert_refused_and_kept(path, message: str, config: TrainConfig = CONFIG, decoder=DECODER, task=TASK) -> None:
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message) as refusal:
        train(task, decoder, config, path, checkpoint_seconds=0.0)
    assert str(path) in str(refusal.value)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_a_state_that_json_cannot_hold_keeps_the_old_file(saved):
    before = saved.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        checkpoint.save(saved, {}, {"loss": float("nan")})
    assert saved.read_bytes() == before


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused(share, saved):
    data = saved.read_bytes()
    saved.write_bytes(data[: int(share * len(data))])
    assert_refused_and_kept(saved, "damaged or not a checkpoint")


def test_other_files_are_refused(saved):
    for content in (b"hello", b"\x00" * 1000, b"\xff" * 1000, json.dumps({"a": 1}).encode()):
        saved.write_bytes(content)
        assert_refused_and_kept(saved, "damaged or not a checkpoint")


@pytest.mark.parametrize("bit", [0, 3, 5, 7])
def test_a_flipped_bit_anywhere_is_refused(bit, saved):
    data, path = saved.read_bytes(), saved.with_name("flipped")
    header = header_length(data)
    padding = len(data[:header]) - len(data[:header].rstrip(b" "))
    for place in [*range(0, header - padding, 41), *range(header, len(data), 997)]:
        path.write_bytes(data[:place] + bytes([data[place] ^ (1 << bit)]) + data[place + 1 :])
        with pytest.raises(ValueError, match=f"{path} is damaged"):
            checkpoint.load(path)


@pytest.mark.parametrize("place", [0, 5, 8, 9])
def test_a_flipped_bit_in_the_header_frame_is_refused(place, saved):
    data = saved.read_bytes()
    saved.write_bytes(data[:place] + bytes([data[place] ^ 0x41]) + data[place + 1 :])
    assert_refused_and_kept(saved, "damaged or not a checkpoint")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"config": TrainConfig(**{**CONFIG.__dict__, "lr": 2e-3})}, "lr: 0.001 there, 0.002 here"),
        ({"config": TrainConfig(**{**CONFIG.__dict__, "seed": 1})}, "seed: 0 there, 1 here"),
        ({"config": TrainConfig(**{**CONFIG.__dict__, "budget": 256})}, "budget: 128 there, 256 here"),
        ({"decoder": DecoderConfig(1, 2, 8)}, "n_heads: 1 there, 2 here"),
        ({"task": Parity(n=6, k=2, cot=False)}, "cot: True there, False here"),
        ({"task": Parity(n=6, k=2, secret_seed=1)}, "secret"),
    ],
    ids=lambda x: "" if isinstance(x, dict) else x.split(":")[0],
)
def test_a_checkpoint_of_another_configuration_is_refused(changes, named, saved):
    assert_refused_and_kept(saved, f"holds another run.*{named}", **changes)


def given(n_heads: int = 2, **settings: float | str):
    """A decoder built elsewhere, whose weights have the same shapes whatever is set."""
    model = hooked_decoder(DecoderConfig(1, n_heads, 8), TASK.d_vocab, TASK.n_ctx, seed=0)
    for name, value in settings.items():
        setattr(model.cfg, name, value)
    return model


@pytest.mark.parametrize(
    ("settings", "read", "named"),
    [
        ({"n_heads": 4}, next_token_logits, "d_head: 4 there, 2 here; n_heads: 2 there, 4 here"),
        ({"eps": 1e-2}, next_token_logits, "eps: 1e-05 there, 0.01 here"),
        ({"act_fn": "relu"}, next_token_logits, "act_fn: 'gelu_new' there, 'relu' here"),
        ({}, lambda output, positions: -output[:, positions], "read: None there, '.*lambda.*' here"),
    ],
    ids=["n_heads", "eps", "act_fn", "read"],
)
def test_a_checkpoint_of_a_model_that_computes_otherwise_is_refused(settings, read, named, tmp_path):
    path, config = tmp_path / "c", dataclasses.replace(CONFIG, budget=32)
    done = train(TASK, given(), config, path)
    assert train(TASK, given(), config, path).history == done.history
    with pytest.raises(ValueError, match=f"holds another run.*{named}"):
        train(TASK, given(**settings), config, path, read=read)


@pytest.mark.parametrize("name", ["model.embed.weight", "generator.data", "generator.dropout"])
def test_a_missing_tensor_is_refused(name, saved):
    rewritten(saved, change_tensors=lambda t: t.pop(name))
    assert_refused_and_kept(saved, "incomplete")


@pytest.mark.parametrize("name", ["samples", "history"])
def test_a_missing_part_of_the_state_is_refused(name, saved):
    rewritten(saved, change_state=lambda s: s.pop(name))
    assert_refused_and_kept(saved, "incomplete")
