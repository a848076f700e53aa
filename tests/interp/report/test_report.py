"""Is the page whole, deterministic, harmless and small, and does bad input leave everything as it was?"""

import dataclasses
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hf_analysis.text.scopes import SCOPES
from interp.claims.wen2024._fig6_comparisons import COMPARISONS
from interp.cli import main
from interp.core.claim import load_claims
from interp.core.contrast import NotPaired, Side, contrast
from interp.core.published import publish
from interp.report import build, write_report
from interp.report.board import cards
from interp.report.ledger_pages import ROLES
from interp.report.pack import visible
from interp.report.pretrained import BOARD, CONTROLLED, declared_pairs, pretrained_data
from interp.report.sources import measured_again, model_and_data, read_runs
from interp.report.tokens import SENTENCE
from interp.report.toy import toy_data
from probes import rows
from probes.attention.statistics import DEFAULT_METRICS
from tests.interp.report.elements import Elements
from tests.interp.report.synthetic import (
    CLOSED,
    CONDITIONS,
    HEADS,
    HOSTILE,
    KEPT,
    LAYERS,
    entropy_run,
    plain_toy_run,
    toy_run,
)
from tests.interp.report.test_pack import unpacked


@pytest.fixture(scope="session")
def text(page) -> str:
    return page.read_text(encoding="utf-8")


def test_the_same_rows_give_the_same_page_anywhere(runs, text, tmp_path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(runs, copy)
    assert build([copy]) == text


def test_a_page_is_rebuilt_without_torch(runs, tmp_path):
    code = (
        "import sys; from pathlib import Path; from interp.report import write_report\n"
        "write_report([Path(sys.argv[1])], Path(sys.argv[2])); print('torch' in sys.modules)"
    )
    arguments = [sys.executable, "-c", code, str(runs), str(tmp_path / "r.html")]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip() == "False"


def test_nothing_in_the_page_points_outside(text):
    for tag, attributes in Elements(text).found:
        for name in ("src", "href", "action", "data", "srcset"):
            assert attributes.get(name, "#").startswith(("#", "data:")), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
    (policy,) = [a["content"] for _, a in Elements(text).found if a.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy


def test_data_adds_no_element(text):
    tags = [tag for tag, _ in Elements(text).found]
    assert tags.count("script") == 3
    assert not {"i", "u", "b", "iframe", "object"} & set(tags)
    assert "\u202e" not in text


def test_every_id_is_unique_and_every_link_arrives(text):
    elements = Elements(text).found
    ids = [attributes["id"] for _, attributes in elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"][1:] for tag, a in elements if tag == "a"}
    assert links <= set(ids)
    for name in load_claims():
        assert f"claim-{name.replace('/', '-')}" in links


def test_a_page_without_explorers_needs_no_plotly(tmp_path):
    table = rows.read(toy_run(tmp_path) / "rows.parquet")
    metrics = ["top1_hit", "dependency_mass", "test_accuracy"]
    (run,) = read_runs([tmp_path])
    assert toy_data([replace(run, table=table[table["metric"].isin(metrics)])]) == []


def test_size_of_a_demo(tmp_path, monkeypatch):
    monkeypatch.setattr("interp.core.contrast.N_FLIPS", 99)  # p-values take the same room
    conditions = ("cot", "no_cot", "shuffled_tokens", "filler")
    entropy_run(tmp_path, layers=16, heads=17, n_problems=32, conditions=conditions, tokens=False)
    assert write_report([tmp_path], tmp_path / "r.html") < 9e6


def test_conclusions_parts_and_reproduction_are_told(text):
    assert "cotlens claims run wen2024/fig3b --preset smoke" in text
    assert 'data-conclusion="undecided"' in text
    assert 'data-conclusion="not run"' in text
    assert 'data-outcome="inconclusive"' in text
    assert '<span class="status exploratory">' in text
    assert "smaller: a test of the code: n=8, k=2, d_model 32" in text
    assert "95% interval; claimed &gt; 0.5" in text
    assert "95% interval; claimed &gt; 0.9" in text  # one that is not primary
    assert f"Roles: paper, {ROLES['paper'].replace('What', 'what')};" in text


def test_a_report_of_measurements_alone_begins_with_them(runs, text):
    alone = build([runs / "entropy"])
    assert alone.index('id="pretrained"') < alone.index('id="measurements"') < alone.index('id="overview"')
    assert text.index('id="overview"') < text.index('id="pretrained"')


def test_commands_to_measure_again():
    config = {
        "command": "entropy",
        "model": "a b",
        "conditions": ["cot", "no_cot"],
        "limit": None,
        "paper_mode": True,
    }
    assert (
        measured_again(config)
        == "cotlens entropy --model 'a b' --conditions cot no_cot --paper-mode --out runs/again"
    )
    assert measured_again({"model": "a b"}) == ""


def test_pairs_are_no_cot_and_the_controls_of_cot():
    against = [("cot", "no_cot"), ("filler", "no_cot"), ("generated", "no_cot")]
    controls = [("cot", "filler"), ("cot", "generated")]
    assert declared_pairs(["cot", "no_cot", "filler", "generated"]) == against + controls


def test_the_explorer_has_the_rows_and_the_tests(runs):
    (one,) = pretrained_data(read_runs([runs / "entropy"]))
    table = rows.read(runs / "entropy" / "rows.parquet")
    names = [name for name, *_ in one["metrics"]]
    shape = (len(names), len(one["scopes"]), len(one["conditions"]), len(one["units"]), LAYERS, HEADS)
    values = np.stack([unpacked(of_metric) for of_metric in one["values"]]).reshape(shape)
    row = table.iloc[1234]
    place = (names.index(row["metric"]), one["scopes"].index(row["scope"]), one["conditions"].index(row["condition"]))
    found = values[(*place, one["units"].index(visible(row["unit"])), row["layer"], row["head"])]
    assert found == pytest.approx(row["value"], abs=1e-4)
    assert len(one["tests"]) == len(declared_pairs(CONDITIONS)) * len(names) * 2
    for test in one["tests"]:
        changed = names[test["metric"]] == "min" and "cot" in test["pair"]
        assert (unpacked(test["p"]) < 0.05).all() == changed
    plain = next(t for t in one["tests"] if t["pair"] == ["cot", "no_cot"] and names[t["metric"]] == "min")
    scope = one["scopes"][plain["scope"]]
    direct = contrast(table, Side("cot", "min", scope), Side("no_cot", "min", scope))  # what the claims are judged by
    np.testing.assert_allclose(unpacked(plain["p"]), direct.head_p_values().ravel(), atol=1e-4)
    overall = direct.overall()
    assert plain["mean"] == pytest.approx([overall.value, overall.low, overall.high], abs=1e-4)


def test_the_explorer_reads_each_pair_at_its_own_length(tmp_path):
    table = rows.read(entropy_run(tmp_path, tokens=False) / "rows.parquet")
    long = (table["metric"] == "length_matched_min") & (table["condition"] == "cot")
    generator = np.random.default_rng(5)
    own = table[long].assign(setting="m=100")
    pairs = [
        table[long].assign(setting=f"against={other} m=7", value=lambda t: 0.2 + 0.1 * generator.random(len(t)))
        for other in ("no_cot", "shuffled_tokens")
    ]
    table = rows.concat([table[~long], own, *pairs])
    rows.write(tmp_path / "rows.parquet", table)
    (one,) = pretrained_data(read_runs([tmp_path]))
    names = [name for name, *_ in one["metrics"]]
    for test in one["tests"]:
        metric, scope = names[test["metric"]], one["scopes"][test["scope"]]
        first, second = (next(c for c in CONDITIONS if visible(c) == name) for name in test["pair"])
        overall = contrast(table, Side(first, metric, scope), Side(second, metric, scope)).overall()
        assert test["mean"] == pytest.approx([overall.value, overall.low, overall.high], abs=1e-4)
    kept = {(names[of["metric"]], of["condition"], of["against"]) for of in one["matched"]}
    assert kept == {("length_matched_min", "cot", other) for other in ("no_cot", "shuffled_tokens")}
    (column,) = (of for of in one["matched"] if of["against"] == "no_cot" and one["scopes"][of["scope"]] == "answer")
    wanted = pairs[0][pairs[0]["scope"] == "answer"].sort_values(["unit", "layer", "head"])
    np.testing.assert_allclose(unpacked(column["values"]), wanted["value"], atol=1e-4)


def test_the_explorer_tests_no_pair_of_unequal_lengths(tmp_path):
    """Only cot and no_cot were measured at one length: m differs in all other pairs, which `contrast` refuses."""
    table = rows.read(entropy_run(tmp_path, tokens=False) / "rows.parquet")
    matched = table["metric"] == "length_matched_min"
    lengths = {name: f"m={5 + place}" for place, name in enumerate(CONDITIONS)}
    own = table[matched].assign(setting=lambda t: t["condition"].map(lengths))
    pair = own[own["condition"] == "cot"].assign(setting=f"against=no_cot {lengths['no_cot']}")
    table = rows.concat([table[~matched], own, pair])
    rows.write(tmp_path / "rows.parquet", table)
    (one,) = pretrained_data(read_runs([tmp_path]))
    names = [name for name, *_ in one["metrics"]]
    tested = {(*test["pair"], names[test["metric"]], one["scopes"][test["scope"]]) for test in one["tests"]}
    n_refused = 0
    for first, second in declared_pairs(CONDITIONS):
        for metric, scope in {*zip(table["metric"], table["scope"])}:
            try:
                contrast(table, Side(first, metric, scope), Side(second, metric, scope))
                refused = False
            except NotPaired:
                refused = True
            assert ((visible(first), visible(second), metric, scope) in tested) == (not refused)
            n_refused += refused
    assert n_refused == (len(declared_pairs(CONDITIONS)) - 1) * 2
    assert {pair[:2] for pair in tested if pair[2] == "length_matched_min"} == {("cot", "no_cot")}


def test_the_menu_is_the_registry_and_every_metric_has_its_own_digits(tmp_path):
    table = rows.read(entropy_run(tmp_path, tokens=False) / "rows.parquet")
    more = table[table["metric"] == "mean"].assign(metric="effective_keys_mean", value=lambda t: 900 * t["value"])
    rows.write(tmp_path / "rows.parquet", rows.concat([table, more]))
    (one,) = pretrained_data(read_runs([tmp_path]))
    assert [name for name, *_ in one["metrics"]] == [*DEFAULT_METRICS, "effective_keys_mean"]
    assert one["metrics"][0][1:] == ["minimum of the normalised entropy", "", 0.0, 1.0, "lower", "normalised_entropy"]
    assert one["metrics"][-1][1:] == [
        "mean of the effective number of keys", "keys", 1.0, None, "lower", "effective_keys"
    ]  # fmt: skip
    assert [of_metric["dtype"] for of_metric in one["values"]] == ["u2"] * 7 + ["f4"]
    assert {one["metrics"][test["metric"]][0] for test in one["tests"]} >= {"effective_keys_mean"}


def test_the_menu_of_scopes_is_the_registry_and_unknown_ones_stay(tmp_path):
    table = rows.read(entropy_run(tmp_path, n_problems=2, tokens=False) / "rows.parquet")
    some = table[(table["scope"] == "all") & (table["metric"] == "min")]
    names = [*reversed(SCOPES), "<i>mine</i>"]
    rows.write(tmp_path / "rows.parquet", rows.concat(some.assign(scope=name) for name in names))
    (one,) = pretrained_data(read_runs([tmp_path]))
    assert one["scopes"] == [*SCOPES, "<i>mine</i>"]
    assert one["scope_labels"] == [*(scope.label for scope in SCOPES.values()), "tokens: <i>mine</i>"]


def test_an_unmeasured_problem_is_missing_not_zero(tmp_path):
    table = rows.read(entropy_run(tmp_path, tokens=False) / "rows.parquet")
    gone = (table["unit"] == table["unit"].iloc[0]) & (table["condition"] == "cot")
    rows.write(tmp_path / "rows.parquet", table[~gone].reset_index(drop=True))
    (one,) = pretrained_data(read_runs([tmp_path]))
    assert sum(np.isnan(unpacked(of_metric)).sum() for of_metric in one["values"]) == gone.sum()
    assert {t["n"] for t in one["tests"] if t["pair"] == ["cot", "no_cot"]} == {7}


def measurement(directory: Path, against: bool) -> pd.DataFrame:
    """What `cotlens entropy` leaves: rows of one or two models."""
    table = rows.read(entropy_run(directory, conditions=("cot", "no_cot")) / "rows.parquet")
    if against:
        rows.write(directory / "rows.parquet", rows.concat([table, table.assign(run="against tiny", value=0.9)]))
    config = {"command": "entropy", "model": "tiny", "data": "builtin"}
    (directory / "config.json").write_text(json.dumps({"config": config}))
    return table


def test_a_measurement_is_explored_and_is_no_verdict(tmp_path):
    measurement(tmp_path, against=True)
    (run,) = read_runs([tmp_path])
    assert run.judged is None
    assert run.name == "tiny on GSM-symbolic"
    assert not any(one.run for one in cards(load_claims(), [run], {}))
    assert [one["name"] for one in pretrained_data([run])] == [
        "tiny on GSM-symbolic",
        "against tiny on GSM-symbolic",
    ]
    assert "cotlens entropy --model tiny --data builtin --out runs/again" in build([tmp_path])


@pytest.mark.parametrize(
    ("label", "model", "name"),
    [
        ("model", "builtin", "SmolLM2-135M-Instruct on GSM-symbolic"),
        ("permuted", "builtin", "SmolLM2-135M-Instruct with permuted weights on GSM-symbolic"),
        ("builtin", "builtin", "SmolLM2-135M-Instruct on GSM-symbolic"),
        ("model", "Qwen/Qwen2-7B", "Qwen/Qwen2-7B on GSM-symbolic"),
        ("against x", "y", "against x on GSM-symbolic"),
    ],
)
def test_a_measured_model_has_its_own_name(label, model, name):
    assert model_and_data(label, {"model": model, "data": "builtin"}) == name


def test_the_explorer_starts_with_what_the_board_is_judged_by(runs):
    (one,) = pretrained_data(read_runs([runs / "entropy"]))
    assert one["start"] == {"metric": "min", "scope": "all", "first": "cot", "second": "no_cot"}
    assert one["scopes"][0] == one["start"]["scope"]
    published = COMPARISONS["published"]
    assert published.primary
    assert tuple(dataclasses.replace(side, run=None) for side in (published.first, published.second)) == BOARD
    assert COMPARISONS["length"].first.scope == CONTROLLED


def test_problems_of_one_template_are_a_cluster_as_on_the_board(tmp_path):
    table = rows.read(
        entropy_run(tmp_path, conditions=("cot", "no_cot"), n_problems=40, tokens=False) / "rows.parquet"
    )
    names = {unit: f"gsm-symbolic-0-{place:05d}" for place, unit in enumerate(table["unit"].unique(), start=1)}
    rows.write(tmp_path / "rows.parquet", table.assign(unit=table["unit"].map(names)))
    (run,) = read_runs([tmp_path])
    (one,) = pretrained_data([run])
    (test,) = [t for t in one["tests"] if (t["metric"], t["scope"]) == (0, 0)]
    overall = contrast(run.table, *BOARD).overall()
    assert (test["n"], test["clusters"]) == (40, overall.n)
    assert overall.n < 40
    assert test["mean"] == pytest.approx([overall.value, overall.low, overall.high], abs=1e-5)


def texts_of(directory: Path) -> list[int]:
    """How many texts each model of a run has."""
    return [len(one["tokens"]["texts"]) for one in pretrained_data(read_runs([directory]))]


def test_tokens_belong_to_their_model(tmp_path):
    everything = 2 * len(HOSTILE)
    measurement(tmp_path, against=False)
    assert texts_of(tmp_path) == [everything]
    measurement(tmp_path, against=True)
    assert texts_of(tmp_path) == [everything, 0]
    (tmp_path / "against").mkdir()
    tokens = pd.read_parquet(tmp_path / "tokens.parquet")
    tokens.assign(run="against tiny").to_parquet(tmp_path / "against" / "tokens.parquet")
    assert texts_of(tmp_path) == [everything, everything]


def test_older_tokens_are_shown_where_there_is_one_model_and_have_no_closing_sentence(tmp_path):
    measurement(tmp_path, against=False)
    tokens = pd.read_parquet(tmp_path / "tokens.parquet")
    older = tokens[tokens["statistic"] == KEPT[0]].drop(columns=["run", "statistic"])
    older = older.assign(part=older["part"].replace("closing", "answer"))
    older.to_parquet(tmp_path / "tokens.parquet")
    (one,) = pretrained_data(read_runs([tmp_path]))
    assert {(text["condition"], len(text["tokens"]), text["closing"]) for text in one["tokens"]["texts"]} == {
        ("cot", 7, 0),
        ("no_cot", 11, 0),
    }
    assert all(text["sentence"] == {} for text in one["tokens"]["texts"])
    measurement(tmp_path, against=True)
    older.to_parquet(tmp_path / "tokens.parquet")
    assert texts_of(tmp_path) == [0, 0]  # it does not say of which model they are


def test_the_closing_sentence_has_every_kept_statistic_of_the_registry(runs):
    (one,) = pretrained_data(read_runs([runs / "entropy"]))
    tokens = pd.read_parquet(runs / "entropy" / "tokens.parquet")
    assert sorted(name for name, *_ in one["tokens"]["statistics"]) == sorted(KEPT)
    assert ["effective_keys", "effective number of keys", "keys", "lower"] in one["tokens"]["statistics"]
    for text in one["tokens"]["texts"]:
        assert text["closing"] == (4 if text["condition"] in CLOSED else 0)
        assert set(text["sentence"]) == (set(KEPT) if text["closing"] else set())
        mine = tokens[
            (tokens["problem"].map(visible) == text["problem"]) & (tokens["condition"] == text["condition"])
        ]
        for statistic, values in text["sentence"].items():
            of = mine[(mine["statistic"] == statistic) & (mine["part"] == "closing")]
            wanted = of.sort_values(["layer", "head", "position"])["value"]
            np.testing.assert_allclose(unpacked(values), wanted, atol=1e-4)


def test_the_texts_shown_first_are_those_of_the_same_sentence():
    compared = COMPARISONS["sentence"]
    assert tuple(dataclasses.replace(side, run=None) for side in (compared.first, compared.second)) == SENTENCE


def test_tokens_kept_by_the_items_of_a_claim_are_found(tmp_path):
    entropy_run(tmp_path)
    item = tmp_path / "items" / "problems=0-7"
    item.mkdir(parents=True)
    (tmp_path / "tokens.parquet").rename(item / "tokens.parquet")
    (run,) = read_runs([tmp_path])
    assert run.tokens is not None
    assert len(run.tokens)


def test_too_many_tokens_are_left_out_and_counted(tmp_path, monkeypatch):
    # of a problem, 12 heads: 4 texts of 7 tokens, 3 with 4 more, of which every statistic takes two bytes
    monkeypatch.setattr("interp.report.tokens.MOST_VALUES", 2 * 12 * (4 * 7 + 3 * 4 * (1 + 2 * len(KEPT))))
    (one,) = pretrained_data(read_runs([entropy_run(tmp_path)]))
    assert len({text["problem"] for text in one["tokens"]["texts"]}) == 2
    assert one["tokens"]["left_out"] == len(HOSTILE) - 2


def test_the_toy_explorer_has_every_map(runs):
    first, _ = toy_data(read_runs([runs / "fig3b"]))
    assert first["name"] == "wen2024/fig3b: cot, d_model=32 dropout=0.0 k=2 n=8, seed 0"
    assert first["maps"] == [[s, t] for s in ("input 0", "input 1", "test") for t in (1000, 2000, 3000)]
    maps = unpacked(first["attention"]).reshape(9, 1, 2, 2, 10)
    np.testing.assert_allclose(maps.sum(-1), 1, atol=1e-3)
    assert first["needed"]["input 1"] == [[8, 0], [8, 5], [9, 1], [9, 5]]
    assert set(first["tokens"]) == {"input 0", "input 1"}
    assert len(first["curves"]["series"]) == 6


DAMAGES = (
    "not judged",
    "no directory",
    "no rows",
    "damaged rows",
    "damaged config",
    "damaged tokens",
    "unknown claim",
    "other rows",
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_bad_input_is_one_line_and_leaves_the_page(damage, tmp_path, capsys):
    directory, out = tmp_path / "run", tmp_path / "out" / "report.html"
    out.parent.mkdir()
    out.write_text("earlier")
    if damage != "no directory":
        directory.mkdir()
    if damage not in ("no directory", "no rows"):
        toy_run(directory)
    if damage == "damaged rows":
        (directory / "rows.parquet").write_bytes(b"PAR1 but not really")
    if damage == "damaged tokens":
        (directory / "tokens.parquet").write_bytes(b"PAR1 but not really")
    if damage == "not judged":
        (directory / "verdicts.json").unlink()
    if damage == "damaged config":
        (directory / "config.json").write_text("{")
    if damage == "unknown claim":
        (directory / "config.json").write_text('{"config": {"claim": "nobody1999/fig1"}}')
    if damage == "other rows":
        rows.write(directory / "rows.parquet", rows.table(run="r", condition="c", unit="u", metric="m", value=1.0))
    assert main(["report", str(directory), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert ("nobody1999" if damage == "unknown claim" else str(directory)) in said
    assert out.read_text() == "earlier"
    assert [file.name for file in out.parent.iterdir()] == ["report.html"]


def test_the_command_says_where_the_page_is(tmp_path, capsys):
    toy_run(tmp_path)
    assert main(["report", str(tmp_path)]) == 0
    assert str(tmp_path / "report.html") in capsys.readouterr().out
    assert HOSTILE[0] not in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.usefixtures("drawn")
def test_the_page_of_published_results_does_not_stand_among_them(tmp_path, monkeypatch):
    results = tmp_path / "results"
    publish(load_claims()["wen2024/fig3b"], plain_toy_run(tmp_path / "run"), results)
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(results)]) == 0
    assert (tmp_path / "report.html").is_file()
    assert not (results / "report.html").exists()


def test_an_output_that_is_a_directory_is_refused(tmp_path):
    with pytest.raises(ValueError, match="needs a file name"):
        write_report([toy_run(tmp_path)], tmp_path)
