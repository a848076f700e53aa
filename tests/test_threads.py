"""Does the number of threads matter? Only to rounding; the tolerance stands here.

The order of additions in a matrix product depends on the threads. A forward pass differs by 1e-5 at most, a training
run of 100 steps by 1e-3 of its loss.
"""

import pytest
import torch

from hf_analysis.measurement.measure import measure
from hf_analysis.models.loading import load_model
from hf_analysis.text.problems import load_problems
from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.training import TrainConfig, train
from toy_models.parity.task import Parity

FORWARD, TRAINED = 1e-5, 1e-3


@pytest.fixture
def with_threads():
    """Runs a function with one thread and with two."""
    before = torch.get_num_threads()

    def both(function):
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(function())
        return results

    yield both
    torch.set_num_threads(before)


def test_entropies_depend_on_threads_only_by_rounding(with_threads, tmp_path):
    model = load_model("builtin", device="cpu", dtype="float32")
    problems = load_problems("builtin", limit=2)

    def measured():
        return measure(model, problems, ["cot"], tmp_path / str(torch.get_num_threads()))["value"].to_numpy()

    one, two = with_threads(measured)
    assert abs(one - two).max() <= FORWARD


def test_training_depends_on_threads_only_by_rounding(with_threads):
    config = TrainConfig(budget=25_600, eval_every=6_400, n_validation=64, n_test=64, batch_size=256, lr=1e-3)

    def losses():
        result = train(Parity(n=16, k=2), DecoderConfig(d_model=64), config)
        return torch.tensor([evaluation.loss for evaluation in result.history])

    one, two = with_threads(losses)
    assert len(one) == len(two) >= 2
    assert torch.allclose(one, two, rtol=TRAINED, atol=0)
