"""The kernel inside a model: a small Llama in bfloat16, whose attention Triton's interpreter computes."""

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from hf_analysis.attention.layout import batch, packed
from hf_analysis.attention.recorder import record
from hf_analysis.models.loading import LoadedModel
from hf_analysis.traces.attention import attention_check, segmented_attention
from hf_analysis.traces.tokens import Unit
from probes.attention import computation
from tests.hf_analysis.traces.made import made_tokens

pytestmark = [
    pytest.mark.usefixtures("interpreted"),
    pytest.mark.filterwarnings("ignore:overflow encountered in exp2"),
]
EVERYTHING = ("normalised_entropy", "sink_mass", "normalised_entropy_without_sink", "top1_mass")


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=50, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, attn_implementation="sdpa",
    )  # fmt: skip
    made = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    for layer in made.model.layers:  # patterns that are not flat
        layer.self_attn.q_proj.weight.data *= 10
        layer.self_attn.k_proj.weight.data *= 10
    return made


@pytest.fixture
def kernel(monkeypatch):
    """The kernel is chosen on this machine too."""
    monkeypatch.setattr(computation, "why_not_kernel", lambda query: None)


@pytest.fixture
def inputs():
    rows = [packed([[1, *range(2, 12), 20, 21], [1, *range(2, 12), 30, 31, 32, 33]]), packed([[1, 5, 6], [1, 7]])]
    together = batch(rows, pad=0)
    return {"input_ids": together.ids, "position_ids": together.positions, "mask": together.mask}


def test_recording_by_the_kernel_is_recording_by_blocks(model, inputs, kernel, monkeypatch):
    found = record(model, **inputs, statistics=EVERYTHING, check=True)
    assert {one.name for one in found.computations} == {"kernel"}
    assert found.differences["blocks of scores in float32"] < 1e-5
    monkeypatch.undo()
    blocks = record(model, **inputs, statistics=EVERYTHING)
    assert {one.name for one in blocks.computations} == {"chunked"}
    for name in EVERYTHING:
        torch.testing.assert_close(found[name][0], blocks[name][0], atol=1e-5, rtol=0, equal_nan=True)
        # the second layer reads what the first gave, rounded to bfloat16 after other sums
        torch.testing.assert_close(found[name][1], blocks[name][1], atol=0.02, rtol=0, equal_nan=True)


def test_a_kernel_that_computes_something_else_is_refused(model, inputs, kernel, monkeypatch):
    original = computation.kernel_row_statistics
    monkeypatch.setattr(
        computation, "kernel_row_statistics", lambda q, k, scale, **options: original(q, k, 1.1 * scale, **options)
    )
    with pytest.raises(ValueError, match=r"--check: layer 0, .* \(kernel\), but .* from blocks of scores in float32"):
        record(model, **inputs, check=True)


def test_sentences_by_the_kernel(model, kernel, monkeypatch):
    loaded = LoadedModel("llama", model, None)
    ids, units = list(range(1, 24)), [Unit("reasoning", "", a, a + 6) for a in (0, 6, 12, 18)]
    (found,) = segmented_attention(loaded, ids, [units])
    monkeypatch.undo()
    (blocks,) = segmented_attention(loaded, ids, [units])
    torch.testing.assert_close(found.mass[0], blocks.mass[0], atol=1e-5, rtol=0)
    torch.testing.assert_close(found.mass_without_sink[0], blocks.mass_without_sink[0], atol=1e-5, rtol=0)


def test_sentences_by_the_kernel_are_checked_and_others_refused(model, kernel, monkeypatch):
    loaded, text = LoadedModel("llama", model, None), made_tokens(list(range(1, 24)), (6, 12, 18))
    ((name, difference),) = attention_check(loaded, text).items()
    assert name == "blocks of scores in float32"
    assert difference < 1e-5
    original = computation.kernel_group_mass
    monkeypatch.setattr(
        computation, "kernel_group_mass", lambda q, k, scale, *given, **o: original(q, k, 1.1 * scale, *given, **o)
    )
    with pytest.raises(ValueError, match=r"--check: layer 0, .* \(kernel\), but .* from blocks of scores in float32"):
        attention_check(loaded, text)
