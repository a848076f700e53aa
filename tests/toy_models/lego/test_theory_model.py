import math

import pytest
import torch
import torch.nn.functional as F

from toy_models.lego import theory_model as lego_theory
from toy_models.lego.task import ANSWERED, STATE, Lego
from toy_models.lego.theory_model import LegoTheory, LegoTheoryConfig, _ActiveSum
from toy_models.lego.theory_training import state_loss

TASK = Lego(group="C2", length=3, n_variables=5, permuted=True)
CONFIG = LegoTheoryConfig(m=3)


def drawn(scale: float = 1.0, seed: int = 0) -> LegoTheory:
    """A model in double precision with random Q and weights large enough for every branch of the activation."""
    generator = torch.Generator().manual_seed(seed)
    model = LegoTheory(TASK.d_vocab, CONFIG, generator).double()
    with torch.no_grad():
        for block in (model.attn.Q_43, model.attn.Q_44):
            block.copy_(2 * torch.randn(block.shape, generator=generator))
        model.mlp.W.mul_(scale)
    return model


def sampled(n: int = 4) -> torch.Tensor:
    return TASK.sample(n, torch.Generator().manual_seed(1)).inputs


def literal_logits(model: LegoTheory, clauses: list[list[int]]) -> torch.Tensor:
    """F(Z) of the last clause: Definitions 3.3 to 3.5 with dense vectors and matrices, written out."""
    d, m = model.d_vocab, model.config.m
    e = torch.eye(d, dtype=torch.float64)
    e[0] = 0  # the blank
    z = [torch.cat([e[v] for v in clause]) for clause in clauses]
    q = torch.zeros(5 * d, 5 * d, dtype=torch.float64)
    q[3 * d : 4 * d, 2 * d : 3 * d] = model.attn.Q_43.detach()
    q[3 * d : 4 * d, 3 * d : 4 * d] = model.attn.Q_44.detach()
    scores = torch.stack([z[-1] @ q @ key for key in z])
    attention = scores.exp() / scores.exp().sum()
    x = sum(a * key for a, key in zip(attention, z))
    w = model.mlp.W.detach().view(5, 5 * d, d, m)
    sigma, rho, power = d**-0.5, 4 / math.log(d), 4
    logits = torch.zeros(5, d, dtype=torch.float64)
    for i in range(5):
        for j in range(d):
            for r in range(m):
                pre = float(w[i, :, j, r] @ x) + sigma * math.log(d)
                if pre > rho:
                    logits[i, j] += pre - rho * (1 - 1 / power)
                elif pre > 0:
                    logits[i, j] += pre**power / (rho ** (power - 1) * power)
    return logits.clamp(max=2 * math.log(d))


def test_the_model_is_the_papers_formulas_written_out():
    model, clauses = drawn(scale=4.0), sampled(2)
    found = model(clauses)
    assert found.shape == (2, 7, 5, TASK.d_vocab)
    for row in range(2):
        for position in range(7):
            expected = literal_logits(model, clauses[row, : position + 1].tolist())
            torch.testing.assert_close(found[row, position], expected)
    assert (found == model.mlp.bound).any()  # the clip was met
    some = torch.tensor([3, 5])
    torch.testing.assert_close(model(clauses, some), found[:, some])


@pytest.mark.parametrize("cost", [0, 1000], ids=["lookups", "matrix product"])
@pytest.mark.parametrize("slot", range(5))
def test_both_fast_paths_give_the_same_logits_and_gradients(slot, cost, monkeypatch):
    monkeypatch.setattr(lego_theory, "LOOKUP_COST", cost)
    model, clauses = drawn(scale=2.0), sampled(6)
    leaves = (model.attn.Q_43, model.attn.Q_44, model.mlp.W)
    expected = model(clauses)[:, 4, slot]
    pattern = model.attn.pattern(clauses[:, :5], torch.tensor([4]))[:, 0, 0]
    found = model.slot_logits(clauses[:, :5], pattern, slot)
    torch.testing.assert_close(found, expected)
    weights = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    for a, b in zip(
        torch.autograd.grad((found * weights).sum(), leaves),
        torch.autograd.grad((expected * weights).sum(), leaves),
        strict=True,
    ):
        torch.testing.assert_close(a, b)
        assert a.abs().max() > 0


def test_the_loss_is_that_of_the_models_own_softmax():
    model, clauses = drawn(), sampled(8)
    for answer in range(3):
        logits = model(clauses)[:, 3 + answer, STATE]
        expected = F.cross_entropy(logits, clauses[:, 4 + answer, STATE])
        torch.testing.assert_close(state_loss(model, clauses, answer), expected)


def smoothed_relu(x: torch.Tensor, rho: float, power: int, response: float, bound: float) -> torch.Tensor:
    """sReLU (Definition 3.4), and Assumption B.2's response below 0."""
    above = (x.clamp(0, rho) / rho) ** power * (rho / power) + torch.relu(x - rho)
    return above + torch.where(x <= -response, response * (-x).clamp(0, bound), x.clamp(max=0) ** 2)


@pytest.mark.parametrize(
    ("response", "below"), [(0.0, [0, 0, 0, 0]), (0.2, [0.2 * 3, 0.2, 0.1**2, 0])], ids=["none", "small"]
)
def test_the_smoothed_relu_by_its_branches(response, below):
    options = (0.5, 4, response, 3.0)
    x = torch.tensor([-5.0, -1.0, -0.1, 0.0, 0.2, 0.5, 2.0], dtype=torch.float64)
    expected = torch.tensor([*below, 0.2**4 / (0.5**3 * 4), 0.5 / 4, 2 - 0.5 * 0.75], dtype=torch.float64)
    torch.testing.assert_close(smoothed_relu(x, *options), expected)
    torch.testing.assert_close(_ActiveSum.apply(x[:, None], *options), expected)
    x = torch.linspace(-3.51, 2.01, 41, dtype=torch.float64, requires_grad=True)  # clear of the bends
    assert torch.autograd.gradcheck(lambda x: _ActiveSum.apply(x.view(-1, 1), *options), x)
    derivative = torch.autograd.grad(smoothed_relu(x, *options).sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(_ActiveSum.apply(x, *options), x)[0], derivative)


def test_the_initial_model_is_that_of_assumption_3_3():
    model = LegoTheory(60, LegoTheoryConfig(), torch.Generator().manual_seed(0))
    assert not model.attn.Q_43.any()
    assert not model.attn.Q_44.any()
    assert model.mlp.W.numel() == 5 * 60 * 12 * 300
    assert model.mlp.W.std().item() == pytest.approx(60**-0.5, rel=0.01)
    assert model.mlp.bias == pytest.approx(math.log(60) / 60**0.5)
    assert model.mlp.bound == pytest.approx(2 * math.log(60))
    again = LegoTheory(60, LegoTheoryConfig(), torch.Generator().manual_seed(0))
    assert torch.equal(model.mlp.W, again.mlp.W)


def test_hooks_have_the_usual_names_and_shapes():
    model = LegoTheory(TASK.d_vocab, CONFIG, torch.Generator().manual_seed(0))
    _, cache = model.run_with_cache(sampled())
    pattern = cache["blocks.0.attn.hook_pattern"]
    uniform = torch.ones(7, 7).tril() / torch.arange(1, 8)[:, None]
    torch.testing.assert_close(pattern, uniform.expand(4, 1, 7, 7))  # Q = 0
    assert cache["blocks.0.attn.hook_z"].shape == (4, 7, 1, 5 * TASK.d_vocab)
    assert cache["blocks.0.mlp.hook_pre"].shape == (4, 7, 5, TASK.d_vocab, 3)
    knocked = model.run_with_hooks(
        sampled(), fwd_hooks=[("blocks.0.attn.hook_pattern", lambda pattern, hook: 0 * pattern)]
    )
    assert (knocked == knocked[0, 0, 0, 0]).all()  # nothing but the bias


def test_what_is_stored_for_blanks_never_matters():
    model, clauses = drawn(), sampled()
    before = model(clauses)
    with torch.no_grad():
        for block in (model.attn.Q_43, model.attn.Q_44):
            block[0], block[:, 0] = 7.0, -7.0
        model.mlp.W[:, torch.arange(5) * TASK.d_vocab] = 9.0
    torch.testing.assert_close(model(clauses), before)
    pattern = model.attn.pattern(clauses, torch.tensor([6]))[:, 0, 0]
    torch.testing.assert_close(model.slot_logits(clauses, pattern, ANSWERED), before[:, 6, ANSWERED])


@pytest.mark.parametrize("wrong", [{"m": 0}, {"power": 3}, {"clip": 0.0}, {"bend": -1.0}])
def test_impossible_constants_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LegoTheoryConfig(**wrong)
