"""The ledger: every claim once, nothing lost."""

import threading

import pytest

from interp.core.judgement import Judgement
from interp.core.ledger import Record, enter, read_records, stored
from interp.core.verdict import untestable
from probes.base.atomic import write_json
from tests.interp.core.test_verdict import PART


def record(claim: str, command: str = "cotlens claims run") -> Record:
    verdict = untestable(claim, PART, "nothing solved")
    return Record(Judgement(claim, (verdict,), "undecided", "Nothing."), "cpu", command, "smaller: d", "exploratory")


def test_a_record_comes_back_from_the_disk(tmp_path):
    write_json(tmp_path / "v.json", [record("wen2024/fig2").record()])
    assert read_records(tmp_path / "v.json") == [record("wen2024/fig2")]


@pytest.mark.parametrize(
    "content", ["", "{}x", "3", '[{"claim": "a"}]', '[{"verdicts": [{"claim": "a"}]}]', '[{"verdicts": 3}]']
)
def test_other_files_are_named(content, tmp_path):
    path = tmp_path / "v.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"v\.json is not a list of judged claims"):
        read_records(path)


def test_new_records_replace_those_of_the_same_claim(tmp_path):
    for name, claim in (("x", "b2024/fig1"), ("y", "a2024/fig1")):
        write_json(tmp_path / name / "verdicts.json", [record(claim, "new").record()])
    ledger = tmp_path / "ledger" / "verdicts.json"
    write_json(ledger, [record(claim, "old").record() for claim in ("c2024/fig1", "b2024/fig1")])
    enter(ledger, [tmp_path / "x", tmp_path / "y"])
    assert [(r.claim, r.command) for r in stored(ledger)] == [
        ("a2024/fig1", "new"), ("b2024/fig1", "new"), ("c2024/fig1", "old"),
    ]  # fmt: skip


def test_commands_that_end_at_once_lose_nothing(tmp_path):
    names = [f"a2024/fig{i}" for i in range(12)]
    for i, claim in enumerate(names):
        write_json(tmp_path / str(i) / "verdicts.json", [record(claim).record()])
    ledger = tmp_path / "verdicts.json"
    threads = [threading.Thread(target=enter, args=(ledger, [tmp_path / str(i)])) for i in range(len(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(r.claim for r in stored(ledger)) == sorted(names)
