"""Kinds of heads against TransformerLens' detectors, and copy scores against closed forms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformer_lens import head_detector

from probes.attention.chunked import score_blocks
from probes.attention.taxonomy import KINDS, attention_mass, copy_score, mean_mass, uniform_mass

DETECTORS = {
    "previous_token": head_detector.get_previous_token_head_detection_pattern,
    "duplicate_token": head_detector.get_duplicate_token_head_detection_pattern,
    "induction": head_detector.get_induction_head_detection_pattern,
}


def tokens(n=30, vocabulary=6, seed=0):
    return torch.randint(vocabulary, (n,), generator=torch.Generator().manual_seed(seed))


def patterns(n_heads=3, n=30, seed=1):
    scores = torch.randn(n_heads, n, n, generator=torch.Generator().manual_seed(seed)) * 3
    return scores.masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf).softmax(-1)


def block(pattern):
    """A given pattern as the one block of scores whose softmax it is."""
    return [(slice(0, pattern.shape[-2]), pattern.log()[None])]


@pytest.mark.parametrize("kind", DETECTORS)
@pytest.mark.parametrize("vocabulary", [1, 3, 40])
def test_the_keys_of_a_kind_are_those_of_transformer_lens(kind, vocabulary):
    ids = tokens(vocabulary=vocabulary)
    assert torch.equal(KINDS[kind](ids).float(), DETECTORS[kind](ids[None]))


@pytest.mark.parametrize("kind", DETECTORS)
def test_the_score_is_that_of_transformer_lens_over_the_queries_that_have_a_key(kind):
    ids, pattern = tokens(), patterns()
    keys = KINDS[kind](ids)
    found = mean_mass(attention_mass(block(pattern), keys[None])[0], keys)
    share = keys.any(-1).float().mean()
    assert 0.3 < share < 1
    options = {"exclude_bos": False, "exclude_current_token": False, "error_measure": "mul"}
    for head in range(3):
        theirs = head_detector.compute_head_attention_similarity_score(
            pattern[head], detection_pattern=DETECTORS[kind](ids[None]), **options
        )
        assert float(found[head] * share) == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_a_head_made_of_a_kind_scores_one_and_a_uniform_head_chance(kind):
    ids = tokens()
    keys = KINDS[kind](ids)
    own = keys | (torch.eye(30, dtype=torch.bool) & ~keys.any(-1, keepdim=True))
    uniform = torch.ones(30, 30).tril()
    made = torch.stack([own.float(), uniform])
    made = made / made.sum(-1, keepdim=True)
    found = mean_mass(attention_mass(block(made), keys[None])[0], keys)
    assert float(found[0]) == pytest.approx(1, abs=1e-6)
    assert float(found[1]) == pytest.approx(uniform_mass(keys), abs=1e-6)
    assert uniform_mass(keys) < 0.6


def test_blocks_of_any_size_give_the_mass_of_the_whole_pattern():
    generator = torch.Generator().manual_seed(3)
    query, key = torch.randn(1, 4, 30, 8, generator=generator), torch.randn(1, 2, 30, 8, generator=generator)
    scores = query @ key.repeat_interleave(2, 1).transpose(-1, -2) * 0.5
    pattern = scores.masked_fill(torch.ones(30, 30).triu(1).bool(), -torch.inf).softmax(-1)[0]
    keys = torch.stack([find(tokens()) for find in KINDS.values()])
    expected = torch.stack([(pattern * mask).sum(-1) for mask in keys])
    for size in (1, 4 * 30 * 4 * 7, 1 << 20):
        found = attention_mass(score_blocks(query, key, 0.5, block_bytes=size), keys)
        torch.testing.assert_close(found, expected)
    everywhere = attention_mass(score_blocks(query, key, 0.5), keys[3:, 5:6])
    torch.testing.assert_close(everywhere[0], pattern[..., 0])


@given(st.integers(2, 6), st.integers(0, 1000))
def test_copy_score_is_zero_for_any_preference_for_places(n, seed):
    """A head that likes some queries and some numbers, but not their pairing, does not copy."""
    generator = torch.Generator().manual_seed(seed)
    additive = torch.rand(n, 1, generator=generator) + torch.rand(1, n, generator=generator)
    assert float(copy_score(additive)) == pytest.approx(0, abs=1e-6)
    mass = torch.rand(n, n, generator=generator)
    brute = sum(float(mass[a, a] - mass[a, b]) for a in range(n) for b in range(n) if a != b) / (n * (n - 1))
    assert float(copy_score(mass)) == pytest.approx(brute, abs=1e-5)


def test_copy_score_of_a_perfect_head_is_one():
    assert float(copy_score(torch.eye(4))) == 1
    assert float(copy_score(1 - torch.eye(4))) == -1
    with pytest.raises(ValueError, match="n >= 2 numbers"):
        copy_score(torch.ones(1, 1))
