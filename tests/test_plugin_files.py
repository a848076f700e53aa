"""Are the files that COTLENS_PLUGINS names found as plug-ins, by the command line and by worker processes?"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hf_analysis.text.conditions import find_condition
from interp.core.claim import find_claims, load_claims
from tests.test_plugins import CLAIM, TASK_AND_CONDITION
from tests.test_plugins import untouched as untouched
from toy_models.task import load_tasks

RUN_IN_WORKERS = """
import os
from pathlib import Path
from interp import find_claims, run_claim
from probes import rows

if __name__ == "__main__":
    (claim,) = find_claims(["outside2026/fig1"])
    run_claim(claim, "smoke", Path(__file__).parent / "r", workers=2)
    found = rows.read(Path(__file__).parent / "r" / "rows.parquet")["value"]
    print(os.getpid(), *map(int, found))
"""


def with_files(code: str, *files: Path) -> subprocess.CompletedProcess[str]:
    """`code` in a new process with COTLENS_PLUGINS naming `files`."""
    environment = {
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "COTLENS_PLUGINS": os.pathsep.join(map(str, files)),
    }
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def test_the_claim_of_the_page_is_found_as_a_file_by_the_command_line(tmp_path):
    page = (Path(__file__).parents[1] / "docs" / "how" / "new-claim.md").read_text()
    blocks = re.findall(r"(?s)```python\n(.*?)```", page)[:2]
    file = tmp_path / "my_claim.py"
    file.write_text("\n".join(blocks).partition("judgement = run_claim")[0])
    code = "import sys; from interp.cli import main; sys.exit(main(['claims', 'show', 'you2026/sink']))"
    done = with_files(code, file)
    assert done.returncode == 0, done.stderr
    assert "The first token takes more than a quarter of all attention." in done.stdout
    done = with_files(code, tmp_path / "nowhere.py")
    assert done.returncode == 2
    assert done.stderr == (
        f"cotlens: COTLENS_PLUGINS names {tmp_path / 'nowhere.py'}, which is not a .py file that exists; correct it "
        "or unset COTLENS_PLUGINS\n"
    )


def test_files_are_imported_once_and_in_worker_processes_too(tmp_path):
    (tmp_path / "outside_claim.py").write_text(CLAIM)
    (tmp_path / "outside_rest.py").write_text(TASK_AND_CONDITION)
    (tmp_path / "main.py").write_text(RUN_IN_WORKERS)
    files = [tmp_path / name for name in ("outside_claim.py", "outside_rest.py")]
    done = with_files(f"import runpy; runpy.run_path({str(tmp_path / 'main.py')!r}, run_name='__main__')", *files)
    assert done.returncode == 0, done.stderr
    here, *others = done.stdout.split()
    assert len(others) == 3
    assert here not in others, "every item ran in a worker process"
    imports = (tmp_path / "imports.log").read_text().splitlines()
    assert len(imports) == len({here, *others}), "a file is imported once in each process"


@pytest.mark.usefixtures("untouched")
@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("raise RuntimeError('two\\nlines')\n", "RuntimeError: two lines"),
        ("def broken(:\n", "SyntaxError: invalid syntax"),
    ],
)
def test_a_file_that_fails_is_named_with_its_error_every_time(tmp_path, monkeypatch, source, told):
    (tmp_path / "outside_broken.py").write_text(source)
    monkeypatch.setenv("COTLENS_PLUGINS", str(tmp_path / "outside_broken.py"))
    for load in (load_tasks, load_claims, lambda: find_condition("nobody")):
        with pytest.raises(ValueError, match=rf"outside_broken\.py, named by COTLENS_PLUGINS.*{told}") as refusal:
            load()
        assert "\n" not in str(refusal.value)


@pytest.mark.usefixtures("untouched")
def test_two_files_of_one_name_are_refused_and_an_unknown_claim_says_how_ones_own_is_found(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"a plug-in: COTLENS_PLUGINS=my_claim.py, or docs/how/new-statistic.md$"):
        find_claims(["you2026/nothing"])
    files = [tmp_path / folder / "outside_twice.py" for folder in "ab"]
    for file in files:
        file.parent.mkdir()
        file.write_text("")
    monkeypatch.setenv("COTLENS_PLUGINS", os.pathsep.join(map(str, files)))
    with pytest.raises(ValueError, match=r"b.outside_twice\.py.*another file called outside_twice.py.*rename one"):
        load_claims()
    sys.modules.pop("cotlens_plugin_outside_twice")
