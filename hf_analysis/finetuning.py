"""What does a pretrained model learn from problems written out in one condition? LoRA adapters, trained here.

The model reads question and continuation, one passage at a time, and is trained on the continuation only: its
tokens are supervised, the question's are context. A budget counts forwarded tokens, question and continuation,
whether supervised or not: two conditions with equal budgets cost the same computation and differ in how many of
their tokens are supervised, which `Step` counts too. With `whole`, every token but the first is supervised, and
equal budgets are equal in both. With a constant learning rate a run passes through the states of all shorter runs,
so that one run gives every dose.

The base weights stay frozen and nothing is dropped out. The seed decides the adapters' initial weights and the
order of the problems, the latter anew for every epoch and without any hidden state. So a checkpoint of adapters,
Adam's state and the position in the data is the whole state: a run that is killed and resumed ends with the same
bits as one that never stopped.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import cross_entropy

from hf_analysis.measurement.store import problems_digest
from hf_analysis.models.loading import LoadedModel
from hf_analysis.text.conditions import Context, find_condition, tokenise
from hf_analysis.text.problems import Problem
from probes import rows
from probes.base import checkpoint


@dataclass(frozen=True)
class FinetuneConfig:
    """Adam (0.9, 0.999) on LoRA adapters of every linear layer."""

    seed: int = 0
    """Decides the adapters' initial weights and the order of the problems."""
    tokens: int = 16_384
    """Forwarded tokens to train on; the passage that reaches the budget is the last."""
    tokens_per_step: int = 512
    """Forwarded tokens per optimiser step, in whole passages; what one step takes too many, the next takes less."""
    lr: float = 1e-3
    """Initial learning rate."""
    rank: int = 16
    """Rank of the adapters; they are scaled by 2, as LoRA's alpha = 2 rank does."""
    max_norm: float = 1.0
    """Gradients are clipped to this norm."""
    decay: bool = True
    """Whether the learning rate falls linearly to 0 over the budget, or stays as it is."""
    whole: bool = False
    """Whether the question is supervised too, but for its first token."""

    def __post_init__(self) -> None:
        for name in ("tokens", "tokens_per_step", "rank"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("lr", "max_norm"):
            if not (math.isfinite(getattr(self, name)) and getattr(self, name) > 0):
                raise ValueError(f"{name} must be a positive number, got {getattr(self, name)}")


@dataclass(frozen=True)
class Step:
    """One optimiser step; the counts are of this step alone."""

    passages: int
    forwarded: int
    """Tokens of questions and continuations."""
    supervised: int
    """Tokens of continuations."""
    loss: float
    """Mean cross-entropy before the step, nats per supervised token."""


@dataclass(frozen=True)
class Finetuned:
    """A model with trained adapters, unmerged, in evaluation mode; and how it got there."""

    model: LoadedModel
    history: tuple[Step, ...]


def finetune(
    loaded: LoadedModel,
    problems: Sequence[Problem],
    condition: str,
    config: FinetuneConfig,
    checkpoint_path: Path | None = None,
    checkpoint_seconds: float = 60.0,
    on_step: Callable[[Step], None] = lambda _: None,
) -> Finetuned:
    """Trains adapters on `problems` under `condition`; resumes from `checkpoint_path` if there is one.

    `loaded` gets the adapters in place: load it again for the base model. `on_step` is called after every step; a
    resumed run repeats, with the same bits, the calls since the last checkpoint.
    """
    tuner = Finetuner(loaded, problems, condition, config)
    if checkpoint_path is not None and checkpoint_path.exists():
        tuner.restore(checkpoint_path)
    return tuner.train(config.tokens, checkpoint_path, checkpoint_seconds, on_step)


class Finetuner:
    """The mutable state of one run."""

    def __init__(
        self, loaded: LoadedModel, problems: Sequence[Problem], condition: str, config: FinetuneConfig
    ) -> None:
        if not problems:
            raise ValueError("no problem to train on")
        self.loaded, self.problems, self.config = loaded, problems, config
        self.condition, self.context = find_condition(condition), Context(problems, config.seed, loaded)
        self.identity = {
            **asdict(config),
            "condition": condition,
            "model": loaded.digest,
            "data": problems_digest(problems),
        }
        add_adapters(loaded, config.rank, config.seed)
        self.adapters = adapters(loaded)
        self.optimiser = torch.optim.Adam(self.adapters.values(), lr=config.lr)
        self.position = 0
        self.history: list[Step] = []

    @property
    def tokens(self) -> int:
        """Forwarded so far."""
        return sum(step.forwarded for step in self.history)

    def train(
        self,
        until: int,
        checkpoint_path: Path | None = None,
        checkpoint_seconds: float = 60.0,
        on_step: Callable[[Step], None] = lambda _: None,
    ) -> Finetuned:
        """Trains on to `until` forwarded tokens, a dose of the run, and saves the state that it ends with.

        The model keeps its adapters and can be trained further. A run that is past that dose is refused.
        """
        if self.history and self.tokens - self.history[-1].forwarded >= until:
            raise ValueError(
                f"the run has seen {self.tokens} tokens, and is asked for the model after {until}; remove its "
                f"checkpoint{f' {checkpoint_path}' if checkpoint_path else ''} to train it again"
            )
        saved = time.monotonic()
        while self.tokens < min(until, self.config.tokens):
            on_step(self.step())
            if checkpoint_path is not None and time.monotonic() - saved >= checkpoint_seconds:
                self.save(checkpoint_path)
                saved = time.monotonic()
        if checkpoint_path is not None:
            self.save(checkpoint_path)
        return self.result()

    def step(self) -> Step:
        """Takes passages up to the next multiple of `tokens_per_step`, and one optimiser step on their mean loss."""
        config, before = self.config, self.tokens
        goal = min((before // config.tokens_per_step + 1) * config.tokens_per_step, config.tokens)
        batch: list[tuple[list[int], int]] = []
        while before + sum(len(ids) for ids, _ in batch) < goal:
            ids, n_question = tokenise(self.loaded, self.condition(self._next(), self.context))
            batch.append((ids, 1 if config.whole else n_question))
        supervised = sum(len(ids) - n_question for ids, n_question in batch)
        self.optimiser.zero_grad(set_to_none=True)
        total = 0.0
        for ids, n_question in batch:
            loss = continuation_losses(self.loaded, ids, n_question).sum() / supervised
            loss.backward()
            total += loss.item()
        if not math.isfinite(total):
            raise ValueError(
                f"the loss is {total} after {before} tokens: training diverged; lower lr ({config.lr:g})"
            )
        torch.nn.utils.clip_grad_norm_(self.adapters.values(), config.max_norm)
        for group in self.optimiser.param_groups:
            group["lr"] = config.lr * (1 - before / config.tokens if config.decay else 1)
        self.optimiser.step()
        self.history.append(Step(len(batch), sum(len(ids) for ids, _ in batch), supervised, total))
        return self.history[-1]

    def result(self) -> Finetuned:
        self.optimiser.zero_grad(set_to_none=True)
        # A new LoadedModel: the old one may have computed its digest before the adapters were there.
        return Finetuned(LoadedModel(self.loaded.name, self.loaded.model, self.loaded.tokenizer), tuple(self.history))

    def save(self, path: Path) -> None:
        """Writes everything the run needs to go on."""
        tensors = {f"adapter.{name}": weight for name, weight in self.adapters.items()}
        tensors |= checkpoint.adam_tensors(self.optimiser)
        history = [asdict(step) for step in self.history]
        checkpoint.save(path, tensors, {"identity": self.identity, "position": self.position, "history": history})

    def restore(self, path: Path) -> None:
        """Takes up the run saved at `path`, which must be of the same configuration, model and data."""
        tensors, state = checkpoint.load(path)
        checkpoint.require_same(path, self.identity, state.get("identity", {}))
        try:
            with torch.no_grad():
                for name, weight in self.adapters.items():
                    weight.copy_(tensors[f"adapter.{name}"])
            self.position, self.history = int(state["position"]), [Step(**step) for step in state["history"]]
            checkpoint.restore_adam(self.optimiser, tensors, started=bool(self.history))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"checkpoint {path} is incomplete: {error!r}") from error

    def _next(self) -> Problem:
        epoch, place = divmod(self.position, len(self.problems))
        order = torch.Generator().manual_seed(1_000_003 * self.config.seed + epoch)
        self.position += 1
        return self.problems[int(torch.randperm(len(self.problems), generator=order)[place])]


def add_adapters(loaded: LoadedModel, rank: int, seed: int) -> None:
    """Puts fresh LoRA adapters on every linear layer of `loaded` but the output's, and freezes all the rest.

    They change nothing yet: one factor of each is zero.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise ValueError("fine-tuning needs peft; run: pip install 'cotlens[finetune]'") from error
    lora = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear", task_type="CAUSAL_LM")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        get_peft_model(loaded.model, lora)  # in place; the wrapper it returns is not needed
    loaded.model.eval()


def adapters(loaded: LoadedModel) -> dict[str, torch.nn.Parameter]:
    """The trainable weights of a model with adapters, by name."""
    return {name: weight for name, weight in loaded.model.named_parameters() if weight.requires_grad}


def continuation_losses(loaded: LoadedModel, ids: Sequence[int], n_question: int) -> Float[Tensor, "pos"]:
    """The cross-entropy of every token after the question, in nats.

    Logits are computed only where one is needed: at the last token of the question and after it.
    """
    if n_question < 1:
        raise ValueError("a question of no token predicts nothing; expected at least one token before the answer")
    row = torch.tensor([list(ids)], device=loaded.device)
    logits = loaded.model(row, logits_to_keep=len(ids) - n_question + 1, use_cache=False).logits
    return cross_entropy(logits[0, :-1].float(), row[0, n_question:].to(logits.device), reduction="none")


@torch.inference_mode()
def loss_rows(
    loaded: LoadedModel, problems: Sequence[Problem], conditions: Sequence[str], *, seed: int = 0, run: str
) -> pd.DataFrame:
    """The mean loss of each problem's continuation under each condition, in nats per token; metric `answer_loss`."""
    context = Context(problems, seed, loaded)
    passages = {
        (name, problem.id): tokenise(loaded, find_condition(name)(problem, context))
        for name in conditions
        for problem in problems
    }
    return rows.table(
        run=run,
        condition=[name for name, _ in passages],
        unit=[unit for _, unit in passages],
        metric="answer_loss",
        scope="answer",
        value=[continuation_losses(loaded, *passage).double().mean().item() for passage in passages.values()],
        n_tokens=[len(ids) - n_question for ids, n_question in passages.values()],
    )


def history_rows(history: Sequence[Step], *, condition: str, seed: int, run: str) -> pd.DataFrame:
    """The training loss of every step and the totals of the run; setting `tokens` counts forwarded tokens."""
    forwarded = [sum(step.forwarded for step in history[: i + 1]) for i in range(len(history))]
    names = {"run": run, "condition": condition, "unit": str(seed), "scope": "train"}
    totals = {
        "forwarded_tokens": forwarded[-1],
        "supervised_tokens": sum(step.supervised for step in history),
        "passages": sum(step.passages for step in history),
    }
    return rows.concat(
        [
            rows.table(
                **names,
                metric="training_loss",
                update=range(1, len(history) + 1),
                setting=[rows.setting(tokens=tokens) for tokens in forwarded],
                value=[step.loss for step in history],
                n_tokens=[step.supervised for step in history],
            ),
            rows.table(**names, metric=list(totals), update=len(history), value=[float(v) for v in totals.values()]),
        ]
    )
