"""Geometric medians where some points are many rows: bounds beside them, and draws that end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from mechanisms.domain import CODE_MAX
from mechanisms.exact.floats import Floats, Integers
from mechanisms.objectives.points import Points, PointsLaw, bounds, held, law
from mechanisms.objectives.points.bounds import Bounds, bounded
from mechanisms.objectives.points.field import Field
from mechanisms.objectives.points.law import near_heavy
from mechanisms.objectives.points.passes import Ball
from mechanisms.samplers.boxes import Space
from tests.mechanisms.test_many_points import RADIUS, SHIFT, gradient, length
from tests.mechanisms.test_thin_medians import HUNDRED, Column, effort, even

PLACES = {2: [(0.1, -0.2), (0.6, 0.5), (-0.7, 0.4)], 3: [(0.1, -0.2, 0.3), (0.6, 0.5, -0.4)]}


def around_a_heavy(dimension: int, count: int) -> Integers:
    """Return points, the first of them so many times."""
    first, *others = np.rint(np.array(PLACES[dimension]) * CODE_MAX).astype(np.int64)
    random = np.random.default_rng(1)
    some = np.rint(random.uniform(-CODE_MAX, CODE_MAX, (40, dimension))).astype(np.int64)
    return np.vstack([[first] * count, *([[other] * 100 for other in others]), some])


def boxes_beside(dimension: int, slanted: bool) -> list[tuple[Floats, Floats, Floats]]:
    """Return centres, half sides and axes of boxes that hold the heavy point or are close."""
    random, found = np.random.default_rng(2), []
    place = np.rint(np.array(PLACES[dimension][0]) * CODE_MAX) * (1 << SHIFT)
    way = np.array(PLACES[dimension][1]) - PLACES[dimension][0]
    axes = Space.along(way, RADIUS).shear if slanted else np.eye(dimension)
    for size in 2.0 ** np.arange(12, 36, 4):
        for away in (0.0, 0.8, 3.0, 12.0):
            half = size * 2.0 ** random.uniform(-4, 0, dimension)
            offset = random.uniform(-1, 1, dimension) * half * away
            found.append((np.rint(place + axes @ offset), half, axes))
    return found


@pytest.mark.parametrize("slanted", [False, True])
@pytest.mark.parametrize("count", [30, 150, 4000])
@pytest.mark.parametrize("dimension", PLACES)
def test_bounds_beside_a_heavy_point_hold(dimension: int, count: int, slanted: bool) -> None:
    """Below and above, inside boxes, at their corners and at the point itself."""
    codes, random, sharper = around_a_heavy(dimension, count), np.random.default_rng(3), 0
    heavy = [int(k) << SHIFT for k in codes[0]]
    names = tuple("xyz"[:dimension])
    source = held(codes, Points(names, SHIFT), RADIUS)
    for centre, half, axes in boxes_beside(dimension, slanted):
        [known] = source.around(
            [Ball(tuple(centre.tolist()), float(np.abs(axes).sum() * half.max()))]
        )
        own = axes if slanted else None
        first = bounded(known.field, centre[None], half[None], axes=own)
        found = near_heavy(known.field, centre[None], half[None], first, own)
        sharper += found.least[0] > max(first.least[0], 0)
        inside = np.abs(np.linalg.solve(axes, np.array(heavy) - centre)) <= half - 2
        places = [heavy] if inside.all() else []
        for corner in (True, True, False):
            signs = random.uniform(-1, 1, dimension)
            signs = np.sign(signs) if corner else signs
            places.append([int(k) for k in np.rint(centre + axes @ (signs * (half - 2)))])
        for place in places:
            size = length(gradient(codes, place, 80))
            assert found.least[0] <= size + 1e-9
            assert found.most[0] >= size - 1e-9
    assert sharper > 3


def test_the_point_itself_is_not_forgotten() -> None:
    """Must fail: m - |R| as a bound where the sum is R."""
    codes = around_a_heavy(2, 4000)
    heavy = [int(k) << SHIFT for k in codes[0]]
    at, near = (length(gradient(codes, [heavy[0] + s, heavy[1]], 80)) for s in (0, 64))
    assert at < 4000 - at - 1
    assert near >= 4000 - at - 1


def test_how_far_a_direction_may_fall() -> None:
    """Beside sampled boxes, inside them and ahead of them; with nothing for it bounds are wrong."""
    random = np.random.default_rng(4)
    tight = 0.0
    for _ in range(300):
        away, w = random.normal(size=3) * 2.0 ** random.uniform(-4, 2), random.normal(size=3)
        w /= np.linalg.norm(w)
        half = 2.0 ** random.uniform(-5, 0, 3)
        distance, span = np.linalg.norm(away), float(np.abs(w) @ half)
        lean = float(w @ away) / distance
        said = float(bounds.fallen(distance, np.array(lean), span, np.linalg.norm(half)))
        ways = away + random.uniform(-1, 1, (400, 3)) * half
        fell = lean - (ways @ w / np.linalg.norm(ways, axis=1)).min()
        assert fell <= said
        tight = max(tight, fell / said)
    assert tight > 0.8


def at_places(*shares: float, counts: Sequence[int], way: Sequence[float]) -> list[Column]:
    """Return rows at a few places on a line."""
    places = np.repeat(shares, counts)
    return [(50 + each * places, HUNDRED) for each in way]


# columns, epsilon, and how many times the effort of even rows is enough
HEAVY = {
    "four places in a plane": (
        at_places(-30, -10, 10, 30, counts=(773, 746, 760, 721), way=(0.3, 1.0)), 10_000, 20
    ),
    "two places, nearly in balance": (
        at_places(-20, 25, counts=(1490, 1510), way=(1.0, 0.4, -0.8)), 100, 25
    ),
}  # fmt: skip


def plain(field: Field, centres: Floats, halves: Floats, found: Bounds, axes: object) -> Bounds:
    del field, centres, halves, axes
    return found


@pytest.mark.parametrize("name", HEAVY)
def test_a_draw_among_heavy_points_ends_soon(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Must fail: without what is known beside them."""
    columns, epsilon, times = HEAVY[name]
    most = times * effort(even(len(columns)))
    assert effort(columns, epsilon, most) < most
    monkeypatch.setattr(law, "near_heavy", plain)
    assert effort(columns, epsilon, most) > most


def test_a_needle_is_found_from_a_heavy_point() -> None:
    """The curvature grows without end towards it, and says nothing of how long the law is."""
    codes = np.repeat([[-300, -900], [-100, -300], [100, 300], [300, 900]], 700, axis=0)
    codes = np.vstack([codes * 500, [[-50_000, -150_000]] * 30])
    source = held(codes, Points(("x", "y"), SHIFT), RADIUS)
    found, space = PointsLaw.fitting(source, law.Fraction(100), Space.cubic(2, RADIUS))
    assert found.needle is not None
    assert math.isfinite(found.needle.long)
    assert not (space.shear == np.eye(2)).all()


@pytest.mark.parametrize("seed", [204, 260, *range(12)])
def test_a_sum_is_never_above_what_is_said(seed: int) -> None:
    """Of points far behind and some beside a long box: w'u may rise more than it may fall."""
    random, side = np.random.default_rng(seed), 1 << 10
    far = np.array([[-8 * side, int(random.integers(-200, 200))]] * 1000)
    beside = np.rint(random.uniform(-3, 3, (1, 2)) * side).astype(int)
    codes = np.vstack([far, *[beside] * int(random.integers(5, 60))])
    field = held(codes, Points(("x", "y"), SHIFT), RADIUS).root.field
    space, unit = Space.along(random.normal(size=2), RADIUS), float(side << SHIFT)
    half = np.full(2, unit * random.uniform(0.01, 0.2))
    half[space.order[0]] = unit * random.uniform(0.2, 1.2)
    found = bounded(field, np.zeros((1, 2)), half[None], axes=space.shear)
    for signs in itertools.product(np.linspace(-1, 1, 9), repeat=2):
        place = [int(k) for k in np.rint(space.shear @ (np.array(signs) * (half - 2)))]
        size = length(gradient(codes, place, 60))
        assert found.least[0] <= size + 1e-9
        assert found.most[0] >= size - 1e-9
