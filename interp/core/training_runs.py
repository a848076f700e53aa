"""What does a training run leave, and how is it loaded again? A directory with rows, weights and figures.

`train_in` leaves it, `load_run` gives back the model with its task, its untrained twin and its test inputs; both work
for every recipe of `toy_models`.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file

from interp.core.reproduce import command
from interp.core.runs import read_config, require_same_versions, run_directory
from probes import rows
from probes.base import checkpoint
from probes.base.counts import counts
from probes.hooked.points import Hooked, n_heads, n_layers
from toy_models.engine.forward import Reader
from toy_models.engine.recipe import Recipe, find_recipe, identity
from toy_models.engine.run_rows import attention_rows, dependence_rows, outcome_rows, training_rows
from toy_models.engine.training_run import Device, Evaluation, TrainResult, choose_device, complete
from toy_models.engine.weights import load_weights, weights
from toy_models.task import Batch, Task, task_class

WEIGHTS = "model.safetensors"
SHOWN = 2
"""Sequences of tokens whose attention is kept one by one."""


@dataclass(frozen=True)
class FinishedRun:
    """A trained model, its untrained twin, and the test inputs of its run."""

    task: Task
    recipe: Recipe
    model: Hooked
    untrained: Hooked
    test: Batch
    unit: str
    """The seed."""

    def __repr__(self) -> str:
        sizes = counts(layer=n_layers(self.model), head=n_heads(self.model), test_input=len(self.test))
        return f"FinishedRun({self.task!r}; seed {self.unit}; {sizes}; .model, .untrained, .test)"

    @property
    def read(self) -> Reader:
        """Logits over tokens from the model's output."""
        return self.recipe.reader(self.task)


def train_in(
    out: Path,
    task: Task,
    model: str = "",
    options: Any = None,
    *,
    resume: bool = False,
    device: Device = "auto",
    checkpoint_seconds: float = 20.0,
    on_evaluation: Callable[[Evaluation, int], None] = lambda _evaluation, _budget: None,
) -> TrainResult:
    """Trains one of the task's models in the directory `out` and leaves rows, weights and figures there.

    What cannot be trained is refused before anything is written. `on_evaluation` gets the budget in samples too.
    """
    recipe = find_recipe(task.name, model)
    options = recipe.options() if options is None else options
    if not checkpoint_seconds >= 0:  # nor is NaN
        raise ValueError(f"--checkpoint-seconds must be 0 or more, got {checkpoint_seconds:g}")
    run = recipe.start(task, options, choose_device(device))
    with run_directory(out, identity(task, recipe, options), resume):
        kept = out / "checkpoint.safetensors"
        if kept.exists() and not (out / "rows.parquet").exists():
            require_same_versions(out)
        found = complete(run, kept, checkpoint_seconds, lambda e: on_evaluation(e, run.budget))
        write_run(out, task, found, unit=str(recipe.seed(options)))
    return found


def write_run(out: Path, task: Task, result: TrainResult, unit: str) -> None:
    """Writes rows, weights and figures of a finished run."""
    from interp.figures.style import attention_map, save_figures, training_curves

    condition = condition_of(task)
    labels = {"run": task.name, "condition": condition, "unit": unit, "setting": ""}
    shown = SHOWN if result.test.inputs.ndim == 2 else 0
    table = rows.concat(
        [
            training_rows(result.history, **labels),
            outcome_rows(result, **labels),
            dependence_rows(result, task, **labels),
            attention_rows(result.model, task, result.test, result.samples, **labels, n_inputs=shown),
        ]
    )
    rows.write(out / "rows.parquet", table)
    checkpoint.save(out / WEIGHTS, weights(result.model), {"task": task.name})  # any reader of safetensors reads it
    title = f"{task.name}, {'with' if condition == 'cot' else 'without'} CoT, seed {unit}"
    figures = {"training": training_curves(table, title), "attention": attention_map(table, title)}
    save_figures(out / "figures", figures)


def condition_of(task: Task) -> str:
    """Whether the task writes its steps: `cot` or `no_cot`. A LEGO sentence always does."""
    return "cot" if getattr(task, "cot", task.name == "lego") else "no_cot"


def load_run(directory: Path | str) -> FinishedRun:
    """The run that `cotlens train` left in `directory`, on the CPU; a ValueError says what is missing or wrong."""
    directory = Path(directory)
    config = read_config(directory)
    missing = [name for name in ("task", "parameters") if name not in config]
    if missing:
        kind = config.get("command") or config.get("claim") or "another kind"
        raise ValueError(f"{directory} is a run of {kind}, not of cotlens train: its config has no {missing[0]!r}")
    stored = directory / WEIGHTS
    if not stored.is_file():
        again = command("train", config["task"], options={"model": config.get("model")}, out=str(directory))
        raise ValueError(f"{directory} has no {WEIGHTS}: finish it with {again} --resume and its config's options")
    kind = task_class(config["task"])
    recipe = find_recipe(config["task"], config.get("model", ""))
    try:
        task = kind(**{name: _frozen(value) for name, value in config["parameters"].items()})
        options = _built(recipe.options, {field.name: config[field.name] for field in fields(recipe.options)})
    except (TypeError, KeyError) as error:
        raise ValueError(f"{directory / 'config.json'} does not describe a run of this version: {error}") from error
    seed = recipe.seed(options)
    model = recipe.fresh(task, options, seed)
    try:
        load_weights(model, _tensors(stored))
    except SafetensorError as error:
        raise ValueError(f"{stored} is damaged: {error}") from error
    untrained = recipe.fresh(task, options, seed + 1)
    return FinishedRun(task, recipe, model.eval(), untrained.eval(), recipe.test(task, options), str(seed))


def _tensors(file: Path) -> dict[str, torch.Tensor]:
    """The weights in a file, which earlier versions wrote without a checksum."""
    with safe_open(file, "pt") as opened:
        sealed = "state" in (opened.metadata() or {})
    return checkpoint.load(file)[0] if sealed else load_file(file)


def _built(kind: type, values: dict[str, Any]) -> Any:
    """An instance of a dataclass, and of the dataclasses within it, from what JSON made of it."""
    hints = get_type_hints(kind)
    nested = {name for name, hint in hints.items() if hasattr(hint, "__dataclass_fields__")}
    return kind(
        **{name: _built(hints[name], value) if name in nested else _frozen(value) for name, value in values.items()}
    )


def _frozen(value: Any) -> Any:
    """JSON's lists as the tuples that frozen dataclasses hold."""
    return tuple(_frozen(part) for part in value) if isinstance(value, list) else value
