"""Sums of log(1 + exp(.)) over private rows: float hints, certified sums, ball arithmetic.

``L(theta) = scale sum_i p_i log(1 + exp(zeta_i'w)) + c'theta,   w = A' theta + w_0``

with private rows zeta_i and weights p_i in [0, 1], all 1 where none are given, and public
scale > 0, A (d x K) and w_0; the linear part c is an exact function of the data. With
e_i = sigmoid(zeta_i'w):

- gradient in code units  g = sum p_i e_i zeta_i, in theta scale A g + c
- Hessian in code units   H = sum p_i e_i (1 - e_i) zeta_i zeta_i', in theta scale A H A'

*Conventions.* The entries of a row are multiples of 1/F in [-1, 1], exact in
float64; rows come in chunks of at most 2**13, so the product of 21-bit
residuals with 21-bit codes sums to an exact integer in float64.
``steepness`` times ||v||_1 bounds |zeta_i'A'v|, so log sigmoid' moves by at most
``steepness sqrt(d) ||v||_2``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat
from scipy.special import expit

from mechanisms.domain import CODE_BITS, CODE_MAX, EXACT_ROWS
from mechanisms.exact.arrays import Floats
from mechanisms.exact.balls import MATRIX_BITS, rational, rational_matrix, smallest_eigenvalue_bound
from mechanisms.exact.floats import SIGMOID_ERROR, SIGMOID_FLOOR, UNIT_ROUNDOFF, sigmoid
from mechanisms.exact.rounding import working_precision
from mechanisms.samplers.objective import Certified

_WHOLE = np.ones(1)
_SAFETY = 1.01  # covers the rounding of the error bounds themselves
_SMALL_STRETCH = 0.5  # steps this short are taken whole, so a bound of the stretch will do


@dataclass(frozen=True, slots=True)
class AffineMap:
    """The public map w = A' theta + w_0, with the scale and the steepness (module note)."""

    matrix: tuple[tuple[Fraction, ...], ...]
    offset: tuple[Fraction, ...]
    scale: Fraction
    steepness: Fraction

    @property
    def width(self) -> int:
        """Return K, the length of a row."""
        return len(self.offset)

    def pull(self, theta: Sequence[Fraction]) -> list[Fraction]:
        """Return w, exactly."""
        return [
            sum((row[k] * t for row, t in zip(self.matrix, theta, strict=True)), shift)
            for k, shift in enumerate(self.offset)
        ]


@dataclass(frozen=True, slots=True)
class CodeSums:
    """Certified sums in code units: exact gradient plus or minus ``error`` per entry."""

    gradient: list[Fraction]
    error: float
    hessian: Floats
    hessian_error: float


class SigmoidObjective:
    """L of the module note; implements :class:`~mechanisms.samplers.objective.Objective`.

    Parameters
    ----------
    chunks : callable
        Returns an iterable of rows zeta, each float64 of shape (at most
        ``EXACT_ROWS``, K), or K + 1 with its weight at the end, a multiple of 1/F in [0, 1].
        Called once per pass over the data.
    public : AffineMap
        A, w_0, scale and steepness.
    linear : sequence of Fraction
        c, length d.
    weighted : bool
        Whether rows have weights.
    """

    __slots__ = (
        "_chunks",
        "_linear",
        "_matrix",
        "_offset",
        "_public",
        "_pull",
        "_scale",
        "_weighted",
    )

    def __init__(
        self,
        chunks: Callable[[], Iterable[Floats]],
        public: AffineMap,
        linear: Sequence[Fraction],
        *,
        weighted: bool = False,
    ) -> None:
        self._chunks = chunks
        self._weighted = weighted
        self._public = public
        self._linear = list(linear)
        self._matrix = np.array([[float(entry) for entry in row] for row in public.matrix])
        self._offset = np.array([float(entry) for entry in public.offset])
        self._scale = float(public.scale)
        self._pull = np.array([float(entry) for entry in linear])

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self._linear)

    @property
    def quadratic(self) -> bool:
        """Return False."""
        return False

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the gradient (d) and the Hessian (d x d) in floats: hints, not facts."""
        w = theta @ self._matrix + self._offset
        width = self._public.width
        gradient, hessian = np.zeros(width), np.zeros((width, width))
        for zeta, share in self._rows():
            e = expit(zeta @ w)
            gradient += (share * e) @ zeta
            hessian += zeta.T @ (zeta * (share * e * (1 - e))[:, None])
        return (
            self._scale * (self._matrix @ gradient) + self._pull,
            self._scale * (self._matrix @ hessian @ self._matrix.T),
        )

    def stretch(self, step: Floats) -> float:
        """Return max_i |zeta_i'A'step| in floats, or a small bound of it."""
        bound = float(self._public.steepness) * float(np.abs(step).sum())
        if bound <= _SMALL_STRETCH:
            return bound
        move = step @ self._matrix
        return max(
            (float(np.abs(zeta @ move).max(initial=0)) for zeta, _ in self._rows()), default=0.0
        )

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative of the objective at theta + t step, in floats, a hint.

        Keeps three numbers per record.
        """
        w, move = theta @ self._matrix + self._offset, step @ self._matrix
        parts = [(zeta @ w, zeta @ move, share) for zeta, share in self._rows()]
        level = float(self._pull @ step)
        return lambda at: (
            self._scale * sum(float((p * expit(t + at * v)) @ v) for t, v, p in parts) + level
        )

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return facts at an exact point from one pass over the data in floats.

        The curvature falls by at most exp(-1) over ``reach``, the distance at
        which log sigmoid' can have moved by 1; averaged, by less than a half.
        """
        sums = self._code_sums(self._public.pull(theta))
        with working_precision(MATRIX_BITS):
            error = arb(0, sums.error)
            gradient = self._push([rational(g) + error for g in sums.gradient])
            matrix, scale = self._ball_matrix(), rational(self._public.scale)
            hessian = scale * (matrix * arb_mat(sums.hessian.tolist()) * matrix.transpose())
        # ||A E A'|| <= ||A||_F^2 ||E||
        length = float((self._matrix**2).sum()) * _SAFETY
        slack = sums.hessian_error * length * self._scale * _SAFETY
        curvature = smallest_eigenvalue_bound(hessian, slack=slack) / 2
        root = math.isqrt(self.dimension << 40) + 1  # sqrt(d) 2**20, rounded up
        return Certified(gradient, curvature, Fraction(1 << 20, root) / self._public.steepness)

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Return balls around the gradient, every record in ball arithmetic at ``bits`` bits."""
        with working_precision(bits):
            w = arb_mat([[rational(entry) / CODE_MAX] for entry in self._public.pull(theta)])
            total = arb_mat(1, self._public.width)
            for zeta, share in self._rows():
                if len(zeta):
                    rows = arb_mat((zeta * CODE_MAX).astype(np.int64).tolist())
                    parts = np.broadcast_to(share, len(zeta)).tolist()  # exact in float64
                    tilts = (rows * w).entries()
                    sizes = [ball_sigmoid(t) * p for t, p in zip(tilts, parts, strict=True)]
                    total += arb_mat([sizes]) * rows
            return self._push([entry / CODE_MAX for entry in total.entries()])

    def _rows(self) -> Iterator[tuple[Floats, Floats]]:
        """Yield rows and their weights, one for all of a chunk where none are given."""
        for chunk in self._chunks():
            yield (chunk[:, :-1], chunk[:, -1]) if self._weighted else (chunk, _WHOLE)

    def _push(self, codes: Sequence[arb]) -> list[arb]:
        """Return scale A g + c."""
        scale = rational(self._public.scale)
        moved = (self._ball_matrix() * arb_mat([[g] for g in codes])).entries()
        return [scale * g + rational(c) for g, c in zip(moved, self._linear, strict=True)]

    def _ball_matrix(self) -> arb_mat:
        return rational_matrix(self._public.matrix)

    def _code_sums(self, exact: Sequence[Fraction]) -> CodeSums:
        """Sum gradient and Hessian with proved errors.

        u = 2**-53, K columns, chunks of at most 8192 rows, C chunks, S = sum e_i:

        - an inner product errs by at most (K + 2) u ||w||_1 =: t, the rounding of
          w included; as |(log sigmoid)'| <= 1, e_i errs relatively by at most
          eta = ``SIGMOID_ERROR`` + u + 2 t while t < 1/4, p_i's rounding included;
        - e_i = h_i + l_i with h_i a multiple of 2**-20 (both exact, |l_i| <= 2**-21):
          the products h_i zeta_ij are multiples of 2**-40 and sum exactly;
        - the sum of l_i zeta_ij errs by at most (8192 + C) u sum |l_i| whatever
          the order of additions.

        The same holds for the Hessian with weights e_i (1 - e_i), plainly summed. A weight p_i
        is exact, and p_i e_i is rounded once more, by at most u relatively.
        """
        width = self._public.width
        w = np.array([float(entry) for entry in exact])
        tilt_error = (width + 2) * UNIT_ROUNDOFF * float(np.abs(w).sum())
        high, low = [0] * width, np.zeros(width)
        hessian = np.zeros((width, width))
        rows = chunks = 0
        residual = rest = weight = 0.0
        for zeta, share in self._rows():
            e, complement = sigmoid(zeta @ w)
            e *= share
            # A coarse part whose products sum exactly, and a fine one whose errors hardly count.
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
        eta = SIGMOID_ERROR + UNIT_ROUNDOFF + 2 * tilt_error if tilt_error < 0.25 else math.inf
        order = (EXACT_ROWS + chunks + 4) * UNIT_ROUNDOFF
        floor = rows * SIGMOID_FLOOR
        gradient = [
            Fraction(a, 1 << (2 * CODE_BITS)) + Fraction(b)
            for a, b in zip(high, low.tolist(), strict=True)
        ]
        return CodeSums(
            gradient=gradient,
            error=_SAFETY * (eta * residual + order * rest + floor) if rows else 0.0,
            hessian=hessian,
            hessian_error=width * _SAFETY * ((2 * eta + order) * weight + floor) if rows else 0.0,
        )


def ball_sigmoid(t: arb) -> arb:
    """Return 1 / (1 + exp(-t)), written so that nothing overflows."""
    if t.upper() < 0:
        small = t.exp()
        return small / (1 + small)
    return 1 / (1 + (-t).exp())
