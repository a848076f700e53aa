"""The tokens of each sentence, against what they decode to."""

from dataclasses import replace
from itertools import pairwise

import pytest

from hf_analysis.text.traces import Trace, load_traces
from hf_analysis.traces.tokens import group_of_token, trace_tokens
from tests.hf_analysis.tiny_models import build

THOUGHT = "We add 3.5 and 4. So $x = 7.5$ it is!\n\nIt is 😀 and naïve 猫. Done."


def made(reasoning=THOUGHT, question="Ann has 3.5. How many?"):
    parts = (
        ("question", question),
        ("", "\n<think>\n"),
        ("reasoning", reasoning),
        ("", "\n</think>\n"),
        ("answer", "7"),
    )
    return Trace("t", parts, "7")


@pytest.mark.parametrize("name", ["llama", "builtin"])
def test_every_token_is_in_the_sentence_of_its_last_character(name, request):
    model = request.getfixturevalue(name)
    found = trace_tokens(model, made())
    assert list(found.ids) == model.encode(made().text)
    assert [unit.span for unit in found.units] == ["question", *["reasoning"] * 4, "answer"]
    assert [unit.text.strip() for unit in found.sentences] == [
        "We add 3.5 and 4.", "So $x = 7.5$ it is!", "It is 😀 and naïve 猫.", "Done."
    ]  # fmt: skip
    for unit in found.units:
        decoded = model.decode(list(found.ids[unit.start : unit.end]))
        assert decoded.strip() == unit.text.strip()
    starts = [(unit.start, unit.end) for unit in found.units]
    assert starts == sorted(starts)
    assert all(a[1] <= b[0] for a, b in pairwise(starts))
    groups = group_of_token(len(found.ids), found.units)
    assert [int((groups == i).sum()) for i in range(6)] == [unit.n_tokens for unit in found.units]
    tags = model.decode([i for i, group in zip(found.ids, groups) if group == -1])
    assert "think" in tags
    assert "add" not in tags


def test_the_built_in_traces_are_covered_but_for_the_template(builtin):
    for trace in load_traces("builtin", limit=4):
        found = trace_tokens(builtin, trace)
        assert (group_of_token(len(found.ids), found.units) >= 0).all()
        assert model_text(builtin, found) == trace.text


def model_text(model, found):
    return "".join(model.decode(list(found.ids[unit.start : unit.end])) for unit in found.units)


def test_bad_traces_are_refused_in_one_line(llama):
    with pytest.raises(ValueError, match="trace t has 1 sentence of reasoning, expected at least 2"):
        trace_tokens(llama, made("Only one."))
    config = build("llama").config
    config.max_position_embeddings = 16
    with pytest.raises(ValueError, match=r"trace t has .* tokens, but tiny-llama takes at most 16"):
        trace_tokens(replace(llama, model=build(config)), made())
