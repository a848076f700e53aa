"""Hidden sentences against full forward passes with a 4-D mask, for every architecture."""

from itertools import pairwise

import pytest
import torch

from hf_analysis.causal.knockout import Knockout, knocked_out
from hf_analysis.models.logits import kl_divergence, output_head
from hf_analysis.traces import suppression as module
from hf_analysis.traces.measures import Study, find_measure
from hf_analysis.traces.suppression import Hidden, by_unit, control_span, suppressed_kl, without_usual
from hf_analysis.traces.tokens import trace_tokens
from tests.hf_analysis.tiny_models import build, loaded, tokens
from tests.hf_analysis.traces.made import made_tokens, made_trace
from tests.hf_analysis.traces.test_attention import ARCHITECTURES, BOUNDS

SPANS = [Hidden(a, b) for a, b in pairwise(BOUNDS)]


def edges(span, n):
    hidden = torch.zeros(n, n, dtype=torch.bool)
    hidden[span.end :, span.start : span.end] = True
    return hidden


def full_kl(model, ids, spans, heads=None):
    """One whole pass each; the divergence in float64."""
    ids = torch.tensor([list(ids)])
    chosen = None if heads is None else heads[None]
    with torch.no_grad():
        before = model.model(ids).logits.double().log_softmax(-1)
        found = []
        for span in spans:
            with knocked_out(model, Knockout(edges(span, ids.shape[1])[None], chosen)):
                after = model.model(ids).logits.double().log_softmax(-1)
            found.append((before.exp() * (before - after)).sum(-1)[0, :-1])
    return torch.nn.functional.pad(torch.stack(found), (1, 0))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_equal_to_full_forward_passes(name, monkeypatch):
    monkeypatch.setattr(module, "CPU_TOKENS", 120)  # some sentences alone, some together
    monkeypatch.setattr(module, "LOGIT_CELLS", 300 * 7)
    monkeypatch.setattr(module, "KEPT_CELLS", 300 * 80 if name in ("llama", "gemma2") else 0)
    model = loaded(build(ARCHITECTURES[name]))
    ids = tokens(1, 80)[0].tolist()
    heads = torch.zeros(3, 4, dtype=torch.bool)
    heads[0, 1] = heads[2, 3] = True
    for chosen in (None, heads):
        expected = full_kl(model, ids, SPANS, chosen)
        found = suppressed_kl(model, ids, SPANS, chosen).double()
        assert expected.max() > 1e-3, "hiding must matter"
        torch.testing.assert_close(found, expected, atol=2e-4 if name == "qwen2" else 1e-5, rtol=1e-3)
        for row, span in zip(found, SPANS):
            assert not row[: span.end + 1].any()


def test_a_4d_mask_given_to_transformers_itself_agrees(llama):
    ids, span = tokens(1, 60)[0].tolist(), Hidden(20, 31)
    mask = torch.ones(60, 60, dtype=torch.bool).tril() & ~edges(span, 60)
    with torch.no_grad():
        before, after = (
            llama.model(torch.tensor([ids]), **m).logits for m in ({}, {"attention_mask": mask[None, None]})
        )
    expected = kl_divergence(before[0, :-1].double(), after[0, :-1].double().clone())
    found = suppressed_kl(llama, ids, [span])[0, 1:]
    torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=1e-3)


def test_a_sentence_with_one_token_behind_it_changes_nothing_that_is_read(llama):
    ids = tokens(1, 40)[0].tolist()
    found = suppressed_kl(llama, ids, [Hidden(20, 31), Hidden(31, 39)])
    torch.testing.assert_close(found[:1], suppressed_kl(llama, ids, [Hidden(20, 31)]))
    assert found[0].any()
    assert not found[1].any()


def test_a_divergence_loses_no_digits_however_small():
    logits = torch.randn(5, 400, generator=torch.Generator().manual_seed(0)) * 5
    noise = torch.randn(5, 400, generator=torch.Generator().manual_seed(1))
    for size in (1e-4, 1e-2, 1.0, 20.0):
        changed = logits + size * noise
        p, q = (one.double().log_softmax(-1) for one in (logits, changed))
        expected = (p.exp() * (p - q)).sum(-1)
        torch.testing.assert_close(
            kl_divergence(logits, changed.clone()).double(), expected, rtol=2e-2 if size < 1e-3 else 1e-3, atol=0
        )


def test_logits_are_the_models_own_or_refused(llama):
    text = tokens(1, 12)
    for name in ("gemma2", "gpt2", "llama"):
        model = loaded(build(name))
        with torch.no_grad():
            expected = model.model(text).logits
            found = output_head(model)(model.model.base_model(text).last_hidden_state)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    model = loaded(build("llama"))
    forward = model.model.forward
    model.model.forward = lambda *a, **k: type("Out", (), {"logits": forward(*a, **k).logits * 2})()
    with pytest.raises(ValueError, match="does something between its last layer and its logits"):
        output_head(model)


def test_units_and_the_usual_effect():
    text = made_tokens(range(80), BOUNDS)
    kl = torch.full((2, 80), torch.e)
    found = by_unit(kl, [Hidden(9, 14), Hidden(44, 61)], text.units)
    assert found.isfinite().tolist() == [[False] * 3 + [True] * 5, [False] * 6 + [True] * 2], "one token: none left"
    assert found[found.isfinite()].sub(1).abs().max() < 1e-6
    effects = torch.tensor([[torch.nan, 1.0, 4.0], [torch.nan, torch.nan, 2.0]])
    expected = torch.tensor([[torch.nan, 0.0, 1.0], [torch.nan, torch.nan, -1.0]])
    torch.testing.assert_close(without_usual(effects), expected, equal_nan=True)


def test_controls_are_as_long_as_near_and_not_the_sentence():
    stream = torch.Generator().manual_seed(0)
    drawn = [control_span(Hidden(30, 38), 79, stream) for _ in range(200)]
    assert {span.end - span.start for span in drawn} == {8}
    assert {abs(span.start - 30) for span in drawn} == {4, 5, 6, 7, 8}
    assert abs(sum(span.start - 30 for span in drawn)) / 200 < 1.5
    assert control_span(Hidden(1, 50), 60, stream) is None


def test_the_rows(llama):
    text = trace_tokens(llama, made_trace(6))
    found = find_measure("suppression")(text, Study(llama, [text], "tiny", controls=2))
    assert set(found["condition"]) == {"hidden", "control"}
    own = found[(found["condition"] == "hidden") & (found["metric"] == "suppression_log_kl")]
    pairs = set(zip(own["key"], own["query"]))
    assert pairs == {(i, j) for i in range(1, 7) for j in range(i + 1, 8)}
    control = found[(found["condition"] == "control") & (found["metric"] == "suppression_log_kl")]
    assert set(zip(control["key"], control["query"])) < pairs
    effect = found[(found["condition"] == "hidden") & (found["metric"] == "suppression_effect")]
    assert effect.groupby("query")["value"].mean().abs().max() < 1e-9


@pytest.mark.parametrize("span", [Hidden(0, 3), Hidden(5, 5), Hidden(70, 80)])
def test_spans_that_cannot_be_hidden(span, llama):
    with pytest.raises(ValueError, match="cannot be hidden"):
        suppressed_kl(llama, range(80), [span])
