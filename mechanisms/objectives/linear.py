"""The least-squares objective and what K-norm gradient releases need of it.

    l(theta) = sum_i (y_i - x_i'theta)^2 + (gamma / 2) ||theta||_2^2
    grad l(theta) = A theta - b,    A = 2 X'X + gamma I,    b = 2 X'y

in scaled coordinates, |x_ij| <= 1 and |y_i| <= 1, on Theta = {||theta||_1 <= B}.

*Sensitivity.* A record contributes -2 (y - x'theta) x, whose entries are at most
2 (1 + ||theta||_1) in absolute value. Replacing a record therefore changes the
gradient at theta by at most Delta_inf(theta) = 4 (1 + ||theta||_1), adding or
removing one by half of that. The latter is attained; the former where some
theta_j = 0, and 4 (1 + ||theta||_1 - min |theta_j|) is in general. The ridge does
not depend on the data and adds nothing. (Reimherr & Awan take the constant 4 (1 + B) and then
drop the gradient's factor 2 in their density (1), which halves epsilon.)

*Public ridge.* X'X may be singular whatever n: constant, repeated or too many
columns. With c = eps / (2 Delta_0 (1 + B)), Delta_0 = 4 or 2, the least rate on
Theta, the rule is

    gamma = d^2 / (4 c B)  for d <= 12,    d (d + 1) / (2 c B)  for d = 13 ... 20,

which keeps A^-1 V, for V the gradient's noise, about as wide as Theta along
directions the data say nothing of. It shrinks slopes: for uncorrelated columns
at n = 10^4, eps = 1, B = 10 by 1, 4, 8 and 34% at d = 4, 8, 12 and 20, and in
proportion to 1 / (n eps); that is below the privacy noise there, not for every n.

*Base measure.* Theorem 3.1 allows any that does not depend on the data. It is
Lebesgue measure while d log(1 + B) <= 20, and (1 + ||theta||_1)^-d beyond.
Lebesgue volume grows as (1 + B)^d where the exponent flattens as 1 / (1 + rho), so
that for n in a middle range no envelope known to us keeps a useful share of its
tries (1e-9 at d = 12, B = 10, n = 6e4 with correlated columns); the factor
cancels just that growth, and lowers the error at small n.
"""

from __future__ import annotations

import math
from fractions import Fraction

from mechanisms.objectives.quadratic import NormalEquations
from mechanisms.privacy import Adjacency
from mechanisms.samplers.affine import AffinePosterior

MAX_DIMENSION = 20  # beyond, the public ridge biases slopes by more than a third
_MAX_LOG_GROWTH = 20.0
_SLOWEST = 8  # bits: a smaller ridge may multiply the tries by up to 2**8


def unit_sensitivity(adjacency: Adjacency) -> Fraction:
    """Return Delta_0, where Delta_inf(theta) = Delta_0 (1 + ||theta||_1): 4, or 2 by add-remove."""
    return Fraction(4 if adjacency is Adjacency.REPLACE_ONE else 2)


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


def base_power(dimension: int, bound: Fraction) -> int:
    """Return p of the base measure (1 + ||theta||_1)^-p: 0 or d, by d and B alone."""
    return dimension if dimension * math.log1p(bound) > _MAX_LOG_GROWTH else 0


def posterior(
    equations: NormalEquations, *, rate: Fraction, bound: Fraction, ridge: Fraction
) -> AffinePosterior:
    """Return the exact law of theta from exact X'X and X'y; ``rate`` = k, ``ridge`` = gamma."""
    dimension = len(equations.xy)
    return AffinePosterior(
        matrix=tuple(
            tuple(2 * entry + (ridge if row == column else 0) for column, entry in enumerate(line))
            for row, line in enumerate(equations.xx)
        ),
        vector=tuple(2 * entry for entry in equations.xy),
        rate=rate,
        bound=bound,
        power=base_power(dimension, bound),
    )
