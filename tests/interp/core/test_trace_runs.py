"""Which traces does a preset ask for? Shards, lengths, and traces that the model writes itself."""

import pandas as pd
import pytest

from hf_analysis.models.generation import Decoding
from hf_analysis.text.problems import load_problems
from hf_analysis.text.written_traces import written_traces
from interp.core.parts import NotMeasurable
from interp.core.problem_runs import built_in, load
from interp.core.trace_runs import Traces, items, mean_over_traces, traces_of


def test_items_are_shards_from_the_first_problem_on():
    found = items(Traces("builtin", "builtin", 20, 8, ("attention",), first_unit=300))
    assert [item.name for item in found] == ["problems=300-307", "problems=308-315", "problems=316-319"]
    assert [item.parameters["start"] for item in found] == [300, 308, 316]


def test_a_mean_over_traces_is_over_templates():
    values = pd.Series([1.0, 2.0, 4.0], ["a", "b", "c"])
    found = mean_over_traces(values, 0.95)
    assert (found.value, found.n) == (pytest.approx(7 / 3), 3)
    assert isinstance(mean_over_traces(values[:1], 0.95), NotMeasurable)
    assert isinstance(mean_over_traces(pd.Series([1.0, float("nan")], ["a", "b"]), 0.95), NotMeasurable)
    assert built_in(2, first=300) == ["gsm-symbolic-0-00301", "gsm-symbolic-0-00302"]


@pytest.mark.slow
def test_a_model_writes_the_traces_of_its_shard():
    preset = Traces("builtin", "builtin", 3, 2, (), written=True, max_new_tokens=40, least=2, first_unit=1)
    decoding, found = Decoding(0.6, 0.95, 1, 40), []
    for item in items(preset):
        found += [one.trace for one in traces_of(item)[1]]
    problems = load_problems("builtin", limit=4)[1:]
    expected = [one for part in (problems[:2], problems[2:]) for one in written_traces(
        load("builtin"), part, decoding, 0, chat=True)[0]]  # fmt: skip
    assert [one.text for one in found] == [one.text for one in expected]
    longer = Traces("builtin", "builtin", 3, 3, (), least=4)
    assert all(len(one.reasoning) >= 4 for item in items(longer) for one in traces_of(item)[1])
