"""From a saved model to the page: a hybrid, of which some layers attend, and a model with ALiBi."""

import json
import shutil

import pandas as pd
import pytest

from interp.cli import main
from tests.hf_analysis import architectures
from tests.interp.report.browsing import needs_chromium, opening


@pytest.mark.slow
@needs_chromium
@pytest.mark.parametrize(("name", "layers"), [("qwen3_next", [3]), ("bloom", [0, 1, 2, 3])])
def test_rows_and_report_name_the_layers_that_attend(name, layers, tiny_model, tmp_path, browser):
    model, out = tmp_path / "model", tmp_path / "out"
    n_words = json.loads((tiny_model / "config.json").read_text())["vocab_size"]
    long_enough = {} if name == "bloom" else {"max_position_embeddings": 2048}
    architectures.tiny_model(name, vocab_size=n_words, **long_enough).save_pretrained(model)
    for file in tiny_model.glob("*token*"):
        shutil.copy(file, model)
    words = ["entropy", "--model", str(model), "--limit", "3", "--conditions", "cot", "no_cot", "--threads", "1"]
    assert main([*words, "--offline", "--check", "--keep-tokens", "1", "--out", str(out)]) == 0
    table = pd.read_parquet(out / "rows.parquet")
    assert sorted(table["layer"].unique()) == layers
    assert table["value"].between(0, 1).all()
    paths = json.loads((out / "measurement.json").read_text())["paths"]
    assert ("layers 3 of 4 attend" in paths) == (name == "qwen3_next")
    assert main(["report", str(out), "--out", str(out / "report.html")]) == 0
    with opening(browser, out / "report.html") as opened:
        tab = opened()
        assert tab.locator("#pt-layer option").all_text_contents() == [str(layer) for layer in layers]
        assert tab.locator("#pt-problems-title").text_content().startswith(f"Layer {layers[-1]}, ") or name == "bloom"
        coloured = tab.locator("#pt-view .token").last.evaluate("token => token.style.background")
    assert coloured.startswith("rgb(")
