"""Does `cotlens doctor` say what is there and what is missing?"""

import json

import pytest

from interp.cli import main
from interp.commands import doctor


def test_doctor_finds_all_that_is_needed(capsys, tmp_path):
    assert main(["doctor", "--offline", "--json", str(tmp_path / "found.json")]) == 0
    found = {one["name"]: one for one in json.loads((tmp_path / "found.json").read_text())}
    assert {"python", "cotlens", "torch", "transformers", "device", "built-in model", "cache", "ray"} <= set(found)
    assert "hub" not in found
    assert all(one["kind"] != "missing" for one in found.values())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(found)


def test_findings_are_not_written_over_a_file_of_a_run(capsys, tmp_path):
    (tmp_path / "config.json").write_text("mine")
    assert main(["doctor", "--offline", "--json", str(tmp_path / "config.json")]) == 2
    assert "a run needs that file" in capsys.readouterr().err
    assert (tmp_path / "config.json").read_text() == "mine"


def test_a_missing_package_is_named_and_fails(monkeypatch, capsys):
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name == "einops" else real(name))
    assert main(["doctor", "--offline"]) == 2
    out = capsys.readouterr()
    assert "MISSING  einops             not installed (needs >=" in out.out
    assert "missing: einops" in out.err
    assert out.err.count("\n") == 1


def test_an_old_version_and_a_missing_extra_are_told(monkeypatch, capsys):
    old = {"torch": "1.0", "peft": None}
    real = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: old[name] if name in old else real(name))
    assert main(["doctor", "--offline"]) == 2
    out = capsys.readouterr().out
    assert "MISSING  torch              1.0 (needs " in out
    assert "absent   peft               fine-tuning" in out


@pytest.mark.parametrize(("offline", "said"), [(True, "not asked"), (False, "not reached")])
def test_a_hub_that_does_not_answer_is_no_fault(offline, said, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", offline)
    found = doctor._hub()
    assert found.kind in ("note", "optional")
    assert said in found.said
