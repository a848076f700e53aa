"""Do numbers survive packing, and can no text leave its place?"""

import base64
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from interp.report.pack import STEP, number, packed, packed_bytes, script_json, visible
from tests.interp.report.synthetic import HOSTILE

DTYPES = {"u1": ("u1", 255), "u2": ("<u2", 65535), "f4": ("<f4", None)}


def unpacked(column: dict) -> np.ndarray:
    """What the page's JavaScript does."""
    dtype, missing = DTYPES[column["dtype"]]
    raw = np.frombuffer(base64.b64decode(column["data"]), dtype=dtype)
    values = column["offset"] + column["step"] * raw.astype(np.float64)
    return values if missing is None else np.where(raw == missing, np.nan, values)


@given(st.lists(st.floats(-3, 3.5) | st.just(float("nan")), max_size=50))
def test_small_values_come_back_to_four_digits(values):
    column = packed(np.array(values))
    assert column["dtype"] == "u2"
    np.testing.assert_allclose(unpacked(column), values, atol=STEP / 2 + 1e-9, equal_nan=True)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50))
def test_large_values_come_back_to_float32(values):
    column = packed(np.array([*values, 1e6, -1e6]))
    assert column["dtype"] == "f4"
    np.testing.assert_allclose(unpacked(column)[:-2], values, rtol=1e-6, atol=1e-30)


def test_bytes_come_back_to_a_step():
    values = np.array([0.0, 0.5, 1.0, np.nan, 2.0])
    np.testing.assert_allclose(unpacked(packed_bytes(values, 0.004)), [0, 0.5, 1, np.nan, 254 * 0.004], atol=0.002)


@pytest.mark.parametrize("text", HOSTILE)
def test_json_cannot_leave_its_script(text):
    embedded = script_json({text: [text]})
    assert not set(embedded) & set("<>&\u2028\u2029")
    assert json.loads(embedded) == {text: [text]}


def test_json_is_strict():
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))


def test_characters_that_reorder_text_are_written_out():
    assert visible("a\u202eb\tc\n") == "a[U+202E]b\tc\n"


def test_numbers_are_short():
    assert [number(x) for x in (0.12345, -2.0, float("inf"), float("-inf"))] == ["0.123", "−2", "∞", "−∞"]
