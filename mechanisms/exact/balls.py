"""Ball arithmetic: from rationals to balls and back, and certified bounds of vectors and matrices.

A ball (``flint.arb``) holds the number it stands for, whatever the working precision; only its
width depends on it. So every function here is valid at any precision, and callers choose one
with :func:`mechanisms.exact.floats.working_precision` for tightness alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat, fmpq

from mechanisms.exact.floats import working_precision

MATRIX_BITS = 128
"""Enough that balls add nothing to the error of a matrix of floats."""


def rational(value: Fraction) -> arb:
    """Return a ball around a rational at the present working precision."""
    return arb(fmpq(value.numerator, value.denominator))


def rational_matrix(rows: Iterable[Iterable[Fraction]]) -> arb_mat:
    """Return balls around a matrix of rationals, given by its rows."""
    return arb_mat([[rational(entry) for entry in row] for row in rows])


def below(ball: arb) -> Fraction:
    """Return an exact rational that is no larger than any number in a finite ball."""
    return _dyadic(ball.lower())


def above(ball: arb) -> Fraction:
    """Return an exact rational that is no smaller than any number in a finite ball."""
    return _dyadic(ball.upper())


def midpoint(ball: arb) -> Fraction:
    """Return a ball's midpoint, exactly: near the number it stands for, not certainly it."""
    return _dyadic(ball.mid())


def _dyadic(point: arb) -> Fraction:
    mantissa, exponent = point.man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def float_below(ball: arb) -> float:
    """Return a float surely below a ball, close to it; -inf when there is none."""
    low = float(ball.lower())
    if not math.isfinite(low):
        return -math.inf
    return low - abs(low) * 2.0**-48  # the conversion to a float rounds either way


def dot(left: Sequence[arb | int], right: Sequence[arb]) -> arb:
    """Return a ball around the inner product of two vectors."""
    return sum((a * b for a, b in zip(left, right, strict=True)), arb(0))


def norm_two(vector: Sequence[arb]) -> arb:
    """Return a ball around the l2 norm."""
    return dot(vector, vector).sqrt()


def norm_one(vector: Sequence[arb]) -> arb:
    """Return a ball around the l1 norm: the sum of absolute values."""
    return sum((abs(entry) for entry in vector), arb(0))


def norm_largest(vector: Sequence[arb]) -> arb:
    """Return a ball around the l-infinity norm: the largest absolute value."""
    top = arb(0)
    for entry in vector:
        top = top.max(abs(entry))
    return top


def norm_bound(balls: Sequence[arb]) -> arb:
    """Return a ball whose upper end bounds the l2 norm of every vector in the balls."""
    return sum((ball.abs_upper() ** 2 for ball in balls), arb(0)).sqrt()


def smallest_eigenvalue_bound(matrix: arb_mat, *, slack: float = 0.0) -> Fraction:
    """Return a certified lower bound, at least 0, of a symmetric matrix's smallest eigenvalue.

    A float guess m is lowered until ``matrix - m I`` has a float Cholesky
    factor L; since L L' >= 0, the smallest eigenvalue is at least
    ``m - ||matrix - m I - L L'||_F``, the norm taken in ball arithmetic.
    ``slack`` bounds the spectral norm of what the matrix leaves out.
    """
    size = matrix.nrows()
    middle = np.array([[float(matrix[i, j]) for j in range(size)] for i in range(size)])
    if not np.isfinite(middle).all():
        return Fraction(0)
    lowest, highest = np.linalg.eigvalsh(middle)[[0, -1]]
    # Lowered by more than the eigenvalues and the factor below err by, or it would have no factor.
    guess = float(lowest) - 2.0**-44 * size * float(highest)
    if guess <= slack:
        return Fraction(0)
    try:
        factor = np.linalg.cholesky(middle - guess * np.eye(size))
    except np.linalg.LinAlgError:
        return Fraction(0)
    with working_precision(MATRIX_BITS):
        lower = arb_mat(factor.tolist())
        shift = arb_mat([[guess * (i == j) for j in range(size)] for i in range(size)])
        rest = matrix - shift - lower * lower.transpose()
        return max(Fraction(0), below(arb(guess) - norm_bound(rest.entries()) - slack))
