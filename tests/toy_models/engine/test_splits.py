"""Held-out inputs are never trained on: every drawn sequence is compared with every held-out one, token by token."""

from dataclasses import dataclass

import pytest
import torch

from toy_models.engine.decoder import DecoderConfig
from toy_models.engine.splits import held_out, sequence_keys, training_sample
from toy_models.engine.training import TrainConfig, Trainer
from toy_models.incontext.task import IncontextCot
from toy_models.parity.task import Parity
from toy_models.task import Batch


def sequences(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(row) for row in batch.inputs.tolist()]


@pytest.mark.parametrize("cot", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_held_out_inputs_are_distinct(seed, cot):
    split = held_out(Parity(n=7, k=2, cot=cot), 20, 44, seed)  # half of all 128 inputs: draws certainly repeat
    validation, test = sequences(split.validation), sequences(split.test)
    assert (len(validation), len(test)) == (20, 44)
    assert len(set(validation + test)) == 64


@pytest.mark.parametrize("cot", [True, False])
def test_training_samples_avoid_them_and_reach_all_others(cot):
    task = Parity(n=6, k=2, cot=cot)
    split = held_out(task, 16, 16, seed=0)
    forbidden = set(sequences(split.validation) + sequences(split.test))
    generator = torch.Generator().manual_seed(1)
    assert forbidden & set(sequences(task.sample(100, generator))), "the task itself would collide"
    drawn = []
    for _ in range(50):
        batch = training_sample(task, 37, split.keys, generator)
        assert len(batch) == 37
        drawn += sequences(batch)
    assert not forbidden & set(drawn)
    assert len(set(drawn)) == 64 - 32
    counts = [drawn.count(s) for s in set(drawn)]
    assert min(counts) > 25, "some allowed inputs are hardly ever drawn"  # 58 expected, deviation 7.5
    assert max(counts) < 95


@pytest.mark.parametrize("dataset_size", [0, 50], ids=["one-pass", "multi-pass"])
def test_a_whole_training_run_never_sees_them(dataset_size):
    config = TrainConfig(
        batch_size=16, budget=1000, eval_every=200, dataset_size=dataset_size, n_validation=8, n_test=8, seed=3,
        stop_when_perfect=False,
    )  # fmt: skip
    trainer = Trainer(Parity(n=6, k=2), DecoderConfig(1, 1, 8), config)
    seen, update = [], trainer._update

    def watched(batch: Batch) -> None:
        seen.extend(sequences(batch))
        update(batch)

    trainer._update = watched
    trainer.evaluate()
    while not trainer.finished:
        trainer.train_until_evaluation()
        trainer.evaluate()
    forbidden = set(sequences(trainer.held_out.validation) + sequences(trainer.held_out.test))
    assert len(seen) == trainer.samples >= 1000
    assert len(forbidden) == 16
    assert not forbidden & set(seen)


def test_targets_stay_with_their_inputs():
    task = Parity(n=6, k=2)
    split = held_out(task, 16, 16, seed=0)
    batch = training_sample(task, 200, split.keys, torch.Generator().manual_seed(1))
    for part in (batch, split.validation, split.test):
        assert torch.equal(part.targets, task.solve(part.inputs))


def test_the_seed_decides_the_split():
    task = Parity(n=10, k=2)
    assert sequences(held_out(task, 8, 8, 1).validation) == sequences(held_out(task, 8, 8, 1).validation)
    assert sequences(held_out(task, 8, 8, 1).validation) != sequences(held_out(task, 8, 8, 2).validation)


def test_keys_are_equal_for_equal_sequences_only():
    batch = Parity(n=12, k=2).sample(3000, torch.Generator().manual_seed(0))
    keys = dict(zip(sequences(batch), sequence_keys(batch).tolist()))
    assert all(keys[s] == key for s, key in zip(sequences(batch), sequence_keys(batch).tolist()))
    assert len(set(keys.values())) == len(keys)


def test_too_few_inputs_for_disjoint_splits():
    task = Parity(n=6, k=2)
    held_out(task, 16, 16, seed=0)  # exactly half is allowed
    with pytest.raises(ValueError, match=r"64 distinct inputs, too few to hold out 17 \+ 16.*need at least 66"):
        held_out(task, 17, 16, seed=0)


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (-1, 5)])
def test_empty_splits_are_refused(sizes):
    with pytest.raises(ValueError, match="at least one validation and one test"):
        held_out(Parity(n=6, k=2), *sizes, seed=0)


def test_vectors_are_told_apart_by_their_bits():
    """Patterns are unit vectors: as integers all their numbers would be zero, and every prompt the same."""
    task = IncontextCot(d_x=12, n_patterns=6, n_testing=4, n_steps=2, n_examples=4)
    batch = task.sample(300, torch.Generator().manual_seed(0))
    rows = [tuple(row) for row in batch.inputs.flatten(1).tolist()]
    assert len(set(rows)) > 200
    assert len(set(sequence_keys(batch).tolist())) == len(set(rows))
    assert len(held_out(task, 64, 64, seed=0).keys) == 128
    minus = Batch(-torch.zeros(1, 2, 3), batch.targets[:1, :2])
    plus = Batch(torch.zeros(1, 2, 3), batch.targets[:1, :2])
    assert torch.equal(sequence_keys(minus), sequence_keys(plus)), "-0 and 0 are the same number"


@dataclass(frozen=True)
class Repeating(Parity):
    """Says that it has many inputs and draws only four."""

    def sample(self, n: int, generator: torch.Generator) -> Batch:
        batch = super().sample(n, generator)
        few = super().sample(4, torch.Generator().manual_seed(0))
        return few[torch.arange(len(batch)) % 4]


def test_a_search_that_finds_nothing_new_ends():
    task = Repeating(n=10, k=2)
    with pytest.raises(ValueError, match=r"found 4 distinct sequences of the 16 to hold out.*--n-validation"):
        held_out(task, 8, 8, seed=0)
    keys = sequence_keys(task.sample(4, torch.Generator())).sort().values
    with pytest.raises(ValueError, match=r"found 0 of 5 training sequences that are not held out"):
        training_sample(task, 5, keys, torch.Generator().manual_seed(1))
