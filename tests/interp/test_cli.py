"""The command line in-process: exit status, one line for every bad input, nothing overwritten, torch when needed."""

import contextlib
import json
import signal
import subprocess
import sys

import pytest

import interp.cli
import interp.commands.train
from interp.cli import COMMANDS, main
from interp.core.ledger import read_records
from interp.core.protocol import RESULTS
from interp.core.published import read_published
from interp.core.runs import run_directory
from probes import rows
from probes.base import checkpoint

TINY = [
    "train", "parity", "--n", "7", "--k", "1", "--d-model", "16", "--budget", "512", "--eval-every", "128",
    "--batch-size", "64", "--n-validation", "16", "--n-test", "16", "--lr", "3e-3", "--no-stop-when-perfect",
]  # fmt: skip


def files(directory) -> dict[str, bytes]:
    return {str(p.relative_to(directory)): p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


def refused(capsys, arguments: list[str]) -> str:
    """The one line with which `arguments` are refused."""
    capsys.readouterr()
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("cotlens: ")
    assert error.count("\n") == 1
    assert error.endswith("\n")
    assert "Traceback" not in error
    assert len(error) < 1000
    return error


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory):
    """A run as `cotlens train` leaves it; tests must not change it."""
    out = tmp_path_factory.mktemp("cli") / "run"
    assert main([*TINY, "--out", str(out)]) == 0
    before = files(out)
    yield out
    assert files(out) == before


@pytest.fixture
def run_copy(finished_run, tmp_path):
    out = tmp_path / "run"
    for name, data in files(finished_run).items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_bytes(data)
    return out


def test_help_names_every_command(capsys):
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in COMMANDS)
    assert main([]) == 2


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("cotlens 0.")


@pytest.mark.parametrize("command", [["train"], ["claims"], ["train", "--help"], ["claims", "--help"]])
def test_a_command_alone_explains_itself(command, capsys):
    assert main(command) == 0
    assert f"usage: cotlens {command[0]}" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["train", "parity"], ["claims", "run"], ["claims", "list"], ["demo"]])
def test_every_option_has_help(command, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, "--help"])
    assert stop.value.code == 0
    assert f"usage: cotlens {' '.join(command)}" in capsys.readouterr().out


def test_a_run_leaves_what_the_design_says(finished_run):
    found = set(files(finished_run))
    pictures = {f"figures/{name}.{suffix}" for name in ("training", "attention") for suffix in ("png", "pdf")}
    assert {"config.json", "rows.parquet", "model.safetensors", *pictures} <= found
    assert not [name for name in found if name.endswith(".tmp")]
    table = rows.read(finished_run / "rows.parquet")
    assert {"accuracy", "loss", "entropy_min", "dependency_mass", "attention"} <= set(table["metric"])
    config = json.loads((finished_run / "config.json").read_text())
    assert config["config"]["training"]["budget"] == 512
    assert config["provenance"]["packages"]["torch"]


BAD = {
    "k above n": (["--n", "5", "--k", "6"], ["1 <= k <= n", "k=6", "n=5"]),
    "heads not dividing d_model": (["--n-heads", "3", "--d-model", "16"], ["n_heads=3 does not divide d_model=16"]),
    "n too small for disjoint splits": (["--n", "4", "--k", "1"], ["16 distinct inputs, too few to hold out"]),
    "negative budget": (["--budget", "-5"], ["budget must be at least 1, got -5"]),
    "zero batch": (["--batch-size", "0"], ["batch_size must be at least 1"]),
    "impossible dropout": (["--dropout.attention", "1.5"], ["attention dropout must be in [0, 1), got 1.5"]),
    "unknown option": (["--colour", "red"], ["--colour"]),
    "not a number": (["--n", "many"], ["many"]),
    "impossible secret": (["--k", "2", "--secret", "3", "3"], ["2 distinct positions"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_numbers_are_refused_before_anything_is_written(case, capsys, tmp_path):
    options, expected = BAD[case]
    base = [*TINY, "--out", str(tmp_path / "run")]
    error = refused(capsys, [*base, *options])
    assert all(text in error for text in expected), error
    assert files(tmp_path) == {}


def test_no_claim_starts_if_one_of_them_cannot(capsys, tmp_path):
    (tmp_path / "wen2024-fig3b").mkdir()
    (tmp_path / "wen2024-fig3b" / "thesis.tex").write_text("precious")
    before = files(tmp_path)
    asked = ["claims", "run", "wen2024/fig2", "wen2024/fig3b", "--preset", "smoke", "--out", str(tmp_path)]
    assert "wen2024-fig3b is not empty" in refused(capsys, asked)
    assert files(tmp_path) == before


def test_a_missing_out_is_named(capsys):
    assert "--out" in refused(capsys, TINY)


def test_unknown_names_list_the_known(capsys, tmp_path):
    out = ["--out", str(tmp_path / "run")]
    assert "the commands are demo, train" in refused(capsys, ["trian"])
    assert "'parity'" in refused(capsys, ["train", "partiy", *out])
    assert "near it: wen2024/fig9" in refused(capsys, ["claims", "run", "wen2024/fig99", *out])
    assert "smoke" in refused(capsys, ["claims", "run", "wen2024/fig2", "--preset", "huge", *out])
    assert "use list, show, plan, run, judge, declare, severity" in refused(capsys, ["claims", "walk"])
    assert "at least one claim" in refused(capsys, ["claims", "run", *out])
    assert "--workers must be at least 1, got 0" in refused(
        capsys, ["claims", "run", "wen2024/fig2", "--workers", "0", *out]
    )
    assert "--seeds must be at least 2, got -1" in refused(
        capsys, ["claims", "run", "wen2024/fig2", "--preset", "smoke", "--seeds", "-1", *out]
    )
    assert files(tmp_path) == {}


def test_an_existing_run_without_resume_is_left_alone(finished_run, capsys):
    assert "is not empty" in refused(capsys, [*TINY, "--out", str(finished_run)])


def test_any_other_directory_is_left_alone(tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("years of work")
    before = files(tmp_path)
    assert "is not empty" in refused(capsys, [*TINY, "--out", str(tmp_path)])
    assert "holds 'thesis.tex' and no config.json" in refused(capsys, [*TINY, "--out", str(tmp_path), "--resume"])
    assert files(tmp_path) == before


def test_a_file_as_directory_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("x")
    assert "is a file" in refused(capsys, [*TINY, "--out", str(tmp_path / "file")])
    assert (tmp_path / "file").read_text() == "x"


def test_resuming_with_another_configuration_is_refused(finished_run, capsys):
    error = refused(capsys, [*TINY, "--out", str(finished_run), "--resume", "--seed", "9"])
    assert "holds another run" in error


def test_resuming_a_finished_run_changes_nothing(finished_run, capsys):
    assert main([*TINY, "--out", str(finished_run), "--resume"]) == 0
    assert "test accuracy" in capsys.readouterr().out


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_a_truncated_checkpoint_is_refused(share, run_copy, capsys):
    path = run_copy / "checkpoint.safetensors"
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    before = files(run_copy)
    error = refused(capsys, [*TINY, "--out", str(run_copy), "--resume"])
    assert str(path) in error
    assert "damaged" in error
    assert files(run_copy) == before


def test_a_checkpoint_of_another_configuration_is_refused(run_copy, capsys):
    path = run_copy / "checkpoint.safetensors"
    tensors, state = checkpoint.load(path)
    state["identity"]["lr"] = 0.5
    checkpoint.save(path, tensors, state)
    before = files(run_copy)
    error = refused(capsys, [*TINY, "--out", str(run_copy), "--resume"])
    assert "holds another run (lr: 0.5 there, 0.003 here)" in error
    assert files(run_copy) == before


def test_a_damaged_config_is_refused(run_copy, capsys):
    (run_copy / "config.json").write_text('{"config": ')
    before = files(run_copy)
    assert "config.json is damaged" in refused(capsys, [*TINY, "--out", str(run_copy), "--resume"])
    assert files(run_copy) == before


HOLD_THE_LOCK = """
import pathlib, sys
from interp.core.runs import read_config, run_directory
path = pathlib.Path(sys.argv[1])
with run_directory(path, read_config(path), resume=True):
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_in_the_same_directory_is_refused(run_copy, capsys):
    program = HOLD_THE_LOCK
    before = files(run_copy)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(run_copy)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        error = refused(capsys, [*TINY, "--out", str(run_copy), "--resume"])
        assert "another process is working in" in error
        other.communicate("")
    assert files(run_copy) == before
    with run_directory(run_copy, json.loads((run_copy / "config.json").read_text())["config"], resume=True):
        pass  # free again


def test_a_diverging_run_is_one_line(tmp_path, capsys):
    assert "training diverged; lower lr" in refused(capsys, [*TINY, "--lr", "1e6", "--out", str(tmp_path / "run")])


def test_an_interrupt_is_130_and_resumable(tmp_path, capsys, monkeypatch):
    original = interp.commands.train.train_in

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(interp.commands.train, "train_in", interrupted)
    out = str(tmp_path / "run")
    assert main([*TINY, "--out", out]) == 130
    assert capsys.readouterr().err == "cotlens: interrupted; the same command with --resume goes on\n"
    monkeypatch.setattr(interp.commands.train, "train_in", original)
    assert main([*TINY, "--out", out, "--resume"]) == 0


def test_claims_list_prints_and_writes_json(tmp_path, capsys):
    assert main(["claims", "list", "--json", str(tmp_path / "claims.json")]) == 0
    text = capsys.readouterr().out
    listed = {claim["id"]: claim for claim in json.loads((tmp_path / "claims.json").read_text())}
    assert {"wen2024/fig2", "wen2024/fig3b"} <= set(listed)
    assert all(name in text and claim["sentence"] in text for name, claim in listed.items())
    short = {name for name, claim in listed.items() if claim["falls_short"]}
    marked = {line.split()[0] for line in text.splitlines() if "reproduced*, " in line}
    assert short == marked
    assert "wen2024/fig2" in short
    assert "* less than the sentence says" in text


def test_every_list_marks_a_conclusion_that_says_less_than_its_sentence(tmp_path, capsys, monkeypatch):
    """`judge` and the demo as `list` does: a star, and once what it means."""
    short, whole = "wen2024/fig9", "wen2024/fig3a"
    meaning = "* less than the sentence says; cotlens claims show ID tells what is missing"
    assert main(["claims", "judge", short, whole]) == 0
    judged = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "reproduced*, " in judged[short]
    assert "*" not in judged[whole]
    assert judged["*"] == meaning
    assert main(["claims", "judge", whole]) == 0
    assert "*" not in capsys.readouterr().out
    monkeypatch.setattr(
        "interp.core.sweep.run_claim", lambda claim, *_, **__: read_published(claim.id, RESULTS).record
    )
    monkeypatch.setattr("interp.report.write_report", lambda *_: None)
    assert main(["demo", "--out", str(tmp_path)]) == 0
    *_, last, published, told, _ = capsys.readouterr().out.splitlines()
    assert last.startswith("wen2024/fig6 ")
    assert last.endswith("reproduced*")
    assert "wen2024/fig3b, 6 seeds: undecided; wen2024/fig2, 6 seeds: reproduced*; " in published
    assert told == meaning


@pytest.mark.usefixtures("drawn")
def test_claims_run_record_list_show_and_judge(tmp_path, capsys):
    out, results = tmp_path / "claims", ["--results", str(tmp_path / "results")]
    command = ["claims", "run", "wen2024/fig3b", "--preset", "smoke", "--workers", "1", "--out", str(out)]
    assert main([*command, "--record", results[1]]) == 0
    assert "wen2024/fig3b: " in capsys.readouterr().out
    (record,) = read_records(out / "verdicts.json")
    before = files(out)
    assert "is not empty" in refused(capsys, command)
    assert files(out) == before
    assert main(["claims", "list", *results]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("wen2024/fig3b ")]
    assert f"{record.judgement.conclusion}, exploratory" in line
    assert main(["claims", "show", "wen2024/fig3b", *results]) == 0
    page = " ".join(capsys.readouterr().out.split())
    assert record.judgement.conclusion in page
    for verdict in record.judgement.verdicts:  # as a list, not as a table of seven narrow columns
        assert f"supported if {verdict.claimed}; n: {verdict.n} {verdict.unit}" in page
    assert main(["claims", "show", "wen2024/fig2", *results]) == 0
    assert "not run" in capsys.readouterr().out
    assert main(["claims", "judge", "all", *results]) == 0
    assert "1 claim judged" in capsys.readouterr().out


def test_results_that_are_not_there_or_damaged_are_one_line(tmp_path, capsys):
    results = ["--results", str(tmp_path)]
    assert "holds no published claim" in refused(capsys, ["claims", "judge", "all", *results])
    assert "holds nothing of wen2024/fig2" in refused(capsys, ["claims", "judge", "wen2024/fig2", *results])
    (tmp_path / "wen2024" / "fig2").mkdir(parents=True)
    (tmp_path / "wen2024" / "fig2" / "judgement.json").write_text('[{"a": 1}]')
    assert "fig2 is damaged" in refused(capsys, ["claims", "judge", "wen2024/fig2", *results])


@pytest.mark.parametrize(
    "arguments", [["--help"], ["claims", "list"], ["--version"], ["claims", "--help"], ["nothing"]]
)
def test_torch_is_not_imported_for_help_and_lists(arguments):
    program = (
        "import sys\nfrom interp.cli import main\nstatus = main(sys.argv[1:])\n"
        "heavy = {'torch', 'transformers', 'transformer_lens', 'datasets', 'matplotlib'} & set(sys.modules)\n"
        "print('heavy', sorted(heavy), 'status', status)"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.endswith(f"heavy [] status {2 if arguments == ['nothing'] else 0}\n")


def test_files_that_no_run_of_claims_made_are_not_replaced(capsys, tmp_path):
    asked = ["claims", "run", "wen2024/fig2", "--preset", "smoke", "--out", str(tmp_path)]
    (tmp_path / "report.html").write_text("my own page")
    assert "no run of claims made" in refused(capsys, asked)
    (tmp_path / "verdicts.json").write_text("{}")
    assert "is not a list of judged claims" in refused(capsys, asked)
    assert files(tmp_path) == {"report.html": b"my own page", "verdicts.json": b"{}"}


def test_seeds_do_not_apply_to_claims_about_problems(capsys, tmp_path):
    asked = ["claims", "run", "wen2024/fig6", "--preset", "smoke", "--seeds", "3", "--out", str(tmp_path / "r")]
    assert "replicate over problems" in refused(capsys, asked)
    assert files(tmp_path) == {}


def test_an_unknown_option_is_said_once(capsys):
    assert refused(capsys, ["claims", "run", "--offlin"]).count("Unrecognized options") == 1


@pytest.mark.parametrize("broken", [RuntimeError("a pool that had only half begun"), AssertionError("a process")])
@pytest.mark.parametrize(("command", "remedy"), [("doctor", ""), ("demo", "; the same command goes on")])
def test_what_an_interrupt_breaks_on_its_way_is_an_interrupt(broken, monkeypatch, capsys, command, remedy):
    def interrupted(_):
        try:
            raise KeyboardInterrupt
        finally:
            raise broken

    monkeypatch.setattr(f"interp.commands.{command}.main", interrupted)
    assert main([command]) == 130
    assert capsys.readouterr().err == f"cotlens: interrupted{remedy}\n"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        ("run wen2024/fig2", "; the same command with --resume goes on"),
        ("plan wen2024/fig2", "; the same command begins again: without --record nothing is kept"),
        ("plan wen2024/fig2 --record results", "; the same command with --resume goes on"),
        ("plan wen2024/fig2 --record=results", "; the same command with --resume goes on"),
        ("severity", ""),
    ],
)
def test_resume_is_offered_where_something_is_kept(monkeypatch, capsys, words, remedy):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr("interp.commands.claims.main", interrupted)
    assert main(["claims", *words.split()]) == 130
    assert capsys.readouterr().err == f"cotlens: interrupted{remedy}\n"


def test_a_second_interrupt_leaves_the_first_to_its_cleaning_up(monkeypatch):
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        interp.cli._heed_one_interrupt()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        monkeypatch.setattr("interp.cli.PATIENCE", 0.0)
        with pytest.raises(KeyboardInterrupt):  # for whoever waits in vain
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_that_compiled_code_turns_into_an_error_of_its_own_is_an_interrupt(monkeypatch, capsys):
    def drawing(_):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        raise ValueError("figures/training.png: incompatible function arguments")  # nothing tells where it is from

    monkeypatch.setattr("interp.commands.doctor.main", drawing)
    monkeypatch.setattr("sys.argv", ["cotlens", "doctor"])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        assert main() == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "cotlens: interrupted\n"


def test_interrupts_that_are_ignored_stay_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        interp.cli._heed_one_interrupt()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
