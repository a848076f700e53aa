"""cotlens train TASK: one training run."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import tyro

from interp.cli import parse
from interp.console import Update, progress
from interp.core.training_runs import train_in
from toy_models.engine.recipe import Recipe, find_recipe, load_recipes, recipes_of
from toy_models.engine.training_run import Device, Evaluation, TrainResult
from toy_models.task import Task, task_class


@dataclass(frozen=True)
class Output:
    """Where the run goes."""

    out: Path
    """Directory of the run."""
    resume: bool = False
    """Go on with the run in that directory."""
    checkpoint_seconds: float = 20.0
    """Seconds between two checkpoints, at least; what is trained after the last one is trained again on --resume."""
    device: Device = "auto"
    """Where to train: auto is a GPU if there is one. Data and initial weights are the same on every device."""


def main(arguments: Sequence[str]) -> None:
    """Trains the named task."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print("usage: cotlens train TASK [--model MODEL] --out DIR [options]\n\nThe tasks and their models:")
        for task, recipes in sorted(load_recipes().items()):
            for number, recipe in enumerate(recipes.values()):
                print(f"  {'' if number else task:<17} {recipe.model:<8} {recipe.summary}")
        print("\nA task's first model is its default. cotlens train TASK --model MODEL --help lists its options.")
        return
    recipe = find_recipe(arguments[0], _asked_model(arguments[1:]))
    parsed = parse(_options(arguments[0], recipe.model), arguments[1:], f"train {arguments[0]}")
    options = recipe.options(**{part.name: getattr(parsed, part.name) for part in fields(recipe.options)})
    run_training(parsed.task, recipe, options, parsed.output)


def run_training(task: Task, recipe: Recipe, options: Any, output: Output) -> TrainResult:
    """Trains in the run directory, shows how it goes and says what came of it."""
    until = "the budget; stops when perfect" if getattr(options, "stop_when_perfect", False) else ""
    with ExitStack() as shown:
        updates: list[Update] = []

        def show(e: Evaluation, budget: int) -> None:
            if not updates:
                training = progress(f"training {task.name}", budget, "samples", until=until)
                updates.append(shown.enter_context(training))
            lowest = min(min(heads) for heads in e.entropies)
            text = f"accuracy {e.accuracy:.3f}, loss {e.loss:.3f}, lowest entropy {lowest:.3f}"
            updates[0](e.samples, text)

        result = train_in(
            output.out,
            task,
            recipe.model,
            options,
            resume=output.resume,
            device=output.device,
            checkpoint_seconds=output.checkpoint_seconds,
            on_evaluation=show,
        )
    _say(result, output.out)
    return result


def _asked_model(arguments: Sequence[str]) -> str:
    """The value of --model, which decides what the other options are."""
    for number, argument in enumerate(arguments):
        if argument.startswith("--model="):
            return argument.removeprefix("--model=")
        if argument == "--model" and number + 1 < len(arguments):
            return arguments[number + 1]
    return ""


def _options(task_name: str, model: str = "") -> Any:
    """A dataclass with the task's and its recipe's options, flat on the command line."""
    flat = tyro.conf.arg(name="")
    recipe = find_recipe(task_name, model)
    known = tuple(recipes_of(task_name))
    hints, default = get_type_hints(recipe.options), recipe.options()
    options = make_dataclass(
        "Options",
        [
            ("output", Annotated[Output, flat]),
            ("task", Annotated[task_class(task_name), flat]),
            ("model", Annotated[Literal[known], _MODEL], field(default=recipe.model)),
            *(
                (part.name, Annotated[hints[part.name], flat], field(default=getattr(default, part.name)))
                for part in fields(recipe.options)
            ),
        ],
    )
    about = task_class(task_name).__doc__
    options.__doc__ = f"Train the {task_name} task: {recipe.summary} (--model {recipe.model}). {about}"
    return options


_MODEL = tyro.conf.arg(help="Which model, and with it which of the options below.")


def _say(result: TrainResult, out: Path) -> None:
    if result.sample_complexity is None:
        print(f"not perfect within {result.samples:,} samples")
    else:
        print(f"perfect on validation after {result.sample_complexity:,} samples")
    free = result.rollout_accuracy
    by_rollout = "" if free is None else f"; {free:.4f} where the model generates every step itself"
    print(f"test accuracy {result.test_accuracy:.4f}{by_rollout}")
    print(f"trained by: {result.path}")
    print(f"rows, weights and figures are in {out}")
