"""The sweep bench compares like with like: both evaluations find the same. Nothing is timed here."""

import pytest
import torch

from interp.bench import sweep
from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.evaluation import teacher_forced_logits
from toy_models.engine.training import TrainConfig, Trainer
from toy_models.parity.task import Parity


def small(seed: int) -> TrainConfig:
    return TrainConfig(
        seed=seed, batch_size=16, eval_every=32, budget=128, n_validation=600, n_test=8, entropy_inputs=300
    )


@pytest.mark.parametrize("n_layers", [1, 3])
@pytest.mark.parametrize("d_model", [16, 96], ids=["vectors", "coefficients"])
def test_both_evaluations_find_the_same(n_layers, d_model):
    run = Trainer(Parity(n=12, k=2), DecoderConfig(n_layers, 2, d_model, 32), small(0), device="cpu")
    run.evaluate()
    run.train_until_evaluation()
    logits, entropies = sweep.apart(run)
    torch.testing.assert_close(teacher_forced_logits(run.eval_forward, run.held_out.validation), logits)
    torch.testing.assert_close(torch.tensor(run.evaluate().entropies), entropies)


def test_a_record_has_both_speeds_and_their_ratio():
    sizes = (DecoderConfig(1, 2, 16, 32),)
    found = list(sweep.run(n=12, k=2, seeds=2, sizes=sizes, config=small))
    assert [record["condition"] for record in found] == ["cot", "no_cot"]
    for record in found:
        assert record["seeds"] == 2
        assert all(speed > 0 for speed in record["samples_per_second"].values())
        assert record["ratio"] > 0
