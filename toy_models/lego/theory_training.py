"""How does the theory model of huang2025 learn? Algorithm 1, and Algorithm 2 with recursive self-training.

Gradient descent on fresh sentences. Stage 1 trains W on sentences of length 1 with uniform attention; the five slots
have weights of their own, so each is trained by itself. Stage 2 trains Q alone on the loss of the state (slot 5), and
Algorithm 2 goes on with it: at stage k on sentences of length 2^k whose answers come from the model of stage k - 1.

Variables are many: one appears in a sentence with probability of order 1 / n, so learning rates of what is learned
for each of them (slot 4 and Q) are given in units of the number n of variables.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from toy_models.lego.task import ANSWERED, STATE, Lego
from toy_models.lego.theory_model import LegoTheory


@dataclass(frozen=True)
class Descent:
    """Plain gradient descent."""

    lr: float
    """Learning rate; for what is learned per variable, in units of the number of variables."""
    n_updates: int
    """Updates at most."""
    batch: int
    """Fresh sentences in each update."""

    def __post_init__(self) -> None:
        if not (self.lr > 0 and self.n_updates >= 1 and self.batch >= 1):
            raise ValueError(f"gradient descent needs a positive lr, updates and sentences, got {self}")


def train_slot(
    model: LegoTheory, task: Lego, slot: int, descent: Descent, generator: torch.Generator, bound: float = 0.0
) -> float:
    """Stage 1 for one slot: W of that slot on one-step sentences; returns the loss of the last update, in nats.

    Ends before its last update if the running mean of the losses is at most `bound`.
    """
    one_step = replace(task, length=1)
    weights = model.mlp.W.detach()[slot].requires_grad_()  # shares its storage with W
    lr = descent.lr * (task.n_variables if slot == ANSWERED else 1)
    loss, running = torch.zeros((), device=weights.device), float("inf")
    for _ in range(descent.n_updates):
        clauses = one_step.sample(descent.batch, generator).inputs.to(weights.device)
        uniform = torch.full((descent.batch, 2), 0.5, device=weights.device)
        loss = F.cross_entropy(model.slot_logits(clauses[:, :2], uniform, slot, weights), clauses[:, 2, slot])
        (gradient,) = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            weights.sub_(gradient, alpha=lr)
        if bound > 0 and (running := _running_mean(running, loss.item())) <= bound:
            break
    return loss.item()


def _running_mean(before: float, loss: float, smoothing: float = 0.8) -> float:
    """The mean of the losses of the last few updates; the past counts `smoothing` in it."""
    return loss if before == float("inf") else smoothing * before + (1 - smoothing) * loss


def state_loss(model: LegoTheory, clauses: Int[Tensor, "batch clause five"], answer: int) -> Float[Tensor, ""]:
    """Loss_5^{L, l} (6b) with l = answer + 1: the state after `answer`, from whole sentences of length L; nats."""
    position = clauses.shape[1] // 2 + answer
    seen = clauses[:, : position + 1]
    pattern = model.attn.pattern(seen, torch.tensor([position], device=seen.device))[:, 0, 0]
    logits = model.slot_logits(seen, pattern, STATE, model.mlp.W.detach()[STATE])
    return F.cross_entropy(logits, clauses[:, position + 1, STATE])


def attention_updates(
    model: LegoTheory, task: Lego, answers: Sequence[int], descent: Descent, generator: torch.Generator,
    teacher: LegoTheory | None = None,
) -> Iterator[float]:  # fmt: skip
    """Updates of stage 2: Q on the summed losses of the states after `answers`; yields a loss, then updates.

    With a `teacher` the answers are the teacher's own (Definition 5.1), up to the last one that is needed.
    """
    blocks = (model.attn.Q_43, model.attn.Q_44)
    lr = descent.lr * task.n_variables
    for _ in range(descent.n_updates):
        clauses = task.sample(descent.batch, generator).inputs.to(model.mlp.W.device)
        if teacher is not None:
            clauses = self_labelled(teacher, clauses, max(answers) + 1)
        loss = torch.stack([state_loss(model, clauses, answer) for answer in answers]).sum()
        yield loss.item()
        gradients = torch.autograd.grad(loss, blocks)
        with torch.no_grad():
            for block, gradient in zip(blocks, gradients):
                block.sub_(gradient, alpha=lr)


def self_train(
    model: LegoTheory, task: Lego, bound: float, descent: Descent, generator: torch.Generator,
    teacher: LegoTheory | None,
) -> tuple[int, float]:  # fmt: skip
    """One stage of Algorithm 2: descends on Loss_5^{L,2} until it is at most `bound`; returns updates and loss.

    The loss of an update is that of its batch; what is compared and returned is a running mean.
    """
    running, taken = float("inf"), 0
    for taken, loss in enumerate(attention_updates(model, task, [1], descent, generator, teacher)):
        running = _running_mean(running, loss)
        if running <= bound:
            return taken, running
    return taken + 1, running


@torch.no_grad()
def next_answers(
    model: LegoTheory, clauses: Int[Tensor, "batch clause five"]
) -> tuple[Int[Tensor, "batch"], Int[Tensor, "batch"]]:
    """The variable and the state that the model takes to come next, greedily; the blanks before them are given."""
    last = torch.tensor([clauses.shape[1] - 1], device=clauses.device)
    pattern = model.attn.pattern(clauses, last)[:, 0, 0]
    variable, state = (model.slot_logits(clauses, pattern, slot).argmax(-1) for slot in (ANSWERED, STATE))
    return variable, state


def self_labelled(
    model: LegoTheory, clauses: Int[Tensor, "batch clause five"], n_answers: int
) -> Int[Tensor, "batch clause five"]:
    """The sentences with the answers 1 to `n_answers` as the model generates them, each from those before."""
    clauses, first = clauses.clone(), clauses.shape[1] // 2 + 1
    for position in range(first, first + n_answers):
        clauses[:, position, ANSWERED], clauses[:, position, STATE] = next_answers(model, clauses[:, :position])
    return clauses


@torch.no_grad()
def all_right(model: LegoTheory, clauses: Int[Tensor, "batch clause five"]) -> Bool[Tensor, "batch"]:
    """Whether every answer that the model generates by itself is right, by sentence.

    A sentence with a wrong answer is given up at once: what follows cannot make it right.
    """
    right = torch.ones(len(clauses), dtype=torch.bool, device=clauses.device)
    for position in range(clauses.shape[1] // 2 + 1, clauses.shape[1]):
        rows = right.nonzero().squeeze(-1)
        if not len(rows):
            break
        variable, state = next_answers(model, clauses[rows, :position])
        truth = clauses[rows, position]
        right[rows] = (variable == truth[:, ANSWERED]) & (state == truth[:, STATE])
    return right


@torch.no_grad()
def sampled_accuracy(model: LegoTheory, clauses: Int[Tensor, "batch clause five"]) -> Float[Tensor, "batch"]:
    """Acc_L (5) by sentence: the probability that an answer drawn from the model is right, mean over the answers.

    Each is given the true answers before it. The blanks of an answer, which no theorem is about, are given too.
    """
    length = clauses.shape[1] // 2
    total = torch.zeros(len(clauses), device=clauses.device, dtype=model.mlp.W.dtype)
    for position in range(length, 2 * length):
        seen, truth = clauses[:, : position + 1], clauses[:, position + 1]
        pattern = model.attn.pattern(seen, torch.tensor([position], device=clauses.device))[:, 0, 0]
        right = torch.ones_like(total)
        for slot in (ANSWERED, STATE):
            odds = model.slot_logits(seen, pattern, slot).softmax(-1)
            right = right * odds.gather(1, truth[:, slot, None])[:, 0]
        total = total + right
    return total / length


@dataclass(frozen=True)
class Routing:
    """Where the answers of sentences look, averaged over sentences: the last answer that is followed by another."""

    predicate: float
    """Attention on the predicate about its variable."""
    answer: float
    """Attention on itself."""

    @property
    def error(self) -> float:
        """epsilon_attn (19): attention on neither."""
        return 1 - self.predicate - self.answer

    @property
    def gap(self) -> float:
        """Delta (20), of the means."""
        return abs(self.predicate - self.answer)


@torch.no_grad()
def routing(model: LegoTheory, task: Lego, n_sentences: int, generator: torch.Generator) -> Routing:
    """The routing of the last answer but one, which sees the most clauses."""
    clauses = task.sample(n_sentences, generator).inputs.to(model.mlp.W.device)
    position = 2 * task.length - 1
    pattern = model.attn.pattern(clauses[:, :-1], torch.tensor([position], device=clauses.device))[:, 0, 0]
    predicate = pattern.gather(1, task.predicate_positions(clauses)[:, -1:]).mean()
    return Routing(predicate.item(), pattern[:, position].mean().item())


@dataclass(frozen=True)
class Entries:
    """The entries of one block of Q between variables."""

    diagonal: float
    """Mean of the diagonal."""
    other: float
    """Mean absolute value off the diagonal."""
    largest_other: float


def entries(block: Float[Tensor, "d d"], task: Lego) -> Entries:
    """Diagonal and other entries of Q_{4,3} or Q_{4,4}; blanks, elements and states stand in neither slot."""
    first, last = task.first_variable, task.first_element
    between = block.detach()[first:last, first:last]
    other = between[~torch.eye(len(between), dtype=torch.bool, device=between.device)].abs()
    return Entries(between.diag().mean().item(), other.mean().item(), other.max().item())
