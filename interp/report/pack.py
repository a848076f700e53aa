"""How do numbers and text from data get into the page, small and harmless?

Numbers are embedded as base64 columns of small integers, read as typed arrays; text only as JSON in which no
character can end the script element, or through templates that escape it (`templates.py`).
"""

import base64
import json
import math
import re
from typing import Any

import numpy as np

from interp.core import verdict

STEP = 1e-4
"""Values are rounded to this before they are embedded."""
_MISSING = 65535
# Characters that reorder or hide the text around them: written out, so that the reader sees them.
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def packed(values: np.ndarray) -> dict[str, Any]:
    """A column, flattened: {dtype, step, offset, data}; value = offset + step * integer, missing is NaN.

    Two bytes for each value where the range allows steps of 0.0001, otherwise float32 with its 7 digits.
    """
    flat = np.asarray(values, dtype=np.float64).ravel()
    known = flat[~np.isnan(flat)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    offset = math.floor(low / STEP) * STEP
    if (high - offset) / STEP > _MISSING - 1:
        return {"dtype": "f4", "step": 1, "offset": 0, "data": _base64(flat.astype("<f4"))}
    numbers = np.where(np.isnan(flat), _MISSING, np.round((np.nan_to_num(flat) - offset) / STEP))
    return {"dtype": "u2", "step": STEP, "offset": round(offset, 4), "data": _base64(numbers.astype("<u2"))}


def packed_bytes(values: np.ndarray, step: float) -> dict[str, Any]:
    """A column of values in [0, 254 * step], one byte each: for colours, where the eye sees no more."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    numbers = np.where(np.isnan(flat), 255, np.clip(np.round(np.nan_to_num(flat) / step), 0, 254))
    return {"dtype": "u1", "step": step, "offset": 0, "data": _base64(numbers.astype("u1"))}


def script_json(value: Any) -> str:
    """Strict JSON that can stand in a script element: no <, >, & and no line separators."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def visible(text: str) -> str:
    """`text` with characters that reorder or hide text written as [U+202E]."""
    return _INVISIBLE.sub(lambda found: f"[U+{ord(found.group()):04X}]", text)


def number(value: float) -> str:
    """Three significant digits, with a minus sign that is as wide as a plus."""
    return verdict.number(value).replace("-", "−")


def _base64(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode("ascii")
