"""Weights and configurations of models, damaged: refused with the file's name before any size in them is believed."""

import itertools
import json
import math
import struct

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hf_analysis.models.headers import require_sound_directory, require_sound_gguf
from hf_analysis.models.loading import load_model
from tests.fuzz.cases import damages, refused_in_one_line


@pytest.fixture
def small_gguf(tmp_path):
    path = tmp_path / "small.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.block_count", 1)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b", "end"])
    writer.add_array("tokenizer.ggml.scores", [0.0, 1.0, 2.0])
    writer.add_tensor("token_embd.weight", np.arange(12, dtype=np.float32).reshape(3, 4))
    writer.add_tensor("output_norm.weight", np.ones(4, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_a_gguf_file(small_gguf, cases):
    whole = small_gguf.read_bytes()
    require_sound_gguf(small_gguf)

    for data in damages(whole, 3000):
        cases()
        small_gguf.write_bytes(data)
        refused_in_one_line(lambda: require_sound_gguf(small_gguf))


@pytest.mark.parametrize("place", [8, 16], ids=["tensors", "values"])
@pytest.mark.parametrize("count", [2**20, 2**60, 2**64 - 1])
def test_a_gguf_header_that_asks_for_more_than_there_is(small_gguf, cases, place, count):
    cases()
    data = bytearray(small_gguf.read_bytes())
    data[place : place + 8] = struct.pack("<Q", count)
    small_gguf.write_bytes(data)
    with pytest.raises(ValueError, match=rf"--model .*cannot be loaded \(.*small\.gguf is .*{count} "):
        load_model(str(small_gguf))


@pytest.fixture
def small_directory(tmp_path):
    save_file({"w": torch.zeros(2, 2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 1}')
    require_sound_directory(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_a_directory_of_a_model(small_directory, cases, name):
    path = small_directory / name
    whole = path.read_bytes()

    for data in damages(whole, 2000):
        cases()
        path.write_bytes(data)
        refused_in_one_line(lambda: require_sound_directory(small_directory))


def test_values_of_a_configuration(small_directory, cases):
    names = ["num_hidden_layers", "n_layer", "text_config", "model_type", "vocab_size"]
    values = [None, True, "x", "", [], {}, -1, 0, 1, 2, 999, 1001, 2**63, 10**400, 1e300, -0.5, math.nan, -math.inf]
    values += [{"num_hidden_layers": 10**9}, {"n_layers": -7}, [[[]]], {"text_config": {"a": None}}]
    for first, second in itertools.product(itertools.product(names, values), repeat=2):
        if first[0] >= second[0]:
            continue
        cases()
        (small_directory / "config.json").write_text(json.dumps(dict([first, second])))
        refused = refused_in_one_line(lambda: require_sound_directory(small_directory))
        layers = [value for name, value in (first, second) if name in ("num_hidden_layers", "n_layer")]
        assert refused or all(not isinstance(n, int) or 0 <= n <= 1000 for n in layers)


@pytest.mark.parametrize("n", [10**9, -1, float("nan"), float("inf"), "9" * 400])
def test_a_configuration_that_asks_for_endless_layers_is_refused_at_once(small_directory, cases, n):
    cases()
    text = json.dumps({"model_type": "llama", "num_hidden_layers": int(n) if isinstance(n, str) else n})
    (small_directory / "config.json").write_text(text)
    with pytest.raises(ValueError, match=r"cannot be loaded \(.*config\.json says num_hidden_layers .* 1 tensors"):
        load_model(str(small_directory))
