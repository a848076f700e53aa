"""Measurements that something else spoils: other versions, numbers that are not finite."""

import json

import pandas as pd
import pytest
import torch
from transformers import Llama4TextConfig

from hf_analysis.attention.recorder import record, require_measurable
from hf_analysis.measurement.measure import measure
from hf_analysis.models.loading import LoadedModel
from probes.attention.entropy import row_entropy
from tests.hf_analysis.architectures import eager, tiny_model
from tests.hf_analysis.tiny_models import GROUPED, VOCABULARY, build

PAIR = ("cot", "no_cot")


def test_rows_of_two_versions_are_not_mixed(llama, problems, tmp_path, monkeypatch):
    whole, out = measure(llama, problems[:2], PAIR, tmp_path / "whole"), tmp_path / "out"
    measure(llama, problems[:2], PAIR, out)
    next((out / "problems").iterdir()).unlink()
    monkeypatch.setattr("probes.base.identity.versions", lambda names: dict.fromkeys(names, "9.9"))
    with pytest.raises(ValueError, match=r"was begun by other versions \(cotlens .* there, 9\.9 here; torch"):
        measure(llama, problems[:2], PAIR, out, resume=True)
    again = measure(llama, problems[:2], PAIR, tmp_path / "whole", resume=True)  # finished: nothing is mixed
    pd.testing.assert_frame_equal(again, whole, check_exact=True)
    assert len(json.loads((tmp_path / "whole" / "measurement.json").read_text())["versions"]) == 1


def test_damaged_values_of_tokens_are_refused_by_name_and_left_alone(llama, problems, tmp_path):
    out = tmp_path / "out"
    measure(llama, problems[:2], PAIR, out, keep_tokens=2)
    whole = (out / "tokens.parquet").read_bytes()
    file = sorted((out / "tokens").iterdir())[0]
    sound = file.read_bytes()
    for damage in (b"", sound[: len(sound) // 2], b"not a table" * 50):
        file.write_bytes(damage)
        with pytest.raises(ValueError, match=f"{file.name} is damaged"):
            measure(llama, problems[:2], PAIR, out, keep_tokens=2, resume=True)
        assert file.read_bytes() == damage
    file.write_bytes(sound)
    measure(llama, problems[:2], PAIR, out, keep_tokens=2, resume=True)
    assert (out / "tokens.parquet").read_bytes() == whole


def test_the_rows_of_a_hybrid_name_the_layers_that_attend(tokenizer, problems, tmp_path):
    model = tiny_model("qwen3_next", vocab_size=VOCABULARY, max_position_embeddings=512)
    table = measure(LoadedModel("hybrid", model, tokenizer), problems[:1], PAIR, tmp_path / "out", keep_tokens=1)
    assert set(table["layer"]) == {3}
    assert set(pd.read_parquet(tmp_path / "out" / "tokens.parquet")["layer"]) == {3}
    facts = json.loads((tmp_path / "out" / "measurement.json").read_text())
    assert "layers 3 of 4 attend" in facts["paths"]


@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_weights_that_are_not_finite_are_said(number, tokenizer, problems, tmp_path):
    model = build("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.k_proj.weight[20, 0] = number
    spoiled = LoadedModel("spoiled", model, tokenizer)
    with pytest.raises(ValueError, match="condition cot: attention is not finite in layer 1, head 2 at token 1 of"):
        measure(spoiled, problems[:1], PAIR, tmp_path / "out")
    with pytest.raises(
        ValueError, match=r"spoiled: attention is not finite in layer 1, head 2; .*try --dtype float32"
    ):
        require_measurable(spoiled)


def test_what_overflows_in_float16_is_said_and_measured_in_float32(tokenizer, problems, tmp_path):
    """Keys beyond 65,504, the largest number of float16; which float32 has no trouble with."""
    model = build("llama")
    with torch.no_grad():
        weight = model.model.layers[1].self_attn.k_proj.weight
        weight.mul_(6e4 / weight.abs().max())
    assert not any(one.half().isinf().any() for one in model.parameters()), "the weights are numbers of float16"
    measure(LoadedModel("large", model, tokenizer), problems[:1], PAIR, tmp_path / "float32")
    with pytest.raises(
        ValueError, match=r"attention is not finite in layer 1, head \d at token .*try --dtype float32"
    ):
        measure(LoadedModel("large", model.half(), tokenizer), problems[:1], PAIR, tmp_path / "float16")
    assert not list((tmp_path / "float16").glob("problems/*.parquet"))


def test_rows_of_a_model_with_learned_sinks_are_over_its_keys_and_say_so(tokenizer, problems, tmp_path):
    """GPT-OSS: entropy of the keys alone, renormalised; what the sink takes is a metric of its own."""
    model = tiny_model("gpt_oss", vocab_size=VOCABULARY, max_position_embeddings=512)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.sinks.fill_(1.0)
    loaded = LoadedModel("sinks", model, tokenizer)
    table = measure(
        loaded, problems[:1], ("no_cot",), tmp_path / "out", metrics=("mean", "learned_sink_mass"), scopes=("all",)
    )
    passage = json.loads((tmp_path / "out" / "passages.jsonl").read_text())
    ids = torch.tensor([loaded.encode(passage["question"] + passage["continuation"])])
    weights = torch.stack(eager(model, ids)).double()[:, 0, :, 1:]  # without the first token, which sees one key
    taken = 1 - weights.sum(-1)
    assert taken.min() > 1e-3, "the sinks must matter for this test"
    n_visible = (weights > 0).sum(-1)
    entropy = row_entropy(weights / weights.sum(-1, keepdim=True)) / n_visible.log()
    for metric, expected in (("learned_sink_mass", taken), ("mean", entropy)):
        found = table[table["metric"] == metric].sort_values(["layer", "head"])["value"].to_numpy()
        assert found == pytest.approx(expected.mean(-1).flatten().numpy(), abs=1e-5), metric
    facts = json.loads((tmp_path / "out" / "measurement.json").read_text())
    assert facts["paths"] == ["chunked: learned sinks take mass: statistics are over the keys, renormalised"]


def test_attention_in_chunks_is_reduced_over_the_same_tokens_in_every_layer(tokenizer, problems, tmp_path):
    """The first token of a chunk sees one key in some layers (Llama 4); it has no part in any."""
    small = {**GROUPED, "hidden_size": 32, "intermediate_size": 16, "intermediate_size_mlp": 16, "head_dim": 16}
    config = Llama4TextConfig(**small, attention_chunk_size=8, num_local_experts=2, no_rope_layers=[1, 1, 0])
    assert set(config.layer_types) == {"chunked_attention", "full_attention"}
    chunked = LoadedModel("chunks", build(config), tokenizer)
    table = measure(chunked, problems[:1], ("no_cot",), tmp_path / "out", scopes=("all",))
    passage = json.loads((tmp_path / "out" / "passages.jsonl").read_text())
    ids = chunked.encode(passage["question"] + passage["continuation"])
    kept = [i for i in range(len(ids)) if i % 8]
    found = record(chunked, ids)["normalised_entropy"][:, 0]
    assert found[0, 0, 8].isnan()
    assert not found[2, 0, 8].isnan()
    mean = table[table["metric"] == "mean"]
    assert set(mean["n_tokens"]) == {len(kept)}
    assert mean["value"].to_numpy() == pytest.approx(found[..., kept].mean(-1).flatten().numpy(), abs=1e-6)
