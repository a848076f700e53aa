"""Prompts of in-context examples: tasks, balance, geometry, noise, and what is refused."""

import math

import pytest
import torch

from toy_models.incontext.errors import Errors
from toy_models.incontext.prompts import draw_prompts, n_similar
from toy_models.incontext.space import Space, features, noise_coordinates
from toy_models.incontext.task import IncontextCot
from toy_models.task import UNSUPERVISED


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("m", "k"), [(20, 3), (5, 3), (6, 4), (4, 1)])
class TestPrompts:
    def drawn(self, m: int, k: int, n: int = 0):
        return draw_prompts(n or 3 * m, m, 12, 0.4, Errors.none(k, m), generator())

    def test_every_step_is_one_function_of_the_pattern_in_each_prompt(self, m, k):
        prompts = self.drawn(m, k)
        for examples, query in zip(prompts.examples.tolist(), prompts.query.tolist()):
            for step in range(k):
                table = {}
                for chain in [*examples, query]:
                    assert table.setdefault(chain[step], chain[step + 1]) == chain[step + 1]
                assert len(set(table.values())) == len(table), "two patterns have one successor"

    def test_step_k_is_k_times_step_one(self, m, k):
        """f_k goes k places along the cycle on which f_1 goes one place."""
        prompts = draw_prompts(4 * m, m, 40, 0.1, Errors.none(k, m), generator())
        for examples in prompts.examples.tolist():
            first = {chain[0]: chain[1] for chain in examples}
            for chain in examples:
                for step in range(1, k):
                    at = chain[step]
                    for _ in range(step + 1):
                        at = first.get(at)
                    assert at is None or at == chain[step + 1]

    def test_every_pattern_is_the_querys_input_equally_often_at_every_step(self, m, k):
        query = self.drawn(m, k).query
        for step in range(k):
            assert query[:, step].bincount(minlength=m).tolist() == [3] * m

    def test_a_part_of_a_block_is_balanced_up_to_one(self, m, k):
        query = self.drawn(m, k, n=m + 2).query
        for step in range(k):
            counts = query[:, step].bincount(minlength=m)
            assert counts.max() - counts.min() <= 2

    def test_the_share_of_similar_examples_holds_for_every_prefix(self, m, k):
        prompts = self.drawn(m, k)
        similar = prompts.examples[..., 0] == prompts.query[:, None, 0]
        for length in range(1, 13):
            assert (prompts.first(length).examples.shape[1], similar[:, :length].sum(1).unique().tolist()) == (
                length,
                [math.ceil(round(0.4 * length, 9))],
            )

    def test_shuffling_keeps_every_example(self, m, k):
        prompts = self.drawn(m, k)
        shuffled = prompts.shuffled(generator(1))
        assert not torch.equal(shuffled.examples, prompts.examples)
        for before, after in zip(prompts.examples.tolist(), shuffled.examples.tolist()):
            assert sorted(before) == sorted(after)


def test_queries_and_their_chains_are_uniform():
    """A row of a balanced block is a uniform task: pairs (z_0, z_1) are all ordered pairs of distinct patterns."""
    query = draw_prompts(20_000, 5, 1, 1.0, Errors.none(2, 5), generator()).query
    counts = torch.zeros(5, 5).index_put_((query[:, 0], query[:, 1]), torch.ones(len(query)), accumulate=True)
    assert counts.diagonal().sum() == 0
    assert counts[~torch.eye(5, dtype=torch.bool)].sub(1000).abs().max() < 130  # about four standard deviations


def test_examples_may_be_similar_by_chance_and_the_rest_of_the_prompt_is_as_before():
    prompts = draw_prompts(4000, 10, 8, 0.25, Errors.none(2, 10), generator(), by_chance=True)
    similar = (prompts.examples[..., 0] == prompts.query[:, None, 0]).sum(1)
    expected = [math.comb(8, n) * 0.25**n * 0.75 ** (8 - n) for n in range(9)]
    shares = similar.bincount(minlength=9) / 4000
    assert (shares - torch.tensor(expected)).abs().max() < 0.03  # about four standard deviations
    asked = prompts.examples[..., 0] == prompts.query[:, None, 0]
    assert (prompts.examples[..., -1] == prompts.query[:, None, -1])[asked].all()


def test_rounding_does_not_add_an_example():
    assert [n_similar(0.4, n) for n in (1, 5, 10, 20)] == [1, 2, 4, 8]
    assert n_similar(0.1, 30) == 3


class TestSpace:
    space = Space.draw(30, 20, 10, 3, generator())

    def test_patterns_positions_and_noise_are_orthonormal(self):
        for vectors in (
            torch.cat([self.space.training, self.space.positions]),
            torch.cat([self.space.testing, self.space.positions, self.space.directions]),
        ):
            torch.testing.assert_close(vectors @ vectors.T, torch.eye(len(vectors)), atol=1e-5, rtol=0)

    def test_testing_patterns_are_combinations_of_training_patterns_and_differ_from_them(self):
        inside = self.space.testing @ self.space.training.T
        torch.testing.assert_close(inside.norm(dim=-1), torch.ones(10))
        assert inside.abs().max() < 0.95

    def test_noise_has_its_length(self):
        noise = noise_coordinates((7, 4), self.space.noise_dimension, 0.2, generator()) @ self.space.directions
        torch.testing.assert_close(noise.norm(dim=-1), torch.full((7, 4), 0.2))

    @pytest.mark.parametrize("added", [False, True])
    def test_features_are_orthonormal(self, added):
        basis = features(self.space.training, 3, self.space.positions if added else None)
        torch.testing.assert_close(basis @ basis.T, torch.eye(43), atol=1e-5, rtol=0)

    def test_too_many_patterns_are_refused(self):
        with pytest.raises(ValueError, match="2 <= M' <= M <= d - K, got M'=10, M=28, d=30, K=3"):
            Space.draw(30, 28, 10, 3, generator())


class TestTask:
    def test_the_default_is_the_training_prompt_of_the_paper(self):
        task = IncontextCot()
        batch = task.sample(20, generator())
        assert batch.inputs.shape == (20, 20 * 3 + 3, 60)
        assert batch.supervised.tolist() == [60, 61, 62]
        halves = batch.inputs.unflatten(-1, (2, 30))
        torch.testing.assert_close(halves[:, 1:60, 0][:, 0::3], halves[:, :59, 1][:, 0::3])  # an output is an input
        assert (halves[:, -1, 1] == 0).all()
        torch.testing.assert_close(halves[:, 61, 0], halves[:, 60, 1])

    def test_the_mask_is_the_share_alpha_of_the_querys_step_and_the_query(self):
        task = IncontextCot(testing=True)
        batch = task.sample(30, generator())
        mask = task.dependencies(batch)[:, batch.supervised]
        assert (mask.sum(-1) == 8 + 1).all()
        keys = torch.arange(task.n_ctx)
        for k, position in enumerate(batch.supervised.tolist()):
            assert not mask[:, k][:, (keys % 3 != k) & (keys != position)].any()

    def test_noise_and_errors_leave_the_patterns_readable_and_the_query_true(self):
        task = IncontextCot(testing=True, noise=0.5, tau=0.5, rho=0.8, alpha=0.8)
        prompts = task.draw(50, generator(3))
        batch = task.sample(50, generator(3))
        read = task.read(batch.inputs)
        assert torch.equal(read[:, :60].unflatten(1, (20, 3))[..., 0], prompts.examples[..., :-1])
        assert torch.equal(batch.answers, prompts.query[:, 1:])
        similar = (prompts.examples[..., 0] == prompts.query[:, None, 0]).sum(1)
        assert (similar == 16).all()

    def test_without_cot_there_are_labels_and_zeros_alone(self):
        task = IncontextCot(cot=False)
        batch = task.sample(20, generator())
        columns = batch.inputs[:, :60].unflatten(1, (20, 3))
        assert (columns[:, :, 1:] == 0).all()
        assert batch.answers.shape == (20, 1)

    def test_solve_needs_every_similar_example(self):
        task = IncontextCot()
        batch = task.sample(4, generator())
        inputs = batch.inputs.clone()
        wanted = task.dependencies(batch)[0, 60, :60].nonzero().squeeze(-1)
        inputs[0, wanted[-1]] = 0
        solved = task.solve(inputs)
        assert solved[0, 60] == UNSUPERVISED
        assert torch.equal(solved[1:], batch.targets[1:])

    @pytest.mark.parametrize(
        ("parameters", "reason"),
        [
            ({"alpha": 0.0}, "alpha in"),
            ({"noise": 0.8}, r"between 0 and sqrt\(2\)/2, got 0.8"),
            ({"tau": 0.5, "rho": 0.8}, "training prompts have no errors"),
            ({"testing": True, "tau": 0.5, "rho": 0.3}, "rho must be between 0.740 and 0.971, got rho=0.3"),
            ({"n_patterns": 40}, "M <= d - K"),
        ],
    )
    def test_impossible_parameters_are_refused(self, parameters, reason):
        with pytest.raises(ValueError, match=reason):
            IncontextCot(**parameters)
