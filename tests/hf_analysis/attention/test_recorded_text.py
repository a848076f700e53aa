"""What `record` takes besides token ids, and what it says of what it gives and of what it cannot measure."""

import pytest
import torch

from hf_analysis.attention.recorder import record, recording
from tests.hf_analysis.tiny_models import build, loaded
from toy_models.engine.decoder import DecoderConfig, hooked_decoder

TEXT = "Two plus two is four."


def test_a_text_is_recorded_as_its_tokens(builtin):
    expected = record(builtin, builtin.encode(TEXT), statistics=["sink_mass"])
    for found in (
        record(builtin, TEXT, statistics="sink_mass"),
        record(builtin, [TEXT], statistics=["sink_mass"]),
        record(builtin.model, TEXT, statistics="sink_mass", tokenizer=builtin.tokenizer),
    ):
        assert list(found.values) == ["sink_mass"]
        assert torch.equal(found["sink_mass"], expected["sink_mass"])
        assert found.tokens == expected.tokens


def test_one_name_of_a_statistic_is_that_one():
    model = build("llama")
    with recording(model, "sink_mass") as recorder, torch.no_grad():
        model(torch.tensor([[1, 2, 3]]))
    assert list(recorder.result().values) == ["sink_mass"]


def test_a_text_without_a_tokenizer_is_refused():
    with pytest.raises(ValueError, match="a text arrived and no tokenizer: give tokenizer="):
        record(build("llama"), TEXT)


def test_texts_of_unequal_length_are_refused_by_their_tokens(builtin):
    with pytest.raises(ValueError, match=r"texts of 2 to \d+ tokens; pad them on the right"):
        record(builtin, [TEXT, "Two plus"])


def test_a_hooked_model_is_told_where_its_pattern_is():
    model = hooked_decoder(DecoderConfig(n_layers=1, n_heads=1, d_model=8), d_vocab=4, n_ctx=4, seed=0)
    for refused in (lambda: record(model, [1, 2]), lambda: recording(model).__enter__()):
        with pytest.raises(ValueError, match="this is a hooked model: take cache") as caught:
            refused()
        assert "\n" not in str(caught.value)


def test_a_recording_says_in_one_line_what_it_holds():
    found = record(loaded(build("llama")), [[1, 2, 3]], statistics=["normalised_entropy", "sink_mass"])
    n_heads = found["sink_mass"].shape[2]
    sizes = f"3 layers, 1 text, {n_heads} heads, 3 tokens"
    assert repr(found) == f"Recording({sizes}; normalised_entropy, sink_mass; .to_pandas())"
