"""How does a standard encoder learn k-fold composition? Adam on hops of several sizes, told by a head or by a token.

Every training example is one sequence, fresh or of a finite set, labelled at all kN positions: with every hop of the
curriculum if each has a head of its own (wang2025, equation 3), with one of them if a token tells which. The
curriculum is a mixture of all hops, one after another from easy to hard, or the hardest alone (Figure 3 right).
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from transformer_lens.hook_points import HookPoint

from probes.base import checkpoint
from toy_models.engine.finite_set import FiniteSet
from toy_models.engine.loop_run import Progress
from toy_models.kfold.encoder import EncoderConfig, HookedEncoder, Shape, hooked_encoder
from toy_models.kfold.task import KFold

Told = Literal["head", "token"]
Curriculum = Literal["mixture", "stagewise", "hardest"]
SOLVED = 0.99
"""The accuracy per position from which on a hop counts as learned."""


@dataclass(frozen=True)
class HopTraining:
    """Adam (0.9, 0.999) with a constant learning rate."""

    told: Told = "head"
    """How the model is told the hop: each has an output head of its own, or a token in front of the sequence."""
    curriculum: Curriculum = "mixture"
    """Which hops are trained on."""
    token_from: int = 0
    """The first layer in which other positions may attend to the hop token; before it, none computes with the hop."""
    seed: int = 0
    """Decides initial weights and training data."""
    lr: float = 1e-3
    """Learning rate."""
    batch_size: int = 64
    """Sequences per gradient update."""
    budget: int = 100_000
    """Sequences to train on at most, each as often as it is seen."""
    n_sequences: int | None = None
    """Size of the training set, gone through in a new order every epoch; None: every sequence is fresh."""
    eval_every: int = 6_400
    """Sequences between evaluations."""
    n_test: int = 256
    """Sequences for evaluations; drawn apart from the training data, of which a few in 10^4 may be the same."""
    stop_when_solved: bool = True
    """Whether to stop at the first evaluation at which every trained hop has an accuracy of 0.999."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "budget", "eval_every", "n_test"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr must be a positive number, got {self.lr}")
        if self.n_sequences is not None and self.n_sequences < self.batch_size:
            raise ValueError(
                f"a set of n_sequences={self.n_sequences} has no whole batch of batch_size={self.batch_size}; take "
                "more sequences or smaller batches"
            )


@dataclass(frozen=True)
class HopEvaluation:
    """Accuracy and loss (nats) per position of every hop, on test sequences."""

    samples: int
    accuracy: tuple[float, ...]
    loss: tuple[float, ...]


@dataclass(frozen=True)
class HopResult:
    """A trained encoder and how it got there."""

    model: HookedEncoder
    task: KFold
    history: tuple[HopEvaluation, ...]

    def sample_complexity(self, hop_index: int = -1) -> int | None:
        """Sequences seen at the first evaluation with this hop learned; None if that never happened."""
        return next((e.samples for e in self.history if e.accuracy[hop_index] >= SOLVED), None)


def hop_task(k: int, n: int, told: Told, seed: int) -> KFold:
    """The cyclic task with all hops up to k, in the form that tells the hop this way."""
    return KFold(k=k, n=n, cyclic=True, hop_token=told == "token", hidden_seed=seed)


def fresh_encoder(task: KFold, encoder: EncoderConfig, seed: int) -> HookedEncoder:
    """An untrained encoder for `task`: one readout, or one per hop if no token tells the hop."""
    n_readouts = 1 if task.hop_token else len(task.hops)
    return hooked_encoder(
        encoder, Shape(task.d_vocab, task.n_ctx, task.n, n_readouts, int(task.hop_token), task.n), seed
    )


def hide_token(model: HookedEncoder, until: int) -> None:
    """Lets no other position attend to the first one in the layers before `until`, for good."""

    def hidden(
        tensor: Float[Tensor, "batch head query key"], *, hook: HookPoint
    ) -> Float[Tensor, "batch head query key"]:
        first = torch.zeros(tensor.shape[-2:], dtype=torch.bool, device=tensor.device)
        first[1:, 0] = True
        return tensor.masked_fill(first, -torch.inf)

    for block in model.blocks[:until]:
        block.attn.hook_attn_scores.add_hook(hidden, is_permanent=True)


def train_hops(
    k: int, n: int, encoder: EncoderConfig, config: HopTraining, device: torch.device | str = "cpu"
) -> HopResult:
    """Trains until solved or out of budget; the seed also draws the hidden permutations."""
    task = hop_task(k, n, config.told, config.seed)
    model = fresh_encoder(task, encoder, config.seed)
    hide_token(model, config.token_from)
    test = task.sample(config.n_test, torch.Generator().manual_seed(config.seed + 2_000_000)).inputs
    loop = HopLoop(
        model.to(device), task, test.to(device), torch.Generator().manual_seed(config.seed + 1_000_000),
        curriculum=config.curriculum, lr=config.lr, batch_size=config.batch_size, budget=config.budget,
        eval_every=config.eval_every, n_sequences=config.n_sequences,
    )  # fmt: skip
    for _ in loop:
        accuracy = loop.history[-1].accuracy
        if config.stop_when_solved and min(accuracy[-1:] if config.curriculum == "hardest" else accuracy) >= 0.999:
            break
    return HopResult(model, task, tuple(loop.history))


class HopLoop:
    """Adam on the hops of a curriculum; stops at every evaluation, which may take the curriculum further.

    Sequences are drawn on the CPU and moved to the model's device.
    """

    def __init__(
        self,
        model: HookedEncoder,
        task: KFold,
        test: Int[Tensor, "batch pos"],
        generator: torch.Generator,
        *,
        curriculum: Curriculum,
        lr: float,
        batch_size: int,
        budget: int,
        eval_every: int,
        n_sequences: int | None = None,
    ) -> None:
        self.model, self.task, self.test, self.generator = model, task, test, generator
        self.curriculum: Curriculum = curriculum
        self.batch_size, self.budget, self.eval_every = batch_size, budget, eval_every
        self.optimiser = torch.optim.Adam(model.parameters(), lr=lr, fused=True)
        self.set = None
        if n_sequences is not None:
            self.set = FiniteSet(task, n_sequences, batch_size, generator.initial_seed())
        self.samples, self.updates = 0, 0
        self.history = [evaluated(model, task, test, 0)]

    def __iter__(self) -> "HopLoop":
        return self

    def __next__(self) -> Progress:
        if self.samples >= self.budget:
            raise StopIteration
        allowed = allowed_hops(self.curriculum, self.history[-1].accuracy)
        due, losses = False, []
        while not (due or self.samples == self.budget):
            size = min(self.batch_size, self.budget - self.samples)
            inputs, drawn = self._batch(size, len(allowed))
            loss = _training_loss(self.model, self.task, inputs.to(self.test.device), allowed, drawn)
            self.optimiser.zero_grad(set_to_none=True)
            loss.backward()
            self.optimiser.step()
            due = (self.samples + size) // self.eval_every > self.samples // self.eval_every
            self.samples, self.updates = self.samples + size, self.updates + 1
            losses.append(loss.item())
        self.history.append(evaluated(self.model, self.task, self.test, self.samples))
        return Progress(self.samples, self.updates, sum(losses) / len(losses))

    def _batch(self, size: int, n_hops: int) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch"] | None]:
        """Sequences, and which of the hops a token tells each; an example of a finite set keeps its own."""
        if self.set is not None:
            rows = self.set.rows(self.updates)[:size]
            return self.set.inputs[rows], rows % n_hops
        inputs = self.task.sample(size, self.generator).inputs
        drawn = torch.randint(0, n_hops, (size,), generator=self.generator) if self.task.hop_token else None
        return inputs, drawn

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Everything but the model's weights."""
        tensors = checkpoint.adam_tensors(self.optimiser) | {"generator": self.generator.get_state()}
        history = [asdict(found) for found in self.history]
        return tensors, {"samples": self.samples, "updates": self.updates, "history": history}

    def load_state(self, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Takes the loop up where `state` left it."""
        self.samples, self.updates = int(state["samples"]), int(state["updates"])
        checkpoint.restore_adam(self.optimiser, tensors, started=self.updates > 0)
        self.generator.set_state(tensors["generator"])
        self.history = [
            HopEvaluation(found["samples"], tuple(found["accuracy"]), tuple(found["loss"]))
            for found in state["history"]
        ]


def _training_loss(
    model: HookedEncoder,
    task: KFold,
    inputs: Int[Tensor, "batch pos"],
    hops: list[int],
    drawn: Int[Tensor, "batch"] | None,
) -> Float[Tensor, ""]:
    """Mean cross-entropy: all `hops` of every sequence from their heads, or the one `drawn`, told by the token."""
    results = task.results(inputs)
    if not task.hop_token or drawn is None:
        return F.cross_entropy(model(inputs)[:, hops].flatten(0, 2), results[:, hops].flatten())
    hop = torch.tensor(hops)[drawn].to(inputs.device)
    logits = hop_logits(model, task, inputs, hop)
    return F.cross_entropy(
        logits.flatten(0, 1), results[torch.arange(len(inputs), device=inputs.device), hop].flatten()
    )


def allowed_hops(curriculum: Curriculum, accuracy: Sequence[float]) -> list[int]:
    """The indices of the hops to train on, given each hop's accuracy.

    Stagewise: all hops up to the first that is not learned yet; those before it stay, or they would be forgotten.
    """
    hardest = len(accuracy) - 1
    if curriculum == "hardest":
        return [hardest]
    if curriculum == "mixture":
        return list(range(hardest + 1))
    current = next((index for index, value in enumerate(accuracy) if value < SOLVED), hardest)
    return list(range(current + 1))


def hop_logits(
    model: HookedEncoder, task: KFold, inputs: Int[Tensor, "batch pos"], hop: Int[Tensor, "batch"]
) -> Float[Tensor, "batch position n"]:
    """Logits of the hop with index `hop[b]` for sequence b at its kN positions."""
    if not task.hop_token:
        return model(inputs)[torch.arange(len(inputs), device=inputs.device), hop]
    return model(with_hop(task, inputs, hop))[:, 0, 1:]


def with_hop(
    task: KFold, inputs: Int[Tensor, "batch pos"], hop: Int[Tensor, "batch"] | int
) -> Int[Tensor, "batch pos"]:
    """`inputs` with their hop token, if they have one, replaced."""
    if not task.hop_token:
        return inputs
    inputs = inputs.clone()
    inputs[:, 0] = task.n + hop
    return inputs


@torch.no_grad()
def evaluated(model: HookedEncoder, task: KFold, inputs: Int[Tensor, "batch pos"], samples: int) -> HopEvaluation:
    """Every hop on every sequence."""
    results = task.results(inputs)
    accuracy, loss = [], []
    for index in range(len(task.hops)):
        logits = hop_logits(model, task, inputs, torch.full((len(inputs),), index, device=inputs.device))
        targets = results[:, index]
        accuracy.append((logits.argmax(-1) == targets).double().mean().item())
        loss.append(F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item())
    return HopEvaluation(samples, tuple(accuracy), tuple(loss))
