"""The LEGO bench compares the same loss, and its records are complete. Nothing is timed here."""

from dataclasses import replace

import pytest

from interp.bench import lego
from toy_models.lego.clause_decoder import THEORY

TINY = {"tiny": replace(THEORY, d_token=4, d_mlp=8)}


def test_records_name_the_peers_and_their_ratios():
    (record,) = lego.run(TINY, groups=("C2",), batch_size=2, turns=1, n_variables=8)
    assert set(record["ratio"]) == {"answers' rows", "plain PyTorch"}
    assert all(value > 0 for value in [*record["ratio"].values(), *record["ms"].values()])


def test_contenders_that_differ_are_refused(monkeypatch):
    monkeypatch.setattr(lego, "AGREE", -1.0)
    with pytest.raises(ValueError, match="losses differ"):
        next(lego.run(TINY, groups=("C2",), batch_size=2, turns=1, n_variables=8))
