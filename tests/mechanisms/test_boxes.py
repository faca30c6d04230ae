"""The box engine: exact counting, exact choice, and draws from tiny laws by enumeration."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from operator import mul

import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mechanisms.samplers.boxes import Box, Children, Cover, Space, Start, draw
from mechanisms.samplers.envelopes import SumTree
from mechanisms.testing import Law, check_draws, seeded_randomness

SHEAR = np.array([[1.0, -0.75, 1.5], [0.0, 1.0, 2.0**-12 * 777], [0.0, 0.0, 1.0]])


@given(
    lower=st.tuples(*[st.integers(-9, 9)] * 3),
    sides=st.tuples(*[st.integers(1, 4)] * 3),
)
def test_a_sheared_box_holds_as_many_points_as_its_volume(
    lower: tuple[int, ...], sides: tuple[int, ...]
) -> None:
    """Every place gives another grid point, and V^-1 theta lies in the box."""
    space, box = Space(radius=100, shear=SHEAR), Box(lower, sides)
    places = itertools.product(*(range(side) for side in sides))
    points = {space.point(box, place) for place in places}
    assert len(points) == box.points
    u = np.linalg.solve(SHEAR, np.array(sorted(points), dtype=float).T).T
    assert (u >= np.array(lower) - 1e-9).all()
    assert (u < np.array(lower) + np.array(sides) + 1e-9).all()


@given(
    sides=st.tuples(st.integers(1, 7), st.integers(1, 7)),
    counts=st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from([1, 2])),
)
def test_parts_tile_their_box(sides: tuple[int, ...], counts: tuple[int, ...]) -> None:
    counts = tuple(min(count, side) for count, side in zip(counts, sides, strict=True))
    space = Space.plain(2, 100)
    found = [
        space.point(part, place)
        for part in Box((-3, 2), sides).parts(counts)
        for place in itertools.product(*(range(side) for side in part.sides))
    ]
    assert sorted(found) == [(-3 + a, 2 + b) for a in range(sides[0]) for b in range(sides[1])]


def test_a_box_less_an_inner_one_is_tiled() -> None:
    outer, space = Box((-3, 2, 0), (6, 4, 3)), Space.plain(3, 100)
    for inner in (Box((-1, 3, 1), (2, 2, 1)), Box((-3, 2, 0), (6, 1, 3)), outer):
        pieces = [inner, *outer.less(inner)]
        found = [
            space.point(piece, place)
            for piece in pieces
            for place in itertools.product(*(range(side) for side in piece.sides))
        ]
        assert len(found) == len(set(found)) == outer.points


def test_the_root_holds_theta_and_what_is_outside_is_outside() -> None:
    space = Space(radius=6, shear=SHEAR)
    root = space.root()
    theta = np.array(
        [t for t in itertools.product(range(-6, 7), repeat=3) if sum(map(abs, t)) <= 6], dtype=float
    )
    u = np.linalg.solve(SHEAR, theta.T).T
    assert (u >= root.lower).all()
    assert (u < np.array(root.lower) + root.sides).all()
    half = np.array([1.5, 1.0, 0.5])
    centres = np.random.default_rng(1).uniform(-12, 12, (400, 3))
    missed = space.outside(centres, half)
    assert 0 < missed.sum() < 400
    for centre in centres[missed]:
        assert not (np.abs(u - centre) <= half).all(axis=1).any()


WAYS = [(1.0, -0.8, 0.35), (0.3, 1.0, 0.7), (-0.9, 0.2, 1.0), (0.0, -1.0, 0.0)]


def held_once(space: Space, theta: list[tuple[int, ...]]) -> None:
    """Assert that each point is in exactly one of the boxes that the root is cut into."""
    found: list[tuple[int, ...]] = []
    open_boxes = [space.root()]
    while open_boxes:
        box = open_boxes.pop()
        half = np.array([box.sides]) / 2
        if space.outside(np.array([box.lower]) + half, half[0])[0]:
            continue
        if max(box.sides) > 3:
            open_boxes += box.parts([2 if side > 1 else 1 for side in box.sides])
            continue
        for place in itertools.product(*(range(side) for side in box.sides)):
            point = space.point(box, place)
            u = np.linalg.solve(space.shear, np.array(point, dtype=float)) - np.array(box.lower)
            assert (u >= -1e-6).all()
            assert (u < np.array(box.sides) + 1e-6).all()
            found.append(point)
    inside = sorted(point for point in found if space.holds(point))
    each_once = inside == theta  # asserted on its own: a diff of two long lists takes minutes
    assert each_once
    assert len(found) < 8 * len(theta)


@pytest.mark.parametrize("way", WAYS)
def test_boxes_along_a_way_hold_each_point_of_a_cube_once(way: tuple[float, ...]) -> None:
    held_once(Space.along(np.array(way), 4), list(itertools.product(range(-4, 5), repeat=3)))


def test_a_wrong_order_of_entries_is_caught() -> None:
    """Must fail: entries that are found before what they depend on."""
    space = replace(Space.along(np.array(WAYS[0]), 4), order=())
    with pytest.raises(AssertionError):
        held_once(space, list(itertools.product(range(-4, 5), repeat=3)))


def test_too_near_an_end_of_a_cube_is_caught() -> None:
    """Must fail: boxes dropped that reach into the cube."""
    near = replace(Space.along(np.array(WAYS[1]), 4), radius=3)
    with pytest.raises(AssertionError):
        held_once(near, list(itertools.product(range(-4, 5), repeat=3)))


@pytest.mark.parametrize("way", WAYS)
def test_faces_of_a_box_along_a_way_hold_its_points(way: tuple[float, ...]) -> None:
    space, box = Space.along(np.array(way), 9), Box((-2, 1, 0), (3, 2, 4))
    places = itertools.product(*(range(side) for side in box.sides))
    inside = {space.point(box, place) for place in places}
    for theta in itertools.product(range(-9, 10), repeat=3):
        held = all(sum(map(mul, w, theta)) >= b for w, b in space.faces(box))
        assert held == (theta in inside)


@pytest.mark.wide
@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 2**70)), min_size=1, max_size=200))
def test_the_tree_sums_whatever_is_set(changes: list[tuple[int, int]]) -> None:
    tree, held = SumTree(), {}
    for slot, weight in changes:
        tree.set(slot, weight)
        held[slot] = weight
    assert tree.total == sum(held.values())
    if tree.total:
        assert held[tree.choose(seeded_randomness(1))]


@pytest.mark.statistical
def test_the_tree_chooses_by_weight() -> None:
    weights, randomness = [3, 0, 1, 0, 0, 7, 2], seeded_randomness(2)
    tree = SumTree(weights)
    draws = [tree.choose(randomness) for _ in range(4000)]
    uniform = Law.discrete(range(7), [1, 0, 1, 0, 0, 1, 1])
    check_draws(draws, Law.discrete(range(7), weights), twins=[uniform])


class Cone:
    """E(theta) = rate * (|theta_1 - 1| + |theta_2 + 2|) + 800: slow bounds, irrational far out."""

    floor = 0.0

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def start(self, space: Space) -> list[Start[None]]:
        return [Start(space.root(), self.floor, None)]

    def widths(self, known: None) -> None:
        return None

    def split(
        self, known: None, centres: NDArray[np.float64], half: NDArray[np.float64]
    ) -> Children[None]:
        distance = np.maximum(0, np.abs(centres - [1, -2]) - half).sum(axis=1)
        return Children(self.rate * distance * 0.9 + 799.0, [None] * len(centres))

    def size(self, known: None) -> int:
        return 0

    def value(self, point: Sequence[int]) -> float:
        return self.rate * (abs(point[0] - 1) + abs(point[1] + 2))

    def exponent(self, known: None, point: Sequence[int], bits: int) -> arb:
        return arb(self.value(point)) + 800


@pytest.mark.wide
@pytest.mark.statistical
def test_draws_follow_a_law_far_from_its_first_bound() -> None:
    """The reference must be moved by 800 nats, and the law is still the one enumerated."""
    space, cone, radius = Space.plain(2, 9), Cone(0.5), 9
    points = [p for p in itertools.product(range(-9, 10), repeat=2) if sum(map(abs, p)) <= radius]
    order: dict[tuple[int, ...], int] = {p: i for i, p in enumerate(sorted(points, key=cone.value))}
    randomness = seeded_randomness(3)
    covers = [Cover(cone, space) for _ in range(40)]
    draws = [order[cover.draw(randomness)] for cover in covers for _ in range(100)]
    laws = {
        scale: Law.discrete(list(order.values()), [math.exp(-scale * cone.value(p)) for p in order])
        for scale in (0.7, 1.0, 1.3)
    }
    check_draws(draws, laws[1.0], twins=[laws[0.7], laws[1.3]])
    assert draw(cone, space, randomness) in order


@pytest.mark.wide
@pytest.mark.statistical
def test_an_envelope_of_few_bytes_draws_from_the_same_law() -> None:
    """Parts are put together again and again, and what is held stays below the bound."""
    space, cone, most = Space.plain(2, 9), Cone(0.5), 100 * 2000
    points = [p for p in itertools.product(range(-9, 10), repeat=2) if sum(map(abs, p)) <= 9]
    order: dict[tuple[int, ...], int] = {p: i for i, p in enumerate(sorted(points, key=cone.value))}
    randomness, draws, free = seeded_randomness(3), [], 0
    cover = Cover(cone, space, most_bytes=most)
    for _ in range(4000):
        before = cover.envelope.size
        draws.append(order[cover.draw(randomness)])
        assert cover.envelope.size <= most
        free += cover.envelope.size < before
    assert free
    unbounded = Cover(cone, space)
    for _ in range(400):
        unbounded.draw(randomness)
    assert unbounded.envelope.size > most
    laws = {
        scale: Law.discrete(list(order.values()), [math.exp(-scale * cone.value(p)) for p in order])
        for scale in (0.7, 1.0, 1.3)
    }
    check_draws(draws, laws[1.0], twins=[laws[0.7], laws[1.3]])
