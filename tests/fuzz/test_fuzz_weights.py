"""Weights and configurations of models, damaged: refused with the file's name before any size in them is believed."""

import contextlib
import itertools
import json
import math
import shutil
import struct

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from hf_analysis.attention.recorder import record
from hf_analysis.models.headers import require_sound_directory, require_sound_gguf
from hf_analysis.models.loading import load_model
from tests.fuzz.cases import damages, refused_in_one_line
from tests.tiers import slow_but


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


@pytest.mark.parametrize("size", [2**64 - 1, 2**63, 2**40, 0], ids=["-1", "least negative", "2^40", "0"])
@pytest.mark.parametrize("place", ["dimension", "offset"])
def test_a_gguf_tensor_of_a_negative_or_huge_size_is_refused_or_sound(small_gguf, cases, place, size):
    """Behind a tensor's name: how many dimensions, each of them, the type, and where its data begin."""
    cases()
    data = bytearray(small_gguf.read_bytes())
    after = data.index(b"token_embd.weight") + len(b"token_embd.weight")
    at = after + 4 if place == "dimension" else after + 4 + 2 * 8 + 4
    data[at : at + 8] = struct.pack("<Q", size)
    small_gguf.write_bytes(data)
    sound = (place, size) == ("offset", 0)
    with contextlib.nullcontext() if sound else pytest.raises(ValueError, match=r"small\.gguf"):
        require_sound_gguf(small_gguf)


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


@pytest.fixture
def whole_gguf(tmp_path):
    """A model that loads: one layer, 16 numbers wide, with a tokenizer of bytes."""
    path, width, draws = tmp_path / "whole.gguf", 16, np.random.default_rng(0)
    words = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), "\u2581a", "\u2581b", "a", "b"]
    writer = gguf.GGUFWriter(path, "llama")
    sizes = {"context_length": 64, "embedding_length": width, "block_count": 1, "feed_forward_length": 32}
    for name, value in {**sizes, "head_count": 2, "head_count_kv": 2, "rope_dimension_count": 8}.items():
        getattr(writer, f"add_{name}")(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(words)
    writer.add_token_scores([0.0] * len(words))
    writer.add_token_types([2, 3, 3, *[6] * 256, 1, 1, 1, 1])
    for name, token in (("unk", 0), ("bos", 1), ("eos", 2)):
        getattr(writer, f"add_{name}_token_id")(token)
    shapes = {"token_embd": (len(words), width), "output": (len(words), width), "output_norm": (width,)}
    shapes |= {f"blk.0.attn_{name}": (width, width) for name in ("q", "k", "v", "output")}
    shapes |= {"blk.0.ffn_gate": (32, width), "blk.0.ffn_up": (32, width), "blk.0.ffn_down": (width, 32)}
    shapes |= {"blk.0.attn_norm": (width,), "blk.0.ffn_norm": (width,)}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", draws.standard_normal(shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("n", slow_but([25], [25, 400]))
def test_a_damaged_gguf_file_is_refused_or_measured(whole_gguf, cases, n, capfd):
    """What the check of its header lets pass is loaded: transformers and gguf read it then, whatever it says."""

    def measured() -> None:
        loaded = load_model(str(whole_gguf), device="cpu")
        record(loaded, loaded.encode("a b a"))

    measured()
    data = whole_gguf.read_bytes()
    header = data[: len(data) // 8]
    for i, (anywhere, first) in enumerate(zip(damages(data, n), damages(header, n))):
        cases()
        whole_gguf.write_bytes(anywhere if i % 2 else first + data[len(header) :])
        refused_in_one_line(measured)


SIZES = (10**9, -1, 0, 2**63, 10**40, 1e300, None, "x", [], True)


@pytest.mark.parametrize("value", slow_but([], SIZES), ids=lambda value: f"{value!r:.12}")
def test_any_entry_of_a_configuration_may_be_wrong(tiny_model, tmp_path, cases, value, capfd):
    """One entry after the other, in a model that loads: refused by name, or measured as if nothing were wrong."""
    path = tmp_path / "model"
    shutil.copytree(tiny_model, path)
    config = json.loads((path / "config.json").read_text())

    def measured() -> None:
        record(load_model(str(path), device="cpu"), [1, 2, 3])

    for name in config:
        cases()
        (path / "config.json").write_text(json.dumps({**config, name: value}))
        refused_in_one_line(measured)
    (path / "config.json").write_text(json.dumps(config))
    measured()
