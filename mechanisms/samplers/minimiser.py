"""The grid point of a tilted convex objective's minimiser, certified.

``theta* = argmin over Theta of  L(theta) + gamma/2 ||theta||_2^2 + V'theta``

with L convex (:class:`~mechanisms.samplers.minimiser.Objective`), gamma > 0
public, V a lazy random vector and Theta a region
(:mod:`mechanisms.samplers.regions`). Floats propose a point; what is released is
decided by the following bound alone.

**Bound.** Let theta be feasible and G the gradient there, ridge and tilt
included; let nu be any vector of the normal cone of Theta at theta, and
rho = ||G + nu||_2. With r = ||theta - theta*||_2, optimality of theta* and
the definition of nu give ``<G(theta) - G(theta*), theta - theta*> <= rho r``. The
left side is at least gamma r^2, and at least ``(gamma + mu) t r`` for t = min(r, reach)
if the Hessian of L, averaged over a segment from theta of length at most reach,
is at least mu I: the slope along the segment never falls. Hence r <= R = rho / (gamma + mu)
if that R is below reach, and r <= rho / gamma in any case.

If the ball around theta does not round to one grid point, the same is done
with exact rationals and ball arithmetic, with ever more bits. theta* has a
density on each face of Theta, so with probability one some precision
decides; the region's ``exponent`` keeps atoms off the ties.

*The minimiser's interface of an objective: float hints, and certified enclosures.* The objective
is the convex sum over records, without ridge and tilt, which the minimiser adds itself.

*Conventions.* theta is a point of R^d, d = ``dimension``. A *hint* is in floats and may be wrong:
theta, a step and a gradient are ``float64`` of shape (d,), a Hessian of shape (d, d). A *fact*
holds for certain: theta is d exact rationals, a gradient d balls around the exact entries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from flint import arb

from mechanisms.exact.balls import above, midpoint, norm_bound, rational
from mechanisms.exact.continuous import LazyVector
from mechanisms.exact.floats import Floats, grid_point, working_precision
from mechanisms.samplers.quadratics import Point, Vector
from mechanisms.samplers.regions import Region

# The minimiser's interface of an objective: float hints, and certified enclosures


@dataclass(frozen=True, slots=True)
class Certified:
    """Facts about the objective at one exact point.

    Attributes
    ----------
    gradient : list of arb
        d balls that hold the gradient.
    curvature : Fraction
        mu >= 0 such that the Hessian, averaged over any segment from the point to
        one at most ``reach`` away, is at least mu I.
    reach : Fraction or None
        That distance (l2); None if there is no limit.
    """

    gradient: list[arb]
    curvature: Fraction
    reach: Fraction | None


class Objective(Protocol):
    """A convex function of theta in R^d, private through the data it sums over."""

    @property
    def dimension(self) -> int:
        """Return d."""

    @property
    def quadratic(self) -> bool:
        """Return whether one Newton step ends at the minimiser."""

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Hint: return the gradient (d,) and the Hessian (d, d)."""

    def stretch(self, step: Floats) -> float:
        """Hint: return about how far a step moves the log of a record's curvature.

        Infinite where the curvature jumps.
        """

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Hint: return t -> the derivative of the objective at theta + t step."""

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Fact: return what one pass over the data in floats proves, errors included."""

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Fact: return d balls around the gradient whose radii vanish as ``bits`` grows."""


# The grid point of a tilted convex objective's minimiser, certified

_TILT_BITS = 96  # of the tilt, for float hints
_FLOAT_BITS = 128  # of the first certificate, made from one pass in floats
_NEWTON_STEPS = 200  # far more than damped steps take; what is reached is only a hint
_SETTLED = 1e-9  # the Newton step that follows one of this length is below 1e-16
_SIMULATED = 1e-4  # of a simulation: the error that is left is the square of that
_FULL_STEP = 0.5  # up to this stretch a Newton step surely lowers the objective
_LONG_STEP = 4.0  # up to this stretch the bound in _share says enough
_HALVINGS = 50  # a float has no more digits
_ENOUGH = 1e-2  # of the slope at the start: where it is left, the objective hardly falls further
_LEVEL = 1e-6  # a slope this much smaller than at the start is rounding


@dataclass(frozen=True, slots=True)
class Problem:
    """A tilted objective: everything :func:`certified_minimiser` needs.

    Attributes
    ----------
    objective : Objective
        L, private.
    ridge : Fraction
        gamma > 0, public.
    tilt : LazyVector
        V, length d.
    region : Region
        Theta, public.
    step_exponent : int
        The public grid's step is 2**step_exponent.
    """

    objective: Objective
    ridge: Fraction
    tilt: LazyVector
    region: Region
    step_exponent: int


def certified_minimiser(problem: Problem) -> tuple[int, ...]:
    """Return the indices of the grid point theta* rounds to, exactly."""
    hint = _newton(problem)
    theta = None if hint is None else problem.region.feasible(hint)
    if theta is not None:
        facts = problem.objective.certify(theta)
        radius = _certified_radius(problem, theta, facts, bits=_FLOAT_BITS)
        found = None if radius is None else _round(problem, theta, radius, bits=_FLOAT_BITS)
        if found is not None:
            return found
    return refined_minimiser(problem, theta)


@dataclass(frozen=True, slots=True)
class KnownTilt:
    """A tilt that is known, as of a simulation; implements LazyVector."""

    entries: Floats

    def enclose(self, bits: int) -> list[arb]:  # noqa: ARG002 - they are what they are
        """Return the entries."""
        return [arb(entry) for entry in self.entries.tolist()]


def likely_minimiser(problem: Problem, start: Floats | None = None) -> Floats:
    """Return theta* in floats, to about three digits and without a proof: for simulations alone.

    Raises
    ------
    LinAlgError
        Floats break down.
    """
    point = _newton(problem, start, settled=_SIMULATED)
    if point is None:
        raise np.linalg.LinAlgError
    return np.asarray(point.theta, dtype=np.float64)


def _newton(
    problem: Problem, start: Floats | None = None, settled: float = _SETTLED
) -> Point | None:
    """Return a float hint of theta*, or None where floats break down."""
    tilt = np.array([float(v) for v in problem.tilt.enclose(_TILT_BITS)])
    ridge = float(problem.ridge)
    theta = np.array([float(t) for t in problem.region.start(len(tilt))])
    if start is not None:
        theta = start
    previous = math.inf
    for _ in range(_NEWTON_STEPS):
        gradient, curvature = problem.objective.model(theta)
        hessian = curvature + ridge * np.eye(len(tilt))
        linear = gradient + ridge * theta + tilt - hessian @ theta
        try:
            point = problem.region.minimise(hessian, linear)
        except np.linalg.LinAlgError:
            return None
        step = point.theta - theta
        length = float(np.abs(step).sum())
        if not math.isfinite(length):
            return None
        size = float(np.abs(point.theta).sum())
        # Near the end steps stop shrinking by rounding alone; the certificate judges the point.
        stalled = length <= 1e-6 * size and length >= previous / 4
        if stalled or length <= settled * size or problem.objective.quadratic:
            return point
        theta = theta + step * _share(problem, theta, step, curvature)
        previous = length
    return point


def _share(problem: Problem, theta: Floats, step: Floats, curvature: Floats) -> float:
    """Return how much of a Newton step to take: all of it near the minimiser.

    Along a step p with a = p'Hp, c = gamma ||p||^2 and b its stretch, the
    objective is at most its start plus ``-(a + c) t + a (e^{bt} - bt - 1)/b^2 +
    c t^2/2``, since the log-Hessian of L moves by at most b. The share t
    minimises that bound, so the objective falls from any start. Where b is so
    large that the bound says little (a long way over flat ground), the step
    ends instead where the objective itself stops falling.
    """
    stretch = problem.objective.stretch(step)
    if stretch <= _FULL_STEP:
        return 1.0
    a = float(step @ curvature @ step)
    c = float(problem.ridge) * float(step @ step)
    if stretch <= _LONG_STEP:
        return _last_negative(
            lambda share: a * math.expm1(stretch * share) / stretch + c * share - a - c
        )
    slope = problem.objective.slope_along(theta, step)
    tilt = np.array([float(v) for v in problem.tilt.enclose(_TILT_BITS)])
    start = float(step @ tilt) + float(problem.ridge) * float(step @ theta)
    return _last_negative(lambda share: slope(share) + start + c * share)


def _last_negative(slope: Callable[[float], float]) -> float:
    """Return about the largest share in [0, 1] where an increasing function is not positive.

    All of it where the slope at its end is next to nothing: there it is rounding. A slope may
    cost a pass over the rows, so the search ends where little of the first one is left.
    """
    low, high = 0.0, 1.0
    first = abs(slope(low))
    if slope(high) <= _LEVEL * first:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        here = slope(middle)
        if here > 0:
            high = middle
            continue
        low = middle
        if here >= -_ENOUGH * first:
            break
    return low


def _total_gradient(
    problem: Problem, theta: Sequence[Fraction], gradient: Sequence[arb], bits: int
) -> list[arb]:
    """Return G = gradient of L + gamma theta + V in balls."""
    tilt = problem.tilt.enclose(bits)
    ridge = rational(problem.ridge)
    return [g + ridge * rational(t) + v for g, t, v in zip(gradient, theta, tilt, strict=True)]


def _radius(problem: Problem, residual: arb, facts: Certified) -> Fraction:
    """Return the certified bound on ||theta - theta*||_2 (module note)."""
    rho = above(residual)
    radius = rho / (problem.ridge + facts.curvature)
    if facts.reach is None or radius < facts.reach:
        return radius
    return rho / problem.ridge


def _certified_radius(
    problem: Problem, theta: Sequence[Fraction], facts: Certified, *, bits: int
) -> Fraction | None:
    """Return the certified bound on ||theta - theta*||_2, None if nothing finite is known."""
    with working_precision(bits):
        total = _total_gradient(problem, theta, facts.gradient, bits)
        residual = norm_bound(problem.region.gaps(theta, total))
        return _radius(problem, residual, facts) if residual.is_finite() else None


def _round(
    problem: Problem, theta: Sequence[Fraction], radius: Fraction, *, bits: int
) -> tuple[int, ...] | None:
    """Return the grid point the ball around theta rounds to, if it is one."""
    with working_precision(bits):
        error = rational(-radius).union(rational(radius))
        return grid_point([rational(t) + error for t in theta], problem.step_exponent)


def refined_minimiser(problem: Problem, start: Sequence[Fraction] | None) -> tuple[int, ...]:
    """Return the same grid point by exact rationals and ball arithmetic, however close the call.

    Newton steps with a float Hessian (a hint) and a gradient in balls, from a
    feasible start (None: zero); the quadratic subproblem is solved in exact
    rationals, faces included. The precision doubles whenever a full step no
    longer halves the certified radius. After a shortened step that did not even
    lower it, the next is shortened by balls: floats cannot see so small a slope.
    """
    theta = problem.region.start(problem.objective.dimension) if start is None else list(start)
    bits = _FLOAT_BITS
    smallest: Fraction | None = None
    before: Fraction | None = None
    shortened = False
    while True:
        gradient = problem.objective.gradient(theta, bits)
        # The curvature proved in floats holds as it is; only the gradient needs more digits.
        facts = replace(problem.objective.certify(theta), gradient=gradient)
        radius = _certified_radius(problem, theta, facts, bits=bits)
        if radius is None:
            bits *= 2
            continue
        found = _round(problem, theta, radius, bits=bits)
        if found is not None:
            return found
        # A full Newton step should more than halve the radius: if not, rounding holds it up.
        if smallest is not None and 2 * radius >= smallest:
            bits *= 2
        stalled = shortened and before is not None and radius >= before
        theta, shortened = _exact_step(problem, theta, gradient, bits, by_balls=stalled)
        before = radius
        # After a shortened step the radius may grow without any fault of rounding.
        smallest = None if shortened else radius


def _exact_step(
    problem: Problem,
    theta: Sequence[Fraction],
    gradient: Sequence[arb],
    bits: int,
    *,
    by_balls: bool,
) -> tuple[list[Fraction], bool]:
    """Return the next feasible iterate, and whether the step had to be shortened.

    ``by_balls`` says that floats are not asked by how much.
    """
    with working_precision(bits):
        total = _total_gradient(problem, theta, gradient, bits)
        middle = _fractions([midpoint(g) for g in total])
    _, floats = problem.objective.model(np.array([float(t) for t in theta]))
    hessian = np.array(
        [[Fraction(entry) for entry in row] for row in floats.tolist()], dtype=object
    ) + np.diag(_fractions([problem.ridge] * len(theta)))
    here = _fractions(theta)
    point = problem.region.minimise(hessian, middle - hessian @ here, bits)
    found = problem.region.feasible(point, bits)
    if found is None:
        return list(here), False
    step = _fractions(found) - here
    if by_balls:
        share = _last_negative(_slope_by_balls(problem, here, step, bits))
    else:
        share = _share(problem, here.astype(float), step.astype(float), floats)
    if share < 1:
        return problem.region.inward(list(here + Fraction(share) * step), bits), True
    return found, False


def _slope_by_balls(
    problem: Problem, here: Vector, step: Vector, bits: int
) -> Callable[[float], float]:
    """Return t -> the derivative of the objective at here + t step, as exact as ``bits`` allow."""

    def slope(share: float) -> float:
        theta = list(here + Fraction(share) * step)
        with working_precision(bits):
            gradient = problem.objective.gradient(theta, bits)
            total = _total_gradient(problem, theta, gradient, bits)
            along = [g * rational(s) for g, s in zip(total, step, strict=True)]
            return float(midpoint(sum(along, arb(0))))

    return slope


def _fractions(values: Sequence[Fraction]) -> Vector:
    answer = np.empty(len(values), dtype=object)
    answer[:] = values
    return answer
