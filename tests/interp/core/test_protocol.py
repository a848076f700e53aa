"""Is a run confirmatory exactly if its protocol was committed before it began and has not changed since?"""

import dataclasses
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from interp.core.claim import Claim, Item, Scale
from interp.core.judgement import judge_parts
from interp.core.judging import mean_over
from interp.core.parts import Part
from interp.core.protocol import code_hash, declaration, declare, protocol, protocol_file, status


@dataclass(frozen=True)
class Size:
    """A preset."""

    seeds: int = 6
    first_unit: int = 1000


def means(table: pd.DataFrame, level: float):
    return mean_over(table["value"], level)


PART = Part(
    key="gain", name="it gains", role="paper", quantity="gain", estimate=means, direction="above", threshold=0.5,
    why="half", unit="seeds", source="Figure 1", primary=True,
)  # fmt: skip


def a_claim(part: Part = PART, size: Size | None = None) -> Claim:
    return Claim(
        id="somebody2020/fig1",
        sentence="It gains.",
        method="m",
        deviations="d",
        scale=dict.fromkeys(("smoke", "cpu", "paper"), Scale("the paper's own numbers")),
        presets=dict.fromkeys(("smoke", "cpu", "paper"), size or Size()),
        items=lambda preset: [Item(str(seed)) for seed in range(preset.seeds)],
        measure=lambda item, work: pd.DataFrame(),
        summary=lambda rows: rows,
        parts=lambda preset: [part],
        finding="{gain}",
        figures=lambda table: {},
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """An empty results folder in a repository of its own."""
    git(tmp_path, "init", "-q")
    git(tmp_path, "config", "user.email", "nobody@example.org")
    git(tmp_path, "config", "user.name", "nobody")
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


def git(directory: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=directory, check=True, capture_output=True, text=True).stdout.strip()


def commit(results: Path) -> str:
    git(results.parent, "add", "-A")
    git(results.parent, "commit", "-qm", "declare")
    return git(results.parent, "rev-parse", "HEAD")


def declared(claim: Claim, results: Path):
    return declaration(claim, "cpu", claim.presets["cpu"], results)


def test_a_committed_protocol_covers_a_run_and_names_its_commit(results):
    claim = a_claim()
    assert declared(claim, results) is None, "nothing is declared"
    file = declare(claim, "cpu", claim.presets["cpu"], results)
    assert file == protocol_file(results, claim.id, protocol(claim, "cpu", claim.presets["cpu"])["hash"])
    assert declared(claim, results) is None, "declared, but not committed"
    head = commit(results)
    found = declared(claim, results)
    assert found is not None
    assert found.commit == head
    assert status(claim, "cpu", claim.presets["cpu"], found.record(), results) == "confirmatory"
    assert status(claim, "cpu", claim.presets["cpu"], None, results) == "exploratory"
    invented = {**found.record(), "commit": "0" * 40}
    assert status(claim, "cpu", claim.presets["cpu"], invented, results) == "exploratory", "no such commit"


@pytest.mark.parametrize(
    "changed",
    [
        a_claim(dataclasses.replace(PART, threshold=0.4)),
        a_claim(dataclasses.replace(PART, direction="below")),
        a_claim(dataclasses.replace(PART, primary=False, role="ours")),
        a_claim(size=Size(seeds=7)),
        a_claim(size=Size(first_unit=0)),
    ],
    ids=["threshold", "direction", "role", "seeds", "first seed"],
)
def test_a_change_after_the_declaration_makes_the_run_exploratory(results, changed):
    claim = a_claim()
    declare(claim, "cpu", claim.presets["cpu"], results)
    commit(results)
    before = declared(claim, results)
    assert before is not None
    assert declared(changed, results) is None, "a run of the changed claim is not covered"
    preset = changed.presets["cpu"]
    assert status(changed, "cpu", preset, before.record(), results) == "exploratory", (
        "an earlier run loses its status"
    )
    declare(changed, "cpu", preset, results)
    commit(results)
    assert status(changed, "cpu", preset, before.record(), results) == "exploratory", "declared after the run"
    assert len(list((results / "protocols" / claim.id).iterdir())) == 2, "the first declaration stays"
    assert status(claim, "cpu", claim.presets["cpu"], before.record(), results) == "confirmatory"


def test_an_edited_protocol_counts_only_once_it_is_committed(results):
    claim = a_claim()
    file = declare(claim, "cpu", claim.presets["cpu"], results)
    commit(results)
    file.write_text(file.read_text() + "\n")
    assert declared(claim, results) is None


def test_the_protocol_holds_every_number_that_decides():
    claim = a_claim()
    found = json.loads(json.dumps(protocol(claim, "cpu", claim.presets["cpu"])))
    assert found["parts"][0]["threshold"] == 0.5
    assert found["numbers"] == {"seeds": 6, "first_unit": 1000}
    assert "estimate" not in found["parts"][0]
    assert found["code"] == code_hash(claim)


def test_the_code_hash_sees_code_and_not_comments(tmp_path):
    from interp.core.protocol import _meaning

    one, other, third = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
    one.write_text('"""A."""\n\n\ndef f(x):\n    """Doc."""\n    return x + 1  # why\n')
    other.write_text('"""B, longer."""\ndef f(x):\n    """Other."""\n    return x+1\n')
    third.write_text('"""A."""\ndef f(x):\n    """Doc."""\n    return x + 2\n')
    assert _meaning(one) == _meaning(other) != _meaning(third)


def test_a_part_of_our_own_may_be_added_after_the_data_and_says_so(results):
    claim = a_claim()
    declare(claim, "cpu", claim.presets["cpu"], results)
    commit(results)
    before = declared(claim, results)
    assert before is not None
    later = dataclasses.replace(PART, key="later", name="later", primary=False, role="ours", added_later=True)
    more = dataclasses.replace(claim, parts=lambda preset: [*claim.parts(preset), later])
    assert status(more, "cpu", claim.presets["cpu"], before.record(), results) == "confirmatory"
    assert [v.name for v in judge_parts(claim.id, [PART, later], pd.DataFrame({"value": [1.0, 1.1, 1.2]}))] == [
        PART.name,
        "later (added after the data)",
    ]
    hidden = a_claim(dataclasses.replace(PART, primary=False, role="ours", added_later=True))
    assert status(hidden, "cpu", claim.presets["cpu"], before.record(), results) == "exploratory", "it was declared"
    with pytest.raises(ValueError, match="its role is ours"):
        dataclasses.replace(PART, added_later=True)


def test_a_git_that_is_slow_makes_no_declared_run_exploratory(results, monkeypatch):
    """It is a failure that is told: a run stays what it begins as."""
    claim = a_claim()
    declare(claim, "cpu", claim.presets["cpu"], results)
    commit(results)
    found = declared(claim, results)
    assert found is not None

    def slow(command, **options):
        raise subprocess.TimeoutExpired(command, options["timeout"])

    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(ValueError, match=r"git did not answer within 300 s in .*; try again"):
        declared(claim, results)
    with pytest.raises(ValueError, match="git did not answer within 300 s"):
        status(claim, "cpu", claim.presets["cpu"], found.record(), results)
