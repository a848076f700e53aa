"""Continuations from every beginning: against greedy texts one by one, and divergences in closed form."""

from math import log

import pytest
import torch

from hf_analysis.models.generation import Decoding, continuations
from hf_analysis.traces.measures import Study, find_measure
from hf_analysis.traces.resampling import Resampled, answer_divergence, resampled
from hf_analysis.traces.tokens import trace_tokens
from tests.hf_analysis.traces.made import made_trace


def test_divergences_of_answers():
    assert answer_divergence(["7"] * 4, ["7.0"] * 4) == 0, "one answer, two spellings"
    assert answer_divergence(["7"] * 3, ["8"] * 3) == pytest.approx(0.8 * log(4) + 0.2 * log(1 / 4))
    assert answer_divergence(["7", ""], ["7", ""]) == 0
    assert answer_divergence(["7"] * 9 + ["8"], ["8"] * 9 + ["7"]) > answer_divergence(["7", "8"], ["8", "8"]) > 0
    assert Resampled(0, ("7", "7.0", "", "8")).right("7") == 0.5


def test_the_rows_are_of_what_the_model_writes(llama):
    text = trace_tokens(llama, made_trace(3))
    decoding = Decoding(temperature=1.0, max_new_tokens=5)
    study = Study(llama, [text], "tiny", continuations=2, decoding=decoding)
    found = find_measure("resampling")(text, study)
    assert found[found["metric"] == "resampled_right"]["key"].tolist() == [-1, 1, 2, 3]
    assert found[found["metric"] == "resampling_importance"]["key"].tolist() == [1, 2, 3]
    assert (found["n_tokens"] == 2).all()
    assert found.equals(find_measure("resampling")(text, study)), "the same seed writes the same texts"


def test_texts_are_those_of_each_beginning_alone(llama):
    text = trace_tokens(llama, made_trace(2))
    greedy = Study(llama, [text], "m", continuations=1, decoding=Decoding(max_new_tokens=6))
    found = resampled(greedy, text)
    assert [one.n_sentences for one in found] == [0, 1, 2]
    ends = [text.sentences[0].start, *(unit.end for unit in text.sentences)]
    with torch.no_grad():
        alone = [continuations(llama, [text.ids[:end]], Decoding(max_new_tokens=6))[0] for end in ends]
    assert all(not one.complete for one in alone)
    assert [one.answers for one in found] == [("",)] * 3, "cut off after six tokens, they state nothing"
