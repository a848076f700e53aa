"""The clause decoder against its definition, written out, and the rows asked for against all rows."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from toy_models.lego.clause_decoder import STANDARD, THEORY, ClauseDecoderConfig, clause_decoder, slots
from toy_models.lego.task import BLANK, Lego

TASK = Lego("S3", 4, n_variables=9)
SMALL = {
    "standard": replace(STANDARD, d_token=4, d_mlp=16),
    "theory": replace(THEORY, d_token=4, d_mlp=16, zero_query=False),
}
PLACED = {
    "learned": replace(SMALL["standard"], positions="learned", n_ctx=TASK.n_ctx),
    "sinusoidal": replace(SMALL["theory"], positions="sinusoidal"),
}
PATTERN = "blocks.0.attn.hook_pattern"


@pytest.fixture(params=SMALL)
def model(request):
    return clause_decoder(SMALL[request.param], TASK, seed=0)


@pytest.fixture(params=PLACED)
def placed(request):
    return clause_decoder(PLACED[request.param], TASK, seed=0)


def sentences(n: int = 8) -> torch.Tensor:
    return TASK.sample(n, torch.Generator().manual_seed(3)).inputs


def by_definition(model, clauses: torch.Tensor) -> torch.Tensor:
    """The logits of one sentence, clause by clause and head by head."""
    config, block, attn = model.config, model.blocks[0], model.blocks[0].attn
    x = torch.stack([torch.cat([model.embed.weight[token] for token in clause]) for clause in clauses])
    x = x + torch.stack([position(model, place) for place in range(len(clauses))])
    norm = (lambda t, ln: F.layer_norm(t, t.shape[-1:], ln.weight, ln.bias)) if config.residual else lambda t, _: t
    inner, d_head = norm(x, block.ln1), config.d_model // config.n_heads
    rows = []
    for i in range(len(clauses)):
        read = []
        for head in range(config.n_heads):
            part = slice(head * d_head, (head + 1) * d_head)
            query = attn.query(inner[i])[part]
            scores = torch.stack([query @ attn.key(inner[j])[part] for j in range(i + 1)]) / d_head**0.5
            weights = scores.exp() / scores.exp().sum()
            value = inner if attn.value is None else attn.value(inner)[:, part]
            read.append(sum(w * value[j] for j, w in enumerate(weights)))
        attended = sum(read) / config.n_heads if attn.out is None else attn.out(torch.cat(read))
        resid = attended + x[i] if config.residual else attended
        hidden = block.mlp.enter(norm(resid, block.ln2)).clamp_min(0)
        out = block.mlp.leave(hidden) + (resid if config.residual else 0)
        rows.append(model.unembed(norm(out, model.ln_final)))
    return torch.stack(rows)


def position(model, place: int) -> torch.Tensor:
    """What is added to the clause at this place."""
    width = model.config.d_model
    if model.config.positions == "none":
        return torch.zeros(width)
    if model.config.positions == "learned":
        return model.pos_embed.weight[place]
    angles = [place / 10_000 ** (i / (width // 2)) for i in range(width // 2)]
    return model.config.embed_std * torch.tensor([math.sin(a) for a in angles] + [math.cos(a) for a in angles])


@pytest.mark.parametrize("config", [*SMALL.values(), *PLACED.values()])
def test_the_decoder_computes_what_it_says(config):
    model, clauses = clause_decoder(config, TASK, seed=0), sentences(2)
    for row, logits in zip(clauses, model(clauses)):
        torch.testing.assert_close(logits, by_definition(model, row), atol=1e-5, rtol=1e-4)


def test_the_rows_asked_for_are_those_of_all_rows_and_so_are_the_gradients(model):
    clauses, queries = sentences()[:, :-1], TASK.answer_positions()
    everywhere, asked = model(clauses)[:, queries], model(clauses, queries)
    torch.testing.assert_close(asked, everywhere)
    weight = torch.randn_like(asked)
    for logits in (everywhere, asked):
        model.zero_grad()
        (logits * weight).sum().backward()
        found = [parameter.grad.clone() for parameter in model.parameters()]
        expected = found if logits is everywhere else expected
    for one, other in zip(found, expected):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-4)


def test_the_pattern_is_hooked_and_causal(model):
    clauses = sentences()
    _, cache = model.run_with_cache(clauses)
    pattern = cache[PATTERN]
    assert pattern.shape == (8, 2, TASK.n_ctx, TASK.n_ctx)
    assert not pattern.triu(1).any()
    torch.testing.assert_close(pattern.sum(-1), torch.ones(8, 2, TASK.n_ctx))


def test_a_hook_changes_what_the_model_says(model):
    clauses = sentences()
    flat = model.run_with_hooks(clauses, fwd_hooks=[(PATTERN, lambda p, hook: torch.full_like(p, 1 / p.shape[-1]))])
    assert not torch.allclose(flat[:, -2], model(clauses)[:, -2])


def test_without_positions_the_order_of_the_predicates_does_not_matter(model):
    clauses = sentences()
    shuffled = clauses.clone()
    shuffled[:, :4] = clauses[:, [2, 0, 3, 1]]
    torch.testing.assert_close(model(shuffled)[:, 4:], model(clauses)[:, 4:], atol=1e-5, rtol=1e-4)


def test_with_positions_it_does_unless_they_are_taken_away(placed):
    clauses = sentences()
    shuffled = clauses.clone()
    shuffled[:, :4] = clauses[:, [2, 0, 3, 1]]
    assert not torch.allclose(placed(shuffled)[:, 4:], placed(clauses)[:, 4:], atol=1e-3)
    without = [("hook_pos_embed", lambda x, hook: torch.zeros_like(x))]
    expected, found = (placed.run_with_hooks(x, fwd_hooks=without)[:, 4:] for x in (clauses, shuffled))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    nope = clause_decoder(replace(placed.config, positions="none"), TASK, seed=0)  # the same weights otherwise
    torch.testing.assert_close(nope(clauses)[:, 4:], expected, atol=1e-5, rtol=1e-4)


def test_a_hook_that_writes_into_the_positions_leaves_the_weights_alone(placed):
    clauses, before = sentences(), placed(sentences())
    with torch.no_grad():
        placed.run_with_hooks(clauses, fwd_hooks=[("hook_pos_embed", lambda x, hook: x.zero_())])
    assert torch.equal(placed(clauses), before)


def test_only_the_places_that_were_trained_are_learned():
    model = clause_decoder(replace(PLACED["learned"], n_ctx=20), TASK, seed=0)
    model.loss(model(sentences()[:, :-1]), sentences()[:, 1:]).backward()
    gradient = model.get_parameter("pos_embed.weight").grad
    assert gradient is not None
    assert gradient.any(-1).tolist() == [place < TASK.n_ctx - 1 for place in range(20)]


def test_a_sentence_longer_than_the_learned_positions_is_refused(placed):
    longer = replace(TASK, length=5).sample(2, torch.Generator().manual_seed(0)).inputs
    if placed.cfg.n_ctx is None:
        assert placed(longer).shape[1] == 11
        return
    assert placed.cfg.n_ctx == TASK.n_ctx
    with pytest.raises(ValueError, match="a sentence of 11 clauses, but there are learned positions for n_ctx=9"):
        placed(longer)


def test_queries_at_zero_make_attention_uniform():
    model = clause_decoder(replace(THEORY, d_token=4, d_mlp=16), TASK, seed=0)
    _, cache = model.run_with_cache(sentences())
    rows = torch.ones(TASK.n_ctx, TASK.n_ctx).tril()
    torch.testing.assert_close(cache[PATTERN][0, 0], rows / rows.sum(-1, keepdim=True))


def test_blanks_are_zero_and_stay_so(model):
    assert not model.embed.weight[BLANK].any()
    model.loss(model(sentences()[:, :-1]), sentences()[:, 1:]).backward()
    assert not model.embed.weight.grad[BLANK].any()
    assert model.embed.weight.grad.any()


def test_each_head_ranges_over_its_slots_tokens(model):
    clauses = sentences(64)
    assert [size for _, size in slots(TASK)] == [9, 6, 9, 9, 3]
    for slot, (first, size) in enumerate(slots(TASK)):
        tokens = clauses[..., slot]
        assert ((tokens == BLANK) | ((tokens >= first) & (tokens < first + size))).all()
    # Logits that single out each token of a clause give the clause back, and no loss.
    wanted = clauses[:, 5]
    logits = torch.zeros(len(wanted), 1, sum(size + 1 for _, size in slots(TASK)))
    start = 0
    for slot, (first, size) in enumerate(slots(TASK)):
        index = torch.where(wanted[:, slot] == BLANK, 0, wanted[:, slot] - first + 1)
        logits[torch.arange(len(wanted)), 0, start + index] = 50.0
        start += size + 1
    assert torch.equal(model.clauses(logits)[:, 0], wanted)
    assert model.loss(logits, wanted[:, None]).item() < 1e-6


def test_guessing_loses_the_logarithms_of_the_slots_sizes(model):
    logits = torch.zeros(8, 3, sum(size + 1 for _, size in slots(TASK)))
    expected = torch.tensor([10.0, 7.0, 10.0, 10.0, 4.0]).log().sum()
    torch.testing.assert_close(model.loss(logits, sentences()[:, 5:8]), expected)


def test_the_seed_alone_decides_the_weights():
    state = torch.get_rng_state()
    first, again, other = (clause_decoder(SMALL["standard"], TASK, seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.unembed.weight, again.unembed.weight)
    assert not torch.equal(first.unembed.weight, other.unembed.weight)


@pytest.mark.parametrize("wrong", [{"d_token": 0}, {"n_heads": 3}, {"embed_std": 0.0}, {"d_mlp": 0}, {"n_ctx": 0}])
def test_impossible_sizes_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        ClauseDecoderConfig(**wrong)
