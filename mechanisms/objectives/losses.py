"""Public constants of a record's loss: what objective perturbation is calibrated with.

On Theta, at any theta and for any two records z, z':

- ``||grad l(theta; z) - grad l(theta; z')||_K <= Delta_K`` (replace-one), or
  ``||grad l(theta; z)||_K <= Delta_K`` (add-remove);
- the Hessian of l has rank one and its eigenvalue is at most lambda.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from mechanisms.privacy import Adjacency
from mechanisms.samplers.continuous import BallNorm


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """The public constants of a record's loss on Theta.

    Attributes
    ----------
    dimension
        d.
    largest_difference
        Delta_inf; the others follow as sqrt(d) and d times it.
    eigenvalue
        lambda.
    slope_norm
        A typical l2 norm of the scaled coefficients; only ``q="auto"`` uses it.
    """

    dimension: int
    largest_difference: Fraction
    eigenvalue: Fraction
    slope_norm: float

    def sensitivity_squared(self, norm: BallNorm) -> Fraction:
        """Return Delta_K squared, exactly."""
        factor = {"linf": 1, "l2": self.dimension, "l1": self.dimension**2}[norm]
        return self.largest_difference**2 * factor

    def tilt_std(self, norm: BallNorm, budget: float) -> float:
        """Return the standard deviation of a coordinate of V at epsilon q = budget."""
        d = self.dimension
        scale = float(self.largest_difference) / budget
        if norm == "linf":
            return scale * math.sqrt((d + 1) * (d + 2) / 3)
        return scale * (math.sqrt(d * (d + 1)) if norm == "l2" else math.sqrt(2) * d)


def logistic_loss(dimension: int, adjacency: Adjacency) -> Loss:
    """Return Delta_inf = 2 (add-remove 1) and lambda = d/4 of the logistic loss."""
    return Loss(
        dimension=dimension,
        largest_difference=_one_or_two(adjacency),
        eigenvalue=Fraction(dimension, 4),
        slope_norm=2.0,
    )


def squared_loss(dimension: int, bound: Fraction, adjacency: Adjacency) -> Loss:
    """Return Delta_inf = 4 (1 + B) (add-remove half) and lambda = 2 d of (y - x'theta)^2.

    On ||theta||_1 <= B a record's gradient -2 (y - x'theta) x has entries of at
    most 2 (1 + B) in absolute value.
    """
    return Loss(
        dimension=dimension,
        largest_difference=2 * (1 + bound) * _one_or_two(adjacency),
        eigenvalue=Fraction(2 * dimension),
        slope_norm=1.0,
    )


def _one_or_two(adjacency: Adjacency) -> Fraction:
    return Fraction(2 if adjacency is Adjacency.REPLACE_ONE else 1)
