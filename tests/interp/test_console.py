"""Progress: plain lines where nobody watches, a bar on a terminal."""

import io
import re

import pytest
from rich.console import Console

import interp.console
from interp.console import progress, span


def test_plain_lines_are_rare_and_the_last_one_is_shown(capsys):
    with progress("training", 1000, "samples", Console(file=io.StringIO())) as update:
        for done in range(0, 1001, 10):
            update(done, f"loss {done}")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "training: 0 of 1,000 samples, loss 0"
    assert lines[-1] == "training: 1,000 of 1,000 samples, loss 1000"
    assert len(lines) == 2


def test_the_time_left_is_an_estimate_from_the_pace(capsys, monkeypatch):
    now = iter([0.0, 10.0, 12.0, 20.0])
    monkeypatch.setattr(interp.console.time, "monotonic", lambda: next(now))
    with progress("t", 100, "samples", Console(file=io.StringIO())) as update:
        update(25, "a")
        update(30, "not shown: two seconds later")
        update(50, "b")
    assert capsys.readouterr().out.splitlines() == [
        "t: 25 of 100 samples, a, at most 30 seconds left",
        "t: 50 of 100 samples, b, at most 20 seconds left",
    ]


def test_what_may_end_the_work_before_its_budget_is_told_once(capsys, monkeypatch):
    now = iter([0.0, 10.0, 20.0])
    monkeypatch.setattr(interp.console.time, "monotonic", lambda: next(now))
    until = "the budget; stops when perfect"
    with progress("t", 100, "samples", Console(file=io.StringIO()), until=until) as update:
        update(25, "a")
        update(50, "b")
    assert capsys.readouterr().out.splitlines() == [
        "t: 25 of 100 samples, a, at most 30 seconds until the budget; stops when perfect",
        "t: 50 of 100 samples, b, at most 20 seconds until the budget",
    ]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(0, "0 seconds"), (119, "119 seconds"), (120, "2.0 minutes"), (7200, "2.0 hours"), (200_000, "2.3 days")],
)
def test_a_time_is_told_in_the_unit_that_one_would_say_it_in(seconds, told):
    assert span(seconds) == told


def test_short_work_is_not_worth_a_line_to_who_is_patient(capsys, monkeypatch):
    now = iter([0.0, 1.0, 4.0, 0.0, 1.0, 6.0, 7.0])
    monkeypatch.setattr(interp.console.time, "monotonic", lambda: next(now))
    for n in (2, 3):
        with progress("t", n, "pairs", Console(file=io.StringIO()), patient=True) as update:
            for done in range(n):
                update(done + 1, "a")
    said = capsys.readouterr().out.splitlines()
    assert said == ["t: 2 of 3 pairs, a, at most 3 seconds left", "t: 3 of 3 pairs, a"]


def test_a_terminal_gets_a_bar(capsys):
    screen = io.StringIO()
    with progress("training", 1000, "samples", Console(file=screen, force_terminal=True, width=100)) as update:
        update(500, "loss 0.25")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    assert "training" in text
    assert "500/1000" in text
    assert "loss 0.25" in text
    assert capsys.readouterr().out == ""


def test_text_with_brackets_is_shown_as_it_stands_on_a_terminal():
    screen = Console(file=io.StringIO(), force_terminal=True, width=120)
    with progress("measuring [/m]", total=2, unit="problems", console=screen) as update:
        update(1, "problem [/red] [bold]")
    assert "problem [/red] [bold]" in screen.file.getvalue()
