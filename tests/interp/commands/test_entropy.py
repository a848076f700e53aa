"""`cotlens entropy` in-process, with the real built-in model."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
import scipy.stats

from interp.cli import main
from interp.core.effects import read_effects
from interp.core.verdict import OUTCOMES
from probes import rows
from probes.attention import computation


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("entropy") / "run"
    assert main(["entropy", "--limit", "3", "--conditions", "cot", "no_cot", "filler", "--out", str(out)]) == 0
    return out


def pairs(directory: Path) -> set[tuple[str, str]]:
    return {(effect.first, effect.second) for effect in read_effects(directory / "effects.json")}


def test_a_run_leaves_rows_effects_and_figures(run):
    table = rows.read(run / "rows.parquet")
    assert set(table["condition"]) == {"cot", "no_cot", "filler"}
    assert table["unit"].nunique() == 3
    assert table.groupby(["layer", "head"]).ngroups == 30 * 9
    assert pairs(run) == {("cot", "no_cot"), ("cot", "filler"), ("filler", "no_cot")}
    found = read_effects(run / "effects.json")
    assert set(table[table["scope"] == "final"]["condition"]) == {"no_cot"}, "the others do not end in the sentence"
    compared = table[table["scope"] != "final"]
    assert {(e.metric, e.scope) for e in found} == set(zip(compared["metric"], compared["scope"]))
    assert len(found) == 3 * 7 * 2
    assert {(e.n, e.problems, e.level) for e in found} == {(3, 3, 0.95)}
    for name in ("effects", "sorted_bars", "paired_heads", "difference_maps"):
        assert (run / "figures" / f"{name}.png").stat().st_size > 10_000


def test_an_effect_is_what_the_rows_say(run):
    table = rows.read(run / "rows.parquet")
    for effect in read_effects(run / "effects.json"):
        chosen = table[(table["metric"] == effect.metric) & (table["scope"] == effect.scope)]
        against = chosen["setting"].str.extract(r"against=(\S+)", expand=False).fillna("")
        by_problem = chosen.groupby(["condition", against, "unit"])["value"].mean()  # heads averaged

        def side(condition, other, means=by_problem):
            return means[condition, other if (condition, other) in means else ""]

        differences = side(effect.first, effect.second) - side(effect.second, effect.first)
        t = scipy.stats.t.interval(0.95, 2, differences.mean(), differences.sem())
        assert (effect.estimate, effect.low, effect.high) == pytest.approx((differences.mean(), *t))


def test_three_problems_on_random_weights_are_no_verdict_on_a_paper(tiny_model, tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["entropy", "--model", str(tiny_model), "--limit", "3", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert not any(outcome in said for outcome in OUTCOMES)
    assert said.endswith("A verdict on the paper's claim: cotlens claims run wen2024/fig6\n")
    assert "min: minimum of the normalised entropy" in said
    assert "lower is sparser" in said
    assert "q10" not in said
    assert {"cot_clean − no_cot", "cot_clean − prose_clean"} <= set(re.findall(r"\w+ − \w+", said))
    assert (
        "\nBelow zero: the first of a pair is sparser. Of equal length: cot − filler, cot_clean − prose_clean" in said
    )
    (shown,) = map(int, re.findall(r"not corrected for there being (\d+) intervals", said))
    (more,) = map(int, re.findall(r"(\d+) more, of other metrics or pairs", said))
    assert shown + more == len(read_effects(out / "effects.json"))
    assert shown < 25
    assert "3 problems" in said
    assert not (out / "verdicts.json").exists()
    assert not any(outcome in (out / "effects.json").read_text() for outcome in OUTCOMES)
    assert len(pairs(out)) == 10


def test_paper_mode_does_not_measure_other_conditions_than_were_asked_for(tmp_path, capsys):
    words = ["entropy", "--paper-mode", "--conditions", "filler", "--out", str(tmp_path / "run")]
    assert main(words) == 2
    assert capsys.readouterr().err == "cotlens: paper mode measures the conditions cot no_cot, got filler\n"


def test_one_condition_leaves_rows_and_says_why_there_is_no_effect(tiny_model, tmp_path, capsys):
    out = tmp_path / "x"
    words = ["entropy", "--model", str(tiny_model)]
    assert main([*words, "--limit", "1", "--conditions", "cot", "--metrics", "min", "--out", str(out)]) == 0
    assert read_effects(out / "effects.json") == []
    assert not rows.read(out / "rows.parquet").empty
    assert "nothing to compare" in capsys.readouterr().out


def test_resume_of_a_finished_run_changes_nothing(run, capsys):
    before = (run / "rows.parquet").read_bytes()
    effects = (run / "effects.json").read_bytes()
    arguments = ["entropy", "--limit", "3", "--conditions", "cot", "no_cot", "filler", "--out", str(run)]
    assert main([*arguments, "--resume"]) == 0
    assert (run / "rows.parquet").read_bytes() == before
    assert (run / "effects.json").read_bytes() == effects
    assert main(arguments) == 2
    assert main([*arguments, "--resume", "--seed", "1"]) == 2
    assert (run / "rows.parquet").read_bytes() == before
    assert "holds another run (seed: 0 there, 1 here)" in capsys.readouterr().err


def test_paper_mode_keeps_the_papers_reduction_only(tiny_model, tmp_path):
    words = ["entropy", "--model", str(tiny_model)]
    assert main([*words, "--limit", "2", "--paper-mode", "--out", str(tmp_path / "p")]) == 0
    table = rows.read(tmp_path / "p" / "rows.parquet")
    assert set(table["metric"]) == {"min"}
    assert set(table["scope"]) == {"all"}
    assert json.loads((tmp_path / "p" / "measurement.json").read_text())["paper_quirks"]["problems"] == 2


def test_other_metrics_are_measured_and_the_command_says_so(tiny_model, tmp_path):
    arguments = [
        "--model",
        str(tiny_model),
        "--limit",
        "2",
        "--conditions",
        "cot",
        "no_cot",
        "--metrics",
        "min",
        "effective_keys_mean",
    ]
    assert main(["entropy", *arguments, "--out", str(tmp_path / "x")]) == 0
    table = rows.read(tmp_path / "x" / "rows.parquet")
    assert set(table["metric"]) == {"min", "effective_keys_mean"}
    assert (table.loc[table["metric"] == "effective_keys_mean", "value"] >= 1).all()
    run = json.loads((tmp_path / "x" / "effects.json").read_text())
    assert "--metrics min effective_keys_mean" in run["command"]
    assert {effect["metric"] for effect in run["effects"]} == {"min", "effective_keys_mean"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--conditions", "cot", "magic"], "unknown condition 'magic'"),
        (["--data", "missing.jsonl"], "no such file"),
        (["--limit", "0"], "at least one problem"),
        (["--device", "abacus"], "not available"),
        (["--model", "./nowhere"], "expected a directory"),
        (["--threads", "0"], "at least 1"),
        (["--metrics", "min", "magic"], "unknown metric 'magic'"),
        (["--metrics", "mean", "--paper-mode"], "paper mode measures the metric min"),
        (["--scopes", "all", "magic"], "unknown scope 'magic'; the scopes are all, answer, final, first, window"),
        (["--baseline", "permuted", "permuted"], "none twice"),
        (["--frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, tmp_path, capsys):
    assert main(["entropy", "--out", str(tmp_path / "x"), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_malformed_record_is_refused_before_a_model_is_loaded(tmp_path, capsys):
    data = tmp_path / "bad.jsonl"
    data.write_text('{"question": "q", "answer": "#### 1"}\n{"question": "q", "answer": "no marker"}\n')
    assert main(["entropy", "--data", str(data), "--model", "./nowhere", "--out", str(tmp_path / "x")]) == 2
    assert "bad.jsonl, line 2" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_model_without_a_tokenizer_is_no_fault_of_the_problem(tiny_model, tmp_path, capsys):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "model.safetensors"):
        (bare / name).write_bytes((tiny_model / name).read_bytes())
    assert main(["entropy", "--model", str(bare), "--limit", "1", "--out", str(tmp_path / "x")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f"--model {bare} has no tokenizer (no tokenizer.json)" in said
    assert "problem" not in said
    assert not (tmp_path / "x").exists()


def test_a_refused_request_leaves_nothing_so_the_corrected_one_runs(tmp_path):
    out = ["entropy", "--limit", "2", "--out", str(tmp_path / "x")]
    for wrong in (
        ["--keep-tokens", "-1"],
        ["--batch-size", "0"],
        ["--model", "./nowhere"],
        ["--conditions", "cot", "cot"],
    ):
        assert main([*out, *wrong]) == 2
        assert not (tmp_path / "x").exists()


def test_paper_mode_compares_two_models(tiny_model, tmp_path, capsys):
    models = ["--model", str(tiny_model), "--against", str(tiny_model)]
    arguments = [*models, "--limit", "2", "--paper-mode", "--threads", "1"]
    assert main(["entropy", *arguments, "--out", str(tmp_path / "x")]) == 0
    run = json.loads((tmp_path / "x" / "effects.json").read_text())
    model = rows.read(tmp_path / "x" / "rows.parquet")["run"].iloc[0]
    other = f"against {model}"
    assert pairs(tmp_path / "x") == {
        (f"{model}: cot", f"{model}: no_cot"), (f"{model}: cot", f"{other}: cot"),
        (f"{model}: no_cot", f"{other}: no_cot"), (f"{other}: cot", f"{other}: no_cot"),
    }  # fmt: skip
    same = [
        effect
        for effect in run["effects"]
        if effect["second"].startswith(f"{other}:") and "against" not in effect["first"]
    ]
    assert [effect["estimate"] for effect in same] == [0.0, 0.0]  # the same model twice
    assert all(effect["low"] < 0 < effect["high"] for effect in same)  # two equal problems are no certainty
    words = run["command"].split()
    assert words[words.index("--against") + 1] == str(tiny_model)
    assert {"--paper-mode", "--limit"} <= set(words)
    assert capsys.readouterr().out.endswith("cotlens claims run wen2024/fig6-model\n")


def test_a_baseline_is_measured_next_to_the_model_and_every_effect_is_there_for_both(tiny_model, tmp_path, capsys):
    arguments = ["--conditions", "no_cot", "cot_clean", "--limit", "6", "--metrics", "min", "length_matched_min"]
    options = ["--baseline", "permuted", "untrained", "--scopes", "answer", "final", "first", "window"]
    out = tmp_path / "x"
    assert main(["entropy", "--model", str(tiny_model), *arguments, *options, "--out", str(out)]) == 0
    table = rows.read(out / "rows.parquet")
    model = table["run"].iloc[0]
    runs = [model, f"permuted {model}", f"untrained {model}"]
    assert list(table["run"].unique()) == runs
    places = {
        run: {(e.metric, e.scope) for e in read_effects(out / "effects.json") if e.first == f"{run}: cot_clean"}
        & {(e.metric, e.scope) for e in read_effects(out / "effects.json") if e.second == f"{run}: no_cot"}
        for run in runs
    }
    wanted = {(metric, scope) for metric in ("min", "length_matched_min") for scope in options[4:]}
    assert places == dict.fromkeys(runs, wanted)
    heads = pd.read_csv(out / "heads.csv")
    assert set(zip(heads["metric"], heads["scope"])) == wanted
    assert heads["adjusted_p"].between(0, 1).all()
    texts = [(out / place / "passages.jsonl").read_bytes() for place in (".", "baseline_permuted")]
    assert texts[0] == texts[1], "the same texts"
    said = capsys.readouterr().out
    assert "heads.csv, passages.jsonl" in said


def test_two_models_are_compared_on_any_text_and_metric(tiny_model, tmp_path):
    models = ["--model", str(tiny_model), "--against", str(tiny_model)]
    arguments = [*models, "--conditions", "no_cot", "--metrics", "mean", "--limit", "2"]
    assert main(["entropy", *arguments, "--out", str(tmp_path / "y")]) == 0
    ((first, second),) = pairs(tmp_path / "y")
    assert second == f"against {first}"


def test_a_check_is_told_and_a_difference_ends_the_run(tiny_model, tmp_path, capsys, monkeypatch):
    words = ["entropy", "--model", str(tiny_model), "--conditions", "no_cot", "cot", "--limit", "1", "--check"]
    assert main([*words, "--out", str(tmp_path / "x")]) == 0
    assert "first forward pass checked: within " in (said := capsys.readouterr().out)
    assert " of patterns in float64" in said
    original = computation.chunked_row_statistics
    monkeypatch.setattr(
        computation, "chunked_row_statistics", lambda q, k, scale, **options: original(q, k, 1.2 * scale, **options)
    )
    assert main([*words, "--out", str(tmp_path / "y")]) == 2
    said = capsys.readouterr().err  # a tiny model's patterns are nearly flat: the scale shows in the output
    assert said.startswith("cotlens: --check: layer 0: attention's output is off by")
    assert said.count("\n") == 1
    assert not list((tmp_path / "y").glob("problems/*"))


def test_each_of_two_models_has_its_own_revision(tiny_model, tmp_path, capsys):
    words = ["entropy", "--model", str(tiny_model), "--limit", "1", "--out", str(tmp_path / "x")]
    assert main([*words, "--against", "builtin", "--against-revision", "abc"]) == 2
    assert "--revision abc: only a model of the hub has revisions, not builtin" in capsys.readouterr().err
    assert main([*words, "--against-revision", "abc"]) == 2
    assert "--against-revision abc: a revision of which model? Name --against" in capsys.readouterr().err


def test_resumed_with_a_second_model_the_table_is_never_half(tiny_model, tmp_path, monkeypatch):
    words = ["entropy", "--model", str(tiny_model), "--against", str(tiny_model), "--conditions", "no_cot"]
    words += ["--metrics", "mean", "--limit", "1", "--keep-tokens", "0", "--out", str(tmp_path / "x")]
    assert main(words) == 0
    before, written = (tmp_path / "x" / "rows.parquet").read_bytes(), []
    write = rows.write
    monkeypatch.setattr(rows, "write", lambda path, table: (write(path, table), written.append(path)))
    assert main([*words, "--resume"]) == 0
    assert written.count(tmp_path / "x" / "rows.parquet") == 1
    assert (tmp_path / "x" / "rows.parquet").read_bytes() == before


def test_a_problem_that_cannot_be_measured_is_refused_before_any_is(tiny_model, tmp_path, capsys):
    data = tmp_path / "long.jsonl"
    records = [{"question": "How many?", "answer": "One. #### 1"}, {"question": "word " * 9000, "answer": "#### 2"}]
    data.write_text("\n".join(json.dumps(record) for record in records))
    words = ["entropy", "--model", str(tiny_model), "--data", str(data)]
    assert main([*words, "--out", str(tmp_path / "x")]) == 2
    assert "problem long-00002: a passage of" in capsys.readouterr().err
    assert not list((tmp_path / "x").glob("problems/*"))


def test_a_table_with_columns_of_its_own_and_clusters(tiny_model, tmp_path, capsys):
    lines = [f"{i} and {i}?,Add them.,{2 * i},{'ab'[i % 2]}" for i in range(1, 5)]
    (tmp_path / "sums.csv").write_text("\n".join(["task,how,result,kind", *lines]))
    words = ["entropy", "--model", str(tiny_model), "--data", str(tmp_path / "sums.csv"), "--metrics", "min"]
    words += ["--conditions", "cot_clean", "prose_clean"]
    assert main([*words, "--out", str(tmp_path / "refused")]) == 2
    assert "sums.csv, line 2: 'question' must be a text" in (said := capsys.readouterr().err)
    assert "the columns are task, how, result, kind: say which is which with --question" in " ".join(said.split())
    named = ["--question", "task", "--solution", "how", "--answer", "result", "--cluster", "kind"]
    assert main([*words, *named, "--out", str(tmp_path / "run")]) == 0
    found = read_effects(tmp_path / "run" / "effects.json")
    assert {(e.n, e.unit, e.problems) for e in found} == {(2, "clusters", 4)}
