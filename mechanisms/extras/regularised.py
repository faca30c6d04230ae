"""A public convex regulariser r added to a private objective.

``L(theta) + r(theta)``, r twice differentiable and convex on R^d and free of data.
In the proof of Theorem 5.1 (Awan & Slavkovic) r adds the same matrix, the Hessian
of r, to C for both neighbours: C still has every eigenvalue at least gamma, and
the tilt differs by the difference of two records' gradients only. So r costs no
privacy and changes neither Delta nor lambda. A regulariser with a kink, as the
l1 norm, is not offered: the argument needs its Hessian; :class:`SmoothAbsolute` is
its smooth stand-in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import rational
from mechanisms.exact.rounding import working_precision
from mechanisms.samplers.objective import Certified, Objective

_BITS = 128  # enough that balls add nothing to the objective's own errors


class Regulariser(Protocol):
    """A public, twice differentiable convex function r.

    ``curvature`` is a lower bound, at least 0, of its Hessian's eigenvalues
    everywhere; ``quadratic`` says that the Hessian is constant.
    """

    @property
    def curvature(self) -> Fraction: ...

    @property
    def quadratic(self) -> bool: ...

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return gradient and Hessian in floats: hints."""

    def gradient(self, theta: Sequence[Fraction]) -> list[arb]:
        """Return balls around the gradient at the present working precision."""

    def stretch(self, step: Floats) -> float:
        """Return about how far a step moves the log of the Hessian: a hint."""


@dataclass(frozen=True, slots=True)
class Ridge:
    """(strength / 2) ||theta - centre||_2^2."""

    strength: Fraction
    centre: tuple[Fraction, ...]

    @property
    def curvature(self) -> Fraction:
        """Return the strength."""
        return self.strength

    @property
    def quadratic(self) -> bool:
        """Return True."""
        return True

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return gradient and Hessian in floats: hints."""
        centre = np.array([float(c) for c in self.centre])
        strength = float(self.strength)
        return strength * (theta - centre), strength * np.eye(len(theta))

    def gradient(self, theta: Sequence[Fraction]) -> list[arb]:
        """Return the gradient."""
        pairs = zip(theta, self.centre, strict=True)
        return [rational(self.strength * (t - c)) for t, c in pairs]

    def stretch(self, step: Floats) -> float:  # noqa: ARG002
        """Return 0."""
        return 0.0


@dataclass(frozen=True, slots=True)
class SmoothAbsolute:
    """strength * sum_j sqrt(theta_j^2 + width^2): the l1 norm with its kink rounded off."""

    strength: Fraction
    width: Fraction

    @property
    def curvature(self) -> Fraction:
        """Return 0: far out it is nearly linear."""
        return Fraction(0)

    @property
    def quadratic(self) -> bool:
        """Return False."""
        return False

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return gradient and Hessian in floats: hints."""
        strength, width = float(self.strength), float(self.width)
        length = np.hypot(theta, width)
        return strength * theta / length, np.diag(strength * width**2 / length**3)

    def gradient(self, theta: Sequence[Fraction]) -> list[arb]:
        """Return the gradient, theta_j / sqrt(theta_j^2 + width^2) times the strength."""
        strength = rational(self.strength)
        return [
            strength * rational(t) / rational(t * t + self.width * self.width).sqrt() for t in theta
        ]

    def stretch(self, step: Floats) -> float:
        """Return 3 max |step_j| / (2 width): |(log r'')'| = 3 |t| / (t^2 + width^2)."""
        return 1.5 * float(np.abs(step).max()) / float(self.width)


class RegularisedObjective:
    """L + r; implements :class:`~mechanisms.samplers.objective.Objective`."""

    __slots__ = ("_objective", "_regulariser")

    def __init__(self, objective: Objective, regulariser: Regulariser) -> None:
        self._objective = objective
        self._regulariser = regulariser

    @property
    def dimension(self) -> int:
        """Return d."""
        return self._objective.dimension

    @property
    def quadratic(self) -> bool:
        """Return whether both parts are."""
        return self._objective.quadratic and self._regulariser.quadratic

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return gradient and Hessian in floats: hints."""
        gradient, hessian = self._objective.model(theta)
        more, curve = self._regulariser.model(theta)
        return gradient + more, hessian + curve

    def stretch(self, step: Floats) -> float:
        """Return the larger of both."""
        return max(self._objective.stretch(step), self._regulariser.stretch(step))

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative along the step, in floats, a hint."""
        slope = self._objective.slope_along(theta, step)
        return lambda share: (
            slope(share) + float(self._regulariser.model(theta + share * step)[0] @ step)
        )

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return facts of the sum."""
        facts = self._objective.certify(theta)
        with working_precision(_BITS):
            gradient = self._sum(facts.gradient, theta)
        return Certified(gradient, facts.curvature + self._regulariser.curvature, facts.reach)

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Return balls around the gradient."""
        with working_precision(bits):
            return self._sum(self._objective.gradient(theta, bits), theta)

    def _sum(self, gradient: Sequence[arb], theta: Sequence[Fraction]) -> list[arb]:
        return [g + r for g, r in zip(gradient, self._regulariser.gradient(theta), strict=True)]
