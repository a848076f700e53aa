"""How is a LEGO run trained, once for all claims that read it? Until its loss has fallen, and some steps further.

Trainings of more than `KEPT_FROM` steps are kept in the user's cache (COTLENS_CACHE), under a hash of the run and of
the code that trains it: Figures 1, 2, 5, 6 and 7 are about the same models, and training them takes most of the time.
Everything is deterministic, so a claim whose models are not there trains them again.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch

from hf_analysis.models.builtin import room_in_cache
from interp.claims.huang2025._runs import END, LEARNED, LOSSES, LegoRun, after, at_loss
from probes.base import checkpoint
from toy_models.engine.training_run import choose_device
from toy_models.lego.clause_decoder import ClauseDecoder, clause_decoder
from toy_models.lego.training import StageTrainer, train_stage

EVERY = 25
"""The loss of a run is the mean over this many steps, looked at as often."""
KEPT_FROM = 1000
"""Steps from which a training is kept."""
NOT_TRAINING = ("change", "lengths", "n_test")
"""Fields of a run that its training does not depend on."""
TRAINS = (
    "engine/finite_set.py", "lego/clause_decoder.py", "lego/fast_loss.py", "lego/groups.py", "lego/places.py",
    "lego/task.py", "lego/training.py",
)  # fmt: skip
"""The code of `toy_models` that decides what is learned."""


@dataclass
class Taught:
    """A trained run at its points: the steps at length 5 that led there, and the weights at all but the first."""

    run: LegoRun
    updates: dict[str, int]
    weights: dict[str, dict[str, torch.Tensor]]

    def model(self, point: str = END) -> ClauseDecoder:
        """The model as it was at `point`."""
        model = clause_decoder(self.run.decoder, self.run.task, self.run.seed)
        model.load_state_dict(self.weights[point])
        return model

    def models(self) -> Iterator[tuple[str, ClauseDecoder]]:
        """The model at every point that has weights."""
        return ((point, self.model(point)) for point in self.weights)


def taught(run: LegoRun) -> Taught:
    """The run, trained now or before."""
    if run.steps < KEPT_FROM:
        return train(run)
    file = room_in_cache("lego") / f"{identity(run)}.safetensors"
    if file.is_file():
        tensors, state = checkpoint.load(file)
        weights: dict[str, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            point, parameter = name.split("/", 1)
            weights.setdefault(point, {})[parameter] = tensor
        return Taught(
            run, state["updates"], {point: weights[point] for point in state["updates"] if point in weights}
        )
    found = train(run)
    tensors = {f"{point}/{name}": t for point, of in found.weights.items() for name, t in of.items()}
    checkpoint.save(file, tensors, {"updates": found.updates, "run": asdict(run)})
    return found


def identity(run: LegoRun) -> str:
    """A hash of what decides the trained weights: the run's numbers, the code that trains, PyTorch's version."""
    import toy_models

    numbers = {f.name: getattr(run, f.name) for f in fields(run) if f.name not in NOT_TRAINING}
    root = Path(str(toy_models.__file__)).parent
    code = [(root / name).read_text(encoding="utf-8") for name in TRAINS]
    code.append(Path(__file__).read_text(encoding="utf-8"))
    schedule = [LEARNED, LOSSES, run.lowered, run.patience, [asdict(stage) for stage in run.stages]]
    text = json.dumps([numbers, schedule, code, torch.__version__], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def train(run: LegoRun) -> Taught:
    """Trains the run through its stages, and keeps its weights at every point but the first."""
    for steps in (*run.read_at, *(run.lowered or ())[:1]):
        if steps % EVERY:
            raise ValueError(f"a run is looked at every {EVERY} steps, so none can be read or slowed after {steps}")
    model = clause_decoder(run.decoder, run.task, run.seed).to(choose_device("auto"))
    generator = torch.Generator().manual_seed(run.seed + 1_000_000)
    *before, last = run.stages
    for stage in before:
        train_stage(model, run.task, stage, generator)
    trainer = StageTrainer(model, run.task, last, generator)
    updates: dict[str, int] = {}
    weights: dict[str, dict[str, torch.Tensor]] = {}
    end, loss = run.patience, 0.0
    while trainer.update < end:
        trainer.advance()
        loss += trainer.loss / EVERY
        if trainer.update % EVERY:
            continue
        for one in LOSSES:
            point = at_loss(one)
            if loss < one and point not in updates:
                updates[point] = trainer.update
                if one == LEARNED:
                    end = min(run.steps, trainer.update + run.further)
                else:
                    weights[point] = _copy(model)
        since = trainer.update - updates.get(at_loss(LEARNED), trainer.update)
        for steps in run.read_at:
            if since == steps:
                updates[after(steps)], weights[after(steps)] = trainer.update, _copy(model)
        if run.lowered and since == run.lowered[0]:
            trainer.lower(run.lowered[1] / run.rate)
        loss = 0.0
    trainer.finish()
    updates[END], weights[END] = trainer.update, _copy(model)
    return Taught(run, updates, weights)


def _copy(model: ClauseDecoder) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in model.state_dict().items()}
