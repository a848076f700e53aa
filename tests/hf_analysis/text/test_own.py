"""What a model writes itself: outcomes, where a text ends, chat prompts, and the texts of a run."""

import json
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from transformers import MambaConfig

from hf_analysis.attention.recorder import record
from hf_analysis.measurement.measure import measure
from hf_analysis.measurement.pairs import matched_to, sizes_of_pairs
from hf_analysis.models.generation import Decoding
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text import own
from hf_analysis.text.chat import INSTRUCTION, chat_prompt, in_chat
from hf_analysis.text.conditions import Context, SetAside, find_condition, tokenise
from hf_analysis.text.own import OUTCOMES, OwnText, before_answer, outcome, own_texts
from probes.attention.entropy import length_matched_min
from tests.hf_analysis.tiny_models import VOCABULARY, build

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% if enable_thinking %}<think>{% endif %}{% endif %}"
)
SHORT = Decoding(max_new_tokens=12)


@pytest.mark.parametrize(
    ("text", "complete", "expected"),
    [
        ("3 + 4 = 7. The answer is 7.", True, "right"),
        ("The answer is 8.", True, "wrong"),
        ("She has 3 and then 4 and", False, "truncated"),
        ("3 + 4 = 7. The answer is 7.", False, "right"),  # the limit fell on its last token
        ("<think>The answer is 7. Or", False, "truncated"),
        ("I do not know.", True, "unparsable"),
        (" \n", True, "empty"),
        ("", False, "empty"),
    ],
)
def test_outcomes(text, complete, expected):
    assert outcome(text, complete, "7") == expected
    assert expected in OUTCOMES


def test_a_thought_that_the_prompt_began_states_no_answer():
    assert outcome("The answer is 7.", False, "7", prompt="How many?<think>") == "truncated"
    assert outcome("It is.</think>The answer is 7.", False, "7", prompt="How many?<think>") == "right"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("So the answer is 12. She", True),
        ("The answer is 12.", False),  # 12.5 may follow
        ("The answer is 12.5. And", True),
        ("The answer is a number. It", False),
        ("The answer is $3 + 4 = 7$\n", True),
        ("#### 7\n", True),
        ("#### 7", False),
        ("The answer is approx. 5", False),
    ],
)
def test_where_a_statement_ends(text, ends):
    assert bool(own._STATED_FOR_SURE.search(text)) == ends


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3 + 4 = 7. The answer is 7.", "3 + 4 = 7."),
        ("First.\nSo it is 7.\n#### 7", "First.\nSo it is 7."),
        ("Half is 2.5. So the answer is $\\boxed{2.5}$.", "Half is 2.5."),
        (
            "<think>The answer is 3. No.</think>It is 7. The answer is 7.",
            "<think>The answer is 3. No.</think>It is 7.",
        ),
        ("<think>Is the answer is 3?</think>The answer is 7.", "<think>Is the answer is 3?</think>"),
        ("The answer is 7.", ""),
        ("No statement here. ", "No statement here."),
    ],
)
def test_reasoning_is_what_stands_before_the_answer(text, expected):
    assert before_answer(text) == expected


def test_own_texts_are_tokens_after_question_and_cue(llama, problems):
    found = own_texts(llama, problems, SHORT, seed=0)
    assert list(found) == [problem.id for problem in problems]
    for problem in problems:
        (text,) = found[problem.id]
        assert llama.decode(list(text.tokens)) == own.CUE + text.text
        assert text.outcome in OUTCOMES
        ids, start = tokenise(
            llama, find_condition("generated")(problem, Context(problems, 0, llama, decoding=SHORT))
        )
        assert ids[start:] == list(text.tokens)


def written(problem, text, outcome="right", cue=""):
    return OwnText(problem.id, 0, cue, text, tuple(range(1, 4)), outcome)


def test_generated_clean_ends_as_no_cot_does(llama, problems):
    problem = problems[0]
    ctx = replace(
        Context(problems, 0, llama), own={problem.id: [written(problem, " 3+4=7. The answer is 8.", "wrong")]}
    )
    passage = find_condition("generated_clean")(problem, ctx)
    assert passage.continuation == " 3+4=7. The answer is 7."
    assert (passage.ending, passage.correct) == (" The answer is 7.", False)


@pytest.mark.parametrize(
    ("condition", "text", "outcome"),
    [
        ("generated", "", "empty"),
        ("generated_clean", "", "empty"),
        ("generated_clean", " The answer is 7.", "right"),
        ("generated_clean", "<think> It is", "truncated"),
    ],
)
def test_a_problem_without_such_a_text_is_set_aside(llama, problems, condition, text, outcome):
    ctx = replace(Context(problems, 0, llama), own={problems[0].id: [written(problems[0], text, outcome)]})
    with pytest.raises(SetAside):
        find_condition(condition)(problems[0], ctx)


def chatty(tokenizer, template=TEMPLATE) -> LoadedModel:
    import copy

    other = copy.deepcopy(tokenizer)
    other.chat_template = template
    return LoadedModel("chatty", build("llama"), other)


def test_a_chat_prompt_has_the_templates_tokens(builtin, tokenizer):
    prompt = chat_prompt(builtin, "How many?")
    messages = [{"role": "user", "content": f"How many?\n{INSTRUCTION}"}]
    wanted = builtin.tokenizer.apply_chat_template(messages, add_generation_prompt=True)["input_ids"]
    assert builtin.encode(prompt) == list(wanted)
    assert prompt.endswith("<|im_start|>assistant\n")
    assert chat_prompt(chatty(tokenizer), "How?", True).endswith("<|assistant|><think>")


def test_a_first_token_of_template_and_tokenizer_is_not_doubled(tokenizer):
    from tokenizers.processors import TemplateProcessing

    model = chatty(tokenizer, "<end>" + TEMPLATE)
    backend: Any = model.tokenizer.backend_tokenizer
    backend.post_processor = TemplateProcessing(single="<end> $A", special_tokens=[("<end>", 0)])
    ids = model.encode(chat_prompt(model, "How?"))
    assert ids[0] == 0
    assert ids.count(0) == 1


def test_chat_without_a_template_or_switch_is_one_clear_line(llama, problems, tokenizer):
    with pytest.raises(ValueError, match="the tokenizer of tiny-llama has no chat template; leave --chat out"):
        in_chat(llama, problems)
    with pytest.raises(ValueError, match="has no such switch"):
        chat_prompt(chatty(tokenizer, "{{ messages }}"), "How?", thinking=False)


@pytest.mark.parametrize("options", [{}, {"chat": True, "decoding": Decoding(1.0, 0.9, 2, 12)}])
def test_a_run_keeps_its_texts_and_resumes_with_the_same_bits(tokenizer, problems, tmp_path, options):
    model = chatty(tokenizer)
    arguments = {"conditions": ["cot", "generated", "generated_clean"], "decoding": SHORT, **options}
    whole = measure(model, problems, out=tmp_path / "whole", **arguments)

    def interrupt(done, total, problem):
        if done == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        measure(model, problems, out=tmp_path / "cut", progress=interrupt, **arguments)
    assert len(list((tmp_path / "cut" / "problems").iterdir())) == 2
    resumed = measure(model, problems, out=tmp_path / "cut", resume=True, **arguments)
    pd.testing.assert_frame_equal(whole, resumed, check_exact=True)
    for name in ("rows.parquet", "generated.jsonl", "measurement.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
    texts = [json.loads(line) for line in (tmp_path / "cut" / "generated.jsonl").read_text().splitlines()]
    n_samples = arguments["decoding"].samples
    assert [(t["problem"], t["sample"]) for t in texts] == [(p.id, s) for p in problems for s in range(n_samples)]
    summary = json.loads((tmp_path / "cut" / "measurement.json").read_text())
    assert sum(summary["outcomes"].values()) == len(texts)
    longer = replace(arguments["decoding"], max_new_tokens=13)
    with pytest.raises(ValueError, match="holds another run"):
        measure(model, problems, out=tmp_path / "cut", resume=True, **{**arguments, "decoding": longer})


def test_rows_of_samples_are_their_means(tokenizer, problems, tmp_path):
    model, problem = chatty(tokenizer), problems[0]
    decoding, metrics = Decoding(1.0, 1.0, 3, 12), ["mean", "length_matched_min"]
    both = measure(model, [problem], ["no_cot", "generated"], tmp_path / "x", decoding=decoding, metrics=metrics)
    texts = [json.loads(line) for line in (tmp_path / "x" / "generated.jsonl").read_text().splitlines()]
    assert len({tuple(text["tokens"]) for text in texts}) == 3
    question, answer = model.encode(problem.question), gold_tokens(model, problem)
    given = record(model.model, [[*question, *answer]])["normalised_entropy"][:, 0, :, len(question) :]
    expected: dict = {("generated", name): 0 for name in metrics} | {("no_cot", "length_matched_min"): 0}
    for text in texts:
        values = record(model.model, [[*question, *text["tokens"]]])["normalised_entropy"][:, 0, :, len(question) :]
        m = min(values.shape[-1], given.shape[-1])
        expected["generated", "mean"] += values.mean(-1) / 3
        expected["generated", "length_matched_min"] += length_matched_min(values, m) / 3
        expected["no_cot", "length_matched_min"] += length_matched_min(given, m) / 3
    for (condition, metric), value in expected.items():
        mine = both[(both.condition == condition) & (both.scope == "answer") & (both.metric == metric)]
        found = matched_to(mine, "no_cot" if condition == "generated" else "generated").sort_values(["layer", "head"])
        assert found["value"].to_numpy() == pytest.approx(value.reshape(-1).numpy(), abs=1e-5), (condition, metric)


def test_both_sides_of_a_pair_have_rows_of_the_same_samples(tokenizer, problems, tmp_path):
    """Samples are now longer, now shorter than the gold text, so either side may be the one that is matched."""
    model = chatty(tokenizer)
    model.model.generation_config.eos_token_id = list(range(0, model.model.config.vocab_size, 8))
    decoding = Decoding(1.0, 1.0, 6, 60)
    conditions = ["cot", "generated"]
    table = measure(model, problems, conditions, tmp_path / "x", decoding=decoding, scopes=["answer", "first"])
    texts = [json.loads(line) for line in (tmp_path / "x" / "generated.jsonl").read_text().splitlines()]
    gold = {problem.id: len(gold_tokens(model, problem, "cot")) for problem in problems}
    shorter = {(text["problem"], len(text["tokens"]) < gold[text["problem"]]) for text in texts if text["text"]}
    assert len(shorter) > len({problem for problem, _ in shorter}), "the test needs both in one problem"
    for metric, scope in [("length_matched_min", "answer"), ("mean", "first")]:
        one = table[(table.metric == metric) & (table.scope == scope)]
        sides = [matched_to(one[one.condition == a], b) for a, b in (conditions, conditions[::-1])]
        first, second = (dict(zip(side["unit"], sizes_of_pairs(side))) for side in sides)
        assert first == second


def gold_tokens(model, problem, condition="no_cot"):
    ids, start = tokenise(model, find_condition(condition)(problem, Context([problem], 0, model)))
    return ids[start:]


def test_a_model_that_writes_nothing_is_counted_and_no_crash(tokenizer, problems, tmp_path):
    model = chatty(tokenizer)
    model.model.generation_config.eos_token_id = list(range(model.model.config.vocab_size))
    table = measure(model, problems, ["cot", "generated"], tmp_path / "some", keep_tokens=1)
    assert set(table["condition"]) == {"cot"}
    summary = json.loads((tmp_path / "some" / "measurement.json").read_text())
    assert summary["outcomes"] == {"empty": 5}
    assert summary["left_out"] == {"generated": 5}
    assert measure(model, problems, ["generated"], tmp_path / "none", keep_tokens=1).empty


def test_a_model_that_cannot_be_measured_is_refused_before_it_writes(tokenizer, problems, tmp_path, monkeypatch):
    config = MambaConfig(vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, state_size=4)
    model = LoadedModel("mamba", build(config), tokenizer)
    monkeypatch.setattr("hf_analysis.measurement.measure.own_texts", lambda *_: pytest.fail("it was made to write"))
    with pytest.raises(ValueError, match="has no softmax attention in any layer"):
        measure(model, problems, ["generated"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_chat_is_the_question_of_every_condition(tokenizer, problems, tmp_path):
    model = chatty(tokenizer)
    chat = measure(model, problems[:2], ["cot", "no_cot"], tmp_path / "chat", chat=True)
    by_hand = measure(model, in_chat(model, problems[:2]), ["cot", "no_cot"], tmp_path / "hand")
    pd.testing.assert_frame_equal(chat, by_hand, check_exact=True)
