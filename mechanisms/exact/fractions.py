"""Exact rationals: Python's ``Fraction`` and FLINT's ``fmpq``, and linear systems of them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from flint import fmpq, fmpq_mat

# Decimals: a float as the decimal it was written as, and exact text of a rational


def as_written(value: float) -> Fraction:
    """Return the shortest decimal that reads as this float: what a person wrote.

    >>> as_written(0.1)
    Fraction(1, 10)
    """
    return Fraction(repr(float(value)))


def has_decimals(value: Fraction, most: int) -> bool:
    """Return whether a rational is a decimal with at most ``most`` digits after the point."""
    return bool(10**most % value.denominator == 0)


def decimal_text(value: Fraction, *, most_digits: int | None = None) -> str:
    """Return the shortest exact text: a decimal where one exists, else ``p/q``.

    A decimal with more than ``most_digits`` digits after the point is written ``p/q`` too.

    >>> decimal_text(Fraction(1, 10**6)), decimal_text(Fraction(-1, 3))
    ('0.000001', '-1/3')
    """
    digits = _digits(value.denominator)
    if digits is None or (most_digits is not None and digits > most_digits):
        return str(value)
    shifted = int(value * 10**digits)
    sign = "-" if shifted < 0 else ""
    text = str(abs(shifted)).rjust(digits + 1, "0")
    return f"{sign}{text[:-digits]}.{text[-digits:]}" if digits else f"{sign}{text}"


def _digits(denominator: int) -> int | None:
    """Return the least k with a denominator that divides 10**k; None if there is none."""
    twos = (denominator & -denominator).bit_length() - 1
    rest, fives = denominator >> twos, 0
    # by squares: a denominator of thousands of digits is no thousand divisions
    powers = [5]
    while powers[-1] <= rest:
        powers.append(powers[-1] ** 2)
    for place in reversed(range(len(powers))):
        quotient, left = divmod(rest, powers[place])
        if left == 0:
            rest, fives = quotient, fives + 2**place
    return max(twos, fives) if rest == 1 else None


# Exact rationals: Python's ``Fraction`` and FLINT's ``fmpq``, and linear systems of them


def to_fmpq(value: Fraction) -> fmpq:
    """Return the same rational for FLINT."""
    return fmpq(value.numerator, value.denominator)


def to_fraction(value: fmpq) -> Fraction:
    """Return the same rational for Python."""
    return Fraction(int(value.p), int(value.q))


def fmpq_matrix(rows: Iterable[Iterable[Fraction]]) -> fmpq_mat:
    """Return the exact matrix with these rows."""
    return fmpq_mat([[to_fmpq(entry) for entry in row] for row in rows])


def solve(rows: Iterable[Iterable[Fraction]], right: Iterable[Fraction]) -> list[Fraction]:
    """Return the exact solution of a square system of linear equations.

    Raises
    ------
    ZeroDivisionError
        The system is singular.
    """
    answer = fmpq_matrix(rows).solve(fmpq_matrix([[entry] for entry in right]))
    return [to_fraction(entry) for entry in answer.entries()]
