"""The theory model of li2024: the hooked model run literally against the fast paths, and against its equations."""

import dataclasses

import pytest
import torch

from probes.attention.dependence import dependency_mass
from toy_models.incontext.errors import Errors
from toy_models.incontext.exam import KINDS, Exam, Scores, attention_kinds, cot_answers, icl_answers
from toy_models.incontext.prompts import Prompts
from toy_models.incontext.space import example_columns, query_columns, shortcut_columns
from toy_models.incontext.task import IncontextCot
from toy_models.incontext.theory_model import IncontextAttention, decoded
from toy_models.incontext.training import Setup, loss_and_gradient, sgd, training_prompts

SMALL = Setup(d_x=12, n_training=6, n_testing=5, n_steps=3, n_examples=5, rows=6, xi=0.5)


def generators(seeds: int = 2, offset: int = 0) -> list[torch.Generator]:
    return [torch.Generator().manual_seed(seed + offset) for seed in range(seeds)]


def hooked(setup: Setup, space, weights, seed: int) -> IncontextAttention:
    model = IncontextAttention(setup.d_x, setup.n_steps, space.positions[seed] if setup.added else None)
    with torch.no_grad():
        model.W.copy_(weights[seed])
    return model


class TestModel:
    def test_it_is_equation_2(self):
        """By loops: the columns before the query's, its output half zero, values from the output halves."""
        task = IncontextCot(d_x=12, n_patterns=6, n_testing=5, n_examples=4)
        batch = task.sample(3, torch.Generator().manual_seed(0))
        model = IncontextAttention(12, 3)
        torch.nn.init.normal_(model.W, generator=torch.Generator().manual_seed(1))
        found = model(batch.inputs)
        units = torch.eye(3)
        for row in range(3):
            for position in (5, 12, 13, 14):
                columns = [torch.cat([p, units[i % 3]]) for i, p in enumerate(batch.inputs[row])]
                query = columns[position].clone()
                query[12:24] = 0
                weights = torch.stack([p @ model.W @ query for p in columns[:position]]).softmax(0)
                expected = sum(w * p[12:24] for w, p in zip(weights, columns))
                torch.testing.assert_close(found[row, position], expected, atol=1e-5, rtol=1e-4)

    def test_it_has_the_standard_hooks(self):
        task = IncontextCot()
        batch = task.sample(20, torch.Generator().manual_seed(0))
        model = IncontextAttention(30, 3)
        _, cache = model.run_with_cache(batch.inputs)
        pattern = cache["blocks.0.attn.hook_pattern"]
        assert pattern.shape == (20, 1, 63, 63)
        torch.testing.assert_close(pattern.sum(-1), torch.ones(20, 1, 63))
        assert not pattern[..., 1:, :].triu(1).any()
        assert not pattern[..., 1:, :].diagonal(offset=1, dim1=-2, dim2=-1).any()  # no query sees its own column
        mass = dependency_mass(pattern, task.dependencies(batch))[:, 0, batch.supervised]
        torch.testing.assert_close(mass[:, 0], torch.full((20,), 8 / 60))

    def test_knocking_out_the_needed_columns_by_a_hook_destroys_the_answer(self):
        setup, space, weights = trained_small()
        patterns = space.training[0]
        prompts = next(training_prompts(setup, generators(1, 7)))
        examples, query = patterns[prompts.examples[0]], patterns[prompts.query[0]]
        inputs = torch.cat([example_columns(examples), query_columns(query[:, :-1])], dim=1)
        model, truth = hooked(setup, space, weights, 0), prompts.query[0, :, 1:]
        intact = (decoded(model(inputs)[:, 15:], patterns) == truth).float().mean()
        same = (example_columns(examples)[:, None, :, :12] - query[:, :3, None]).norm(dim=-1) < 1e-3

        def knock_out(scores, hook):
            scores[:, 0, 15:, :15] = scores[:, 0, 15:, :15].masked_fill(same, -torch.inf)
            return scores

        without = model.run_with_hooks(inputs, fwd_hooks=[("blocks.0.attn.hook_attn_scores", knock_out)])
        assert intact == 1
        assert (decoded(without[:, 15:], patterns) == truth).float().mean() < 0.4

    def test_greedy_decoding_takes_the_nearest_pattern_even_of_unequal_lengths(self):
        generator = torch.Generator().manual_seed(0)
        patterns = torch.randn(7, 5, generator=generator)
        output = torch.randn(50, 5, generator=generator)
        assert torch.equal(decoded(output, patterns), torch.cdist(output, patterns).argmin(-1))

    def test_columns_of_another_width_are_refused(self):
        with pytest.raises(ValueError, match="an input and an output of 30 numbers, got 30"):
            IncontextAttention(30, 3)(torch.zeros(1, 4, 30))


def trained_small(added: bool = False):
    setup = dataclasses.replace(SMALL, xi=1e-3, eta=5.0, iterations=150, added=added)
    gs = generators(2)
    space = setup.spaces(gs)
    *_, (_, weights, _) = sgd(setup, space, setup.initial(gs), gs)
    return setup, space, weights


@pytest.mark.parametrize("added", [False, True])
class TestTraining:
    def test_the_gradient_is_that_of_the_hooked_model_by_autograd(self, added):
        setup = dataclasses.replace(SMALL, added=added)
        gs = generators()
        space, weights = setup.spaces(gs), setup.initial(gs)
        prompts = next(training_prompts(setup, gs))
        basis = setup.features(space.training, space)
        losses, gradients = loss_and_gradient(basis @ weights @ basis.mT, prompts)
        for seed in range(2):
            model, patterns = hooked(setup, space, weights, seed), space.training[seed]
            vectors, query = patterns[prompts.examples[seed]], patterns[prompts.query[seed]]
            inputs = torch.cat([example_columns(vectors), query_columns(query[:, :-1])], dim=1)
            error = model(inputs)[:, -3:] - query[:, 1:]
            loss = error.square().sum(-1).mean() / 2
            loss.backward()
            torch.testing.assert_close(losses[seed], loss.detach())
            full = basis[seed].mT @ gradients[seed] @ basis[seed]
            torch.testing.assert_close(full, model.W.grad, atol=1e-6, rtol=1e-4)

    def test_a_trained_model_looks_at_the_right_columns_and_solves_unseen_tasks(self, added):
        setup, space, weights = trained_small(added)
        scores = Scores.of(setup, space, weights)
        exam = Exam.draw(50, 5, 0.6, Errors.none(3, 5), 0.2, space, generators(2, 5))
        kinds = attention_kinds(scores, exam)
        assert kinds[0].min() > 0.8
        assert (cot_answers(scores, exam, [5])[0] == exam.prompts.query[..., 1:]).all()


def test_positions_added_or_appended_give_the_same_training_and_the_same_answers():
    """From the same W in the same coordinates: J maps added columns to appended ones and keeps all products."""
    appended, added = SMALL, dataclasses.replace(SMALL, added=True)
    gs = generators()
    space, start = appended.spaces(gs), 0.01 * appended.initial(gs)
    d = appended.d_x
    along = space.positions.mT @ space.positions  # projects an input half onto the positions
    keep = torch.eye(d) - along
    embed = torch.zeros(2, appended.width, added.width)
    embed[:, :d, :d], embed[:, d : 2 * d, d:], embed[:, 2 * d :, :d] = keep, torch.eye(d), space.positions
    finals = []
    for setup, initial in ((appended, start), (added, embed.mT @ start @ embed)):
        setup = dataclasses.replace(setup, eta=5.0, iterations=40)
        *_, (_, weights, loss) = sgd(setup, space, initial, generators(2, 9))
        exam = Exam.draw(40, 6, 0.5, Errors.offset(0.7, 3, 5), 0.2, space, generators(2, 5))
        scores = Scores.of(setup, space, weights)
        finals.append((loss, attention_kinds(scores, exam), cot_answers(scores, exam, [3, 6])))
        finals[-1] += (icl_answers(scores, exam, [3, 6]),)
    for first, second in zip(*finals):
        torch.testing.assert_close(first, second, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("scale", [0.3, 1.0])
class TestExam:
    """With random W nothing vanishes: every term of a score counts."""

    def case(self, added: bool, scale: float):
        setup = dataclasses.replace(SMALL, added=added, xi=scale)
        gs = generators()
        space, weights = setup.spaces(gs), setup.initial(gs)
        exam = Exam.draw(30, 6, 0.5, Errors.of(0.3, 0.8, 3, 5, "even"), 0.4, space, gs)
        return setup, space, weights, exam, Scores.of(setup, space, weights)

    def test_cot_is_algorithm_2_on_the_hooked_model(self, added, scale):
        setup, space, weights, exam, scores = self.case(added, scale)
        found = cot_answers(scores, exam, [2, 6])
        vectors = exam.vectors(space)
        for seed in range(2):
            patterns = space.testing[seed]
            query = patterns[exam.prompts.query[seed, :, 0]]
            model = hooked(setup, space, weights, seed)
            for row, length in enumerate((2, 6)):
                examples = example_columns(vectors[seed, :, :length])
                assert torch.equal(model.generate(examples, query, patterns, 3), found[row, seed])

    def test_icl_is_the_hooked_model_on_the_padded_prompt(self, added, scale):
        setup, space, weights, exam, scores = self.case(added, scale)
        found = icl_answers(scores, exam, [2, 6])
        vectors = exam.vectors(space)
        for seed in range(2):
            patterns = space.testing[seed]
            query = patterns[exam.prompts.query[seed, :, 0]]
            model = hooked(setup, space, weights, seed)
            for row, length in enumerate((2, 6)):
                examples = shortcut_columns(vectors[seed, :, :length])
                assert torch.equal(model.generate(examples, query, patterns, 1)[:, 0], found[row, seed])

    def test_kinds_are_the_hooked_models_pattern_sorted(self, added, scale):
        setup, space, weights, exam, scores = self.case(added, scale)
        found = attention_kinds(scores, exam)
        torch.testing.assert_close(found.sum(0), torch.ones_like(found[0]))
        vectors = exam.vectors(space)
        prompts = Prompts(exam.prompts.examples[1], exam.prompts.query[1])
        query = space.testing[1][prompts.query]
        inputs = torch.cat([example_columns(vectors[1]), query_columns(query[:, :-1])], dim=1)
        _, cache = hooked(setup, space, weights, 1).run_with_cache(inputs)
        inputs_shown = torch.cat([prompts.examples[..., :-1].flatten(1), prompts.query[:, :-1]], dim=1).tolist()
        for step in range(3):
            sums = dict.fromkeys(KINDS, 0.0)
            for row, attention in enumerate(cache["blocks.0.attn.hook_pattern"][:, 0, 18 + step].tolist()):
                for key, weight in enumerate(attention):
                    pattern = "same" if inputs_shown[row][key] == inputs_shown[row][18 + step] else "other"
                    at = "same" if key % 3 == step else "other"
                    sums[f"{pattern}_pattern_{at}_step"] += weight / 30
            torch.testing.assert_close(found[:, 1, step], torch.tensor(list(sums.values())), atol=1e-5, rtol=1e-4)


def test_seeds_do_not_depend_on_their_batch():
    setup = dataclasses.replace(SMALL, iterations=5)
    both, alone = [], []
    for seeds, kept in ((2, both), (1, alone)):
        gs = generators(seeds)
        space = setup.spaces(gs)
        kept.extend(sgd(setup, space, setup.initial(gs), gs, keep=[0, 3]))
    assert [iteration for iteration, _, _ in both] == [0, 3, 5]
    for (_, of_two, _), (_, of_one, _) in zip(both, alone):
        torch.testing.assert_close(of_two[0], of_one[0], atol=1e-6, rtol=1e-5)
