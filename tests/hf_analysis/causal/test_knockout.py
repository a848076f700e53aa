"""Knockouts against eager attention with a hand-made mask, TransformerLens' hooks, and a model written by hand."""

import random
from contextlib import ExitStack

import pytest
import torch

from hf_analysis.causal.edges import KINDS
from hf_analysis.causal.knockout import (
    DISTANCE,
    FINAL,
    STEPS,
    Knockout,
    knocked_out,
    knocked_out_log_probs,
    knockout_rows,
)
from hf_analysis.causal.likelihood import token_log_probs
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.problems import Problem
from hf_analysis.text.spans import solution
from interp.claims.wen2024 import mechanism_steps as wen2024_mechanism_steps
from interp.core.claim import CLAIMS
from probes import rows
from tests.hf_analysis.copying_model import COPY_HEAD, COPYING, IDLE_HEADS, build_copying_model
from tests.hf_analysis.tiny_models import VOCABULARY, attention_modules, build, loaded, tokens


def random_edges(n=24, seed=0):
    lots = torch.rand(n, n, generator=torch.Generator().manual_seed(seed))
    return (lots < 0.5).tril(-1)


@torch.no_grad()
def eager_with_hidden(model, ids, hidden):
    """Logits of eager attention whose mask of layer l also hides hidden[l]: [batch head query key]."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    modules = attention_modules(model)
    assert len(modules) == len(hidden)
    with ExitStack() as stack:
        for module, of_layer in zip(modules, hidden):

            def change(_, args, kwargs, of_layer=of_layer):
                mask = kwargs["attention_mask"]
                mask = mask.expand(of_layer.shape[0], of_layer.shape[1], -1, -1)
                return args, {**kwargs, "attention_mask": mask.masked_fill(of_layer, -torch.inf)}

            stack.enter_context(_removed(module.register_forward_pre_hook(change, with_kwargs=True)))
        logits = model(ids, use_cache=False).logits
    model.set_attn_implementation(before)
    return logits


class _removed:
    def __init__(self, handle):
        self.handle = handle

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.handle.remove()


def test_an_empty_knockout_changes_no_bit(architecture):
    model = build(architecture)
    nothing = Knockout(torch.zeros(1, 24, 24, dtype=torch.bool))
    with torch.no_grad():
        expected = model(tokens()).logits
        with knocked_out(loaded(model), nothing):
            found = model(tokens()).logits
        assert torch.equal(model(tokens()).logits, expected), "afterwards the model is as before"
    if architecture == "gemma2":  # no SDPA to compare with: its own attention is eager
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    else:
        assert torch.equal(found, expected)


def test_every_head_of_every_layer_equals_eager_attention_with_the_same_mask(architecture):
    model = build(architecture)
    hidden = torch.stack([random_edges(seed=0), random_edges(seed=1)])
    hidden[:, :, -8:] &= hidden[:, :, -8:].roll(1, 1)  # fewer, so that windows keep a key
    heads = torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(2)) < 0.5
    by_layer = [hidden[:, None] & heads[:, layer, :, None, None] for layer in range(3)]
    expected = eager_with_hidden(model, tokens(), by_layer)
    with torch.no_grad(), knocked_out(loaded(model), Knockout(hidden, heads)):
        found = model(tokens()).logits
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=2e-4)
    with torch.no_grad():
        assert (found - model(tokens()).logits).abs().max() > 0.01, "the knockout must matter for this test"


def test_transformer_lens_hooks_give_the_same_logits():
    from transformer_lens.model_bridge import TransformerBridge

    model, ids, hidden = build("gpt2"), tokens(1), random_edges()
    heads = torch.zeros(1, 3, 4, dtype=torch.bool)
    heads[0, 1, 2] = heads[0, 2, 0] = True
    with torch.no_grad(), knocked_out(loaded(model), Knockout(hidden[None], heads)):
        found = model(ids).logits
    options = {"hf_model": build("gpt2"), "tokenizer": loaded(model).tokenizer, "device": "cpu"}
    bridge = TransformerBridge.boot_transformers("gpt2", **options)

    def hide(head):
        def cut(pattern, hook):
            pattern[:, head] = pattern[:, head].masked_fill(hidden, 0)
            pattern[:, head] /= pattern[:, head].sum(-1, keepdim=True)
            return pattern

        return cut

    hooks = [("blocks.1.attn.hook_pattern", hide(2)), ("blocks.2.attn.hook_pattern", hide(0))]
    with torch.no_grad():
        theirs = bridge.run_with_hooks(ids, fwd_hooks=hooks)
    torch.testing.assert_close(found, theirs, atol=2e-4, rtol=2e-4)


def test_a_query_without_any_key_is_refused():
    model = loaded(build("llama"))
    hidden = torch.zeros(1, 24, 24, dtype=torch.bool)
    hidden[0, 3, :4] = True
    with pytest.raises(ValueError, match="left without any key"), knocked_out(model, Knockout(hidden)):
        model.model(tokens())


@pytest.fixture(scope="module")
def copying(tokenizer) -> LoadedModel:
    return LoadedModel("copying", build_copying_model(VOCABULARY), tokenizer)


def test_in_the_model_written_by_hand_only_the_copied_key_matters(copying):
    worked = solution(copying, COPYING)
    place, sources = worked.copies()["7"]
    ids, target = torch.tensor([worked.ids]), torch.tensor([place + 1])
    intact = token_log_probs(copying, ids, target)
    assert float(intact) > -0.1
    cut = torch.zeros(1, ids.shape[1], ids.shape[1], dtype=torch.bool)
    cut[0, place, list(sources)] = True
    others = torch.zeros_like(cut)
    others[0, place, 1:place] = True
    others &= ~cut
    heads = torch.zeros(3, 2, 2, dtype=torch.bool)
    heads[0][COPY_HEAD] = heads[1][IDLE_HEADS[0]] = heads[2][IDLE_HEADS[1]] = True
    with knocked_out(copying, Knockout(cut, heads)):
        by_head = token_log_probs(copying, ids.expand(3, -1), target)[:, 0]
    assert float(by_head[0]) < -2
    torch.testing.assert_close(by_head[1:], intact[0].expand(2), atol=1e-5, rtol=0)
    with knocked_out(copying, Knockout(others)):
        assert float(token_log_probs(copying, ids, target)) == pytest.approx(float(intact), abs=0.05)


def test_rows_find_the_question_necessary_where_it_is_copied(copying):
    """The steps' numbers are first mentions: in this model they come from the question and nowhere else."""
    table = knockout_rows(copying, COPYING, draws=2, seed=0, run="r")
    arms = table["setting"].str.extract(r"arm=(\S+)", expand=False)
    steps = table.assign(arm=arms)[table["metric"] == STEPS].groupby(["condition", "arm"])["value"].mean()
    intact = steps["intact", "intact"]
    assert intact > -0.2
    assert steps["steps to numbers of the question", "target"] < -2
    assert steps["steps to numbers of the question", "control"] == pytest.approx(intact, abs=0.5)
    assert steps["steps to earlier steps", "target"] == pytest.approx(intact, abs=0.1)
    assert steps["steps to earlier results", "target"] == intact, "every number is the question's, nothing is cut"
    assert set(table["condition"]) == {"intact", *KINDS}
    assert len(table[table["metric"] == FINAL]) == 1 + 3 * len(KINDS)
    again = knockout_rows(copying, COPYING, draws=2, seed=0, run="r")
    assert again.equals(table)
    assert not knockout_rows(copying, COPYING, draws=2, seed=1, run="r").equals(table)


def test_rows_say_how_far_away_the_cut_keys_are(copying):
    table = knockout_rows(copying, COPYING, draws=1, seed=0, run="r")
    distances = table[table["metric"] == DISTANCE].set_index(["condition", "setting"])["value"]
    worked = solution(copying, COPYING)
    source = [n.tokens[0] for n in worked.numbers if n.value == "9"][:-1]
    expected = sum(query - key for query in worked.ending for key in source) / (len(worked.ending) * len(source))
    assert distances["answer to its number in the steps", "arm=target draw=0"] == pytest.approx(expected)
    assert "intact" not in distances.index.get_level_values(0)
    assert "steps to earlier results" not in distances.index.get_level_values(0)


def test_in_random_models_no_kind_of_attention_is_found_to_be_used(tokenizer):
    """The null control of the whole claim, three times.

    Every problem gets a random model of its own: one random model does react to cuts, in its own arbitrary way.
    """
    for repeat in range(3):
        tables = []
        for i in range(16):
            generator = random.Random(100 * repeat + i)
            model = LoadedModel("random", build("llama", seed=100 * repeat + i), tokenizer)
            a, b = generator.sample(range(10, 60), 2)
            question = f"Ann has {a} pens and {b} cups. She wants to know how many things are hers."
            steps = f"There are {a} pens.\nTogether {a}+{b}={a + b}.\nSo she has {a + b} things.\n#### {a + b}"
            problem = Problem(f"n{i}", question, steps, str(a + b))
            tables.append(knockout_rows(model, problem, draws=1, seed=0, run="r"))
        claim = CLAIMS[wen2024_mechanism_steps.ID]
        verdicts = claim.judge(rows.concat(tables), claim.presets["paper"]).verdicts
        assert {v.outcome for v in verdicts} <= {"refuted", "inconclusive"}
        assert all(v.n == 16 for v in verdicts)


@pytest.mark.parametrize("name", ["llama", "gpt2", "mistral"])
def test_knockouts_that_share_their_beginning_equal_each_on_its_own(name, tokenizer):
    model, ids = LoadedModel(name, build(name), tokenizer), tokens(1, 24)[0].tolist()
    knockouts = [torch.zeros(24, 24, dtype=torch.bool)]
    for seed, first in enumerate([9, 9, 20, 3, 20]):
        knockouts.append(random_edges(seed=seed))
        knockouts[-1][:first] = False
    places = [2, 8, 9, 10, 20, 21, 23]
    packed = knocked_out_log_probs(model, ids, knockouts, places)
    for i, hidden in enumerate(knockouts):
        with knocked_out(model, Knockout(hidden[None])):
            alone = token_log_probs(model, torch.tensor([ids]), torch.tensor(places))[0]
        torch.testing.assert_close(packed[i], alone, atol=1e-4, rtol=1e-4)
    assert (packed[1:] - packed[0]).abs().amax(1).min() > 0.01


def test_log_probs_are_those_of_the_full_logits(llama):
    ids, places = tokens(2, 12), torch.tensor([1, 4, 11])
    with torch.no_grad():
        logs = llama.model(ids).logits.log_softmax(-1)
    expected = torch.stack([logs[:, p - 1].gather(1, ids[:, p, None])[:, 0] for p in places.tolist()], 1)
    torch.testing.assert_close(token_log_probs(llama, ids, places), expected)


@pytest.mark.parametrize("places", [[], [0], [3, -1], [12]])
def test_places_without_a_probability_are_refused(llama, places):
    complaint = "the first token has no probability; expected places from 1 to 11"
    with pytest.raises(ValueError, match=complaint):
        token_log_probs(llama, tokens(2, 12), torch.tensor(places, dtype=torch.long))
    with pytest.raises(ValueError, match=complaint):
        knocked_out_log_probs(llama, list(range(12)), [random_edges(12)], places)
