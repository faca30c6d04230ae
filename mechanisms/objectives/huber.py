r"""Huber's loss over private rows: squared near the line, absolute far from it.

With t = theta'x - y and a public threshold k in (0, 1], a record's loss is t^2 / 2
for |t| <= k and k |t| - k^2 / 2 beyond. Its gradient is ``psi(t) x``, psi(t) = t cut to
[-k, k], and where |t| != k its Hessian is x x' or 0: rank one, eigenvalue at most d.
It is the objective of :mod:`mechanisms.objectives.affine` with f' = psi.

**Theorem 5.1 without a continuous Hessian.** Awan & Slavkovic ask for one. Here the
gradient is Lipschitz and its derivative jumps on finitely many hyperplanes
|theta'x_i - y_i| = k (none where x_i = 0). theta -> V = -(grad L(theta) + gamma theta) is
therefore still a Lipschitz bijection of R^d with a Lipschitz inverse (the sum is
gamma-strongly convex), so theta has the density f(V(theta)) |det dV/dtheta| at every
theta off those hyperplanes, which is almost every theta. At such a theta both
neighbours' Hessians exist and the proof goes through: C >= gamma I, and a record adds
w x x' with w in {0, 1}, w ||x||_2^2 <= d = lambda. The argument for a constrained Theta in
:mod:`mechanisms.perturbation` needs no more than this. A record of weight p in [0, 1] adds
p psi(t) x and p w x x': see :mod:`mechanisms.statistics.weights`.

*Conventions.* Rows are ``zeta_i = (1, a_i1/F, ..., a_ik/F, b_i/F)``, the target's code
last, and t = zeta_i'w with ``w = (W'theta - o e_0, -s)``, as for the smoothed check loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat

from mechanisms.domain import EXACT_ROWS
from mechanisms.exact.balls import MATRIX_BITS, rational, smallest_eigenvalue_bound
from mechanisms.exact.floats import UNIT_ROUNDOFF, Floats, working_precision
from mechanisms.objectives.affine import AffineMap, AffineObjective, CodeSums, Rows, Split, Weighed
from mechanisms.objectives.design import CellDesign, Design
from mechanisms.objectives.losses import Loss, records_changed
from mechanisms.privacy import Adjacency
from mechanisms.samplers.bodies import Joined
from mechanisms.samplers.minimiser import Certified

_SAFETY = 1.01  # covers the rounding of the error bounds themselves
_REACH_BITS = 10  # the curvature is certified for moves within 2**-10 of the threshold


@dataclass(frozen=True, slots=True)
class Cut:
    """psi and its derivative."""

    threshold: Fraction

    def slopes(self, t: Floats) -> Floats:
        """Return psi of some tilts."""
        cut = float(self.threshold)
        return np.clip(t, -cut, cut)

    def curves(self, t: Floats) -> Floats:
        """Return 1 within the threshold, 0 beyond."""
        return (np.abs(t) < float(self.threshold)).astype(np.float64)

    def ball(self, t: arb) -> arb:
        """Return a ball around psi(t)."""
        cut = rational(self.threshold)
        return t.min(cut).max(-cut)


class HuberObjective(AffineObjective):
    """Huber's loss of some rows; implements :class:`~mechanisms.samplers.minimiser.Objective`.

    Parameters
    ----------
    rows : Rows
        The rows zeta, of k + 2 entries that are multiples of 1/F in [-1, 1].
    design : Design or CellDesign
        The public map W of the features.
    target : pair of Fraction
        (o, s): y = o + s b / F.
    threshold : Fraction
        k, in (0, 1], in scaled units of the target.
    weighted : bool
        Whether each row has one entry more, its weight p_i.
    ridge : Fraction
        rho, of ``rho / 2 ||W'theta||^2``.

    Raises
    ------
    ValueError
        The threshold is out of range.
    """

    __slots__ = ("_threshold",)

    def __init__(
        self,
        rows: Rows,
        design: Design | CellDesign,
        *,
        target: tuple[Fraction, Fraction],
        threshold: Fraction,
        weighted: bool = False,
        ridge: Fraction = Fraction(0),
    ) -> None:
        if not 0 < threshold <= 1:
            raise ValueError("the threshold must lie in (0, 1]")
        matrix = tuple((*row, Fraction(0)) for row in design.matrix())
        public = AffineMap(
            matrix=matrix,
            offset=(*design.constant(-target[0]), -target[1]),
            scale=Fraction(1),
            steepness=Fraction(1),
        )
        nothing = (Fraction(0),) * design.dimension
        super().__init__(rows, Cut(threshold), public, nothing, weighted=weighted, ridge=ridge)
        self._threshold = threshold

    def stretch(self, step: Floats) -> float:
        """Return infinity unless the step is 0: the curvature jumps."""
        return math.inf if step.any() else 0.0

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return facts at an exact point from one pass over the data in floats.

        A record with |t| <= k - e - ||x||_1 reach, reach = k 2**-10 / ceil(sqrt(d)) and e
        the error of its float t, has the Hessian p x x' at any point within reach:
        the curvature is what those records have together.
        """
        sums = self._code_sums(self._public.pull(theta))
        with working_precision(MATRIX_BITS):
            noise = arb(0, sums.error)
            pushed = self._push([rational(g) + noise for g in sums.gradient])
            gradient = self._ridged(theta, pushed)
            matrix = self._ball_matrix()
            moved = matrix * arb_mat(sums.hessian.tolist()) * matrix.transpose()
            if self._ridge:
                moved += rational(self._ridge) * (matrix * matrix.transpose())
        length = float((self._matrix**2).sum()) * _SAFETY
        curvature = smallest_eigenvalue_bound(moved, slack=length * sums.hessian_error * _SAFETY)
        reach = self._threshold / ((math.isqrt(self.dimension - 1) + 1) << _REACH_BITS)
        return Certified(gradient, curvature, reach)

    def _code_sums(self, exact: Sequence[Fraction]) -> CodeSums:
        """Sum gradient and Hessian with proved errors.

        With u = 2**-53, K columns, and C chunks in R runs: a float t errs by at most
        e = (K + 2) u ||w||_1, the rounding of w included, and psi by no more but for
        the rounding of the threshold, u k; p_i psi is rounded once more. Its coarse part, a
        multiple of 2**-20, has exact products with the codes and exact sums per chunk
        (|p psi| <= 1, 2**13 rows); what is left, at most
        2**-21 a record, sums to within (8192 + C + R) u of its absolute sum. An entry of the
        Hessian is a sum of products of at most 1, each rounded twice, in any order.
        """
        w = np.array([float(entry) for entry in exact])
        width, cut = self._public.width, float(self._threshold)
        error = (width + 2) * UNIT_ROUNDOFF * float(np.abs(w).sum()) * _SAFETY
        # Within the threshold by the reach and by the error: not beyond it anywhere nearby.
        near_cut = cut * (1 - 2.0**-_REACH_BITS * 1.001) - 2 * error
        total, runs = Split.none(width), 0
        for some in self._pass(_Splitting(w, cut, near_cut)):
            total.add(some)
            runs += 1
        order = (EXACT_ROWS + total.chunks + runs + 6) * UNIT_ROUNDOFF
        return CodeSums(
            gradient=total.gradient,
            error=_SAFETY * (total.rows * (error + 4 * UNIT_ROUNDOFF) + order * total.rest),
            hessian=total.hessian,
            hessian_error=width * order * total.rows,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Splitting:
    """A pass: sums of p psi(t) zeta, and of p zeta zeta' well within the threshold."""

    w: Floats
    cut: float
    near: float

    def __call__(self, rows: Weighed) -> Split:
        found = Split.none(len(self.w))
        for zeta, share in rows:
            t = zeta @ self.w
            slopes = share * np.clip(t, -self.cut, self.cut)
            found.add(Split.of(zeta, slopes, share * (np.abs(t) < self.near)))
        return found


def huber_loss_by_cells(joined: Joined, threshold: Fraction, adjacency: Adjacency) -> Loss:
    """Return the constants of Huber's loss of records by cells.

    A record's gradient is psi F z with |psi| <= k. z is (1, u_1, .., u_e) in the block of its cell
    and (u_1, .., u_s) in the shared one, if s > 0, with |u_j| <= 1; it is 0 elsewhere. With
    b = 1 + e of the longest block and c = 1 without a shared block, else 2, the sum over blocks of
    the norms of psi z is at most

        l_inf: c k,    l1: (b + s) k,    l2: (sqrt(b) + sqrt(s)) k <= sqrt(c (b + s)) k,

    and twice that for the difference of two records', in whatever blocks: Delta of
    :class:`~mechanisms.samplers.bodies.Joined`. The Hessian is F z z'F' or 0. The ridge is
    ``gamma/2 theta'M theta`` with M = F F' + mu I, which in phi = M^(1/2) theta is
    gamma/2 ||phi||^2; a record's row there is M^(-1/2) F z, of squared length at most
    ``z'F'(F F')^+ F z <= ||z||^2 <= b + s``, a projection's. So lambda = b + s, and Theorem 5.1
    holds in phi on the image of Theta, which is convex.
    """
    entries = max(joined.blocks) + joined.shared
    most = threshold * records_changed(adjacency)
    counted = len(joined.every) - len(joined.blocks) + 1
    plain = huber_loss(entries, threshold, adjacency)
    return replace(
        plain,
        largest_difference=counted * most,
        squared_length=counted * entries * most**2,
        absolute_sum=entries * most,
        joined=joined,
    )


def huber_loss(
    dimension: int, threshold: Fraction, adjacency: Adjacency, bound: Fraction | None = None
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
