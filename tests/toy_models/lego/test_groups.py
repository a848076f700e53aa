import itertools

import numpy as np
import pytest

from toy_models.lego.groups import GroupAction, group_action

NAMES = "C2 C6 S2 S3 S4 S5 A3 A4 A5 D3 D4 D5 S3-regular A4-regular D4-regular C2xC3 C2xS3 C2xS3-regular C2xC2xC2"
ACTIONS = [group_action(name) for name in NAMES.split()]
every_action = pytest.mark.parametrize("group", ACTIONS, ids=lambda group: group.name)


def composed(g: tuple[int, ...], h: tuple[int, ...]) -> tuple[int, ...]:
    """First h, then g."""
    return tuple(g[image] for image in h)


def stabiliser_size(group, point=0):
    return sum(g[point] == point for g in group.action)


@every_action
def test_the_elements_are_a_group(group):
    elements = set(group.action)
    identity = tuple(range(group.n_points))
    assert group.action[0] == identity
    assert all(composed(g, h) in elements for g in elements for h in elements)
    assert all(any(composed(g, h) == identity for h in elements) for g in elements)


@every_action
def test_the_table_of_products_is_composition_and_associative(group):
    products = group.products
    some = list(itertools.islice(itertools.product(range(group.n_elements), repeat=2), 0, None, 7))
    assert all(group.action[products[g, h]] == composed(group.action[g], group.action[h]) for g, h in some)
    assert all(products[g, group.inverses[g]] == 0 == products[group.inverses[g], g] for g in range(len(products)))
    if group.n_elements <= 24:
        assert np.array_equal(products[products], products[:, products])  # (gh)k = g(hk)


@every_action
def test_every_action_is_transitive_and_simply_so_by_counting(group):
    for point in range(group.n_points):
        assert {g[point] for g in group.action} == set(range(group.n_points))
        assert stabiliser_size(group, point) * group.n_points == group.n_elements
    regular = all(
        sum(g[point] == image for g in group.action) == 1
        for point, image in itertools.product(range(group.n_points), repeat=2)
    )
    assert group.is_simply_transitive == regular


@every_action
def test_the_distractor_rate_by_counting_and_in_closed_form(group):
    points, n = range(group.n_points), group.n_elements
    agreeing = sum(g[y] == h[y] for g in group.action for h in group.action if g != h for y in points)
    assert group.distractor_rate == pytest.approx(agreeing / (len(points) * n * (n - 1)))
    assert group.distractor_rate == pytest.approx((stabiliser_size(group) - 1) / (n - 1))


@pytest.mark.parametrize(
    ("name", "n_elements", "n_points", "stabiliser"),
    [
        ("C6", 6, 6, 1),
        ("S5", 120, 5, 24),
        ("A5", 60, 5, 12),
        ("D5", 10, 5, 2),
        ("S3-regular", 6, 6, 1),
        ("C2xS3", 12, 6, 2),
        ("C2xS3-regular", 12, 12, 1),
        ("A5-regular", 60, 60, 1),
    ],
)
def test_sizes_known_by_hand(name, n_elements, n_points, stabiliser):
    group = group_action(name)
    assert (group.n_elements, group.n_points, stabiliser_size(group)) == (n_elements, n_points, stabiliser)
    assert group.is_simply_transitive == (stabiliser == 1)


@pytest.mark.parametrize("name", ["C6", "C2xC3", "S3", "S4", "A4", "D5", "S4-regular", "C2xS4"])
def test_these_are_solvable(name):
    assert group_action(name).is_solvable


@pytest.mark.parametrize("name", ["A5", "S5", "A5-regular", "C2xA5", "A6"])
def test_these_are_not_solvable(name):
    assert not group_action(name).is_solvable


def test_the_derived_group_of_s4_is_a4():
    group = group_action("S4")
    derived = group._generated(group._commutators(np.arange(24)))
    assert {group.action[g] for g in derived} == set(group_action("A4").action)


def test_a_product_acts_on_each_factor():
    product, first, second = group_action("C2xS3"), group_action("C2"), group_action("S3")
    rows = iter(product.action)
    for g, h in itertools.product(first.action, second.action):
        row = next(rows)
        assert all(row[3 * y + z] == 3 * g[y] + h[z] for y in range(2) for z in range(3))


def test_c2_x_c3_is_c6_with_other_names():
    """An isomorphism exists: some element of C2xC3 has order 6, so both are cyclic of order 6."""
    product = group_action("C2xC3").products
    for g in range(6):
        powers = [g]
        while powers[-1] != 0:
            powers.append(product[powers[-1], g])
        if len(powers) == 6:
            return
    pytest.fail("no element of order 6")


@pytest.mark.parametrize("name", ["", "C1", "A2", "D2", "S05", "F20", "C6 ", "c6", "S5-reg", "C2x", "C2*C3", "S-3"])
def test_an_unknown_name_lists_the_forms(name):
    with pytest.raises(ValueError, match=r"unknown group .* the forms are C<n> .* S<n> .*-regular.* products"):
        group_action(name)


@pytest.mark.parametrize("name", ["S7", "A8", "C1001", "D501", "S5xS5", "S99999999"])
def test_a_group_that_is_too_large_is_refused(name):
    with pytest.raises(ValueError, match="more than 1000 elements"):
        group_action(name)


def test_tables_that_are_no_group_are_refused():
    with pytest.raises(ValueError, match="must permute the same points"):
        GroupAction("bad", ((0, 1), (1, 1)))
    with pytest.raises(ValueError, match="two elements of bad act alike"):
        GroupAction("bad", ((0, 1), (0, 1)))
    with pytest.raises(ValueError, match="bad is no group: a product of its elements"):
        _ = GroupAction("bad", ((0, 1, 2), (1, 2, 0))).products


def test_an_action_that_is_not_transitive_has_distractors():
    group = GroupAction("C2 on three points", ((0, 1, 2), (1, 0, 2)))
    assert not group.is_simply_transitive
    assert group.distractor_rate == pytest.approx(1 / 3)  # both elements agree on the third point
