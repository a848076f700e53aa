"""Run directories: who may enter, and what is recorded."""

import json
import os

import pytest

from interp.core.runs import check_file, provenance, read_config, run_directory

CONFIG = {"task": "parity", "seeds": (1, 2), "nested": {"lr": 1e-4}}


def test_a_new_directory_gets_its_configuration(tmp_path):
    with run_directory(tmp_path / "a" / "b", CONFIG, resume=False) as path:
        assert path == tmp_path / "a" / "b"
        assert read_config(path) == {"task": "parity", "seeds": [1, 2], "nested": {"lr": 1e-4}}


def test_an_empty_directory_may_be_used_and_resume_may_begin(tmp_path):
    with run_directory(tmp_path, CONFIG, resume=False):
        pass
    with run_directory(tmp_path / "new", CONFIG, resume=True):
        pass
    assert read_config(tmp_path / "new") == read_config(tmp_path)


def test_the_same_configuration_resumes_and_its_record_is_kept(tmp_path):
    with run_directory(tmp_path / "r", CONFIG, resume=False):
        pass
    before = (tmp_path / "r" / "config.json").read_bytes()
    with run_directory(tmp_path / "r", CONFIG, resume=True):
        pass
    assert (tmp_path / "r" / "config.json").read_bytes() == before


@pytest.mark.parametrize(
    ("other", "named"),
    [
        ({**CONFIG, "task": "tree"}, "task: 'parity' there, 'tree' here"),
        ({**CONFIG, "new": 1}, "new: None there, 1 here"),
        ({**CONFIG, "seeds": (1, 3)}, r"seeds: \[1, 2\] there, \[1, 3\] here"),
    ],
)
def test_another_configuration_is_refused(other, named, tmp_path):
    with run_directory(tmp_path / "r", CONFIG, resume=False):
        pass
    before = (tmp_path / "r" / "config.json").read_bytes()
    with (
        pytest.raises(ValueError, match=f"holds another run.*{named}"),
        run_directory(tmp_path / "r", other, resume=True),
    ):
        pytest.fail("entered")
    assert (tmp_path / "r" / "config.json").read_bytes() == before


def test_a_second_entry_is_refused_until_the_first_has_left(tmp_path):
    with (
        run_directory(tmp_path / "r", CONFIG, resume=False),
        pytest.raises(ValueError, match="another process is working"),
        run_directory(tmp_path / "r", CONFIG, resume=True),
    ):
        pytest.fail("entered")
    with run_directory(tmp_path / "r", CONFIG, resume=True):
        pass


def test_leftovers_of_a_kill_are_removed(tmp_path):
    with run_directory(tmp_path / "r", CONFIG, resume=False) as path:
        (path / ".rows.parquet.0123.tmp").write_text("half")
    with run_directory(tmp_path / "r", CONFIG, resume=True) as path:
        assert sorted(os.listdir(path)) == [".lock", "config.json"]


def test_a_run_killed_before_its_configuration_was_written_can_be_resumed(tmp_path):
    for name in (".lock", ".config.json.0123.tmp"):
        (tmp_path / name).touch()
    with run_directory(tmp_path, CONFIG, resume=True):
        assert sorted(os.listdir(tmp_path)) == [".lock", "config.json"]


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"config": 3}', "{"])
def test_a_damaged_configuration_is_named(content, tmp_path):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        read_config(tmp_path)


def test_a_directory_without_configuration_is_named(tmp_path):
    with pytest.raises(ValueError, match="is not a run directory"):
        read_config(tmp_path)


def test_provenance_names_versions_and_nothing_personal():
    found = provenance()
    assert {"torch", "transformer-lens", "numpy"} <= found["packages"].keys()
    assert found["packages"]["torch"][0].isdigit()
    text = json.dumps(found)
    assert os.path.expanduser("~") not in text
    assert os.uname().nodename not in text


@pytest.mark.parametrize("name", ["rows.parquet", "report", "page.htm", "", "config.json"])
def test_a_file_of_another_kind_or_of_a_run_is_not_written_over(name, tmp_path):
    (tmp_path / "config.json").touch()
    suffix = ".json" if name == "config.json" else ".html"
    with pytest.raises(ValueError, match=r"ends in \.html|a run needs that file"):
        check_file(tmp_path / name, suffix, "--out")
    check_file(tmp_path / "mine.html", ".html", "--out")
    check_file(None, ".json", "--json")
