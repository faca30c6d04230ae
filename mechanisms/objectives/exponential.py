r"""The Poisson loss over private rows, its mean clipped at a public ceiling.

A count y in [0, Y] with Y public, and the model ``E y = Y exp(s)``, ``s = x'theta + s_0``. The
negative log-likelihood of Poisson's law, divided by Y, is ``exp(s) - (y/Y) s`` up to a constant.
Its gradient ``(exp(s) - y/Y) x`` has no bound, so it is clipped where the mean reaches the ceiling,
s = 0:

    l(theta) = F(s) - (y/Y) s,   F(s) = exp(s) for s <= 0, and 1 + s beyond,

which is convex, with ``F' = min(exp(s), 1)``. The gradient is an unbiased estimating equation
wherever the model's means are at most Y.

**Theorem 5.1's bounds.** Let |x_j| <= 1, and p in [0, 1] a record's weight, 1 without weights. As
0 < F' <= 1 and 0 <= y/Y <= 1, a record's gradient is ``p a x`` with ``a = F' - y/Y`` in (-1, 1].
At any theta, every entry of it is at most 1, so under add-remove Delta_inf = 1. Replacing a record
changes an entry by at most ``|p a x_j| + |p' a' x'_j| <= 2``, so Delta_inf = 2; Delta_2 and Delta_1
are at most sqrt(d) and d times that. The Hessian is ``p F'' x x'`` with ``F'' = exp(s) < 1`` for
s < 0 and 0 for s > 0: rank one, its eigenvalue at most ``||x||_2^2 <= d = lambda``, approached at
s = 0. Logistic regression's d/4 would not do: its sigmoid has the slope 1/4 at most.

*An offset* o with public bounds adds ``o - m_o`` in [-H_o, H_o] to s, whose coefficient is 1: it is
no part of theta, of x, or of the gradient but through F' and F''. Both are bounded at any s, so
Delta and lambda are the same for records of any offsets. They would not be without the clipping: F'
would reach exp(H_o) times as much, and grow with the bounds.

*The Hessian jumps at s = 0*, on finitely many hyperplanes, as that of Huber's loss does:
:mod:`mechanisms.objectives.huber` says why Theorem 5.1 holds. Its argument needs F' to be
Lipschitz and the sum, with the ridge, to be strongly convex; both are so here. A row x = 0 adds
nothing to either.

*Conventions.* Rows are ``zeta_i = (1, a_i1/F, ..., a_ik/F, [o_i/F,] b_i/F)``: the codes of the
features, of an offset, and of the target, which is no part of the tilt. The linear part
``-sum p_i (y_i/Y) x_i`` is an exact sum over the same codes (:class:`Products`).

Two likelihoods of several tilts of a private row: of a category, and of a time to an event.

*A category.* The multinomial logistic loss over private rows: its gradient, Hessian and Theorem
5.1's bounds.

A record has features x in [-1, 1]^k (the constant 1 among them, if there is an intercept) and one
of m + 1 levels, of which level 0 is the reference. theta has a part theta_1, ..., theta_m for each
other level, d = m k entries in all. With t_l = x'theta_l, t_0 = 0 and
``p_l = exp(t_l) / sum_j exp(t_j)``, the loss of a record of level y is

    l(theta) = log sum_j exp(t_j) - t_y,
    gradient in theta_l  (p_l - 1{y = l}) x,   Hessian  (diag(p) - p p') (x) x x',

p of levels 1..m.

**Sensitivity.** Let g_l = p_l - 1{y = l}, l = 1..m. Each |g_l| < 1. If y = 0, the |g_l| = p_l add
up to less than 1; else ``|g_y| = 1 - p_y``, and the others add up to at most 1 - p_y, so sum |g_l|
< 2 and, as no entry exceeds 1, sum g_l^2 < 2. With one level besides the reference both sums are
below 1: let c = min(m, 2). For one record the gradient g (x) x has entries below 1, squared length
below c k and absolute sum below c k. So under add-remove Delta_inf = 1, Delta_2^2 = c k and Delta_1
= c k; where a record is replaced the difference of two is at most twice that. Of d > 1 coefficients
Delta_inf is approached, at x' = -x, a long theta and one wrong level of both; the other two are
upper bounds.

**The Hessian's spectrum.** It has rank m, so the paper's argument, which is for rank one, does not
apply: :mod:`mechanisms.objectives.several` has the one that does. It needs a bound of ``det(I + A /
gamma)``, A = (diag(p) - p p') (x) x x', whose eigenvalues other than 0 are those of diag(p) - p p'
times ||x||^2 <= k. Let s = k / gamma. log det(I + s (diag(p) - p p')) is concave in p, as p p' is
convex in Loewner's order and log det is concave and grows; it is symmetric in p_1, .., p_m. So it
is largest where these are equal, p_l = a in [0, 1/m]: the eigenvalues are then a, m - 1 times, and
a (1 - m a) once. The first is at most 1/m, and the second at most 1/(4 m):

    det(I + A / gamma) <= (1 + k / (m gamma))^(m-1) (1 + k / (4 m gamma)).

With m = 1 that is 1 + k / (4 gamma), logistic regression's. (Both bounds are not reached at once
where m > 1.) The largest eigenvalue of any record is k / 4 with m = 1, and k / 2 otherwise, since
that of diag(p) - p p' is the variance of a unit vector's entries under p.

*A time to an event.* The likelihood of proportional hazards over private rows, its cumulative
hazard clipped.

**The model.** Time has K public intervals, and the hazard of a record with features x is
``exp(b_k + x'beta)`` in the k-th: Cox's model with a baseline that is constant within intervals
(Holford 1980; Breslow 1974). Cox's partial likelihood is no sum over records, since each is
compared with all that are at risk; this likelihood is one, and its maximum tends to Cox's as the
intervals narrow. Let E_k in [0, 1] be the part of the k-th interval that a record was followed, s_k
the log of the hazard of the whole interval, e = 1 if its event happened (in interval j) and 0 if it
was censored. Its negative log-likelihood is

    H - e s_j,   H = sum_k h_k,   h_k = E_k exp(s_k).

**Clipping.** H has no bound, so it is clipped at a public ceiling C >= 1:

    l(theta) = phi(H) - e s_j,   phi(H) = H for H <= C, and C + C log(H / C) beyond.

H and log H are convex in theta (sums of exponentials, and the log of one), phi' is continuous, and
a line meets the convex set {H <= C} in one interval: l is convex. Let c_k = h_k min(1, C / H): c_k
>= 0 and sum c_k = min(H, C). The gradient is

    c_k - e 1{k = j} in b_k,     (min(H, C) - e) x in beta,

an unbiased estimating equation where no cumulative hazard exceeds C: exp(-C) is then the least
probability that a record has no event. K = 1 with C = 1 is Poisson's clipped loss
(:mod:`mechanisms.objectives.exponential`).

**Sensitivity.** Let |x_j| <= 1 for p >= 1 features. In c the gradient is affine, and a norm of it
convex, so it is largest at an end of {c >= 0, sum c <= C}: c = 0, or C in one interval k. There it
is

- e = 0: nothing, or (C 1_k, C x);
- e = 1: (-1_j, -x), ((C - 1) 1_j, (C - 1) x), or (C 1_k - 1_j, (C - 1) x) for k != j.

No entry exceeds C; the squared length is at most C^2 (1 + p), for ``C^2 + 1 + (C - 1)^2 p`` is not
more as 1 <= p (2 C - 1); the absolute sum is at most C (1 + p), for ``C + 1 + (C - 1) p`` is not
more as 1 <= p. None of the three depends on K. So under add-remove Delta_inf = C, Delta_2^2 = C^2
(1 + p) and Delta_1 = C (1 + p), all reached; where a record is replaced they are at most twice
that, reached in the features.

**The Hessian's spectrum** (:mod:`mechanisms.objectives.several` says what it is for). Where H < C,
A = sum h_k z_k z_k' with z_k = (1_k, x), so with r = ||x||^2 <= p

    det(I + A / gamma) = prod (1 + h_k / gamma) (1 + r sum_k (h_k / gamma) / (1 + h_k / gamma)),

by the matrix determinant lemma. Its logarithm is symmetric and concave in h, and grows, so it is
largest where h_k = C / K: with v = C / (K gamma) it is at most (1 + v)^(K-1) (1 + v + p K v). That
is the spectrum C/K, K - 1 times, and C/K + C p once. Where H > C, A is C times the covariance of
z_k under h / H; x does not vary in it, so it is C (diag(w) - w w'), w = h / H, in the b_k alone,
and likewise at most (1 + v)^(K-1). No eigenvalue exceeds C (1 + p).

*An offset* with public bounds adds the same number to all s_k of a record. It multiplies h_k, and c
stays in {c >= 0, sum c <= C} whatever h is; so does the Hessian's bound, which holds for any h. So
all of the above holds for records of any offsets.

*The Hessian jumps* where H = C, the zeros of an analytic function that is not constant: a null set.
The gradient is Lipschitz, so :mod:`mechanisms.objectives.huber` says why the theorem holds.

*Conventions.* The marks of a row are E_1, ..., E_K, rounded to multiples of 1/F record by record,
and j, or 0 where e = 0. The link's numbers are those above divided by C, which is the scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from mechanisms.domain import CODE_BITS, CODE_MAX, EXACT_ROWS
from mechanisms.exact.balls import MATRIX_BITS, rational, smallest_eigenvalue_bound
from mechanisms.exact.floats import (
    LOWEST,
    SIGMOID_ERROR,
    SIGMOID_FLOOR,
    UNIT_ROUNDOFF,
    Floats,
    exp_nonpositive,
    sigmoid,
    working_precision,
)
from mechanisms.objectives.affine import AffineMap, AffineObjective, CodeSums, Rows, Split, Weighed
from mechanisms.objectives.design import Design
from mechanisms.objectives.losses import Loss, records_changed
from mechanisms.objectives.several import SeveralObjective
from mechanisms.privacy import Adjacency
from mechanisms.samplers.minimiser import Certified

_SAFETY = 1.01  # covers the rounding of the error bounds themselves
_REACH_BITS = 10  # the curvature is certified for tilts that move by 2**-10


def poisson_loss(dimension: int, adjacency: Adjacency) -> Loss:
    """Return Delta_inf = 2 (add-remove 1) and lambda = d of the clipped Poisson loss."""
    return Loss.of_a_cube(
        dimension=dimension,
        largest_difference=Fraction(records_changed(adjacency)),
        eigenvalue=Fraction(dimension),
        slope_norm=3.0,
        curvature=1 / 16,
    )


def clipped_exp(t: Floats) -> Floats:
    """Return min(exp(t), 1), elementwise.

    Of t <= 0 it is the quotient of both values of :func:`~mechanisms.exact.floats.sigmoid`, so its
    relative error is at most ``2 SIGMOID_ERROR + 2 u``, and for t < -700 its absolute error on top
    is at most ``SIGMOID_FLOOR``.
    """
    small, whole = sigmoid(np.minimum(t, 0.0))
    return np.asarray(np.minimum(small / whole, 1.0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Clipped:
    """F' and its derivative."""

    def slopes(self, t: Floats) -> Floats:
        """Return F' of some tilts."""
        return clipped_exp(t)

    def curves(self, t: Floats) -> Floats:
        """Return exp(t) below the ceiling, 0 beyond."""
        return np.where(t < 0, clipped_exp(t), 0.0)

    def ball(self, t: arb) -> arb:
        """Return a ball around F'(t)."""
        return t.min(arb(0)).exp()


class PoissonObjective(AffineObjective):
    """The clipped loss of some rows; implements :class:`~mechanisms.samplers.minimiser.Objective`.

    Parameters
    ----------
    rows : Rows
        The rows zeta, multiples of 1/F in [-1, 1], the target's code last.
    design : Design
        The public map W of the features.
    constant : Fraction
        s_0, but for the offset.
    offset : Fraction or None
        Its half-width H_o, if there is one: it adds ``H_o o / F`` to s.
    target : pair of Fraction
        (m, h): y / Y = m + h b / F.
    weighted : bool
        Whether each row has one entry more, its weight p_i.
    """

    __slots__ = ()

    def __init__(
        self,
        rows: Rows,
        design: Design,
        *,
        constant: Fraction,
        offset: Fraction | None,
        target: tuple[Fraction, Fraction],
        weighted: bool = False,
    ) -> None:
        zero = Fraction(0)
        own = [zero] if offset is None else [zero, zero]
        public = AffineMap(
            matrix=tuple((*row, *own) for row in design.matrix()),
            offset=(
                constant,
                *(zero for _ in design.slopes),
                *([] if offset is None else [offset]),
                zero,
            ),
            scale=Fraction(1),
            steepness=Fraction(1),
        )
        nothing = (zero,) * design.dimension
        super().__init__(rows, Clipped(), public, nothing, weighted=weighted)
        middle, half = target
        shares = [zero] * public.width
        for plain, times in self._pass(Products()):
            for at, (one, product) in enumerate(zip(plain, times, strict=True)):
                shares[at] += middle * Fraction(one, CODE_MAX**2)
                shares[at] += half * Fraction(product, CODE_MAX**3)
        self._linear = [
            -sum((entry * share for entry, share in zip(row, shares, strict=True)), zero)
            for row in public.matrix
        ]
        self._pull = np.array([float(entry) for entry in self._linear])

    def stretch(self, step: Floats) -> float:
        """Return infinity unless the step is 0: the curvature jumps."""
        return math.inf if step.any() else 0.0

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return facts at an exact point from one pass over the data in floats.

        A move by at most reach = 2**-10 / ceil(sqrt(d)) moves each tilt by at most m = 2**-10.
        Records whose tilt is below -m by more than its error stay below the ceiling, and their
        exp(s) falls by at most exp(-m) > 1 - 2**-9: the curvature is what they have together.
        """
        sums = self._code_sums(self._public.pull(theta))
        with working_precision(MATRIX_BITS):
            noise = arb(0, sums.error)
            gradient = self._push([rational(g) + noise for g in sums.gradient])
            matrix = self._ball_matrix()
            hessian = matrix * arb_mat(sums.hessian.tolist()) * matrix.transpose()
        length = float((self._matrix**2).sum()) * _SAFETY
        found = smallest_eigenvalue_bound(hessian, slack=length * sums.hessian_error * _SAFETY)
        reach = Fraction(1, (math.isqrt(self.dimension - 1) + 1) << _REACH_BITS)
        return Certified(gradient, found * Fraction(511, 512), reach)

    def _code_sums(self, exact: Sequence[Fraction]) -> CodeSums:
        """Sum gradient and Hessian with proved errors.

        With u = 2**-53, K columns, and C chunks in R runs: a float t errs by at most
        e = (K + 2) u ||w||_1, the rounding of w included. As log F' = min(t, 0) moves by no more
        than t, F' errs relatively by at most eta = ``2 SIGMOID_ERROR`` + 4 u + 2 e while e < 1/8,
        its own evaluation and the product with p included; and relatively to what was computed by
        at most eta / (1 - eta). The coarse part, a multiple of 2**-20, has exact products with the
        codes and exact sums per chunk, and what is left, at most 2**-21 a record, sums to within
        (8192 + C + R) u of its absolute sum. The Hessian has the same weights, plainly summed.
        """
        w = np.array([float(entry) for entry in exact])
        width = self._public.width
        error = (width + 2) * UNIT_ROUNDOFF * float(np.abs(w).sum()) * _SAFETY
        total, runs = Split.none(width), 0
        for some in self._pass(_Splitting(w, -(2.0**-_REACH_BITS) * 1.001 - 2 * error)):
            total.add(some)
            runs += 1
        eta = 2 * SIGMOID_ERROR + 4 * UNIT_ROUNDOFF + 2 * error
        near = eta / (1 - eta) if error < 1 / 8 else math.inf
        order = (EXACT_ROWS + total.chunks + runs + 6) * UNIT_ROUNDOFF
        floor = total.rows * SIGMOID_FLOOR
        known = near * total.residual + order * total.rest + floor
        return CodeSums(
            gradient=total.gradient,
            error=_SAFETY * known if total.rows else 0.0,
            hessian=total.hessian,
            hessian_error=width * _SAFETY * ((near + order) * total.weight + floor)
            if total.rows
            else 0.0,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Splitting:
    """A pass: sums of p F'(t) zeta, and of p exp(t) zeta zeta' well below the ceiling."""

    w: Floats
    near: float

    def __call__(self, rows: Weighed) -> Split:
        found = Split.none(len(self.w))
        for zeta, share in rows:
            t = zeta @ self.w
            slopes = share * clipped_exp(t)
            found.add(Split.of(zeta, slopes, np.where(t < self.near, slopes, 0.0)))
        return found


@dataclass(frozen=True, slots=True)
class Products:
    """A pass: exact sums of p zeta in units of 1/F^2, and of p b zeta in units of 1/F^3."""

    def __call__(self, rows: Weighed) -> tuple[list[int], list[int]]:
        plain: list[int] = []
        times: list[int] = []
        for zeta, share in rows:
            codes = np.rint(zeta * CODE_MAX).astype(np.int64)
            parts = np.rint(np.broadcast_to(share, len(codes)) * CODE_MAX).astype(np.int64)
            # below 2**40 each; in halves of 20 bits their sums with codes are below 2**53
            both = parts * codes[:, -1]
            high, low = both >> CODE_BITS, both & (CODE_MAX - 1)
            own = [int(each) for each in parts @ codes]
            own_times = [
                (int(one) << CODE_BITS) + int(two)
                for one, two in zip(high @ codes, low @ codes, strict=True)
            ]
            plain = [a + b for a, b in zip(plain or [0] * len(own), own, strict=True)]
            times = [a + b for a, b in zip(times or [0] * len(own), own_times, strict=True)]
        return plain, times


def softmax_loss(features: int, levels: int, adjacency: Adjacency) -> Loss:
    """Return the constants of the loss: k features and m levels besides the reference."""
    changed = records_changed(adjacency)
    most, share = min(levels, 2), Fraction(features, levels)
    several = ((share, levels - 1),) if levels > 1 else ()
    return Loss(
        dimension=features * levels,
        largest_difference=Fraction(changed),
        squared_length=Fraction(most * features * changed**2),
        absolute_sum=Fraction(most * features * changed),
        eigenvalue=Fraction(features, 2 if levels > 1 else 4),
        slope_norm=3.0,
        curvature=1 / 16,
        spectrum=(*several, (share / 4, 1)),
    )


@dataclass(frozen=True, slots=True)
class Softmax:
    """The link; the mark is the level, 0 for the reference."""

    def slopes(self, t: Floats, marks: Floats) -> Floats:
        """Return p_l - 1{y = l}."""
        own = np.arange(1, t.shape[1] + 1)
        return np.asarray(_shares(t) - (marks[:, :1] == own))

    def curves(self, t: Floats, _marks: Floats) -> Floats:
        """Return diag(p) - p p'."""
        return covariances(_shares(t))

    def steady(self, t: Floats, marks: Floats) -> Floats:
        """Return the same: v'(diag(p) - p p')v = min_c sum_l p_l (v_l - c)^2, v_0 = 0.

        As tilts move by 2**-10 each p_l keeps at least exp(-2**-9) of itself.
        """
        return self.curves(t, marks)

    def ball(self, t: Sequence[arb], marks: Sequence[float]) -> list[arb]:
        """Return balls around the gradient: exponentials of differences to the largest tilt."""
        most = max((float(each.mid()) for each in t), default=0.0)
        shift = arb(max(most, 0.0))
        powers = [(each - shift).exp() for each in t]
        whole = sum(powers, (-shift).exp())
        return [each / whole - (at == int(marks[0])) for at, each in enumerate(powers, start=1)]

    def stretch(self, move: Floats) -> Floats:
        """Return the range of a move, the reference's 0 included."""
        return np.asarray(np.maximum(move.max(axis=1), 0.0) - np.minimum(move.min(axis=1), 0.0))


def _shares(t: Floats) -> Floats:
    """Return p_1, ..., p_m of each row."""
    most = np.maximum(t.max(axis=1, keepdims=True), 0.0)
    powers = exp_nonpositive(np.maximum(t - most, LOWEST))
    reference = exp_nonpositive(np.maximum(-most, LOWEST))
    return np.asarray(powers / (reference + powers.sum(axis=1, keepdims=True)))


def covariances(shares: Floats) -> Floats:
    """Return diag(p) - p p' of each row of p."""
    found = -shares[:, :, None] * shares[:, None, :]
    at = np.arange(shares.shape[1])
    found[:, at, at] += shares
    return np.asarray(found)


def softmax_objective(
    rows: Rows, design: Design, levels: int, *, weighted: bool
) -> SeveralObjective:
    """Return the loss of rows (1, a_1/F, ..., a_k/F, level[, weight])."""
    plain = design.matrix()
    width = len(plain[0])
    nothing = [Fraction(0)] * width
    matrix = tuple(
        tuple(entry for at in range(levels) for entry in (row if at == level else nothing))
        for level in range(levels)
        for row in plain
    )
    public = AffineMap(
        matrix=matrix,
        offset=(Fraction(0),) * (width * levels),
        scale=Fraction(1),
        steepness=Fraction(1),
    )
    return SeveralObjective(rows, Softmax(), public, levels, weighted=weighted)


_BELOW = 1 - 2.0**-8  # of C: a hazard below it stays below C while tilts move by 2**-10


def hazard_loss(intervals: int, features: int, ceiling: Fraction, adjacency: Adjacency) -> Loss:
    """Return the constants of the loss: K intervals, p >= 1 features, C >= 1."""
    changed, entries = ceiling * records_changed(adjacency), 1 + features
    share = ceiling / intervals
    several = ((share, intervals - 1),) if intervals > 1 else ()
    return Loss(
        dimension=intervals + features,
        largest_difference=changed,
        squared_length=changed**2 * entries,
        absolute_sum=changed * entries,
        eigenvalue=ceiling * entries,
        slope_norm=3.0,
        curvature=1 / 16,
        spectrum=(*several, (share + ceiling * features, 1)),
    )


@dataclass(frozen=True, slots=True)
class Hazards:
    """The link, of the loss divided by C."""

    ceiling: Fraction

    def slopes(self, t: Floats, marks: Floats) -> Floats:
        """Return (c_k - e 1{k = j}) / C."""
        clipped, _ = self._clipped(t, marks)
        own = np.arange(1, t.shape[1] + 1)
        return np.asarray(clipped - (marks[:, -1:] == own) / float(self.ceiling))

    def curves(self, t: Floats, marks: Floats) -> Floats:
        """Return diag(h) / C below the ceiling, diag(w) - w w' beyond."""
        clipped, rest = self._clipped(t, marks)
        return _curves(clipped, rest > 1)

    def steady(self, t: Floats, marks: Floats) -> Floats:
        """Return diag(h) / C well below the ceiling, else min(H, C) (diag(w) - w w') / C.

        The second is below the Hessian on both sides of the ceiling, as diag(h) >= H cov.
        """
        clipped, rest = self._clipped(t, marks)
        return _curves(clipped, rest > _BELOW)

    def ball(self, t: Sequence[arb], marks: Sequence[float]) -> list[arb]:
        """Return balls around the gradient."""
        limit = rational(self.ceiling)
        found = [each.exp() * own for each, own in zip(t, marks, strict=False)]
        whole = sum(found, arb(0))
        share = (limit / whole).min(arb(1)) if any(marks[: len(t)]) else arb(1)
        return [(each * share - (at == int(marks[-1]))) / limit for at, each in enumerate(found, 1)]

    def stretch(self, move: Floats) -> Floats:
        """Return infinity: the curvature jumps."""
        return np.full(len(move), math.inf)

    def _clipped(self, t: Floats, marks: Floats) -> tuple[Floats, Floats]:
        """Return c / C, and H / C or a number above 1 where it is large."""
        parts = marks[:, :-1]
        followed = parts > 0
        most = np.where(followed, t, -np.inf).max(axis=1, keepdims=True)
        most = np.maximum(most, 0.0)
        powers = parts * exp_nonpositive(np.clip(t - most, LOWEST, 0.0))
        whole = powers.sum(axis=1, keepdims=True)
        # exposures are 2**-20 at least, so a larger exponential is beyond the ceiling anyhow
        factor = 1 / (exp_nonpositive(np.maximum(-most, LOWEST)) * float(self.ceiling))
        safe = np.where(whole > 0, whole, 1.0)
        clipped = powers * np.minimum(factor, 1 / safe)
        return clipped, np.asarray((whole * factor)[:, 0])


def _curves(clipped: Floats, beyond: NDArray[np.bool_]) -> Floats:
    """Return diag(c), and where the hazard is beyond the ceiling sum(c) (diag(w) - w w')."""
    whole = clipped.sum(axis=1, keepdims=True)
    shares = clipped / np.where(whole > 0, whole, 1.0)
    found = whole[:, :, None] * covariances(shares)
    at = np.arange(clipped.shape[1])
    plain = np.zeros_like(found)
    plain[:, at, at] = clipped
    return np.asarray(np.where(beyond[:, None, None], found, plain))


def hazard_objective(
    rows: Rows,
    design: Design,
    *,
    ceiling: Fraction,
    starts: Sequence[Fraction],
    offset: Fraction | None,
    weighted: bool,
) -> SeveralObjective:
    """Return the loss of rows (1, a_1/F, ..., a_p/F, [o/F,] E_1, ..., E_K, j[, weight]).

    ``design`` is of the features with the constant first; ``starts`` are s_1, ..., s_K at theta 0,
    where the offset's code o is 0; ``offset`` is its half-width, if there is one.
    """
    own_of = () if offset is None else (Fraction(0),)
    first, *plain = [(*row, *own_of) for row in design.matrix()]
    moved = () if offset is None else (offset,)
    nothing, count = [Fraction(0)] * len(first), len(starts)
    own = [
        tuple(entry for at in range(count) for entry in (first if at == k else nothing))
        for k in range(count)
    ]
    shared = [tuple(row) * count for row in plain]
    public = AffineMap(
        matrix=(*own, *shared),
        offset=tuple(entry for start in starts for entry in (*design.constant(start), *moved)),
        scale=ceiling,
        steepness=Fraction(1),
    )
    return SeveralObjective(rows, Hazards(ceiling), public, count, weighted=weighted)
