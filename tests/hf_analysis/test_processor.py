"""An arithmetic that ends the process is refused in words; one that works is not."""

import pytest

from hf_analysis import processor


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
