"""The possible range of each coefficient of a regression, for its verdict."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import sqrt

from mechanisms.contract import Json
from mechanisms.statistics.designs.scaling import RegressionScaling


def coefficient_ranges(
    scaling: RegressionScaling, *, largest: Fraction, bound: Fraction | None
) -> Json:
    """Return ``[low, high]`` of each coefficient.

    In scaled columns they run from ``-m`` to ``m``, m = min(largest / sqrt(d), bound), d the
    number of features: at that size d equally strong features add up to ``largest``.
    """
    most = largest / Fraction(sqrt(max(len(scaling.features), 1)))
    most = most if bound is None else min(most, bound)
    zeros: Sequence[Fraction] = [Fraction(0)] * scaling.dimension
    middle = scaling.unscale(zeros)
    reach = dict.fromkeys(middle, Fraction(0))
    for place in range(scaling.dimension):
        moved = scaling.unscale([most if at == place else Fraction(0) for at in range(len(zeros))])
        for name, value in moved.items():
            reach[name] += abs(value - middle[name])
    return {
        "coefficients": {
            name: [float(middle[name] - reach[name]), float(middle[name] + reach[name])]
            for name in middle
        }
    }
