"""One rule for who may begin or go on, and one wording."""

import json

import pytest

from probes.base.identity import admit, check_directory, read_identity, read_record, require_same
from probes.base.lock import LOCK
from probes.base.seal import sealed_object

IDENTITY = {"task": "parity", "seeds": (1, 2)}


def test_a_run_begins_where_nothing_is_and_goes_on_where_it_is_itself(tmp_path):
    admit(tmp_path / "new", IDENTITY, resume=False, beside=lambda: {"commit": "abc"})
    file = tmp_path / "new" / "config.json"
    written = {"config": {"task": "parity", "seeds": [1, 2]}, "commit": "abc"}
    assert json.loads(file.read_text()) == sealed_object(written)
    assert read_record(file) == written
    before = file.read_bytes()
    admit(tmp_path / "new", IDENTITY, resume=True, beside=lambda: pytest.fail("written again"))
    assert file.read_bytes() == before
    assert read_identity(file) == {"task": "parity", "seeds": [1, 2]}


def test_a_record_of_an_earlier_version_has_no_checksum_and_is_gone_on_with(tmp_path):
    record = tmp_path / "config.json"
    record.write_text(json.dumps({"config": {"task": "parity", "seeds": [1, 2]}, "provenance": {"commit": "abc"}}))
    before = record.read_bytes()
    admit(tmp_path, IDENTITY, resume=True)
    assert record.read_bytes() == before
    assert read_record(record)["provenance"] == {"commit": "abc"}


def test_numbers_as_names_are_read_as_they_were_written(tmp_path):
    """JSON makes texts of them, and texts have another order: "10" comes before "9"."""
    identity = {"weights": {9: 0.5, 10: 0.25, "all": 1}}
    admit(tmp_path, identity, resume=False)
    admit(tmp_path, identity, resume=True)
    assert read_identity(tmp_path / "config.json") == {"weights": {"9": 0.5, "10": 0.25, "all": 1}}


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


def test_a_difference_within_a_part_is_named_alone(tmp_path):
    begun = {"training": {"budget": 4096, "model": {"heads": 2, "width": 8}}, "task": None}
    wanted = {"training": {"budget": 8192, "model": {"heads": 2, "width": 9}}, "task": {"k": 3}}
    told = (
        r"\(task: None there, {'k': 3} here; training.budget: 4096 there, 8192 here; "
        r"training.model.width: 8 there, 9 here\)"
    )
    with pytest.raises(ValueError, match=f"holds another run {told}; choose another"):
        require_same(tmp_path, wanted, begun)


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
