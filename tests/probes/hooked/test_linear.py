"""Linear probes: what is there is found, what is not is not, at the stated rate; and what the baselines mean."""

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.stats import binom
from sklearn.metrics import balanced_accuracy_score

from probes.hooked.linear import (
    LinearProbe,
    balanced_accuracy,
    linear_probe,
    online_code,
    predictions,
    random_labels,
    split_groups,
)
from probes.hooked.points import captured, residual_names
from probes.hooked.stream import ActivationStream
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory
from toy_models.parity.construction import parity_construction
from toy_models.parity.task import Parity


def probed(features, labels, seed=0, types=None, groups=None) -> LinearProbe:
    """The probe of `features`, with noise for the untrained model."""
    rng = np.random.default_rng([seed, 7])  # apart from the draws of the data
    n = len(labels)
    types = rng.integers(0, 16, n) if types is None else types
    return linear_probe(
        features, rng.normal(size=features.shape), labels, types, np.arange(n) if groups is None else groups, rng
    )


def test_what_is_encoded_is_found_and_every_baseline_is_at_chance():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 400)
    probe = probed(rng.normal(size=(3, 8))[labels] + 0.1 * rng.normal(size=(400, 8)), labels)
    assert probe.accuracy == 1
    assert probe.decodable
    assert probe.low == probe.high == 1
    for baseline in (probe.control, probe.untrained, probe.shuffled):
        assert 0.2 < baseline < 0.47
    assert probe.selectivity > 0.5
    assert probe.chance == pytest.approx(1 / 3)
    assert probe.bits < 0.6 < probe.uniform_bits == pytest.approx(np.log2(3))
    assert probe.untrained_bits > probe.uniform_bits - 0.05
    assert probe.n_groups == 200


def test_xor_is_not_linear_though_both_bits_are_there():
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2, (600, 2))
    features = np.concatenate([2.0 * bits - 1, rng.normal(size=(600, 4))], axis=1)
    assert 0.38 < probed(features, bits[:, 0] ^ bits[:, 1]).accuracy < 0.62
    assert probed(features, bits[:, 0]).accuracy == 1
    product = np.concatenate([features, (2.0 * bits - 1).prod(1, keepdims=True)], axis=1)
    assert probed(product, bits[:, 0] ^ bits[:, 1]).accuracy == 1


def test_nothing_is_decoded_from_noise_more_often_than_stated():
    """100 draws: the interval lies above chance at most as often as 2.5% allows, and below it too."""
    above = below = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        probe = probed(rng.normal(size=(120, 3)), rng.integers(0, 2, 120), seed)
        above += probe.decodable
        below += probe.high < probe.chance
    limit = binom.ppf(0.9999, 100, 0.035)  # a percentile interval of 60 groups has tails of about 3%
    assert above <= limit
    assert below <= limit


@pytest.mark.parametrize(("shares", "n"), [((0.97, 0.03), 60), ((0.5, 0.48, 0.02), 100)], ids=str)
def test_a_rare_class_makes_noise_no_more_decodable(shares, n):
    """The held-out half and many resamples lack it; those that have it may find all of the few that there are."""
    found = tried = 0
    for seed in range(120):
        rng = np.random.default_rng(seed)
        labels = rng.choice(len(shares), n, p=shares)
        if len(np.unique(labels)) > 1:
            found += probed(rng.normal(size=(n, 3)), labels, seed).decodable
            tried += 1
    assert found <= binom.ppf(0.9999, tried, 0.035)


def test_a_held_out_half_of_one_class_has_nothing_to_decode():
    labels = np.arange(40) == 0
    halves = [probed(np.eye(40), labels.astype(int), seed) for seed in range(8)]
    assert {probe.chance for probe in halves} == {0.5, 1.0}
    assert not any(probe.decodable for probe in halves)


def test_before_the_bits_are_read_a_random_decoder_holds_no_parity():
    """A causal model cannot know later bits: over 60 random models and places the probe stays at its error rate."""
    task, found, tried = Parity(n=6, k=2, secret=(4, 5)), 0, 0
    for seed in range(6):
        model, blank = (
            hooked_decoder(DecoderConfig(1, 1, 8, 16, init_std=0.5), 2, task.n_ctx, seed=s)
            for s in (seed, seed + 100)
        )
        batch = task.sample(160, torch.Generator().manual_seed(seed))
        labels = task.states(batch)[:, 1].numpy()
        streams = (ActivationStream(one, batch.inputs, residual_names(model)) for one in (model, blank))
        rng = np.random.default_rng(seed)
        for (_, features), (_, untrained) in zip(*streams):
            for position in range(4):
                types = batch.inputs[:, position].numpy()
                place = features[:, position], untrained[:, position], labels, types, np.arange(160)
                found += linear_probe(*place, rng).decodable
                tried += 1
    assert tried == 72
    assert found <= binom.ppf(0.9999, tried, 0.035)


def test_theorem_1_holds_the_parity_after_its_network_and_not_after_its_attention():
    """Attention gives the count of ones, of which parity is no linear function; the network folds it."""
    task = Parity(n=10, k=4, cot=False)
    block = parity_construction(task, 512, torch.Generator().manual_seed(0)).block
    batch = task.sample(400, torch.Generator().manual_seed(1))
    cache = captured(block, batch.inputs, ["blocks.0.hook_attn_out", "blocks.0.mlp.hook_post"])
    labels = batch.answers.squeeze(-1).numpy()
    attended, hidden = (cache[name][:, task.n].float().numpy() for name in cache)
    assert not probed(attended[:, :64], labels).decodable
    assert probed(hidden, labels).accuracy == 1


def test_theorem_4_holds_each_hop_after_its_layer_and_not_before():
    task = KFold(k=4, n=5, cyclic=True)
    model = KFoldTheory(4, 5)
    model.construct(task.hidden, scale=60.0)
    batch = task.sample(120, torch.Generator().manual_seed(0))
    hops = task.results(batch.inputs)  # 1, 2, 4 at every position
    names = ["blocks.0.hook_resid_pre", *(f"blocks.{layer}.hook_resid_post" for layer in range(3))]
    groups = np.repeat(np.arange(120), 4)
    for depth, (_, features) in enumerate(ActivationStream(model, batch.inputs.view(-1, 4, 5), names)):
        for hop in range(3):
            labels, rows = hops[:, hop, :20:5].flatten().numpy(), features[:, :20:5].reshape(480, -1)
            probe = probed(rows, labels, groups=groups)
            if depth > hop:
                assert probe.accuracy == 1
            else:  # sigma_i(j), which is there from the start, excludes one of five answers
                assert probe.accuracy < 0.45


def test_groups_are_never_split():
    groups = np.repeat(np.arange(20), 3)
    fit, test = split_groups(groups, np.random.default_rng(0))
    assert not set(groups[fit]) & set(groups[test])
    assert sorted([*fit, *test]) == list(range(60))
    assert len(set(groups[fit])) == 10
    with pytest.raises(ValueError, match="3 groups arrived"):
        split_groups(groups[:9], np.random.default_rng(0))


def test_labels_that_can_only_be_memorised_by_group_are_not_decoded():
    rng = np.random.default_rng(0)
    features, labels = np.repeat(np.eye(60), 4, axis=0), np.repeat(rng.integers(0, 2, 60), 4)
    assert not probed(features, labels, groups=np.repeat(np.arange(60), 4)).decodable


def test_the_control_task_is_one_label_for_each_type_and_a_memorising_probe_solves_it():
    rng = np.random.default_rng(0)
    types = rng.integers(0, 10, 300)
    labels = random_labels(types, 2, rng)
    assert all(len(set(labels[types == kind])) == 1 for kind in range(10))
    assert sorted(labels[[list(types).index(kind) for kind in range(10)]]) == [0] * 5 + [1] * 5
    one_hot = np.eye(10)[types]
    assert probed(one_hot, rng.integers(0, 2, 300), types=types).control == 1
    assert probed(rng.normal(size=(300, 4)), rng.integers(0, 2, 300), types=np.zeros(300, int)).control == 0.5


def test_balanced_accuracy_is_scikit_learns_and_does_not_reward_the_frequent_class():
    rng = np.random.default_rng(0)
    labels, predicted = rng.integers(0, 3, 50), rng.integers(0, 3, 50)
    assert balanced_accuracy(labels, predicted) == pytest.approx(balanced_accuracy_score(labels, predicted))
    assert balanced_accuracy(np.array([0] * 9 + [1]), np.zeros(10, int)) == 0.5


def test_the_interval_covers_the_accuracy_on_many_more_groups():
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(40):
        labels = rng.integers(0, 2, 4000)
        features = labels[:, None] + 1.2 * rng.normal(size=(4000, 1))
        few = probed(features[:160], labels[:160], seed)
        rows = np.arange(4000)
        truth = balanced_accuracy(labels[160:], predictions(features, labels, rows[:80], rows[160:]))
        covered += few.low - 0.01 <= truth <= few.high + 0.01
    assert covered >= 33


def test_the_online_code_is_uniform_for_noise_and_short_for_what_is_learned():
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 4, 800), np.arange(800)
    noise = online_code(rng.normal(size=(800, 2)), labels, groups, 4, np.random.default_rng(0))
    clear = online_code(8.0 * np.eye(4)[labels], labels, groups, 4, np.random.default_rng(0))
    assert 1.98 < noise < 2.1
    # The first eighth costs 2 bits a label whatever comes; the rest next to nothing.
    assert 0.25 < clear < 0.4


def test_one_label_has_nothing_to_decode():
    with pytest.raises(ValueError, match="nothing to decode"):
        probed(np.zeros((10, 2)), np.zeros(10, int))


def test_the_stream_equals_the_cache_and_keeps_one_hook_point():
    model = hooked_decoder(DecoderConfig(4, 2, 32, 64), 2, 40, seed=0)
    inputs = torch.randint(0, 2, (300, 40), generator=torch.Generator().manual_seed(0))
    names = residual_names(model)
    assert len(names) == 9
    cache = captured(model, inputs[:20], names)
    buffers = set()
    tracemalloc.start()
    for name, activations in ActivationStream(model, inputs, names, chunk=64):
        assert np.allclose(activations[:20], cache[name].numpy(), atol=1e-5)
        assert activations.shape == (300, 40, 32)
        buffers.add(activations.__array_interface__["data"][0])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    one = 300 * 40 * 32 * 4
    assert len(buffers) == 1
    assert peak < 1.5 * one, "more than one hook point was kept"


def test_the_stream_of_a_model_in_bfloat16_is_that_of_its_activations():
    model = hooked_decoder(DecoderConfig(1, 1, 8, 8), 2, 4, seed=0)
    torch.nn.Module.to(model, torch.bfloat16)
    inputs, name = torch.zeros(3, 4, dtype=torch.long), "blocks.0.hook_resid_post"
    ((_, activations),) = ActivationStream(model, inputs, [name])
    assert np.array_equal(activations, captured(model, inputs, [name])[name].float().numpy())


def test_an_unknown_hook_point_is_named():
    model = hooked_decoder(DecoderConfig(1, 1, 8, 8), 2, 4, seed=0)
    with pytest.raises(ValueError, match=r"no hook point 'blocks.7.hook_resid_post'"):
        ActivationStream(model, torch.zeros(1, 4, dtype=torch.long), ["blocks.7.hook_resid_post"])
