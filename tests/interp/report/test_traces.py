"""Traces in the page: the numbers are those of the rows, text stays text, and a page has a size."""

import base64
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from interp.report import traces as module
from interp.report.sources import read_runs
from interp.report.trace_page import trace_page
from interp.report.traces import SMALLEST, trace_data
from probes import rows
from tests.interp.report.elements import Elements
from tests.interp.report.made_traces import trace_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trace_run(tmp_path_factory.mktemp("traces") / "run")


def unpacked(column) -> np.ndarray:
    kind = {"u2": "<u2", "f4": "<f4"}[column["dtype"]]
    raw = np.frombuffer(base64.b64decode(column["data"]), kind)
    return np.where(raw == 65535, np.nan, column["offset"] + column["step"] * raw.astype(float))


def test_matrices_bars_and_curves_are_those_of_the_rows(run):
    (data,) = trace_data(read_runs([run]))
    table = rows.read(run / "rows.parquet")
    assert [one["id"] for one in data["traces"]] == ["plain", "<b>bad</b>"]
    trace, mine = data["traces"][0], table[table["unit"] == "plain"]
    n = len(trace["units"])
    for name in ("attention_mean", "suppression_effect"):
        found = unpacked(trace["matrices"][name]).reshape(n, n)
        part = mine[(mine["metric"] == name) & (mine["layer"] == -1) & (mine["condition"] != "control")]
        expected = np.full((n, n), np.nan)
        for row in part.itertuples():
            expected[row.query, row.key] = row.value
        expected = np.log10(np.maximum(expected, SMALLEST)) if name == "attention_mean" else expected
        np.testing.assert_allclose(found, expected, atol=1e-4)
    by_head = unpacked(trace["by_head"]["values"]).reshape(12, -1)
    assert trace["by_head"]["heads"] == list(range(12))
    part = mine[(mine["metric"] == "attention_mean") & (mine["layer"] == 1) & (mine["head"] == 2)]
    assert 10 ** by_head[6, 3 * 4 // 2 + 1] == pytest.approx(
        part[(part["query"] == 3) & (part["key"] == 1)]["value"].item(), rel=1e-3
    )
    assert data["traces"][1]["by_head"] is None, "only the first keeps every head"
    early = mine[(mine["condition"] == "early") & (mine["metric"] == "answer_log_prob")]
    assert [one[0] for one in trace["curves"]["early"]] == early["key"].tolist()
    np.testing.assert_allclose([one[1] for one in trace["curves"]["early"]], early["value"], atol=1e-4)
    gain = mine[mine["metric"] == "answer_log_odds_gain"].set_index("key")["value"]
    assert trace["bars"]["answer_gain"][2] == pytest.approx(gain[2], rel=1e-5)
    assert [one["key"] for one in trace["continued"]] == [1, 3, 4]
    assert [one["condition"] for one in trace["written"]] == ["intact", "hidden", "control"]


def test_no_text_can_leave_its_place(run):
    text = trace_page(run)
    assert trace_page(run) == text, "the same files, the same page"
    elements = Elements(text).found
    assert [tag for tag, _ in elements].count("script") == 2
    assert not {"img", "b", "i"} & {tag for tag, _ in elements}
    assert "\u202e" not in text
    assert "\u2028" not in text
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, flags=re.DOTALL)
    assert not set("<>&") & set(data)
    shown = [unit[1] for unit in json.loads(data)["traces"][0]["traces"][1]["units"]]
    assert any("<script>alert(1)</script>" in one for one in shown)


def test_what_does_not_fit_is_left_out_and_told(run, monkeypatch):
    n = len(trace_data(read_runs([run]))[0]["traces"][0]["units"])
    other = len(trace_data(read_runs([run]))[0]["traces"][1]["units"])
    size = n * (n + 1) // 2
    monkeypatch.setattr(module, "MOST_CELLS", 6 * n * n + 5 * other * other + 5 * size)
    monkeypatch.setattr(
        module._Room, "__init__", lambda self: vars(self).update(cells=module.MOST_CELLS, characters=10**6)
    )
    (data,) = trace_data(read_runs([run]))
    first, second = data["traces"]
    assert first["no_room_for"] == []
    assert second["no_room_for"] == ["suppression_log_kl"]
    receivers = [one["layer"] * 4 + one["head"] for one in data["receivers"]]
    assert len(first["by_head"]["heads"]) >= 5
    assert set(receivers) <= set(first["by_head"]["heads"])
    monkeypatch.setattr(module._Room, "__init__", lambda self: vars(self).update(cells=0, characters=1))
    (data,) = trace_data(read_runs([run]))
    assert data["left_out"] == 1
    assert data["traces"][0]["matrices"] == {}
    assert data["traces"][0]["by_head"]["heads"] == []


@pytest.mark.parametrize(("lost", "content"), [("trace.json", None), ("trace.json", "{}"), ("passages.jsonl", "[1")])
def test_damaged_files_are_one_line(run, lost, content):
    kept = (run / lost).read_bytes()
    try:
        (run / lost).unlink() if content is None else (run / lost).write_text(content)
        with pytest.raises(ValueError, match="--resume with the options of the run writes it again"):
            read_runs([run])
    finally:
        (run / lost).write_bytes(kept)


def test_the_page_needs_no_torch(run):
    code = (
        "import sys; from pathlib import Path; from interp.report.trace_page import write_trace_page\n"
        "print(write_trace_page(Path(sys.argv[1])).name, 'torch' in sys.modules)"
    )
    said = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["trace.html", "False"]
