"""The generation benchmark on a tiny model: the same tokens, and a record of both speeds."""

from hf_analysis.models.loading import load_model, tiny_twin
from interp.bench import generate


def test_the_contenders_write_the_same_tokens():
    tiny = tiny_twin(load_model("builtin"), seed=0)
    (record,) = generate.run(tiny, rows=5, new_tokens=8, turns=2, threads=1)
    assert record["rows"] == 5
    assert record["reached"] == (record["ratio"] >= record["bar"])
    assert set(record["tokens_per_second"]) == {"batched", "one at a time"}
    assert min(record["tokens_per_second"].values()) > 0
    assert record["threads"] == 1
    assert record["cpu_ratio"] > 0
