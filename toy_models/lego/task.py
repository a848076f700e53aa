"""LEGO state tracking: a chain of variables, each the image of the last under a group element (huang2025).

A sentence of length L (section 2.2) has L predicates x_l = g_l(x_{l-1}), then answers x_0 = y_0, ..., x_L = y_L. A
clause is five tokens: (x_l, g_l, x_{l-1}, blank, blank) or (blank, blank, blank, x_l, y_l). A position is a clause:
predicate l stands at l - 1 unless the order is permuted, answer l at L + l. Answer l, for l < L, is supervised with
the state y_{l+1}. The last answer is part of the inputs, unsupervised: the inputs are then the whole sentence, and
`next_clauses` reads the five tokens that follow each position off them. A model may be given `inputs[:, :-1]`, or
the first L + 1 clauses as a prompt.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from toy_models.lego.groups import GroupAction, group_action
from toy_models.task import UNSUPERVISED, Batch, register

BLANK = 0
"""The token of an empty slot."""
CLAUSE = 5
"""Tokens of a clause."""
HEAD, ACTION, TAIL, ANSWERED, STATE = range(CLAUSE)
"""The slots of a clause: x_l, g_l, x_{l-1} of a predicate, x_l and y_l of an answer."""


@register
@dataclass(frozen=True)
class Lego:
    """LEGO sentences over a group action; the tokens are blank, variables, group elements, states, in this order."""

    name: ClassVar[str] = "lego"

    group: str = "C6"
    """The group and what it acts on: C6, S5, A5, D4, S3-regular, C2xS3, ..."""
    length: int = 5
    """Number of predicates in a sentence (the paper's L)."""
    n_variables: int = 170
    """Number of variables; those of a sentence are drawn without replacement."""
    permuted: bool = False
    """Whether the predicates stand in random order, a new one in each sentence."""

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"a LEGO sentence needs a length of at least 1, got {self.length}")
        if self.n_variables < self.length + 1:
            raise ValueError(
                f"a sentence of length {self.length} names {self.length + 1} different variables, got "
                f"n_variables={self.n_variables}; take at least {self.length + 1} or shorten the sentence"
            )
        group_action(self.group)  # refuses an unknown group at once

    @property
    def action(self) -> GroupAction:
        """The group action."""
        return group_action(self.group)

    @cached_property
    def table(self) -> Int[Tensor, "element point"]:
        """The image of each point under each element, counted from 0."""
        return torch.tensor(self.action.action)

    @property
    def first_variable(self) -> int:
        """The token of the first variable."""
        return BLANK + 1

    @property
    def first_element(self) -> int:
        """The token of the first group element."""
        return self.first_variable + self.n_variables

    @property
    def first_state(self) -> int:
        """The token of the first state."""
        return self.first_element + self.action.n_elements

    @property
    def d_vocab(self) -> int:
        return self.first_state + self.action.n_points

    @property
    def n_ctx(self) -> int:
        """Clauses of a sentence: L predicates and L + 1 answers."""
        return 2 * self.length + 1

    @property
    def n_inputs(self) -> int:
        sentences = (
            math.perm(self.n_variables, self.length + 1) * self.action.n_elements**self.length * self.action.n_points
        )
        return sentences * (math.factorial(self.length) if self.permuted else 1)

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        """n sentences: variables without replacement; actions, the first state and the order uniform."""
        length = self.length
        drawn = torch.rand(n, self.n_variables, generator=generator)
        variables = self.first_variable + drawn.topk(length + 1, dim=-1).indices
        actions = torch.randint(0, self.action.n_elements, (n, length), generator=generator)
        states = [torch.randint(0, self.action.n_points, (n,), generator=generator)]
        for step in range(length):
            states.append(self.table[actions[:, step], states[-1]])
        inputs = torch.zeros(n, self.n_ctx, CLAUSE, dtype=torch.int64)
        predicates = torch.stack([variables[:, 1:], self.first_element + actions, variables[:, :-1]], dim=-1)
        if self.permuted:
            order = torch.rand(n, length, generator=generator).argsort(-1)
            predicates = predicates.gather(1, order[..., None].expand_as(predicates))
        inputs[:, :length, :ANSWERED] = predicates
        inputs[:, length:, ANSWERED] = variables
        inputs[:, length:, STATE] = self.first_state + torch.stack(states, dim=-1)
        targets = self.next_clauses(inputs)[..., STATE]
        return Batch(inputs, targets)

    def next_clauses(self, inputs: Int[Tensor, "batch clause slot"]) -> Int[Tensor, "batch clause slot"]:
        """The five tokens after each supervised position, the answers 0 to L - 1; `UNSUPERVISED` elsewhere.

        For sentences of any length, which is read off their shape.
        """
        length = inputs.shape[1] // 2
        following = torch.full_like(inputs, UNSUPERVISED)
        following[:, length:-1] = inputs[:, length + 1 :]
        return following

    def answer_positions(self) -> Int[Tensor, "answer"]:
        """Where the answers 0 to L - 1 stand, the supervised positions."""
        return torch.arange(self.length, 2 * self.length)

    def predicate_positions(self, inputs: Int[Tensor, "batch clause slot"]) -> Int[Tensor, "batch answer"]:
        """Where predicate l + 1, the one about x_l, stands for each of the answers l = 0 to L - 1."""
        asked = inputs[:, self.length : -1, ANSWERED]
        return (asked[:, :, None] == inputs[:, None, : self.length, TAIL]).long().argmax(-1)

    def dependencies(self, batch: Batch) -> Bool[Tensor, "batch query key"]:
        """Answer l depends on predicate l + 1, through the variable both name, and on itself."""
        answers = self.answer_positions().to(batch.inputs.device)
        rows = torch.arange(len(batch), device=batch.inputs.device)[:, None]
        mask = torch.zeros(len(batch), self.n_ctx, self.n_ctx, dtype=torch.bool, device=batch.inputs.device)
        mask[:, answers, answers] = True
        mask[rows, answers, self.predicate_positions(batch.inputs)] = True
        return mask

    def solve(self, inputs: Int[Tensor, "batch clause slot"]) -> Int[Tensor, "batch clause"]:
        """The state of each next answer, from the clauses as they stand.

        Without a predicate about the answered variable there is no answer (`UNSUPERVISED`). If a sentence that was
        tampered with has several, the one that leads to the next answered variable counts, else the first.
        """
        targets = torch.full(inputs.shape[:2], UNSUPERVISED)
        for row, clauses in enumerate(inputs.tolist()):
            for position in range(self.length, 2 * self.length):
                asked, state = clauses[position][ANSWERED], clauses[position][STATE]
                named = [clause for clause in clauses[: self.length] if clause[TAIL] == asked]
                if not named:
                    continue
                expected = [clause for clause in named if clause[HEAD] == clauses[position + 1][ANSWERED]]
                element = (expected or named)[0][ACTION] - self.first_element
                targets[row, position] = self.first_state + self.action.action[element][state - self.first_state]
        return targets
