"""Training: it learns, it stops where it should, and a run that was interrupted ends with the same bits."""

import dataclasses
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from interp.cli import main
from probes.base import checkpoint
from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.forward import Dropout, HookedForward
from toy_models.engine.training import TrainConfig, Trainer, TrainingDiverged, train
from toy_models.engine.weights import weights
from toy_models.parity.task import Parity

TASK, DECODER = Parity(n=7, k=2), DecoderConfig(1, 2, 16)
CONFIG = TrainConfig(
    batch_size=32, budget=512, eval_every=64, n_validation=16, n_test=16, lr=3e-3, stop_when_perfect=False, seed=5
)
KINDS = {
    "one-pass": CONFIG,
    "multi-pass": dataclasses.replace(CONFIG, dataset_size=50),
    "attention dropout": dataclasses.replace(CONFIG, dropout=Dropout(attention=0.2)),
    "embedding dropout": dataclasses.replace(CONFIG, dropout=Dropout(attention=0.1, embedding=0.2, residual=0.1)),
}


def state_of(trainer: Trainer) -> dict[str, torch.Tensor]:
    """Every tensor that decides how the run goes on."""
    state = {f"model.{name}": tensor for name, tensor in weights(trainer.model).items()}
    for index, adam in trainer.optimiser.state_dict()["state"].items():
        state |= {f"adam.{index}.{name}": tensor for name, tensor in adam.items()}
    return state | {"data": trainer.data.get_state(), "noise": trainer.noise.get_state()}


def assert_same_bits(a: Trainer, b: Trainer) -> None:
    assert a.samples == b.samples
    assert a.history == b.history
    first, second = state_of(a), state_of(b)
    assert first.keys() == second.keys()
    assert len(first) > 3 * len(weights(a.model))
    for name in first:
        assert torch.equal(first[name], second[name]), name


def finished(trainer: Trainer) -> Trainer:
    if not trainer.history:
        trainer.evaluate()
    while not trainer.finished:
        trainer.train_until_evaluation()
        trainer.evaluate()
    return trainer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_layers", [1, 2])
def test_stopped_anywhere_and_resumed_gives_the_same_bits(n_layers, kind, tmp_path):
    decoder = DecoderConfig(n_layers, 2, 16)
    trainer = Trainer(TASK, decoder, KINDS[kind])
    assert sum(p.numel() for p in trainer.model.parameters()) < 8000
    trainer.evaluate()
    trainer.save(tmp_path / "0")
    while not trainer.finished:
        trainer.train_until_evaluation()
        trainer.evaluate()
        trainer.save(tmp_path / str(len(trainer.history) - 1))
    assert len(trainer.history) == 9
    for stopped_after in (0, 1, 4, 7, 8):
        resumed = Trainer(TASK, decoder, KINDS[kind])
        resumed.restore(tmp_path / str(stopped_after))
        assert len(resumed.history) == stopped_after + 1
        assert_same_bits(finished(resumed), trainer)


def test_resuming_often_gives_the_same_bits(tmp_path):
    straight = finished(Trainer(TASK, DECODER, CONFIG))
    trainer = Trainer(TASK, DECODER, CONFIG)
    trainer.evaluate()
    while not trainer.finished:
        trainer.train_until_evaluation()
        trainer.evaluate()
        trainer.save(tmp_path / "c")
        trainer = Trainer(TASK, DECODER, CONFIG)
        trainer.restore(tmp_path / "c")
    assert_same_bits(trainer, straight)


@pytest.mark.parametrize("stop_at", [1, 3, 6])
def test_an_interrupted_train_goes_on_from_its_checkpoint(stop_at, tmp_path):
    def interrupt(evaluation) -> None:
        if evaluation.samples == stop_at * 64:
            raise KeyboardInterrupt

    path = tmp_path / "c"
    with pytest.raises(KeyboardInterrupt):
        train(TASK, DECODER, CONFIG, path, checkpoint_seconds=0.0, on_evaluation=interrupt)
    assert path.exists() == (stop_at > 1)  # the evaluation at which it is interrupted is not saved yet
    seen = []
    resumed = train(TASK, DECODER, CONFIG, path, on_evaluation=lambda e: seen.append(e.samples))
    assert seen == list(range((stop_at if stop_at > 1 else 0) * 64, 513, 64))
    straight = train(TASK, DECODER, CONFIG)
    assert resumed.history == straight.history
    assert (resumed.test_accuracy, resumed.rollout_accuracy) == (straight.test_accuracy, straight.rollout_accuracy)
    first, second = weights(resumed.model), weights(straight.model)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_a_finished_run_does_nothing_more(tmp_path):
    path, seen = tmp_path / "c", []
    first = train(TASK, DECODER, CONFIG, path)
    again = train(TASK, DECODER, CONFIG, path, on_evaluation=seen.append)
    assert seen == []
    assert again.history == first.history
    assert again.test_accuracy == first.test_accuracy


def test_the_seed_decides_the_run_and_the_global_generator_does_not():
    torch.manual_seed(0)
    a = train(TASK, DECODER, CONFIG)
    torch.manual_seed(1)
    before = torch.get_rng_state()
    b = train(TASK, DECODER, CONFIG)
    assert torch.equal(torch.get_rng_state(), before)
    assert a.history == b.history
    assert train(TASK, DECODER, dataclasses.replace(CONFIG, seed=6)).history != a.history


@pytest.mark.parametrize("cot", [True, False], ids=["cot", "no_cot"])
@pytest.mark.parametrize("dataset_size", [0, 200], ids=["one-pass", "multi-pass"])
def test_one_secret_bit_is_learned(cot, dataset_size):
    config = TrainConfig(
        lr=3e-3, batch_size=128, budget=30_000, eval_every=1024, n_validation=16, n_test=16, dataset_size=dataset_size
    )
    result = train(Parity(n=8, k=1, cot=cot), DecoderConfig(1, 1, 32, 64), config)
    assert result.history[0].accuracy < 1
    assert result.history[-1].accuracy == result.test_accuracy == result.rollout_accuracy == 1
    assert result.sample_complexity == result.samples < 30_000
    assert result.path.startswith("sparse")


def test_a_chain_is_learned_and_attention_finds_its_bits():
    config = TrainConfig(lr=1e-3, batch_size=256, budget=60_000, n_validation=64, n_test=64, seed=2)
    result = train(Parity(n=10, k=2), DecoderConfig(1, 1, 64, 128, init_std=0.1), config)
    assert result.test_accuracy > 0.9
    assert result.history[-1].entropies[0][0] < 0.5 * result.history[0].entropies[0][0]


def test_sample_complexity_is_the_first_perfect_evaluation():
    config = TrainConfig(
        lr=3e-3, batch_size=128, budget=8192, eval_every=512, n_validation=16, n_test=16, stop_when_perfect=False
    )
    task, decoder = Parity(n=8, k=1), DecoderConfig(1, 1, 32, 64)
    whole = train(task, decoder, config)
    perfect = [e.samples for e in whole.history if e.accuracy == 1]
    assert whole.samples == 8192 > perfect[0] == whole.sample_complexity
    stopping = train(task, decoder, dataclasses.replace(config, stop_when_perfect=True))
    assert stopping.sample_complexity == stopping.samples == whole.sample_complexity
    assert stopping.history == tuple(e for e in whole.history if e.samples <= stopping.samples)


def test_a_run_out_of_budget_has_no_sample_complexity():
    result = train(Parity(n=10, k=4, cot=False), DECODER, dataclasses.replace(CONFIG, stop_when_perfect=True))
    assert result.sample_complexity is None
    assert result.samples == CONFIG.budget


@pytest.mark.parametrize("kind", ["one-pass", "multi-pass"])
@pytest.mark.parametrize("budget", [1, 31, 100, 500])
def test_the_budget_is_met_exactly(budget, kind):
    trainer = finished(Trainer(TASK, DECODER, dataclasses.replace(KINDS[kind], budget=budget)))
    assert trainer.samples == trainer.history[-1].samples == budget


@pytest.mark.parametrize(
    ("eval_every", "expected"), [(64, [0, 64, 128, 192, 200]), (48, [0, 64, 96, 160, 192, 200]), (1000, [0, 200])]
)
def test_evaluations_come_at_the_first_step_past_each_multiple(eval_every, expected):
    config = dataclasses.replace(CONFIG, budget=200, eval_every=eval_every)
    assert [e.samples for e in finished(Trainer(TASK, DECODER, config)).history] == expected


def test_an_evaluation_changes_nothing():
    trainer = Trainer(TASK, DECODER, KINDS["embedding dropout"])
    trainer.evaluate()
    trainer.train_until_evaluation()
    before = {name: tensor.clone() for name, tensor in state_of(trainer).items()}
    first = trainer.evaluate()
    second = trainer.evaluate()
    assert dataclasses.replace(first, train_loss=0.0) == dataclasses.replace(second, train_loss=0.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in state_of(trainer).items())


def test_what_an_evaluation_reports():
    trainer = finished(Trainer(TASK, DecoderConfig(2, 2, 16), CONFIG))
    validation, last = trainer.held_out.validation, trainer.history[-1]
    with torch.no_grad():
        logits = trainer.model(validation.inputs)[:, validation.supervised]
    right = logits.argmax(-1) == validation.answers
    assert last.accuracy == right.all(-1).double().mean().item()
    assert last.token_accuracy == right.double().mean().item()
    assert last.loss == pytest.approx(F.cross_entropy(logits.flatten(0, 1), validation.answers.flatten()).item())
    assert [len(heads) for heads in last.entropies] == [2, 2]
    assert all(0 <= h <= 1 for heads in last.entropies for h in heads)


def test_the_loss_follows_a_plain_loop_with_the_hooked_model():
    """The independent implementation: torch's Adam, the full forward, the learning rate written out."""
    trainer, reference = Trainer(TASK, DECODER, CONFIG), Trainer(TASK, DECODER, CONFIG)
    trainer.evaluate()
    adam = torch.optim.Adam(reference.model.parameters(), lr=1.0, betas=(0.9, 0.999), weight_decay=0.0)
    forward = HookedForward(reference.model)
    for step in range(10):
        batch = reference._next_batch()
        adam.param_groups[0]["lr"] = 3e-3 * (1 - 32 * step / 512)
        loss = F.cross_entropy(forward(batch.inputs, batch.supervised).flatten(0, 1), batch.answers.flatten())
        adam.zero_grad()
        loss.backward()
        adam.step()
        trainer._update(trainer._next_batch())
        assert trainer.losses[-1] == pytest.approx(loss.item(), abs=1e-4)


def test_the_learning_rate_falls_linearly_to_zero():
    trainer = Trainer(TASK, DECODER, CONFIG)
    trainer.evaluate()
    rates = []
    while trainer.samples < CONFIG.budget:
        trainer._update(trainer._next_batch())
        rates.append(trainer.optimiser.param_groups[0]["lr"])
    assert rates == pytest.approx([3e-3 * (1 - i / 16) for i in range(16)])


def test_a_run_that_its_budget_ends_is_the_beginning_of_a_longer_one():
    long = finished(Trainer(TASK, DECODER, CONFIG))
    cut = finished(Trainer(TASK, DECODER, dataclasses.replace(CONFIG, budget=256, decay_over=512)))
    assert cut.history == long.history[: len(cut.history)]
    own_schedule = finished(Trainer(TASK, DECODER, dataclasses.replace(CONFIG, budget=256)))
    assert own_schedule.history != cut.history
    with pytest.raises(ValueError, match=r"decay_over must be 0 .* or at least the budget of 512, got 256"):
        dataclasses.replace(CONFIG, decay_over=256)


def test_clipping_bounds_the_norm_of_all_gradients_together():
    def gradient(clip: float) -> torch.Tensor:
        trainer = Trainer(TASK, DECODER, dataclasses.replace(CONFIG, clip=clip))
        trainer.evaluate()
        trainer._update(trainer._next_batch())
        return torch.cat([p.grad.flatten() for p in trainer.model.parameters() if p.grad is not None])

    free = gradient(0.0)
    assert gradient(2 * free.norm().item()).equal(free)
    clipped = gradient(free.norm().item() / 4)
    assert torch.allclose(clipped, free / 4, rtol=1e-4)
    with pytest.raises(ValueError, match="clip must be 0"):
        dataclasses.replace(CONFIG, clip=-1.0)


def test_multi_pass_sees_every_sample_once_per_epoch_in_a_new_order():
    trainer = Trainer(TASK, DECODER, KINDS["multi-pass"])
    trainer.evaluate()
    seen = []
    while trainer.samples < 150:
        batch = trainer._next_batch()
        seen += [tuple(row) for row in batch.inputs.tolist()]
        trainer._update(batch)
    assert trainer.dataset is not None
    dataset = sorted(tuple(row) for row in trainer.dataset.inputs.tolist())
    epochs = [seen[0:50], seen[50:100], seen[100:150]]
    assert [sorted(epoch) for epoch in epochs] == [dataset] * 3
    assert epochs[0] != epochs[1] != epochs[2]


def test_one_pass_draws_fresh_samples():
    trainer = Trainer(Parity(n=30, k=2), DECODER, CONFIG)
    drawn = torch.cat([trainer._next_batch().inputs for _ in range(20)])
    assert len(drawn.unique(dim=0)) == 640


@pytest.mark.parametrize("kind", ["embedding", "residual"])
def test_training_by_the_hooked_forward_says_why(kind):
    result = train(TASK, DecoderConfig(2, 2, 16), dataclasses.replace(CONFIG, dropout=Dropout(**{kind: 0.1})))
    assert result.path.startswith("hooked: ")
    assert "dropout" in result.path
    assert result.history[-1].loss < result.history[0].loss


@pytest.mark.parametrize("lr", [1e6, 1e30])
def test_a_diverging_run_stops_and_keeps_its_last_good_checkpoint(lr, tmp_path):
    path, config = tmp_path / "c", dataclasses.replace(CONFIG, lr=lr)
    good = Trainer(TASK, DECODER, config)
    good.evaluate()
    good.save(path)
    before = path.read_bytes()
    with pytest.raises(TrainingDiverged, match=r"loss is .* samples: training diverged; lower lr \(now 1e\+"):
        train(TASK, DECODER, config, path, checkpoint_seconds=0.0)
    assert path.read_bytes() == before
    again = Trainer(TASK, DECODER, config)
    again.restore(path)
    assert all(tensor.isfinite().all() for tensor in weights(again.model).values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": -5}, "budget must be at least 1, got -5"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        ({"eval_every": 0}, "eval_every must be at least 1"),
        ({"n_validation": 0}, "n_validation must be at least 1"),
        ({"dataset_size": -1}, "dataset_size must be 0"),
        ({"lr": 0.0}, "lr must be a positive number"),
        ({"lr": float("nan")}, "lr must be a positive number"),
        ({"lr": float("inf")}, "lr must be a positive number"),
    ],
    ids=str,
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**options)


COMMAND = [
    "train", "parity", "--n", "10", "--k", "2", "--no-cot", "--d-model", "32", "--budget", "40000",
    "--eval-every", "512", "--batch-size", "64", "--n-validation", "64", "--n-test", "64", "--no-stop-when-perfect",
]  # fmt: skip


@pytest.mark.slow
def test_a_killed_command_resumed_equals_one_never_interrupted(tmp_path, capsys):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-m", "interp.cli", *COMMAND, "--checkpoint-seconds", "0", "--out", str(killed)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    path, deadline = killed / "checkpoint.safetensors", time.monotonic() + 600
    while not (path.exists() and _samples(path) >= 4_000):
        assert time.monotonic() < deadline
        assert process.poll() is None, "the command ended before it could be killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait(120) == -signal.SIGKILL
    assert 4_000 <= _samples(path) < 40_000
    assert main([*COMMAND, "--out", str(killed), "--resume"]) == 0
    assert main([*COMMAND, "--out", str(whole)]) == 0
    for name in ("rows.parquet", "model.safetensors", "checkpoint.safetensors"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    configs = [json.loads((run / "config.json").read_text())["config"] for run in (killed, whole)]
    assert configs[0] == configs[1]


def _samples(path: Path) -> int:
    return checkpoint.load(path)[1]["samples"]
