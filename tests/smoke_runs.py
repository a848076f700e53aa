"""Every claim's smoke run, made once for all tests of a session: by the first that asks, in whichever worker."""

import os
import pickle
import shutil
from functools import partial
from pathlib import Path
from unittest.mock import patch

import filelock
import pytest

import interp.figures.style
from interp.core.claim import load_claims
from interp.core.ledger import Record
from interp.core.sweep import run_claim

PNG = partial(interp.figures.style.save_figures, kinds=("png",))


def smoke_run(claim_id: str, temporary: pytest.TempPathFactory, out: Path) -> Record:
    """A copy, in `out`, of the claim's finished run at smoke; returns the record that the run gave.

    Its figures are PNGs alone: half of the time goes into the PDFs that a run has beside them.
    """
    base = temporary.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "smoke" / claim_id.replace("/", "-")
    shared.mkdir(parents=True, exist_ok=True)
    kept = shared / "record.pickle"
    with filelock.FileLock(shared / "lock"):
        if not kept.exists():
            with patch.object(interp.figures.style, "save_figures", PNG):
                record = run_claim(load_claims()[claim_id], "smoke", shared / "run", workers=1)
            kept.write_bytes(pickle.dumps(record))
    shutil.copytree(shared / "run", out)
    return pickle.loads(kept.read_bytes())
