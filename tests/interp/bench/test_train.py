"""The training bench compares like with like, and its records are complete. Nothing is timed here."""

import pytest
import torch

from interp.bench import train
from interp.bench.peers import PlainDecoder, hf_gpt2, hf_logits
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.weights import weights
from toy_models.parity.task import Parity

TINY = DecoderConfig(n_layers=2, n_heads=2, d_model=16, d_mlp=32)
TASK = Parity(n=6, k=2)
TOKENS = TASK.sample(5, torch.Generator().manual_seed(0)).inputs


def _copied_to_plain(plain: PlainDecoder, source: dict[str, torch.Tensor]) -> None:
    """Gives the plain decoder the bridge's parameters."""
    named = dict(plain.named_parameters())
    with torch.no_grad():
        for name in ("embed.weight", "pos_embed.weight", "ln_final.weight", "ln_final.bias"):
            named[name].copy_(source[name])
        for layer in range(TINY.n_layers):
            for kind in ("weight", "bias"):
                b = f"blocks.{layer}"
                qkv = [source[f"{b}.attn.{part}.{kind}"] for part in "qkv"]
                named[f"{b}.qkv.{kind}"].copy_(torch.cat(qkv))
                pairs = {"out": "attn.o", "ln1": "ln1", "ln2": "ln2", "mlp.0": "mlp.in", "mlp.2": "mlp.out"}
                for ours, theirs in pairs.items():
                    named[f"{b}.{ours}.{kind}"].copy_(source[f"{b}.{theirs}.{kind}"])


def test_the_plain_peer_computes_what_the_hooked_decoder_computes():
    bridge = hooked_decoder(TINY, TASK.d_vocab, TASK.n_ctx, seed=0)
    plain = PlainDecoder(TINY, TASK.d_vocab, TASK.n_ctx)
    _copied_to_plain(plain, weights(bridge))
    torch.testing.assert_close(plain(TOKENS), bridge(TOKENS), rtol=1e-4, atol=1e-5)


def test_every_peer_has_as_many_parameters():
    sizes = {
        sum(p.numel() for p in model.parameters())
        for model in (
            hooked_decoder(TINY, TASK.d_vocab, TASK.n_ctx, seed=0),
            PlainDecoder(TINY, TASK.d_vocab, TASK.n_ctx),
            hf_gpt2(TINY, TASK.d_vocab, TASK.n_ctx),
        )
    }
    assert len(sizes) == 1
    assert hf_logits(hf_gpt2(TINY, TASK.d_vocab, TASK.n_ctx), TOKENS).shape == (*TOKENS.shape, TASK.d_vocab)


def test_records_name_every_peer_and_the_bar():
    size = train.Size(TINY, turns=2, bar_cot=1e9, bar_no_cot=0)
    cot, no_cot = train.run(batch_size=8, n=6, k=2, sizes=(size,))
    peers = {"plain PyTorch + SDPA", "TransformerLens native", "HF GPT-2"}
    assert set(cot["ratio"]) == set(no_cot["ratio"]) == peers
    assert (cot["reached"], no_cot["reached"]) == (False, True)
    for name, ratio in cot["ratio"].items():
        assert ratio > 0
        assert cot["ms"][name] > 0


@pytest.mark.parametrize("cot", [True, False])
def test_the_flop_count_of_the_sparse_step_is_that_of_its_matrix_products(cot):
    task = Parity(n=6, k=2, cot=cot)
    flops = [
        train.sparse_flops(DecoderConfig(1, 1, 16, d_mlp), task, task.sample(8, torch.Generator().manual_seed(0)))
        for d_mlp in (32, 64)
    ]
    # The second MLP matrix costs 2 * states * d_mlp * d_model forward and twice that backward.
    assert flops[1] - flops[0] >= 3 * 2 * 8 * (2 if cot else 1) * 32 * 16
