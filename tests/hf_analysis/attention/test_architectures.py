"""Every causal LM of the installed transformers: the committed table, the most used ones, and hybrids."""

import re
from pathlib import Path

import pytest
import torch

from hf_analysis.attention.intercept import intercepting
from hf_analysis.attention.layout import packing
from hf_analysis.attention.recorder import record
from tests.hf_analysis import architectures

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "architectures.md"
MOST_USED = (
    "bloom", "falcon", "gemma3_text", "gpt2", "gpt_oss", "gptj", "llama", "mistral", "mixtral", "mpt", "opt", "phi3",
    "qwen3", "qwen3_next",
)  # fmt: skip


def committed() -> dict[str, tuple[str, str]]:
    """What the page says of each architecture, and why."""
    lines = re.findall(r"^\| `(\S+)` \| \w+ \| ([a-z ]+) \| \S* ?\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.M)
    return {name: (says, why) for name, says, why in lines}


def test_the_table_has_every_causal_lm_of_this_transformers():
    found = committed()
    assert sorted(found) == architectures.names(), "run python -m tests.hf_analysis.architectures"
    assert sum(says == "works" for says, _ in found.values()) > 150
    assert f"transformers {architectures.transformers.__version__}," in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", MOST_USED)
def test_the_most_used_equal_their_eager_attention(name):
    outcome = architectures.tried(name)
    assert (outcome.says, outcome.why) == committed()[name]
    assert outcome.difference < 1e-5


@pytest.mark.slow
def test_the_table_is_what_comes_out():
    """All of them, a few minutes: the nightly part."""
    expected = committed()
    for name in architectures.names():
        outcome = architectures.tried(name)
        assert (outcome.says, outcome.why) == expected[name], name
        assert outcome.difference is None or outcome.difference < 2e-5, name  # youtu's scores are large


def test_page_and_readme_count_what_the_table_says():
    says = [said for said, _ in committed().values()]
    counted = f"{says.count('works')} of {len(says)}"
    assert f"built tiny with random weights and measured: {counted}" in PAGE.read_text(encoding="utf-8")
    readme = Path(__file__).parents[3] / "README.md"
    assert f"[{counted}](docs/reference/architectures.md)" in readme.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def hybrid():
    return architectures.tiny_model("qwen3_next")


def test_the_layers_of_a_hybrid_keep_their_own_numbers(hybrid):
    found = record(hybrid, architectures.tokens())
    assert found.layers == (3,)
    frame = found.to_pandas()
    assert frame["layer"].unique().tolist() == [3]
    assert len(frame) == 2 * 4 * architectures.N_TOKENS


def test_the_texts_of_a_hybrid_are_never_packed(hybrid):
    possible, why = packing(hybrid, 20)
    assert not possible
    assert "GatedDeltaNet" in why


def test_what_needs_every_layer_refuses_a_hybrid(hybrid):
    complaint = r"attends in layers 3 of 4 only \(Qwen3NextGatedDeltaNet in the others\)"
    with pytest.raises(ValueError, match=complaint), intercepting(hybrid, lambda call: call.output()):
        hybrid(architectures.tokens())


def test_a_model_that_numbers_its_tokens_itself_is_never_packed():
    for name in ("bart", "roberta"):
        assert "numbers its tokens itself" in packing(architectures.tiny_model(name), 20)[1]


def test_layers_with_other_numbers_of_heads_are_refused():
    model = architectures.tiny_model("llama")
    attention = model.model.layers[2].self_attn
    attention.q_proj = torch.nn.Linear(32, 16, bias=False)
    attention.o_proj = torch.nn.Linear(16, 32, bias=False)
    attention.num_key_value_groups = 1
    with pytest.raises(ValueError, match="layer 2 has 2 heads, layer 0 has 4"):
        record(model, architectures.tokens())
