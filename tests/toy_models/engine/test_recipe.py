"""The registry of recipes: defaults, refusals, and runs that are stopped anywhere and end with the same bits."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.loop_run import RunConfig
from toy_models.engine.recipe import RECIPES, find_recipe, load_recipes, register, train_task
from toy_models.engine.training import TrainConfig, Trainer
from toy_models.engine.training_run import complete
from toy_models.kfold.encoder import EncoderConfig
from toy_models.kfold.hop_training import fresh_encoder
from toy_models.kfold.recipe import EncoderOptions, EncoderTraining
from toy_models.kfold.task import KFold
from toy_models.lego.clause_decoder import ClauseDecoderConfig
from toy_models.lego.recipe import StagedTraining, StandardOptions
from toy_models.lego.task import Lego
from toy_models.parity.task import Parity
from toy_models.task import TASKS, load_tasks
from toy_models.task import register as register_task

CPU = torch.device("cpu")
RUN = RunConfig(n_validation=8, n_test=8, stop_when_perfect=False)
ENCODER = EncoderOptions(EncoderConfig(2, 2, 8), EncoderTraining(batch_size=8, budget=40, eval_every=16), RUN)
LEGO = StandardOptions(
    ClauseDecoderConfig(4, 2, 8), StagedTraining(first=3, updates=4, batch_size=4, eval_every=2), RUN
)
LONG = {
    "kfold encoder": (KFold(k=2, n=3), "encoder", ENCODER),
    "kfold encoder, token": (KFold(k=2, n=3, hop_token=True), "encoder", ENCODER),
    "lego decoder": (Lego("C3", 2, 5), "decoder", LEGO),
}


def test_every_task_has_a_recipe_and_the_options_have_defaults():
    assert set(load_recipes()) == set(load_tasks())
    for recipes in load_recipes().values():
        for name, recipe in recipes.items():
            assert name == recipe.model
            assert recipe.options() == recipe.options()
            assert recipe.seed(recipe.options()) == 0


def test_a_new_task_has_the_decoder_and_a_model_is_refused_twice():
    @dataclass(frozen=True)
    class Another(Parity):
        name: ClassVar[str] = "another"

    register_task(Another)
    try:
        assert list(load_recipes()["another"]) == ["decoder"]
    finally:
        del TASKS["another"]
    with pytest.raises(ValueError, match="'parity' has a recipe for the model 'decoder' already"):
        register("parity", RECIPES["parity"]["decoder"])


def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match=r"unknown task 'partiy'; the known tasks are \[.*'parity'"):
        find_recipe("partiy")
    with pytest.raises(ValueError, match="kfold has no model 'gpt'; its models are encoder, theory"):
        find_recipe("kfold", "gpt")
    with pytest.raises(ValueError, match="kfold by theory takes options TheoryOptions, got EncoderOptions"):
        train_task(KFold(), "theory", ENCODER)


@pytest.mark.parametrize("case", LONG)
@pytest.mark.parametrize("segments", [1, 2, 3])
def test_a_loop_that_is_stopped_anywhere_ends_with_the_same_bits(case, segments, tmp_path):
    task, model, options = LONG[case]
    recipe = find_recipe(task.name, model)
    whole = complete(recipe.start(task, options, CPU))
    first = recipe.start(task, options, CPU)
    first.evaluate()
    for _ in range(segments):
        first.train_until_evaluation()
        first.evaluate()
    first.save(tmp_path / "checkpoint")
    resumed = complete(recipe.start(task, options, CPU), tmp_path / "checkpoint")
    assert resumed.history == whole.history
    assert [e.updates for e in whole.history] == ([0, 2, 4, 5] if model == "encoder" else [0, 2, 3, 5, 7])
    assert all(torch.equal(a, b) for a, b in zip(resumed.model.parameters(), whole.model.parameters(), strict=True))
    other = recipe.start(type(task)(), options, CPU)
    with pytest.raises(ValueError, match="another run"):
        other.restore(tmp_path / "checkpoint")


def test_the_trainer_takes_any_hooked_model_and_task():
    """The encoder by plain Adam on the task's own hop: it learns a task that no decoder can."""
    task = KFold(k=1, n=5, cyclic=True)
    config = TrainConfig(lr=1e-2, batch_size=64, budget=19_200, eval_every=1920, n_validation=16, n_test=16)
    model = fresh_encoder(task, EncoderConfig(1, 2, 16), seed=0)
    run = Trainer(task, model, config, read=lambda output, positions: output[:, 0, positions], device="cpu")
    result = complete(run)
    assert result.model is model
    assert result.history[0].token_accuracy < 0.9
    assert result.test_accuracy == 1
    assert result.rollout_accuracy is None
    assert result.path.startswith("hooked: HookedEncoder is not a TransformerLens bridge")
    with pytest.raises(ValueError, match="a decoder cannot see the later tokens"):
        Trainer(task, DecoderConfig(1, 1, 8), config)
