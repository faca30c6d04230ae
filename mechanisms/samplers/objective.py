"""What a minimiser asks of an objective: float hints, and certified enclosures.

*Conventions.* theta is a point of R^d. The objective is the convex sum over
records, without ridge and tilt, which the minimiser adds itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from flint import arb, arb_mat, fmpq
from numpy.typing import NDArray

from mechanisms.exact.rounding import working_precision

Floats = NDArray[np.float64]

_MATRIX_BITS = 128


@dataclass(frozen=True, slots=True)
class Certified:
    """Facts about the objective at one exact point.

    Attributes
    ----------
    gradient : list of arb
        Balls that hold the gradient, length d.
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
    """A convex function of theta in R^d, private through the data it sums over.

    ``quadratic`` says that one Newton step ends at the minimiser.
    """

    @property
    def dimension(self) -> int: ...

    @property
    def quadratic(self) -> bool: ...

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian in floats: hints, not facts."""

    def stretch(self, step: Floats) -> float:
        """Return about how far a step moves the log of a record's curvature: a hint.

        Infinite where the curvature jumps.
        """

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative of the objective at theta + t step, in floats, a hint."""

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return facts from one pass over the data in floats, errors included."""

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Return balls around the gradient whose radii vanish as ``bits`` grows."""


def rational(value: Fraction) -> arb:
    """Return a ball around a rational at the present working precision."""
    return arb(fmpq(value.numerator, value.denominator))


def smallest_eigenvalue_bound(matrix: arb_mat, *, slack: float = 0.0) -> Fraction:
    """Return a certified lower bound, at least 0, of a symmetric matrix's smallest eigenvalue.

    A float guess m is lowered until ``matrix - m I`` has a float Cholesky
    factor L; since L L' >= 0, the smallest eigenvalue is at least
    ``m - ||matrix - m I - L L'||_F``, the norm taken in ball arithmetic.
    ``slack`` bounds the spectral norm of what the matrix leaves out.
    """
    size = matrix.nrows()
    middle = np.array([[float(matrix[i, j]) for j in range(size)] for i in range(size)])
    if not np.isfinite(middle).all():
        return Fraction(0)
    lowest, highest = np.linalg.eigvalsh(middle)[[0, -1]]
    guess = float(lowest) - 2.0**-44 * size * float(highest)
    if guess <= slack:
        return Fraction(0)
    try:
        factor = np.linalg.cholesky(middle - guess * np.eye(size))
    except np.linalg.LinAlgError:
        return Fraction(0)
    with working_precision(_MATRIX_BITS):
        lower = arb_mat(factor.tolist())
        shift = arb_mat([[guess * (i == j) for j in range(size)] for i in range(size)])
        rest = matrix - shift - lower * lower.transpose()
        return max(Fraction(0), below(arb(guess) - norm_bound(rest.entries()) - slack))


def norm_bound(balls: Sequence[arb]) -> arb:
    """Return a ball whose upper end bounds the l2 norm of every vector in the balls."""
    return sum((ball.abs_upper() ** 2 for ball in balls), arb(0)).sqrt()


def below(ball: arb) -> Fraction:
    """Return an exact rational that is no larger than any number in a finite ball."""
    mantissa, exponent = ball.lower().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def above(ball: arb) -> Fraction:
    """Return an exact rational that is no smaller than any number in a finite ball."""
    mantissa, exponent = ball.upper().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
