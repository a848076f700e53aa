"""Is a finite training set gone through as an epoch should be?"""

import pytest
import torch

from toy_models.engine.finite_set import FiniteSet
from toy_models.lego.task import Lego

TASK = Lego("C3", 2, n_variables=6)


def test_every_epoch_goes_through_the_set_in_a_new_order():
    found = FiniteSet(TASK, 10, 4, seed=0)
    rows = [found.rows(update) for update in range(4)]  # two batches of four an epoch
    assert all(len(torch.cat(rows[i : i + 2]).unique()) == 8 for i in (0, 2))
    assert not torch.equal(torch.cat(rows[:2]), torch.cat(rows[2:]))
    again = FiniteSet(TASK, 10, 4, seed=0)
    assert torch.equal(again.rows(3), rows[3]), "no state: the order depends on seed and epoch alone"
    assert torch.equal(again.inputs, found.inputs)
    assert not torch.equal(FiniteSet(TASK, 10, 4, seed=1).inputs, found.inputs)


def test_a_set_without_a_whole_batch_is_refused():
    with pytest.raises(ValueError, match="no whole batch of batch_size=4"):
        FiniteSet(TASK, 3, 4, seed=0)
