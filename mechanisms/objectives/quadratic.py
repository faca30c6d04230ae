"""Least squares as an objective, from the exact normal equations.

``L(theta) = sum_i (y_i - x_i'theta)^2``: gradient 2 X'X theta - 2 X'y, Hessian 2 X'X.

*The least-squares objective and what K-norm gradient releases need of it.*

    l(theta) = sum_i (y_i - x_i'theta)^2 + (gamma / 2) ||theta||_2^2
    grad l(theta) = A theta - b,    A = 2 X'X + gamma I,    b = 2 X'y

in scaled coordinates, |x_ij| <= 1 and |y_i| <= 1, on Theta = {||theta||_1 <= B}.

*Sensitivity.* A record contributes g = -2 (y - x'theta) x, whose entries are at most 2 (1 + rho) in
absolute value, rho = ||theta||_1. Adding or removing one therefore changes the gradient at theta by
at most Delta_inf(theta) = 2 (1 + rho), which is attained; replacing one by at most
4 (1 + rho), which is attained where some theta_j = 0.

With one coefficient no other can be 0. There g = 2 (x theta - y) x lies between 2 (1 + rho), where
x = 1 and y = -1 for a positive theta, and -2 max a (1 - a rho) over a in [0, 1], where x = -a. Both
are reached, so that replacing a record changes it by at most, and for some records by exactly,

    Delta(theta) = 4  for rho <= 1/2 (a = 1),    2 (1 + rho) + 1 / (2 rho)  beyond (a = 1/(2 rho)),

no less than what adding one does, so that it serves filtered rows too. The ridge does not depend
on the data and adds nothing. (Reimherr & Awan take the constant 4 (1 + B) and then drop the
gradient's factor 2 in their density (1), which halves epsilon.)

*Public ridge.* X'X may be singular whatever n: constant, repeated or too many
columns. With c = eps / (2 Delta_0 (1 + B)), Delta_0 = 4 or 2, the least rate on
Theta, the rule is

    gamma = d^2 / (4 c B)  for d <= 12,    d (d + 1) / (2 c B)  for d = 13 ... 20,

which keeps A^-1 V, for V the gradient's noise, about as wide as Theta along
directions the data say nothing of. It shrinks slopes: for uncorrelated columns
at n = 10^4, eps = 1, B = 10 by 1, 4, 8 and 34% at d = 4, 8, 12 and 20, and in
proportion to 1 / (n eps); that is below the privacy noise there, not for every n.

*Base measure.* Theorem 3.1 allows any that does not depend on the data: neighbours' densities
exp(-k ||grad|| / D) mu(theta) have the factor mu in common, whatever it is. With Lebesgue
measure the volume far from zero, which grows as (1 + B)^d, wins where rows are few, and the draw
lies out at the bound. It is (1 + rho)^-p, by the public rule

    p = 2 d  for d <= 6,    12  for d = 7 ... 12,    d  for d = 13 ... 20.

At rho >> 1 its mass between rho and 2 rho falls as rho^(d - p), so that without data theta is about
as long as 1 whatever B is; and where rows times epsilon are many it is about constant over the
draw, and costs nothing. ``studies/base_measure.py`` compares p = 0 ... 4 d. Beyond d = 6 a larger p
gains less, and no envelope known to us keeps a useful share of its tries on some data
(1e-7 at p = 24, d = 12, n = 1,000 rows far from the middle of their bounds).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.balls import MATRIX_BITS, rational, rational_matrix, smallest_eigenvalue_bound
from mechanisms.exact.floats import Floats, working_precision
from mechanisms.privacy import Adjacency
from mechanisms.samplers.affine import AffinePosterior
from mechanisms.samplers.minimiser import Certified


@dataclass(frozen=True, slots=True, kw_only=True)
class NormalEquations:
    """Exact X'X (d rows of d) and X'y (length d, empty without a target) in scaled units.

    Private: these are sums over the data.
    """

    xx: tuple[tuple[Fraction, ...], ...]
    xy: tuple[Fraction, ...]


class LeastSquaresObjective:
    """Exact least squares; implements :class:`~mechanisms.samplers.minimiser.Objective`.

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


# The least-squares objective and what K-norm gradient releases need of it

MAX_DIMENSION = 20  # beyond, the public ridge biases slopes by more than a third
_SLOWEST = 8  # bits: a smaller ridge may multiply the tries by up to 2**8


def unit_sensitivity(adjacency: Adjacency) -> Fraction:
    """Return Delta_0, 4 or 2 by add-remove: Delta_inf(theta) <= Delta_0 (1 + ||theta||_1)."""
    return Fraction(4 if adjacency is Adjacency.REPLACE_ONE else 2)


def sensitivity_text(dimension: int, adjacency: Adjacency) -> str:
    """Return Delta_inf(theta) in words."""
    if dimension == 1 and adjacency is Adjacency.REPLACE_ONE:
        return "4 where |theta| <= 1/2, 2 (1 + |theta|) + 1 / (2 |theta|) beyond"
    return f"{unit_sensitivity(adjacency)} (1 + ||theta||_1)"


def gradient_rate(epsilon: Fraction, adjacency: Adjacency) -> Fraction:
    """Return k = eps / (2 Delta_0): the density's exponent is -k ||grad||_inf / (1 + rho)."""
    return epsilon / (2 * unit_sensitivity(adjacency))


def public_ridge(rate: Fraction, bound: Fraction, dimension: int) -> Fraction:
    """Return gamma by the public rule, for ``rate`` = k."""
    least_rate = rate / (1 + bound)
    if dimension <= 12:
        return Fraction(dimension**2) / (4 * least_rate * bound)
    return Fraction(dimension * (dimension + 1)) / (2 * least_rate * bound)


def smallest_ridge(rate: Fraction, bound: Fraction, dimension: int) -> Fraction:
    """Return the least ridge that may be asked for: the rule's over 2**(8 / d), rounded up.

    Along each direction the data leave open the proposals widen as 1 / gamma, so
    a draw may then take up to 2**8 times as many tries.
    """
    shrink = math.floor(2 ** (_SLOWEST / dimension) * 1024)
    return public_ridge(rate, bound, dimension) * 1024 / shrink


def posterior(
    equations: NormalEquations,
    *,
    rate: Fraction,
    bound: Fraction,
    ridge: Fraction,
    power: int,
    adjacency: Adjacency,
) -> AffinePosterior:
    """Return the exact law of theta from exact X'X and X'y.

    ``rate`` = k, ``ridge`` = gamma, and ``power`` = p of the base measure.
    """
    dimension = len(equations.xy)
    return AffinePosterior(
        matrix=tuple(
            tuple(2 * entry + (ridge if row == column else 0) for column, entry in enumerate(line))
            for row, line in enumerate(equations.xx)
        ),
        vector=tuple(2 * entry for entry in equations.xy),
        rate=rate,
        bound=bound,
        power=power,
        replaced=dimension == 1 and adjacency is Adjacency.REPLACE_ONE,
    )
