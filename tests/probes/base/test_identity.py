"""One rule for who may begin or go on, and one wording."""

import json

import pytest

from probes.base.identity import admit, check_directory, read_identity, require_same
from probes.base.lock import LOCK

IDENTITY = {"task": "parity", "seeds": (1, 2)}


def test_a_run_begins_where_nothing_is_and_goes_on_where_it_is_itself(tmp_path):
    admit(tmp_path / "new", IDENTITY, resume=False, beside=lambda: {"commit": "abc"})
    file = tmp_path / "new" / "config.json"
    assert json.loads(file.read_text()) == {"config": {"task": "parity", "seeds": [1, 2]}, "commit": "abc"}
    before = file.read_bytes()
    admit(tmp_path / "new", IDENTITY, resume=True, beside=lambda: pytest.fail("written again"))
    assert file.read_bytes() == before
    assert read_identity(file) == {"task": "parity", "seeds": [1, 2]}


def test_without_resume_a_directory_with_a_run_is_refused(tmp_path):
    admit(tmp_path, IDENTITY, resume=False)
    with pytest.raises(ValueError, match="is not empty; choose another directory, or --resume the run in it"):
        admit(tmp_path, IDENTITY, resume=False)


def test_another_run_is_refused_with_every_difference(tmp_path):
    admit(tmp_path, IDENTITY, resume=False)
    with pytest.raises(
        ValueError, match=r"holds another run \(lr: None there, 3 here; task: 'parity' there, 't' here\)"
    ):
        admit(tmp_path, {**IDENTITY, "task": "t", "lr": 3}, resume=True)


def test_names_of_others_count_unless_the_directory_is_shared(tmp_path):
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ValueError, match=r"holds 'thesis.tex' and no r.json: no run to resume"):
        check_directory(tmp_path, True, record="r.json")
    admit(tmp_path, IDENTITY, resume=False, record="r.json", among=("r.json", "problems"))
    (tmp_path / "r.json").rename(tmp_path / "problems")
    with pytest.raises(ValueError, match=r"holds 'problems' and no r.json"):
        admit(tmp_path, IDENTITY, resume=True, record="r.json", among=("r.json", "problems"))


def test_what_a_kill_left_before_the_record_counts_as_nothing(tmp_path):
    for name in (LOCK, ".config.json.0123.tmp"):
        (tmp_path / name).touch()
    admit(tmp_path, IDENTITY, resume=False)


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="is a file"):
        check_directory(tmp_path / "file", False)


def test_tuples_and_lists_are_the_same(tmp_path):
    require_same(tmp_path, {"a": (1, 2)}, {"a": [1, 2]})
    with pytest.raises(ValueError, match=r"another run \(a: 1 there, 2 here; b: None there, 3 here\)"):
        require_same(tmp_path, {"a": 2, "b": 3}, {"a": 1})
