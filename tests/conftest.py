"""What every test may rely on: one thread, no network, the same examples in every run."""

import gc
import os
import socket
from pathlib import Path

os.environ.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1")  # also for subprocesses
os.environ["RAY_AUTH_MODE"] = "disabled"  # else Ray leaves a token at home, and the next cluster asks for it
os.environ["TRITON_INTERPRET"] = "1"  # kernels run on the CPU; Triton asks when it is first imported
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")  # some machines announce AMX and cannot run it

import hypothesis
import pytest
import torch

torch.set_num_threads(1)
hypothesis.settings.register_profile("cotlens", deadline=None, derandomize=True)
hypothesis.settings.load_profile("cotlens")


def _guarded(method_name: str):
    original = getattr(socket.socket, method_name)

    def guarded(self: socket.socket, *arguments, **options):
        if self.family != socket.AF_UNIX:
            raise RuntimeError(f"a test called socket.{method_name}: tests must not touch the network")
        return original(self, *arguments, **options)

    return guarded


def _no_lookup(host, *_, **__):
    raise RuntimeError(f"a test looked up the host {host!r}: tests must not touch the network")


for _name in ("connect", "connect_ex", "sendto", "bind"):
    setattr(socket.socket, _name, _guarded(_name))
socket.getaddrinfo = _no_lookup


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> Path:
    """A small untrained model behind a real tokenizer, as a directory; not to be changed."""
    from hf_analysis.models.loading import load_model, tiny_twin

    path = tmp_path_factory.mktemp("tiny") / "model"
    tiny = tiny_twin(load_model("builtin"), seed=0)
    tiny.model.save_pretrained(path)
    tiny.tokenizer.save_pretrained(path)
    return path


@pytest.fixture
def interpreted(monkeypatch) -> None:
    """Teaches Triton's interpreter to multiply bfloat16: it multiplies the bit patterns (Triton's issue 11584)."""
    triton = pytest.importorskip("triton", reason="triton is not installed")
    from triton.runtime import interpreter

    bfloat16, float32 = triton.language.bfloat16, triton.language.float32
    original = interpreter.InterpreterBuilder.create_dot

    def numbers(one):
        if one.dtype.scalar != bfloat16:
            return one
        bits = torch.from_numpy(one.data.copy())
        return interpreter.TensorHandle(bits.view(torch.bfloat16).float().numpy(), float32)

    def create_dot(self, a, b, *rest):
        return original(self, numbers(a), numbers(b), *rest)

    monkeypatch.setattr(interpreter.InterpreterBuilder, "create_dot", create_dot)


LONGEST = ("test_contracts", "test_notebooks", "test_kill", "test_train", "test_ray_engine", "test_types")
"""The files that take longest, the longest first."""


@pytest.hookimpl(trylast=True)  # after pytest has brought together what shares a fixture
def pytest_collection_modifyitems(items) -> None:
    """Whole files, those that take long first: with `--dist loadfile` the workers then end at about the same time."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    place = {name: index for index, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (place.get(item.path.stem, len(LONGEST)), item.path not in slow))


LEFT_OUT = pytest.StashKey[int]()
"""How many slow tests `-m "not slow"` has left out."""


def pytest_deselected(items) -> None:
    """Counts them, and tells the process that the workers work for."""
    config = items[0].config
    slow = sum(item.get_closest_marker("slow") is not None for item in items)
    config.stash[LEFT_OUT] = config.stash.get(LEFT_OUT, 0) + slow
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node) -> None:
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)  # each worker sees all tests


def pytest_collection_finish() -> None:
    """Sets aside all that the imports left: the garbage collector would look at it again and again."""
    gc.freeze()


def pytest_terminal_summary(terminalreporter, config) -> None:
    """How many inputs the fuzz tests generated, and how many slow tests were left out."""
    reports = terminalreporter.stats.get("passed", [])
    counts = [count for r in reports for name, (count,) in r.user_properties if name == "generated cases"]
    if counts:
        terminalreporter.write_line(f"fuzzing: {sum(counts):,} generated cases in {len(counts)} tests")
    if left := config.stash.get(LEFT_OUT, 0):
        terminalreporter.write_line(f"left out: {left} slow tests; make test-slow runs them")
