"""The recorder against transformers' own eager attention, for every architecture and the built-in model."""

from functools import partial

import pandas as pd
import pytest
import torch
from transformers import GptOssConfig

from hf_analysis.attention.recorder import record, recording
from probes.attention.entropy import row_entropy
from tests.hf_analysis.tiny_models import GROUPED, VOCABULARY, build


def tokens(n_rows=2, n=40, vocabulary=VOCABULARY):
    return torch.randint(vocabulary, (n_rows, n), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def eager(model, ids):
    """Patterns and logits by the model's own eager attention."""
    before = model.config._attn_implementation
    model.set_attn_implementation("eager")
    result = model(ids, output_attentions=True, use_cache=False)
    model.set_attn_implementation(before)
    return torch.stack(result.attentions), result.logits


def assert_matches(recording_, patterns, largest=1e-3, average=2e-4):
    patterns = patterns / patterns.sum(-1, keepdim=True)  # a learned sink takes mass but is no key
    counts = (patterns > 0).sum(-1)
    assert (counts <= recording_.n_visible).all()
    expected = row_entropy(patterns) / recording_.n_visible.log()
    error = (recording_["normalised_entropy"] - expected)[..., 1:].abs()
    assert error.max() < largest
    assert error.mean() < average
    assert (recording_["sink_mass"] - patterns[..., 0]).abs().max() < largest
    rest = patterns[..., 1:]
    mass = rest.sum(-1)
    sees_all = recording_.n_visible == torch.arange(1, patterns.shape[-1] + 1)
    clear = (mass > 1e-2) & (recording_.n_visible > 2) & sees_all
    expected = row_entropy(rest / mass[..., None].clamp(min=1e-9)) / (recording_.n_visible - 1).log()
    assert clear.any()
    assert (recording_["normalised_entropy_without_sink"] - expected)[clear].abs().max() < largest


def test_every_row_equals_eager_attention(architecture):
    model = build(architecture)
    patterns, _ = eager(model.double(), tokens())
    assert_matches(record(model.float(), tokens()), patterns)


def test_the_output_of_the_model_is_unchanged(architecture):
    model = build(architecture)
    with torch.no_grad():
        expected = model(tokens()).logits
        with recording(model) as recorder:
            logits = model(tokens()).logits
        assert torch.equal(model(tokens()).logits, expected), "afterwards the model is as before"
    assert len(recorder.layers) == 3
    if architecture == "gemma2":  # no SDPA to compare with: its own attention is eager
        torch.testing.assert_close(logits, expected, atol=1e-5, rtol=1e-5)
    else:
        assert torch.equal(logits, expected)


def test_recording_alone_measures_the_same_and_stops_behind_the_last_attention(architecture):
    model = build(architecture)
    with torch.no_grad(), recording(model) as recorder:
        model(tokens())
    expected = recorder.result()
    called = []
    for name, module in model.named_modules():
        module.register_forward_hook(lambda *_, name=name: called.append(name))
    found = record(model, tokens())
    rounding = 1e-4 if architecture == "qwen2" else 1e-5  # its large key biases cost the model's own attention digits
    for name in ("normalised_entropy", "sink_mass", "normalised_entropy_without_sink"):
        torch.testing.assert_close(found[name], expected[name], atol=rounding, rtol=0, equal_nan=True)
    assert torch.equal(found.n_visible, expected.n_visible)
    mlps = [name for name, _ in model.named_modules() if name.endswith(".mlp")]
    assert len(mlps) == 3
    assert mlps[1] in called
    assert mlps[2] not in called
    assert model.config._attn_implementation == "sdpa" or architecture == "gemma2"


def gradient(model):
    model.zero_grad()
    model(tokens()).logits.square().sum().backward()
    return model.get_input_embeddings().weight.grad.clone()


def test_gradients_flow_past_a_recording():
    model = build("llama")
    expected = gradient(model)
    with recording(model):
        assert torch.equal(gradient(model), expected)


def test_where_no_gradient_can_flow_it_is_refused():
    model = build("gemma2")
    with pytest.raises(ValueError, match="no_grad"), recording(model):
        gradient(model)


@pytest.mark.parametrize(("name", "reason"), [("llama", "CPU"), ("gemma2", "capped")])
def test_the_path_is_told(name, reason):
    paths = record(build(name), tokens()).computations
    assert len(paths) == 3
    assert all(reason in path.reason for path in paths)


def test_windows_and_full_layers_of_one_model_count_their_own_keys():
    found = record(build("gemma2"), tokens(1, 20)).n_visible[:, 0, 0]
    assert found[0].tolist() == [min(i, 8) for i in range(1, 21)]
    assert found[1].tolist() == list(range(1, 21))


def test_learned_sinks_take_mass_but_are_no_key():
    model = build_gpt_oss()
    patterns, expected = eager(model, tokens())
    assert patterns.sum(-1).max() < 1 - 1e-3, "the sinks must matter for this test"
    assert_matches(record(model, tokens()), patterns)
    taken = record(model, tokens(), statistics=["learned_sink_mass"])["learned_sink_mass"]
    assert (taken - (1 - patterns.sum(-1))).abs().max() < 1e-5
    with torch.no_grad(), recording(model):
        torch.testing.assert_close(model(tokens()).logits, expected, atol=1e-4, rtol=1e-4)


def test_without_a_learned_sink_nothing_goes_there():
    assert record(build("llama"), tokens(), statistics=["learned_sink_mass"])["learned_sink_mass"].eq(0).all()


def build_gpt_oss():
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    small = {**GROUPED, "intermediate_size": 16, "hidden_size": 32}
    config = GptOssConfig(
        **small, head_dim=16, sliding_window=8, num_local_experts=2, num_experts_per_tok=1, rope_parameters=rope
    )
    model = build(config)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.sinks.fill_(1.0)
            layer.self_attn.q_proj.weight.mul_(0.05)
    return model


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_right_pads_change_nothing(name):
    model, ids = build(name), tokens(3, 30)
    whole = record(model, ids)["normalised_entropy"]
    padded = torch.cat([ids, torch.zeros(3, 9, dtype=torch.long)], dim=1)
    found = record(model, padded)["normalised_entropy"]
    torch.testing.assert_close(found[..., :30], whole, atol=1e-5, rtol=0, equal_nan=True)
    alone = record(model, ids[1:2, :17])["normalised_entropy"]
    torch.testing.assert_close(whole[:, 1:2, :, :17], alone, atol=1e-5, rtol=0, equal_nan=True)


def test_layers_that_bypass_the_registry_are_noticed():
    model = build("llama")

    class Bypass(torch.nn.Module):
        def forward(self, hidden_states, **_):
            return hidden_states, None

    model.model.layers[1].self_attn = Bypass()
    with pytest.raises(ValueError, match="LlamaForCausalLM: layer 1 of 3 computes its attention in a way"):
        record(model, tokens())


def test_layers_that_attend_twice_are_noticed():
    model = build("llama")
    for layer in model.model.layers:
        layer.self_attn = Twice(layer.self_attn)
    with pytest.raises(ValueError, match="LlamaAttention attends twice in layer 0"):
        record(model, tokens())


class Twice(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, *arguments, **options):
        self.attention(*arguments, **options)
        return self.attention(*arguments, **options)


def test_dropout_is_refused():
    with pytest.raises(ValueError, match="training mode"):
        record(build("llama").train(), tokens())


def test_bfloat16_stays_close_to_float32():
    """The bound is of the model's own rounding: the statistics are in float32 either way."""
    exact = record(build("llama"), tokens())["normalised_entropy"]
    rounded = record(build("llama").bfloat16(), tokens())["normalised_entropy"]
    assert rounded.dtype == torch.float32
    error = (exact - rounded)[..., 1:].abs()
    assert 0 < error.max() < 0.1
    assert error.mean() < 0.01


def test_one_token_has_no_normalised_entropy():
    assert record(build("llama"), tokens(1, 1))["normalised_entropy"].isnan().all()


def test_the_builtin_model_equals_eager_attention(builtin):
    text = "A baker makes 12 loaves a day and sells 9 of them. How many are left after 5 days? " * 6
    ids = torch.tensor([builtin.encode(text)])
    patterns, _ = eager(builtin.model, ids)
    found = record(builtin.model, ids)
    assert_matches(found, patterns)
    assert found["normalised_entropy"].shape == (30, 1, 9, ids.shape[1])


NEW = ("top1_mass", "effective_keys", "entropy_nats")


def test_other_statistics_equal_eager_attention(architecture):
    model = build(architecture)
    patterns, _ = eager(model.double(), tokens())
    found = record(model.float(), tokens(), statistics=NEW)
    assert tuple(found.values) == NEW
    nats = row_entropy(patterns)
    for name, expected in zip(NEW, (patterns.amax(-1), nats.exp(), nats)):
        assert ((found[name] - expected).abs() / expected.clamp(min=1)).max() < 3e-3, name
    with torch.no_grad(), recording(model, NEW[:1]) as recorder:
        model(tokens())
    assert (recorder.result()["top1_mass"] - patterns.amax(-1)).abs().max() < 1e-3


def test_ids_come_as_a_tokenizer_gives_them():
    model, ids = build("llama"), tokens(2, 12)
    whole = record(model, ids)["normalised_entropy"]
    for given in (ids[0], ids[0].tolist(), ids[:1].tolist()):
        torch.testing.assert_close(record(model, given)["normalised_entropy"], whole[:, :1], equal_nan=True)
    torch.testing.assert_close(record(model, ids.tolist())["normalised_entropy"], whole, equal_nan=True)


def test_a_recording_is_a_tidy_table(llama):
    text = "Tom has 3 apples."
    ids = llama.tokenizer(text).input_ids
    found = record(llama.model, ids, tokenizer=llama.tokenizer)
    frame = found.to_pandas()
    statistics = ["normalised_entropy", "sink_mass", "normalised_entropy_without_sink"]
    assert list(frame.columns) == ["text", "layer", "head", "position", "token", *statistics]
    n_layers, _, n_heads, n_tokens = found["sink_mass"].shape
    assert len(frame) == n_layers * n_heads * n_tokens
    one = frame[(frame["layer"] == 1) & (frame["head"] == 2)]
    assert one["token"].tolist() == [llama.decode([i]) for i in ids]
    assert one["sink_mass"].to_numpy() == pytest.approx(found["sink_mass"][1, 0, 2].numpy())
    assert one["normalised_entropy"].isna().tolist() == [True] + [False] * (n_tokens - 1)
    pd.testing.assert_frame_equal(record(llama, ids).to_pandas(), frame)  # a loaded model brings its tokenizer
    assert record(llama.model, ids).to_pandas()["token"].isna().all()


def test_the_texts_of_a_batch_are_told_apart():
    ids = tokens(2, 5)
    labels = [[f"{row}{i}" for i in range(5)] for row in "ab"]
    frame = record(build("llama"), ids, tokens=labels, statistics=["entropy_nats"]).to_pandas()
    assert frame.groupby("text")["token"].unique().map(list).tolist() == labels
    alone = record(build("llama"), ids[1], tokens=labels[1], statistics=["entropy_nats"]).to_pandas()
    second = frame[frame["text"] == 1].reset_index(drop=True)
    assert (second["entropy_nats"] - alone["entropy_nats"]).abs().max() < 1e-5
    assert second["token"].equals(alone["token"])


@pytest.mark.parametrize(
    ("ids", "options", "complaint"),
    [
        ([[1, 2, 3], [1, 2]], {}, "texts of 2 to 3 tokens; pad them on the right"),
        ([], {}, r"token ids of shape \(0,\)"),
        (torch.zeros(1, 2, 3).long(), {}, r"shape \(1, 2, 3\)"),
        (torch.zeros(3), {}, "float32; expected integers"),
        ([True, False], {}, "bool; expected integers"),
        ([1, 10**9], {}, r"token id 1000000000: the model's are 0 to \d+; is the tokenizer another model's"),
        ([1, -1], {}, "token id -1: the model's are 0 to"),
        ([1, 2, 3], {"tokens": ["a", "b"]}, "give one label for each token"),
        ([1, 2, 3], {"statistics": ["entropy"]}, "unknown statistic 'entropy'"),
        ([1, 2, 3], {"statistics": []}, "name at least one"),
        ([1, 2, 3], {"mask": torch.ones(1, 1, 3, 3).tril()}, r"float32; expected booleans .* mask.bool\(\)"),
        ([1, 2, 3], {"mask": torch.ones(1, 1, 3, 3).tril().long()}, "int64; expected booleans"),
        ([1, 2, 3, 4], {"mask": torch.ones(1, 1, 3, 3).tril().bool()}, r"expected booleans of shape \(1, 1, 4, 4\)"),
        ([[1, 2], [3, 4]], {"mask": torch.ones(1, 1, 2, 2).tril().bool()}, r"of shape \(2, 1, 2, 2\)"),
    ],
)
def test_what_cannot_be_recorded_is_refused(ids, options, complaint):
    with pytest.raises(ValueError, match=complaint):
        record(build("llama"), ids, **options)


def test_a_boolean_mask_hides_keys():
    seen = torch.ones(2, 1, 3, 3).tril().bool()
    seen[1, 0, 2, 1] = False
    found = record(build("llama"), [[1, 2, 3], [1, 2, 3]], mask=seen)
    assert found.n_visible[0, :, 0].tolist() == [[1, 2, 3], [1, 2, 2]]


def test_what_was_not_recorded_is_named():
    found = record(build("llama"), [1, 2, 3])
    with pytest.raises(ValueError, match="'top1_mass' was not recorded, only normalised_entropy, sink_mass"):
        found["top1_mass"]
    with pytest.raises(ValueError, match="unknown statistic 'top'"):
        found["top"]


@pytest.mark.parametrize(
    ("option", "complaint"),
    [({"reversed": True}, r"passes \['reversed'\]"), ({"is_causal": False}, "attends to later tokens too")],
)
def test_an_option_that_nobody_knows_is_refused_even_if_it_is_a_switch(option, complaint):
    model = build("llama")
    for layer in model.model.layers:
        layer.self_attn.forward = partial(layer.self_attn.forward, **option)
    with pytest.raises(ValueError, match=complaint):
        record(model, tokens())
