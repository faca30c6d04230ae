"""Exact rationals: Python's ``Fraction`` and FLINT's ``fmpq``, and linear systems of them.

A value of an object that is computed once, without blocking other objects.

``functools.cached_property`` of Python 3.11 holds one lock for all objects of a class while one of
them computes its value. Draws in several threads could deadlock: one thread holds that lock and
waits for the working precision of the process (:mod:`mechanisms.exact.floats`), another holds the
precision and waits for the lock. This decorator has no lock. Two threads that read the value at
the same time may both compute it, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from flint import fmpq, fmpq_mat

if TYPE_CHECKING:
    from functools import cached_property as once  # noqa: TID251
else:

    class _Once:
        """The value of a function, stored in its object under the function's name."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self._name = function.__name__
            self.__doc__ = function.__doc__

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Return the value; from then on it is an attribute of the object."""
            if instance is None:
                return self
            # No data descriptor: what is in the object's dictionary is found before this.
            value = instance.__dict__[self._name] = self._function(instance)
            return value

    once = _Once


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


# A value of an object that is computed once, without blocking other objects


__all__ = ["once"]
