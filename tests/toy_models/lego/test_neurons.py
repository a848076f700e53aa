"""Are facts read off neurons as defined? Weights written by hand, and one model that has learned C3."""

import numpy as np
import pytest
import torch

from toy_models.lego.groups import group_action
from toy_models.lego.neurons import Features, curriculum, features, fibers, held_by_one, holders, imbalance, shape
from toy_models.lego.task import ACTION, STATE, Lego
from toy_models.lego.theory_model import LegoTheory, LegoTheoryConfig
from toy_models.lego.theory_training import Descent, train_slot

BOUND = 4.0


def by_the_theorem(name: str, n_neurons: int = 7) -> Features:
    """Neuron y of class j holds "y goes to j" with the weights of equations 17 or 18; the others are idle."""
    action = group_action(name)
    fiber, ratio = fibers(action), imbalance(action)
    point = 2 * BOUND / (1 + ratio)  # V(g) + V(y) = 2 B with V(g) = ratio V(y)
    elements = np.zeros((action.n_points, n_neurons, action.n_elements))
    points = np.zeros((action.n_points, n_neurons, action.n_points))
    for j in range(action.n_points):
        for y in range(action.n_points):
            elements[j, y] = np.where(fiber[j, y], ratio * point, -point)
            points[j, y] = np.where(np.arange(action.n_points) == y, point, -ratio * point)
    return Features(elements, points, fiber)


@pytest.mark.parametrize(("name", "ratio"), [("C6", 1.0), ("S3", 1.25), ("S5", 97 / 28)])
def test_the_shape_of_the_theorems_is_recognised(name, ratio):
    found = by_the_theorem(name)
    n = group_action(name).n_points
    assert held_by_one(found.strengths).all()
    np.testing.assert_array_equal(holders(found.strengths), np.tile(np.arange(n), (n, 1)))
    of = shape(found, BOUND)
    assert (of.strength, of.confounder, of.runner_up) == pytest.approx((1, 0, 0))
    assert of.unrelated == pytest.approx(-1)
    assert of.ratio == pytest.approx(ratio) == imbalance(group_action(name))


def test_fibers_are_counted_from_the_table():
    found = fibers(group_action("S4"))
    assert found.shape == (4, 4, 24)
    assert (found.sum(-1) == 6).all()
    assert (found.sum(0) == 1).all()  # an element takes a point to one class
    assert fibers(group_action("C6")).sum() == 36


def test_a_fact_with_two_neurons_and_a_neuron_with_two_facts_are_not_held_by_one():
    strengths = by_the_theorem("C3").strengths
    twice = strengths.copy()
    twice[0, 5, 1] = 0.6 * BOUND  # an idle neuron answers to fact 1 of class 0 too
    assert held_by_one(twice).sum() == 8
    assert not held_by_one(twice)[0, 1]
    shared = strengths.copy()
    shared[2, 0, 1] = shared[2, 1, 1]
    shared[2, 1] = 0  # neuron 0 of class 2 holds facts 0 and 1
    assert held_by_one(shared).tolist()[2] == [False, False, True]


def test_the_curriculum_strikes_off_the_strongest_pair_first():
    strengths = np.array([[[0.9, 0.8], [0.85, 0.1], [0.0, 0.2]]])  # [class neuron point]
    assert curriculum(strengths).tolist() == [[0, 2]]  # neuron 0 is taken when fact 1 has its turn
    assert holders(strengths).tolist() == [[0, 0]]


def test_weights_are_read_from_the_places_of_tokens():
    task = Lego("S3", 1, n_variables=4)
    model = LegoTheory(task.d_vocab, LegoTheoryConfig(m=2), torch.Generator().manual_seed(0))
    with torch.no_grad():
        weights = model.mlp.W.view(5, 5, task.d_vocab, task.d_vocab, 2)  # slot, slot read, token, class, neuron
        weights[STATE, ACTION, task.first_element + 4, task.first_state + 2, 1] = 7.0
        weights[STATE, STATE, task.first_state + 1, task.first_state, 0] = 9.0
    found = features(model, task)
    assert found.elements.shape == (3, 2, 6)
    assert found.elements[2, 1, 4] == 7.0
    assert found.points[0, 0, 1] == 9.0


def test_a_trained_model_has_neurons_for_its_facts_and_against_confounding_pairs():
    task = Lego("C3", 1, n_variables=13)
    model = LegoTheory(task.d_vocab, LegoTheoryConfig(m=6), torch.Generator().manual_seed(0))
    before = shape(features(model, task), model.mlp.bound)
    loss = train_slot(model, task, STATE, Descent(10.0, 400, 64), torch.Generator().manual_seed(1))
    after = shape(features(model, task), model.mlp.bound)
    assert loss < 0.1
    assert before.strength < 0.2 < 0.4 < after.strength
    assert after.strength > 2 * after.confounder
    assert after.unrelated < -0.1
