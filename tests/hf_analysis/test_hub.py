"""Models and datasets by their names on the hub: a server on this machine, huggingface_hub and datasets as they are.

Commands run in forks of a process whose HF_ENDPOINT is that server: this one may not touch the network.
"""

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file

from hf_analysis import hub
from hf_analysis.text.problems import load_problems
from interp.cli import main
from tests.test_kill import Zygote

pytestmark = pytest.mark.slow
TOKEN = "hf_of_nobody"
CARD = """---
configs:
- config_name: main
  data_files: [{split: test, path: main/test.parquet}, {split: train, path: main/train.parquet}]
- config_name: socratic
  data_files: [{split: test, path: socratic/test.jsonl}]
---
# Problems of a school
"""


class Hub:
    """The folders that are served, and the server."""

    def __init__(self, root: Path) -> None:
        self.root, self.log, self.port = root, root / "log", "0"
        self.home = root / "home"  # of the client, with its cache

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.hf_analysis.hub_server", str(self.root), str(self.log), self.port]
        self.process = subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = self.process.stdout.readline().strip()

    def stop(self) -> None:
        self.process.kill()
        self.process.communicate()

    def requests(self) -> list[str]:
        """What it was asked for since the last time."""
        found = self.log.read_text().splitlines() if self.log.exists() else []
        self.log.write_text("")
        return found

    def copy(self, kind: str, name: str, source: str, without: str = "", **fault: object) -> None:
        """Another repository with the same files, of which something is wrong."""
        folder = self.root / kind / name
        leave_out = shutil.ignore_patterns(without)
        shutil.copytree(self.root / kind / source, folder, ignore=leave_out, copy_function=os.link)
        if fault:
            (folder / "fault.json").write_text(json.dumps(fault))


@pytest.fixture(scope="module")
def served(tiny_model, tmp_path_factory):
    """school/tiny at v1 and, with changed weights, at main; school/gsm8k with two configurations; faulty copies."""
    root = tmp_path_factory.mktemp("hub")
    found = Hub(root)
    shutil.copytree(tiny_model, root / "models/school/tiny/v1")
    shutil.copytree(tiny_model, root / "models/school/tiny/main")
    file = root / "models/school/tiny/main/model.safetensors"
    changed = load_file(file)
    changed["model.norm.weight"] = torch.full_like(changed["model.norm.weight"], 1.5)
    changed["model.layers.0.self_attn.q_proj.weight"] *= 8
    save_file(changed, file, metadata={"format": "pt"})
    problems = [{"question": p.question, "answer": p.solution} for p in load_problems("builtin", limit=2)]
    place = root / "datasets/school/gsm8k/main"
    for folder in ("main", "socratic"):
        (place / folder).mkdir(parents=True)
    (place / "README.md").write_text(CARD)
    for split in ("test", "train"):
        pd.DataFrame(problems).to_parquet(place / f"main/{split}.parquet")
    (place / "socratic/test.jsonl").write_text("".join(json.dumps(problem) + "\n" for problem in problems))
    for kind, source in (("models", "school/tiny"), ("datasets", "school/gsm8k")):
        for name in ("faulty/gated", "faulty/granted"):  # what was fetched once is in the cache
            found.copy(kind, name, source, status=401, code="GatedRepo", token=TOKEN)
    found.copy("models", "faulty/private", "school/tiny", status=401, code="RepoNotFound")
    found.copy("models", "faulty/forbidden", "school/tiny", status=403)
    found.copy("models", "faulty/down", "school/tiny", status=500)
    found.copy("models", "faulty/cut", "school/tiny", cut="model.safetensors", times=1000)
    found.copy("models", "faulty/cut_once", "school/tiny", cut="model.safetensors", times=1)
    found.copy("models", "faulty/pickled", "school/tiny", without="*.safetensors")
    for revision in ("main", "v1"):
        (root / f"models/faulty/pickled/{revision}/pytorch_model.bin").write_bytes(b"\x80\x04cos\nsystem\n")
    found.copy("models", "faulty/bare", "school/tiny", without="*.json")
    found.copy("datasets", "faulty/down", "school/gsm8k", status=500)
    found.copy("datasets", "faulty/cut", "school/gsm8k", cut="main/test.parquet", times=1000)
    found.copy("datasets", "faulty/empty", "school/gsm8k", without="*.*")
    found.start()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def client(served):
    environment = {
        "HF_ENDPOINT": f"http://127.0.0.1:{served.port}",
        "HF_HOME": str(served.home),
        "HF_HUB_OFFLINE": "0",
        "HF_DATASETS_OFFLINE": "0",
        "LONGEST_SLEEP": "0.05",
    }
    started = Zygote(environment)
    yield started
    started.close()


def entropy(client: Zygote, model: str, data: str, out: Path, *words: str, **environment: str) -> dict:
    return client.run([*command(model, data, out), *words], **environment)


def command(model: str, data: str, out: Path) -> list[str]:
    what = ["--conditions", "cot", "no_cot", "--keep-tokens", "0", "--threads", "1"]
    return ["entropy", "--model", model, "--data", data, *what, "--out", str(out)]


def values(run: Path) -> list[float]:
    return pd.read_parquet(run / "rows.parquet")["value"].tolist()


def weights(run: Path) -> str:
    return json.loads((run / "fingerprint.json").read_text())["config"]["weights"]


def refused(done: dict, message: str) -> None:
    assert done["status"] == 2, done["output"]
    assert "Traceback" not in done["output"]
    (line,) = [line for line in done["output"].splitlines() if line.startswith("cotlens:")]
    assert re.search(message, line), line


def test_names_of_the_hub_give_the_rows_of_the_files_and_are_then_in_the_cache(served, client, tmp_path):
    place = served.root / "datasets/school/gsm8k/main/main/test.parquet"
    words = command(str(served.root / "models/school/tiny/main"), str(place), tmp_path / "files")
    assert main(words) == 0
    served.requests()
    done = entropy(client, "school/tiny", "school/gsm8k", tmp_path / "hub")
    assert done["status"] == 0, done["output"]
    assert values(tmp_path / "hub") == values(tmp_path / "files")
    assert any(".safetensors" in line and line.startswith("GET") for line in served.requests())

    done = entropy(client, "school/tiny", "school/gsm8k:main", tmp_path / "again")
    assert done["status"] == 0, done["output"]
    assert values(tmp_path / "again") == values(tmp_path / "files")
    fetched = [line for line in served.requests() if line.startswith("GET 200") and "/resolve/" in line]
    assert fetched == []  # it is asked whether something has changed, no more

    done = entropy(client, "school/tiny", "school/gsm8k", tmp_path / "offline", "--offline")
    assert done["status"] == 0, done["output"]
    assert values(tmp_path / "offline") == values(tmp_path / "files")
    assert served.requests() == []
    refused(entropy(client, "school/tiny", "school/gsm8k:socratic", tmp_path / "x", "--offline"), "socratic")
    refused(entropy(client, "school/tiny", "faulty/down", tmp_path / "x", "--offline"), "--offline or HF_HUB_OFFLINE")
    refused(entropy(client, "faulty/down", "builtin", tmp_path / "x", "--offline"), "--offline or HF_HUB_OFFLINE")
    assert served.requests() == []

    served.stop()
    done = entropy(client, "school/tiny", "school/gsm8k", tmp_path / "alone")
    served.start()
    assert done["status"] == 0, done["output"]
    assert values(tmp_path / "alone") == values(tmp_path / "files")


def test_a_revision_is_a_branch_a_tag_or_a_commit_and_has_weights_of_its_own(served, client, tmp_path):
    options = ("--limit", "1", "--revision", "v1", "--against", "school/tiny", "--against-revision", "main")
    done = entropy(client, "school/tiny", "builtin", tmp_path / "both", *options)
    assert done["status"] == 0, done["output"]
    assert weights(tmp_path / "both") != weights(tmp_path / "both/against")
    table = pd.read_parquet(tmp_path / "both/rows.parquet")
    assert table.groupby("run")["value"].sum().nunique() == 2
    commit = (served.home / "hub/models--school--tiny/refs/v1").read_text()
    done = entropy(client, "school/tiny", "builtin", tmp_path / "commit", "--limit", "1", "--revision", commit)
    assert done["status"] == 0, done["output"]
    assert weights(tmp_path / "commit") == weights(tmp_path / "both")


def test_a_gated_model_and_dataset_open_to_a_token(client, tmp_path):
    done = entropy(client, "faulty/granted", "faulty/granted:main", tmp_path / "run", "--limit", "1", HF_TOKEN=TOKEN)
    assert done["status"] == 0, done["output"]
    written = [path for path in (tmp_path / "run").rglob("*") if path.is_file()]
    assert written
    assert not any(TOKEN.encode() in path.read_bytes() for path in written)
    done = entropy(client, "school/tiny", "faulty/granted:main", tmp_path / "refused", "--limit", "1")
    assert done["status"] == 0, done["output"]  # datasets takes its cached copy when the hub refuses
    assert "latest cached version" in done["output"]


def test_a_line_that_is_cut_once_is_taken_up_where_it_ended(served, client, tmp_path):
    served.requests()
    done = entropy(client, "faulty/cut_once", "builtin", tmp_path / "run", "--limit", "1")
    assert done["status"] == 0, done["output"]
    parts = [line for line in served.requests() if line.startswith("GET") and ".safetensors" in line]
    assert [line.split()[1] for line in parts] == ["200", "206"], parts


@pytest.mark.parametrize(
    ("model", "words", "message"),
    [
        ("school/tyni", [], "school/tyni: cannot be loaded .the hub has none of that name, or a private one"),
        ("faulty/private", [], "none of that name, or a private one: check the name, or log in"),
        ("faulty/gated", [], "grants access on request.*then log in with `hf auth login` or set HF_TOKEN"),
        ("faulty/forbidden", [], "refused with status 403: check your token"),
        ("faulty/down", [], "answered with status 500: try again later, or use --offline"),
        ("faulty/cut", [], r"127\.0\.0\.1:\d+ cannot be reached, or the line was cut"),
        ("faulty/pickled", [], r"no \*\.safetensors; other weights are not read"),
        ("faulty/pickled", ["--revision", "main"], r"no \*\.safetensors; other weights are not read"),
        ("faulty/bare", [], "faulty/bare: cannot be loaded"),
        ("school/tiny", ["--revision", "v7"], "no such revision"),
        ("a/b/c", [], "a/b/c: cannot be loaded"),
    ],
)
def test_a_model_that_the_hub_does_not_give_is_one_line(served, client, model, words, message, tmp_path):
    served.requests()
    refused(entropy(client, model, "builtin", tmp_path / "run", "--limit", "1", *words), message)
    assert not (tmp_path / "run").exists()
    assert not [line for line in served.requests() if "pytorch_model" in line or "discussions" in line]


@pytest.mark.parametrize(
    ("data", "words", "message"),
    [
        ("school/mgs8k", [], "the hub has none of that name, or a private one"),
        ("faulty/gated:main", [], "grants access on request"),
        ("faulty/down:main", [], "answered with status 500|cannot be reached"),
        ("faulty/cut:main", [], "cannot be reached, or the line was cut"),
        ("faulty/empty", [], "faulty/empty"),
        ("school/gsm8k:mian", [], "mian.*main.*socratic"),
        ("school/gsm8k", ["--split", "dev"], "dev.*test"),
    ],
)
def test_a_dataset_that_the_hub_does_not_give_is_one_line(client, data, words, message, tmp_path):
    refused(entropy(client, "builtin", data, tmp_path / "run", *words), message)
    assert not (tmp_path / "run").exists()


def test_without_a_hub_the_line_says_so(served, client, tmp_path):
    served.stop()
    try:
        for model, data in (("school/never", "builtin"), ("builtin", "school/never")):
            refused(entropy(client, model, data, tmp_path / "run"), r"127\.0\.0\.1:\d+ cannot be reached")
    finally:
        served.start()


def test_switches_are_put_back(monkeypatch):
    import datasets
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
    tries = logging.getLogger("huggingface_hub.utils._http")
    with hub.asked_politely(offline=True):
        assert huggingface_hub.constants.is_offline_mode()
        assert datasets.config.HF_HUB_OFFLINE
        assert os.environ[hub.NO_CONVERSION] == "1"
        assert not tries.isEnabledFor(logging.WARNING), "of five tries, five lines before ours"
    assert not huggingface_hub.constants.is_offline_mode()
    assert not datasets.config.HF_HUB_OFFLINE
    assert hub.NO_CONVERSION not in os.environ
    assert tries.isEnabledFor(logging.WARNING)
