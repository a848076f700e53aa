"""Which models can learn a task, and how is each trained? One registry of recipes, by task and model.

A recipe is one file, `recipe.py` of a family's room, with one `register` for each task and model. The command line,
`train_task` below, reloading a run and the probes all work from it: a new model gets all of them. A task without a
recipe (a plug-in, say) has the standard decoder.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch

from probes.base.plugins import is_rerun
from probes.hooked.points import Hooked
from toy_models.engine.forward import Reader
from toy_models.engine.training_run import Device, Evaluation, TrainingRun, TrainResult, choose_device, complete
from toy_models.task import Batch, Task, load_tasks, task_class


@dataclass(frozen=True)
class Recipe:
    """How one kind of model is trained on one task."""

    model: str
    """The model's name, for --model."""
    summary: str
    """The model and its training in one line."""
    options: type
    """A frozen dataclass whose fields are dataclasses of options, all with defaults; `unsaid`, if it has one, are
    those among them (field, name) that do not decide what is trained."""
    seed: Callable[[Any], int]
    """The seed among the options."""
    fresh: Callable[[Any, Any, int], Hooked]
    """(task, options, seed) -> an untrained model on the CPU."""
    start: Callable[[Any, Any, torch.device], TrainingRun]
    """(task, options, device) -> the run, ready to begin; a ValueError for what cannot be trained."""
    reader: Callable[[Any], Reader]
    """(task) -> what makes logits over tokens of the model's output."""
    test: Callable[[Any, Any], Batch]
    """(task, options) -> the test inputs of the run."""


RECIPES: dict[str, dict[str, Recipe]] = {}
"""By task and model; a task's first model is its default."""


def register(task: str, recipe: Recipe) -> Recipe:
    """Adds a recipe for the task called `task`; refuses a model that the task has already."""
    known = RECIPES.setdefault(task, {})
    if recipe.model in known and not is_rerun(known[recipe.model].start, recipe.start):
        raise ValueError(f"task {task!r} has a recipe for the model {recipe.model!r} already")
    known[recipe.model] = recipe
    return recipe


def load_recipes() -> dict[str, dict[str, Recipe]]:
    """The recipes of all tasks; imports every family's models."""
    return {name: recipes_of(name) for name in load_tasks()}


def recipes_of(task: str) -> dict[str, Recipe]:
    """The recipes of one task, from `recipe.py` and `*_recipe.py` of its room; an unknown task is a ValueError."""
    from toy_models.engine.decoder_recipe import DECODER

    room = task_class(task).__module__.rpartition(".")[0]
    if room.startswith("toy_models."):
        for module in pkgutil.iter_modules(importlib.import_module(room).__path__):
            if module.name == "recipe" or module.name.endswith("_recipe"):
                importlib.import_module(f"{room}.{module.name}")
    found = RECIPES.get(task) or {DECODER.model: DECODER}
    own = {model: recipe for model, recipe in found.items() if recipe.options.__module__.startswith("toy_models.")}
    return own | found  # whoever registered first, a task's own models come before those of plug-ins


def find_recipe(task: str, model: str = "") -> Recipe:
    """The recipe of a model for a task, by default the task's first; an unknown name lists the known ones."""
    of_task = recipes_of(task)
    if model and model not in of_task:
        raise ValueError(f"{task} has no model {model!r}; its models are {', '.join(of_task)}")
    return of_task[model] if model else next(iter(of_task.values()))


def identity(task: Task, recipe: Recipe, options: Any) -> dict[str, Any]:
    """What decides a run: task and parameters, model and every option, as plain values."""
    parts = {field.name: asdict(getattr(options, field.name)) for field in fields(recipe.options)}
    for part, name in getattr(options, "unsaid", ()):
        del parts[part][name]
    return {"task": task.name, "parameters": asdict(task), "model": recipe.model, **parts}  # pyright: ignore


def train_task(
    task: Task,
    model: str = "",
    options: Any = None,
    *,
    device: Device = "auto",
    checkpoint: Path | None = None,
    checkpoint_seconds: float = 20.0,
    on_evaluation: Callable[[Evaluation], None] = lambda _: None,
) -> TrainResult:
    """Trains one of the task's models by its recipe, with the recipe's default options if none are given.

    `train_task(Parity(n=20, k=3))` trains a decoder, `train_task(TreeParity(), "theory")` the theory model. The
    options are an instance of `find_recipe(task.name, model).options`; for a decoder
    `DecoderOptions(training=TrainConfig(budget=4096))` of `toy_models.engine.decoder_recipe`. With a `checkpoint` a
    run that was killed is taken up again.
    """
    recipe = find_recipe(task.name, model)
    options = recipe.options() if options is None else options
    if not isinstance(options, recipe.options):
        raise ValueError(f"{task.name} by {recipe.model} takes options {recipe.options.__name__}, got {options!r}")
    run = recipe.start(task, options, choose_device(device))
    return complete(run, checkpoint, checkpoint_seconds, on_evaluation)
