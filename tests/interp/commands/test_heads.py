"""`cotlens heads` in-process, on the real built-in model."""

import json
from pathlib import Path

import numpy as np
import pytest

from hf_analysis.measurement.heads import CONDITIONS, METRICS
from interp.cli import main
from interp.commands.heads import _printed, _untested, summary
from interp.commands.probe_words import HEADS, TEXTS, heads_legend
from probes import rows


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("heads") / "run"
    assert main(["heads", "--limit", "2", "--top", "3", "--out", str(out)]) == 0
    return out


def test_a_run_leaves_rows_a_table_and_a_figure(run):
    table = rows.read(run / "rows.parquet")
    assert set(table["condition"]) == {"cot_clean", "repeated"}
    assert table[table["layer"] >= 0].groupby(["layer", "head"]).ngroups == 30 * 9
    found = json.loads((run / "heads.json").read_text())
    kinds = [record["kind"] for record in found]
    assert kinds == [k for k in dict.fromkeys(kinds) for _ in range(3)]
    assert "copy_from_question" in kinds
    best = {record["kind"]: record for record in reversed(found)}
    for kind in ("previous_token", "induction", "sink"):  # a pretrained language model has these
        assert best[kind]["score"] > 0.5 > 5 * best[kind]["chance"]
    assert (run / "figures" / "heads.png").stat().st_size > 10_000


def test_resume_of_a_finished_run_changes_nothing(run, capsys):
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    arguments = ["heads", "--limit", "2", "--out", str(run)]
    assert main(arguments) == 2
    assert main([*arguments, "--seed", "1", "--resume"]) == 2
    assert "holds another run (seed: 0 there, 1 here)" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def made_up(n: int, copied: float, seed: int = 0):
    """Six heads on n problems: head 1.2 copies, the others score zero on average; sinks differ by head only."""
    layer, head = np.tile([0, 0, 0, 1, 1, 1], n), np.tile([0, 1, 2], 2 * n)
    noise = np.random.default_rng(seed).normal(0, 0.1, 6 * n)
    names = {"run": "m", "condition": "cot_clean", "unit": [f"p{unit}" for unit in range(n) for _ in range(6)]}
    values = {
        "copy_from_question": noise + np.where((layer == 1) & (head == 2), copied, 0),
        "sink": 0.2 + 0.1 * layer + 0.01 * head,
    }
    tables = [rows.table(**names, layer=layer, head=head, metric=m, value=v) for m, v in values.items()]
    return rows.concat([*tables, rows.table(**names, metric="sink_chance", value=0.05)]).sample(
        frac=1, random_state=0
    )


def test_the_legend_explains_every_kind_and_text_and_only_what_is_shown():
    assert set(HEADS) == set(METRICS)
    assert set(TEXTS) == set(CONDITIONS)
    terms = [line.split(": ")[0] for line in heads_legend(summary(made_up(20, copied=0.3), top=2))]
    assert terms == ["sink", "copy_from_question", "cot_clean", "chance", "clear heads"]
    assert "clear heads" not in "".join(heads_legend(summary(made_up(2, copied=0.3), top=2)))


def test_the_summary_names_the_copying_head_and_tests_it_over_all_heads():
    found = summary(made_up(20, copied=0.3), top=2)
    assert [(r["kind"], r["layer"], r["head"]) for r in found[:2]] == [("sink", 1, 2), ("sink", 1, 1)]
    assert found[0]["score"] == pytest.approx(0.32)
    assert found[0]["chance"] == pytest.approx(0.05)
    assert found[0]["p_familywise"] is None, "sink mass is not zero by chance"
    best = found[2]
    assert (best["kind"], best["layer"], best["head"]) == ("copy_from_question", 1, 2)
    assert best["p_familywise"] < 0.01
    assert best["clear_heads"] == 1
    chance = [summary(made_up(20, copied=0.0, seed=seed), top=1)[-1]["clear_heads"] > 0 for seed in range(20)]
    assert sum(chance) <= 4, "at a familywise 5%, five or more of twenty have p = 0.003"
    assert summary(made_up(4, copied=0.3), top=1)[-1]["p_familywise"] is None, "four problems cannot reach 0.05"


@pytest.mark.parametrize(("n", "tested"), [(4, False), (20, True)])
def test_without_enough_problems_the_column_of_clear_heads_gives_way_to_a_reason(n, tested):
    found = summary(made_up(n, copied=0.3), top=1)
    columns = [str(column.header) for column in _printed(found).columns]
    assert ("clear heads" in columns) == tested
    reason = "copy_from_question: which heads do it clearly, all tested together, takes 6 problems; there are 4"
    assert _untested(found) == ("" if tested else reason)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--top", "0"], "at least 1"),
        (["--data", "missing.jsonl"], "no such file"),
        (["--limit", "0"], "at least one problem"),
        (["--model", "./nowhere"], "expected a directory"),
        (["--frobnicate"], "frobnicate"),
    ],
)
def test_bad_input_is_one_line_and_status_2(arguments, message, tmp_path, capsys):
    assert main(["heads", "--out", str(tmp_path / "x"), *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "x").exists()
