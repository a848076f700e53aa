"""The entropy benchmark: all contenders measure the same thing, and the records say what the bars ask."""

import pytest
import torch

from hf_analysis.models.loading import load_model
from interp.bench import entropy as bench


def test_all_contenders_find_the_same_minima():
    loaded = load_model("builtin", device="cpu", dtype="float32")
    ids = torch.tensor([loaded.encode("A train leaves at 9 and arrives at 12. How long does it take? " * 3)])
    ours = bench._cotlens(loaded)(ids)
    assert ours.shape == (30, 9)
    for peer in (bench._eager(loaded), bench._transformerlens(loaded)):
        torch.testing.assert_close(peer(ids), ours, atol=1e-3, rtol=0)


def test_records_hold_ratios_and_bars():
    threads = torch.get_num_threads()
    records = list(bench.run(lengths=(32, 256), repeats=1, threads=1))
    assert torch.get_num_threads() == threads
    alone = [record for record in records if record["bench"] == "roofline"]
    assert [(r["contender"], r["tokens"]) for r in alone[1:]] == [
        (name, n) for n in (32, 256) for name in ("sdpa", "chunked")
    ]
    records = records[: -len(alone)]
    assert [(r["contender"], r["tokens"]) for r in records] == [
        (name, n) for n in (32, 256) for name in ("bare", "cotlens", "eager", "transformerlens")
    ]
    for record in records:
        assert record["seconds"] > 0
        assert record["peak_bytes"] is None or record["peak_bytes"] > 500 * 2**20
    bare = records[0]
    assert bare["over_bare"] == pytest.approx(1)
    ours = records[5]
    assert ours["meets_time_bar"] is (ours["over_bare"] <= 1.15)
    assert ours["meets_memory_bar"] in (True, None)
    assert records[1]["meets_time_bar"] is None, "there is no bar at 32 tokens"
