"""Hooked means what TransformerLens users expect: eval mode, `cfg`, hook names and shapes, its patching unchanged.

Another model is one line in `MODELS`: a function that builds it, and the task whose inputs it reads.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
import transformer_lens.patching as lens
from torch import Tensor

from probes.hooked.points import Hooked, visible_keys
from tests.tiers import slow_but
from toy_models.engine.decoder import DecoderConfig, hooked_decoder
from toy_models.engine.weights import load_weights, weights
from toy_models.incontext.task import IncontextCot
from toy_models.incontext.theory_model import IncontextAttention
from toy_models.kfold.encoder import EncoderConfig, Shape, hooked_encoder
from toy_models.kfold.task import KFold
from toy_models.kfold.theory_model import KFoldTheory
from toy_models.lego.clause_decoder import STANDARD, THEORY, clause_decoder
from toy_models.lego.task import Lego
from toy_models.lego.theory_model import LegoTheory, LegoTheoryConfig
from toy_models.parity.task import Parity
from toy_models.parity.theory_model import SimplifiedBlock, random_embedding
from toy_models.task import Task
from toy_models.tree_parity.forest import Forest
from toy_models.tree_parity.task import TreeParity
from toy_models.tree_parity.theory_model import PositionAttention

PARITY, TREE = Parity(n=6, k=2), TreeParity(d=6, k=4)
LEGO, KFOLD = Lego("S3", 3, n_variables=5), KFold(k=2, n=3, cyclic=True)
INCONTEXT = IncontextCot(d_x=8, n_patterns=5, n_testing=3, n_steps=2, n_examples=3)
ENCODED = Shape(KFOLD.d_vocab, KFOLD.n_ctx, d_out=3, n_readouts=2)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def simplified_block() -> SimplifiedBlock:
    return SimplifiedBlock(random_embedding(PARITY.n_ctx, 8, generator()), torch.ones(5).double())


MODELS = {
    "decoder": (lambda: hooked_decoder(DecoderConfig(2, 2, 8), PARITY.d_vocab, PARITY.n_ctx, seed=0), PARITY),
    "SimplifiedBlock": (simplified_block, PARITY),
    "PositionAttention": (lambda: PositionAttention(Forest.of([TREE]), link="cosine"), TREE),
    "ClauseDecoder": (lambda: clause_decoder(replace(STANDARD, d_token=4, d_mlp=8), LEGO, seed=0), LEGO),
    "ClauseDecoder with positions": (
        lambda: clause_decoder(
            replace(STANDARD, d_token=4, d_mlp=8, positions="learned", n_ctx=LEGO.n_ctx), LEGO, seed=0
        ),
        LEGO,
    ),
    "bare ClauseDecoder": (lambda: clause_decoder(replace(THEORY, d_token=4, d_mlp=8), LEGO, seed=0), LEGO),
    "LegoTheory": (lambda: LegoTheory(LEGO.d_vocab, LegoTheoryConfig(m=2), generator()), LEGO),
    "IncontextAttention": (lambda: IncontextAttention(INCONTEXT.d_x, INCONTEXT.n_steps), INCONTEXT),
    "HookedEncoder": (lambda: hooked_encoder(EncoderConfig(2, 2, 8), ENCODED, seed=0), KFOLD),
    "KFoldTheory": (lambda: KFoldTheory(KFOLD.k, KFOLD.n), KFOLD),
}
BY_HEAD = {
    "hook_z": lens.get_act_patch_attn_head_out_all_pos,
    "hook_v": lens.get_act_patch_attn_head_v_all_pos,
    "hook_pattern": lens.get_act_patch_attn_head_pattern_all_pos,
    "hook_q": lens.get_act_patch_attn_head_q_all_pos,
    "hook_k": lens.get_act_patch_attn_head_k_all_pos,
}
BY_POSITION = {
    "hook_resid_pre": lens.get_act_patch_resid_pre,
    "hook_attn_out": lens.get_act_patch_attn_out,
    "hook_mlp_out": lens.get_act_patch_mlp_out,
}
EVERYWHERE = ("hook_z", "hook_v", "hook_pattern", "hook_resid_pre", "hook_attn_out")
"""The functions that every model must run; the others only where it has such a hook point."""


@dataclass
class Case:
    """A model with random weights and two batches of its inputs."""

    name: str
    model: Hooked
    task: Task
    clean: Tensor
    corrupted: Tensor

    @property
    def n_pos(self) -> int:
        return self.clean.shape[1]

    def hook_names(self, point: str) -> list[str]:
        """The hook point of every layer."""
        place = "attn." if point in BY_HEAD else ""
        return [f"blocks.{layer}.{place}{point}" for layer in range(self.model.cfg.n_layers)]


@pytest.fixture(params=MODELS, scope="module")
def case(request) -> Case:
    build, task = MODELS[request.param]
    model = build()
    with torch.no_grad():
        noise = generator(1)
        for parameter in model.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=noise, dtype=parameter.dtype))
    clean, corrupted = (task.sample(4, generator(seed)).inputs for seed in (2, 3))
    return Case(request.param, model, task, clean, corrupted)


def metric(output: Tensor) -> Tensor:
    """One number for each input that all of its output moves."""
    flat = output.flatten(1)
    return (flat * torch.linspace(0.5, 1.5, flat.shape[1])).sum(-1)


@pytest.mark.parametrize("name", MODELS)
def test_models_come_out_of_their_builder_and_loader_in_eval_mode(name):
    build, task = MODELS[name]
    model, other = build(), build().train()
    assert not any(module.training for module in model.modules())
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1)
    load_weights(other, weights(model))
    assert not any(module.training for module in other.modules())
    inputs = task.sample(3, generator()).inputs
    assert torch.equal(other(inputs), model(inputs))


def test_training_mode_changes_nothing(case):
    """No toy model has a module that behaves otherwise in training, so loops train a model in eval mode."""
    before = case.model(case.clean)
    after = case.model.train()(case.clean)
    case.model.eval()
    assert torch.equal(before, after)


def test_the_sizes_in_cfg_are_those_of_the_activations(case):
    cfg = case.model.cfg
    _, cache = case.model.run_with_cache(case.clean)
    assert len(case.model.blocks) == cfg.n_layers
    assert cfg.d_vocab == (0 if case.clean.is_floating_point() else case.task.d_vocab)
    assert cfg.n_ctx in (None, case.n_pos)
    assert str(cfg.device) == "cpu"
    heads = (4, case.n_pos, cfg.n_heads, cfg.d_head)
    for layer in range(cfg.n_layers):
        block = f"blocks.{layer}"
        assert cache[f"{block}.attn.hook_pattern"].shape == (4, cfg.n_heads, case.n_pos, case.n_pos)
        assert cache[f"{block}.attn.hook_z"].shape == cache[f"{block}.attn.hook_v"].shape == heads
        stored = (layer + 2) * cfg.n_ctx if case.name == "KFoldTheory" else cfg.d_model  # zeros are left out there
        assert cache[f"{block}.hook_resid_pre"].shape == (4, case.n_pos, stored)
        assert cache[f"{block}.hook_attn_out"].shape[:2] == (4, case.n_pos)
        assert cache[f"{block}.hook_resid_post"].ndim == 3


def test_rows_of_attention_sum_to_1(case):
    _, cache = case.model.run_with_cache(case.clean, names_filter=case.hook_names("hook_pattern"))
    for name in case.hook_names("hook_pattern"):
        pattern = cache[name]
        assert (pattern >= 0).all()
        torch.testing.assert_close(pattern.sum(-1), torch.ones_like(pattern[..., 0]))


def test_watching_changes_nothing_and_ablation_does(case):
    plain = case.model(case.clean)
    torch.testing.assert_close(case.model.run_with_cache(case.clean)[0], plain)
    for point in EVERYWHERE:
        for name in case.hook_names(point):
            ablated = case.model.run_with_hooks(case.clean, fwd_hooks=[(name, lambda x, hook: torch.zeros_like(x))])
            assert not torch.allclose(ablated, plain), name


def by_hand(case: Case, cache: dict[str, Tensor], point: str) -> Iterator[Tensor]:
    """What patching is: one run for each layer and head, or layer and position, with a copy of the clean value."""
    for name in case.hook_names(point):
        for index in range(case.model.cfg.n_heads if point in BY_HEAD else case.n_pos):
            place = (
                (slice(None), index) if point == "hook_pattern" or point in BY_POSITION else (..., index, slice(None))
            )

            def patched(value: Tensor, hook: object, name: str = name, place: tuple = place) -> Tensor:
                value = value.clone()
                value[place] = cache[name][place]
                return value

            yield metric(case.model.run_with_hooks(case.corrupted, fwd_hooks=[(name, patched)]))


@pytest.mark.parametrize("grad", slow_but([False], [False, True]), ids=["no_grad", "grad"])
@pytest.mark.parametrize("point", [*BY_HEAD, *BY_POSITION])
def test_transformer_lens_patches_every_model_as_a_loop_by_hand_does(case, point, grad):
    """Without gradients it writes into the activation itself: the oracle's copies find memory that is shared."""
    if point not in EVERYWHERE and case.hook_names(point)[0] not in case.model.hook_dict:
        pytest.skip(f"{case.name} has no {point}")
    _, cache = case.model.run_with_cache(case.clean)
    cache = {name: value.clone() for name, value in cache.items()}
    options = {}
    if point in BY_POSITION and case.clean.ndim > 2:
        index = lens.make_df_from_ranges([case.model.cfg.n_layers, case.n_pos], ["layer", "pos"])
        options = {"index_axis_names": None, "index_df": index}
    sweep, corrupted = {**BY_HEAD, **BY_POSITION}[point], case.corrupted.clone()
    with torch.set_grad_enabled(grad):
        found = sweep(case.model, case.corrupted, cache, metric, reduce="none", **options).values
        expected = torch.stack(list(by_hand(case, cache, point)))
    assert torch.equal(case.corrupted, corrupted), "the user's inputs were overwritten"
    torch.testing.assert_close(found.flatten(0, -2).double(), expected.detach().double(), rtol=1e-5, atol=1e-4)
    assert (expected - metric(case.model(case.corrupted))).abs().max() > 1e-4 or (
        case.name == "PositionAttention" and point == "hook_pattern"  # the same for all inputs
    )


def test_a_row_is_normalised_by_the_keys_that_it_sees(case):
    """Softmax gives every visible key some weight, so the keys of a row can be counted. A model that is not causal
    says so itself: nobody has to be told."""
    expected = visible_keys(case.model, case.n_pos, True, torch.device("cpu"))
    _, cache = case.model.run_with_cache(case.clean)
    for name in case.hook_names("hook_pattern"):
        seen = (cache[name] > 0).sum(-1)
        assert torch.equal(seen, expected.expand_as(seen)), name


def test_a_mask_by_level_is_counted_too():
    model = PositionAttention(Forest.of([TREE]), mask="level")
    _, cache = model.run_with_cache(TREE.sample(2, generator()).inputs)
    seen = (cache["blocks.0.attn.hook_pattern"][0, 0] > 0).sum(-1)
    assert torch.equal(visible_keys(model, TREE.n_ctx, True, torch.device("cpu")), seen)
