"""Does the wheel hold all that the packages need, and does the version stand in one place?"""

import re
import subprocess
import tomllib
import zipfile
from pathlib import Path

import pytest

from interp.core.claim import load_claims

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("probes", "toy_models", "hf_analysis", "interp")
SMALL = 5e6
"""Bytes that the wheel stays below: no results, no tests, no pictures."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built by its own backend; nothing is fetched."""
    backend = pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    out = tmp_path_factory.mktemp("dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        name = backend.build_wheel(str(out))
    assert (out / name).stat().st_size < SMALL
    return zipfile.ZipFile(out / name)


def test_the_wheel_holds_every_file_of_the_packages_and_no_other(wheel):
    listed = subprocess.run(["git", "ls-files", *PACKAGES], cwd=ROOT, capture_output=True, text=True, check=True)
    here = {name for name in listed.stdout.splitlines() if (ROOT / name).is_file()}
    there = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert here <= there
    assert {name.split("/")[0] for name in there} == set(PACKAGES)
    assert any(name.startswith("interp/report/assets/") for name in there)


def test_the_wheel_installs_the_command(wheel):
    (entry,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    assert "cotlens = interp.cli:main" in wheel.read(entry).decode()


def test_the_version_stands_in_one_place():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^version: (.+)$", cited) == [PROJECT["version"]]
    sources = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert not [file for file in sources if "__version__" in file.read_text(encoding="utf-8")]


def test_every_paper_is_cited():
    cited = re.findall(r"notes: (\w+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert set(cited) == {claim.paper for claim in load_claims().values()}


def test_every_dependency_has_a_lower_bound_and_a_pin():
    pins = {
        re.split("==", line)[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if "==" in line
    }
    extras = PROJECT["optional-dependencies"]
    for requirement in [*PROJECT["dependencies"], *(text for group in extras.values() for text in group)]:
        name = re.match(r"[\w-]+", requirement)
        assert ">=" in requirement
        assert name is not None
        assert name[0].lower() in pins, requirement
