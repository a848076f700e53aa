"""Runs are trained until their loss has fallen and some steps further, once for all claims that read them."""

from dataclasses import fields, replace

import pytest
import torch

from interp.claims.huang2025 import _training, nope
from interp.claims.huang2025._runs import END, LegoRun, SettledRun, after, at_loss, run_rows
from interp.claims.huang2025._training import identity, taught, train
from probes.rows import with_settings
from toy_models.lego.training import held_out_loss

RUN = LegoRun(
    group="C2", d_token=8, d_mlp=32, n_variables=8, first=100, rate=1e-2, batch_size=32, length=2, lengths=(2, 4),
    n_test=32, steps=600, further=50,
)  # fmt: skip


@pytest.fixture(scope="module")
def learned():
    return train(RUN)


def test_a_run_is_read_when_its_loss_falls_and_ends_so_many_steps_after_the_plateau(learned):
    steps = learned.updates
    assert list(steps)[:2] == [at_loss(0.1), at_loss(0.01)]
    assert steps[at_loss(0.1)] < steps[at_loss(0.01)] <= steps[END] == steps[at_loss(0.1)] + RUN.further
    assert list(learned.weights) == [point for point in steps if point != at_loss(0.1)]
    loss = held_out_loss(learned.model(at_loss(0.01)), RUN.task, 256, RUN.generator(0))
    assert loss < 0.02, "the loss of the steps before it was below 0.01"


def test_rows_have_every_point(learned):
    rows = with_settings(run_rows(RUN, learned))
    assert dict(rows[rows["metric"] == "updates"].set_index("point")["value"]) == learned.updates
    accuracy = rows[rows["metric"] == "accuracy"].set_index(["point", "length"])["value"]
    assert set(accuracy.index) == {(point, length) for point in learned.weights for length in (2, 4)}
    assert accuracy[END, 2] > 0.9


def test_a_run_that_never_leaves_its_plateau_ends_with_its_steps():
    assert train(replace(RUN, steps=20, first=0)).updates == {END: 20}


def test_a_rate_falls_after_the_plateau_and_a_run_ends_where_no_time_for_it_is_left(learned):
    """At a rate of zero nothing changes from then on; at the old one it would have."""
    shared = {f.name: getattr(RUN, f.name) for f in fields(RUN)}
    run = SettledRun(**shared, reads=(25,), settles=25, late=0.0)
    settled = train(run)
    assert settled.updates[END] - settled.updates[at_loss(0.1)] == run.further
    at_change, at_end = settled.weights[after(25)], settled.weights[END]
    assert all(torch.equal(at_change[name], tensor) for name, tensor in at_end.items())
    assert not all(torch.equal(learned.weights[END][name], tensor) for name, tensor in at_end.items())
    assert train(replace(run, steps=70, first=0)).updates == {END: 20}
    assert replace(run, late=run.rate).patience == run.steps, "a rate that never falls needs no time for it"


def test_a_long_training_is_done_once_and_comes_back_as_it_was(learned, monkeypatch, tmp_path):
    monkeypatch.setenv("COTLENS_CACHE", str(tmp_path))
    monkeypatch.setattr(_training, "KEPT_FROM", RUN.steps)
    first = taught(RUN)
    monkeypatch.setattr(_training, "train", lambda run: pytest.fail("trained again"))
    again = taught(replace(RUN, change="another name", n_test=3))
    assert again.updates == first.updates == learned.updates
    assert list(again.weights) == list(first.weights)
    for point, weights in learned.weights.items():
        assert all(torch.equal(again.weights[point][name], tensor) for name, tensor in weights.items())


def test_whatever_decides_the_weights_is_in_the_identity():
    changed = [replace(RUN, **one) for one in ({"seed": 1}, {"rate": 1e-3}, {"further": 51}, {"group": "C3"})]
    settled = SettledRun(**{f.name: getattr(RUN, f.name) for f in fields(RUN)}, reads=(25,), settles=25, late=0.0)
    changed += [settled, replace(settled, settles=50), replace(settled, late=1e-3), replace(settled, reads=(50,))]
    assert len({identity(run) for run in (RUN, *changed)}) == 9


def test_a_run_cut_short_still_trains_and_readings_between_looks_are_refused():
    """A rehearsal cuts `steps` alone, to fewer than are to follow the plateau."""
    shared = {f.name: getattr(RUN, f.name) for f in fields(RUN)} | {"first": 0, "steps": 3}
    run = SettledRun(**shared, reads=(25,), settles=25, late=0.0)
    assert train(run).updates == {END: 3}
    for wrong in ({"settles": 30}, {"reads": (30,)}):
        with pytest.raises(ValueError, match="looked at every 25 steps, so none can be read or slowed after 30"):
            train(replace(run, **wrong))


def test_positions_are_part_of_what_decides_the_weights():
    run = nope.PlacedRun(**{f.name: getattr(RUN, f.name) for f in fields(RUN) if f.name != "model"}, n_ctx=9)
    arms = [run, replace(run, positions="learned"), replace(run, positions="sinusoidal"), replace(run, shuffled=True)]
    assert len({identity(arm) for arm in arms}) == 4


def test_untrained_positions_at_zero_change_nothing_at_the_training_length(tmp_path):
    learned = next(item for item in nope.items(nope.PRESETS["smoke"]) if "learned" in item.name)
    rows = with_settings(nope.measure(learned, tmp_path))
    loss = rows[rows["metric"] == "loss"].set_index("point")["value"]
    assert set(loss.index) == {END, nope.ZEROED}
    assert loss[nope.ZEROED] == loss[END]
    assert len(rows[rows["metric"] == nope.PERMUTED]) == 1
