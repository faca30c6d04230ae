"""Logistic loss over private rows: float hints, certified sums, and ball arithmetic.

``L(theta) = sum_i log(1 + exp(theta'x_i)) - y_i theta'x_i``, y in {0, 1},
|x_ij| <= 1 (Awan & Slavkovic, equation (4), as a sum).

*Conventions.* With s_i = 1 - 2 y_i a record's loss is log(1 + exp(s_i theta'x_i)),
so labels are folded into the rows. Rows are kept in *code units*
``zeta_i = s_i (1, a_i1/F, ..., a_ik/F)``, whose entries are exact in float64,
and x_i = W (1, a_i/F) for a public rational d x (k+1) matrix W (see
:class:`Design`). With w = W' theta and e_i = sigmoid(zeta_i'w):

- gradient in code units  g = sum e_i zeta_i, in theta W g
- Hessian in code units   H = sum e_i (1 - e_i) zeta_i zeta_i', in theta W H W'

A chunk holds at most 2**13 rows, so the product of 21-bit residuals with
21-bit codes sums to an exact integer in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray
from scipy.special import expit

from mechanisms.domain import CODE_BITS, CODE_MAX
from mechanisms.objectives.floats import SIGMOID_ERROR, SIGMOID_FLOOR, sigmoid
from mechanisms.objectives.local import Certified, rational, smallest_eigenvalue_bound
from mechanisms.samplers.rounding import working_precision

Floats = NDArray[np.float64]

CHUNK_ROWS = 1 << (53 - 2 * CODE_BITS)
_UNIT = 2.0**-53
_SAFETY = 1.01  # covers the rounding of the error bounds themselves
_MATRIX_BITS = 128


@dataclass(frozen=True, slots=True)
class Design:
    """The public map from codes to scaled columns: x = W (1, a_1/F, ..., a_k/F).

    Without an intercept x_j = offset_j + slope_j a_j / F. With one, x starts
    with the constant 1.
    """

    offsets: tuple[Fraction, ...]
    slopes: tuple[Fraction, ...]
    intercept: bool

    @property
    def dimension(self) -> int:
        """Return d, the intercept included."""
        return len(self.slopes) + self.intercept

    def pull(self, theta: Sequence[Fraction]) -> list[Fraction]:
        """Return w = W' theta, exactly."""
        slopes = theta[1:] if self.intercept else theta
        constant = sum((o * t for o, t in zip(self.offsets, slopes, strict=True)), Fraction(0))
        first = constant + (theta[0] if self.intercept else 0)
        return [first, *(s * t for s, t in zip(self.slopes, slopes, strict=True))]

    def matrix(self) -> list[list[Fraction]]:
        """Return W, d rows of k + 1."""
        size = len(self.slopes)
        rows = [[Fraction(1)] + [Fraction(0)] * size] if self.intercept else []
        for j, (offset, slope) in enumerate(zip(self.offsets, self.slopes, strict=True)):
            rows.append([offset] + [slope if j == k else Fraction(0) for k in range(size)])
        return rows


@dataclass(frozen=True, slots=True)
class _CodeSums:
    """Certified sums in code units: exact gradient plus or minus ``error`` per entry."""

    gradient: list[Fraction]
    error: float
    hessian: Floats
    hessian_error: float


class LogisticObjective:
    """The logistic loss of some rows; implements :class:`~mechanisms.objectives.local.Objective`.

    Parameters
    ----------
    chunks : callable
        Returns an iterable of signed rows zeta, each float64 of shape
        (at most ``CHUNK_ROWS``, k + 1) with entries that are multiples of 1/F
        in [-1, 1]. Called once per pass over the data.
    design : Design
        The public map W.
    """

    __slots__ = ("_chunks", "_design", "_matrix", "_width")

    def __init__(self, chunks: Callable[[], Iterable[Floats]], design: Design) -> None:
        self._chunks = chunks
        self._design = design
        self._matrix = np.array([[float(entry) for entry in row] for row in design.matrix()])
        self._width = len(design.slopes) + 1

    @property
    def dimension(self) -> int:
        """Return d."""
        return self._design.dimension

    @property
    def drift(self) -> float:
        """Return sqrt(d): log sigmoid'(t) has slope at most 1, and |x'v| <= sqrt(d) ||v||_2."""
        return math.sqrt(self.dimension)

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the gradient (d) and the Hessian (d x d) in floats: hints, not facts."""
        w = theta @ self._matrix
        gradient, hessian = np.zeros(self._width), np.zeros((self._width, self._width))
        for zeta in self._chunks():
            e = expit(zeta @ w)
            gradient += e @ zeta
            hessian += zeta.T @ (zeta * (e * (1 - e))[:, None])
        return self._matrix @ gradient, self._matrix @ hessian @ self._matrix.T

    def stretch(self, step: Floats) -> float:
        """Return max_i |x_i'step| in floats, a hint."""
        w = step @ self._matrix
        return max((float(np.abs(zeta @ w).max(initial=0)) for zeta in self._chunks()), default=0.0)

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative of the objective at theta + t step, in floats, a hint.

        Keeps two numbers per record.
        """
        w, move = theta @ self._matrix, step @ self._matrix
        pairs = [(zeta @ w, zeta @ move) for zeta in self._chunks()]
        return lambda share: sum(float(expit(t + share * v) @ v) for t, v in pairs)

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return facts at an exact point from one pass over the data in floats."""
        sums = self._code_sums(self._design.pull(theta))
        with working_precision(_MATRIX_BITS):
            error = arb(0, sums.error)
            code_gradient = arb_mat([[rational(g) + error] for g in sums.gradient])
            matrix = self._ball_matrix()
            gradient = (matrix * code_gradient).entries()
            hessian = matrix * arb_mat(sums.hessian.tolist()) * matrix.transpose()
            # ||W|| <= its Frobenius norm, at most sqrt(d (k + 1)) as entries are at most 1
            slack = sums.hessian_error * self.dimension * self._width
            return Certified(gradient, smallest_eigenvalue_bound(hessian, slack=slack))

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Return balls around the gradient, every record in ball arithmetic at ``bits`` bits."""
        with working_precision(bits):
            w = arb_mat([[rational(entry) / CODE_MAX] for entry in self._design.pull(theta)])
            total = arb_mat(1, self._width)
            for zeta in self._chunks():
                if len(zeta):
                    rows = arb_mat((zeta * CODE_MAX).astype(np.int64).tolist())
                    weights = [_ball_sigmoid(t) for t in (rows * w).entries()]
                    total += arb_mat([weights]) * rows
            return (self._ball_matrix() * (total.transpose() / arb(CODE_MAX))).entries()

    def _ball_matrix(self) -> arb_mat:
        return arb_mat([[rational(entry) for entry in row] for row in self._design.matrix()])

    def _code_sums(self, exact: Sequence[Fraction]) -> _CodeSums:
        """Sum gradient and Hessian with proved errors.

        u = 2**-53, k + 1 columns, chunks of at most 8192 rows, C chunks, S = sum e_i:

        - an inner product errs by at most (k + 3) u ||w||_1 =: t, the rounding of
          w included; as |(log sigmoid)'| <= 1, e_i errs relatively by at most
          eta = ``SIGMOID_ERROR`` + 2 t while t < 1/4;
        - e_i = h_i + l_i with h_i a multiple of 2**-20 (both exact, |l_i| <= 2**-21):
          the products h_i zeta_ij are multiples of 2**-40 and sum exactly;
        - the sum of l_i zeta_ij errs by at most (8192 + C) u sum |l_i| whatever
          the order of additions.

        The same holds for the Hessian with weights e_i (1 - e_i), plainly summed.
        """
        width = self._width
        w = np.array([float(entry) for entry in exact])
        tilt_error = (width + 2) * _UNIT * float(np.abs(w).sum())
        high, low = [0] * width, np.zeros(width)
        hessian = np.zeros((width, width))
        rows = chunks = 0
        residual = rest = weight = 0.0
        for zeta in self._chunks():
            e, complement = sigmoid(zeta @ w)
            coarse = np.rint(e * CODE_MAX) / CODE_MAX
            fine = e - coarse
            scaled = (coarse @ zeta) * 2.0 ** (2 * CODE_BITS)
            high = [total + int(part) for total, part in zip(high, scaled.tolist(), strict=True)]
            low += fine @ zeta
            curve = e * complement
            hessian += zeta.T @ (zeta * curve[:, None])
            rows, chunks = rows + len(zeta), chunks + 1
            residual += float(e.sum())
            rest += float(np.abs(fine).sum())
            weight += float(curve.sum())
        eta = SIGMOID_ERROR + 2 * tilt_error if tilt_error < 0.25 else math.inf
        order = (CHUNK_ROWS + chunks + 4) * _UNIT
        floor = rows * SIGMOID_FLOOR
        gradient = [
            Fraction(a, 1 << (2 * CODE_BITS)) + Fraction(b)
            for a, b in zip(high, low.tolist(), strict=True)
        ]
        return _CodeSums(
            gradient=gradient,
            error=_SAFETY * (eta * residual + order * rest + floor) if rows else 0.0,
            hessian=hessian,
            hessian_error=width * _SAFETY * ((2 * eta + order) * weight + floor) if rows else 0.0,
        )


def _ball_sigmoid(t: arb) -> arb:
    """Return 1 / (1 + exp(-t)), written so that nothing overflows."""
    if t.upper() < 0:
        small = t.exp()
        return small / (1 + small)
    return 1 / (1 + (-t).exp())
