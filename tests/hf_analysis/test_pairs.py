"""Two models are compared only if they read text as the same tokens."""

from dataclasses import replace

import pytest
import torch

from hf_analysis.models import load_model
from hf_analysis.pairs import require_same_tokenizer, untrained_twin


@pytest.fixture(scope="module")
def builtin():
    return load_model("builtin")


def test_the_untrained_twin_has_other_weights_and_the_same_tokens(builtin):
    twin, again = untrained_twin(builtin, seed=0), untrained_twin(builtin, seed=0)
    require_same_tokenizer(builtin, twin)
    for ours, theirs, repeated in zip(builtin.model.parameters(), twin.model.parameters(), again.model.parameters()):
        assert ours.shape == theirs.shape
        assert torch.equal(theirs, repeated)
    assert not torch.equal(builtin.model.model.layers[0].self_attn.q_proj.weight,
                           twin.model.model.layers[0].self_attn.q_proj.weight)  # fmt: skip
    assert twin.name == "untrained builtin"


def test_another_vocabulary_is_refused(builtin):
    from copy import deepcopy

    other = replace(builtin, name="other", tokenizer=deepcopy(builtin.tokenizer))
    other.tokenizer.add_tokens(["<<sold>>"])
    with pytest.raises(ValueError, match=r"builtin and other do not share a tokenizer \(1 vocabulary"):
        require_same_tokenizer(builtin, other)
