"""What a model writes with a span hidden, against whole passes without a cache."""

import pytest
import torch

from hf_analysis.causal.knockout import Knockout, knocked_out
from hf_analysis.models.generation import Decoding, continuations
from hf_analysis.traces.hidden import MOST_WRITTEN, sentences_and_controls, texts_without, written_without
from hf_analysis.traces.measures import Study, find_measure
from hf_analysis.traces.suppression import Hidden
from hf_analysis.traces.tokens import trace_tokens
from tests.hf_analysis.tiny_models import build, loaded, tokens
from tests.hf_analysis.traces.made import made_trace
from tests.hf_analysis.traces.test_attention import ARCHITECTURES
from tests.hf_analysis.traces.test_suppression import edges


def written_plainly(model, ids, span, most, heads=None):
    """A whole pass for each token, with the span hidden from all that stands behind it."""
    ids, n = list(ids), len(ids)
    for _ in range(most):
        hidden = torch.zeros(len(ids), len(ids), dtype=torch.bool) if span is None else edges(span, len(ids))
        with torch.no_grad(), knocked_out(model, Knockout(hidden[None], None if heads is None else heads[None])):
            ids.append(int(model.model(torch.tensor([ids])).logits[0, -1].argmax()))
    return tuple(ids[n:])


@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_equal_to_whole_passes(name):
    model = loaded(build(ARCHITECTURES[name]))
    ids = tokens(1, 60)[0].tolist()
    spans = [None, Hidden(20, 41), Hidden(2, 30)]
    heads = torch.zeros(3, 4, dtype=torch.bool)
    heads[1] = True
    for chosen in (None, heads):
        found = texts_without(model, ids, spans, chosen, most=3)
        assert found == [written_plainly(model, ids, span, 3, chosen) for span in spans]


def test_nothing_hidden_is_what_the_model_writes(llama):
    ids = tokens(1, 40)[0].tolist()
    (expected,) = continuations(llama, [ids], Decoding(max_new_tokens=MOST_WRITTEN))
    assert texts_without(llama, ids, [None]) == [expected.tokens]
    assert texts_without(llama, ids, [None, Hidden(3, 39)])[0] == expected.tokens, "whatever is hidden beside it"


def test_the_sentence_of_the_largest_effect_and_its_control(llama):
    text = trace_tokens(llama, made_trace(6))
    study = Study(llama, [text], "tiny", controls=2)
    rows = find_measure("suppression")(text, study)
    found = written_without(study, text, rows)
    assert [one["condition"] for one in found] == ["intact", "hidden", "control"]
    own = rows[(rows["condition"] == "hidden") & (rows["metric"] == "suppression_effect")]
    mean = (
        own.groupby("key")["value"].mean().drop(index=6)
    )  # behind the last sentence nothing of the reasoning is left
    key = int(mean.idxmax())
    assert [one["key"] for one in found] == [-1, key, key]
    assert found[1]["hidden"] == text.units[key].text
    behind, sentences, controls = sentences_and_controls(study, text)
    span = next(span for n, span in controls if behind[n] == key)
    end = text.sentences[-1].end
    expected = texts_without(llama, text.ids[:end], [None, sentences[behind.index(key)], span])
    assert [one["text"] for one in found] == [llama.decode(list(one)) for one in expected]
    assert written_without(study, text, rows[rows["metric"] == "suppression_log_kl"]) == []
