"""Checkpoints: tensors, state and an optimiser come back whole."""

import pytest
import torch

from probes.base import checkpoint


def test_tensors_and_state_come_back(tmp_path):
    tensors = {
        "float": torch.randn(3, 4, generator=torch.Generator().manual_seed(0)),
        "double": torch.tensor([1 / 3], dtype=torch.float64),
        "bytes": torch.Generator().manual_seed(1).get_state(),
        "strided": torch.arange(6).view(2, 3).T,
        "scalar": torch.tensor(7.0),
    }
    state = {"number": 0.1 + 0.2, "list": [1, [2, 3]], "text": "ü"}
    checkpoint.save(tmp_path / "c", tensors, state)
    found, found_state = checkpoint.load(tmp_path / "c")
    assert found_state == state
    assert found.keys() == tensors.keys()
    assert all(torch.equal(found[n], tensors[n]) and found[n].dtype == tensors[n].dtype for n in tensors)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        checkpoint.load(tmp_path / "nothing")


def trained(steps: int) -> tuple[torch.nn.Linear, torch.optim.Adam]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 2)
    optimiser = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(steps):
        step(layer, optimiser)
    return layer, optimiser


def step(layer: torch.nn.Linear, optimiser: torch.optim.Adam) -> None:
    optimiser.zero_grad()
    layer(torch.ones(1, 3)).square().sum().backward()
    optimiser.step()


@pytest.mark.parametrize("steps", [0, 3])
def test_an_optimiser_goes_on_where_it_stopped(steps, tmp_path):
    layer, optimiser = trained(steps)
    tensors = {**layer.state_dict(), **checkpoint.adam_tensors(optimiser)}
    checkpoint.save(tmp_path / "c", tensors, {})
    found, _ = checkpoint.load(tmp_path / "c")
    other, resumed = trained(0)
    other.load_state_dict({name: found[name] for name in ("weight", "bias")})
    checkpoint.restore_adam(resumed, found, started=steps > 0)
    step(layer, optimiser)
    step(other, resumed)
    assert torch.equal(layer.weight, other.weight)
    assert torch.equal(layer.bias, other.bias)


@pytest.mark.parametrize("lost", ["adam.0.step", "adam.1.exp_avg"])
def test_part_of_an_optimiser_is_refused(lost):
    _, optimiser = trained(1)
    tensors = checkpoint.adam_tensors(optimiser)
    del tensors[lost]
    with pytest.raises(KeyError, match="Adam's state"):
        checkpoint.restore_adam(trained(0)[1], tensors, started=True)
    with pytest.raises(KeyError, match="of 0 parameters instead of 2"):
        checkpoint.restore_adam(trained(0)[1], {}, started=True)
