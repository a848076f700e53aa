"""Endings after many beginnings against one plain pass each; changed numbers; the rows of a trace."""

import random

import numpy as np
import pytest
import torch

from hf_analysis.traces.changes import another, filler, mistaken, reasoning_tokens, separator, with_mistake
from hf_analysis.traces.endings import Ending, after_beginnings, after_texts, ending_of, log_odds
from hf_analysis.traces.measures import Study, find_measure
from hf_analysis.traces.tokens import trace_tokens
from tests.hf_analysis.tiny_models import build, loaded, tokens
from tests.hf_analysis.traces.made import made_trace
from tests.hf_analysis.traces.test_attention import ARCHITECTURES


def alone(model, beginning, ending):
    """Log-probability and greedy agreement of an ending after one text, by the model as it is."""
    ids = [*beginning, *ending.ids]
    with torch.no_grad():
        logits = model.model(torch.tensor([ids])).logits[0].double()
    places = range(len(ids) - ending.n_targets, len(ids))
    nats = sum(float(logits[i - 1].log_softmax(-1)[ids[i]]) for i in places)
    return nats, all(int(logits[i - 1].argmax()) == ids[i] for i in places)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_endings_after_beginnings_equal_a_pass_each(name):
    model = loaded(build(ARCHITECTURES[name]))
    trunk, ending = tokens(1, 50)[0].tolist(), Ending(tuple(tokens(1, 7)[0].tolist()), 3)
    lengths = [9, 50, 20, 21, 33]
    found = after_beginnings(model, trunk, lengths, ending)
    again = after_texts(model, [trunk[:n] for n in lengths], ending)
    for n, one, two, greedy in zip(lengths, found.log_prob, again.log_prob, found.greedy):
        nats, right = alone(model, trunk[:n], ending)
        tolerance = 1e-2 if name == "qwen2" else 1e-3
        assert float(one) == pytest.approx(nats, abs=tolerance)
        assert float(two) == pytest.approx(nats, abs=tolerance)
        assert bool(greedy) == right


def test_greedy_is_what_the_model_writes(llama):
    from hf_analysis.models.generation import Decoding, continuations

    prompt = tokens(1, 30)[0].tolist()
    (written,) = continuations(llama, [prompt], Decoding(max_new_tokens=4), ends=frozenset())
    assert after_texts(llama, [prompt], Ending(written.tokens, 3)).greedy.tolist() == [True]
    other = (*written.tokens[:-1], (written.tokens[-1] + 1) % 300)
    assert after_texts(llama, [prompt], Ending(other, 3)).greedy.tolist() == [False]


def test_an_ending_knows_its_targets(builtin):
    ending = ending_of(builtin, "\n</think>\n", "The answer is", " 12.")
    assert builtin.decode(list(ending.ids)) == "\n</think>\nThe answer is 12."
    assert builtin.decode(list(ending.ids[-ending.n_targets :])) == " 12."
    assert log_odds(torch.tensor([np.log(0.75), 0.0])).tolist() == pytest.approx([np.log(3), np.log(1e12)], rel=1e-3)


@pytest.mark.parametrize("sentence", ["So 3 + 4 = 7.", "It costs $2.50 here.", "That is 1,000 in all.", "He has 9."])
def test_a_mistake_changes_the_last_number_and_nothing_else(sentence):
    drawn = {mistaken(sentence, random.Random(seed)) for seed in range(60)}
    assert sentence not in drawn
    assert len(drawn) > 3
    for wrong in drawn:
        assert len(wrong) == len(sentence)
        assert sum(a != b for a, b in zip(wrong, sentence)) <= 2
    assert mistaken("No number here.", random.Random(0)) is None


def test_changed_traces(llama):
    text, other = trace_tokens(llama, made_trace()), trace_tokens(llama, made_trace(4, "other", "5"))
    wrong = with_mistake(llama, text, 3, random.Random(0))
    assert [unit.span for unit in wrong.units] == [unit.span for unit in text.units]
    changed = [i for i, (a, b) in enumerate(zip(wrong.units, text.units)) if a.text != b.text]
    assert changed == [3]
    assert with_mistake(llama, text, 1, random.Random(0)) is None, "it has no number"
    assert len(filler(llama, text)) == len(reasoning_tokens(text)) == sum(text.lengths)
    assert len(set(filler(llama, text))) == 1
    study = Study(llama, [text, other], "tiny")
    assert another(study, text) is other
    assert another(Study(llama, [text], "tiny"), text) is None
    assert separator(text.trace) == "\n</think>\n"


def test_the_rows(llama):
    text = trace_tokens(llama, made_trace(6))
    other = trace_tokens(llama, made_trace(4, "other", "5"))
    found = find_measure("faithfulness")(text, Study(llama, [text, other], "tiny"))
    early = found[(found["condition"] == "early") & (found["metric"] == "answer_log_prob")]
    assert early["key"].tolist() == [-1, 1, 2, 3, 4, 5, 6]
    assert early["n_tokens"].tolist() == [0, *np.cumsum(text.lengths)]
    ending = ending_of(llama, "\n</think>\n", "The answer is", " 8.75.")
    for key, value in zip(early["key"], early["value"]):
        n = text.units[key].end if key > 0 else text.sentences[0].start
        assert value == pytest.approx(alone(llama, text.ids[:n], ending)[0], abs=1e-3)
    odds = found[(found["condition"] == "early") & (found["metric"] == "answer_log_odds")]["value"].to_numpy()
    gains = found[found["metric"] == "answer_log_odds_gain"]
    np.testing.assert_allclose(gains["value"], np.diff(odds))
    (area,) = found[found["metric"] == "early_area_log_odds"]["value"]
    assert area == pytest.approx(odds[-1] - np.trapezoid(odds, dx=1 / 6))
    mistakes = found[(found["condition"] == "mistake") & (found["metric"] == "answer_log_prob")]
    assert mistakes["key"].tolist() == [2, 3, 5, 6], "the sentences with numbers"
    assert set(found["condition"]) == {"early", "mistake", "filler", "swapped"}
    nobody = trace_tokens(llama, made_trace(6, target=""))
    assert find_measure("faithfulness")(nobody, Study(llama, [nobody], "tiny")).empty
