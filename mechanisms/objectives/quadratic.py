"""Least squares as an objective, from the exact normal equations.

``L(theta) = sum_i (y_i - x_i'theta)^2``: gradient 2 X'X theta - 2 X'y, Hessian 2 X'X.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import MATRIX_BITS, rational, rational_matrix, smallest_eigenvalue_bound
from mechanisms.exact.rounding import working_precision
from mechanisms.samplers.objective import Certified


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalEquations:
    """Exact X'X (d rows of d) and X'y (length d, empty without a target) in scaled units.

    Private: these are sums over the data.
    """

    xx: tuple[tuple[Fraction, ...], ...]
    xy: tuple[Fraction, ...]


class LeastSquaresObjective:
    """Exact least squares; implements :class:`~mechanisms.samplers.objective.Objective`.

    Parameters
    ----------
    xx, xy : sequences of Fraction
        X'X (d rows of d) and X'y (length d), exactly.
    """

    __slots__ = ("_curvature", "_hessian", "_hint", "_linear")

    def __init__(self, xx: Sequence[Sequence[Fraction]], xy: Sequence[Fraction]) -> None:
        self._hessian = [[2 * entry for entry in row] for row in xx]
        self._linear = [-2 * entry for entry in xy]
        self._hint = (
            np.array([[float(entry) for entry in row] for row in self._hessian]),
            np.array([float(entry) for entry in self._linear]),
        )
        with working_precision(MATRIX_BITS):
            matrix = rational_matrix(self._hessian)
            self._curvature = smallest_eigenvalue_bound(matrix)

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self._linear)

    @property
    def quadratic(self) -> bool:
        """Return True: the Hessian is the same everywhere."""
        return True

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the gradient and the Hessian in floats: hints, not facts."""
        hessian, linear = self._hint
        return hessian @ theta + linear, hessian

    def stretch(self, step: Floats) -> float:  # noqa: ARG002
        """Return 0: no step changes the Hessian."""
        return 0.0

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative of the objective at theta + t step, in floats, a hint."""
        gradient, hessian = self.model(theta)
        start, growth = float(step @ gradient), float(step @ hessian @ step)
        return lambda share: start + share * growth

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return the exact gradient and a lower bound of the Hessian's smallest eigenvalue."""
        return Certified(self.gradient(theta, MATRIX_BITS), self._curvature, None)

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Return the gradient, exact but for one rounding to ``bits`` bits."""
        with working_precision(bits):
            return [
                rational(sum((h * t for h, t in zip(row, theta, strict=True)), linear))
                for row, linear in zip(self._hessian, self._linear, strict=True)
            ]
