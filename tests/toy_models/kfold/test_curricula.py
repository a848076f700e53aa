"""Do the two algorithms take the paper's gradient steps, and do they learn what the paper says?"""

import copy

import pytest
import torch
import torch.nn.functional as F

from toy_models.kfold import curricula
from toy_models.kfold.curricula import descend, examples, mixture, query_losses, snapshot, stagewise
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def task(k: int = 4, n: int = 3, seed: int = 0) -> KFold:
    return KFold(k=k, n=n, cyclic=True, hidden_seed=seed)


def closed_form_gradient(data, k: int, n: int, beta_0: float) -> torch.Tensor:
    """The gradient of stage 1 at zero initialisation, query by query (section 5.3.1 with Jacobian J^(1))."""
    kn = k * n
    total = torch.zeros(2 * kn, 2 * kn, dtype=torch.float64)
    jacobian = (torch.eye(kn) - torch.ones(kn, kn) / kn).double() / kn
    for sigma, results in zip(data.values, data.results[:, 0]):
        x = torch.zeros(2 * kn, kn, dtype=torch.float64)
        for i in range(k):
            for j in range(n):
                x[i * n + j, i * n + j] = 1
                x[kn + i * n + int(sigma[i, j]), i * n + j] = 1
        for query in range(kn):
            for s in range(n):
                direction = torch.zeros(2 * kn, dtype=torch.float64)  # (Psi_1^T W_OV)_s = beta_0 e_2 (x) 1_k (x) e_s
                direction[kn + s :: n] = beta_0
                surprise = float(s == results[query]) - 1 / n
                total -= surprise * x @ jacobian @ (x.T @ direction)[:, None] @ x[:, query][None]
    return total / (len(data) * kn)


def test_the_first_step_is_the_papers_closed_form():
    toy = task()
    model = KFoldTheory(4, 3, beta_0=0.7, dtype=torch.float64)
    data = examples(toy, 5, generator())
    expected = -2.0 * closed_form_gradient(data, 4, 3, 0.7)
    descend(model, [model.blocks[0].attn.W_KQ], data, [0], rate=2.0)
    torch.testing.assert_close(model.blocks[0].attn.W_KQ.detach(), expected)


def test_labelling_every_query_is_the_mean_over_single_queries():
    model, toy = KFoldTheory(4, 3, dtype=torch.float64), task()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator(1))
    data = examples(toy, 6, generator())
    everywhere = query_losses(model, data, [0, 2])
    assert everywhere.shape == (6, 2, 12)
    for position in (0, 7):
        single = curricula.Examples(data.values, data.results, torch.full((6,), position))
        torch.testing.assert_close(query_losses(model, single, [0, 2])[..., 0], everywhere[..., position])
        torch.testing.assert_close(query_losses(model, single, [2])[..., 0], everywhere[:, 1:, position])


def test_losses_are_cross_entropies_of_the_literal_hop():
    model, toy = KFoldTheory(2, 3), task(2)
    model.construct(toy.hidden, 2.0)
    data = examples(toy, 4, generator())
    with torch.no_grad():
        logits = model(data.values)
        found = query_losses(model, data, [0, 1])
    targets = toy.solve(data.values.flatten(1))  # the 2-hop
    expected = F.cross_entropy(logits[:, 1].flatten(0, 1), targets.flatten(), reduction="none").view(4, 6)
    torch.testing.assert_close(found[:, 1], expected)


def test_a_step_does_not_depend_on_how_the_data_are_chunked(monkeypatch):
    toy = task()
    data = examples(toy, 11, generator())
    first = KFoldTheory(4, 3)
    second = copy.deepcopy(first)
    weights = [block.attn.W_KQ for block in first.blocks]
    descend(first, weights, data, [0, 1, 2], 1.0)
    monkeypatch.setattr(curricula, "FLOATS_PER_CHUNK", 1)
    descend(second, [block.attn.W_KQ for block in second.blocks], data, [0, 1, 2], 1.0)
    for mine, other in zip(first.parameters(), second.parameters()):
        torch.testing.assert_close(mine, other)


def test_a_step_moves_only_what_it_was_given():
    toy, model = task(), KFoldTheory(4, 3)
    before = copy.deepcopy(model.state_dict())
    descend(model, [model.blocks[0].attn.W_KQ], examples(toy, 20, generator()), [0], 1.0)
    moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert moved == {"blocks.0.attn.W_KQ"}


def test_the_construction_is_a_snapshot_without_error():
    toy, model = task(8, 5), KFoldTheory(8, 5)
    model.construct(toy.hidden, 30.0)
    found = snapshot(model, toy, examples(toy, 10, generator()), 3, "nothing")
    assert found.error == (0, 0, 0, 0)
    assert min(found.mass) > 0.999
    assert max(found.loss) == pytest.approx(float(torch.tensor(1 + 4 * torch.e**-1).log()), abs=1e-4)


@pytest.mark.parametrize("moves", ["own", "all"])
def test_a_curriculum_teaches_one_hop_per_stage(moves):
    toy, model = task(4, 4), KFoldTheory(4, 4)
    test = examples(toy, 30, generator(1))
    found = list(stagewise(model, toy, 400, 30.0 * 16**2, generator(), test, moves=moves))
    assert [s.trained for s in found] == ["nothing", *["W_KQ", "readout"] * 3]
    for stage in range(3):
        assert found[2 * stage].error[stage] > 0.6
        assert found[2 * stage + 2].error[stage] < 0.02
        assert found[2 * stage + 1].mass[stage] > 0.9 > 0.2 > found[2 * stage].mass[stage]


def test_a_mixture_teaches_layer_t_at_step_t():
    toy, model = task(4, 4), KFoldTheory(4, 4)
    test = examples(toy, 30, generator(1))
    found = list(mixture(model, toy, 500, 30.0 * 16**2, generator(), test))
    assert [s.trained for s in found] == ["nothing", "W_KQ", "W_KQ", "W_KQ", "readout"]
    for step in range(3):
        assert found[step + 1].mass[step] > 0.9 > 0.2 > found[step].mass[step]
        assert found[3].loss[step] > 0.5
    assert max(found[-1].error) < 0.02


def test_the_hardest_hop_alone_teaches_nothing():
    """The control: the same steps on k-hop data leave the model at chance."""
    toy, model = task(4, 4), KFoldTheory(4, 4)
    data = examples(toy, 400, generator())
    for _ in range(3):
        descend(model, [block.attn.W_KQ for block in model.blocks], data, [2], 30.0 * 16**2)
    descend(model, [model.readout], data, [2], 30.0 * 16**2)
    found = snapshot(model, toy, examples(toy, 30, generator(1)), 4, "readout")
    assert found.error[2] > 0.6


def test_a_failed_stage_can_end_the_run():
    toy, model = task(4, 4), KFoldTheory(4, 4)
    test = examples(toy, 10, generator(1))
    found = list(stagewise(model, toy, 2, 30.0 * 16**2, generator(), test, stop_above=0.01))
    assert len(found) == 3


def test_one_query_per_sequence_is_uniform_over_positions():
    data = examples(task(), 3000, generator(), one_query=True)
    assert data.query is not None
    counts = torch.bincount(data.query, minlength=12)
    assert counts.min() > 180
    assert counts.max() < 330
