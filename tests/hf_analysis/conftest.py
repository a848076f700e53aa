"""Tiny models with a real byte-level tokenizer, the built-in model, and a few problems."""

import os

import pytest
from transformers import PreTrainedTokenizerFast

from hf_analysis.models.loading import LoadedModel, load_model
from hf_analysis.text.problems import Problem
from tests.hf_analysis.tiny_models import CONFIGS, build, byte_tokenizer

os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(params=sorted(CONFIGS))
def architecture(request) -> str:
    return request.param


@pytest.fixture(scope="session")
def tokenizer() -> PreTrainedTokenizerFast:
    return byte_tokenizer()


@pytest.fixture(scope="session")
def llama(tokenizer) -> LoadedModel:
    return LoadedModel("tiny-llama", build("llama"), tokenizer)


@pytest.fixture(scope="session")
def builtin() -> LoadedModel:
    return load_model("builtin", device="cpu", dtype="float32")


@pytest.fixture(scope="session")
def problems() -> list[Problem]:
    """Problems of different lengths, ours."""
    made = [
        ("Ann has 3 apples. She buys 4 more. How many?", "She has 3+4=<<3+4=7>>7 apples.\n#### 7", "7"),
        ("Two trains?", "One train has 1,000 seats.\nTwo have 2*1000=<<2*1000=2000>>2,000.\n#### 2,000", "2000"),
        ("It was 5 degrees and fell by 15. How cold is it now?", "5-15=<<5-15=-10>>-10\n#### -10", "-10"),
        ("A pen costs $2.50. Cost of one?", "One pen.\nIt costs $2.50.\nSo $2.50.\n#### $2.50", "2.50"),
        ("Half of 9?", "9/2=<<9/2=4.5>>4.5\n#### 4.5", "4.5"),
    ]
    return [Problem(f"p/{i}", q, s, a) for i, (q, s, a) in enumerate(made)]
