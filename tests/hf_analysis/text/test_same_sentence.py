"""Conditions that end in the same sentence: identical sentence, equal lengths, whole spans of thought."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from hf_analysis.measurement.measure import measure
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.comparisons import EQUAL, ORDER, PAIRS, page, reasoning_rank
from hf_analysis.text.conditions import CONDITIONS, Context, Passage, SetAside, find_condition, tokenise
from hf_analysis.text.own import CUE, OwnText
from hf_analysis.text.problems import Problem, load_problems
from hf_analysis.text.prose import sentence_starts, story
from hf_analysis.text.steps import ending_of, joined, pieces, reasoning, shuffled
from tests.hf_analysis.tiny_models import build

SAME = sorted({name for pair in PAIRS if pair.same_ending for name in (pair.first, pair.second)})
THOUGHT = Problem(
    "t",
    "How many clips?",
    "<think>\nIn April 48.\nIn May 24.\nTogether 72.\n</think>\nFirst 48.\nThen 24.\nThe answer is 72.",
    "72",
)
TEXTS = [
    Problem("text", "Where does the train go?", "It leaves Lyon.\nIt goes north.\nAnswer: Paris", "Paris"),
    Problem("letter", "Which?\nA) 3\nB) 4", "2+2=4.\nSo it is 4.\nAnswer: B", "B"),
    Problem("fraction", "Half of 5?", "Take 5.\nHalve it: $\\boxed{\\frac{5}{2}}$.", "5/2"),
]


def made(name: str, problem: Problem, context: Context) -> Passage:
    return find_condition(name)(problem, context)


@pytest.fixture(params=["llama", "builtin"])
def model(request):
    return request.getfixturevalue(request.param)


def test_the_page_is_what_the_registry_says():
    path = Path(__file__).parents[3] / "docs" / "conditions.md"
    assert path.read_text(encoding="utf-8") == page(), "python -m hf_analysis.text.comparisons > docs/conditions.md"
    own = {name for name, one in CONDITIONS.items() if one.__module__.startswith("hf_analysis.")}
    assert own == {name for pair in PAIRS for name in (pair.first, pair.second)}, "every condition is in some pair"


def test_the_sentence_is_the_same_tokens_everywhere(model, problems):
    pool = [*problems, *TEXTS, THOUGHT, *load_problems("builtin", limit=12)]
    written = {one.id: [OwnText(one.id, 0, CUE, " It is 3. The answer is 4.", (1,), "wrong")] for one in pool}
    context = Context(pool, 0, model, own=written)
    for problem in pool:
        sentence = model.encode(f"{problem.question} The answer is {problem.answer}.")
        sentence = sentence[len(model.encode(problem.question)) :]
        for name in SAME:
            passage = made(name, problem, context)
            assert passage.ending == f" The answer is {problem.answer}."
            assert passage.continuation.endswith(passage.ending)
            assert passage.continuation.count("The answer is") == 1
            assert tokenise(model, passage)[0][-len(sentence) :] == sentence


def test_lengths_are_what_the_table_says(model, problems):
    pool = [*problems, *TEXTS, THOUGHT]
    context = Context(pool, 0, model)
    for pair in PAIRS:
        if pair.length == EQUAL:
            for problem in pool:
                first, second = (tokenise(model, made(name, problem, context)) for name in (pair.first, pair.second))
                assert len(first[0]) == len(second[0])
                assert first[1] == second[1]


def test_a_question_that_shares_a_token_with_its_solution_is_set_aside_and_counted(problems, tmp_path):
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=258, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    bpe.train_from_iterator(["? S? S"], trainer)  # learns "? ", "? S": the end of a question and a solution's first
    joining = LoadedModel("joining", build("llama"), PreTrainedTokenizerFast(tokenizer_object=bpe))
    merging, apart = problems[0], Problem("apart", "Say how many.", "One.\nTwo.\n#### 2", "2")
    context = Context([merging, apart], 0, joining)
    _, n_question = tokenise(joining, made("cot_clean", merging, context))
    assert n_question < len(joining.encode(merging.question)), "the test needs a joint token"
    replacing = ("shuffled_tokens", "filler", "shuffled_tokens_clean", "filler_clean", "prose_clean")
    for name in replacing:
        with pytest.raises(SetAside):
            made(name, merging, context)
        like = made("cot_clean" if name.endswith("_clean") else "cot", apart, context)
        assert len(tokenise(joining, made(name, apart, context))[0]) == len(tokenise(joining, like)[0])
    table = measure(joining, [merging, apart], ["cot_clean", "filler_clean"], tmp_path / "out")
    assert set(table[table.condition == "filler_clean"]["unit"]) == {"apart"}
    summary = json.loads((tmp_path / "out" / "measurement.json").read_text())
    assert summary["left_out"] == {"filler_clean": 1}


def test_each_differs_from_cot_clean_before_the_sentence_alone(builtin, problems):
    pool = [*problems, THOUGHT]
    context = Context(pool, 0, builtin)
    problem = problems[3]
    clean = made("cot_clean", problem, context).continuation
    assert clean == " One pen.\nIt costs $2.50.\nSo $2.50. The answer is 2.50."
    steps = made("shuffled_steps_clean", problem, context).continuation.removesuffix(" The answer is 2.50.")
    assert steps != " One pen.\nIt costs $2.50.\nSo $2.50."
    assert sorted(steps.strip().split("\n")) == sorted(["One pen.", "It costs $2.50.", "So $2.50."])
    ids, start = tokenise(builtin, made("cot_clean", problem, context))
    mixed = tokenise(builtin, made("shuffled_tokens_clean", problem, context))[0]
    assert mixed != ids
    assert sorted(mixed[start:]) == sorted(ids[start:])
    filler = made("filler_clean", problem, context).continuation.removesuffix(" The answer is 2.50.")
    assert set(filler) == {" ", "."}
    swapped = made("swapped_clean", problem, context).continuation
    other = made("swapped_cot", problem, context).continuation.strip()
    owner = next(p for p in pool if p.solution == other)
    assert swapped.startswith(made("cot_clean", owner, context).continuation.rsplit(" The answer is", 1)[0])
    told = made("prose_clean", problem, context).continuation.removesuffix(" The answer is 2.50.").strip()
    assert told in story()
    assert story().index(told) in sentence_starts()


def test_prose_longer_than_the_story_goes_round(llama):
    long = Problem("long", "Q?", "\n".join(f"Step {i} is a step." for i in range(3000)) + "\n#### 1", "1")
    context = Context([long], 0, llama)
    ids, start = tokenise(llama, made("cot_clean", long, context))
    told = made("prose_clean", long, context)
    assert told.tokens is not None
    assert len(told.tokens) == len(ids) - start
    assert told.continuation.count("continually in fairyland") >= 1


def test_the_story_has_no_frame():
    assert "Gutenberg" not in story()
    assert len(sentence_starts()) > 100


@pytest.mark.parametrize(
    ("solution", "answer", "kept", "ending"),
    [
        ("48+24=72.\nThe answer is 72.", "72", "48+24=72.", "The answer is 72."),
        ("48+24=72. The answer is 72.", "72", "48+24=72.", "The answer is 72."),
        ("48+24=72.\nThe answer is 72.\n#### 72", "72", "48+24=72.", "#### 72"),
        ("48+24=72.\nSo, the final answer is: $72$", "72", "48+24=72.", "So, the final answer is: $72$"),
        ("48+24=72.\nTherefore, the answer is $\\boxed{72}$.", "72", "48+24=72.", None),
        ("48+24=72.\n\\[\\boxed{72}\\]", "72", "48+24=72.", None),
        ("Four.\nAnswer: B", "B", "Four.", "Answer: B"),
        ("Four. The answer is 4 clips!", "4", "Four.", "The answer is 4 clips!"),
        ("The answer is 48+24 = 72.", "72", "The answer is 48+24 = 72.", ""),
        ("The answer is 71.", "72", "The answer is 71.", ""),
        ("So $x = \\boxed{72}$.", "72", "So $x = \\boxed{72}$.", ""),
        ("The answer is 72. The answer is 72.", "72", "", None),
        ("<think>a</think>The answer is 72.", "72", "<think>a</think>", "The answer is 72."),
    ],
)
def test_only_a_sentence_that_states_the_answer_is_left_out(solution, answer, kept, ending):
    assert reasoning(solution, answer) == kept
    if ending is not None:
        assert ending_of(solution, answer) == ending


def test_no_condition_tears_thoughts_apart(model):
    pool = [THOUGHT, *TEXTS]
    context = Context(pool, 0, model)
    shuffling = ("shuffled_steps", "shuffled_steps_clean", "shuffled_tokens", "shuffled_tokens_clean")
    for name in ("cot", "cot_clean", *shuffling):
        text = made(name, THOUGHT, context).continuation
        assert text.count("<think>") == text.count("</think>") == 1
        assert text.index("<think>") < text.index("</think>")
    for name in ("shuffled_steps", "shuffled_steps_clean"):
        text = made(name, THOUGHT, context).continuation
        inside, outside = text.removeprefix(" <think>").split("</think>")
        assert sorted(inside.strip().split("\n")) == ["In April 48.", "In May 24.", "Together 72."]
        assert inside.strip() != "In April 48.\nIn May 24.\nTogether 72."
        assert outside.strip().startswith("Then 24.\nFirst 48.")
        assert outside.endswith("The answer is 72.")
    assert made("cot_clean", THOUGHT, context).continuation.endswith(
        "</think>\nFirst 48.\nThen 24. The answer is 72."
    )


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "a b", "c", "\n", " ", "d\n\ne", "f."]), max_size=12).map(
        "".join
    ),
    st.randoms(use_true_random=False),
)
def test_shuffling_keeps_lines_and_tags(text, generator):
    found = pieces(text)
    mixed = shuffled(found, generator)
    tags = re.findall("</?think>", text)
    assert re.findall("</?think>", joined(mixed)) == re.findall("</?think>", joined(found)) == tags
    assert sorted(line for piece in mixed for line in piece.lines) == sorted(
        line for piece in found for line in piece.lines
    )
    assert "".join(joined(found).split()) == "".join(text.split()), "only space may go"
    assert pieces(joined(found)) == found or not joined(found)


def test_the_order_of_conditions_holds_every_one_and_agrees_with_every_pair():
    own = {name for name, one in CONDITIONS.items() if one.__module__.startswith("hf_analysis.")}
    assert sorted(ORDER) == sorted(own)
    assert all(reasoning_rank(pair.first) < reasoning_rank(pair.second) for pair in PAIRS)
    assert reasoning_rank("filler_clean") < reasoning_rank("one_of_a_plug_in") < reasoning_rank("no_cot")


def test_a_problem_without_a_solution_is_refused_where_one_is_needed(llama, problems):
    bare = Problem("bare", "How many?", "", "7")
    context = Context([bare, *problems], 0, llama)
    assert made("no_cot", bare, context).continuation == " The answer is 7."
    for name in sorted(
        {*SAME, "cot", "shuffled_steps", "shuffled_tokens", "filler"} - {"no_cot", "swapped_clean", "generated_clean"}
    ):
        with pytest.raises(ValueError, match=r"no worked solution.*--solution"):
            made(name, bare, context)
    assert made("cot_clean", Problem("x", "How many?", "#### 7", "7"), context).continuation == " The answer is 7."
