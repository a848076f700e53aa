"""Every option of every command with values it does not expect: read, or refused in one line; never a traceback."""

import contextlib
import dataclasses
import shutil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from interp.cli import main, parse
from interp.commands import bench, claims, demo, doctor, entropy, heads, probe, report, trace, train
from tests.fuzz.cases import HOSTILE_TEXT, command_refuses_or_works, refused_in_one_line
from toy_models.task import load_tasks

KINDS = {
    "entropy": entropy.Entropy,
    "claims run": claims.Run,
    "claims plan": claims.Plan,
    "claims list": claims.List,
    "claims show": claims.Show,
    "claims judge": claims.Judge,
    "claims declare": claims.Declare,
    "claims severity": claims.Severity,
    "report": report.Report,
    "bench": bench.Bench,
    "demo": demo.Demo,
    "doctor": doctor.Doctor,
    "heads": heads.Heads,
    "probe": probe.Probe,
    "trace": trace.TraceOptions,
    **{f"train {name}": train._options(name) for name in load_tasks()},
}
LAX = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def option_names(kind: type) -> list[str]:
    """The options of a dataclass, and of the dataclasses in it, as they are written on the command line."""
    names = []
    for field in dataclasses.fields(kind):
        inner = getattr(field.type, "__origin__", field.type)
        names += option_names(inner) if dataclasses.is_dataclass(inner) else [field.name.replace("_", "-")]
    return names


def words_for(kind: type) -> st.SearchStrategy[list[str]]:
    """Options of `kind`, known and unknown, each with something after it or nothing."""
    name = st.one_of(st.sampled_from(option_names(kind)), HOSTILE_TEXT)
    option = st.tuples(name.map(lambda word: f"--{word}"), st.lists(HOSTILE_TEXT, max_size=2))
    return st.lists(option, max_size=3).map(
        lambda parts: [word for name, values in parts for word in (name, *values)]
    )


@pytest.mark.parametrize("program", KINDS)
def test_options_are_read_or_refused_in_one_line(program, cases):
    kind = KINDS[program]

    @settings(max_examples=60, suppress_health_check=LAX)
    @given(words_for(kind))
    def reads(words: list[str]) -> None:
        cases()
        with contextlib.suppress(SystemExit):  # help was asked for
            refused_in_one_line(lambda: parse(kind, words, program))

    reads()


@settings(max_examples=100, suppress_health_check=LAX)
@given(words=st.lists(HOSTILE_TEXT, max_size=4))
def test_a_command_that_nobody_knows_is_refused_in_one_line(words, cases, tmp_path, capsys):
    cases()
    if words and words[0] in ("-h", "--help", "--version"):
        return
    status = main(words)
    assert status == 2
    text = capsys.readouterr().err
    assert not words or len(text.splitlines()) == 1


@settings(max_examples=60, suppress_health_check=LAX)
@given(
    option=st.sampled_from(
        ["--n", "--k", "--d-model", "--n-heads", "--batch-size", "--eval-every", "--lr", "--seed"]
    ),
    value=HOSTILE_TEXT.filter(lambda text: not text.lstrip("+").isdecimal()),
)
def test_a_training_that_is_refused_writes_nothing(option, value, cases, tmp_path):
    cases()
    out = tmp_path / "run"
    sizes = ["--n", "6", "--k", "2", "--d-model", "8", "--budget", "64"]
    command_refuses_or_works(["train", "parity", *sizes, option, value, "--out", str(out)], tmp_path)
    shutil.rmtree(out, ignore_errors=True)
