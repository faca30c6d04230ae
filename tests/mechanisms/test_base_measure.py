"""The base measure of the box and polytope engines: its bounds, and its value at a point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from flint import arb

from mechanisms.catalog import calibrate
from mechanisms.exact.floats import Floats
from mechanisms.objectives.check_loss import GradientLaw
from mechanisms.privacy import Epsilon
from mechanisms.samplers.base_measure import (
    BaseMeasure,
    Measured,
    MeasuredBoxes,
    MeasuredPolytopes,
    base_power,
)
from mechanisms.samplers.boxes import Box, Children, Space, Start
from mechanisms.samplers.envelopes import first_kept
from mechanisms.samplers.polytopes import Cut, Part, Polytope, Stack, View
from mechanisms.sketches import ArrayData
from mechanisms.statistics.quantile_regression import QuantileRegression
from mechanisms.testing import Law, check_draws, seeded_randomness
from tests.mechanisms.logistic_data import labelled

BITS = 6
RADIUS = 20 << BITS
MEASURE = BaseMeasure(power=5, grid_bits=BITS)
CUTS = 40


class Flat:
    """A law that says nothing: E is 1/2."""

    floor = 0.5

    def start(self, space: Space | None = None) -> list[Start[None]]:
        assert space is not None
        root = space.root()
        low, side = np.array(root.lower), np.array(root.sides)
        inner = Box(tuple((low + side // 3).tolist()), (40,) * 2)
        return [Start(box, 0.5, None) for box in (inner, *root.less(inner))]

    def widths(self, known: None) -> None:
        return None

    def size(self, known: None) -> int:
        return 0

    def split(self, known: None, centres: Floats, half: Floats) -> Children[None]:
        return Children(np.full(len(centres), 0.5), [None] * len(centres))

    def exponent(self, known: None, point: object, bits: int) -> arb:
        return arb(0.5)


@dataclass(frozen=True)
class FlatPolytopes:
    """The same on polytopes, with a cut that it may ask for."""

    cut: Cut | None = None
    gain: float = 0.0
    floor: float = 0.5

    def start(self) -> list[Part[None]]:
        return [Part(Polytope.cross(2, RADIUS), 0.5, None)]

    def views(self, known: Sequence[None], stack: Stack) -> list[View[None]]:
        return [View(0.5, None, self.cut, self.gain) for _ in stack.polytopes]

    def size(self, known: None) -> int:
        return 0

    def exponent(self, known: None, point: object, bits: int) -> arb:
        return arb(0.5)


def value(point: Sequence[float]) -> float:
    """Return the sum of both summands at a point."""
    length = Fraction(sum(map(abs, point))) / (1 << BITS)
    return 0.5 + MEASURE.power * float(np.log1p(float(length)))


def sheared() -> Space:
    return Space(radius=RADIUS, shear=np.array([[1.0, 0.75], [0.0, 1.0]]))


def test_the_value_at_a_point_is_exact() -> None:
    law = MeasuredBoxes(Flat(), MEASURE, sheared())
    for point in ((0, 0), (3, -7), (-RADIUS, 0)):
        assert (
            abs(float(law.exponent(Measured(None, long=False), point, 64)) - value(point)) < 1e-14
        )
    assert float(MEASURE.at((0, 0))) == 0


def test_bounds_on_boxes_hold_at_all_their_points() -> None:
    space = sheared()
    law = MeasuredBoxes(Flat(), MEASURE, space)
    random = np.random.default_rng(2)
    close = 0
    for _ in range(CUTS):
        low, side = random.integers(-RADIUS, RADIUS // 2, 2), random.integers(1, 400, 2)
        box = Box(tuple(low.tolist()), tuple(side.tolist()))
        half = side / 2
        bound = float(
            law.split(Measured(None, long=False), (low + half)[None, :], half).exponents[0]
        )
        places = random.integers(0, side, (100, 2))
        found = [value(space.point(box, place)) for place in places.tolist()]
        assert law.floor <= bound <= min(found)
        close += min(found) - bound < 0.5
    assert close > CUTS / 2  # a bound that says nothing would pass too


def test_every_box_of_the_start_is_bounded() -> None:
    space = sheared()
    for part in MeasuredBoxes(Flat(), MEASURE, space).start(space):
        corner = space.point(part.box, [0] * 2)
        assert 0.5 <= part.exponent <= value(corner)


def test_polytopes_are_bounded_and_cut_across_their_length() -> None:
    law = MeasuredPolytopes(FlatPolytopes(), MEASURE)
    (start,) = law.start()
    [whole] = law.views([None], Stack([start.polytope]))
    assert whole.exponent == pytest.approx(0.5)
    random = np.random.default_rng(3)
    piece: Polytope | None = start.polytope
    for _ in range(CUTS):
        assert piece is not None
        [view] = law.views([None], Stack([piece]))
        values = list(map(value, piece.floats.tolist()))
        assert view.exponent <= min(values) + 1e-6
        if view.cut is None:
            assert max(values) - min(values) < 1
            return
        halves = piece.halves(view.cut)
        piece = halves[random.integers(2)] or halves[0]
    pytest.fail("cut again and again")


def test_a_polytope_across_an_axis_is_bounded_by_the_other_entry() -> None:
    """The signs at its middle alone would say that theta may be as short as 0."""
    piece: Polytope | None = Polytope.cross(2, RADIUS)
    for cut in (Cut((1, 0), 320), Cut((0, 1), -700), Cut((0, -1), -900)):
        piece = piece and piece.halves(cut)[0]
    assert piece is not None
    [view] = MeasuredPolytopes(FlatPolytopes(), MEASURE).views([None], Stack([piece]))
    assert view.exponent == pytest.approx(value((320, 0)), abs=1e-6)


def test_polytopes_are_cut_where_it_gains_most() -> None:
    """Else a law that thinly cuts what it knows would keep what it does not know long."""
    piece: Polytope | None = Polytope.cross(2, RADIUS)
    for cut in (Cut((1, 0), 0), Cut((0, 1), 0)):
        piece = piece and piece.halves(cut)[0]
    assert piece is not None
    asked = Cut((1, -1), 0)
    nats = value((RADIUS, 0)) - value((0, 0))
    for gain, obeyed in ((nats + 0.1, True), (nats - 0.1, False)):
        law = MeasuredPolytopes(FlatPolytopes(asked, gain), MEASURE)
        [view] = law.views([None], Stack([piece]))
        assert (view.cut == asked) is obeyed


def test_the_power_follows_the_coefficients() -> None:
    assert base_power(7, flat=True) == 0
    assert [base_power(size, flat=False) for size in (1, 4, 6, 7, 12, 13, 20)] == [
        2,
        8,
        12,
        12,
        12,
        13,
        20,
    ]


NEXT_TO_NOTHING = "0.001"  # the law is then the base measure
KINDS = [
    QuantileRegression(target="x1", features=("x0",), bound=20.0),
]


def length_law(dimension: int, power: int) -> Law:
    """Return the law of the l1 norm, whose ball's surface grows as its (d - 1)th power."""
    length = np.linspace(0, 20, 20_001)
    density = length ** (dimension - 1) * (1 + length) ** -float(power)
    total = np.append(0, np.cumsum((density[1:] + density[:-1]) / 2))
    return Law.continuous(lambda x: np.interp(x, length, total / total[-1]))


def asked(statistic: Any, *, intercept: bool) -> tuple[Any, ArrayData]:
    schema, data = labelled(np.array([[0.5, 0.25]]), [True])
    question = replace(statistic, intercept=intercept)
    plan = calibrate(question, schema, Epsilon.parse(NEXT_TO_NOTHING), mechanism="kng")
    return plan.draw, data


@pytest.mark.statistical
@pytest.mark.parametrize(("base_measure", "power", "wrong"), [("auto", 2, 0), ("flat", 0, 2)])
@pytest.mark.parametrize("statistic", KINDS, ids=lambda each: each.kind)
def test_releases_are_drawn_under_it(
    statistic: Any, base_measure: str, power: int, wrong: int
) -> None:
    draw, data = asked(replace(statistic, base_measure=base_measure), intercept=False)
    randomness = seeded_randomness(4)
    values = [draw(data, randomness).value["coefficients"]["x0"] for _ in range(120)]
    check_draws(np.abs(values), length_law(1, power), twins=[length_law(1, wrong)])


@pytest.mark.wide
@pytest.mark.statistical
@pytest.mark.parametrize("held", [1, 1000], ids=["in passes", "held"])
def test_two_coefficients_have_its_power(held: int) -> None:
    """Covers serve many draws: first ones take long."""
    draw, data = asked(KINDS[0], intercept=True)
    draw = replace(draw, rows=replace(draw.rows, held=held))
    make = partial(GradientLaw, tau=draw.tau, rate=draw.rate, norm=draw.norm)
    covers, randomness = draw.rows.trials(data, make, draw.rate), seeded_randomness(5)
    points = np.array([first_kept(covers, randomness) for _ in range(1000)], dtype=np.float64)
    lengths = np.abs(points).sum(axis=1) * float(draw.rows.step)
    check_draws(lengths, length_law(2, 4), twins=[length_law(2, power) for power in (2, 6)])
