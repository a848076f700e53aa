"""`cotlens trace` in-process, on a tiny model behind a real tokenizer, and the three-line call."""

import json
import re
from pathlib import Path

import pytest

from hf_analysis import trace
from hf_analysis.models.loading import load_model, tiny_twin
from interp.cli import main
from interp.core.trace_words import LEGEND, legend
from probes import rows
from probes.attention import computation
from tests.hf_analysis.traces.made import SENTENCES, made_trace


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    """A tiny model with the built-in tokenizer, in a directory."""
    from safetensors.torch import save_file

    twin, out = tiny_twin(load_model("builtin"), seed=0), tmp_path_factory.mktemp("model")
    twin.model.config.architectures = [type(twin.model).__name__]
    twin.model.config.save_pretrained(out)
    twin.tokenizer.save_pretrained(out)
    weights = {name: value.clone() for name, value in twin.model.state_dict().items()}
    save_file(weights, out / "model.safetensors", metadata={"format": "pt"})
    return str(out)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("data") / "mine.jsonl"
    thoughts = ["".join(SENTENCES[i:] + SENTENCES[:i]) for i in range(3)]
    records = [
        {"prompt": f"Ann has {i} apples.", "completion": f"<think>{text}</think>The answer is {i}."}
        for i, text in enumerate(thoughts)
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)


@pytest.fixture(scope="module")
def run(tiny, data, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("trace") / "run"
    arguments = ["--model", tiny, "--data", data, "--gap", "2", "--keep", "1", "--threads", "1", "--out", str(out)]
    measures = ["--measures", "attention", "suppression", "faithfulness", "resampling", "--continuations", "1"]
    assert main(["trace", *arguments, *measures, "--max-new-tokens", "2"]) == 0
    return out


def test_a_run_leaves_rows_texts_and_a_summary(run):
    table = rows.read(run / "rows.parquet")
    assert table["unit"].nunique() == 3
    conditions = {
        "trace",
        "rotated",
        "permuted",
        "hidden",
        "control",
        "early",
        "mistake",
        "filler",
        "swapped",
        "resampled",
    }
    assert set(table["condition"]) == conditions
    kept = table[(table["metric"] == "attention_mean") & (table["layer"] >= 0)]
    assert set(kept["unit"]) == {"mine-00001"}
    texts = [json.loads(line) for line in (run / "passages.jsonl").read_text().splitlines()]
    assert [unit["span"] for unit in texts[0]["units"]] == ["question", *["reasoning"] * 10, "answer"]
    assert "".join(unit["text"] for unit in texts[0]["units"][1:-1]) == "".join(SENTENCES).strip()
    found = json.loads((run / "trace.json").read_text())
    assert found["traces"] == 3
    assert "Content-Security-Policy" in (run / "trace.html").read_text()
    assert len(found["receiver_heads"]) == 4
    names = {one["name"] for one in (*found["estimates"], *found["agreement"])}
    assert "suppression_beyond_control" in names
    assert "answer_log_odds lost by swapped" in names
    assert "attention and suppression" in names


def test_a_killed_run_goes_on_with_the_same_rows(run, tiny, data):
    before = rows.read(run / "rows.parquet")
    for lost in (run / "rows.parquet", next((run / "problems").iterdir())):
        lost.unlink()
    arguments = ["--model", tiny, "--data", data, "--gap", "2", "--keep", "1", "--threads", "1", "--out", str(run)]
    measures = ["--measures", "attention", "suppression", "faithfulness", "resampling", "--continuations", "1"]
    assert main(["trace", *arguments, *measures, "--max-new-tokens", "2", "--resume"]) == 0
    assert rows.read(run / "rows.parquet").equals(before)


def test_traces_that_the_model_writes_are_kept(tiny, tmp_path, monkeypatch, capsys):
    from hf_analysis.models import generation

    said = {}

    def written(model, prompts, *_, **__):
        said["prompts"] = [model.decode(list(prompt)) for prompt in prompts]
        text = "First we add 3 and 4. That is 7. So 7 it is. The answer is 7."
        return [generation.Continuation(tuple(model.encode(text)), True) for _ in prompts]

    monkeypatch.setattr("hf_analysis.text.own.continuations", written)  # a tiny model writes no sentences
    arguments = ["trace", "--model", tiny, "--limit", "2", "--generate", "--chat", "--measures", "attention"]
    assert main([*arguments, "--out", str(tmp_path / "run")]) == 0
    assert "2 " in capsys.readouterr().out
    traces = [json.loads(line) for line in (tmp_path / "run" / "traces.jsonl").read_text().splitlines()]
    assert [one["target"] for one in traces] == ["7", "7"]
    assert dict(traces[0]["parts"])["reasoning"] == "First we add 3 and 4. That is 7. So 7 it is."
    assert "".join(text for _, text in traces[0]["parts"]).startswith(said["prompts"][0])
    assert main([*arguments, "--out", str(tmp_path / "run"), "--resume"]) == 0


def test_a_check_is_told_and_a_difference_ends_the_run(tiny, data, tmp_path, capsys, monkeypatch):
    words = ["trace", "--model", tiny, "--data", data, "--limit", "1", "--measures", "attention", "--check"]
    assert main([*words, "--out", str(tmp_path / "x")]) == 0
    assert "first trace checked: within " in (said := capsys.readouterr().out)
    assert " of patterns in float64" in said
    original = computation.group_mass
    monkeypatch.setattr(
        computation, "group_mass", lambda q, k, scale, *given, **o: original(q, k, 1.2 * scale, *given, **o)
    )
    assert main([*words, "--out", str(tmp_path / "y")]) == 2
    said = capsys.readouterr().err
    assert said.startswith("cotlens: --check: layer 0")
    assert said.count("\n") == 1
    assert not list((tmp_path / "y").glob("problems/*"))


def test_three_lines_on_a_model_object(tiny):
    loaded = load_model(tiny)
    found = trace(loaded.model, made_trace().text, tokenizer=loaded.tokenizer, gap=2)
    table = found.sentences()
    assert table["text"].tolist() == [sentence.strip() for sentence in SENTENCES]
    assert {"attention", "suppression", "suppression_beyond_control", "answer_gain"} <= set(table.columns)
    assert found.matrix().shape == (12, 12)
    assert found.matrix("suppression_effect").shape[1] == 10
    assert found.matrix(layer=1, head=1).loc[5, 2] > 0
    with pytest.raises(ValueError, match="the matrices are attention_mass"):
        found.matrix("entropy")
    with pytest.raises(ValueError, match="pass its tokenizer"):
        trace(loaded.model, "x")
    with pytest.raises(ValueError, match="has no <think>"):
        trace(loaded, "Two plus two is four.")


@pytest.mark.parametrize("more", [[], ["--chat"], ["--generate"]])
def test_the_data_are_looked_for_before_the_model_is_loaded(more, tmp_path, capsys):
    assert main(["trace", "--data", "missing.jsonl", "--out", str(tmp_path / "x"), *more]) == 2
    said = capsys.readouterr()
    assert "no such file" in said.err
    assert "loading" not in said.out
    assert not (tmp_path / "x").exists()


def test_every_name_in_the_table_of_means_is_explained(run):
    found = json.loads((run / "trace.json").read_text())
    names = [one["name"] for one in (*found["estimates"], *found["agreement"])]
    lines = legend(names)
    words = {term for name in names for term in re.findall(r"[a-z]+_[a-z_]+|attention|suppression|kurtosis", name)}
    assert words <= {line.partition(": ")[0] for line in lines}
    assert any(line.startswith("early_area_log_odds: log-odds of the answer that are lacking") for line in lines)
    assert not legend(["mean over heads"])
    assert all(len(line) < 118 for line in legend(LEGEND))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--measures", "atention"], "unknown measure 'atention'; the measures are attention"),
        (["--heads", "3"], "--heads 3: expected LAYER.HEAD, such as 12.3"),
        (["--data", "missing.jsonl"], "no such file"),
        (["--limit", "0"], "at least one trace"),
        (["--samples", "2"], "it needs --generate"),
        (["--thinking", "True"], "needs --chat"),
        (["--top", "0"], "at least 1 head"),
        (["--model", "./nowhere"], "expected a directory"),
        (["--frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, tmp_path, capsys):
    assert main(["trace", "--out", str(tmp_path / "x"), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x").exists()
