"""The measurement table: what it refuses, and that it survives the disk."""

import math
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from probes import rows
from probes.base.seal import MARK

COMMON = {"run": "r", "condition": "cot", "unit": "7", "metric": "min"}


def some_rows() -> pd.DataFrame:
    return rows.table(**COMMON, value=[0.25, 0.5], layer=[0, 1], setting=rows.setting(n=30, k=3), samples=512)


def test_scalars_are_repeated_and_defaults_filled():
    found = some_rows()
    assert list(found.columns) == list(rows.COLUMNS)
    assert found["value"].tolist() == [0.25, 0.5]
    assert found["unit"].tolist() == ["7", "7"]
    assert found["layer"].tolist() == [0, 1]
    assert found["head"].tolist() == [-1, -1]
    assert found["scope"].tolist() == ["all", "all"]


@pytest.mark.parametrize("value", [0.5, [0.5], np.array([0.5], dtype=np.float32), (0.5,)])
def test_one_row_from_any_kind_of_value(value):
    found = rows.table(**COMMON, value=value)
    assert found["value"].tolist() == [0.5]
    assert found["value"].dtype == np.float64


def test_no_rows():
    assert len(rows.table(**COMMON, value=[])) == 0
    assert list(rows.concat([]).columns) == list(rows.COLUMNS)


def test_unknown_column_is_named():
    with pytest.raises(ValueError, match=r"no column \['colour'\]; the columns are \['run'"):
        rows.table(**COMMON, value=1.0, colour="red")


@pytest.mark.parametrize("name", [name for name, (_, default) in rows.COLUMNS.items() if default is None])
def test_missing_column_is_named(name):
    columns = {**COMMON, "value": 1.0}
    del columns[name]
    with pytest.raises(ValueError, match=f"need the columns.*'{name}'"):
        rows.table(**columns)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_refused_with_its_place(bad):
    place = "unit=7, setting=k=3, samples=0, update=0, layer=5, head=1, query=-1, key=-1, metric=min"
    with pytest.raises(ValueError, match=f"1 of 3 values.*{place}"):
        rows.table(**COMMON, value=[0.1, bad, 0.2], layer=[4, 5, 6], head=[0, 1, 2], setting="k=3")


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="length"):
        rows.table(**COMMON, value=[0.1, 0.2], layer=[1, 2, 3])


def test_a_series_gives_its_values_in_their_order_whatever_its_index():
    units, values = pd.Series(["a", "b"], index=[5, 6]), pd.Series([1.0, 2.0], index=[1, 0])
    found = rows.table(**{**COMMON, "unit": units}, value=values, layer=pd.Series([3.0, 4.0], index=[0, 0]))
    assert found[["unit", "layer", "value"]].to_numpy().tolist() == [["a", 3, 1.0], ["b", 4, 2.0]]


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"layer": 1.5}, "'layer' holds integers, got 1.5; convert"),
        ({"head": [0, math.nan]}, "'head' holds integers, got nan"),
        ({"samples": 1e30}, "'samples' holds integers, got 1e[+]30"),
        ({"key": [None, 1]}, "'key' holds integers, got nan"),
        ({"query": "3"}, "'query' holds integers, got '3'"),
        ({"unit": [None, "b"]}, "'unit' lacks 1 of 2 texts"),
        ({"unit": None}, "'unit' lacks 2 of 2 texts"),
        ({"setting": [math.nan, "k=3"]}, "'setting' lacks 1 of 2 texts"),
    ],
)
def test_a_cut_number_and_a_missing_text_are_refused(columns, complaint):
    with pytest.raises(ValueError, match=complaint):
        rows.table(**{**COMMON, "value": [1.0, 2.0], **columns})


def test_a_file_with_numbers_that_are_no_integers_is_refused(tmp_path):
    rows.write_table(tmp_path / "rows.parquet", some_rows().astype({"layer": float}))
    with pytest.raises(ValueError, match="'layer' holds integers, got float64"):
        rows.read(tmp_path / "rows.parquet")


def test_writing_refuses_bad_rows_and_keeps_the_old_file(tmp_path):
    path = tmp_path / "rows.parquet"
    rows.write(path, some_rows())
    before = path.read_bytes()
    bad = some_rows()
    bad.loc[1, "value"] = math.nan
    with pytest.raises(ValueError, match="not finite"):
        rows.write(path, bad)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["rows.parquet"]


def test_round_trip_through_parquet(tmp_path):
    table = rows.concat([some_rows(), rows.table(**COMMON, value=1 / 3, setting="höhe=ü")])
    rows.write(tmp_path / "rows.parquet", table)
    pd.testing.assert_frame_equal(rows.read(tmp_path / "rows.parquet"), table, check_exact=True)


def test_the_same_rows_give_the_same_file(tmp_path):
    for name in ("a", "b"):
        rows.write(tmp_path / name, some_rows())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_truncated_file_is_named_whatever_its_length(tmp_path):
    whole, path = tmp_path / "whole", tmp_path / "cut.parquet"
    rows.write(whole, some_rows())
    data = whole.read_bytes()
    for size in {0, 1, 4, 8, len(data) // 4, len(data) // 2, len(data) - 8, len(data) - 1}:
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"cut\.parquet is not a readable table"):
            rows.read(path)


def test_a_flipped_bit_is_noticed_wherever_it_is(tmp_path):
    """Without any checksum a third would be other numbers; with those of pages, still other facts beside the rows."""
    path, expected = tmp_path / "rows", some_rows()
    expected.attrs = {"passages": ["Tom has 3 apples and buys 4 more. " * 40]}
    rows.write(path, expected)
    data, places = path.read_bytes(), random.Random(0)
    assert rows.n_rows(path) == len(expected)
    for _ in range(1000):
        changed = bytearray(data)
        changed[places.randrange(len(data))] ^= 1 << places.randrange(8)
        path.write_bytes(changed)
        assert rows.n_rows(path) >= 0, "what is damaged is said by who reads it"
        try:
            found = rows.read(path)
        except ValueError as error:
            assert str(path) in str(error)  # noqa: PT017
        else:
            pd.testing.assert_frame_equal(found, expected, check_exact=True)
            assert found.attrs == expected.attrs


def test_any_program_reads_the_file_and_a_file_of_any_program_is_read(tmp_path):
    sealed, plain = tmp_path / "sealed", tmp_path / "plain"
    text = f"the mark itself: {MARK[1:].decode()}" + "0" * 64
    table = rows.concat([some_rows(), rows.table(**{**COMMON, "unit": text}, value=1.0)])
    table.attrs = {"passages": [text]}
    rows.write(sealed, table)
    table.to_parquet(plain, index=False)
    for found in (pd.read_parquet(sealed), pq.read_table(sealed).to_pandas(), rows.read(sealed), rows.read(plain)):
        pd.testing.assert_frame_equal(found, table, check_exact=True)
        assert found.attrs == table.attrs


READ = """
import resource, sys
from pathlib import Path
from probes import rows

pages = int(Path("/proc/self/statm").read_text().split()[0])
limit = pages * resource.getpagesize() + (4 << 20)  # less than the stack of a thread
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
print(len(rows.read(Path(sys.argv[1]))))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells how much memory a process has")
def test_rows_are_read_where_no_thread_can_be_started(tmp_path):
    """pyarrow would wait for its threads for ever."""
    rows.write(tmp_path / "rows", some_rows())
    command = [sys.executable, "-c", READ, str(tmp_path / "rows")]
    assert subprocess.check_output(command, text=True, timeout=600) == "2\n"


def test_other_files_are_named(tmp_path):
    garbage, missing, other = tmp_path / "garbage", tmp_path / "missing", tmp_path / "other"
    garbage.write_text("not parquet at all")
    pd.DataFrame({"a": [1]}).to_parquet(other)
    for path in (garbage, missing, other):
        with pytest.raises(ValueError, match=f"{path.name} is not a readable table"):
            rows.read(path)


def test_a_table_of_an_earlier_version_is_told_apart_in_one_line(tmp_path):
    old = some_rows().rename(columns={"samples": "step"}).drop(columns=["update", "query", "key"])
    old.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(
        ValueError, match=r"lacks the columns \['samples', 'update', 'query', 'key'\].*run it again"
    ) as error:
        rows.read(tmp_path / "rows.parquet")
    assert "\n" not in str(error.value)


def test_the_former_column_step_is_refused_with_its_successors():
    with pytest.raises(ValueError, match=r"no column \['step'\].*`samples`.*or `update`"):
        rows.table(**COMMON, value=1.0, step=3)


def test_a_setting_cannot_hide_a_column():
    table = rows.table(**COMMON, value=1.0, setting="k=3 query=4")
    with pytest.raises(ValueError, match=r"names \['query'\].*columns of their own"):
        rows.with_settings(table)


def test_setting_sorts_its_names():
    assert rows.setting(n=30, k=3) == rows.setting(k=3, n=30) == "k=3 n=30"


words = st.from_regex(r"[a-z][a-z_]{0,6}", fullmatch=True).filter(lambda w: w not in (*rows.COLUMNS, "nan", "inf"))


@given(
    st.dictionaries(
        words, st.integers(-(2**40), 2**40) | st.floats(allow_nan=False, allow_infinity=False), min_size=1
    )
)
def test_numbers_in_a_setting_come_back_as_numbers(settings):
    table = rows.table(**COMMON, value=1.0, setting=rows.setting(**settings))
    found = rows.with_settings(table).iloc[0]
    assert {name: found[name] for name in settings} == settings


def test_words_in_a_setting_stay_words_and_missing_ones_are_empty():
    table = rows.concat(
        [
            rows.table(**COMMON, value=1.0, setting="k=3 layer_kind=C6 pair=1_2"),
            rows.table(**COMMON, value=2.0, setting="k=4"),
        ]
    )
    found = rows.with_settings(table)
    assert found["k"].tolist() == [3, 4]
    assert found.iloc[0][["layer_kind", "pair"]].tolist() == ["C6", "1_2"]
    assert pd.isna(found["layer_kind"].iloc[1])
    assert found["value"].tolist() == [1.0, 2.0]


def test_with_settings_keeps_the_rows_of_a_selection():
    table = rows.concat([some_rows(), some_rows()])
    selected = table[table["layer"] == 1]
    found = rows.with_settings(selected)
    assert found.index.tolist() == selected.index.tolist()
    assert found["k"].tolist() == [3, 3]
