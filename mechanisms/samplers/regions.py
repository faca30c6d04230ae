"""Convex sets to minimise over: all of R^d, l1 balls, boxes (an l-infinity ball is one).

A region answers five questions, in floats as a hint and in exact rationals
where it matters:

- *minimise*: where on it is ``theta'H theta / 2 + c'theta`` least? A hint, in
  floats or with ``bits`` of precision.
- *feasible*: what exact rational point of it is near such a hint, on the same face?
- *inward*: the same for a point between two points of it.
- *gaps*: G + nu in balls, for a good nu of the normal cone at an exact point.
- *exponent*: the largest grid step 2**k, k <= wanted, at which no atom of the
  minimiser's law (a coordinate held at its bound) is a tie.

*Normal cones.* At an interior point {0}. On a box, nu_j >= 0 where theta_j is at
its upper bound, nu_j <= 0 at its lower, 0 between. On the sphere of
the l1 ball see :class:`L1Ball`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from flint import arb

from mechanisms.exact.balls import dot
from mechanisms.samplers.quadratics import Point, Quadratic, Vector, box_minimum


class Region(Protocol):
    """A closed convex set with interior points."""

    def start(self, dimension: int) -> list[Fraction]:
        """Return a point of it."""

    def minimise(self, hessian: Vector, linear: Vector, bits: int | None = None) -> Point:
        """Return a hint of the quadratic's minimiser; object arrays of Fraction with ``bits``.

        Raises
        ------
        numpy.linalg.LinAlgError
            A float system is singular.
        """

    def feasible(self, point: Point, bits: int | None = None) -> list[Fraction] | None:
        """Return an exact point of it near a hint, or None; with ``bits`` fractional bits."""

    def inward(self, theta: Sequence[Fraction], bits: int) -> list[Fraction]:
        """Return a point of it near one that lies between two of its points."""

    def gaps(self, theta: Sequence[Fraction], total: Sequence[arb]) -> list[arb]:
        """Return balls around G + nu, nu in the normal cone at a point of it."""

    def exponent(self, wanted: int) -> int:
        """Return the exponent of a grid step, at most ``wanted``, without a tie at an atom."""


def dyadic_step(wanted: int, bound: Fraction | None) -> int:
    """Return the exponent of a grid step 2**k, k <= wanted, with no tie at ``bound``.

    +-B is an atom of theta*'s law, so it must never lie halfway between two
    grid points: B / step may not be an odd multiple of 1/2.
    """
    if bound is not None and bound / Fraction(2) ** wanted % 1 == Fraction(1, 2):
        return wanted - 1
    return wanted


@dataclass(frozen=True, slots=True)
class WholeSpace:
    """R^d."""

    def start(self, dimension: int) -> list[Fraction]:
        """Return zero."""
        return [Fraction(0)] * dimension

    def minimise(self, hessian: Vector, linear: Vector, bits: int | None = None) -> Point:
        """Return -H^-1 c, exactly with ``bits``."""
        return Quadratic(hessian, linear, None, exact=bits is not None).minimise()

    def feasible(self, point: Point, bits: int | None = None) -> list[Fraction] | None:
        """Return the hint itself."""
        return _dyadic(point.theta, bits)

    def inward(self, theta: Sequence[Fraction], bits: int) -> list[Fraction]:
        """Return the point, rounded."""
        return _towards_zero(theta, bits)

    def gaps(self, theta: Sequence[Fraction], total: Sequence[arb]) -> list[arb]:  # noqa: ARG002
        """Return G."""
        return list(total)

    def exponent(self, wanted: int) -> int:
        """Return ``wanted``: there is no atom."""
        return wanted


@dataclass(frozen=True, slots=True)
class L1Ball:
    """||theta||_1 <= bound.

    The normal cone at a point of the sphere with signs s holds every nu with
    nu_j = tau s_j where theta_j != 0 and |nu_j| <= tau elsewhere, tau >= 0.
    """

    bound: Fraction

    def start(self, dimension: int) -> list[Fraction]:
        """Return zero."""
        return [Fraction(0)] * dimension

    def minimise(self, hessian: Vector, linear: Vector, bits: int | None = None) -> Point:
        """Return the minimiser by a walk over the faces, exactly with ``bits``."""
        exact = bits is not None
        bound = self.bound if exact else float(self.bound)
        return Quadratic(hessian, linear, bound, exact=exact).minimise()

    def feasible(self, point: Point, bits: int | None = None) -> list[Fraction] | None:
        """Return the hint; on the sphere its largest coordinate makes ||theta||_1 exactly B."""
        theta = _dyadic(point.theta, bits)
        if point.signs is None:
            return theta if sum(map(abs, theta)) <= self.bound else None
        signs = [int(s) for s in point.signs]
        # A hint may lie a hair on the wrong side of its own face.
        theta = [max(Fraction(0), s * t) * s for s, t in zip(signs, theta, strict=True)]
        largest = max(range(len(theta)), key=lambda j: abs(theta[j]))
        rest = sum((abs(t) for j, t in enumerate(theta) if j != largest), Fraction(0))
        if rest >= self.bound:
            return None
        # Exactly on the sphere, where the normal cone is wide enough to certify.
        theta[largest] = signs[largest] * (self.bound - rest)
        return theta

    def inward(self, theta: Sequence[Fraction], bits: int) -> list[Fraction]:
        """Return the point, rounded towards zero."""
        return _towards_zero(theta, bits)

    def gaps(self, theta: Sequence[Fraction], total: Sequence[arb]) -> list[arb]:
        """Return G + nu for the tau that fits the coordinates on the face."""
        signs = [(t > 0) - (t < 0) for t in theta]
        if sum(map(abs, theta)) < self.bound:
            return list(total)
        support = sum(map(abs, signs))
        tau = -dot(signs, total).mid() / support
        # Any tau >= 0 is valid; this one leaves the least on the face's coordinates.
        tau = arb(tau).mid().max(arb(0))
        return [
            g + tau * s if s else (abs(g) - tau).max(arb(0))
            for s, g in zip(signs, total, strict=True)
        ]

    def exponent(self, wanted: int) -> int:
        """Return a step at which +-B is no tie."""
        return dyadic_step(wanted, self.bound)


@dataclass(frozen=True, slots=True)
class Box:
    """lower_j <= theta_j <= upper_j."""

    lower: tuple[Fraction, ...]
    upper: tuple[Fraction, ...]

    def __post_init__(self) -> None:
        if not all(low < high for low, high in zip(self.lower, self.upper, strict=True)):
            raise ValueError("each lower bound must be below its upper bound")

    @classmethod
    def cube(cls, bound: Fraction, dimension: int) -> Box:
        """Return the l-infinity ball ||theta||_inf <= bound."""
        return cls((-bound,) * dimension, (bound,) * dimension)

    def start(self, dimension: int) -> list[Fraction]:  # noqa: ARG002
        """Return its point nearest to zero."""
        return self._clamped([Fraction(0)] * len(self.lower))

    def minimise(self, hessian: Vector, linear: Vector, bits: int | None = None) -> Point:
        """Return the minimiser by an active-set walk, exactly with ``bits``."""
        exact = bits is not None
        lower = np.array(self.lower if exact else [float(b) for b in self.lower])
        upper = np.array(self.upper if exact else [float(b) for b in self.upper])
        return box_minimum(hessian, linear, lower, upper, exact=exact)

    def feasible(self, point: Point, bits: int | None = None) -> list[Fraction] | None:
        """Return the hint with its held coordinates exactly at their bounds."""
        theta = self._clamped(_dyadic(point.theta, bits))
        if point.signs is None:
            return theta
        held = zip(point.signs.tolist(), theta, self.lower, self.upper, strict=True)
        return [(low if side < 0 else high) if side else t for side, t, low, high in held]

    def inward(self, theta: Sequence[Fraction], bits: int) -> list[Fraction]:
        """Return the point, rounded and clamped."""
        return self._clamped(_towards_zero(theta, bits))

    def gaps(self, theta: Sequence[Fraction], total: Sequence[arb]) -> list[arb]:
        """Return G where a coordinate is free, and only what points out of the box elsewhere."""
        return [
            g.max(arb(0)) if t == high else -((-g).max(arb(0))) if t == low else g
            for g, t, low, high in zip(total, theta, self.lower, self.upper, strict=True)
        ]

    def exponent(self, wanted: int) -> int:
        """Return a step at which no bound is a tie; each bound is one at a single step."""
        bounds = (*self.lower, *self.upper)
        while any(dyadic_step(wanted, bound) != wanted for bound in bounds):
            wanted -= 1
        return wanted

    def _clamped(self, theta: Sequence[Fraction]) -> list[Fraction]:
        return [
            min(max(t, low), high)
            for t, low, high in zip(theta, self.lower, self.upper, strict=True)
        ]


def l1_region(bound: Fraction | None) -> Region:
    """Return the l1 ball of this radius, or all of R^d."""
    return WholeSpace() if bound is None else L1Ball(bound)


def _dyadic(theta: Vector, bits: int | None) -> list[Fraction]:
    """Return exact rationals, rounded to dyadics with ``bits`` fractional bits if given."""
    exact = [Fraction(t) for t in theta]
    if bits is None:
        return exact
    return [Fraction(round(t * (1 << bits)), 1 << bits) for t in exact]


def _towards_zero(theta: Sequence[Fraction], bits: int) -> list[Fraction]:
    # No norm grows towards zero: the point stays inside.
    return [Fraction(int(t * (1 << bits)), 1 << bits) for t in theta]
