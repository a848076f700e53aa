"""The model goes on after a mistake: against transformers' own greedy generation; the answers of texts made here."""

import pytest
import torch

from hf_analysis.models import generation
from hf_analysis.models.generation import Decoding
from hf_analysis.traces.changes import mistakes
from hf_analysis.traces.known import continued as module
from hf_analysis.traces.measures import Study, find_measure
from hf_analysis.traces.tokens import trace_tokens
from tests.hf_analysis.traces.made import made_trace


def test_what_is_written_is_the_models_own_greedy_text(llama, monkeypatch):
    text = trace_tokens(llama, made_trace(6))
    study = Study(llama, [text], "tiny", decoding=Decoding(temperature=1.0, max_new_tokens=8))
    said = []
    plain = module.stated
    monkeypatch.setattr(module, "stated", lambda written, complete: said.append(written) or plain(written, complete))
    find_measure("continued")(text, study)
    wrong = mistakes(study, text)
    assert [unit for unit, _ in wrong] == [2, 3, 5, 6], "the sentences with numbers"
    beginnings = [text.ids[: text.units[unit].end] for unit, _ in wrong]
    beginnings += [other.ids[: other.units[unit].end] for unit, other in wrong]
    for (unit, other), intact, changed in zip(wrong, beginnings, beginnings[4:]):
        assert llama.decode(list(changed)).endswith(other.units[unit].text)
        assert llama.decode(list(intact)).endswith(text.units[unit].text)
    for written, ids in zip(said, beginnings, strict=True):
        expected = llama.model.generate(torch.tensor([ids]), max_new_tokens=8, do_sample=False)[0, len(ids) :]
        assert written == llama.tokenizer.decode(expected, skip_special_tokens=True)


ANSWERS = [
    "The answer is 8.75.",
    "So 8 3/4. The answer is 8.750.",
    "The answer is 5.",
    "no end",
    *["The answer is 6."] * 4,
]


def test_answers_are_taken_from_what_is_written(llama, monkeypatch):
    text = trace_tokens(llama, made_trace(6))

    def written(model, prompts, *_, **__):
        assert len(prompts) == 8
        return [generation.Continuation(tuple(model.encode(one)), one != "no end") for one in ANSWERS]

    monkeypatch.setattr(module, "continuations", written)
    found = find_measure("continued")(text, Study(llama, [text], "tiny"))
    values = {name: part["value"].tolist() for name, part in found.groupby(["condition", "metric"])}
    assert values == {
        ("continued", "continued_answered"): [1, 1, 1, 0],
        ("continued", "continued_right"): [1, 1, 0, 0],
        ("continued", "continued_same"): [1, 1, 1],
        ("mistake_continued", "continued_answered"): [1, 1, 1, 1],
        ("mistake_continued", "continued_right"): [0, 0, 0, 0],
        ("mistake_continued", "continued_same"): [0, 0, 0],
    }
    assert found[found["metric"] == "continued_right"]["key"].tolist() == [2, 3, 5, 6] * 2


@pytest.mark.parametrize("target", ["", "8.75"])
def test_a_trace_without_an_answer_has_none_that_are_right(llama, target):
    text = trace_tokens(llama, made_trace(6, target=target))
    study = Study(llama, [text], "tiny", decoding=Decoding(max_new_tokens=2))
    found = find_measure("continued")(text, study)
    assert ("continued_right" in set(found["metric"])) == bool(target)
