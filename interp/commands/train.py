"""cotlens train TASK: one training run."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, make_dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from safetensors.torch import save_file

from interp.cli import parse
from interp.console import progress
from interp.core.runs import run_directory
from probes import rows
from probes.base import atomic
from toy_models.engine.decoder import DecoderConfig, weights
from toy_models.engine.run_rows import attention_rows, dependence_rows, outcome_rows, training_rows
from toy_models.engine.splits import require_room
from toy_models.engine.training import Evaluation, TrainConfig, TrainResult, train
from toy_models.task import Task, load_tasks, task_class


@dataclass(frozen=True)
class Output:
    """Where the run goes."""

    out: Path
    """Directory of the run."""
    resume: bool = False
    """Go on with the run in that directory."""
    checkpoint_seconds: float = 20.0
    """Least time between two checkpoints; what is trained after the last one is trained again on --resume."""


def main(arguments: Sequence[str]) -> None:
    """Trains the named task."""
    known = ", ".join(sorted(load_tasks()))
    if not arguments or arguments[0] in ("-h", "--help"):
        print(f"usage: cotlens train TASK --out DIR [options]\n\nThe tasks are: {known}.\n")
        print("cotlens train TASK --help lists a task's options.")
        return
    options = parse(_options(arguments[0]), arguments[1:], f"train {arguments[0]}")
    run_training(options.task, options.decoder, options.training, options.output)


def run_training(task: Task, decoder: DecoderConfig, config: TrainConfig, output: Output) -> TrainResult:
    """Trains in the run directory and leaves rows, weights and figures there."""
    require_room(task, config.n_validation, config.n_test)  # before anything is written
    out = output.out
    parts = {"parameters": task, "decoder": decoder, "training": config}
    identity = {"task": task.name, **{name: asdict(part) for name, part in parts.items()}}  # pyright: ignore
    with run_directory(out, identity, output.resume):
        checkpoint = out / "checkpoint.safetensors"
        with progress(f"training {task.name}", config.budget, "samples") as update:

            def show(e: Evaluation) -> None:
                lowest = min(min(heads) for heads in e.entropies)
                update(e.samples, f"accuracy {e.accuracy:.3f}, loss {e.loss:.3f}, lowest entropy {lowest:.3f}")

            result = train(task, decoder, config, checkpoint, output.checkpoint_seconds, on_evaluation=show)
        write_run(out, task, result, unit=str(config.seed))
    _say(result, out)
    return result


def write_run(out: Path, task: Task, result: TrainResult, unit: str) -> None:
    """Writes rows, weights and figures of a finished run."""
    from interp.figures.style import attention_map, save_figures, training_curves

    condition = "cot" if getattr(task, "cot", False) else "no_cot"
    labels = {"run": task.name, "condition": condition, "unit": unit, "setting": ""}
    table = rows.concat(
        [
            training_rows(result.history, **labels),
            outcome_rows(result, **labels),
            dependence_rows(result, task, **labels),
            attention_rows(result.model, task, result.test, result.samples, **labels, n_inputs=2),
        ]
    )
    rows.write(out / "rows.parquet", table)
    tensors = {name: tensor.contiguous() for name, tensor in weights(result.model).items()}
    atomic.write_file(out / "model.safetensors", lambda path: save_file(tensors, path))
    title = f"{task.name}, {'with' if condition == 'cot' else 'without'} CoT, seed {unit}"
    figures = {"training": training_curves(table, title), "attention": attention_map(table, title)}
    save_figures(out / "figures", figures)


def _options(task_name: str) -> Any:
    """A dataclass with the task's, the decoder's and the training's options, flat on the command line."""
    flat = tyro.conf.arg(name="")
    parts = {
        "output": Output,
        "task": task_class(task_name),
        "decoder": DecoderConfig,
        "training": TrainConfig,
    }
    options = make_dataclass("Options", [(name, Annotated[kind, flat]) for name, kind in parts.items()])
    options.__doc__ = f"Train the {task_name} task. {task_class(task_name).__doc__}"
    return options


def _say(result: TrainResult, out: Path) -> None:
    if result.sample_complexity is None:
        print(f"not perfect within {result.samples:,} samples")
    else:
        print(f"perfect on validation after {result.sample_complexity:,} samples")
    print(f"test accuracy {result.test_accuracy:.4f}, by free-running rollout {result.rollout_accuracy:.4f}")
    print(f"training step: {result.path}")
    print(f"rows, weights and figures are in {out}")
