"""A gamma radius in a random direction, as symbols: the odds of rounding it, in certified bounds.

The l2 vector of two coordinates is ``G (cos 2 pi u, sin 2 pi u) / rate``, where G is minus the
logarithm of a product of uniforms. Given the angle, the odds that G is between two numbers are in
closed form. So only the angle is cut, into cells, and odds are averaged over each cell.

*Averages.* A function of the angle is kept twice: as a Taylor series at the middle of a cell, and
as one around every angle of it. Over a cell of width h, the average is ``c_0 + c_2 h**2 / 12`` by
the first, plus ``c_4 h**4 / 80`` by the second, as Taylor's theorem has it. Where bounds of G may
cross inside a cell, balls around all of their values are used instead.

A symbol stands for one real number, whatever bits are looked at. So the length of the normal vector
that makes the direction is divided away, as in the exact numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from itertools import product
from typing import Any

from flint import arb, arb_series

from mechanisms.exact.balls import rational

Choose = Callable[[Sequence[Fraction | arb]], int]


def _cells(start: Fraction, width: Fraction) -> list[tuple[Fraction, Fraction]]:
    """Return where the cells of a part of the circle start, and their widths, in turns.

    They are smaller near axes and where the radii cross at which two coordinates round anew: at
    the corners of unit squares. Any other cells were as right, and saw less.
    """
    turns = [float(start), float(start + width)]
    near = any(turns[0] <= corner <= turns[1] for corner in _CORNERS)
    if width <= (_NARROW if near else _EVEN):
        return [(start, width)]
    return [cell for k in range(2) for cell in _cells(start + k * width / 2, width / 2)]


_EVEN, _NARROW = Fraction(1, 1 << 8), Fraction(1, 1 << 16)
_CORNERS = [
    math.atan2(across, along) / math.tau % 1
    for across, along in product((-3, -1, 0, 1, 3), repeat=2)
    if across or along
]
CELLS = _cells(Fraction(0), Fraction(1))
_ODDS = [width for _, width in CELLS]
_ORDER = 5


@dataclass(frozen=True, slots=True, eq=False)
class Angular:
    """A function of the angle: a series at the middle of its cell, and one around all of it."""

    middle: arb_series
    cell: arb_series
    width: Fraction

    @classmethod
    def constant(cls, value: arb | int) -> Angular:
        """Return a number that does not depend on the angle, or a ball that holds all values."""
        series = arb_series([value], prec=_ORDER)
        return cls(series, series, Fraction(1))

    @classmethod
    def drawn(cls, choose: Choose) -> Angular:
        """Return a uniform angle itself, in turns, of which only the cell is known."""
        start, width = CELLS[choose(_ODDS)]
        middle, half = rational(start + width / 2), float(width / 2)
        series = (arb_series([ball, 1], prec=_ORDER) for ball in (middle, arb(middle, half)))
        return cls(*series, width)

    def mapped(self, function: Callable[..., Any], *others: Angular) -> Angular:
        """Return what a function makes of these."""
        return Angular(
            function(self.middle, *(other.middle for other in others)),
            function(self.cell, *(other.cell for other in others)),
            min(self.width, *(other.width for other in others), Fraction(1)),
        )

    def average(self) -> arb:
        """Return a ball around the average over the cell."""
        squared = rational(self.width**2)
        return self.middle[0] + self.middle[2] * squared / 12 + self.cell[4] * squared**2 / 80

    def values(self) -> arb:
        """Return a ball around all values in the cell, by the mean value theorem."""
        return self.middle[0] + self.cell[1] * arb(0, float(self.width / 2))

    def at_least(self, other: Angular) -> bool:
        """Say whether it is certainly nowhere below another function."""
        return bool(self.mapped(lambda a, b: a - b, other).values() >= 0)


@dataclass(slots=True, eq=False)
class Radius:
    """A gamma variable of whole shape, and all that is known of it: its bounds so far."""

    choose: Choose
    shape: int
    low: list[Angular] = field(default_factory=lambda: [Angular.constant(0)])
    high: list[Angular] = field(default_factory=list)

    def below(self, limit: Angular) -> bool:
        """Say whether it is below a limit."""
        if any(bound.at_least(limit) for bound in self.low):
            return False
        if any(limit.at_least(bound) for bound in self.high):
            return True
        inside = self._mass(self.low, [*self.high, limit])
        beyond = self._mass([*self.low, limit], self.high)
        total = self._mass(self.low, self.high)
        if not total > 0:  # bounds that may have crossed: nothing more is certain here
            return self.choose([arb(0.5, 0.5)]) == 0
        found = self.choose([inside / total, beyond / total]) == 0
        (self.high if found else self.low).append(limit)
        return found

    def stays_below(self, limit: arb) -> None:
        """Leave out what is above a large number: it counts as not seen."""
        self.choose([1 - self._tail(Angular.constant(limit)).values() * arb(0.5, 0.5)])

    def _mass(self, low: Sequence[Angular], high: Sequence[Angular]) -> arb:
        """Return the odds of a radius between bounds, averaged over the cell."""
        least, most = reduce(_larger, low), reduce(_smaller, high) if high else None
        if most is None:
            return self._tail(least).average()
        if not most.at_least(least):
            least, most = (Angular.constant(bound.values()) for bound in (least, most))
        between = self._tail(least).mapped(lambda a, b: a - b, self._tail(most))
        return between.average().max(arb(0))

    def _tail(self, bound: Angular) -> Angular:
        """Return the odds that the radius is above a bound."""
        return bound.mapped(
            lambda t: (
                (-t).exp()
                * sum((t**k / math.factorial(k) for k in range(1, self.shape)), t * 0 + 1)
            )
        )


def _larger(one: Angular, other: Angular) -> Angular:
    """Return the larger of two, or a ball around both where they cross in the cell."""
    if one.at_least(other):
        return one
    return other if other.at_least(one) else Angular.constant(one.values().max(other.values()))


def _smaller(one: Angular, other: Angular) -> Angular:
    """Return the smaller of two, or a ball around both where they cross in the cell."""
    if one.at_least(other):
        return other
    return one if other.at_least(one) else Angular.constant(one.values().min(other.values()))


@dataclass(frozen=True, slots=True, eq=False)
class Monomial:
    """A function of the angle times powers of gamma variables."""

    factor: Angular
    powers: Mapping[Radius, Fraction]

    def is_finite(self) -> bool:
        """Return True."""
        return True

    def sqrt(self) -> Monomial:
        """Return the root."""
        halves = {radius: power / 2 for radius, power in self.powers.items()}
        return Monomial(self.factor.mapped(lambda x: x.sqrt()), halves)

    def _times(self, other: Any, sign: int) -> Monomial:
        theirs = other if isinstance(other, Monomial) else Monomial(Angular.constant(other), {})
        powers = dict(self.powers)
        for radius, power in theirs.powers.items():
            powers[radius] = powers.get(radius, Fraction(0)) + sign * power
        factor = self.factor.mapped(
            (lambda a, b: a * b) if sign > 0 else (lambda a, b: a / b), theirs.factor
        )
        return Monomial(factor, {radius: power for radius, power in powers.items() if power})

    def __mul__(self, other: Any) -> Monomial:
        return self._times(other, 1)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Monomial:
        return self._times(other, -1)

    def __neg__(self) -> Monomial:
        return self._times(-1, 1)

    def __add__(self, other: Any) -> Monomial | Line:
        if not isinstance(other, Monomial):
            return self if other == 0 else Line(self, other)
        assert self.powers == other.powers
        return Monomial(self.factor.mapped(lambda a, b: a + b, other.factor), self.powers)

    __radd__ = __add__


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A radius times a function of the angle, plus a number below 1."""

    slope: Monomial
    constant: arb

    def floor(self) -> arb:
        """Return the largest whole number at most this one."""
        return arb(self._whole())

    def _whole(self) -> int:
        [(radius, power)] = self.slope.powers.items()
        assert power == 1
        assert 0 < self.constant < 1
        factor, whole = self.slope.factor, 0
        if not (factor.values() > 0 or factor.values() < 0):
            gap = self.constant.min(1 - self.constant)
            radius.stays_below(gap / abs(factor.values()).upper())
            return 0
        rises = factor.values() > 0
        while True:
            gap = (whole + 1 if rises else whole) - self.constant
            if radius.below(factor.mapped(lambda f, gap=gap: gap / f)):
                return whole
            whole += 1 if rises else -1
