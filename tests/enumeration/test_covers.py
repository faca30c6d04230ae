"""Boxes and polytopes on small grids: the law of what is kept, and of every single try."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any, TypeVar

import numpy as np
import pytest
from flint import arb
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX
from mechanisms.exact.balls import norm_two, rational
from mechanisms.exact.floats import working_precision
from mechanisms.objectives.check_loss import (
    GradientCells,
    GradientLaw,
    Grid,
    Limits,
    Records,
    StoredLaw,
    StoredRows,
    survey,
)
from mechanisms.objectives.check_loss.passes import Block
from mechanisms.objectives.check_loss.stored_law import Held, Unread
from mechanisms.objectives.design import Linf
from mechanisms.objectives.geometric_median import MedianLaw
from mechanisms.privacy import Adjacency
from mechanisms.samplers.base_measure import BaseMeasure, MeasuredBoxes, MeasuredPolytopes
from mechanisms.samplers.boxes import Cover, Space
from mechanisms.samplers.polytopes import PolytopeCover
from mechanisms.statistics.geometric_median import gradient_sensitivity
from tests.enumeration.covers import Chain, exponential_law, pieces, require_each_try
from tests.enumeration.domains import data_sets, each, largest_loss
from tests.enumeration.integers import Lazy
from tests.enumeration.mutants import COVER_MUTANTS, Mutant
from tests.enumeration.walk import BITS, RESOLVED, Bounds, Stated, require_law
from tests.tiers import wide

F = Fraction
Point = tuple[int, ...]
T = TypeVar("T")


def cube(dimension: int, radius: int) -> list[Point]:
    """Return the grid points of a cube."""
    return list(product(range(-radius, radius + 1), repeat=dimension))


def median_exponent(rows: list[Point], rate: Fraction, point: Point) -> arb:
    """Return rate times the length of the sum of unit vectors from the rows."""
    total = [arb(0)] * len(point)
    for row in rows:
        away = [arb(t - x) for t, x in zip(point, row, strict=True)]
        if row != point:
            length = norm_two(away)
            total = [s + a / length for s, a in zip(total, away, strict=True)]
    if len(point) == 1:
        return rational(rate) * abs(total[0])
    square = sum((s * s for s in total), arb(0)).nonnegative_part()
    return rational(rate) * square.sqrt()


def median(rows: list[Point], rate: Fraction, radius: int) -> tuple[Cover[None], Stated]:
    """Return the sampler of a geometric median on a cube, and its law."""
    dimension = len(rows[0])
    cover = Cover(MedianLaw(np.array(rows), rate=rate), Space.cubic(dimension, radius))
    with working_precision(BITS):
        law = exponential_law(partial(median_exponent, rows, rate), cube(dimension, radius))
    return cover, law


HALF_STEPS = 1


def known_balls(*given: Any) -> arb:
    """Return a ball; around an integer not yet known it needs its value."""
    return arb(*(int(x) if isinstance(x, Lazy) else x for x in given))


def walk_on_a_line() -> Chain:
    """Walk the boxes of a median on nine points, and require its law."""
    cover, stated = median([(0,), (2,), (2,)], F(1, 2), radius=4)
    chain = Chain(cutoff=2.0**-30)
    require_law(chain.walk(cover), stated)
    require_each_try(chain.tries, stated)
    return chain


def test_boxes_on_a_line_have_the_law() -> None:
    chain = walk_on_a_line()
    # must fail: the law at another rate
    _, wrong = median([(0,), (2,), (2,)], F(9, 20), radius=4)
    with pytest.raises(AssertionError):
        require_each_try(chain.tries[:1], wrong)


MEASURE = BaseMeasure(power=2, grid_bits=HALF_STEPS)


def measured_exponent(exponent: Callable[[Point], arb], power: int, point: Point) -> arb:
    """Return the exponent, and the logarithm of a length of half steps."""
    return exponent(point) + power * rational(1 + F(abs(point[0]), 1 << HALF_STEPS)).log()


def measured_law(exponent: Callable[[Point], arb], power: int, radius: int) -> Stated:
    """Return a law on a line under a base measure, anew."""
    with working_precision(BITS):
        return exponential_law(partial(measured_exponent, exponent, power), cube(1, radius))


@pytest.mark.parametrize("radius", [2, *wide(3)])
def test_boxes_under_a_base_measure_have_the_law(radius: int) -> None:
    """Boxes on which the measure varies much are met, and others."""
    rows, rate, space = [(0,), (2,), (2,)], F(1, 2), Space.cubic(1, radius)
    law = MeasuredBoxes(MedianLaw(np.array(rows), rate=rate), MEASURE, space)
    chain = Chain(cutoff=2.0**-30)
    exponent = partial(median_exponent, rows, rate)
    require_law(chain.walk(Cover(law, space)), measured_law(exponent, 2, radius))
    require_each_try(chain.tries, measured_law(exponent, 2, radius))
    held = [piece for cover in chain.covers.values() for piece in pieces(cover.envelope)]
    assert {piece.known.long for piece in held} == {False, True}
    # must fail: another power
    with pytest.raises(AssertionError):
        require_each_try(chain.tries[:1], measured_law(exponent, 3, radius))


@pytest.mark.slow
@pytest.mark.wide
def test_boxes_in_a_plane_have_the_law() -> None:
    cover, stated = median([(0, 0), (2, 1), (-1, 1)], F(1), radius=1)
    chain = Chain(cutoff=2.0**-26)
    require_law(chain.walk(cover), stated)
    require_each_try(chain.tries, stated)


Rows = list[tuple[Fraction, Fraction]]
CHECKED: Rows = [(F(1), F(1)), (F(1, 2), F(-1, 2)), (F(1), F(0))]
UNTIED: Rows = [(F(1), F(3, 4)), (F(1, 2), F(-3, 8)), (F(1), F(-1, 4))]
"""No point of the grid is on a hyperplane: polytopes serve where targets are spread so."""


def check_exponent(tau: Fraction, rate: Fraction, point: Point, *, of: Rows = CHECKED) -> arb:
    """Return rate times the least |gradient| of the check loss: tied rows share one weight."""
    theta = F(point[0], 1 << HALF_STEPS)
    settled = sum((((y < x * theta) - tau) * x for x, y in of if y != x * theta), F(0))
    tied = [x for x, y in of if y == x * theta]
    ends = [settled + (end - tau) * sum(tied, F(0)) for end in (0, 1)]
    crosses = bool(tied) and min(ends) < 0 < max(ends)
    return rational(rate * (F(0) if crosses else min(map(abs, ends))))


TAU, RATE = F(3, 4), F(1)
EXPONENT = partial(check_exponent, TAU, RATE)


def slope(radius: int, *, of: Rows = CHECKED) -> tuple[GradientLaw, Space]:
    """Return the law of a quantile slope in the sampler's own terms, and its grid."""
    records = Records.build(
        np.array([[int(x * CODE_MAX)] for x, _ in of]),
        np.array([int(y * CODE_MAX) for _, y in of]),
        grid_bits=HALF_STEPS,
        radius=radius,
    )
    return GradientLaw(records, tau=TAU, rate=RATE, norm=Linf()), records.space


@pytest.mark.slow
def test_boxes_of_a_quantile_slope_have_the_law() -> None:
    law, space = slope(radius=3)
    with working_precision(BITS):
        stated = exponential_law(EXPONENT, cube(1, 3))
    chain = Chain(cutoff=2.0**-26)
    require_law(chain.walk(Cover(law, space)), stated)
    require_each_try(chain.tries, stated)


@pytest.mark.slow
def test_every_try_on_polytopes_has_the_law() -> None:
    law, _ = slope(radius=2, of=UNTIED)
    with working_precision(BITS):
        stated = exponential_law(partial(EXPONENT, of=UNTIED), cube(1, 2))
    chain = Chain(cutoff=2.0**-10)
    chain.walk(PolytopeCover(GradientCells(law)))
    assert len(chain.tries) > 5
    require_each_try(chain.tries, stated)


@pytest.mark.slow
@pytest.mark.wide
def test_every_try_on_polytopes_under_a_base_measure_has_the_law(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mechanisms.samplers.base_measure.arb", known_balls)
    law, _ = slope(radius=2, of=UNTIED)
    chain = Chain(cutoff=2.0**-10)
    chain.walk(PolytopeCover(MeasuredPolytopes(GradientCells(law), MEASURE)))
    assert len(chain.tries) > 5
    require_each_try(chain.tries, measured_law(partial(EXPONENT, of=UNTIED), 2, 2))


def stored_slope(tau: Fraction, rate: Fraction, held: int) -> Cover[Held | Unread]:
    """Return the sampler of a quantile slope whose rows are read one by one."""
    make = partial(GradientLaw, tau=tau, rate=rate, norm=Linf())
    codes = [(int(x * CODE_MAX), int(y * CODE_MAX)) for x, y in CHECKED]

    def read(block: Block) -> NDArray[np.float64]:
        return np.array([block["x"], block["y"]], dtype=np.float64)

    def run(function: Callable[[Block], T], /) -> Iterator[T]:
        return (function({"x": np.array([x]), "y": np.array([y])}) for x, y in codes)

    rows = StoredRows(
        run=run,
        read=read,
        make=make,
        grid=Grid(space=Space.plain(1, 3), bits=HALF_STEPS),
        limits=Limits(rows=len(codes), held=held, sample=1),
        surveyed=survey(run, read, columns=2, stride=1),
    )
    return Cover(StoredLaw(rows, rate), rows.grid.space)


@pytest.mark.slow
@pytest.mark.parametrize("held", [0, 8], ids=["no row held", "open rows held"])
def test_a_slope_of_rows_read_in_passes_has_the_law(held: int) -> None:
    """Where a try falls on a box that is not held, its point and the box's parts are read."""
    with working_precision(BITS):
        stated = exponential_law(EXPONENT, cube(1, 3))
    chain = Chain(cutoff=2.0**-26)
    require_law(chain.walk(stored_slope(TAU, RATE, held)), stated)
    require_each_try(chain.tries, stated)
    met = [piece for cover in chain.covers.values() for piece in pieces(cover.envelope)]
    assert any(isinstance(getattr(piece, "known", None), Unread) for piece in met) == (held == 0)


@pytest.mark.slow
@pytest.mark.wide
def test_every_try_on_many_points_has_the_law() -> None:
    """On 49 points, the first covers: too many follow to walk them all."""
    cover, stated = median([(0, 0), (2, 1), (-1, 1), (3, -3)], F(1), radius=3)
    chain = Chain(cutoff=2.0**-7)
    chain.walk(cover)
    assert len(chain.tries) > 20
    require_each_try(chain.tries, stated)


def median_bounds(rows: tuple[Point, ...], *, rate: Fraction) -> Bounds:
    """Return the law of a median of these rows on the grid -1, 0, 1."""
    points = np.array(rows, dtype=np.int64).reshape(len(rows), 1)
    return Chain(cutoff=2.0**-26).walk(Cover(MedianLaw(points, rate=rate), Space.cubic(1, 1)))


@pytest.mark.slow
@pytest.mark.parametrize("adjacency", list(Adjacency), ids=str)
def test_a_median_on_boxes_keeps_epsilon_on_four_rows(adjacency: Adjacency) -> None:
    sets = data_sets([(-1,), (0,), (1,)])
    rate = F(1, 2 * gradient_sensitivity(adjacency))
    laws = each(sets, partial(median_bounds, rate=rate))
    assert max(law.unresolved for law in laws.values()) < RESOLVED
    loss, pair = largest_loss(laws, adjacency)
    assert 0.4 < loss <= 1, pair
    loss, _ = largest_loss(each(sets, partial(median_bounds, rate=3 * rate)), adjacency)
    assert loss > 1


@pytest.mark.parametrize("mutant", COVER_MUTANTS, ids=lambda mutant: mutant.title)
def test_a_mutant_is_caught(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant.plant(monkeypatch)
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever shows it
        walk_on_a_line()
