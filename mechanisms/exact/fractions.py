"""Exact rationals: Python's ``Fraction`` and FLINT's ``fmpq``, and linear systems of them."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from flint import fmpq, fmpq_mat


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
