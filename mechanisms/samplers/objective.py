"""The minimiser's interface of an objective: float hints, and certified enclosures.

The objective is the convex sum over records, without ridge and tilt, which the minimiser adds
itself.

*Conventions.* theta is a point of R^d, d = ``dimension``. A *hint* is in floats and may be wrong:
theta, a step and a gradient are ``float64`` of shape (d,), a Hessian of shape (d, d). A *fact*
holds for certain: theta is d exact rationals, a gradient d balls around the exact entries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from flint import arb

from mechanisms.exact.arrays import Floats


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
