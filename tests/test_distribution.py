"""Does the wheel hold all that the packages need, does it work away from the checkout, is there one version?"""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from interp.core.claim import load_claims

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = ("probes", "toy_models", "hf_analysis", "interp")
SMALL = 5e6
"""Bytes that the wheel stays below: no results, no tests, no pictures."""
ELSEWHERE = """
import sys
from pathlib import Path
from interp.cli import main

SIZES = "--n 6 --k 2 --d-model 8 --budget 128 --eval-every 64 --batch-size 64 --n-validation 8 --n-test 8"
COMMANDS = (
    "--version", "doctor --offline", "claims list", "claims show wen2024/fig6",
    f"train parity {SIZES} --out run", "report run --out report.html",
)
for command in COMMANDS:
    assert main(command.split()) == 0, command
assert main(["claims", "judge", "all"]) == 2
loaded = [module for name, module in sys.modules.items() if name.split(".")[0] in PACKAGES]
strangers = [module for module in loaded if not Path(module.__file__).is_relative_to(Path(PLACE))]
assert len(loaded) > 100, loaded
assert not strangers, strangers
"""
"""What somebody without the repository does first; every module must come from the place where the wheel was put."""
DEMO = """
from interp.cli import main
from interp.commands import demo
from interp.core.claim import find_claims

for claim in find_claims(list(demo.SMALL)):
    demo.SMALL[claim.id] = claim.presets["smoke"]
assert main(["demo", "--workers", "1"]) == 0
"""
"""The demo with the smallest of each claim's presets; the real one takes minutes."""


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


@pytest.fixture(scope="module")
def place(wheel, tmp_path_factory) -> Path:
    """Where the wheel is installed, its dependencies excepted: those of the checkout serve."""
    out = tmp_path_factory.mktemp("place")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*pip, "--target", out, str(wheel.filename)], check=True)
    return out


def done_away(program: str, place: Path, desk: Path) -> subprocess.CompletedProcess[str]:
    """`program` run in the empty directory `desk` with what is installed in `place`."""
    environment = {**os.environ, "PYTHONPATH": str(place), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=desk, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_the_wheel_works_away_from_the_checkout(place, tmp_path):
    program = ELSEWHERE.replace("PACKAGES", repr(PACKAGES)).replace("PLACE", repr(str(place)))
    done = done_away(program, place, tmp_path)
    assert done.stdout.startswith(f"cotlens {PROJECT['version']}\n")
    assert "no published results in results/" in done.stdout
    assert done.stderr.strip() == "cotlens: results holds no published claim"
    assert sorted(file.name for file in tmp_path.iterdir()) == ["report.html", "run"]
    assert (place / "bin" / "cotlens").is_file() or (place / "Scripts" / "cotlens.exe").is_file()


@pytest.mark.slow
def test_the_demo_of_the_wheel_ends_in_a_report(place, tmp_path):
    done = done_away(DEMO, place, tmp_path)
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    for claim in ("wen2024/fig3b", "wen2024/fig2", "wen2024/fig6"):
        assert f"{claim}: " in done.stdout
        assert claim in page
        assert (tmp_path / "demo" / claim.replace("/", "-") / "rows.parquet").is_file()
    assert "Open demo/report.html in a browser" in done.stdout.replace("\\", "/")
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=.?https?:", page)
    assert [file.name for file in tmp_path.iterdir()] == ["demo"]


def test_the_sdist_builds_the_same_wheel(wheel, tmp_path):
    """It holds the tests and the results as well, so that whoever has it can check all of it."""
    backend = pytest.importorskip("hatchling.build", reason="hatchling is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        with tarfile.open(tmp_path / backend.build_sdist(str(tmp_path))) as archive:
            archive.extractall(tmp_path, filter="data")
        (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
        patch.chdir(unpacked)
        again = zipfile.ZipFile(tmp_path / backend.build_wheel(str(tmp_path)))
    contents = lambda built: {file.filename: file.CRC for file in built.infolist()}  # noqa: E731
    assert contents(again) == contents(wheel)
    assert {"tests", "results", "docs", "notebooks", "constraints.txt", "Makefile"} <= set(os.listdir(unpacked))


def test_the_version_stands_in_one_place():
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"(?m)^version: (.+)$", cited) == [PROJECT["version"]]
    sources = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert not [file for file in sources if re.search(r"(?m)^__version__", file.read_text(encoding="utf-8"))]


def test_every_paper_is_cited():
    cited = re.findall(r"notes: (\w+)", (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert set(cited) == {claim.paper for claim in load_claims().values()}


def test_issue_templates_say_what_they_are_for_and_ask_for_the_surroundings():
    templates = {
        file.stem: file.read_text(encoding="utf-8") for file in (ROOT / ".github").glob("ISSUE_TEMPLATE/*.md")
    }
    assert set(templates) == {"bug", "claim", "model"}
    for text in templates.values():
        assert re.match(r"---\nname: .+\nabout: .+\n---\n", text)
    assert all("`cotlens doctor --offline`" in templates[name] for name in ("bug", "model"))


def test_hooks_before_a_commit_are_tools_of_the_environment():
    yaml = pytest.importorskip("yaml", reason="the site's builder brings it")
    (repository,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    entries = {hook["id"]: hook["entry"].split() for hook in repository["hooks"]}
    assert {"ruff-check", "ruff-format", "pyright", "numbers"} == set(entries)
    extras = " ".join(PROJECT["optional-dependencies"]["dev"])
    for tool, *rest in entries.values():
        assert tool.startswith(".venv/bin/")
        assert Path(tool).name == "python" or Path(tool).name in extras
        if rest[:1] == ["-m"]:
            assert find_spec(rest[1]) is not None


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
