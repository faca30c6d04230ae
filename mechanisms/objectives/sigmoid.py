"""Sums of log(1 + exp(.)) over private rows: float hints, certified sums, ball arithmetic.

The objective of :mod:`mechanisms.objectives.affine` with f(t) = log(1 + exp(t)), so f' is the
sigmoid e and f'' = e (1 - e).

*Conventions.* ``steepness`` times ||v||_1 bounds |zeta_i'A'v|, so log sigmoid' moves by at most
``steepness sqrt(d) ||v||_2``.

*The logistic loss of private rows.* ``L(theta) = sum_i log(1 + exp(theta'x_i)) - y_i theta'x_i``,
y in {0, 1}, |x_ij| <= 1 (Awan & Slavkovic, equation (4), as a sum).

*Conventions.* With s_i = 1 - 2 y_i a record's loss is log(1 + exp(s_i theta'x_i)),
so labels are folded into the rows. Rows are stored in *code units*
``zeta_i = s_i (1, a_i1/F, ..., a_ik/F)``, whose entries are exact in float64,
and x_i = W (1, a_i/F) for a public rational d x (k+1) matrix W (see
:class:`~mechanisms.objectives.design.Design`). This is
:class:`~mechanisms.objectives.sigmoid.SigmoidObjective` with A = W and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat
from scipy.special import expit

from mechanisms.domain import CODE_BITS, EXACT_ROWS
from mechanisms.exact.balls import MATRIX_BITS, rational, smallest_eigenvalue_bound
from mechanisms.exact.floats import (
    SIGMOID_ERROR,
    SIGMOID_FLOOR,
    UNIT_ROUNDOFF,
    Floats,
    sigmoid,
    working_precision,
)
from mechanisms.objectives.affine import AffineMap, AffineObjective, CodeSums, Rows, Split, Weighed
from mechanisms.objectives.design import Design
from mechanisms.samplers.minimiser import Certified

_SAFETY = 1.01  # covers the rounding of the error bounds themselves
_SMALL_STRETCH = 0.5  # steps this short are taken whole, so a bound of the stretch will do


@dataclass(frozen=True, slots=True)
class Sigmoid:
    """The link of log(1 + exp(t))."""

    def slopes(self, t: Floats) -> Floats:
        """Return the sigmoid of some tilts."""
        found: Floats = expit(t)
        return found

    def curves(self, t: Floats) -> Floats:
        """Return its derivative."""
        e = expit(t)
        found: Floats = e * (1 - e)
        return found

    def ball(self, t: arb) -> arb:
        """Return 1 / (1 + exp(-t)), written so that nothing overflows."""
        if t.upper() < 0:
            small = t.exp()
            return small / (1 + small)
        return 1 / (1 + (-t).exp())


class SigmoidObjective(AffineObjective):
    """L of the module note; implements :class:`~mechanisms.samplers.minimiser.Objective`."""

    __slots__ = ()

    def __init__(
        self,
        rows: Rows,
        public: AffineMap,
        linear: Sequence[Fraction],
        *,
        weighted: bool = False,
    ) -> None:
        super().__init__(rows, Sigmoid(), public, linear, weighted=weighted)

    def stretch(self, step: Floats) -> float:
        """Return max_i |zeta_i'A'step| in floats, or a small bound of it."""
        bound = float(self._public.steepness) * float(np.abs(step).sum())
        if bound <= _SMALL_STRETCH:
            return bound
        return max(self._pass(_Farthest(step @ self._matrix)), default=0.0)

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

    def _code_sums(self, exact: Sequence[Fraction]) -> CodeSums:
        """Sum gradient and Hessian with proved errors.

        u = 2**-53, K columns, chunks of at most 8192 rows, C chunks in R runs:

        - w = w' + w'' (:func:`_parted`): zeta_i'w' is exact, zeta_i'w'' errs by at most
          f = (K + 2) u ||w''||_1, the rounding of w'' included, and their sum t is rounded once. So
          the tilt of record i errs by at most d_i = u |t| + f <= u ||w||_1 + f =: d;
        - as |(log sigmoid)'| <= 1, e_i errs relatively by at most
          eta = ``SIGMOID_ERROR`` + u + 2 d while d < 1/4, p_i's rounding included;
        - of that the tilt's part is absolutely at most d_i exp(d) sigmoid'(t) <= (u + f) / 3, since
          |t| sigmoid'(t) and sigmoid'(t) are at most 1/4: it hardly counts, however long w is;
        - e_i = h_i + l_i with h_i a multiple of 2**-20 (both exact, |l_i| <= 2**-21):
          the products h_i zeta_ij are multiples of 2**-40 and sum exactly;
        - the sum of l_i zeta_ij errs by at most (8192 + C + R) u sum |l_i| whatever
          the order of additions: in a chunk, in a run of chunks, and of the runs.

        The same holds for the Hessian with weights e_i (1 - e_i), plainly summed. A weight p_i
        is exact, and p_i e_i is rounded once more, by at most u relatively.
        """
        width = self._public.width
        coarse, fine = _parted(exact)
        lost = (width + 2) * UNIT_ROUNDOFF * float(np.abs(fine).sum())
        tilt_error = UNIT_ROUNDOFF * float(np.abs(coarse).sum() + np.abs(fine).sum()) + lost
        total = Split.none(width)
        runs = 0
        for some in self._pass(_Splitting(coarse, fine)):
            total.add(some)
            runs += 1
        near = SIGMOID_ERROR + UNIT_ROUNDOFF if tilt_error < 0.25 else math.inf
        eta = near + 2 * tilt_error
        order = (EXACT_ROWS + total.chunks + runs + 4) * UNIT_ROUNDOFF
        floor = total.rows * SIGMOID_FLOOR
        tilts = total.rows * (UNIT_ROUNDOFF + lost) / 3
        error = near * total.residual + tilts + order * total.rest + floor
        hessian_error = (2 * eta + order) * total.weight + floor
        return CodeSums(
            gradient=total.gradient,
            error=_SAFETY * error if total.rows else 0.0,
            hessian=total.hessian,
            hessian_error=width * _SAFETY * hessian_error if total.rows else 0.0,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Farthest:
    """A pass: max_i |zeta_i'move|, in floats."""

    move: Floats

    def __call__(self, rows: Weighed) -> float:
        return max(
            (float(np.abs(zeta @ self.move).max(initial=0)) for zeta, _ in rows), default=0.0
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Splitting:
    """A pass: sums at w + rest, whose tilts are exact but for those of ``rest``."""

    w: Floats
    rest: Floats

    def __call__(self, rows: Weighed) -> Split:
        found = Split.none(len(self.w))
        for zeta, share in rows:
            e, complement = sigmoid(zeta @ self.w + zeta @ self.rest)
            e *= share
            found.add(Split.of(zeta, e, e * complement))
        return found


def _parted(exact: Sequence[Fraction]) -> tuple[Floats, Floats]:
    """Return w in two parts; the first one's products with a row, and their sums, are exact.

    With ||w||_1 < 2**m its entries are multiples of 2**(m - 32), those of a row of 2**-20: their
    sums, at most 2**m, are multiples of 2**(m - 52).
    """
    size = math.ceil(sum(map(abs, exact))).bit_length() + 1
    unit = Fraction(2) ** (size + CODE_BITS - 52)
    coarse = [round(entry / unit) * unit for entry in exact]
    fine = [entry - part for entry, part in zip(exact, coarse, strict=True)]
    return np.array(list(map(float, coarse))), np.array(list(map(float, fine)))


# The logistic loss of private rows


class LogisticObjective(SigmoidObjective):
    """The logistic loss of some rows; implements :class:`~mechanisms.samplers.minimiser.Objective`.

    Parameters
    ----------
    rows : Rows
        The signed rows zeta, of k + 1 entries that are multiples of 1/F in [-1, 1].
    design : Design
        The public map W.
    weighted : bool
        Whether each row has one entry more, its weight.
    """

    __slots__ = ()

    def __init__(self, rows: Rows, design: Design, *, weighted: bool = False) -> None:
        matrix = tuple(tuple(row) for row in design.matrix())
        public = AffineMap(
            matrix=matrix,
            offset=(Fraction(0),) * (len(design.slopes) + 1),
            scale=Fraction(1),
            steepness=Fraction(1),
        )
        super().__init__(rows, public, (Fraction(0),) * design.dimension, weighted=weighted)
