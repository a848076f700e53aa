"""Do the probes find what is there, and nothing where nothing is?"""

from dataclasses import replace

import pytest
import torch

from interp.claims.wang2025._encoder_probes import mass_rows, probe_rows
from interp.claims.wang2025._runs import TheoryRun, search_rows
from probes.rows import with_settings
from toy_models.kfold.encoder import EncoderConfig
from toy_models.kfold.hop_training import HopEvaluation, HopResult, fresh_encoder, hop_task
from toy_models.task import Batch

LABELS = {"run": "r", "condition": "c", "unit": "0"}


def untrained(told: str = "head") -> HopResult:
    task = hop_task(4, 5, told, 0)
    config = EncoderConfig(n_layers=2, n_heads=2, d_model=16)
    return HopResult(fresh_encoder(task, config, 0), task, (HopEvaluation(0, (0.2,) * 3, (1.6,) * 3),))


@pytest.mark.parametrize("told", ["head", "token"])
def test_attention_put_on_a_layers_key_is_found_there_and_only_there(told):
    result = untrained(told)
    offset = int(result.task.hop_token)

    def looks(pattern, hook):
        """Head 1 of layer 1 attends to (i+1, hop^1(j)), every other head uniformly."""
        wanted = result.task.layer_dependencies(Batch(current["inputs"], current["inputs"]), 1).float()
        pattern = torch.full_like(pattern, 1 / pattern.shape[-1])
        pattern[:, 1] = wanted
        return pattern

    current = {}
    result.model.hook_embed.add_hook(lambda x, hook: x, is_permanent=True)
    original = result.model.forward
    result.model.forward = lambda tokens: (current.update(inputs=tokens), original(tokens))[1]  # pyright: ignore
    result.model.blocks[1].attn.hook_pattern.add_hook(looks, is_permanent=True)
    rows = with_settings(mass_rows(result, 8, LABELS, {"k": 4}))
    assert set(rows["hop"]) == ({1, 2, 4} if told == "token" else {4})
    here = (rows["layer"] == 1) & (rows["mask"] == 1) & (rows["head"] == 1)
    assert rows[here]["value"].to_numpy() == pytest.approx(1.0)
    elsewhere = rows[(rows["layer"] == 1) & (rows["head"] == 0)]["value"]
    assert elsewhere.to_numpy() == pytest.approx(1 / (20 + offset))


def test_an_untrained_model_is_its_own_baseline():
    rows = with_settings(probe_rows(untrained(), 24, LABELS, {"n": 5}))
    assert set(rows["hop"]) == {0, 1, 2, 3, 4}  # 0: the control task has no hop
    assert set(rows["layer"]) == {0, 1, 2}
    deep = rows[rows["hop"] == 4].groupby("metric")["value"].max()
    assert deep["probe_accuracy"] < 0.45
    assert deep["untrained_accuracy"] < 0.45


def test_a_hop_written_into_a_layer_is_found_there_and_not_before():
    result = untrained()
    task = result.task

    def written(resid, hook):
        """The 4-hop of every position as a one-hot vector, in place of what the first block left."""
        hops = task.results(current["inputs"])[:, -1]
        return torch.nn.functional.one_hot(hops, resid.shape[-1]).to(resid.dtype)

    current = {}
    original = result.model.forward
    result.model.forward = lambda tokens: (current.update(inputs=tokens), original(tokens))[1]  # pyright: ignore
    result.model.blocks[0].hook_resid_post.add_hook(written, is_permanent=True)
    rows = with_settings(probe_rows(result, 24, LABELS, {"n": 5}))
    found = rows[(rows["metric"] == "probe_accuracy") & (rows["hop"] == 4)].set_index("layer")["value"]
    assert found[0] < 0.45
    assert found[1] == 1


def test_a_search_finds_the_smallest_sufficient_size_from_below_and_from_above():
    run = TheoryRun("stagewise", 2, 3, 8, n_test=20)
    from_below, from_above = (search_rows(replace(run, n_sequences=start), most=4_000) for start in (8, 512))
    assert from_below["metric"].tolist() == from_above["metric"].tolist() == ["sample_complexity"]
    found = from_below["value"].iloc[0]
    assert found in {round(8 * 2 ** (step / 2)) for step in range(19)}
    assert found > 8
    assert from_above["value"].iloc[0] <= 512
    assert from_above["value"].iloc[0] >= found  # going down, the search ends at the first failure


def test_a_search_says_that_it_gave_up():
    cut = search_rows(TheoryRun("stagewise", 2, 3, 8, n_test=20), most=9)
    assert cut["metric"].tolist() == ["censored_at"]
    assert cut["value"].tolist() == [8.0]
