"""Traces from every kind of record: what is the question, the reasoning and the answer, to the character."""

import json
import re

import pytest

from hf_analysis.text.traces import load_traces

THOUGHT = "<think>\nFirst, 3+4=7. Then 7*2=14.\n</think>\n\nThe answer is 14."


def written(tmp_path, *records):
    path = tmp_path / "traces.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


def only(tmp_path, record, **options):
    (trace,) = load_traces(written(tmp_path, record), **options)
    for name, start, end in trace.places():
        assert trace.text[start:end] == trace.span(name)
    return trace


RECORDS = {
    "prompt and completion": {"prompt": "Ann has 3. How many?", "completion": THOUGHT},
    "chat as prompt": {
        "prompt": [{"role": "user", "content": "Ann has 3. How many?"}],
        "completion": [{"role": "assistant", "content": THOUGHT}],
    },
    "messages": {
        "messages": [{"role": "user", "content": "Ann has 3. How many?"}, {"role": "assistant", "content": THOUGHT}]
    },
    "one text": {"text": f"Ann has 3. How many?\n{THOUGHT}"},
    "thought in a column": {
        "prompt": "Ann has 3. How many?",
        "completion": "The answer is 14.",
        "reasoning_content": "First, 3+4=7. Then 7*2=14.",
    },
}


@pytest.mark.parametrize("kind", RECORDS)
def test_spans_of_every_kind_of_record(kind, tmp_path):
    trace = only(tmp_path, RECORDS[kind])
    assert trace.span("question").strip() == "Ann has 3. How many?"
    assert trace.span("reasoning") == "First, 3+4=7. Then 7*2=14."
    assert trace.span("answer") == "The answer is 14."
    assert trace.target == "14"
    assert "<think>\nFirst" in trace.text
    assert "14.\n</think>\n\nThe" in trace.text


def test_a_system_message_is_a_span_of_its_own(tmp_path):
    record = {"messages": [{"role": "system", "content": "Be brief."}, *RECORDS["messages"]["messages"]]}
    trace = only(tmp_path, record)
    assert [name for name, _, _ in trace.places()] == ["system", "question", "reasoning", "answer"]
    assert trace.text.startswith("Be brief.\n\nAnn has 3.")


def test_without_tags_the_reasoning_ends_before_the_sentence_of_the_answer(tmp_path):
    trace = only(tmp_path, {"prompt": "Q?", "completion": " 3+4=7. Then 7*2=14. So the answer is 14."})
    assert trace.span("reasoning") == "3+4=7. Then 7*2=14."
    assert trace.span("answer") == "So the answer is 14."


def test_a_thought_that_was_cut_off_is_all_reasoning_and_states_what_it_was_told(tmp_path):
    trace = only(tmp_path, {"prompt": "Q?", "completion": "<think>One. Two. Thr", "answer": "5"})
    assert (trace.span("reasoning"), trace.span("answer"), trace.target) == ("One. Two. Thr", "", "5")


def test_worked_solutions_are_read_as_in_cot_clean(tmp_path):
    record = {"question": "Ann has 3, buys 4. How many?", "answer": "She has 3+4=<<3+4=7>>7.\nThat is 7.\n#### 7"}
    trace = only(tmp_path, record)
    assert trace.text == "Ann has 3, buys 4. How many? She has 3+4=7.\nThat is 7. The answer is 7."
    assert trace.span("answer") == "The answer is 7."


def test_the_built_in_traces_have_all_spans():
    found = load_traces("builtin", limit=3, seed=1)
    assert [trace.id for trace in found] == [f"gsm-symbolic-1-0000{i}" for i in (1, 2, 3)]
    for trace in found:
        assert [name for name, _, _ in trace.places()] == ["question", "reasoning", "answer"]
        assert trace.span("answer") == f"The answer is {trace.target}."
        assert trace.problem.question == trace.span("question")


def test_a_chat_is_the_templates_own_text_and_tells_where_its_messages_stand(builtin, tmp_path):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Ann has 3. How many?"}]
    record = {"messages": [*messages, {"role": "assistant", "content": THOUGHT}]}
    trace = only(tmp_path, record, chat=builtin)
    prompt = builtin.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert trace.text == prompt + THOUGHT
    assert (trace.span("system"), trace.span("question")) == ("Be brief.", "Ann has 3. How many?")


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ([{"prompt": "Q?", "completion": "The answer is 5."}], "line 1: trace traces-00001 has no reasoning"),
        ([{"prompt": "Q?", "completion": "<think>\n\n</think>\n5"}], "has no reasoning: expected <think>"),
        ([{"id": "a", "text": f"Q{THOUGHT}"}] * 2, "line 2: the id 'a' occurs twice"),
        ([{"text": f"Q{THOUGHT}"}, {"question": "Q?", "answer": "5"}], "line 2: no trace, though those before are"),
        ([{"question": "Q?", "answer": "5"}], "has no worked solution"),
        ([{"messages": [{"role": "assistant", "content": "x"}]}], "no message of the user"),
        ([{"nothing": 1}], "say which is which"),
        ([{"prompt": 5, "completion": THOUGHT}], "line 1: 'prompt' must be a text or messages, got '5'"),
        ([{"prompt": "Q?", "completion": 5}], "'completion' must be a text or messages"),
        ([{"prompt": "\ud800?", "completion": THOUGHT}], "the question holds a lone surrogate"),
        ([{"id": "a\x00b", "text": f"Q{THOUGHT}"}], "line 1: 'id' holds the control character U+0000"),
        ([{"id": ["a"], "text": f"Q{THOUGHT}"}], "line 1: 'id' must be a text or a number, got list"),
        ([], "holds no"),
    ],
)
def test_bad_input_is_one_line(records, message, tmp_path):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        load_traces(written(tmp_path, *records))
    assert "\n" not in str(caught.value)


def test_a_record_whose_id_is_empty_has_none(tmp_path):
    records = [{"id": None, "text": f"Q{THOUGHT}"}, {"id": float("nan"), "text": f"Q{THOUGHT}"}]
    assert [trace.id for trace in load_traces(written(tmp_path, *records))] == ["traces-00001", "traces-00002"]
