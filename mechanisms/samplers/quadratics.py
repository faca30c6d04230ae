"""Strictly convex quadratics over a box or an l1 ball, by an active-set walk over its faces.

``minimise theta'H theta / 2 + c'theta``

*Conventions.* A point on the sphere of the ball ``||theta||_1 <= B`` lies on the face given by
its signs s in {-1, 0, 1}^d: s_j theta_j > 0 where s_j != 0, theta_j = 0 elsewhere. Each walk is
written once for two kinds of numbers: float64 arrays, and object arrays of ``Fraction`` where every
step is exact and the walk therefore ends at the minimiser (the objective falls strictly from face
to face, and there are finitely many faces). In floats the answer is a hint, and the walk is cut
short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.fractions import fmpq_matrix, solve, to_fraction

Vector = NDArray[Any]
"""A float64 array, or an object array of ``Fraction``."""

Solve = Callable[[Vector, Vector], Vector]

_FLOAT_TOLERANCE = 1e-12  # a hint's walk may stop at rounding


@dataclass(frozen=True, slots=True)
class Point:
    """A minimiser (or a hint of one), and the face of the sphere it lies on, if any."""

    theta: Vector
    signs: NDArray[np.int8] | None


@dataclass(frozen=True, slots=True)
class Quadratic:
    """The objective, the bound (None: no constraint) and the arithmetic.

    ``exact`` says that the arrays hold ``Fraction`` objects.
    """

    hessian: Vector
    linear: Vector
    bound: Any
    exact: bool

    def minimise(self) -> Point:
        """Return the minimiser over the ball.

        Raises
        ------
        numpy.linalg.LinAlgError
            A float system is singular; never in exact arithmetic, where H > 0.
        """
        free = self._solve(self.hessian, -self.linear)
        if self.bound is None or np.abs(free).sum() <= self.bound:
            return Point(free, None)
        return _Walk(self, free).run()

    def _solve(self, matrix: Vector, right: Vector) -> Vector:
        return solve_exactly(matrix, right) if self.exact else np.linalg.solve(matrix, right)

    def face_minimum(self, signs: NDArray[np.int8]) -> tuple[Vector, Any]:
        """Return the minimiser on the affine hull of a face, and its multiplier tau.

        With S the face's coordinates: H_SS theta_S + c_S + tau s_S = 0, s_S'theta_S = B.
        """
        (support,) = np.nonzero(signs)
        size = len(support)
        # Of the arithmetic in use, so that arrays of Fractions hold nothing else.
        zero = self.linear[0] * 0
        system = np.full((size + 1, size + 1), zero, dtype=self.linear.dtype)
        system[:size, :size] = self.hessian[np.ix_(support, support)]
        system[size, :size] = system[:size, size] = zero + signs[support].astype(int)
        right = np.append(-self.linear[support], np.array([self.bound], dtype=self.linear.dtype))
        solved = self._solve(system, right)
        theta = np.full(len(signs), zero, dtype=self.linear.dtype)
        theta[support] = solved[:size]
        return theta, solved[size]


class _Walk:
    """One walk from a vertex of the ball to the minimiser on its sphere."""

    def __init__(self, problem: Quadratic, free: Vector) -> None:
        self._problem = problem
        self._free = free
        self._exact = fmpq_matrix(problem.hessian) if problem.exact else None
        start = int(np.argmax(np.abs(free)))
        self._signs = np.zeros(len(free), dtype=np.int8)
        self._signs[start] = 1 if free[start] > 0 else -1
        self._theta = free * 0
        self._theta[start] = problem.bound * int(self._signs[start])

    def run(self) -> Point:
        """Walk until no neighbouring face improves; in floats, at most 20 (d + 5) steps."""
        limit = 20 * (len(self._free) + 5)
        steps = 0
        while self._step() and (self._problem.exact or steps < limit):
            steps += 1
        return Point(self._theta, self._signs)

    def _step(self) -> bool:
        """Move to the face's minimum, or to where the face ends; say whether to go on."""
        target, tau = self._problem.face_minimum(self._signs)
        signed = target * self._signs
        if (signed < 0).any():
            self._shrink(target, signed)
            return True
        self._theta = target
        gradient = self._pulled(target) + self._problem.linear
        # At the minimum no |gradient_j| off the face is above the multiplier.
        excess = np.where(self._signs == 0, np.abs(gradient), tau) - tau
        tolerance = 0 if self._problem.exact else _FLOAT_TOLERANCE * float(np.abs(gradient).max())
        worst = int(np.argmax(excess))
        if excess[worst] > tolerance:
            self._signs[worst] = -1 if gradient[worst] > 0 else 1
            return True
        if tau < -tolerance:
            self._cross()
            return True
        return False

    def _pulled(self, target: Vector) -> Vector:
        """Return H theta: of Fractions by FLINT, as Python's would take most of a draw's time."""
        if self._exact is None:
            return np.asarray(self._problem.hessian @ target)
        product = self._exact * fmpq_matrix([[entry] for entry in target])
        return np.array([to_fraction(entry) for entry in product.entries()], dtype=object)

    def _shrink(self, target: Vector, signed: Vector) -> None:
        """Stop where the first coordinate reaches zero, and leave it there."""
        move = self._theta - target
        steps = [(self._theta[j] / move[j], j) for j in np.nonzero(signed < 0)[0]]
        share, leaving = min(steps)
        self._theta = self._theta - share * move
        self._theta[leaving] = self._theta[leaving] * 0
        self._signs[leaving] = 0

    def _cross(self) -> None:
        """Cross the ball's interior towards the free minimum, to the sphere's far side.

        Only reached with all d coordinates on the face and tau < 0, where that
        direction points inward and the objective falls along it.
        """
        move = self._free - self._theta
        crossings = [-t / m for t, m in zip(self._theta, move, strict=True) if m != 0]
        one = self._problem.bound / self._problem.bound
        cuts = [*sorted(share for share in crossings if 0 < share < one), one]
        before = one * 0
        for share in cuts:
            size = np.abs(self._theta + share * move).sum()
            if size > self._problem.bound:
                start = np.abs(self._theta + before * move).sum()
                before += (share - before) * (self._problem.bound - start) / (size - start)
                break
            before = share
        self._theta = self._theta + before * move
        self._signs = np.array([(t > 0) * 1 - (t < 0) * 1 for t in self._theta], dtype=np.int8)


def solve_exactly(matrix: Vector, right: Vector) -> Vector:
    """Return the exact rational solution of a nonsingular system of Fractions."""
    return np.array(solve(matrix, right), dtype=object)


# Strictly convex quadratics over a box


def box_minimum(
    hessian: Vector, linear: Vector, lower: Vector, upper: Vector, *, exact: bool
) -> Point:
    """Return the minimiser on a box and which coordinates are held (-1 lower, 1 upper, 0 free).

    A primal active-set walk: move towards the minimum over the free
    coordinates, stop where one of them meets its bound and hold it there; at
    that minimum free the held coordinate along which the objective falls
    fastest. The objective falls from one set of held coordinates to the next,
    and there are finitely many. In floats the walk is cut short.
    """
    free = _solve(hessian, -linear, exact)
    theta = np.minimum(np.maximum(free, lower), upper)
    # A first guess that is often right: the clamped free minimum.
    held = np.where(free < lower, -1, np.where(free > upper, 1, 0)).astype(np.int8)
    limit = 20 * (len(theta) + 5)
    steps = 0
    while exact or steps < limit:
        steps += 1
        target = _free_minimum(hessian, linear, theta, held, exact)
        crossing = _first_crossing(theta, target, lower, upper)
        if crossing is not None:
            share, index, side = crossing
            theta = theta + share * (target - theta)
            # Put on the bound itself: the share times the way may miss it by rounding.
            theta[index] = lower[index] if side < 0 else upper[index]
            held[index] = side
            continue
        theta = target
        gradient = hessian @ theta + linear
        slack = 0 if exact else _FLOAT_TOLERANCE * float(np.abs(gradient).max())
        falling = gradient * held  # positive where moving inward lowers the objective
        worst = int(np.argmax(falling))
        if falling[worst] <= slack:
            break
        held[worst] = 0
    return Point(theta, held if held.any() else None)


def _free_minimum(
    hessian: Vector, linear: Vector, theta: Vector, held: NDArray[np.int8], exact: bool
) -> Vector:
    """Return theta with its free coordinates at their minimum."""
    (free,), (fixed,) = np.nonzero(held == 0), np.nonzero(held)
    target = theta.copy()
    if len(free):
        right = -linear[free] - hessian[np.ix_(free, fixed)] @ theta[fixed]
        target[free] = _solve(hessian[np.ix_(free, free)], right, exact)
    return target


def _first_crossing(
    theta: Vector, target: Vector, lower: Vector, upper: Vector
) -> tuple[Fraction | float, int, int] | None:
    """Return where the segment leaves the box first: the share, the coordinate and the side."""
    crossings = []
    for j, (t, end, low, high) in enumerate(zip(theta, target, lower, upper, strict=True)):
        if end < low:
            crossings.append(((low - t) / (end - t), j, -1))
        elif end > high:
            crossings.append(((high - t) / (end - t), j, 1))
    return min(crossings) if crossings else None


def _solve(matrix: Vector, right: Vector, exact: bool) -> Vector:
    return solve_exactly(matrix, right) if exact else np.linalg.solve(matrix, right)
