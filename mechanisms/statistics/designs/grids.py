"""Public grids on which scaled coefficients are released, finer than any noise on them."""

from __future__ import annotations

from fractions import Fraction

_EXPONENT = 44  # a hundredth of the noise at 10**8 rows, epsilon 1
_BITS = 38  # x'theta, of codes up to 2**20, then stays below 2**60


def grid_exponent(epsilon: Fraction, bound: Fraction) -> int:
    """Return e, the grid's step being 2**e in scaled units: a function of eps and B alone.

    2**-44, finer by the size of eps above 1 and of B below 1: at most a
    hundredth of the noise at 10**8 rows.
    """
    whole = -(-epsilon.numerator // epsilon.denominator)
    inverse = -(-bound.denominator // bound.numerator)
    return -(_EXPONENT + (whole - 1).bit_length() + (inverse - 1).bit_length())


def grid_bits(bound: Fraction) -> int:
    """Return g, the grid's step being 2**-g in scaled units: 38 less the bits of B above 1."""
    whole = -(-bound.numerator // bound.denominator)
    return _BITS - (whole - 1).bit_length()
