"""An arithmetic that ends the process is refused in words; one that works is not. Freed memory is kept."""

import platform
import subprocess
import sys

import pytest

from hf_analysis.models import machine as processor


@pytest.fixture(autouse=True)
def _afresh():
    processor.require_arithmetic.cache_clear()
    yield
    processor.require_arithmetic.cache_clear()


def test_what_works_is_let_through():
    processor.require_arithmetic("float32")


def test_a_signal_becomes_one_line(monkeypatch):
    monkeypatch.setattr(processor, "_PROBE", "import os; os.kill(os.getpid(), 4)  # {dtype!r}")
    with pytest.raises(ValueError, match=r"--dtype bfloat16: .*signal 4.*use --dtype float32"):
        processor.require_arithmetic("bfloat16")


MAPPED = """
import ctypes, sys, torch
from hf_analysis.models.machine import keep_freed_memory

class Info(ctypes.Structure):  # struct mallinfo2
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Info
if sys.argv[1] == "keep":
    keep_freed_memory()
before = mallinfo().hblkhd
activations = torch.empty(20 * 2**20, dtype=torch.uint8)
print(mallinfo().hblkhd - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="this is how glibc learns")
def test_activations_come_from_memory_that_is_kept():
    """Blocks with a mapping of their own go back to the system as soon as they are freed."""
    mapped = {}
    for word in ("keep", "do not"):
        command = [sys.executable, "-c", MAPPED, word]
        mapped[word] = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert mapped["do not"] >= 20 * 2**20
    assert mapped["keep"] == 0
