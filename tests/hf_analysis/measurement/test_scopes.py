"""Every metric in every scope against a naive computation from eager attention; pairs, and identical sentences."""

import json

import numpy as np
import pytest

from hf_analysis.measurement import reductions
from hf_analysis.measurement.measure import measure
from hf_analysis.measurement.pairs import matched_to, of_pairs
from hf_analysis.text.conditions import CONDITIONS, Context, Passage, find_condition, tokenise
from hf_analysis.text.problems import Problem, load_problems
from hf_analysis.text.scopes import SCOPES, Scope, Selection, TokenCounts, ending_tokens, find_scope, register_scope
from probes.attention.statistics import known_metrics
from probes.rows import with_settings, words
from tests.hf_analysis.measurement import naive

TEXTS = ("cot", "no_cot", "cot_clean", "filler")
SAME_ENDING = (
    "no_cot",
    "cot_clean",
    "swapped_clean",
    "shuffled_steps_clean",
    "shuffled_tokens_clean",
    "filler_clean",
    "prose_clean",
)
"""What fig6's claims compare: every condition that ends in the closing sentence and needs no generation."""
SUITE = ("all", "answer", "final", "first", "window")


def ranges(scope: str, n: int, start: int, sentence: int | None, m: int) -> list[range] | None:
    """The tokens in scope by its definition; several ranges: a mean over them."""
    if scope == "final":
        return None if sentence is None else [range(n - sentence, n)]
    if scope == "window":
        return [range(i, i + m) for i in range(start, n - m + 1)]
    return [{"all": range(n), "answer": range(start, n), "first": range(start, start + m)}[scope]]


def expected(values: np.ndarray, places: list[range], reduction: str, m: int) -> float:
    """The reduction of one head's values by token, over each range, on average."""
    found = []
    for place in places:
        inside = np.array([values[i] for i in place if not np.isnan(values[i])])
        found.append(naive.reduction(reduction, inside, min(m, len(inside))))
    return sum(found) / len(found)


def check(model, problems, tmp_path, heads, conditions=TEXTS, wanted=None) -> int:
    """Compares every row of `heads`; returns how many."""
    known = {name: metric for name, metric in known_metrics().items() if "outside" not in name}
    metrics = known if wanted is None else {name: known[name] for name in wanted}
    endings = {name for name in conditions if name in SAME_ENDING}
    table = measure(model, problems, conditions, tmp_path / "out", metrics=list(metrics), scopes=SUITE)
    table = with_settings(table[[place in heads for place in zip(table["layer"], table["head"])]])
    context, compared = Context(problems, 0, model), 0
    for problem in problems:
        texts = {name: tokenise(model, find_condition(name)(problem, context)) for name in conditions}
        sentence = len(texts["no_cot"][0]) - texts["no_cot"][1]
        tails = {tuple(texts[name][0][-sentence:]) for name in endings}
        assert len(tails) == 1, "the sentence has the same tokens in all"
        patterns = dict(zip(texts, naive.attention(model, [ids for ids, _ in texts.values()])))
        chosen = {name: np.stack([patterns[name][place] for place in heads])[:, None] for name in texts}
        by_token = {
            (name, statistic): naive.by_token(statistic, pattern)[:, 0]
            for name, pattern in chosen.items()
            for statistic in {metric.statistic.name for metric in metrics.values()}
        }
        mine = table[table["unit"] == problem.id]
        for row in mine.itertuples():
            metric, (ids, start) = metrics[row.metric], texts[row.condition]
            values = by_token[row.condition, metric.statistic.name][heads.index((row.layer, row.head))]
            m = len(ids) if np.isnan(row.m) else int(row.m)
            if isinstance(row.against, str) and row.scope in ("first", "window"):
                assert m == min(len(i) - s for i, s in (texts[row.condition], texts[row.against]))
            ending = sentence if row.condition in endings else None
            places = ranges(row.scope, len(ids), start, ending, m)
            assert places is not None, f"{row.condition} does not end in the sentence"
            naively = expected(values, places, metric.reduction, m)
            assert row.value == pytest.approx(naively, rel=1e-4, abs=1e-4), (row.metric, row.scope, row.condition)
            compared += 1
        assert set(zip(mine["metric"], mine["scope"])) == {(metric, scope) for metric in metrics for scope in SUITE}
        assert set(mine[mine["scope"] == "final"]["condition"]) == endings
    return compared


def test_every_metric_in_every_scope_equals_the_naive_one_on_a_tiny_model(llama, problems, tmp_path):
    heads = [(layer, head) for layer in range(3) for head in range(4)]
    assert check(llama, problems[:3], tmp_path, heads) > 10_000


def test_every_metric_in_every_scope_equals_the_naive_one_on_the_built_in_model(builtin, tmp_path):
    heads = [(0, 3), (11, 0), (29, 8)]
    assert check(builtin, load_problems("builtin", limit=2), tmp_path, heads) > 1_000


def test_every_text_with_the_same_ending_equals_the_naive_one(llama, problems, tmp_path):
    metrics = ("min", "mean", "length_matched_min", "sink_excluded_min", "sink_mass", "entropy_nats_mean")
    heads = [(0, 1), (2, 3)]
    assert check(llama, problems[:2], tmp_path, heads, SAME_ENDING, metrics) > 1_000


def test_numbers_of_a_pair_do_not_depend_on_what_else_was_measured(llama, problems, tmp_path):
    scopes, metrics = (
        ("answer", "first", "window"),
        ["length_matched_min", "mean", "sink_excluded_length_matched_min"],
    )
    few = measure(llama, problems[:3], ["cot", "cot_clean"], tmp_path / "few", scopes=scopes, metrics=metrics)
    many = measure(llama, problems[:3], TEXTS, tmp_path / "many", scopes=scopes, metrics=metrics)
    keys = ["unit", "metric", "scope", "layer", "head"]
    for one, other in (("cot", "cot_clean"), ("cot_clean", "cot")):
        a, b = (
            matched_to(table[table["condition"] == one], other).sort_values(keys).reset_index(drop=True)
            for table in (few, many)
        )
        assert len(a) == 3 * 3 * 3 * 12
        np.testing.assert_allclose(a["value"], b["value"], atol=1e-5)
        matched = a["metric"].str.contains("length_matched") | (a["scope"] != "answer")
        assert [words(s)["m"] for s in a[matched]["setting"]] == [words(s)["m"] for s in b[matched]["setting"]]


def test_a_pair_has_rows_of_its_own_on_the_longer_side_only(llama, problems, tmp_path):
    table = measure(llama, problems[:1], TEXTS, tmp_path / "out", metrics=["length_matched_min"])
    found = table[(table["scope"] == "answer") & (table["layer"] == 0) & (table["head"] == 0)]
    n = dict(zip(found["condition"], found["n_tokens"]))
    assert n["cot"] == n["filler"] > n["cot_clean"] > n["no_cot"]
    settings = {(row.condition, row.setting) for row in found.itertuples()}
    longer = {
        (longest, f"against={other} m={n[other]}")
        for longest in ("cot", "filler")
        for other in ("cot_clean", "no_cot")
    }
    assert settings == longer | {
        ("cot", f"m={n['cot']}"),
        ("filler", f"m={n['filler']}"),  # of equal length
        ("cot_clean", f"m={n['cot_clean']}"),
        ("cot_clean", f"against=no_cot m={n['no_cot']}"),
        ("no_cot", f"m={n['no_cot']}"),
    }
    chosen = [("cot", "no_cot")]
    some = measure(llama, problems[:1], TEXTS, tmp_path / "some", metrics=["length_matched_min"], pairs=chosen)
    assert set(of_pairs(some)) == {"", "no_cot"}
    assert set(some[of_pairs(some) != ""]["condition"]) == {"cot"}
    assert set(some["condition"]) == set(TEXTS)


def test_a_window_of_many_tokens_is_reduced_a_few_heads_at_a_time(llama, problems, tmp_path, monkeypatch):
    options = {"scopes": ("window",), "metrics": ["q10", "min"]}
    whole = measure(llama, problems[:2], TEXTS, tmp_path / "a", **options)
    monkeypatch.setattr(reductions, "WINDOW_VALUES", 1)
    assert measure(llama, problems[:2], TEXTS, tmp_path / "b", **options).equals(whole)


def test_a_problem_whose_sentence_has_other_tokens_is_set_aside(llama, problems, tmp_path, monkeypatch):
    """A condition that ends in the sentence, but writes it letter by letter."""

    def spelled(problem, context):
        made = find_condition("no_cot")(problem, context)
        if problem.id == problems[1].id:
            tokens = tuple(t for letter in made.continuation for t in context.model.encode(letter))
            return Passage(made.question, made.continuation, tokens=tokens, ending=made.ending)
        return made

    monkeypatch.setitem(CONDITIONS, "spelled", spelled)
    table = measure(llama, problems[:3], ["no_cot", "spelled", "cot_clean"], tmp_path / "out")
    by_scope = table.groupby("scope")["unit"].unique()
    assert list(by_scope["final"]) == ["p/0", "p/2"]
    assert list(by_scope["answer"]) == ["p/0", "p/1", "p/2"]
    assert json.loads((tmp_path / "out" / "measurement.json").read_text())["set_aside"] == {"final": 1}
    measure(llama, problems[:3], ["no_cot", "cot_clean"], tmp_path / "alike")
    assert json.loads((tmp_path / "alike" / "measurement.json").read_text())["set_aside"] == {}


def test_the_sentence_is_found_by_its_tokens(llama):
    sentence = " The answer is 7."
    for before in ("", " She has 7.", " The answer is 7. The answer is 8?", "\n"):
        passage = Passage("How many?", before + sentence, ending=sentence)
        ids, _ = tokenise(llama, passage)
        n = ending_tokens(llama, passage, tuple(ids))
        assert n is not None
        assert llama.decode(ids[-n:]) == sentence
    plain = Passage("How many?", sentence)
    assert ending_tokens(llama, plain, tuple(tokenise(llama, plain)[0])) is None
    joined = Passage("x", " an apple", ending="pple")  # "app" is one token of the tokenizer's own
    assert ending_tokens(llama, joined, tuple(tokenise(llama, joined)[0])) == 0


def test_texts_are_kept_with_how_their_tokens_are_divided(llama, tmp_path):
    made = [Problem("a\u2028b", "Why?\x00", "\u2028<b>\n#### 1", "1"), Problem("c", "q", "s\n#### 2", "2")]
    measure(llama, made, ["cot", "no_cot"], tmp_path / "out")
    lines = (tmp_path / "out" / "passages.jsonl").read_text(encoding="ascii").split("\n")
    read = [json.loads(line) for line in lines if line]
    assert [(one["problem"], one["condition"]) for one in read] == [
        (problem.id, name) for problem in made for name in ("cot", "no_cot")
    ]
    assert read[0]["continuation"] == f" {made[0].solution}"
    assert read[1]["ending"] == " The answer is 1."
    counts = TokenCounts(**read[1]["tokens_of"])
    assert counts.n_answer == counts.n_ending == len(llama.encode("q The answer is 1.")) - 1


@pytest.fixture
def untouched():
    before = dict(SCOPES)
    yield
    SCOPES.clear()
    SCOPES.update(before)


def test_a_new_scope_is_measured_at_once(untouched, llama, problems, tmp_path):
    @register_scope("question", label="tokens of the question")
    def question(text):
        return Selection(range(text.n_question))

    table = measure(llama, problems[:1], ["cot", "no_cot"], tmp_path / "out", scopes=("question",))
    by_condition = table.pivot_table(index=["metric", "layer", "head"], columns="condition", values="value")
    np.testing.assert_allclose(by_condition["cot"], by_condition["no_cot"], atol=1e-6)


@pytest.mark.parametrize(
    ("chosen", "complaint"),
    [
        ((range(1, 9, 2),), r"range\(1, 9, 2\): expected neighbouring tokens"),
        ((range(9, 0, -1),), "expected neighbouring tokens in their order"),
        ((range(-2, 9),), "expected neighbouring tokens in their order, counted from 0"),
        ((range(5, 3),), "expected neighbouring tokens"),
        ((range(9), 0), "a window of 0 tokens; expected 1 or more"),
        ((range(8, 14),), r"scope 'mine' chose range\(8, 14\) of a text of 9 tokens"),
    ],
)
def test_tokens_that_would_not_be_measured_as_they_are_chosen_are_refused(chosen, complaint):
    with pytest.raises(ValueError, match=complaint):
        Scope("mine", "mine", lambda text: Selection(*chosen)).selection(TokenCounts(9, 4))


def test_what_registering_a_scope_refuses(untouched):
    with pytest.raises(ValueError, match="already registered"):
        register_scope("final", label="mine")(lambda text: None)
    for name, label in (("two words", "x"), ("mine", " ")):
        with pytest.raises(ValueError, match="need a name of letters"):
            register_scope(name, label=label)(lambda text: None)
    with pytest.raises(ValueError, match="unknown scope 'end'; the scopes are all, answer, final, first, window"):
        find_scope("end")
    assert tuple(SCOPES) == SUITE
    assert [name for name, scope in SCOPES.items() if scope.paired] == ["first", "window"]


def test_a_rerun_cell_replaces_its_scope(untouched):
    for _ in range(2):

        def cell(text):
            return None

        cell.__module__ = "__main__"
        register_scope("mine", label="mine")(cell)
    assert SCOPES["mine"] == Scope("mine", "mine", cell)
