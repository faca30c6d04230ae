"""Geometric medians whose law is long and thin, or whose rows lie close together.

What a draw takes is counted as the effort of its envelope, in tries: it is the same on any machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.exact.floats import Floats, Integers
from mechanisms.objectives.points import Points, PointsLaw, bounds, held, passes, survey
from mechanisms.objectives.points.bounds import bounded
from mechanisms.objectives.points.field import Field
from mechanisms.objectives.points.law import Needle
from mechanisms.objectives.points.source import HeldPoints, Rows, Source
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.boxes import Cover, Space
from mechanisms.sketches import ArrayData
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.testing import seeded_randomness
from tests.mechanisms.covers import require_law
from tests.mechanisms.test_many_points import (
    RADIUS,
    SHIFT,
    few_cells,
    gradient,
    length,
    looked,
)

BITS = 38
K = np.arange(3000)
HUNDRED, FIVE_THOUSAND, ONE = (0, 100), (0, 5000), (0, 1)
Column = tuple[Floats, tuple[int, int]]


def clusters(spread: float, constant: float) -> list[Column]:
    """Return short lines of rows beside each other, with a column that is constant."""
    ages, incomes = 30 + K % 3 + K * spread, 1000.0 + K % 7
    return [(ages, HUNDRED), (incomes, FIVE_THOUSAND), (np.full(len(K), constant), ONE)]


def even(dimension: int) -> list[Column]:
    random = np.random.default_rng(2)
    return [(random.uniform(0, 100, len(K)), HUNDRED) for _ in range(dimension)]


def on_a_line(*slopes: float, rows: int = 3000) -> list[Column]:
    places = np.random.default_rng(1).uniform(-30, 30, rows)
    return [(50 + slope * places, HUNDRED) for slope in slopes]


def two_places(*ways: float, blur: float = 0) -> list[Column]:
    random = np.random.default_rng(1)
    off = [random.normal(0, blur, len(K)) for _ in ways]
    return [(50 + way * (K % 2 * 2.0 - 1) + by, HUNDRED) for way, by in zip(ways, off, strict=True)]


def data_of(columns: list[Column]) -> tuple[Schema, ArrayData]:
    names = tuple("xyzw"[: len(columns)])
    numbers = [NumberColumn(Fraction(low), Fraction(high)) for _, (low, high) in columns]
    rows = len(columns[0][0])
    schema = Schema(dict(zip(names, numbers, strict=True)), Adjacency.REPLACE_ONE, rows)
    values = {name: list(values) for name, (values, _) in zip(names, columns, strict=True)}
    return schema, ArrayData.from_values(schema, values)


def effort(
    columns: list[Column],
    epsilon: int = 1,
    most: float = math.inf,
    fitting: Callable[[Source, Fraction, Space], tuple[PointsLaw, Space]] = PointsLaw.fitting,
) -> int:
    """Return what a few draws took, each from a cover of its own; they are ended above the most."""
    schema, data = data_of(columns)
    source = survey(data, Points(tuple(schema.columns), BITS - 20), 1 << BITS)
    cube = Space.cubic(len(columns), 1 << BITS)
    law, space = fitting(source, Fraction(epsilon, 4), cube)
    total = 0
    for seed in range(3):
        cover, random = Cover(law, space), seeded_randomness(seed)
        while total + cover.envelope.effort <= most and cover.attempt(random) is None:
            pass
        total += cover.envelope.effort
    return total


@pytest.mark.parametrize(("spread", "constant"), [(1e-6, 1.0), (1e-6, 0.5)])
def test_rows_closer_than_cells_are_looked_into(spread: float, constant: float) -> None:
    """Where blurs of cells passed for what the box itself costs, draws hardly ended."""
    most = 12 * effort(even(3))
    assert effort(clusters(spread, constant), most=most) < most


# columns, epsilon, and how many times the effort of even rows tells the two kinds of boxes apart
THIN = {
    "three equal columns": (on_a_line(1, 1, 1), 100, 6),
    "three equal columns, sharp": (on_a_line(1, 1, 1), 10_000, 25),
    "a line": (on_a_line(0.4, 1, -0.7), 1000, 11),
    "one column that is not constant": (on_a_line(0, 1, 0), 1000, 14),
    "two places": (two_places(15, 5, -12.5), 10, 30),
    "around two places": (two_places(15, 5, -12.5, blur=0.1), 10, 30),
    "two places in a plane": (two_places(15, 5), 1000, 10),
}


def upright(source: Source, rate: Fraction, space: Space) -> tuple[PointsLaw, Space]:
    return PointsLaw(source, rate=rate), space


@pytest.mark.parametrize("name", THIN)
def test_a_long_thin_law_takes_few_boxes(name: str) -> None:
    """Its boxes are long and thin themselves. Upright ones, the twin, are many more."""
    columns, epsilon, times = THIN[name]
    most = times * effort(even(3))
    assert effort(columns, epsilon, most) < most
    assert effort(columns, epsilon, most, upright) > most


@pytest.mark.parametrize("rows", [1500, 2500])
def test_whole_draws_along_a_line_end_soon(rows: int) -> None:
    """Of few rows, which are read for each box else, and of more."""
    schema, data = data_of(on_a_line(1, 1, 1, rows=rows))
    plan = calibrate(GeometricMedian(columns=tuple("xyz")), schema, Epsilon.parse("10000"))
    value: Any = plan.draw(data, seeded_randomness(1)).value
    assert value["x"] == pytest.approx(value["y"], abs=1e-3)
    assert value["x"] == pytest.approx(value["z"], abs=1e-3)
    assert 20 < value["x"] < 80


def test_among_many_rows_on_a_line_the_middle_is_found() -> None:
    """It is looked for among few cells first, which are wider than what the law is long."""
    columns = on_a_line(1, 1, rows=60_000)
    schema, data = data_of(columns)
    source = survey(data, Points(tuple(schema.columns), BITS - 20), 1 << BITS)
    law, space = PointsLaw.fitting(source, Fraction(100, 4), Space.cubic(2, 1 << BITS))
    assert law.needle is not None
    first, *slabs = law.start(space)
    assert min(slab.exponent for slab in slabs) > 30
    assert max(first.box.sides) < 2.0 ** (BITS - 10)
    middle = np.median(columns[0][0]) / 50 - 1
    assert law.needle.point * 2.0**-BITS == pytest.approx([middle, middle], abs=1e-4)


@pytest.mark.parametrize("columns", [even(2), even(3), even(4), clusters(1e-6, 1.0)])
def test_what_is_about_as_long_as_wide_has_upright_boxes(columns: list[Column]) -> None:
    schema, data = data_of(columns)
    source = survey(data, Points(tuple(schema.columns), BITS - 20), 1 << BITS)
    cube = Space.cubic(len(columns), 1 << BITS)
    law, space = PointsLaw.fitting(source, Fraction(1, 4), cube)
    assert law.needle is None
    assert space is cube


def beside(way: Sequence[float], rows: int, seed: int = 1, off: float = 300) -> Integers:
    """Return points about a line, some heavy, and some far off it."""
    random = np.random.default_rng(seed)
    places = np.rint(random.uniform(-0.8, 0.8, rows) * CODE_MAX)
    points = places[:, None] * np.array(way) / np.abs(way).max()
    points += random.normal(0, off, points.shape)
    points[: rows // 10] = points[0]
    points[-3:] = random.uniform(-CODE_MAX, CODE_MAX, (3, len(way)))
    return np.clip(np.rint(points), -CODE_MAX, CODE_MAX).astype(np.int64)


WAYS = [(1.0, 0.6), (0.4, -1.0, 0.7), (0.3, 0.5, 1.0, -0.8)]


def fields(codes: Integers, source: Source) -> Iterator[tuple[Field, float]]:
    """Yield fields made in every way, around a place on the line, with what they are sharp for."""
    centre = np.rint(np.median(codes << SHIFT, axis=0))
    for size in (RADIUS / 8, RADIUS / 64, RADIUS / 1024):
        [known] = source.around([passes.Ball(tuple(centre.tolist()), size)])
        yield known.field, size
        yield known.field.narrowed(centre + size / 8, size / 4, 2.0), size / 4


def bounds_hold(way: Sequence[float], most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    few_cells(monkeypatch, most)
    codes, random = beside(way, 400), np.random.default_rng(2)
    source = looked(codes, size=97)
    assert isinstance(source, HeldPoints if most > 400 else Rows)
    space, informative = Space.along(np.array(way), RADIUS), 0
    axis = space.order[0]
    for (field, size), thin in itertools.product(fields(codes, source), (4, 64, 1024)):
        half = np.full(len(way), size / thin / 3)
        half[axis] = size / 3
        offset = random.uniform(-1, 1, len(way)) * size / 4 / thin
        offset[axis] = random.uniform(-1, 1) * size / 4
        centre = field.centre + space.shear @ offset
        y = random.normal(size=(1, len(way)))
        free = bounded(field, centre[None], half[None], axes=space.shear)
        along = bounded(field, centre[None], half[None], axes=space.shear, ways=y)
        informative += free.least[0] > 0
        assert free.matter.min() >= 0
        for corner in (1, 1, 1, 0):
            signs = random.uniform(-1, 1, len(way))
            signs = np.sign(signs) if corner else signs
            place = [int(k) for k in np.rint(centre + space.shear @ (signs * (half - 2)))]
            wanted = gradient(codes, place, 80)
            assert free.least[0] <= length(wanted) + 1e-9
            assert free.most[0] >= length(wanted) - 1e-9
            leaning = float(np.array([float(w) for w in wanted]) @ y[0])
            assert along.least[0] <= leaning / np.linalg.norm(y) + 1e-9
    assert informative > 2


@pytest.mark.parametrize("most", [1 << 18, 150])
@pytest.mark.parametrize("way", WAYS)
def test_bounds_on_long_boxes_are_below_every_point(
    way: Sequence[float], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds_hold(way, most, monkeypatch)


def all_bounds_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    for way in WAYS:
        bounds_hold(way, 1 << 18, monkeypatch)


def no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "beyond_ahead", lambda q, across: 0 * q * across)


def upright_slopes(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = bounds.bounded
    eye: Any = lambda axes: None if axes is None else np.eye(len(axes))  # noqa: E731
    monkeypatch.setitem(
        globals(),
        "bounded",
        lambda *a, axes=None, ways=None: whole(*a, axes=eye(axes), ways=ways),
    )


@pytest.mark.parametrize("mistake", [no_rest, upright_slopes])
def test_wrong_bounds_on_long_boxes_are_caught(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Must fail: points ahead without what is beyond their slopes, boxes taken for upright ones."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        all_bounds_hold(monkeypatch)


def test_what_is_beyond_the_first_two_orders_is_less_than_said() -> None:
    """The closed form of what a long box loses, beside the loss itself; less must fail."""
    random = np.random.default_rng(4)
    q, turn = np.linspace(0.02, 0.98, 33)[:, None], random.uniform(0, 1, (1, 4000)) ** 3
    sides = np.sign(random.uniform(-1, 1, turn.shape))
    along, across = sides * q * np.sqrt(1 - turn**2), q * turn
    # seen from a point at distance 1 along the first axis
    size = np.hypot(1 + along, across)
    first = np.hypot((1 + along) / size - 1, across / size - across)
    second = np.hypot(
        (1 + along) / size - 1 + across**2 / 2, across / size - across + along * across
    )
    said = bounds.beyond_ahead(q, across)
    assert (first <= said + 1e-15).all()
    assert (second <= q * said + 1e-15).all()
    assert (first > 0.99 * said).any(), "it can be as much"
    assert (second > 0.99 * q * said).any()
    assert (first > q * across).any(), "without 1 - q it is too little"
    assert (second > q**2 * across).any()
    assert (first > q * across**2 / (1 - q)).any(), "it is not of the order of the square"


@pytest.mark.parametrize("dimension", [2, 3])
def test_what_lies_outside_a_slanted_box_is_bounded(dimension: int) -> None:
    codes, random = beside((1.0,) * dimension, 3000, off=0), np.random.default_rng(3)
    codes[-3:] = 0
    cube = Space.cubic(dimension, RADIUS)
    law, space = PointsLaw.fitting(looked(codes), Fraction(100), cube)
    assert law.needle is not None
    first, *slabs = law.start(space)
    assert min(slab.exponent for slab in slabs) > 30
    assert max(first.box.sides) < RADIUS / 32
    everywhere = first.box.points + sum(slab.box.points for slab in slabs)
    assert everywhere == space.root().points
    half, found = np.array(first.box.sides) / 2, []
    centre = np.array(first.box.lower) + half
    for slab in slabs:
        low, n = np.array(slab.box.lower), np.array(slab.box.sides)
        for share in random.uniform(0, 1, (4, dimension)):
            near = np.clip(centre + (2 * share - 1) * half, low, low + n - 1)
            for u in (low + share * n, near):
                place = [int(k) for k in np.rint(space.shear @ u)]
                found.append(100 * length(gradient(codes, place, 80)))
                assert slab.exponent <= found[-1] + 1e-9
    assert min(found) < 100 * slabs[0].exponent


GRID = 4
SMALL = [(-4, -2), (-4, -2), (0, 0), (3, 2), (3, 2), (1, -1)]


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("way", [(2.0, 1.0), (-0.3, 1.0)])
def test_draws_on_slanted_boxes_follow_the_law_and_no_other(way: tuple[float, ...]) -> None:
    source = held(np.array(SMALL), Points(("x", "y"), 0), GRID)
    space = Space.along(np.array(way), GRID)
    needle = Needle(np.zeros(2), space.shear, space.order[0], 0.0, 1.0, 99.0)
    law = PointsLaw(source, rate=Fraction(2), needle=needle)
    rows = [list(place) for place in SMALL]
    exponents = {
        place: 2 * length([Fraction(k, 1 << 90) for k in passes.unit_sum(rows, None, place, 90)])
        for place in itertools.product(range(-GRID, GRID + 1), repeat=2)
    }
    require_law(lambda: Cover(law, space), exponents, twins=(0.7, 1.3))


def test_what_is_beyond_along_a_direction_is_less_than_said() -> None:
    """Beside what a unit vector does, for any direction; without what is along it, it is less."""
    random = np.random.default_rng(5)
    count = 20_000
    turn, q = random.uniform(0, 1, count) ** 3, random.uniform(0.01, 0.95, count)
    along = np.where(random.uniform(size=count) < 0.5, -1, 1) * q * np.sqrt(1 - turn**2)
    across, angle = q * turn, random.uniform(0, 2, count) ** 4
    size = np.hypot(1 + along, across)
    beyond = np.array([(1 + along) / size - 1, across / size - across])
    w = np.array([np.cos(angle), np.sin(angle)])
    lost = np.abs((w * beyond).sum(axis=0))
    said = bounds.beyond_along(q, across, w[0])
    assert (lost <= said + 1e-15).all()
    assert (lost > 0.5 * said).any()
    aside = np.sqrt(1 - w[0] ** 2) * bounds.beyond_ahead(q, across)
    assert (lost > aside + 1e-9).any(), "along it the rest is no less than that"
    assert (said < bounds.beyond_ahead(q, across) / 8).any(), "ahead it is far less than aside"
