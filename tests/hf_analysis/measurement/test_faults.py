"""Measurements that something else spoils: other versions, numbers that are not finite."""

import json

import pandas as pd
import pytest
import torch

from hf_analysis.measurement.measure import measure
from hf_analysis.models.loading import LoadedModel
from tests.hf_analysis.tiny_models import build

PAIR = ("cot", "no_cot")


def test_rows_of_two_versions_are_not_mixed(llama, problems, tmp_path, monkeypatch):
    whole, out = measure(llama, problems[:2], PAIR, tmp_path / "whole"), tmp_path / "out"
    measure(llama, problems[:2], PAIR, out)
    next((out / "problems").iterdir()).unlink()
    monkeypatch.setattr("hf_analysis.measurement.store.versions", lambda names: dict.fromkeys(names, "9.9"))
    with pytest.raises(ValueError, match=r"was begun by other versions \(cotlens .* there, 9\.9 here; torch"):
        measure(llama, problems[:2], PAIR, out, resume=True)
    again = measure(llama, problems[:2], PAIR, tmp_path / "whole", resume=True)  # finished: nothing is mixed
    pd.testing.assert_frame_equal(again, whole, check_exact=True)
    assert len(json.loads((tmp_path / "whole" / "measurement.json").read_text())["versions"]) == 1


def test_weights_that_are_not_numbers_are_said(tokenizer, problems, tmp_path):
    model = build("llama")
    with torch.no_grad():
        model.model.layers[1].self_attn.k_proj.weight[20, 0] = torch.nan
    with pytest.raises(ValueError, match="condition cot: attention is not finite in layer 1, head 2 at token 1 of"):
        measure(LoadedModel("nan", model, tokenizer), problems[:1], PAIR, tmp_path / "out")
