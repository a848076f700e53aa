"""One page with everything hostile in it, built once for all tests of the report."""

from pathlib import Path

import pytest

from interp.report import write_report
from tests.interp.report.synthetic import entropy_run, toy_run


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """A directory with one toy and one entropy run."""
    parent = tmp_path_factory.mktemp("runs")
    for make, name in ((toy_run, "fig3b"), (entropy_run, "entropy")):
        (parent / name).mkdir()
        make(parent / name)
    return parent


@pytest.fixture(scope="session")
def page(runs, tmp_path_factory) -> Path:
    """The report of `runs`."""
    out = tmp_path_factory.mktemp("report") / "report.html"
    write_report([runs], out)
    return out
