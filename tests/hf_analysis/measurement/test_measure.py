"""The measurement: oracle values, resume after any kind of death, and independence of batch and order."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from hf_analysis.measurement.measure import measure
from hf_analysis.measurement.pairs import own_settings
from hf_analysis.measurement.store import safe_name
from hf_analysis.models.loading import LoadedModel, load_model
from hf_analysis.text.conditions import CONDITIONS, OWN, Context, find_condition, tokenise
from hf_analysis.text.problems import Problem
from probes import rows
from probes.attention.entropy import length_matched_min
from probes.attention.statistics import DEFAULT_METRICS
from tests.hf_analysis.tiny_models import build

PAIR = ["cot", "no_cot"]
KEYS = ["condition", "unit", "layer", "head", "metric", "scope"]


def by_key(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values(KEYS).reset_index(drop=True)


def assert_close(first: pd.DataFrame, second: pd.DataFrame, tolerance: float) -> None:
    first, second = by_key(first), by_key(second)
    pd.testing.assert_frame_equal(first.drop(columns="value"), second.drop(columns="value"))
    assert np.abs(first["value"] - second["value"]).max() <= tolerance


@torch.no_grad()
def eager_patterns(ids: list[int]) -> torch.Tensor:
    """[layer, head, query, key] in float64."""
    twin = build("llama").double()
    twin.set_attn_implementation("eager")
    return torch.stack(twin(torch.tensor([ids]), output_attentions=True).attentions)[:, 0]


def eager_entropies(model: LoadedModel, ids: list[int]) -> torch.Tensor:
    """[layer, head, pos] normalised entropies from eager patterns, in float64."""
    patterns = eager_patterns(ids)
    return -torch.xlogy(patterns, patterns).sum(-1) / torch.arange(1, len(ids) + 1).log()


def test_every_metric_equals_the_eager_oracle(llama, problems, tmp_path):
    table = measure(llama, problems[:2], PAIR, tmp_path / "out", keep_tokens=1)
    assert set(table["metric"]) == set(DEFAULT_METRICS)
    context = Context(problems[:2], 0, llama)
    for problem in problems[:2]:
        passages = {name: tokenise(llama, find_condition(name)(problem, context)) for name in PAIR}
        shortest = {
            "all": min(len(ids) for ids, _ in passages.values()) - 1,
            "answer": min(len(ids) - start for ids, start in passages.values()),
        }
        for name, (ids, start) in passages.items():
            values = eager_entropies(llama, ids)
            for scope, part in (("all", values[..., 1:]), ("answer", values[..., start:])):
                mine = table[(table.unit == problem.id) & (table.condition == name) & (table.scope == scope)]
                expected = {
                    "min": part.amin(-1),
                    "mean": part.mean(-1),
                    "q10": part.quantile(0.1, dim=-1),
                    "length_matched_min": length_matched_min(part, shortest[scope]),
                }
                for metric, value in expected.items():
                    got = mine[mine.metric == metric].sort_values(["layer", "head"])
                    assert got["n_tokens"].eq(part.shape[-1]).all()
                    np.testing.assert_allclose(got["value"], value.reshape(-1), atol=1e-4)


def test_length_matching_leaves_the_shortest_condition_alone(llama, problems, tmp_path):
    table = measure(llama, problems[:3], PAIR, tmp_path / "out")
    no_cot = table[table.condition == "no_cot"].pivot_table(
        index=[*KEYS[1:4], "scope"], columns="metric", values="value"
    )
    np.testing.assert_allclose(no_cot["length_matched_min"], no_cot["min"], atol=1e-7)
    cot = table[table.condition == "cot"].pivot_table(index=[*KEYS[1:4], "scope"], columns="metric", values="value")
    assert (cot["length_matched_min"] >= cot["min"] - 1e-7).all()
    assert (cot["length_matched_min"] > cot["min"] + 1e-3).mean() > 0.5


@pytest.mark.parametrize("batch_size", [2, 3, 5])
def test_batch_size_changes_nothing_beyond_rounding(llama, problems, tmp_path, batch_size):
    one = measure(llama, problems, PAIR, tmp_path / "one")
    many = measure(llama, problems, PAIR, tmp_path / "many", batch_size=batch_size)
    assert_close(one, many, 1e-5)


def test_order_and_company_change_no_bit(llama, problems, tmp_path):
    forwards = measure(llama, problems, PAIR, tmp_path / "a")
    backwards = measure(llama, problems[::-1], PAIR, tmp_path / "b")
    pd.testing.assert_frame_equal(by_key(forwards), by_key(backwards), check_exact=True)
    alone = measure(llama, problems[2:3], PAIR, tmp_path / "c")
    together = forwards[forwards.unit == problems[2].id].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, together, check_exact=True)


def test_sharing_the_question_saves_tokens_and_changes_nothing(llama, problems, tmp_path):
    conditions = sorted(set(CONDITIONS) - set(OWN))
    shared = measure(llama, problems[:3], conditions, tmp_path / "a")
    unshared = measure(llama, problems[:3], conditions, tmp_path / "b", share=False)
    assert_close(shared, unshared, 1e-5)
    counts = [json.loads((tmp_path / d / "measurement.json").read_text()) for d in "ab"]
    assert counts[1]["forwarded_tokens"] == counts[1]["unshared_tokens"] == counts[0]["unshared_tokens"]
    assert counts[0]["forwarded_tokens"] < 0.8 * counts[0]["unshared_tokens"]
    assert counts[0]["paths"] == ["chunked: on a CPU one pass over blocks of scores is the fastest"]


@pytest.mark.parametrize("name", ["mistral", "gemma2", "gpt2"])
def test_other_architectures_are_measured_whatever_the_batch(name, tokenizer, problems, tmp_path):
    model = LoadedModel(name, build(name), tokenizer)
    one = measure(model, problems[:3], PAIR, tmp_path / "one")
    two = measure(model, problems[:3], PAIR, tmp_path / "two", batch_size=2)
    assert_close(one, two, 1e-5)


class Interruption(Exception):
    pass


@pytest.mark.parametrize("batch_size", [1, 2])
def test_interrupted_and_resumed_is_bit_identical(llama, problems, tmp_path, batch_size):
    options = {"batch_size": batch_size, "keep_tokens": 2}
    whole = measure(llama, problems, PAIR, tmp_path / "whole", **options)
    reports = []

    def interrupt(done, total, problem):
        reports.append((done, total, problem))
        if done == 3:
            raise Interruption

    with pytest.raises(Interruption):
        measure(llama, problems, PAIR, tmp_path / "cut", progress=interrupt, **options)
    assert reports[-1] == (3, 5, "p/2")
    assert not (tmp_path / "cut" / "rows.parquet").exists()
    finished = sorted((tmp_path / "cut" / "problems").iterdir())
    assert len(finished) == 3
    stamps = [path.stat().st_mtime_ns for path in finished]
    resumed = measure(llama, problems, PAIR, tmp_path / "cut", resume=True, **options)
    assert [path.stat().st_mtime_ns for path in finished] == stamps, "finished problems are not written again"
    pd.testing.assert_frame_equal(whole, resumed, check_exact=True)
    for name in ("rows.parquet", "tokens.parquet", "measurement.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


def test_killed_and_resumed_is_bit_identical(llama, problems, tmp_path):
    llama.model.save_pretrained(tmp_path / "model")
    llama.tokenizer.save_pretrained(tmp_path / "model")
    script = f"""
import os, signal
from pathlib import Path
import torch
from hf_analysis.measurement.measure import measure
from hf_analysis.models.loading import load_model
from hf_analysis.text.problems import Problem
torch.set_num_threads({torch.get_num_threads()})
problems = {[(p.id, p.question, p.solution, p.answer) for p in problems]!r}
def die(done, total, problem):
    if done == 2:
        os.kill(os.getpid(), signal.SIGKILL)
model = load_model({str(tmp_path / "model")!r}, device="cpu")
measure(model, [Problem(*p) for p in problems], ["cot", "no_cot"], Path({str(tmp_path / "cut")!r}), progress=die)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    child = subprocess.run([sys.executable, "-c", script], env=environment, check=False, capture_output=True)
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()
    finished = tmp_path / "cut" / "problems"
    assert len(list(finished.glob("*.parquet"))) == 2
    (finished / ".half.parquet.0.tmp").write_bytes(b"PAR1")  # as a kill while writing leaves it
    model = load_model(str(tmp_path / "model"), device="cpu")
    resumed = measure(model, problems, PAIR, tmp_path / "cut", resume=True)
    whole = measure(model, problems, PAIR, tmp_path / "whole")
    pd.testing.assert_frame_equal(resumed, whole, check_exact=True)
    assert (tmp_path / "cut/rows.parquet").read_bytes() == (tmp_path / "whole/rows.parquet").read_bytes()
    assert not list(finished.glob(".*"))


@pytest.mark.parametrize("change", ["model", "data", "conditions", "seed", "paper_mode", "keep_tokens", "batch_size"])
def test_a_resume_of_something_else_is_refused(llama, tokenizer, problems, tmp_path, change):
    measure(llama, problems[:2], PAIR, tmp_path / "out")
    arguments: dict = {"model": llama, "problems": problems[:2], "conditions": PAIR}
    changed: dict = {
        "model": {"model": LoadedModel("tiny-llama", build("llama", seed=1), tokenizer)},
        "data": {"problems": [problems[0], Problem("p/1", "x", "y\n#### 3", "3")]},
        "conditions": {"conditions": ["cot"]},
        "seed": {"seed": 1},
        "paper_mode": {"paper_mode": True},
        "keep_tokens": {"keep_tokens": 1},
        "batch_size": {"batch_size": 2},
    }[change]
    field = "weights" if change == "model" else change
    with pytest.raises(
        ValueError, match=rf"holds another run \(.*\b{field}: .* there, .* here.*\); choose another directory"
    ):
        measure(**{**arguments, **changed}, out=tmp_path / "out", resume=True)


def test_other_usual_metrics_of_another_version_are_not_mixed(llama, problems, tmp_path, monkeypatch):
    measure(llama, problems[:2], PAIR, tmp_path / "out")
    monkeypatch.setattr("hf_analysis.measurement.request.DEFAULT_METRICS", ("min", "mean"))
    with pytest.raises(ValueError, match=r"holds another run \(metrics: \['min', 'mean', 'q10', .* here\)"):
        measure(llama, problems[:2], PAIR, tmp_path / "out", resume=True)


def test_a_directory_of_before_metrics_and_batch_size_were_named_goes_on(llama, problems, tmp_path, monkeypatch):
    """What it left unsaid is known of its metrics, and believed of its batch size where nothing else is asked for."""
    out = tmp_path / "out"
    whole = measure(llama, problems[:2], PAIR, out)
    record = json.loads((out / "fingerprint.json").read_text())
    del record["config"]["metrics"], record["config"]["batch_size"], record["sha256"]  # nor had it a checksum
    (out / "fingerprint.json").write_text(json.dumps(record))
    next((out / "problems").iterdir()).unlink()
    pd.testing.assert_frame_equal(measure(llama, problems[:2], PAIR, out, resume=True), whole, check_exact=True)
    with pytest.raises(ValueError, match=r"holds another run \(batch_size: None there, 2 here\)"):
        measure(llama, problems[:2], PAIR, out, resume=True, batch_size=2)
    monkeypatch.setattr("hf_analysis.measurement.request.DEFAULT_METRICS", ("min", "mean"))
    with pytest.raises(ValueError, match=r"holds another run \(metrics: \['min', 'mean', 'q10', .* here\)"):
        measure(llama, problems[:2], PAIR, out, resume=True)


def test_a_finished_measurement_is_not_overwritten(llama, problems, tmp_path):
    first = measure(llama, problems[:2], PAIR, tmp_path / "out")
    with pytest.raises(ValueError, match="is not empty; choose another directory, or --resume"):
        measure(llama, problems[:2], PAIR, tmp_path / "out")
    again = measure(llama, problems[:2], PAIR, tmp_path / "out", resume=True)
    pd.testing.assert_frame_equal(first, again, check_exact=True)


def test_a_foreign_directory_is_left_alone(llama, problems, tmp_path):
    (tmp_path / "problems").mkdir()
    (tmp_path / "problems" / "homework.parquet").write_bytes(b"mine")
    with pytest.raises(ValueError, match=r"holds 'problems' and no fingerprint\.json: no run to resume"):
        measure(llama, problems, PAIR, tmp_path, resume=True)
    assert (tmp_path / "problems" / "homework.parquet").read_bytes() == b"mine"


def test_out_of_memory_halves_the_batch_and_loses_nothing(tokenizer, problems, tmp_path):
    model = LoadedModel("tiny-llama", build("llama"), tokenizer)
    whole = measure(model, problems, PAIR, tmp_path / "whole", batch_size=5)
    seen = []

    def limited(module, arguments, keywords):
        seen.append(len(keywords["input_ids"]))
        if seen[-1] > 2:
            raise torch.OutOfMemoryError("this machine holds two rows")

    handle = model.model.base_model.register_forward_pre_hook(limited, with_kwargs=True)
    try:
        small = measure(model, problems, PAIR, tmp_path / "small", batch_size=5)
    finally:
        handle.remove()
    assert seen == [5, 2, 2, 1]
    assert_close(whole, small, 1e-5)

    def full(module, arguments):
        raise torch.OutOfMemoryError

    handle = model.model.base_model.register_forward_pre_hook(full)
    with pytest.raises(ValueError, match="does not fit into memory"):
        measure(model, problems, PAIR, tmp_path / "none")
    handle.remove()


def test_generated_text_is_stratified_by_correctness(llama, problems, tmp_path):
    table = measure(llama, problems[:2], ["cot", "generated"], tmp_path / "out")
    assert set(own_settings(table[table.condition == "generated"])) <= {"correct=0", "correct=1"}
    assert set(own_settings(table[table.condition == "cot"])) == {""}


def test_paper_mode_keeps_the_papers_reduction_and_counts_its_quirks(llama, problems, tmp_path):
    table = measure(llama, problems, PAIR, tmp_path / "out", paper_mode=True)
    assert set(table["metric"]) == {"min"}
    assert set(table["scope"]) == {"all"}
    summary = json.loads((tmp_path / "out" / "measurement.json").read_text())
    assert summary["paper_quirks"]["answer_truncated_by_trailing_digits"] == 4  # 2,000 -10 2.50 4.5
    with pytest.raises(ValueError, match="paper mode measures the conditions cot no_cot"):
        measure(llama, problems, ["cot", "filler"], tmp_path / "other", paper_mode=True)


def test_tokens_are_kept_for_the_first_problems(llama, problems, tmp_path):
    table = measure(llama, problems[:3], PAIR, tmp_path / "out", keep_tokens=2)
    tokens = pd.read_parquet(tmp_path / "out" / "tokens.parquet")
    assert set(tokens["problem"]) == {"p/0", "p/1"}
    one = tokens[
        (tokens.problem == "p/0") & (tokens.condition == "cot") & (tokens.layer == 1) & (tokens["head"] == 2)
    ]
    text = "".join(one["token"])
    assert (problems[0].question + " " + problems[0].solution).endswith(text)
    assert "".join(one[one.part == "answer"]["token"]) == " " + problems[0].solution
    cell = table[(table.unit == "p/0") & (table.condition == "cot") & (table.layer == 1) & (table["head"] == 2)]
    expected = cell[(cell.metric == "min") & (cell.scope == "answer")]["value"].item()
    assert one[one.part == "answer"]["value"].min() == expected


def test_rows_follow_the_schema_and_lie_in_range(llama, problems, tmp_path):
    table = measure(llama, problems, PAIR, tmp_path / "out", run="mine")
    assert rows.read(tmp_path / "out" / "rows.parquet").equals(table)
    places = 2 * 2 + 1  # two conditions in two scopes; one ends in the closing sentence
    assert len(table) == 5 * places * 3 * 4 * len(DEFAULT_METRICS), "two conditions have one row for each place"
    assert table["value"].between(0, 1).all()
    assert set(table["run"]) == {"mine"}
    assert list(table["unit"].unique()) == [p.id for p in problems]


def test_hostile_problems_are_measured(llama, tmp_path):
    made = [
        Problem("../../etc/passwd", "\x00\x1b[31m?", "☃ <<x>>\n#### 1", "1"),
        Problem("..__etc_passwd", "a", "b\n#### 1", "1"),
        Problem("x" * 400, "مرحبا 👩‍👩‍👧 " * 20, "\n\n\n#### 2", "2"),
        Problem("C:\\con", "<end><end>", "<end>\n#### 3", "3"),
    ]
    table = measure(llama, made, [*PAIR, "cot_clean", "shuffled_steps", "filler"], tmp_path / "out")
    assert list(table["unit"].unique()) == [p.id for p in made]
    assert len(list((tmp_path / "out" / "problems").iterdir())) == 4
    assert {p.name for p in tmp_path.iterdir()} == {"out"}


def test_file_names_are_safe_and_distinct():
    names = [safe_name(i) for i in ("a/b", "a_b", "A_b", "a\\b", "", ".", "..", "A" * 300, "A" * 301, "ü")]
    assert len({name.lower() for name in names}) == len(names)
    assert all(0 < len(name) < 120 and "/" not in name and not name.startswith(".") for name in names)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"conditions": []}, "at least one"),
        ({"conditions": ["cot", "cot"]}, "none twice"),
        ({"conditions": ["cto"]}, "unknown condition 'cto'"),
        ({"problems": []}, "no problem"),
        ({"batch_size": 0}, "batch size 0"),
        ({"keep_tokens": -1}, "keep_tokens -1"),
        ({"metrics": ["median"]}, "unknown metric 'median'"),
        ({"metrics": ["min", "min"]}, "metrics .*none twice"),
        ({"metrics": []}, "metrics .*at least one"),
        ({"metrics": ["mean"], "paper_mode": True}, "paper mode measures the metric min, got mean"),
        ({"scopes": ["end"]}, "unknown scope 'end'; the scopes are all, answer, final, first, window"),
        ({"scopes": ["all", "all"]}, "scopes .*none twice"),
        ({"scopes": []}, "scopes .*at least one"),
        ({"scopes": ["answer"], "paper_mode": True}, "paper mode measures the scope all, got answer"),
        ({"pairs": [("cot", "filler")]}, r"pair \('cot', 'filler'\): need two of the conditions cot no_cot"),
        ({"pairs": [("cot", "cot")]}, "need two of the conditions"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(llama, problems, tmp_path, options, complaint):
    arguments = {"problems": problems, "conditions": PAIR, **options}
    with pytest.raises(ValueError, match=complaint):
        measure(llama, out=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_a_text_beyond_the_models_context_is_refused(llama, tmp_path):
    long = Problem("long", "word " * 2000, "x\n#### 1", "1")
    with pytest.raises(ValueError, match=r"problem long: a passage of .* takes at most 1024"):
        measure(llama, [long], PAIR, tmp_path / "out")
