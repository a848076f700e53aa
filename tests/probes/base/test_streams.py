"""Streams: the same seed and purpose give the same numbers anywhere, any other pair gives others."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from probes.base.streams import numpy_stream, torch_stream

NAMED = [
    (0, "training data"),
    (1, "training data"),
    (0, "initial weights"),
    (0, "training data "),
    (10, "1 x"),
    (1, "01 x"),
]

GOLDEN = ((516, 475, 940, 853, 475, 798), (882, 260, 603, 883, 609, 632))


def drawn(seed: int, purpose: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ours = torch.randint(0, 1000, (6,), generator=torch_stream(seed, purpose)).tolist()
    return tuple(ours), tuple(numpy_stream(seed, purpose).integers(0, 1000, 6).tolist())


def test_numbers_are_those_of_the_day_the_rule_was_made():
    assert drawn(0, "training data") == GOLDEN


def test_every_seed_and_purpose_has_a_stream_of_its_own():
    for kind in (0, 1):
        assert len({drawn(*pair)[kind] for pair in NAMED}) == len(NAMED)


def test_the_order_of_drawing_and_the_process_do_not_matter():
    first = {pair: drawn(*pair) for pair in NAMED}
    assert {pair: drawn(*pair) for pair in reversed(NAMED)} == first
    code = "from tests.probes.base.test_streams import drawn; print(drawn(1, 'training data'))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=600)
    assert found.stdout.strip() == str(first[1, "training data"])


@given(st.integers(0, 2**70), st.text(min_size=1).filter(str.strip), st.text(min_size=1).filter(str.strip))
def test_any_words_are_a_purpose(seed, one, other):
    same = torch_stream(seed, one).initial_seed() == torch_stream(seed, other).initial_seed()
    assert same == (one == other)


def test_streams_of_neighbouring_seeds_are_uncorrelated():
    values = np.stack([numpy_stream(seed, "noise").normal(size=4000) for seed in range(20)])
    off_diagonal = np.corrcoef(values)[~np.eye(20, dtype=bool)]
    assert np.abs(off_diagonal).max() < 4.5 / np.sqrt(4000)


@pytest.mark.parametrize("seed", [-1, 0.5, True, "0", None])
def test_what_is_no_seed_is_refused(seed):
    with pytest.raises(Exception, match="seed"):
        torch_stream(seed, "noise")


@pytest.mark.parametrize("purpose", ["", " \n"])
def test_a_purpose_is_asked_for(purpose):
    with pytest.raises(ValueError, match="purpose in words"):
        numpy_stream(0, purpose)
