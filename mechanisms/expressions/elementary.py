"""Elementary functions of arrays, whose result for a value does not depend on its neighbours.

Vectorised libraries may compute the last elements of an array, or another array length, by
other instructions than the rest, so that ``log(x)`` could depend on where in the array x stands:
then a row's code would depend on other rows. Everything here is made of single IEEE 754
operations that are rounded correctly, each on one element at a time (``+ - * /``, rounding,
comparison, scaling by a power of two), so the result for an element is a function of that element
alone, and the same on every machine. Relative error: below 1e-14.
"""

from __future__ import annotations

import numpy as np

from mechanisms.exact.many import Floats

_LN2_HIGH, _LN2_LOW = 0.6931471803691238, 1.9082149292705877e-10
"""log(2) in two parts, the first with so few digits that small multiples of it are exact."""
_ROOT_HALF = 0.7071067811865476  # mantissas are taken around 1, where s is smallest
_LOG_TERMS = 11  # |s| is below 0.172: the next term is below 1e-20
_EXP_TERMS = 14  # |r| is below 0.347: the next term is below 1e-19


def log(values: Floats) -> Floats:
    """Return the natural logarithm of positive numbers; anything for others.

    x = m 2**k with m in [sqrt(1/2), sqrt(2)),   s = (m - 1) / (m + 1),
    log x = k log 2 + 2 (s + s**3 / 3 + s**5 / 5 + ...)
    """
    mantissa, exponent = np.frexp(values)
    small = mantissa < _ROOT_HALF
    mantissa = np.where(small, 2 * mantissa, mantissa)
    power = exponent - small
    s = (mantissa - 1) / (mantissa + 1)
    square = s * s
    total = np.full_like(s, 1 / (2 * _LOG_TERMS + 1))
    for term in range(_LOG_TERMS - 1, -1, -1):
        total = total * square + 1 / (2 * term + 1)
    # The small parts first: added one by one to the large one they would be rounded away.
    return np.asarray((power * _LN2_LOW + 2 * s * total) + power * _LN2_HIGH)


def log1p(values: Floats) -> Floats:
    """Return log(1 + x) for x above -1, accurately near 0 too; anything for others."""
    shifted = 1 + values
    # what the sum lost by rounding is given back to first order
    lost = values - (shifted - 1)
    return np.asarray(log(shifted) + np.where(shifted > 0, lost / shifted, 0.0))


def exp(values: Floats) -> Floats:
    """Return the exponential of numbers of at most 700; anything for others.

    x = k log 2 + r with |r| <= log(2) / 2,   exp x = 2**k (1 + r + r**2 / 2 + ...)
    """
    power = np.rint(values * (1 / (_LN2_HIGH + _LN2_LOW)))
    rest = (values - power * _LN2_HIGH) - power * _LN2_LOW
    total = np.ones_like(rest)
    for term in range(_EXP_TERMS, 0, -1):
        total = total * rest / term + 1
    # Beyond those it is 0 or infinite anyhow, and what is no int32 would be cast to anything.
    return np.asarray(np.ldexp(total, np.clip(power, -1100, 1100).astype(np.int32)))


def whole_power(values: Floats, power: int) -> Floats:
    """Return values to a whole power, by repeated multiplication."""
    result, square, left = np.ones_like(values), values, abs(power)
    while left:
        if left & 1:
            result = result * square
        square, left = square * square, left >> 1
    return np.asarray(1 / result if power < 0 else result)


def power(values: Floats, exponent: float) -> Floats:
    """Return values of 0 or more to a fractional power."""
    if exponent == 0.5:
        return np.asarray(np.sqrt(values))
    # A logarithm of 0 is anything here, so 1 stands in for it until the last line.
    found = exp(exponent * log(np.where(values > 0, values, 1.0)))
    return np.asarray(np.where(values > 0, found, 0.0))
