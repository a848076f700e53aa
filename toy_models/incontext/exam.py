"""How does the trained theory model of li2024 do on unseen tasks, and where does it look? For many seeds and prompts.

A column of a testing prompt is a sum of an input pattern, an output pattern and a step, whose products with W p_query
are looked up, and of noise, whose products are computed in the few dimensions that noise has. Along the patterns the
model's output F is the attention on the columns that have them as outputs; the noise has no part in that.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from toy_models.incontext.errors import Errors
from toy_models.incontext.prompts import Prompts, draw_prompts
from toy_models.incontext.space import Space, noise_coordinates
from toy_models.incontext.training import Setup, Weights

KINDS = ("same_pattern_same_step", "other_pattern_same_step", "same_pattern_other_step", "other_pattern_other_step")
"""The kinds of columns of Figure 5: whether pattern and step are the query's."""


@dataclass(frozen=True)
class Exam:
    """Testing prompts of each seed, [seed batch ...]."""

    prompts: Prompts
    noise: Float[Tensor, "seed batch example place r"]
    """The noise on every vector of the examples, in coordinates along `Space.directions`."""

    @staticmethod
    def draw(
        n: int,
        n_examples: int,
        alpha: float,
        errors: Errors,
        length: float,
        space: Space,
        generators: Sequence[torch.Generator],
    ) -> "Exam":
        """n balanced prompts for each seed, with noise of the given length."""
        drawn = [draw_prompts(n, errors.n_patterns, n_examples, alpha, errors, g) for g in generators]
        prompts = Prompts(torch.stack([p.examples for p in drawn]), torch.stack([p.query for p in drawn]))
        shape = prompts.examples.shape[1:]
        noise = [noise_coordinates(shape, space.noise_dimension, length, g) for g in generators]
        return Exam(prompts, torch.stack(noise))

    def to(self, device: torch.device) -> "Exam":
        """The same prompts on another device."""
        return Exam(self.prompts.to(device), self.noise.to(device))

    def vectors(self, space: Space) -> Float[Tensor, "seed batch example place d"]:
        """The examples' vectors."""
        patterns = torch.stack([p[index] for p, index in zip(space.testing, self.prompts.examples)])
        return patterns + self.noise @ space.directions[:, None, None]


@dataclass(frozen=True)
class Scores:
    """p^T W p_query of columns p, for every query pattern and step."""

    columns: Float[Tensor, "seed step query key input output"]
    """By the step and the pattern of the query, and the step, the input and the output of the column."""
    noise: Float[Tensor, "seed step query half r"]
    """Of the noise in either half of a column."""

    @staticmethod
    def of(setup: Setup, space: Space, weights: Weights) -> "Scores":
        """The scores of testing columns under W."""
        m, d = space.testing.shape[-2:]
        basis = setup.features(space.testing, space)
        directions = basis.new_zeros(len(basis), 2, space.noise_dimension, setup.width)
        directions[:, 0, :, :d] = directions[:, 1, :, d : 2 * d] = space.directions
        asked = basis[:, None, :m] + basis[:, 2 * m :, None]  # [seed step query width]
        towards = asked @ weights.mT[:, None]
        pure = towards @ basis.mT[:, None]
        of_input, of_output, of_step = pure.split([m, m, setup.n_steps], dim=-1)
        columns = of_step[..., :, None, None] + of_input[..., None, :, None] + of_output[..., None, None, :]
        noise = torch.einsum("skqw,shrw->skqhr", towards, directions)
        return Scores(columns, noise)


def cot_answers(scores: Scores, exam: Exam, n_examples: Sequence[int]) -> Int[Tensor, "length seed batch step"]:
    """What CoT writes (Algorithm 2) with the first l examples of each prompt, for each l."""
    answers = []
    for length in n_examples:
        written = [exam.prompts.query[..., 0]]
        for step in range(exam.prompts.n_steps):
            keys, outputs = _keys(scores, exam, length, step, written)
            written.append(_winner(keys, outputs, scores))
        answers.append(torch.stack(written[1:], dim=-1))
    return torch.stack(answers)


def icl_answers(scores: Scores, exam: Exam, n_examples: Sequence[int]) -> Int[Tensor, "length seed batch"]:
    """What ICL answers from inputs and labels of the first l examples, for each l.

    The columns of zeros take some of the attention and have no part in the output.
    """
    query = exam.prompts.query[..., 0]
    seed = torch.arange(len(query), device=query.device)[:, None]
    inputs, labels = exam.prompts.examples[..., 0], exam.prompts.examples[..., -1]
    keys = scores.columns[seed[..., None], 0, query[..., None], 0, inputs, labels]
    of_query = scores.noise[seed, 0, query]  # [seed batch half r]
    for half, place in ((0, 0), (1, -1)):
        keys = keys + (exam.noise[..., place, :] @ of_query[:, :, half, :, None]).squeeze(-1)
    return torch.stack([_winner(keys[..., :length], labels[..., :length], scores) for length in n_examples])


def attention_kinds(scores: Scores, exam: Exam) -> Float[Tensor, "kind seed step"]:
    """The attention on the four KINDS of columns, at each step of the true chain, averaged over prompts."""
    n_examples, n_steps = exam.prompts.examples.shape[-2], exam.prompts.n_steps
    shown = exam.prompts.examples[..., :-1].flatten(-2)
    truth = exam.prompts.query
    of_column = torch.arange(n_examples * n_steps + n_steps, device=truth.device) % n_steps
    found = []
    for step in range(n_steps):
        so_far = [truth[..., place] for place in range(step + 1)]
        attention = _keys(scores, exam, n_examples, step, so_far)[0].softmax(-1)
        same_pattern = torch.cat([shown, truth[..., :step]], dim=-1) == truth[..., step, None]
        same_step = of_column[: attention.shape[-1]] == step
        kinds = [
            (same_pattern if pattern else ~same_pattern) & (same_step if at_step else ~same_step)
            for at_step in (True, False)
            for pattern in (True, False)
        ]
        found.append(torch.stack([(attention * kind).sum(-1).mean(-1) for kind in kinds]))
    return torch.stack(found, dim=-1)


def _keys(
    scores: Scores, exam: Exam, length: int, step: int, written: Sequence[Int[Tensor, "seed batch"]]
) -> tuple[Float[Tensor, "seed batch key"], Int[Tensor, "seed batch key"]]:
    """The scores and the outputs of the columns before the query's, which has written z_0, ..., z_step."""
    examples, query = exam.prompts.examples[..., :length, :], written[-1]
    n_seeds, n_steps, m, _, _, _ = scores.columns.shape
    # One flat table for each seed and one index into it: a gather of rows would copy the table for every prompt.
    table = scores.columns[:, step].reshape(n_seeds, -1)
    key_step = torch.arange(n_steps, device=examples.device)
    index = ((query[..., None, None] * n_steps + key_step) * m + examples[..., :-1]) * m + examples[..., 1:]
    shown = table.gather(-1, index.flatten(1)).view(index.shape)
    of_query = scores.noise[torch.arange(n_seeds, device=query.device)[:, None], step, query]  # [seed batch half r]
    by_half = exam.noise[..., :length, :, :].flatten(2, 3) @ of_query.mT
    by_half = by_half.unflatten(2, (length, n_steps + 1))
    shown = (shown + by_half[..., :-1, 0] + by_half[..., 1:, 1]).flatten(-2)
    outputs = [examples[..., 1:].flatten(-2)]
    own = []
    for k in range(step):
        own.append(table.gather(-1, ((query * n_steps + k) * m + written[k]) * m + written[k + 1])[..., None])
        outputs.append(written[k + 1][..., None])
    return torch.cat([shown, *own], dim=-1), torch.cat(outputs, dim=-1)


def _winner(
    keys: Float[Tensor, "seed batch key"], outputs: Int[Tensor, "seed batch key"], scores: Scores
) -> Int[Tensor, "seed batch"]:
    """Greedy decoding (5): the pattern with most attention on the columns that have it as output."""
    attention = keys.softmax(-1)
    votes = attention.new_zeros(*attention.shape[:-1], scores.columns.shape[-1])
    return votes.scatter_add(-1, outputs, attention).argmax(-1)
