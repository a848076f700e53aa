"""The spread of the gradient over all secrets, against enumeration of the secrets and autograd."""

import math
from itertools import combinations

import pytest
import torch

from toy_models.tree_parity.direct import (
    DIRECT_MODELS,
    Adam,
    find_direct_model,
    gradients,
    of_seed,
    stacked,
)
from toy_models.tree_parity.forest import Forest
from toy_models.tree_parity.links import LINKS
from toy_models.tree_parity.secrets import (
    correlation,
    every_input,
    input_shares,
    loss_bound,
    mean_parity,
    parity,
    population_bound,
    sample_bound,
    secrets,
    spread,
    squared_errors,
    walsh,
)
from toy_models.tree_parity.task import TreeParity
from toy_models.tree_parity.theory_model import attention, generate

D = 5


def streams(n: int) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed) for seed in range(n)]


def parities(bits: torch.Tensor, k: int) -> torch.Tensor:
    """Every parity of k bits, by enumeration, in the order of the numbers of their sets; [secret input]."""
    sets = sorted(combinations(range(bits.shape[1]), k), key=lambda chosen: sum(1 << i for i in chosen))
    return torch.stack([bits[:, list(chosen)].prod(1) for chosen in sets])


def test_the_transform_is_the_sum_over_inputs_for_every_set():
    values = torch.randn(2**6, 3, dtype=torch.float64, generator=streams(1)[0])
    bits = every_input(6)
    for k in range(7):
        assert torch.allclose(walsh(values)[secrets(6, k)], parities(bits, k) @ values)
    with pytest.raises(ValueError, match="needs 2\\^d values, got 6"):
        walsh(values[:6])


@pytest.mark.parametrize("name", DIRECT_MODELS)
def test_the_variance_over_secrets_is_that_of_enumerated_secrets_by_autograd(name):
    model, bits = find_direct_model(name), every_input(D)
    weights = model.fresh(D, streams(1)[0])
    seen = bits[torch.randint(len(bits), (40,), generator=streams(2)[1])]
    slopes = gradients(model, weights, bits)
    for k in (2, 3):
        for inputs, shares in ((bits, torch.full((2**D,), 2.0**-D).double()), (seen, input_shares(seen))):
            by_hand = []
            for targets in parities(inputs, k):
                leaves = {name: values.clone().requires_grad_() for name, values in weights.items()}
                loss = (model.answer(leaves, inputs) - targets).square().mean() / 2
                by_hand.append(torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(leaves.values()))]))
            every = torch.stack(by_hand)
            deviations = (every - every.mean(0)).norm(dim=1)
            found = spread(walsh(shares[:, None] * slopes), secrets(D, k))
            assert found.variance == pytest.approx(deviations.square().mean().item(), rel=1e-9)
            assert torch.allclose(found.deviations, deviations)


@pytest.mark.parametrize("name", DIRECT_MODELS)
def test_both_bounds_hold_and_one_parity_reaches_the_first(name):
    model, bits = find_direct_model(name), every_input(6)
    slopes = gradients(model, model.fresh(6, streams(1)[0]), bits)
    of, squares = secrets(6, 3), slopes.square().sum(1)
    ratio = spread(walsh(slopes) / 64, of).variance / population_bound(squares.mean().item(), len(of))
    assert ratio == pytest.approx(1 - 1 / 20) if name == "one_parity" else ratio < 1
    seen = bits[torch.randint(64, (36,), generator=streams(1)[0])]
    on_samples = spread(walsh(input_shares(seen)[:, None] * slopes), of).variance
    assert on_samples <= sample_bound(squares.max().item(), len(of), d=6, n=36)


def test_the_largest_correlation_is_that_of_enumerated_pairs():
    seen = every_input(6)[torch.randint(64, (50,), generator=streams(1)[0])]
    for k in (2, 3, 5):
        values = parities(seen, k)
        gram = (values @ values.T / 50).fill_diagonal_(0)
        assert correlation(input_shares(seen), 6, k) == pytest.approx(gram.abs().max().item())
    assert correlation(input_shares(seen), 6, 6) == 0


def test_the_mean_parity_and_the_errors_of_an_answer_are_those_of_enumerated_secrets():
    bits = every_input(6)
    answers = torch.randn(64, dtype=torch.float64, generator=streams(1)[0])
    values = parities(bits, 4)
    assert torch.allclose(mean_parity(6, 4), values.mean(0))
    assert torch.allclose(squared_errors(answers, secrets(6, 4)), (values - answers).square().mean(1))


def test_no_fixed_answer_is_below_the_bound_on_the_loss_but_at_k_equal_d():
    for k in (3, 6):
        of, best = secrets(6, k), mean_parity(6, k)  # the best answer that does not know the secret
        loss = squared_errors(best, of).mean().item()
        assert loss == pytest.approx(1 - 1 / len(of))
        assert loss >= loss_bound(1.0, best.abs().mean().item())
    assert loss == 0, "one secret: k = d contradicts the theorem"
    assert loss_bound(0.9, 0.0) == pytest.approx(2 - 1 / 0.9)
    assert loss_bound(0.0, 0.0) == loss_bound(0.4, 0.0) == 0


def test_the_theory_model_is_the_chain_of_the_forest():
    model, d = find_direct_model("theory"), 9
    weights = model.fresh(d, streams(1)[0])
    forest = Forest.of([TreeParity(d=d, k=8)])
    full = torch.zeros(1, forest.n_nodes, forest.n_keys, dtype=torch.float64)
    for level, part in zip(forest.levels, weights.values()):
        full[0, level, : part.shape[1]] = part
    bits = every_input(d)[:100]
    pattern = attention(full, forest.visible("level"))
    chain, _ = generate(bits.T[None], pattern, forest.levels, LINKS["piecewise"])
    assert torch.allclose(model.answer(weights, bits), chain[0, -1])


@pytest.mark.parametrize("width", [8, 12])
def test_the_transformer_by_tables_is_attention_over_tokens(width):
    model, bits = find_direct_model("transformer"), every_input(6)
    w = model.fresh(6, streams(1)[0], width)
    tokens = bits[..., None] * w["embed"] + w["position"]
    norm = torch.nn.LayerNorm(width, elementwise_affine=False, dtype=torch.float64)
    query, key, value = (
        (norm(tokens) @ w[name].T).unflatten(-1, (2, width // 2)).transpose(1, 2)
        for name in ("query", "key", "value")
    )
    read = torch.nn.functional.scaled_dot_product_attention(query[:, :, -1:], key, value)[:, :, 0].flatten(1)
    stream = tokens[:, -1] + read @ w["out"].T
    hidden = torch.nn.functional.gelu(norm(stream) @ w["inner"].T + w["bias"])
    assert torch.allclose(model.answer(w, bits), (stream + hidden @ w["outer"].T) @ w["read"])


def test_the_parity_of_each_seeds_secret_is_the_product_of_its_bits():
    bits = every_input(5)
    hidden = torch.tensor([0b00101, 0b11010])
    found = parity(bits.expand(2, -1, -1), hidden)
    assert torch.equal(found, torch.stack([bits[:, [0, 2]].prod(1), bits[:, [1, 3, 4]].prod(1)]))


def test_a_batch_of_seeds_trains_like_each_seed_alone():
    model, bits = find_direct_model("perceptron"), every_input(4)
    weights, target = stacked(model, 4, streams(3)), bits.prod(1)
    together = Adam(weights, 0.03)
    alone = Adam({name: values[2:3] for name, values in weights.items()}, 0.03)
    for _ in range(4):
        losses, loss = together.follow(model, bits, target), alone.follow(model, bits.expand(1, -1, -1), target)
        assert losses[2] == pytest.approx(loss.item())
    assert torch.allclose(of_seed(together.now, 2)["inner"], of_seed(alone.now, 0)["inner"])


def test_bad_input_is_refused_in_one_line():
    with pytest.raises(ValueError, match="unknown model 'resnet'; the models are theory"):
        find_direct_model("resnet")
    with pytest.raises(ValueError, match="2 heads, which must divide its width, got 9"):
        find_direct_model("transformer").fresh(6, streams(1)[0], width=9)
    with pytest.raises(ValueError, match="between 0 and d bits, got k=7 of d=6"):
        secrets(6, 7)
    with pytest.raises(ValueError, match="draw a sample instead"):
        every_input(30)
    assert math.comb(6, 3) == len(secrets(6, 3))
