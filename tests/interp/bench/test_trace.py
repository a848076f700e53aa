"""The trace benchmark on a tiny model: the contenders find the same, and the records say what the bars ask."""

import torch

from hf_analysis.models.loading import load_model, tiny_twin
from interp.bench import trace as bench


def test_contenders_agree_and_records_hold_ratios():
    tiny = tiny_twin(load_model("builtin"), seed=0)
    ids = torch.randint(1000, (1, 200), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(bench.ours(tiny)(ids), bench.eager(tiny)(ids), atol=1e-6, rtol=0)
    *attention, suppression = bench.run(tiny, lengths=(150,), suppressed=170, repeats=1, threads=1)
    assert [record["contender"] for record in attention] == ["bare", "cotlens", "eager"]
    assert attention[1]["meets_time_bar"] is (attention[1]["over_bare"] <= 1.35)
    assert all(record["cpu_over_bare"] > 0 for record in attention)
    assert suppression["sentences"] == 3
    assert suppression["largest_difference"] < 1e-5
    assert suppression["reached"] is (suppression["ratio"] >= 1.8)
