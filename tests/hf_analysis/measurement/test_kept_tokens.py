"""What is kept token by token: the values of eager attention, of the run and the part of the text that it says."""

import numpy as np
import pandas as pd
import pytest

from hf_analysis.measurement.kept_tokens import COLUMNS
from hf_analysis.measurement.measure import measure
from hf_analysis.text.conditions import CONDITIONS, Context, Passage, find_condition, tokenise
from probes.attention.statistics import find_metric
from tests.hf_analysis.measurement import naive

TEXTS = ("cot", "no_cot", "cot_clean", "filler_clean")
METRICS = ("min", "sink_mass", "effective_keys_mean", "top1_mass_without_sink_mean")


def kept(directory) -> pd.DataFrame:
    return pd.read_parquet(directory / "tokens.parquet")


def test_every_statistic_of_the_closing_sentence_equals_the_naive_one(llama, problems, tmp_path):
    measure(llama, problems[:2], TEXTS, tmp_path, keep_tokens=2, metrics=METRICS, run="mine")
    table = kept(tmp_path)
    assert tuple(table.columns) == COLUMNS
    assert set(table["run"]) == {"mine"}
    context, compared = Context(problems[:2], 0, llama), 0
    for problem in problems[:2]:
        sentence = f" The answer is {problem.answer}."
        for name in TEXTS:
            ids, _ = tokenise(llama, find_condition(name)(problem, context))
            (pattern,) = naive.attention(llama, [ids])
            mine = table[(table["problem"] == problem.id) & (table["condition"] == name)]
            closing = mine[mine["part"] == "closing"]
            assert closing.empty == (name == "cot")
            for metric in METRICS:
                statistic = find_metric(metric).statistic.name
                of = mine[mine["statistic"] == statistic]
                wanted = naive.by_token(statistic, pattern)[of["layer"], of["head"], of["position"]]
                np.testing.assert_allclose(of["value"], wanted, rtol=1e-4, atol=1e-4)
                compared += len(of)
                one = of[(of["part"] == "closing") & (of["layer"] == 2) & (of["head"] == 3)]
                if name != "cot":
                    assert "".join(one.sort_values("position")["token"]) == sentence
                if statistic != "normalised_entropy":
                    assert set(of["part"]) <= {"closing"}, "few tokens: the file stays small"
    assert compared > 1000


def test_its_mean_is_that_of_the_scope(llama, problems, tmp_path):
    rows = measure(llama, problems[:1], TEXTS, tmp_path, keep_tokens=1, metrics=["mean", "sink_mass"])
    table = kept(tmp_path)
    closing = table[table["part"] == "closing"].groupby(["statistic", "condition", "layer", "head"])["value"].mean()
    final = rows[rows["scope"] == "final"]
    names = final["metric"].map({"mean": "normalised_entropy", "sink_mass": "sink_mass"})
    places = pd.MultiIndex.from_arrays([names, final["condition"], final["layer"], final["head"]])
    assert len(places) == len(closing) == 2 * 3 * 12
    np.testing.assert_allclose(closing[places], final["value"], atol=1e-6)


def test_a_sentence_of_other_tokens_is_no_closing_sentence(llama, problems, tmp_path, monkeypatch):
    """A condition that ends in the sentence, but writes it letter by letter."""

    def spelled(problem, context):
        made = find_condition("no_cot")(problem, context)
        tokens = tuple(t for letter in made.continuation for t in context.model.encode(letter))
        return Passage(made.question, made.continuation, tokens=tokens, ending=made.ending)

    monkeypatch.setitem(CONDITIONS, "spelled", spelled)
    measure(llama, problems[:1], ["no_cot", "spelled", "cot_clean"], tmp_path, keep_tokens=1)
    table = kept(tmp_path)
    assert set(table["part"]) == {"question", "answer"}
    assert set(table["statistic"]) == {"normalised_entropy"}


@pytest.mark.parametrize("condition", ["cot", "no_cot"])
def test_a_single_text_is_divided_into_its_parts(llama, problems, tmp_path, condition):
    measure(llama, problems[:1], [condition], tmp_path, keep_tokens=1)
    assert list(kept(tmp_path)["part"].unique()) == ["question", "answer" if condition == "cot" else "closing"]
