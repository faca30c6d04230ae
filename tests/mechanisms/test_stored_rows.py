"""Quantile regression over rows that are too many to hold: the law, the bounds and the draws."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mechanisms.catalog import calibrate
from mechanisms.contract import Block
from mechanisms.domain import CODE_MAX, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.objectives.check_loss import (
    CheckLossLaw,
    GradientLaw,
    Grid,
    Limits,
    LossLaw,
    MakeLaw,
    Records,
    StoredLaw,
    StoredRows,
    survey,
)
from mechanisms.objectives.check_loss.stored_law import Held, Unread
from mechanisms.objectives.design import InterceptHullNorm, Linf, distinct_rows
from mechanisms.privacy import Adjacency, Epsilon
from mechanisms.samplers.boxes import Box, Cover, Space
from mechanisms.sketches import ArrayData
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import seeded_randomness
from tests.tiers import in_one

REPLACE, ADD = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE
HALF, HIGH = Fraction(1, 2), Fraction(9, 10)
BITS = 38
Codes = NDArray[np.int64]

LAWS: dict[str, MakeLaw] = {
    "linf": partial(GradientLaw, tau=HALF, rate=Fraction(1), norm=Linf()),
    "hull": partial(GradientLaw, tau=HIGH, rate=Fraction(1, 3), norm=InterceptHullNorm(HIGH)),
    "loss": partial(LossLaw, tau=Fraction(1, 5), rate=Fraction(1)),
}


def codes(dimension: int, rows: int, *, coarse: int = 0) -> Codes:
    """Return rows (x, y) about a line, rounded to so many steps: these tie."""
    rng = np.random.default_rng(rows + dimension)
    x = [np.ones(rows), *(rng.uniform(-1, 1, rows) for _ in range(dimension - 1))]
    y = sum(x) / 5 + rng.normal(0, 0.1, rows)
    values = np.clip(np.array([*x, y]), -1, 1)
    if coarse:
        values = np.rint(values * coarse) / coarse
    return np.rint(values * CODE_MAX).astype(np.int64).T


def read(block: Block) -> Floats:
    return np.array(list(block.values()), dtype=np.float64)


def blocks_of(rows: Codes, size: int) -> list[dict[str, NDArray[Any]]]:
    names = [f"column {place}" for place in range(rows.shape[1])]
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    return [dict(zip(names, part.T.astype(np.int32), strict=True)) for part in parts]


def stored(
    rows: Codes,
    make: MakeLaw,
    *,
    size: int = 256,
    held: int = 1000,
    sample: int = 256,
    changed: Callable[[Any], Any] = lambda found: found,
) -> StoredRows:
    """Return rows that are read in blocks, what is found on the way perhaps changed."""
    limits = Limits(rows=len(rows), held=held, sample=sample)

    def run(function: Callable[[Any], Any], /) -> Iterator[Any]:
        return (changed(function(block)) for block in blocks_of(rows, size))

    found = survey(run, read, columns=rows.shape[1], stride=limits.stride)
    space = Space.uncorrelated(found.gram[:-1, :-1].astype(np.float64), 2 << BITS)
    grid = Grid(space=space, bits=BITS, spread=isinstance(make, partial) and rows.shape[1] > 2)
    grid = replace(grid, spread=grid.spread and make.func is GradientLaw)  # type: ignore[attr-defined]
    return StoredRows(run=run, read=read, make=make, grid=grid, limits=limits, surveyed=found)


def whole(rows: StoredRows, every: Codes) -> CheckLossLaw:
    """Return the law of the same rows, all of them held."""
    return rows.make(Records.on(rows.grid, *distinct_rows(every)))


def boxes(space: Space, parts: int, seed: int) -> Iterator[tuple[Box, list[Box]]]:
    """Yield boxes on a way down from Theta, each with its parts."""
    box, rng = space.root(), np.random.default_rng(seed)
    for _ in range(parts):
        cuts = box.parts([2] * space.dimension)
        yield box, cuts
        box = cuts[int(rng.integers(len(cuts)))]


def shape(parts: list[Box]) -> tuple[Floats, Floats]:
    sides = np.array([part.sides for part in parts], dtype=np.float64)
    lower = np.array([part.lower for part in parts], dtype=np.float64)
    return lower + sides / 2, sides.max(axis=0) / 2


def require_same(rows: StoredRows, every: Codes, *, seed: int, deep: int = 4) -> set[bool]:
    """Assert that boxes' parts and points have the law of all rows held; say which were held."""
    exact, law = whole(rows, every), StoredLaw(rows, rows.make(_none(rows)).rate)
    randomness, ways = seeded_randomness(seed), set()
    for box, parts in boxes(rows.grid.space, deep, seed):
        children = law.split(Unread.of(box), *shape(parts))
        for part, low, known in zip(parts, children.exponents, children.knowledge, strict=True):
            ways.add(isinstance(known, Held))
            for _ in range(2):
                point = rows.grid.space.draw_point(part, randomness)
                value = exact.value(exact.root(), point)
                assert rows.value(point) == value
                assert float(low) <= float(exact.rate * value)
                if isinstance(known, Held):
                    assert known.law.value(known.known, point) == value
    return ways


def _none(rows: StoredRows) -> Records:
    size = len(rows.surveyed.total)
    return Records.on(rows.grid, *distinct_rows(np.zeros((0, size), dtype=np.int64)))


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("law", LAWS)
def test_sums_over_blocks_are_the_law_of_all_rows(law: str, dimension: int) -> None:
    """Points, parts that are held and parts that are not, with and without ties."""
    ways = set()
    for held, coarse in ((0, 0), (300, 0), (2000, 4)):
        rows = codes(dimension, 700, coarse=coarse)
        ways |= require_same(stored(rows, LAWS[law], held=held), rows, seed=held)
    assert ways == {True, False}


@dataclass(frozen=True)
class OneMore:
    """A twin that counts one too many: in a block's sums of reached rows, or of open ones."""

    name: str

    def __call__(self, found: Any) -> Any:
        if not isinstance(found, tuple) or not isinstance(found[0], list):
            return found
        parts, sample = found
        sums = getattr(parts[0], self.name)
        first = replace(parts[0], **{self.name: (sums[0] + 1, *sums[1:])})
        return [first, *parts[1:]], sample


@pytest.mark.parametrize("name", ["reached", "opened"])
def test_a_twin_that_counts_one_too_many_is_caught(name: str) -> None:
    rows = codes(2, 700)
    require_same(stored(rows, LAWS["loss"], held=4000), rows, seed=3)
    with pytest.raises(AssertionError):
        require_same(stored(rows, LAWS["loss"], held=4000, changed=OneMore(name)), rows, seed=3)


def beside(box: Box, inner: Box) -> Box:
    """Return what of a box is nearest to another one."""
    ends = [
        (min(max(a, b - 2), a + n - 1), max(min(a + n, b + m + 2), a + 1))
        for a, n, b, m in zip(box.lower, box.sides, inner.lower, inner.sides, strict=True)
    ]
    return Box(tuple(a for a, _ in ends), tuple(b - a for a, b in ends))


def require_start(law: StoredLaw, every: Codes, *, near: bool) -> list[Any]:
    """Assert that a draw starts at boxes that tile Theta, with bounds that are true."""
    space = law.rows.grid.space
    parts = law.start(space)
    assert sum(part.box.points for part in parts) == space.root().points
    exact, randomness = whole(law.rows, every), seeded_randomness(2)
    inner = next((part.box for part in parts if isinstance(part.known, Held)), space.root())
    for part in parts:
        for box in (part.box, part.box, part.box, *[beside(part.box, inner)] * 3):
            point = space.draw_point(box, randomness)
            value = exact.value(exact.root(), point)
            assert part.exponent <= float(exact.rate * value)
            if isinstance(part.known, Held):
                assert part.known.law.value(part.known.known, point) == value
    held = [part for part in parts if isinstance(part.known, Held)]
    assert bool(held) == near
    return parts


SHARP = {
    "sharp": partial(GradientLaw, tau=HALF, rate=Fraction(5000), norm=Linf()),
    "sharp loss": partial(LossLaw, tau=HALF, rate=Fraction(5000)),
}


@pytest.mark.parametrize("law", LAWS | SHARP)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_a_draw_starts_near_the_minimiser_and_what_lies_outside_weighs_little(
    dimension: int, law: str
) -> None:
    rows = codes(dimension, 1 << 14)
    make = (LAWS | SHARP)[law]
    built = StoredLaw(stored(rows, make, size=8192, held=12_000, sample=4096), Fraction(1))
    parts = require_start(built, rows, near=True)
    outside = [part.exponent for part in parts if isinstance(part.known, Unread)]
    inside = [part.exponent for part in parts if isinstance(part.known, Held)]
    assert min(outside) > min(inside) + 20


@dataclass
class Passes:
    """Counts passes by what is done to blocks."""

    made: int = 0

    def of(self, rows: StoredRows) -> StoredRows:
        def run(function: Callable[[Any], Any], /) -> Iterator[Any]:
            self.made += 1
            return rows.run(function)

        return replace(rows, run=run)


@pytest.mark.wide
def test_a_sample_too_poor_for_one_step_is_bettered_by_passes() -> None:
    """Open records are still too many around the first fit: a sample of them fits better."""
    rows, passes = codes(2, 1 << 15), Passes()
    built = passes.of(stored(rows, LAWS["linf"], size=4096, held=3000, sample=256))
    require_start(StoredLaw(built, Fraction(1)), rows, near=True)
    assert passes.made > 1


def test_a_hint_that_is_wrong_costs_passes_alone() -> None:
    """All rows that are sampled first are alike, and of another line."""
    rows, passes = codes(2, 1 << 13), Passes()
    wrong = np.tile([CODE_MAX, CODE_MAX // 3, CODE_MAX], (256, 1))
    built = passes.of(stored(rows, LAWS["linf"], size=1024, held=4000))
    misled = replace(built, surveyed=replace(built.surveyed, sample=wrong))
    require_start(StoredLaw(misled, Fraction(1)), rows, near=True)
    assert passes.made > 2


def test_where_most_rows_stay_open_theta_is_left_unread() -> None:
    rows = codes(2, 2000)
    weak = partial(GradientLaw, tau=HALF, rate=Fraction(1, 10**6), norm=Linf())
    built = StoredLaw(stored(rows, weak, held=100), Fraction(1, 10**6))
    [root] = require_start(built, rows, near=False)
    assert root.exponent == 0
    drawn = Cover(built, built.rows.grid.space).draw(seeded_randomness(1))
    assert sum(map(abs, drawn)) <= 2 << BITS


def test_a_draw_outside_of_what_is_held_reads_the_rows_and_goes_on() -> None:
    rows, passes = codes(2, 1 << 13), Passes()
    built = passes.of(stored(rows, LAWS["linf"], size=1024, held=3000, sample=1024))
    law, exact = StoredLaw(built, Fraction(1)), whole(built, rows)
    outside = max(law.start(built.grid.space), key=lambda part: part.box.points)
    before = passes.made
    point = built.grid.space.draw_point(outside.box, seeded_randomness(1))
    for bits in (64, 128):
        ball = law.exponent(outside.known, point, bits)
        assert abs(float(ball.mid()) - float(exact.value(exact.root(), point))) < 1e-9
    assert passes.made == before + 1
    children = law.split(outside.known, *shape(outside.box.parts([2, 2])))
    assert passes.made == before + 2
    assert len(children.knowledge) == 4


# Draws of whole plans -----------------------------------------------------------------------


NUMBER = NumberColumn(Fraction(-1), Fraction(1))


@dataclass(frozen=True)
class Parted:
    """The same rows, in blocks of another size, that are read elsewhere."""

    data: ArrayData
    size: int

    def map(self, function: Callable[[Block], Any], columns: list[str], /) -> Iterator[Any]:
        for start in range(0, self.data.rows, self.size):
            part = slice(start, start + self.size)
            arrived = pickle.loads(pickle.dumps(function))
            block = {name: self.data.codes[name][part] for name in columns}
            yield pickle.loads(pickle.dumps(arrived(block)))


def planned(values: Mapping[str, NDArray[Any]], *, mechanism: str, adjacency: Adjacency) -> Any:
    rows = len(next(iter(values.values())))
    fixed = rows if adjacency is REPLACE else None
    schema = Schema(dict.fromkeys(values, NUMBER), adjacency, fixed, 2 * rows)
    features = tuple(name for name in values if name != "y")
    plan = calibrate(
        QuantileRegression(target="y", features=features, tau=0.75, bound=2.0),
        schema,
        Epsilon.parse("1"),
        mechanism=mechanism,
    )
    data = ArrayData.from_values(schema, {name: list(column) for name, column in values.items()})
    return plan.draw, data


@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
@pytest.mark.parametrize("mechanism", ["kng", "exponential"])
def test_blocks_of_any_size_give_the_same_bits(mechanism: str, adjacency: Adjacency) -> None:
    rng = np.random.default_rng(3)
    x = rng.uniform(-1, 1, 4096)
    values = {"x": x, "y": x / 3 + rng.normal(0, 0.1, 4096)}
    draw, data = planned(values, mechanism=mechanism, adjacency=adjacency)
    stored_draw = replace(draw, rows=replace(draw.rows, held=2500, sample=1024))
    drawn = [
        stored_draw(Parted(data, size), seeded_randomness(7)).value
        for size in (4096, 1024, 64 * 13)
    ]
    assert drawn[0] == drawn[1] == drawn[2]
    assert drawn[0]["coefficients"]["x"] == pytest.approx(1 / 3, abs=0.3)


@in_one("mechanism", ["kng", "exponential"])
@in_one("column", [[], [0.5], [0.25] * 300, [-1.0, 1.0] * 150])
def test_few_distinct_rows_are_held_however_many_there_are(
    column: list[float], mechanism: str
) -> None:
    values = {"x": np.array(column), "y": np.array(column) / 2}
    draw, data = planned(values, mechanism=mechanism, adjacency=ADD)
    drawn = replace(draw, rows=replace(draw.rows, held=0, sample=1))
    first, second = (each(data, seeded_randomness(1)).value for each in (draw, drawn))
    assert first == second


@pytest.mark.parametrize("mechanism", ["kng", "exponential"])
@pytest.mark.parametrize("adjacency", [REPLACE, ADD])
def test_no_number_of_rows_is_refused(adjacency: Adjacency, mechanism: str) -> None:
    columns = dict.fromkeys(("x", "z", "w", "y"), NUMBER)
    statistic = QuantileRegression(target="y", features=("x", "z", "w"), bound=1.0)
    before = 0.0
    for power in range(3, 12):
        schema = Schema(columns, adjacency, 10**power if adjacency is REPLACE else None, 10**power)
        for epsilon in ("0.001", "1", "10000"):
            plan = calibrate(statistic, schema, Epsilon.parse(epsilon), mechanism=mechanism)
        assert plan.expected_ms >= before
        before = plan.expected_ms
        assert 2**-41 <= plan.draw.rows.step <= 2**-38


def test_positions_stay_in_64_bits_on_the_finest_grid() -> None:
    """The largest codes, the largest coefficients and the smallest targets."""
    grid = Grid(space=Space.plain(2, 1 << 41), bits=41, spread=True)
    ends = np.array([[CODE_MAX, CODE_MAX, -CODE_MAX], [-CODE_MAX, CODE_MAX, CODE_MAX]])
    records = Records.on(grid, ends, np.ones(2, dtype=np.int64))
    for point in ((1 << 41, 0), (-(1 << 41), 0), (1 << 40, 1 << 40)):
        exact = [
            sum(int(a) * t for a, t in zip(x, point, strict=True)) - int(target)
            for x, target in zip(records.x, records.threshold, strict=True)
        ]
        position = records.position(np.arange(2, dtype=np.int32), point)
        assert position.tolist() == exact
