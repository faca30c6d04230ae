"""Errors in rank of released quantiles: public numbers that compare ways to draw levels.

Where records are many and distinct, the rank of the point released for level j is
off from n q_j by a random delta_j whose law depends on nothing private. Means of
|delta_j|, in records:

*One by one*, an equal part of epsilon each: ``exp(-rate_j |delta_j|)`` with
``rate_j = epsilon / (2 m Delta_j)``, so 1 / rate_j.

*Jointly*: ``exp(-rate sum |delta_j - delta_{j-1}|)``, delta_0 = delta_{m+1} = 0, a walk of m + 1
Laplace steps bound to end where it began. The sum of k steps has density

    f_k(x) = exp(-|x|) sum over i < k of (k-1+i choose i) |x|^(k-1-i) / ((k-1-i)! 2^(k+i))

in units of 1 / rate, and delta_j the density f_j f_{m+1-j}, normalised. Between the ends it
grows as the root of their distance, where one by one it grows as m: jointly is the
better way for many levels, always under replace-one, and one by one only for two
to about six levels close together under add-remove, where its own Delta is smaller.
Measured at 10,000 distinct records and epsilon = 1 (``studies/quantiles.py``), jointly and one
by one: quartiles 4.2 and 5.8, deciles 4.3 and 16.5, twenty-quantiles 7.7 and 36 under
replace-one; levels 0.5 and 0.51 under add-remove 3.3 and 2.4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from mechanisms.exact.many import Floats
from mechanisms.privacy import Adjacency
from mechanisms.statistics.quantile import gradient_sensitivity, joint_sensitivity

_EXACT_LEVELS = 12  # beyond, a Gaussian bridge is near enough
_FARTHEST, _POINTS = 30.0, 4001  # of a law that is below exp(-30) there


def split_rank_errors(
    levels: Sequence[Fraction], epsilon: Fraction, adjacency: Adjacency
) -> list[float]:
    """Return the mean |delta_j| of levels drawn one by one."""
    unit = 2 * len(levels) / epsilon
    return [float(unit * gradient_sensitivity(level, adjacency)) for level in levels]


def joint_rank_errors(
    levels: Sequence[Fraction], epsilon: Fraction, adjacency: Adjacency
) -> list[float]:
    """Return the mean |delta_j| of levels drawn jointly, in the order of the levels."""
    unit = float(2 * joint_sensitivity(levels, adjacency) / epsilon)
    ideal = dict(zip(sorted(levels), bridge_errors(len(levels)), strict=True))
    return [unit * ideal[level] for level in levels]


def bridge_errors(count: int) -> list[float]:
    """Return the mean |delta_j| of the bound walk at rate 1, j = 1 .. count.

    Exact for up to 12 levels; beyond, of a Gaussian bridge with steps of the
    same variance, whose error is below 5%.
    """
    if count > _EXACT_LEVELS:
        return [
            math.sqrt(4 / math.pi * j * (count + 1 - j) / (count + 1)) for j in range(1, count + 1)
        ]
    return [_bridge_error(j, count + 1 - j) for j in range(1, count + 1)]


def bridge_law(count: int) -> tuple[Floats, Floats]:
    """Return points and odds of the middle delta of the bound walk at rate 1: up to 12 levels.

    The middle one misses by most.
    """
    place = (count + 1) // 2
    points = np.linspace(-_FARTHEST, _FARTHEST, _POINTS)
    sizes = np.abs(points)
    factors = (
        sum(float(weight) * sizes**power for power, weight in enumerate(_walk_density(steps)))
        for steps in (place, count + 1 - place)
    )
    odds = np.exp(-2 * sizes)
    for factor in factors:
        odds = odds * factor
    return points, odds / odds.sum()


def _bridge_error(before: int, after: int) -> float:
    """Return the integral of |x| f_before f_after over that of f_before f_after."""
    mean, total = Fraction(0), Fraction(0)
    for power, weight in enumerate(_walk_density(before)):
        for other, factor in enumerate(_walk_density(after)):
            size = power + other
            total += weight * factor * Fraction(math.factorial(size), 2 ** (size + 1))
            mean += weight * factor * Fraction(math.factorial(size + 1), 2 ** (size + 2))
    return float(mean / total)


def _walk_density(steps: int) -> list[Fraction]:
    """Return the coefficients of |x|^0, |x|^1, .. in exp(|x|) f_steps(x)."""
    last = steps - 1
    return [
        Fraction(
            math.comb(2 * last - power, last - power),
            math.factorial(power) * 2 ** (steps + last - power),
        )
        for power in range(steps)
    ]
