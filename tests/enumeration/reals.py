"""Lazy reals as symbols: a comparison of balls becomes a choice with certified odds.

A sampler looks at a uniform real u as a ball, and asks whether something made of it is above
something else, with more bits until the balls part. Whatever the bits, the answer in the end is
that of the exact numbers. So the question itself is answered here, by its probability:

- *one uniform* against a number: a threshold of u, inside what is left of its interval;
- *sums of exponentials*, minus logarithms of uniforms: a race, whose odds are in closed form;
- *two uniforms*, linearly: a polygon cut by a line, by its exact area;
- *a product of uniforms*, and an angle: see :mod:`tests.enumeration.spheres`.

The odds are balls, as the samplers' own weights and bounds are. Their radii count as mass not seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

from flint import arb, fmpq

from mechanisms.exact.balls import above, below, midpoint, rational
from tests.enumeration.spheres import Angular, Monomial, Radius

MOST_BITS = 1 << 12
NARROW = 2.0**-36  # wider balls are looked at again, with more bits
Choose = Callable[[Sequence[Fraction | arb]], int]
Point = tuple[fmpq, fmpq]
SQUARE: tuple[Point, ...] = (
    (fmpq(0), fmpq(0)),
    (fmpq(1), fmpq(0)),
    (fmpq(1), fmpq(1)),
    (fmpq(0), fmpq(1)),
)


class Uniform:
    """A real uniform on (0, 1); stands for a LazyUniform."""

    __slots__ = ("angle", "choose", "high", "low", "plane", "raced", "races", "radius", "serial")

    def __init__(self, choose: Choose, races: Races) -> None:
        self.choose = choose
        self.races = races
        self.serial = races.reals
        races.reals += 1
        self.low, self.high = arb(0), arb(1)
        self.plane: Plane | None = None
        self.raced = False
        self.radius: Radius | None = None
        self.angle: Angular | None = None

    def state(self) -> object:
        """Return all that is known of it: nothing, or what no other real shares."""
        whole = self.plane is None or _area(self.plane.polygon) == 1
        used = self.raced or self.radius is not None or self.angle is not None
        fresh = self.low == 0 and self.high == 1 and whole and not used
        return "real" if fresh else object()

    def prefix(self, bits: int) -> int:
        """Return the first bits of the middle of what is left: a hint, never a decision."""
        return math.floor(self._middle() * (1 << bits))

    def enclose(self, bits: int) -> Form:
        """Return the real itself, as a symbol."""
        assert bits <= MOST_BITS, "a question that more bits do not settle"
        return Form(self.choose, reals={self: arb(1)})

    def _middle(self) -> Fraction:
        return midpoint((self.low + self.high) / 2)

    def above(self, limit: arb) -> bool:
        """Say whether the real is above a number."""
        assert not self.raced, "this real was compared as an exponential"
        if self.plane is not None:
            return self.plane.cut({self: 1}, -_exact(limit))
        size = self.high - self.low
        for end, answer in ((self.low, True), (self.high, False)):
            beyond = limit < end if answer else limit > end
            if beyond:
                return answer
            if limit.overlaps(end):
                self._lose(abs(limit - end), size)
                return answer
        higher = self.choose([(self.high - limit) / size, (limit - self.low) / size]) == 0
        if higher:
            self.low = limit
        else:
            self.high = limit
        return higher

    def _lose(self, gap: arb, size: arb) -> None:
        """Count what lies between two numbers that are the same as far as is known."""
        lost = min(above(gap) / below(size), Fraction(1))
        if lost:
            half = rational(lost / 2)
            self.choose([(1 - half) + arb(0, float(lost) * 0.51)])


@dataclass(slots=True, eq=False)
class Form:
    """A linear combination of uniforms and of exponentials -log u, plus a number."""

    choose: Choose
    reals: dict[Uniform, arb] = field(default_factory=dict)
    logs: dict[Uniform, arb] = field(default_factory=dict)
    constant: arb = field(default_factory=lambda: arb(0))

    def log(self) -> Form:
        """Return log u: minus an exponential."""
        [(real, factor)] = self.reals.items()
        assert factor == 1
        assert self.constant == 0
        assert not self.logs
        return Form(self.choose, logs={real: arb(-1)})

    def mid(self) -> arb:
        """Return about where the number is: a hint."""
        [(real, factor)] = self.reals.items()
        return ((real.low + real.high) / 2 * factor + self.constant).mid()

    def is_finite(self) -> bool:
        """Return True."""
        return True

    def floor(self) -> Whole:
        """Return the largest whole number at most this one."""
        reals = list(self.reals)
        plane = Plane.of(reals)
        return Whole(
            plane.floor({r: _exact(f) for r, f in self.reals.items()}, _exact(self.constant))
        )

    def sqrt(self) -> Monomial:
        """Return the root of an exponential, times a number."""
        [(real, factor)] = self.logs.items()
        assert not self.reals
        assert self.constant == 0
        return (Product((real,)).gamma() * factor).sqrt()

    def sin_cos_pi(self) -> tuple[Monomial, Monomial]:
        """Return the sine and the cosine of the number times pi."""
        [(real, factor)] = self.reals.items()
        assert self.constant == 0
        if real.angle is None:
            real.angle = Angular.drawn(self.choose)
        turned = real.angle.mapped(lambda u: factor * u)
        return (
            Monomial(turned.mapped(lambda x: x.sin_cos_pi()[0]), {}),
            Monomial(turned.mapped(lambda x: x.sin_cos_pi()[1]), {}),
        )

    def _combined(self, other: Any, sign: int) -> Form:
        if not isinstance(other, Form):
            return Form(self.choose, self.reals, self.logs, self.constant + sign * _number(other))
        reals, logs = dict(self.reals), dict(self.logs)
        for mine, theirs in ((reals, other.reals), (logs, other.logs)):
            for real, factor in theirs.items():
                mine[real] = mine.get(real, arb(0)) + sign * factor
        return Form(self.choose, reals, logs, self.constant + sign * other.constant)

    def __add__(self, other: Any) -> Form:
        return self._combined(other, 1)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Form:
        return self._combined(other, -1)

    def __rsub__(self, other: Any) -> Form:
        return (-self)._combined(other, 1)

    def __neg__(self) -> Form:
        return self * -1

    def __mul__(self, factor: Any) -> Any:
        if isinstance(factor, Form):
            return Product((*self.reals, *factor.reals))
        by = _number(factor)
        return Form(
            self.choose,
            {real: f * by for real, f in self.reals.items()},
            {real: f * by for real, f in self.logs.items()},
            self.constant * by,
        )

    __rmul__ = __mul__

    def __abs__(self) -> Size:
        return Size(self)

    def __gt__(self, other: Any) -> bool:
        return self._certainly(self - other)

    def __lt__(self, other: Any) -> bool:
        return self._certainly(other - self)

    @staticmethod
    def _certainly(form: Form) -> bool:
        """Say whether a form is positive; a number too wide leaves that open, as for balls."""
        return not form.too_wide() and form.positive()

    def too_wide(self) -> bool:
        """Say whether the odds would be worth less than the bits that are to be had."""
        if len(self.reals) != 1 or self.logs:
            return False
        [factor] = self.reals.values()
        return not (self.constant / factor).rad() < NARROW

    def positive(self) -> bool:
        """Say whether the number is above zero."""
        assert not (self.reals and self.logs)
        reals = {real: f for real, f in self.reals.items() if f != 0}
        if len(reals) > 1:
            return Plane.of(list(reals)).cut(
                {real: _exact(f) for real, f in reals.items()}, _exact(self.constant)
            )
        if reals:
            [(real, factor)] = reals.items()
            limit = -self.constant / factor
        elif len(self.logs) == 1 and not next(iter(self.logs)).raced:
            [(real, factor)] = self.logs.items()
            limit, factor = (self.constant / factor).exp(), -factor
        else:
            return self._race()
        assert factor > 0 or factor < 0
        return real.above(limit) if factor > 0 else not real.above(limit)

    def _race(self) -> bool:
        """Decide ``c E > sum of c_i E_i``, the newest exponential being the coin."""
        assert self.constant == 0
        coin = max(self.logs, key=lambda real: real.serial)
        mine = self.logs[coin]
        others = {real: -f / mine for real, f in self.logs.items() if real is not coin}
        assert all(f > 0 for f in others.values()), "a coin is alone on its side"
        return coin.races.outlasts(coin, others) == bool(mine > 0)


@dataclass(frozen=True, slots=True)
class Product:
    """A product of uniforms, each a real of its own."""

    reals: tuple[Uniform, ...]

    def __mul__(self, factor: Form) -> Product:
        return Product((*self.reals, *factor.reals))

    def log(self) -> Monomial:
        """Return minus a gamma variable."""
        return -self.gamma()

    def gamma(self) -> Monomial:
        """Return minus the logarithm."""
        first = self.reals[0]
        if first.radius is None:
            first.radius = Radius(first.choose, len(self.reals))
        return Monomial(Angular.constant(1), {first.radius: Fraction(1)})


@dataclass(frozen=True, slots=True, eq=False)
class Size:
    """The absolute value of a form."""

    form: Form

    def __gt__(self, limit: Any) -> bool:
        return (self.form - limit).positive() or (-self.form - limit).positive()

    def __lt__(self, limit: Any) -> bool:
        return not self > limit

    __le__ = __lt__


@dataclass(frozen=True, slots=True)
class Whole:
    """A whole number that is certain."""

    value: int

    def unique_fmpz(self) -> int:
        """Return it."""
        return self.value


@dataclass(frozen=True, slots=True, eq=False)
class Race:
    """Whether a coin's exponential outlasted a sum of others, times their factors."""

    others: Mapping[Uniform, arb]
    won: bool


@dataclass(slots=True, eq=False)
class Races:
    """All races of one run. The exponentials waited for are shared; every coin is its own."""

    reals: int = 0
    answers: dict[Uniform, Race] = field(default_factory=dict)

    def outlasts(self, coin: Uniform, others: Mapping[Uniform, arb]) -> bool:
        """Return whether ``E_coin > sum of f_i E_i``."""
        if coin in self.answers:
            asked = self.answers[coin].others
            assert asked.keys() == others.keys()
            assert all(asked[real].overlaps(f) for real, f in others.items())
            return self.answers[coin].won
        assert not coin.raced
        for real in (coin, *others):
            assert (real.low, real.high) == (0, 1), "this real was compared by itself"
            real.raced = True
        before = list(self.answers.values())
        odds = self._probability([*before, Race(others, won=True)]) / self._probability(before)
        won = coin.choose([odds, 1 - odds]) == 0
        self.answers[coin] = Race(others, won=won)
        return won

    def _probability(self, races: Sequence[Race]) -> arb:
        """Return the probability that all went as they did: inclusion and exclusion of those lost.

        A coin outlasts the sum t with probability exp(-t), and E exp(-s E_i) = 1 / (1 + s).
        """
        won = [race for race in races if race.won]
        lost = [race for race in races if not race.won]
        total = arb(0)
        for size in range(len(lost) + 1):
            for chosen in combinations(lost, size):
                sums: dict[Uniform, arb] = {}
                for race in (*won, *chosen):
                    for real, factor in race.others.items():
                        sums[real] = sums.get(real, arb(0)) + factor
                term = arb((-1) ** size)
                for rate in sums.values():
                    term = term / (1 + rate)
                total = total + term
        return total


@dataclass(slots=True, eq=False)
class Plane:
    """Two uniforms and the polygon that is left of their square."""

    reals: tuple[Uniform, ...]
    polygon: tuple[Point, ...] = SQUARE

    @classmethod
    def of(cls, reals: Sequence[Uniform]) -> Plane:
        """Return the plane of these reals, made of their intervals if there is none yet."""
        planes = {id(real.plane): real.plane for real in reals if real.plane is not None}
        if planes:
            [plane] = planes.values()
            assert all(real in plane.reals for real in reals)
            return plane
        assert len(reals) <= 2
        plane = cls(tuple(reals))
        for real in reals:
            low, high = _exact(real.low), _exact(real.high)
            real.plane = plane
            plane.polygon = plane._clip({real: fmpq(1)}, -low)
            plane.polygon = plane._clip({real: fmpq(-1)}, high)
        return plane

    def cut(self, factors: Mapping[Uniform, Any], constant: fmpq) -> bool:
        """Say whether a linear form is positive."""
        pieces = [
            self._clip(factors, constant),
            self._clip({real: -f for real, f in factors.items()}, -constant),
        ]
        return self._take(pieces) == 0

    def floor(self, factors: Mapping[Uniform, fmpq], constant: fmpq) -> int:
        """Return the whole number at or below a linear form."""
        heights = [self._height(factors, constant, point) for point in self.polygon]
        first, last = int(min(heights).floor()), int(max(heights).floor())
        pieces = []
        for k in range(first, last + 1):
            rest = Plane(self.reals, self._clip(factors, constant - k))
            pieces.append(rest._clip({real: -f for real, f in factors.items()}, k + 1 - constant))
        return first + self._take(pieces)

    def _take(self, pieces: Sequence[tuple[Point, ...]]) -> int:
        areas = [_area(piece) for piece in pieces]
        held = [place for place, area in enumerate(areas) if area]
        chosen = 0
        if len(held) > 1:
            total = sum(areas, fmpq(0))
            chosen = self.reals[0].choose([_fraction(areas[place] / total) for place in held])
        self.polygon = pieces[held[chosen]]
        return held[chosen]

    def _height(self, factors: Mapping[Uniform, Any], constant: fmpq, point: Point) -> fmpq:
        at = zip(self.reals, point, strict=False)
        return sum((factors.get(real, fmpq(0)) * x for real, x in at), constant)

    def _clip(self, factors: Mapping[Uniform, Any], constant: fmpq) -> tuple[Point, ...]:
        """Return the part of the polygon where a linear form is at least zero."""
        heights = [self._height(factors, constant, point) for point in self.polygon]
        found: list[Point] = []
        for place, (point, height) in enumerate(zip(self.polygon, heights, strict=True)):
            last, before = self.polygon[place - 1], heights[place - 1]
            if height * before < 0:
                share = before / (before - height)
                found.append(
                    (last[0] + share * (point[0] - last[0]), last[1] + share * (point[1] - last[1]))
                )
            if height >= 0:
                found.append(point)
        return tuple(found)


def _area(polygon: Sequence[Point]) -> fmpq:
    if len(polygon) < 3:
        return fmpq(0)
    around = pairwise((*polygon, polygon[0]))
    return abs(sum((a[0] * b[1] - a[1] * b[0] for a, b in around), fmpq(0))) / 2


def _number(value: Any) -> arb:
    if isinstance(value, arb):
        return value
    if isinstance(value, Fraction):
        return rational(value)
    return arb(fmpq(int(value))) if isinstance(value, int) else arb(value)


def _exact(value: Any) -> fmpq:
    if isinstance(value, arb):
        assert value.is_exact(), "a polygon needs exact numbers"
        mantissa, exponent = value.man_exp()
        return fmpq(mantissa) * fmpq(2) ** int(exponent)
    return fmpq(value)


def _fraction(value: fmpq) -> Fraction:
    return Fraction(int(value.p), int(value.q))


def rounded(ball: Callable[..., Any]) -> Callable[..., Any]:
    """Return the constructor of balls, which leaves a symbol as it is."""
    symbols = (Form, Monomial)
    return lambda *given: given[0] if isinstance(given[0], symbols) else ball(*given)
