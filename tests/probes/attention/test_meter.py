"""Heads against a mask: closed forms, a slow loop, TransformerLens' own score, and batches that add up."""

import pytest
import torch
from transformer_lens.head_detector import compute_head_attention_similarity_score

from probes.attention.dependence import without_self
from probes.attention.meter import AttentionMeter, AttentionProbe
from probes.hooked.points import captured, pattern_name
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.evaluation import head_entropies
from toy_models.kfold.encoder import EncoderConfig, Shape, hooked_encoder
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory
from toy_models.parity.construction import parity_construction
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock
from toy_models.task import Batch

TASK = Parity(n=9, k=3)


def loud_decoder(seed: int = 0):
    """A random decoder whose attention is far from uniform."""
    model = hooked_decoder(DecoderConfig(2, 3, 24, 32), TASK.d_vocab, TASK.n_ctx, seed=seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6)
    return model


def measured(model, task, batch, size=None) -> AttentionProbe:
    meter = AttentionMeter(model)
    for start in range(0, len(batch), size or len(batch)):
        part = batch[start : start + (size or len(batch))]
        meter.update(part.inputs, task.dependencies(part), part.supervised)
    return meter.result()


def test_every_measure_equals_a_slow_loop():
    model, batch = loud_decoder(), TASK.sample(7, torch.Generator().manual_seed(0))
    probe, mask = measured(model, TASK, batch), without_self(TASK.dependencies(batch))
    names = [pattern_name(layer) for layer in range(2)]
    patterns = torch.stack(list(captured(model, batch.inputs, names).values())).double()
    for step, query in enumerate(batch.supervised.tolist()):
        winners = torch.zeros(2, 3)
        for b in range(7):
            mass = torch.stack([patterns[layer, b, :, query] @ mask[b, query].double() for layer in range(2)])
            winners.view(-1)[mass.view(-1).argmax()] += 1
        assert torch.allclose(probe.most_mass[..., step], winners.double() / 7)
        for layer in range(2):
            for head in range(3):
                rows = patterns[layer, :, head, query, : query + 1]
                wanted = mask[:, query, : query + 1]
                entropy = -(rows * rows.log()).sum(-1) / torch.tensor(query + 1.0).log()
                place = layer, head, step
                assert probe.dependency_mass[place].item() == pytest.approx((rows * wanted).sum(-1).mean().item())
                hits = wanted[torch.arange(7), rows.argmax(-1)].double().mean().item()
                assert probe.top1_hit[place].item() == pytest.approx(hits)
                assert probe.row_entropy[place].item() == pytest.approx(entropy.mean().item(), abs=1e-5)
                assert probe.sink_mass[place].item() == pytest.approx(rows[:, 0].mean().item())


def test_batches_add_up_and_shares_are_shares():
    model, batch = loud_decoder(), TASK.sample(10, torch.Generator().manual_seed(1))
    whole, parts = measured(model, TASK, batch), measured(model, TASK, batch, size=3)
    for name in ("dependency_mass", "top1_hit", "row_entropy", "sink_mass", "most_mass"):
        assert torch.allclose(getattr(whole, name), getattr(parts, name), atol=1e-6)
    assert torch.allclose(whole.most_mass.sum((0, 1)), torch.ones(3, dtype=torch.double))
    assert whole.n_inputs == parts.n_inputs == 10


def test_the_mass_is_transformer_lens_head_score_where_both_are_defined():
    """TransformerLens scores a whole pattern: the mean mass over all its rows, own position excluded by the mask."""
    model, batch = loud_decoder(), TASK.sample(1, torch.Generator().manual_seed(2))
    mask = torch.rand(1, 12, 12, generator=torch.Generator().manual_seed(3)).lt(0.3).tril(-1)
    meter = AttentionMeter(model)
    meter.update(batch.inputs, mask, torch.arange(12))
    mass = meter.result().dependency_mass.mean(-1)
    for layer in range(2):
        pattern = captured(model, batch.inputs, [pattern_name(layer)])[pattern_name(layer)][0]
        for head in range(3):
            score = compute_head_attention_similarity_score(
                pattern[head], mask[0].float(), exclude_bos=False, exclude_current_token=False, error_measure="mul"
            )
            assert mass[layer, head].item() == pytest.approx(score, abs=1e-5)


def test_theorem_1_attends_to_the_secret_bits_alone():
    task = Parity(n=12, k=3, cot=False)
    block = parity_construction(task, 512, torch.Generator().manual_seed(0)).block
    probe = measured(block, task, task.sample(32, torch.Generator().manual_seed(1)))
    assert probe.dependency_mass.item() == pytest.approx(1.0, abs=1e-6)
    assert probe.top1_hit.item() == 1
    assert probe.steps_served().tolist() == [[1.0]]
    assert probe.row_entropy.item() == pytest.approx(torch.tensor(3.0).log().item() / torch.tensor(13.0).log().item())


def test_theorem_4_has_one_layer_for_each_mask():
    """Each layer of the k-fold construction serves its own mask everywhere and the other masks only by chance."""
    task = KFold(k=4, n=5, cyclic=True)
    model = KFoldTheory(4, 5, dtype=torch.float64)
    model.construct(task.hidden, scale=60.0)
    batch = task.sample(64, torch.Generator().manual_seed(0))
    for mask in range(3):
        meter = AttentionMeter(model)
        wanted = task.layer_dependencies(Batch(batch.inputs, batch.targets), mask)
        own = torch.eye(20, dtype=torch.bool)
        meter.update(batch.inputs.view(-1, 4, 5), wanted | own, batch.supervised, causal=False)
        served = meter.result().top1_hit[:, 0]
        elsewhere = ~(wanted & own).any((0, 2))[batch.supervised]  # own positions are not attention's business
        assert (served[mask, elsewhere] == 1).all()
        assert served[[layer for layer in range(3) if layer != mask]][:, elsewhere].mean() < 0.4


def test_an_encoder_is_measured_as_one_by_default():
    model, generator = (
        hooked_encoder(EncoderConfig(2, 2, 8), Shape(7, 6, 5), seed=1),
        torch.Generator().manual_seed(0),
    )
    inputs, steps = torch.randint(0, 7, (4, 6), generator=generator), torch.arange(6)
    meter = AttentionMeter(model)
    meter.update(inputs, torch.ones(4, 6, 6, dtype=torch.bool), steps)
    rows = captured(model, inputs, [pattern_name(0)])[pattern_name(0)].double()
    expected = -torch.xlogy(rows, rows).sum(-1).mean(0) / torch.tensor(6.0).log()
    torch.testing.assert_close(meter.result().row_entropy[0], expected, atol=1e-5, rtol=0)
    assert torch.equal(head_entropies(model, inputs), head_entropies(model, inputs, causal=False))


def test_no_batch_is_no_result():
    with pytest.raises(ValueError, match="at least one batch"):
        AttentionMeter(SimplifiedBlock(torch.zeros(3, 2, 4), torch.ones(2))).result()
