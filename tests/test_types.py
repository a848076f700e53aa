"""Is the code as its annotations say? Pyright, beside the tests rather than before them."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow  # make lint
def test_pyright_finds_nothing():
    done = subprocess.run(
        [sys.executable, "-m", "pyright"], cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
