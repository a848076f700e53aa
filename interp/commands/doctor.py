"""cotlens doctor: what is installed, what is missing, and where things are kept."""

import os
import platform
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from interp.cli import parse
from interp.core.runs import check_file
from interp.site.printed import CHROMIUM

Kind = Literal["ok", "missing", "optional", "note"]
MARKS: dict[Kind, str] = {"ok": "ok", "missing": "MISSING", "optional": "absent", "note": ""}
EXTRAS = {
    "ray": "sweeps and measurements on many machines: pip install 'cotlens[ray]'",
    "peft": "fine-tuning (wen2024/fig6-finetune): pip install 'cotlens[finetune]'",
    "triton": "entropies out of one kernel in half precision on a GPU (Linux): pip install 'cotlens[gpu]'",
    "playwright": "tests of the report in a browser: pip install 'cotlens[dev]'",
    "mkdocs-material": "building the site: pip install 'cotlens[dev]'",
}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for."""

    kind: Kind
    name: str
    said: str


@dataclass(frozen=True)
class Doctor:
    """Say what is installed and in which version, which device would be used, where caches are, and what is missing.

    Exit status 2 if something is missing that CoTLens cannot do without.
    """

    offline: bool = False
    """Do not ask whether the Hugging Face hub can be reached."""
    json: Path | None = None
    """Also write the findings as JSON to this file."""


def main(arguments: Sequence[str]) -> None:
    """Prints one line for each finding."""
    options = parse(Doctor, arguments, "doctor")
    check_file(options.json, ".json", "--json")
    found = []
    for finding in findings(options.offline):
        found.append(finding)
        print(f"{MARKS[finding.kind]:<8} {finding.name:<18} {finding.said}", flush=True)
    if options.json is not None:
        from probes.base.atomic import write_json

        write_json(options.json, [asdict(finding) for finding in found])
    if missing := [finding.name for finding in found if finding.kind == "missing"]:
        raise ValueError(f"missing: {', '.join(missing)}; install CoTLens again, with its dependencies")


def findings(offline: bool) -> Iterator[Finding]:
    """Everything that is looked for, in order."""
    yield Finding("ok", "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    yield from _packages()
    yield _device()
    yield _builtin_model()
    yield from _places()
    for name, purpose in EXTRAS.items():
        found = _version(name)
        yield Finding("ok" if found else "optional", name, found or purpose)
    without = "the site is built without the note's PDF, tests of the report skip what needs it"
    yield Finding("ok" if CHROMIUM else "optional", "chromium", CHROMIUM or without)
    if not offline:
        yield _hub()


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _packages() -> Iterator[Finding]:
    """CoTLens and what it cannot do without."""
    from packaging.requirements import Requirement

    own = _version("cotlens")
    yield Finding("ok" if own else "missing", "cotlens", own or "not installed as a distribution: pip install it")
    needed = [Requirement(text) for text in (requires("cotlens") if own else None) or ()]
    for requirement in needed:
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        found = _version(requirement.name)
        fits = found is not None and requirement.specifier.contains(found, prereleases=True)
        wanted = f" (needs {requirement.specifier})" if requirement.specifier and not fits else ""
        yield Finding("ok" if fits else "missing", requirement.name, (found or "not installed") + wanted)


def _device() -> Finding:
    import torch

    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
        return Finding("ok", "device", f"cuda: {', '.join(names)}")
    if torch.backends.mps.is_available():
        return Finding("ok", "device", "mps")
    return Finding("ok", "device", f"cpu, {os.cpu_count()} cores, {torch.get_num_threads()} threads")


def _builtin_model() -> Finding:
    from hf_analysis.models.builtin import builtin_gguf

    try:
        return Finding("ok", "built-in model", str(builtin_gguf()))
    except ValueError as error:
        return Finding("optional", "built-in model", str(error))


def _places() -> Iterator[Finding]:
    from huggingface_hub import constants

    from hf_analysis.models.builtin import cache_directory

    try:
        cache = cache_directory()
        yield Finding("note", "cache", f"{cache} (COTLENS_CACHE moves it), {_free(cache)} free")
    except ValueError as error:
        yield Finding("optional", "cache", str(error))
    yield Finding("note", "hub cache", f"{constants.HF_HUB_CACHE} (HF_HOME moves it)")
    data = os.environ.get("COTLENS_DATA")
    yield Finding("note", "own datasets", data or "none (COTLENS_DATA names a folder)")
    yield Finding("note", "program", sys.executable)


def _free(directory: Path) -> str:
    there = next(place for place in (directory, *directory.parents) if place.exists())
    return f"{shutil.disk_usage(there).free / 2**30:.0f} GiB"


def _hub() -> Finding:
    """Whether the hub answers; a machine without a network is no fault."""
    from huggingface_hub import HfApi, constants

    if constants.HF_HUB_OFFLINE:
        return Finding("note", "hub", "not asked: HF_HUB_OFFLINE is set")
    try:
        HfApi().model_info("gpt2", timeout=5)
    except Exception as error:  # whatever a network, a proxy or a certificate does wrong
        line = (str(error).strip().splitlines() or [""])[0]
        return Finding("optional", "hub", f"not reached ({type(error).__name__}: {line:.80}); use --offline")
    return Finding("ok", "hub", constants.ENDPOINT)
