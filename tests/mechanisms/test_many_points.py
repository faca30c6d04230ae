"""The geometric median of many rows: cells, fields and passes against every point one by one."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from mechanisms.catalog import calibrate
from mechanisms.contract import Block, T
from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.exact.floats import Integers, working_precision
from mechanisms.kng import geometric_median as drawn
from mechanisms.objectives.geometric_median import MedianLaw
from mechanisms.objectives.points import LineLaw, Points, PointsLaw, bounds, cells, passes, survey
from mechanisms.objectives.points.bounds import bounded
from mechanisms.objectives.points.cells import Cells
from mechanisms.objectives.points.field import Field, Near
from mechanisms.objectives.points.source import HeldPoints, Rows, Source
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.boxes import Box, Cover, Space, draw
from mechanisms.samplers.envelopes import MOST_BYTES
from mechanisms.sketches import ArrayData
from mechanisms.statistics.geometric_median import GeometricMedian
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.mechanisms.covers import require_law
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
NUMBER = NumberColumn(Fraction(-1), Fraction(1))
SHIFT = 4
RADIUS = 1 << 20 + SHIFT


@dataclass(frozen=True)
class InBlocks:
    """Rows in blocks of a given size."""

    codes: Integers
    size: int = 1 << 18

    def blocks(self, columns: Sequence[str]) -> Iterator[Block]:
        for first in range(0, len(self.codes), self.size):
            part = self.codes[first : first + self.size]
            yield {name: part[:, "xyzw".index(name)].astype(np.int32) for name in columns}

    def map(self, function: Callable[[Block], T], columns: Sequence[str], /) -> Iterator[T]:
        return map(function, self.blocks(columns))

    def __getattr__(self, name: str) -> Any:  # the rest of Data is not asked for
        raise AssertionError(name)


def scattered(rows: int, dimension: int, seed: int = 0, wide: int = 1 << 20) -> Integers:
    """Return points around a middle, with ties, a heavy point and some at the corners."""
    random = np.random.default_rng(seed)
    points = np.rint(random.normal(0, wide / 6, (rows, dimension))).astype(np.int64)
    points[: rows // 20] = points[0]
    points[rows // 20 : rows // 10] //= 1 << 12
    points[-2:] = [[wide] * dimension, [-wide] * dimension]
    return np.clip(points, -wide, wide)


def looked(codes: Integers, size: int = 1 << 18) -> Source:
    names = tuple("xyzw"[: codes.shape[1]])
    data: Any = InBlocks(codes, size)
    return survey(data, Points(names, SHIFT), RADIUS)


def gradient(codes: Integers, place: Sequence[int], bits: int = 200) -> list[Fraction]:
    """Return the sum of unit vectors, to about 190 bits."""
    rows = (codes << SHIFT).tolist()
    total = passes.unit_sum(rows, None, place, bits)
    return [Fraction(entry, 1 << bits) for entry in total]


def length(vector: Sequence[Fraction]) -> float:
    return float(np.sqrt(float(sum((entry * entry for entry in vector), Fraction(0)))))


def few_cells(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(cells, "MOST_CELLS", most)


def test_a_sum_in_integers_is_that_of_balls() -> None:
    codes = scattered(50, 3)
    law = MedianLaw(codes << SHIFT, rate=Fraction(1))
    for place in [(1, 2, 3), tuple((codes[0] << SHIFT).tolist())]:
        with working_precision(300):
            wanted = law.exponent(None, place, 300)
            assert length(gradient(codes, place)) == pytest.approx(float(wanted), abs=1e-12)


@pytest.mark.parametrize("dimension", [2, 3, 4])
@pytest.mark.parametrize("most", [1 << 19, 60, 1])
def test_cells_keep_every_point_in_any_blocks(
    dimension: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_cells(monkeypatch, most)
    codes = scattered(700, dimension)
    look = passes.Survey(Points(tuple("xyzw"[:dimension]), SHIFT))
    whole = Cells.of(codes, look.frame)
    for size in (1, 97, 700):
        parts = [Cells.of(codes[k : k + size], look.frame) for k in range(0, 700, size)]
        found = Cells.all(parts, look.frame)
        for name in ("level", "keys", "counts", "sums", "least", "largest"):
            assert np.array_equal(getattr(found, name), getattr(whole, name)), name
    assert len(whole) <= max(most, 2**dimension)
    assert whole.counts.sum() == 700
    assert (whole.sums.sum(axis=0) == codes.sum(axis=0)).all()
    # in four dimensions a key has no room for the last six bits
    assert whole.exact == (most > 700 and dimension < 4)


def fields(dimension: int, most: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Field]:
    """Yield fields that were made in every way, on balls inside each other."""
    few_cells(monkeypatch, most)
    source = looked(scattered(700, dimension, seed=dimension), size=256)
    assert isinstance(source, HeldPoints if most > 700 and dimension < 4 else Rows)
    yield source.root.field
    for size in (RADIUS / 4, RADIUS / 64, RADIUS / 4096):
        ball = passes.Ball((300.0,) * dimension, size)
        [known] = source.around([ball])
        yield known.field
        inner = known.field.narrowed(np.array(ball.centre) + size / 8, size / 4, 2.0)
        yield inner
        yield inner.narrowed(inner.centre, size / 64, 4.0)
        yield replace(known.field, near=known.field.near.grouped(20))


def inside(field: Field, random: np.random.Generator) -> list[int]:
    """Return a point of a field's ball, and of Theta."""
    d = len(field.centre)
    offset = random.uniform(-1, 1, d) * field.radius / np.sqrt(d)
    place = np.clip(np.rint(field.centre + offset), -RADIUS, RADIUS)
    return [int(k) for k in place]


@pytest.mark.parametrize("dimension", [2, 3, 4])
@pytest.mark.parametrize("most", [1 << 19, 150])
def test_values_of_a_field_hold_the_sum(
    dimension: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes, random = scattered(700, dimension, seed=dimension), np.random.default_rng(1)
    for field in fields(dimension, most, monkeypatch):
        for _ in range(4):
            place = inside(field, random)
            found, error = field.value(np.array(place, dtype=float))
            wanted = gradient(codes, place)
            off = [Fraction(a) - b for a, b in zip(found.tolist(), wanted, strict=True)]
            assert length(off) <= error


@pytest.mark.parametrize("dimension", [2, 3, 4])
@pytest.mark.parametrize("most", [1 << 19, 150])
def test_bounds_of_a_field_are_below_every_point(
    dimension: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes, random = scattered(700, dimension, seed=dimension), np.random.default_rng(2)
    informative = 0
    for field in fields(dimension, most, monkeypatch):
        for share in (0.3, 0.02):
            wide = share * field.radius / np.sqrt(dimension)
            half = np.ceil(random.uniform(0.5, 1, dimension) * wide)
            offset = random.uniform(-0.3, 0.3, dimension) * field.radius
            centre = np.rint(field.centre + offset)
            way = random.normal(size=(1, dimension))
            free = bounded(field, centre[None, :], half[None, :])
            along = bounded(field, centre[None, :], half[None, :], ways=way)
            informative += free.least[0] > 0
            for _ in range(3):
                offset = random.uniform(-1, 1, dimension) * half
                place = [int(k) for k in centre + np.trunc(offset)]
                wanted = gradient(codes, place)
                assert free.least[0] <= length(wanted) + 1e-9
                leaning = float(np.array([float(w) for w in wanted]) @ way[0])
                assert along.least[0] <= leaning / np.linalg.norm(way) + 1e-9
    assert informative > 2


def wrong_remainder(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = passes.far_terms
    monkeypatch.setattr(
        passes, "far_terms", lambda unit, t: [*whole(unit, t)[:-1], np.zeros_like(t)]
    )


def lost_record(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = passes.far_terms
    monkeypatch.setattr(passes, "far_terms", lambda unit, t: [e[1:] for e in whole(unit, t)])


def blind_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Near.of

    def blind(found: Cells, shift: int) -> Near:
        near = whole(found, shift)
        return replace(near, blurs=0 * near.blurs)

    monkeypatch.setattr(Near, "of", blind)


@pytest.mark.parametrize("mistake", [wrong_remainder, lost_record, blind_cells])
def test_a_wrong_field_is_caught(
    mistake: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Must fail: an expansion without its remainder, a sum without a record, points off place."""
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        test_values_of_a_field_hold_the_sum(2, 150, monkeypatch)


@pytest.mark.parametrize("dimension", [2, 3])
def test_what_lies_outside_the_first_box_is_bounded(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_cells(monkeypatch, 400)
    codes, random = scattered(3000, dimension), np.random.default_rng(3)
    law = PointsLaw(looked(codes, size=1000), rate=Fraction(2))
    first, *slabs = law.start(Space.cubic(dimension, RADIUS))
    assert len(slabs) == 2 * dimension
    assert min(slab.exponent for slab in slabs) > 30
    everywhere = first.box.points + sum(slab.box.points for slab in slabs)
    assert everywhere == (2 * RADIUS + 1) ** dimension
    for slab in slabs:
        for _ in range(3):
            place = [low + int(random.random() * n) for low, n in sides(slab.box)]
            assert slab.exponent <= 2 * length(gradient(codes, place)) + 1e-9
        touching = [
            min(max(middle, low), low + n - 1)
            for middle, (low, n) in zip(middle_of(first.box), sides(slab.box), strict=True)
        ]
        assert slab.exponent <= 2 * length(gradient(codes, touching)) + 1e-9


def test_a_first_box_is_found_where_the_noise_is_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most points are near its boundary: of few cells too little would be known there."""
    law = PointsLaw(looked(scattered(30_000, 3)), rate=Fraction(1, 40))
    first, *slabs = law.start(Space.cubic(3, RADIUS))
    assert min(slab.exponent for slab in slabs) > 30
    assert max(first.box.sides) < RADIUS / 8
    monkeypatch.setattr(bounds, "_BOUNDARY_CELLS", 1 << 12)
    wider, *_ = law.start(Space.cubic(3, RADIUS))
    assert max(wider.box.sides) > 4 * max(first.box.sides)


@pytest.mark.parametrize("dimension", [2, 3, 4])
def test_a_first_box_is_found_around_points_in_a_corner(dimension: int) -> None:
    codes = np.abs(scattered(3000, dimension, wide=1 << 18)) - (1 << 20)
    law = PointsLaw(looked(codes), rate=Fraction(1))
    first, *slabs = law.start(Space.cubic(dimension, RADIUS))
    assert min(slab.exponent for slab in slabs) > 30
    assert max(first.box.sides) < RADIUS / 32


@pytest.mark.parametrize("others", [0, 30])
def test_a_first_box_is_found_around_points_in_one_cell(others: int) -> None:
    """Of bounds so wide that nearly all rows are one cell of all: without it draws did not end."""
    codes = scattered(3000, 4, wide=31) + 32
    codes[:others] = scattered(3000, 4)[1000 : 1000 + others]
    source = looked(codes)
    assert len(source.root.field.near) <= others + 1
    first, *slabs = PointsLaw(source, rate=Fraction(1)).start(Space.cubic(4, RADIUS))
    assert min(slab.exponent for slab in slabs) > 30
    assert max(first.box.sides) < 31 << SHIFT


def test_boxes_share_a_table_of_points_and_count_it_once() -> None:
    codes = scattered(30_000, 3)
    law, space = PointsLaw(looked(codes), rate=Fraction(1, 100)), Space.cubic(3, RADIUS)
    first = law.start(space)[0]
    held, own = [first.known], []
    half = np.array(first.box.sides) / 2
    for level in range(1, 4):
        children = law.split(held[0], middle_of(first.box) - np.zeros((1, 3)), half / 2**level)
        held = list(children.knowledge)
        own.append(law.size(held[0]))
        near = held[0].field.near
        assert near.places is first.known.field.near.places
        assert len(near.rows()) == len(near)
    assert max(own) <= 4 * len(codes) + 4000


@pytest.mark.slow
def test_a_draw_of_wide_noise_forgets_no_box() -> None:
    """Else boxes would be made again and again: this draw took more than 5,000 tries then."""
    law = PointsLaw(looked(scattered(30_000, 4)), rate=Fraction(3, 400))
    cover, random = Cover(law, Space.cubic(4, RADIUS)), seeded_randomness(1)
    tries = itertools.takewhile(
        lambda point: point is None, (cover.attempt(random) for _ in itertools.count())
    )
    assert sum(1 for _ in tries) < 1500
    assert cover.envelope.size < MOST_BYTES / 2


def sides(box: Box) -> list[tuple[int, int]]:
    return list(zip(box.lower, box.sides, strict=True))


def middle_of(box: Box) -> list[int]:
    return [low + n // 2 for low, n in sides(box)]


@pytest.mark.parametrize("most", [1 << 18, 2])
@pytest.mark.parametrize("bits", [128, 192, 256])
def test_values_are_those_of_the_law_of_few_rows(
    most: int, bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_cells(monkeypatch, most)
    codes = scattered(60, 2)
    few, many = MedianLaw(codes << SHIFT, rate=F3), PointsLaw(looked(codes), rate=F3)
    for place in [(5, -3), (12345, 54321), tuple((codes[0] << SHIFT).tolist())]:
        with working_precision(bits):
            found = many.exponent(many.source.root, place, bits)
            wanted = few.exponent(None, place, bits)
        assert found.overlaps(wanted)
        assert float(found.rad()) < (1e-9 if bits > 128 or most > 2 else 400)


GRID = 4
SMALL = [(-4, -2), (0, 0), (1, 3), (3, 3), (2, -1), (2, -1)]


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("most", [1 << 18, 2])
def test_draws_follow_the_law_and_no_other(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a grid as coarse as codes, from points in memory and from two cells and passes."""
    few_cells(monkeypatch, most)
    data: Any = InBlocks(np.array(SMALL), 2)
    source = survey(data, Points(("x", "y"), 0), GRID)
    assert isinstance(source, HeldPoints if most > 2 else Rows)
    law = PointsLaw(source, rate=Fraction(2))
    exponents = {
        place: 2 * length([Fraction(k, 1 << 90) for k in passes.unit_sum(ROWS, None, place, 90)])
        for place in itertools.product(range(-GRID, GRID + 1), repeat=2)
    }
    require_law(lambda: Cover(law, Space.cubic(2, GRID)), exponents, twins=(0.7, 1.3))


ROWS = [list(place) for place in SMALL]
F3 = Fraction(3)


@pytest.mark.wide
def test_blocks_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    few_cells(monkeypatch, 600)
    codes, space = scattered(3000, 2, seed=5), Space.cubic(2, RADIUS)
    found = {
        draw(PointsLaw(looked(codes, size), rate=Fraction(1)), space, seeded_randomness(6))
        for size in (3000, 700)
    }
    assert len(found) == 1


def test_passes_travel() -> None:
    names = Points(("x", "y"), SHIFT)
    ball = passes.Ball((0.0, 0.0), 16.0)
    [block] = InBlocks(scattered(50, 2)).blocks(("x", "y"))
    looks: list[Callable[[Block], object]] = [
        passes.Survey(names),
        passes.Expand(names, (ball,)),
        passes.Gradient(names, (1, 2)),
        passes.ExactGradient(names, (1, 2), 90),
    ]
    for look in looks:
        there = pickle.loads(pickle.dumps(look))(block)
        assert pickle.dumps(there) == pickle.dumps(look(block))


def test_one_column_is_that_of_few_rows() -> None:
    records = [-30, 0, 2, 2, 4, 4, 4, 9]
    for some in (records, records[:4], [3, 3, 3], [1, 1, 5, 5], []):
        values, counts = np.unique(np.array(some, dtype=np.int64), return_counts=True)
        line = LineLaw(values, counts, rate=Fraction(1, 4))
        few = MedianLaw(np.array(some, dtype=np.int64)[:, None], rate=Fraction(1, 4))
        worth = {k: float(few.exponent(None, (k,), 128)) for k in range(-40, 41)}
        for place, wanted in worth.items():
            assert float(line.exponent(None, (place,), 128)) == pytest.approx(wanted)
        for low, n in itertools.product(range(-40, 30), (1, 2, 5, 11)):
            bound = line.split(None, np.array([[low + n / 2]]), np.array([n / 2])).exponents[0]
            inside = min(worth[k] for k in range(low, low + n + 1))  # ends included
            assert inside - 1e-9 <= bound + 1e-9 <= inside + 2e-9


@pytest.mark.statistical
def test_draws_on_a_line_follow_the_law_and_no_other() -> None:
    line = LineLaw(np.array([-4, 1, 2]), np.array([1, 2, 1]), rate=Fraction(1))
    places = range(-5, 6)
    norms = {
        k: abs((k > -4) - (k < -4) + 2 * ((k > 1) - (k < 1)) + (k > 2) - (k < 2)) for k in places
    }
    order = {place: i for i, place in enumerate(sorted(norms, key=norms.__getitem__))}
    exact, *twins = (
        Law.discrete(list(order.values()), [np.exp(-scale * norms[p]) for p in order])
        for scale in (1.0, 0.7, 1.3)
    )
    randomness = seeded_randomness(3)
    covers = [Cover(line, Space.cubic(1, 5)) for _ in range(20)]
    draws = [order[cover.draw(randomness)[0]] for cover in covers for _ in range(400)]
    check_draws(draws, exact, twins=twins)


@pytest.mark.parametrize("dimension", [2, 3])
def test_whole_draws_fall_where_few_rows_put_them(
    dimension: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The two ways to draw, at a rate so large that both must fall at the minimiser."""
    names = tuple("xyzw"[:dimension])
    codes = scattered(2500, dimension, seed=dimension)
    known = Schema(dict.fromkeys(names, NUMBER), REPLACE, len(codes))
    values = {name: list(codes[:, j] / CODE_MAX) for j, name in enumerate(names)}
    data = ArrayData.from_values(known, values)
    found = []
    for few in (10**9, 0):
        monkeypatch.setattr(drawn, "FEW_ROWS", few)
        plan = calibrate(GeometricMedian(columns=names), known, Epsilon.parse("10000"))
        value: Any = plan.draw(data, seeded_randomness(1)).value
        found.append([value[name] for name in names])
    assert found[0] == pytest.approx(found[1], abs=2e-6)


def test_no_number_of_rows_is_refused() -> None:
    columns = dict.fromkeys("abcd", NUMBER)
    for schema in (Schema(columns, REPLACE, 10**9), Schema(columns, ADD, None, 10**9)):
        for names in ("a", "ab", "abc", "abcd"):
            calibrate(GeometricMedian(columns=tuple(names)), schema, Epsilon.parse("1"))


@in_one("dimension", [1, 2, 3, 4])
@in_one("places", [[], [0.3], [0.3] * 7, [0.1, -0.5], [-1.0] * 3 + [1.0] * 3])
def test_few_rows_under_a_high_bound_are_drawn(dimension: int, places: list[float]) -> None:
    names = tuple("xyzw"[:dimension])
    known = Schema(dict.fromkeys(names, NUMBER), ADD, None, 10**5)
    data = ArrayData.from_values(known, {name: list(places) for name in names})
    plan = calibrate(GeometricMedian(columns=names), known, Epsilon.parse("1"))
    value: Any = plan.draw(data, seeded_randomness(1)).value
    assert all(-1 <= value[name] <= 1 for name in names)
