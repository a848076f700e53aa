"""What does a model learn from one kind of text, and nothing else? A small Llama, trained from fresh weights.

Every token but a text's first is supervised, and the end of the text. Runs of two conditions with one seed begin with
the same weights, and read the same problems in the same order, each under its condition, for as many tokens. The
seed and the position in the stream of problems decide every batch, so a checkpoint of weights, Adam's state and that
position is the whole state: a run that is killed and resumed ends with the same bits as one that never stopped.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from hf_analysis.models.loading import LoadedModel
from hf_analysis.scratch.family import training_problem
from hf_analysis.scratch.vocabulary import END, PAD, SPECIAL, START, family_tokenizer
from hf_analysis.text.conditions import Context, find_condition, tokenise
from hf_analysis.text.problems import Problem
from probes.base import checkpoint

IGNORED = -100
"""Marks what is not supervised: padding."""


@dataclass(frozen=True)
class PretrainingConfig:
    """A Llama and how it is trained: Adam (0.9, 0.98), a linear warm-up, then a cosine to a tenth."""

    seed: int = 0
    """Decides the initial weights and the problems."""
    d_model: int = 128
    n_layers: int = 4
    n_heads: int = 4
    d_mlp: int = 512
    context: int = 256
    """The longest text, in tokens."""
    tokens: int = 2_000_000
    """Forwarded tokens to train on, without padding."""
    passages_per_step: int = 16
    lr: float = 2e-3
    warmup: int = 100
    """Steps."""
    max_norm: float = 1.0

    def __post_init__(self) -> None:
        for name in ("d_model", "n_layers", "n_heads", "d_mlp", "tokens", "passages_per_step", "warmup"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.d_model % (2 * self.n_heads):
            raise ValueError(f"d_model {self.d_model} must be a multiple of twice the {self.n_heads} heads")
        if not (math.isfinite(self.lr) and self.lr > 0):
            raise ValueError(f"lr must be a positive number, got {self.lr}")


def fresh_model(config: PretrainingConfig) -> LoadedModel:
    """The model before training."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = family_tokenizer()
    shape = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=config.d_model,
        intermediate_size=config.d_mlp,
        num_hidden_layers=config.n_layers,
        num_attention_heads=config.n_heads,
        num_key_value_heads=config.n_heads,
        max_position_embeddings=config.context,
        tie_word_embeddings=True,
        bos_token_id=SPECIAL.index(START),
        eos_token_id=SPECIAL.index(END),
        pad_token_id=SPECIAL.index(PAD),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        model = LlamaForCausalLM(shape)
    return LoadedModel(f"from scratch, seed {config.seed}", model.eval(), tokenizer)


class Pretraining:
    """The mutable state of one run on texts of one condition; no training problem is like one of `held_out`."""

    def __init__(self, condition: str, config: PretrainingConfig, held_out: Sequence[Problem]) -> None:
        self.config, self.loaded = config, fresh_model(config)
        self.condition, self.context = find_condition(condition), Context((), config.seed, self.loaded)
        self.taken = {problem.solution for problem in held_out}
        self.identity = {**asdict(config), "condition": condition, "held_out": sorted(self.taken)}
        self.weights = dict(self.loaded.model.named_parameters())
        self.optimiser = torch.optim.Adam(self.weights.values(), lr=config.lr, betas=(0.9, 0.98))
        self.position = self.tokens = 0
        self.losses: list[float] = []

    def train(self, until: int, path: Path | None = None, every_seconds: float = 60.0) -> LoadedModel:
        """Trains on to `until` tokens and gives the model in evaluation mode; saves to `path` on the way and then."""
        saved = time.monotonic()
        while self.tokens < min(until, self.config.tokens):
            self.step()
            if path is not None and time.monotonic() - saved >= every_seconds:
                self.save(path)
                saved = time.monotonic()
        if path is not None:
            self.save(path)
        # A new LoadedModel: the old one may have computed its digest.
        return LoadedModel(self.loaded.name, self.loaded.model.eval(), self.loaded.tokenizer)

    def step(self) -> None:
        """One batch of passages, one step of Adam on its mean loss."""
        ids = self._batch()
        labels = ids[:, 1:].masked_fill(ids[:, 1:] == self.loaded.pad, IGNORED)
        loss = cross_entropy(self._logits(ids).flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        if not math.isfinite(loss.item()):
            raise ValueError(f"the loss is {loss.item()} after {self.tokens} tokens; lower lr ({self.config.lr:g})")
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), self.config.max_norm)
        for group in self.optimiser.param_groups:
            group["lr"] = self._rate()
        self.optimiser.step()
        self.tokens += int((ids != self.loaded.pad).sum())
        self.losses.append(loss.item())

    def save(self, path: Path) -> None:
        """Writes everything the run needs to go on."""
        tensors = {f"weight.{name}": weight for name, weight in self.weights.items()}
        state = {"identity": self.identity, "position": self.position, "tokens": self.tokens, "losses": self.losses}
        checkpoint.save(path, tensors | checkpoint.adam_tensors(self.optimiser), state)

    def restore(self, path: Path) -> None:
        """Takes up the run saved at `path`, which must be of the same configuration."""
        tensors, state = checkpoint.load(path)
        checkpoint.require_same(path, self.identity, state.get("identity", {}))
        try:
            with torch.no_grad():
                for name, weight in self.weights.items():
                    weight.copy_(tensors[f"weight.{name}"])
            self.position, self.tokens = int(state["position"]), int(state["tokens"])
            self.losses = [float(loss) for loss in state["losses"]]
            checkpoint.restore_adam(self.optimiser, tensors, started=bool(self.losses))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"checkpoint {path} is incomplete: {error!r}") from error

    def _logits(self, ids: Int[Tensor, "row pos"]) -> Float[Tensor, "row next vocab"]:
        """Of every token but the last; padding is on the right, where no earlier token sees it."""
        return self.loaded.model(ids[:, :-1], use_cache=False).logits

    def _batch(self) -> Int[Tensor, "row pos"]:
        """The next texts of the stream, padded on the right."""
        texts: list[list[int]] = []
        while len(texts) < self.config.passages_per_step:
            problem = training_problem(self.config.seed, self.position)
            self.position += 1
            if problem.solution not in self.taken:
                ids, _ = tokenise(self.loaded, self.condition(problem, self.context))
                texts.append([*ids, SPECIAL.index(END)])
        longest = max(map(len, texts))
        return torch.tensor([text + [self.loaded.pad] * (longest - len(text)) for text in texts])

    def _rate(self) -> float:
        """The learning rate of this step."""
        warm = min(1.0, (len(self.losses) + 1) / self.config.warmup)
        done = min(1.0, self.tokens / self.config.tokens)
        return self.config.lr * warm * (0.55 + 0.45 * math.cos(math.pi * done))
