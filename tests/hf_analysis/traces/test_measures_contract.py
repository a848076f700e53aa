"""What every registered measure of traces must do; a new one is tested without editing this file."""

import pytest

from hf_analysis.models.generation import Decoding
from hf_analysis.traces.measures import DEFAULT, Study, load_measures
from hf_analysis.traces.tokens import trace_tokens
from probes import rows
from tests.hf_analysis.traces.made import made_trace


@pytest.mark.parametrize("name", sorted(load_measures(plugins=False)))
def test_a_measure_gives_the_same_rows_of_its_trace_again_whatever_stands_beside_it(name, llama):
    texts = [trace_tokens(llama, made_trace(6, f"t{i}", target)) for i, target in enumerate(("8.75", "5", "7"))]
    options = {"gap": 1, "continuations": 1, "decoding": Decoding(temperature=1.0, max_new_tokens=2)}
    measure = load_measures(plugins=False)[name]
    assert measure.__doc__
    found = measure(texts[0], Study(llama, texts, "tiny", **options))
    rows.validate(found)
    assert len(found) > 0
    assert set(found["unit"]) == {"t0"}
    assert set(found["run"]) == {"tiny"}
    assert found["query"].between(-1, len(texts[0].units) - 1).all()
    assert found["key"].between(-1, len(texts[0].units) - 1).all()
    place = ["condition", "metric", "layer", "head", "query", "key", "setting"]
    assert not found.duplicated(place).any(), "two values in one place"
    again = measure(texts[0], Study(llama, texts[::-1], "tiny", **options))
    assert again.equals(found), "the order of the traces matters"


def test_the_default_measures_are_known():
    assert set(DEFAULT) <= set(load_measures(plugins=False))
