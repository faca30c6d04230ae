"""Public grids on which scaled coefficients are released, finer than any noise on them."""

from __future__ import annotations

from fractions import Fraction

_EXPONENT = 44  # a hundredth of the noise at 10**8 rows, epsilon 1
_BITS = 38  # x'theta, of codes up to 2**20, then stays below 2**60
_USUAL = 30  # bits of epsilon times rows that this grid is fine enough for
_FINER = 3  # x'theta and the target then stay below 2**61, and their difference below 2**62


def grid_exponent(epsilon: Fraction, bound: Fraction) -> int:
    """Return e, the grid's step being 2**e in scaled units: a function of eps and B alone.

    2**-44, finer by the size of eps above 1 and of B below 1: at most a
    hundredth of the noise at 10**8 rows.
    """
    whole = -(-epsilon.numerator // epsilon.denominator)
    inverse = -(-bound.denominator // bound.numerator)
    return -(_EXPONENT + (whole - 1).bit_length() + (inverse - 1).bit_length())


def grid_bits(bound: Fraction, information: Fraction) -> int:
    """Return g, the grid's step being 2**-g in scaled units: 38 less the bits of B above 1.

    ``information`` is epsilon times the rows: a law is about that much narrower than Theta. Above
    2**30 the grid is finer, by 3 bits at most.
    """
    whole = -(-bound.numerator // bound.denominator)
    much = -(-information.numerator // (information.denominator << _USUAL))
    finer = min(_FINER, max(0, (much - 1).bit_length()))
    return _BITS + finer - (whole - 1).bit_length()
