"""Are rows in parts the same rows, whole or not at all, and is damage seen?"""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from interp.core.effects import comparisons, effect_of, effects, head_effects
from probes import parts
from probes.parts import INDEX, Frame, Table, head_means, plain, read_parts, write_parts
from probes.rows import COLUMNS, concat, table

METRICS, SCOPES, CONDITIONS = ("min", "sink_mass"), ("all", "answer"), ("cot", "no_cot")


def problem(number: int, draws: np.random.Generator) -> pd.DataFrame:
    """All rows of one problem, for two layers of three heads."""
    layer, head = np.indices((2, 3)).reshape(2, -1)
    return concat(
        table(
            run="model", condition=condition, unit=f"p{number}", metric=metric, scope=scope, layer=layer, head=head,
            value=draws.uniform(0.2, 0.6, 6) - 0.1 * (condition == "cot"), n_tokens=number + 5,
        )
        for metric in METRICS
        for scope in SCOPES
        for condition in CONDITIONS
    )  # fmt: skip


@pytest.fixture(scope="module")
def problems() -> list[pd.DataFrame]:
    draws = np.random.default_rng(0)
    return [problem(number, draws) for number in range(8)]


@pytest.fixture
def stored(problems: list[pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> parts.Parts:
    monkeypatch.setattr(parts, "GROUP", 40)  # several groups of rows in each part
    return write_parts(tmp_path / "rows", iter(problems))


def test_parts_hold_the_rows_that_were_written_in_their_order(
    problems: list[pd.DataFrame], stored: parts.Parts
) -> None:
    whole, again = concat(problems), read_parts(stored.directory)
    assert again == stored
    assert isinstance(again, Table)
    assert sum(len(again.piece(place)) for place in again.places) == len(whole)
    assert list(again.units) == [f"p{number}" for number in range(8)]
    frame = Frame(whole)
    assert (again.places, again.units, again.runs) == (frame.places, frame.units, frame.runs)
    for place in again.places:
        pd.testing.assert_frame_equal(plain(again.piece(place)), frame.piece(place).reset_index(drop=True))


def test_other_programs_read_the_parts_as_one_table(problems: list[pd.DataFrame], stored: parts.Parts) -> None:
    found = plain(pd.read_parquet(stored.directory))
    order = ["unit", "metric", "scope", "condition", "layer", "head"]
    expected = concat(problems).sort_values(order, ignore_index=True)
    pd.testing.assert_frame_equal(found.sort_values(order, ignore_index=True)[list(COLUMNS)], expected)


def test_effects_of_parts_are_those_of_the_frame(problems: list[pd.DataFrame], stored: parts.Parts) -> None:
    whole = concat(problems)
    found = [effect_of(pair) for pairs in comparisons(stored) for pair in pairs]
    assert found == effects(whole)
    assert len(found) == len(METRICS) * len(SCOPES)
    for of_parts, of_frame in zip(comparisons(stored), comparisons(Frame(whole))):
        pd.testing.assert_frame_equal(head_effects(of_parts), head_effects(of_frame))


def test_means_over_heads(problems: list[pd.DataFrame], stored: parts.Parts) -> None:
    found = head_means(stored)
    place = ["unit", "metric", "scope", "condition"]
    expected = concat(problems).groupby(place)["value"].mean()
    assert len(found) == len(expected)
    assert found.set_index(place)["value"].reindex(expected.index).to_numpy() == pytest.approx(expected.to_numpy())
    assert set(zip(found["layer"], found["head"])) == {(0, 0)}


def test_a_writing_that_ends_early_leaves_nothing_that_looks_whole(
    problems: list[pd.DataFrame], stored: parts.Parts
) -> None:
    def killed():
        yield from problems[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_parts(stored.directory, killed())
    with pytest.raises(ValueError, match=r"rows has no _parts.json: it is not complete; --resume finishes the run"):
        read_parts(stored.directory)
    assert not list(stored.directory.glob(".*"))
    assert write_parts(stored.directory, iter(problems)) == stored


def test_a_flipped_bit_anywhere_is_seen(stored: parts.Parts) -> None:
    file = stored.directory / "min,all.parquet"
    data = file.read_bytes()
    for position in range(0, len(data), len(data) // 50):
        file.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        with pytest.raises(ValueError, match=r"min,all.parquet is damaged, or of another run: its checksum is not"):
            stored.piece(("min", "all"))
    file.write_bytes(data)
    assert len(stored.piece(("min", "all"))) == 96


def test_parts_of_two_runs_are_not_mixed(problems: list[pd.DataFrame], stored: parts.Parts, tmp_path: Path) -> None:
    other = write_parts(tmp_path / "other", iter(problems[:5]))
    name = "min,all.parquet"
    (stored.directory / name).write_bytes((other.directory / name).read_bytes())
    with pytest.raises(ValueError, match=r"min,all.parquet is damaged, or of another run"):
        stored.piece(("min", "all"))
    (stored.directory / INDEX).write_text("{}")
    with pytest.raises(ValueError, match=r"_parts.json is damaged"):
        read_parts(stored.directory)
