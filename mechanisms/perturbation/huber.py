"""Huber's loss over private rows: squared near the line, absolute far from it.

With t = theta'x - y and a public threshold k in (0, 1], a record's loss is t^2 / 2
for |t| <= k and k |t| - k^2 / 2 beyond. Its gradient is ``psi(t) x``, psi(t) = t cut to
[-k, k], and where |t| != k its Hessian is x x' or 0: rank one, eigenvalue at most d.

**Theorem 5.1 without a continuous Hessian.** Awan & Slavkovic ask for one. Here the
gradient is Lipschitz and its derivative jumps on finitely many hyperplanes
|theta'x_i - y_i| = k (none where x_i = 0). theta -> V = -(grad L(theta) + gamma theta) is
therefore still a Lipschitz bijection of R^d with a Lipschitz inverse (the sum is
gamma-strongly convex), so theta has the density f(V(theta)) |det dV/dtheta| at every
theta off those hyperplanes, which is almost every theta. At such a theta both
neighbours' Hessians exist and the proof goes through: C >= gamma I, and a record adds
w x x' with w in {0, 1}, w ||x||_2^2 <= d = lambda. The argument for a constrained Theta in
:mod:`mechanisms.perturbation` needs no more than this.

*Conventions.* Rows are ``zeta_i = (1, a_i1/F, ..., a_ik/F, b_i/F)``, the target's code
last, and t = zeta_i'w with ``w = (W'theta - o e_0, -s)``, as for the smoothed check loss.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat

from mechanisms.contract import Data
from mechanisms.domain import CODE_BITS, CODE_MAX, EXACT_ROWS
from mechanisms.exact.balls import MATRIX_BITS, rational, rational_matrix, smallest_eigenvalue_bound
from mechanisms.exact.floats import UNIT_ROUNDOFF, working_precision
from mechanisms.exact.many import Floats
from mechanisms.objectives.design import Design
from mechanisms.objectives.losses import Loss, records_changed
from mechanisms.objectives.sigmoid import AffineMap, CodeSums
from mechanisms.privacy import Adjacency
from mechanisms.samplers.minimiser import Certified
from mechanisms.statistics.designs.rows import CodeRows
from mechanisms.statistics.designs.scaling import RegressionScaling, design

_SAFETY = 1.01  # covers the rounding of the error bounds themselves
_REACH_BITS = 10  # the curvature is certified for moves within 2**-10 of the threshold


class HuberObjective:
    """Huber's loss of some rows; implements :class:`~mechanisms.samplers.minimiser.Objective`.

    Parameters
    ----------
    chunks : callable
        Returns an iterable of rows zeta, each float64 of shape (at most
        ``EXACT_ROWS``, k + 2) with entries that are multiples of 1/F in [-1, 1].
    design : Design
        The public map W of the features.
    target : pair of Fraction
        (o, s): y = o + s b / F.
    threshold : Fraction
        k, in (0, 1], in scaled units of the target.
    """

    __slots__ = ("_chunks", "_matrix", "_offset", "_public", "_threshold")

    def __init__(
        self,
        chunks: Callable[[], Iterable[Floats]],
        design: Design,
        *,
        target: tuple[Fraction, Fraction],
        threshold: Fraction,
    ) -> None:
        if not 0 < threshold <= 1:
            raise ValueError("the threshold must lie in (0, 1]")
        middle = (Fraction(0),) * len(design.slopes)
        self._chunks = chunks
        self._threshold = threshold
        self._public = AffineMap(
            matrix=tuple((*row, Fraction(0)) for row in design.matrix()),
            offset=(-target[0], *middle, -target[1]),
            scale=Fraction(1),
            steepness=Fraction(1),
        )
        self._matrix = np.array([[float(entry) for entry in row] for row in self._public.matrix])
        self._offset = np.array([float(entry) for entry in self._public.offset])

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self._public.matrix)

    @property
    def quadratic(self) -> bool:
        """Return False."""
        return False

    def model(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the gradient (d) and the Hessian (d x d) in floats: hints, not facts."""
        w, cut = theta @ self._matrix + self._offset, float(self._threshold)
        width = self._public.width
        gradient, hessian = np.zeros(width), np.zeros((width, width))
        for zeta in self._chunks():
            t = zeta @ w
            gradient += np.clip(t, -cut, cut) @ zeta
            near = zeta[np.abs(t) < cut]
            hessian += near.T @ near
        return self._matrix @ gradient, self._matrix @ hessian @ self._matrix.T

    def stretch(self, step: Floats) -> float:
        """Return infinity unless the step is 0: the curvature jumps."""
        return math.inf if step.any() else 0.0

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative of the objective at theta + t step, in floats, a hint.

        Keeps two numbers per record.
        """
        w, move = theta @ self._matrix + self._offset, step @ self._matrix
        cut = float(self._threshold)
        pairs = [(zeta @ w, zeta @ move) for zeta in self._chunks()]
        return lambda share: sum(float(np.clip(t + share * v, -cut, cut) @ v) for t, v in pairs)

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return facts at an exact point from one pass over the data in floats.

        A record with |t| <= k - e - ||x||_1 reach, reach = k 2**-10 / ceil(sqrt(d)) and e
        the error of its float t, has the Hessian x x' at any point within reach:
        the curvature is what those records have together.
        """
        sums = self._code_sums(self._public.pull(theta))
        with working_precision(MATRIX_BITS):
            noise = arb(0, sums.error)
            matrix = self._ball_matrix()
            moved = matrix * arb_mat(sums.hessian.tolist()) * matrix.transpose()
            codes = arb_mat([[rational(g) + noise] for g in sums.gradient])
            gradient = (matrix * codes).entries()
        length = float((self._matrix**2).sum()) * _SAFETY
        curvature = smallest_eigenvalue_bound(moved, slack=length * sums.hessian_error * _SAFETY)
        reach = self._threshold / ((math.isqrt(self.dimension - 1) + 1) << _REACH_BITS)
        return Certified(gradient, curvature, reach)

    def _code_sums(self, exact: Sequence[Fraction]) -> CodeSums:
        """Sum gradient and Hessian with proved errors.

        With u = 2**-53, K columns and C chunks: a float t errs by at most
        e = (K + 2) u ||w||_1, the rounding of w included, and psi by no more but for
        the rounding of the threshold, u k. psi's coarse part, a multiple of 2**-20,
        has exact products with the codes and exact sums per chunk (|psi| <= 1,
        2**13 rows); what is left, at most 2**-21 a record, sums to within
        (8192 + C) u of its absolute sum. The Hessian is exact in every chunk.
        """
        w = np.array([float(entry) for entry in exact])
        width, cut = self._public.width, float(self._threshold)
        error = (width + 2) * UNIT_ROUNDOFF * float(np.abs(w).sum()) * _SAFETY
        # Within the threshold by the reach and by the error: not beyond it anywhere nearby.
        near_cut = cut * (1 - 2.0**-_REACH_BITS * 1.001) - 2 * error
        high, low = [0] * width, np.zeros(width)
        hessian = np.zeros((width, width))
        rows = chunks = 0
        rest = 0.0
        for zeta in self._chunks():
            t = zeta @ w
            slope = np.clip(t, -cut, cut)
            # Sums of the coarse part are exact, so the rounding is that of the small rest alone.
            coarse = np.rint(slope * CODE_MAX) / CODE_MAX
            fine = slope - coarse
            scaled = (coarse @ zeta) * 2.0 ** (2 * CODE_BITS)
            high = [total + int(part) for total, part in zip(high, scaled.tolist(), strict=True)]
            low += fine @ zeta
            near = zeta[np.abs(t) < near_cut]
            hessian += near.T @ near
            rows, chunks = rows + len(zeta), chunks + 1
            rest += float(np.abs(fine).sum())
        order = (EXACT_ROWS + chunks + 4) * UNIT_ROUNDOFF
        return CodeSums(
            gradient=[
                Fraction(a, 1 << (2 * CODE_BITS)) + Fraction(b)
                for a, b in zip(high, low.tolist(), strict=True)
            ],
            error=_SAFETY * (rows * (error + UNIT_ROUNDOFF) + order * rest),
            hessian=hessian,
            hessian_error=width * (chunks + 1) * UNIT_ROUNDOFF * rows,
        )

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Return balls around the gradient, every record in ball arithmetic at ``bits`` bits."""
        with working_precision(bits):
            w = arb_mat([[rational(entry) / CODE_MAX] for entry in self._public.pull(theta)])
            cut = rational(self._threshold)
            total = arb_mat(1, self._public.width)
            for zeta in self._chunks():
                if len(zeta):
                    rows = arb_mat((zeta * CODE_MAX).astype(np.int64).tolist())
                    slopes = [t.min(cut).max(-cut) for t in (rows * w).entries()]
                    total += arb_mat([slopes]) * rows
            codes = arb_mat([[entry / CODE_MAX] for entry in total.entries()])
            answer: list[arb] = (self._ball_matrix() * codes).entries()
            return answer

    def _ball_matrix(self) -> arb_mat:
        return rational_matrix(self._public.matrix)


def huber_loss(
    dimension: int, threshold: Fraction, adjacency: Adjacency, *, bound: Fraction | None = None
) -> Loss:
    """Return Delta_inf = 2 k (add-remove k) and lambda = d of Huber's loss with threshold k.

    A record's gradient is psi x with |psi| <= k, and also |psi| <= 1 + B on
    ||theta||_1 <= B.
    """
    steepest = threshold if bound is None else min(threshold, 1 + bound)
    return Loss.of_a_cube(
        dimension=dimension,
        largest_difference=steepest * records_changed(adjacency),
        eigenvalue=Fraction(dimension),
        slope_norm=1.0,
        curvature=1 / 4,
    )


def huber_objective(scaling: RegressionScaling, data: Data, threshold: Fraction) -> HuberObjective:
    """Return Huber's loss of the rows of a regression with a number target; private.

    The scaling is one of codes, as rows are read.
    """
    target = scaling.target
    if target is None:
        raise ValueError("Huber's loss needs a number as its target")
    columns = scaling.columns
    read = CodeRows(tuple(columns))
    return HuberObjective(
        lambda: (chunk for block in data.blocks(columns) for chunk in read(block)),
        design(scaling),
        target=(Fraction(target.offset, target.divisor), target.slope),
        threshold=threshold,
    )
