"""Interventions: explicit constructions with known answers, loops head by head, TransformerLens, and a null."""

import inspect

import pytest
import torch
import transformer_lens.patching as lens
from scipy.stats import binom, ttest_1samp
from transformer_lens.model_bridge import TransformerBridge

from probes.hooked.causal import (
    ablate_heads,
    answer_margin,
    head_places,
    knock_out,
    knock_out_by_head,
    patch_edges,
    patch_heads,
    random_keys,
    unchanged,
    without_keys,
)
from probes.hooked.edits import Edit, run_edits
from probes.hooked.points import captured, residual_names, z_name
from tests.hf_analysis.tiny_models import build, loaded, tokens
from toy_models.engine.corruption import corrupted_pairs
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.probing import read_margins
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory
from toy_models.parity.construction import parity_construction
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding

TASK = Parity(n=7, k=3)


@pytest.fixture(scope="module")
def decoder():
    """A random decoder in which attention and MLPs matter."""
    model = hooked_decoder(DecoderConfig(3, 2, 16, 32), TASK.d_vocab, TASK.n_ctx, seed=0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    return model


@pytest.fixture(scope="module")
def batch():
    return TASK.sample(12, torch.Generator().manual_seed(1))


@pytest.fixture(scope="module")
def pairs(batch):
    return corrupted_pairs(TASK, batch, 8, torch.Generator().manual_seed(2))


def test_the_margin_is_positive_exactly_for_a_right_prediction():
    logits = torch.tensor([[[1.0, 3.0, 2.0], [5.0, 5.0, 0.0]]])
    assert answer_margin(logits, torch.tensor([[1, 0]])).tolist() == [[1.0, 0.0]]
    assert answer_margin(logits, torch.tensor([[0, 2]])).tolist() == [[-2.0, -5.0]]


def test_hidden_keys_get_nothing_and_the_rest_keeps_its_proportions():
    pattern = torch.tensor([[[[0.5, 0.3, 0.2], [0.0, 1.0, 0.0]]]])
    keys = torch.tensor([[[True, False, False], [False, True, False]]])
    hidden = without_keys(pattern, keys)
    assert torch.allclose(hidden[0, 0, 0], torch.tensor([0.0, 0.6, 0.4]))
    assert hidden[0, 0, 1].tolist() == [0, 0, 0], "a head that looked nowhere else reads nothing"
    assert torch.equal(without_keys(pattern, torch.zeros_like(keys)), pattern)


def test_one_head_loses_its_keys_and_the_others_keep_theirs():
    pattern = torch.rand(2, 3, 4, 4, generator=torch.Generator().manual_seed(0)).softmax(-1)
    keys = torch.zeros(2, 4, 4, dtype=torch.bool)
    keys[:, 2, 1] = True
    hidden = without_keys(pattern, keys, head=1)
    assert torch.equal(hidden[:, [0, 2]], pattern[:, [0, 2]])
    assert torch.equal(hidden[:, 1], without_keys(pattern, keys)[:, 1])
    assert (hidden[:, 1, 2, 1] == 0).all()


def test_a_chunk_of_edits_equals_one_run_for_each(decoder, batch):
    """The fast path shares the layers below and repeats the batch; the oracle is run_with_hooks, edit by edit."""
    read = read_margins(batch)
    edits, expected = [], []
    for layer, head in head_places(decoder):
        name = z_name(layer)

        def zeroed(z, hook=None, head=head):
            z = z.clone()
            z[:, :, head] = 0
            return z

        edits.append(Edit(layer, {name: zeroed}))
        expected.append(read(decoder.run_with_hooks(batch.inputs, fwd_hooks=[(name, zeroed)])))
    expected = torch.stack(expected)
    assert (expected - unchanged(decoder, batch.inputs, read)).abs().amin((1, 2)).max() > 0.01
    for batch_size in (1, 30, 10_000):
        assert torch.allclose(run_edits(decoder, batch.inputs, read, edits, batch_size), expected, atol=1e-5)
    backwards = run_edits(decoder, batch.inputs, read, edits[::-1])
    assert torch.allclose(backwards, expected.flip(0), atol=1e-5)


def test_patched_heads_equal_transformer_lens(decoder, batch, pairs):
    read = read_margins(batch)
    ours = patch_heads(decoder, batch.inputs, pairs.corrupted.inputs, read)
    _, cache = decoder.run_with_cache(pairs.corrupted.inputs)
    for step in range(3):
        theirs = lens.get_act_patch_attn_head_out_all_pos(
            decoder, batch.inputs, cache, lambda logits, step=step: read(logits)[:, step], reduce="none"
        )
        assert torch.allclose(ours[:, :, step], theirs.values.flatten(0, 1), atol=1e-5)
    assert (ours - unchanged(decoder, batch.inputs, read)).abs().max() > 0.01


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_heads_and_edges_of_a_hugging_face_model_equal_a_run_for_each(name):
    """It masks the batch that came in, so no layer may grow it; Llama's four heads share two values."""
    options = {"hf_model": build(name), "tokenizer": loaded(None).tokenizer, "device": "cpu"}
    model = TransformerBridge.boot_transformers({"gpt2": "gpt2", "llama": "meta-llama/Llama-3.2-1B"}[name], **options)
    (inputs, source), key, row = tokens(6, 9).split(3), torch.tensor([2, 0, 5]), torch.arange(3)
    heads, edges = [], []
    for layer, head in head_places(model):
        place, pattern, value = (f"blocks.{layer}.attn.hook_{part}" for part in ("z", "pattern", "v"))
        here, there = (captured(model, of, [place, pattern, value]) for of in (inputs, source))
        own = head * here[value].shape[2] // 4
        flow = [of[pattern][row, head, 7, key, None] * of[value][row, key, own] for of in (here, there)]
        for found, changed in ((heads, there[place][:, :, head]), (edges, here[place][:, :, head].clone())):
            if found is edges:
                changed[:, 7] += flow[1] - flow[0]

            def written(z, hook, head=head, changed=changed):
                z = z.clone()
                z[:, :, head] = changed
                return z

            found.append(model.run_with_hooks(inputs, fwd_hooks=[(place, written)])[:, 7:, 5])
    for found, expected in (
        (patch_heads(model, inputs, source, lambda logits: logits[:, 7:, 5]), torch.stack(heads)),
        (patch_edges(model, inputs, source, lambda logits: logits[:, 7:, 5], 7, key), torch.stack(edges)),
    ):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)
    assert (torch.stack(heads) - torch.stack(edges)).abs().amax((1, 2)).min() > 1e-3


def test_a_bridge_can_be_read_but_not_written_between_attention_and_mlp(decoder, batch, pairs):
    """If this fails TransformerLens was repaired, and `residual_names` need not warn of hook_resid_mid."""
    wanted = decoder(pairs.corrupted.inputs)
    for name in residual_names(decoder):
        other = captured(decoder, pairs.corrupted.inputs, [name])[name]
        found = decoder.run_with_hooks(batch.inputs, fwd_hooks=[(name, lambda x, hook, other=other: other)])
        assert torch.allclose(found, wanted, atol=1e-4) == (not name.endswith("resid_mid"))


def test_a_knockout_in_all_heads_of_one_layer_model_is_that_of_its_single_head(batch):
    model = hooked_decoder(DecoderConfig(1, 1, 16, 32, init_std=0.3), TASK.d_vocab, TASK.n_ctx, seed=1)
    read, keys = read_margins(batch), TASK.dependencies(batch)
    by_head, together = (
        knock_out_by_head(model, batch.inputs, read, keys),
        knock_out(model, batch.inputs, read, keys[None]),
    )
    assert torch.allclose(by_head, together, atol=1e-6)
    assert (by_head[0] - unchanged(model, batch.inputs, read)).abs().min() > 1e-4


def test_theorem_1_loses_its_answer_with_any_secret_bit_and_with_no_other():
    """The construction's answer is exact: hiding a secret bit leaves a coin toss, hiding another bit nothing."""
    task = Parity(n=10, k=3, cot=False)
    block = parity_construction(task, 512, torch.Generator().manual_seed(0)).block
    batch = task.sample(256, torch.Generator().manual_seed(1))
    sign = 2.0 * batch.answers.squeeze(-1) - 1

    def read(output):
        return sign[:, None] * output[:, task.n, None]

    keys = torch.zeros(task.n, 256, task.n_ctx, task.n_ctx, dtype=torch.bool)
    for position in range(task.n):
        keys[position, :, task.n, position] = True
    right = (knock_out(block, batch.inputs, read, keys) > 0).double().mean((1, 2))
    clean = unchanged(block, batch.inputs, read)
    assert (clean > 0.99).all()
    for position in range(task.n):
        if position in task.secret:
            assert 0.3 < right[position] < 0.7
        else:
            assert right[position] == 1
    for kind in ("mean", "resample"):
        ablated = ablate_heads(block, batch.inputs, read, kind, torch.Generator().manual_seed(2))
        assert 0.3 < (ablated > 0).double().mean() < 0.7


def test_theorem_1_carries_each_secret_bit_on_its_edge_to_the_answer():
    """Patching the edge from one secret bit alone turns the answer round; from another bit it does not."""
    task = Parity(n=10, k=3, cot=False)
    block = parity_construction(task, 512, torch.Generator().manual_seed(0)).block
    batch = task.sample(64, torch.Generator().manual_seed(1))
    pairs = corrupted_pairs(task, batch, task.n, torch.Generator().manual_seed(2))
    assert pairs.changed.all()
    assert set(pairs.key.tolist()) == set(task.secret)
    sign = 2.0 * batch.answers.squeeze(-1) - 1

    def read(output):
        return sign[:, None] * output[:, task.n, None]

    assert (unchanged(block, batch.inputs, read) > 0.99).all()
    assert (patch_edges(block, batch.inputs, pairs.corrupted.inputs, read, task.n, pairs.key) < -0.99).all()
    elsewhere = torch.full_like(pairs.key, next(p for p in range(task.n) if p not in task.secret))
    assert (patch_edges(block, batch.inputs, pairs.corrupted.inputs, read, task.n, elsewhere) > 0.99).all()
    assert (patch_heads(block, batch.inputs, pairs.corrupted.inputs, read) < -0.99).all()


def test_theorem_4_loses_the_4_hop_with_each_layers_key_and_with_no_random_one():
    task = KFold(k=4, n=5, cyclic=True)
    model = KFoldTheory(4, 5, dtype=torch.float64)
    model.construct(task.hidden, scale=60.0)
    batch = task.sample(64, torch.Generator().manual_seed(0))
    values = batch.inputs.view(-1, 4, 5)

    def read(output):
        return answer_margin(output[:, -1], batch.answers)

    everything = torch.ones(20, 20, dtype=torch.bool)[None]
    assert (unchanged(model, values, read) > 0.9).all()
    for layer in range(3):
        keys = task.layer_dependencies(batch, layer)
        hidden, other = (
            run_edits(model, values, read, [Edit(layer, {
                f"blocks.{layer}.attn.hook_pattern": lambda pattern, gone=gone: without_keys(pattern, gone)
            })])
            for gone in (keys, random_keys(keys, everything, torch.Generator().manual_seed(1)))
        )  # fmt: skip
        assert (other > 0.9).all()
        assert hidden.abs().max() < 0.1, "no answer is left, by however little one of them leads"


def test_random_keys_are_as_many_and_others():
    generator = torch.Generator().manual_seed(0)
    keys = torch.rand(5, 8, 8, generator=generator).lt(0.2)
    eligible = torch.ones(1, 8, 8, dtype=torch.bool)
    drawn = random_keys(keys, eligible, generator)
    assert torch.equal(drawn.sum(-1), keys.sum(-1))
    assert not (drawn & keys).any()
    counts = torch.stack([random_keys(keys, eligible, generator) for _ in range(200)]).double().mean(0)
    expected = (keys.sum(-1, keepdim=True) / (~keys).sum(-1, keepdim=True)).expand_as(keys)[~keys]
    assert (counts[~keys] - expected).abs().max() < 0.2
    with pytest.raises(ValueError, match="0 other keys"):
        random_keys(torch.ones(1, 2, 2, dtype=torch.bool), eligible[:, :2, :2], generator)


def test_resampling_gives_every_input_anothers_output(decoder, batch):
    seen = []

    def read(output):
        return output[:, -1]

    mean = ablate_heads(decoder, batch.inputs, read, "mean", torch.Generator().manual_seed(0))
    for layer, head in head_places(decoder):
        name = z_name(layer)

        def to_mean(z, hook, head=head):
            z = z.clone()
            z[:, :, head] = z[:, :, head].mean(0)
            return z

        seen.append(read(decoder.run_with_hooks(batch.inputs, fwd_hooks=[(name, to_mean)])))
    assert torch.allclose(mean, torch.stack(seen), atol=1e-5)
    same = batch.inputs[:1].expand(6, -1)
    identical = ablate_heads(decoder, same, read, "resample", torch.Generator().manual_seed(0))
    assert torch.allclose(identical, unchanged(decoder, same, read).expand_as(identical), atol=1e-5)
    other = ablate_heads(decoder, batch.inputs, read, "resample", torch.Generator().manual_seed(0))
    assert (other - unchanged(decoder, batch.inputs, read)).abs().amax(-1).min() > 0


def test_in_random_models_a_knockout_is_found_no_more_often_than_stated():
    """100 random blocks answer nothing, so hiding a secret bit cannot help or hurt: t tests at 5% over inputs."""
    found = 0
    task, generator = Parity(n=8, k=3, cot=False), torch.Generator().manual_seed(0)
    for _ in range(100):
        block = SimplifiedBlock(
            random_embedding(task.n_ctx, 16, generator), torch.randn(8, generator=generator).double()
        )
        with torch.no_grad():
            block.A.copy_(torch.randn(16, 16, generator=generator))
            block.W.copy_(torch.randn(8, 32, generator=generator))
        batch = task.sample(96, generator)
        sign = 2.0 * batch.answers.squeeze(-1) - 1

        def read(output, sign=sign):
            return sign[:, None] * output[:, task.n, None]

        keys = torch.zeros(1, 96, task.n_ctx, task.n_ctx, dtype=torch.bool)
        keys[:, :, task.n, task.secret[0]] = True
        effect = unchanged(block, batch.inputs, read) - knock_out(block, batch.inputs, read, keys)[0]
        found += bool(ttest_1samp(effect.squeeze(-1).numpy(), 0).pvalue < 0.05)
    assert found <= binom.ppf(0.999, 100, 0.05)


def test_what_cannot_be_done_is_said(decoder, batch):
    with pytest.raises(ValueError, match="at least one intervention"):
        run_edits(decoder, batch.inputs, read_margins(batch), [])
    generator, read = torch.Generator(), read_margins(batch)
    for kind in ("mean", "resample"):
        with pytest.raises(ValueError, match="1 input arrived"):
            ablate_heads(decoder, batch.inputs[:1], read, kind, generator)
    with pytest.raises(ValueError, match="unknown kind 'zero'"):
        inspect.unwrap(ablate_heads)(decoder, batch.inputs, read, "zero", generator)  # past the type checker of tests
    model = KFoldTheory(2, 3)
    del model.hook_dict["blocks.0.attn.hook_v"]
    values = torch.zeros(2, 2, 3, dtype=torch.long)
    with pytest.raises(ValueError, match=r"no blocks\.0\.attn\.hook_v"):
        patch_edges(model, values, values, lambda output: output[:, -1, :, 0], 0, torch.zeros(2, dtype=torch.long))
