r"""Sums of convex functions of several affine tilts of a private row, read in passes.

``L(theta) = scale sum_i p_i f(t_i1, ..., t_im; marks_i),   t_ik = zeta_i'w_k,   w = A'theta + w_0``

with private rows zeta_i of K entries, private marks (a label, or exposures) and weights p_i in
[0, 1], all 1 where none are given. A (d x m K) and w_0 are public; w has m parts of K entries, one
for each tilt. The :class:`Link` is grad f (m) and its Hessian (m x m), both in the tilts:

- gradient in code units  g_k = sum p_i f_k(t_i) zeta_i, in theta scale A g
- Hessian in code units   H_kl = sum p_i f_kl(t_i) zeta_i zeta_i', in theta scale A H A'

:mod:`mechanisms.objectives.affine` is the case of one tilt; its conventions hold here. A row is
(zeta, marks[, weight]).

**Theorem 5.1 for Hessians of any rank.** Awan & Slavkovic's proof needs a record's Hessian of rank
one, so that it multiplies the determinant by 1 + w x'M^-1 x. A record here has a Hessian
``A_i >= 0`` of rank up to m. With C >= 0 the Hessian of the others and M = C + gamma I,

    det(M + A_i) / det(M) = det(I + A_i^(1/2) M^-1 A_i^(1/2)) <= det(I + A_i / gamma),

as M^-1 <= I / gamma, and det(I + B) grows with B in Loewner's order. The ratio is at least 1. So
gamma is large enough if the right side is at most exp(epsilon (1 - q)) for every record and theta:
a loss states a *spectrum*, eigenvalues with multiplicities, for which ``det(I + A_i / gamma) <=
prod (1 + lambda_j / gamma)^(r_j)`` at every gamma > 0. With one eigenvalue of multiplicity one that
is the paper's condition. Replacing a record gives a ratio of two such factors, each in [1,
exp(epsilon (1 - q))]. A record of weight p <= 1 has p A_i <= A_i. Under a constraint M becomes (H +
gamma I) P + I - P (:mod:`mechanisms.perturbation`), and ``P M^-1 = (C + gamma I + P^-1 - I)^-1 <= I
/ gamma``, so the bound is the same.

**Floats.** Each entry of a link's gradient is within ``error(e, m)`` of the truth if tilts err by
at most e. A link says for what share of a row's Hessian it vouches while tilts move by 2**-10
(:data:`REMAINS`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

import numpy as np
from flint import arb, arb_mat

from mechanisms.domain import CODE_MAX, EXACT_ROWS
from mechanisms.exact.balls import (
    MATRIX_BITS,
    rational,
    rational_matrix,
    smallest_eigenvalue_bound,
)
from mechanisms.exact.floats import SIGMOID_FLOOR, UNIT_ROUNDOFF, Floats, working_precision
from mechanisms.objectives.affine import (
    GUARD_BITS,
    AffineMap,
    Chunks,
    Rows,
    Split,
    whole_of,
)
from mechanisms.samplers.minimiser import Certified

REMAINS = Fraction(127, 128)
"""The share of :meth:`Link.steady` that a row's Hessian keeps while its tilts move by 2**-10."""

_SAFETY = 1.01  # covers the rounding of the error bounds themselves
_REACH_BITS = 10
_LARGEST_TILT_ERROR = 1 / 16  # with larger errors nothing is certified in floats

T = TypeVar("T")


def slope_error(tilt: float, tilts: int) -> float:
    """Return how far an entry of a gradient is from the truth, whose tilts err by ``tilt``.

    Entries are quotients, at most 1, of exponentials of t - max t and of sums of those. The
    difference is rounded by at most 2 u ||w||_1 <= e (a float tilt errs by e = (K + 2) u ||w||_1),
    so exp errs relatively by rho = 2.2 e + 2**-50 while e <= 1/16, a sum of m by (m + 1) u more,
    and a product of two quotients by less than 3 rho + (m + 12) u in all.
    """
    if tilt > _LARGEST_TILT_ERROR:
        return math.inf
    return 3 * (2.2 * tilt + 2.0**-50) + (tilts + 12) * UNIT_ROUNDOFF


class Link(Protocol):
    """f's gradient and Hessian in the tilts; it travels."""

    def slopes(self, t: Floats, marks: Floats, /) -> Floats:
        """Return the gradients (n, m) at tilts (n, m), each entry in [-1, 1]."""

    def curves(self, t: Floats, marks: Floats, /) -> Floats:
        """Return the Hessians (n, m, m)."""

    def steady(self, t: Floats, marks: Floats, /) -> Floats:
        """Return (n, m, m): :data:`REMAINS` of it is below the Hessian at tilts within 2**-10."""

    def ball(self, t: Sequence[arb], marks: Sequence[float], /) -> list[arb]:
        """Return balls around the gradient of one row."""

    def stretch(self, move: Floats, /) -> Floats:
        """Hint: return about how far moves (n, m) of the tilts move the log of the Hessians."""


class SeveralObjective:
    """L of the module note; implements :class:`~mechanisms.samplers.minimiser.Objective`.

    Parameters
    ----------
    rows : Rows
        The rows (zeta, marks[, weight]); called once per pass.
    link : Link
        f's gradient and Hessian.
    public : AffineMap
        A, w_0 and scale. Every entry of A_k zeta is in [-1, 1].
    tilts : int
        m.
    weighted : bool
        Whether rows have weights.
    """

    __slots__ = ("_link", "_matrix", "_offset", "_public", "_rows", "_scale", "_tilts", "_weighted")

    def __init__(
        self, rows: Rows, link: Link, public: AffineMap, tilts: int, *, weighted: bool = False
    ) -> None:
        self._rows = rows
        self._link = link
        self._public = public
        self._tilts = tilts
        self._weighted = weighted
        self._matrix = np.array([[float(entry) for entry in row] for row in public.matrix])
        self._offset = np.array([float(entry) for entry in public.offset])
        self._scale = float(public.scale)

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
        size = self._public.width
        gradient, hessian = np.zeros(size), np.zeros((size, size))
        for slope, curve in self._pass(_Model(self._link, self._tilted(theta))):
            gradient += slope
            hessian += curve
        return (
            self._scale * (self._matrix @ gradient),
            self._scale * (self._matrix @ hessian @ self._matrix.T),
        )

    def stretch(self, step: Floats) -> float:
        """Return the link's largest stretch over the rows; 0 where the step is 0."""
        if not step.any():
            return 0.0
        move = (step @ self._matrix).reshape(self._tilts, -1)
        return max(self._pass(_Farthest(self._link, move)), default=0.0)

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative of the objective at theta + t step, in floats, a hint."""
        w, move = self._tilted(theta), (step @ self._matrix).reshape(self._tilts, -1)
        return lambda share: (
            self._scale * sum(self._pass(_SlopeAlong(self._link, w + share * move, move)))
        )

    def certify(self, theta: Sequence[Fraction]) -> Certified:
        """Return facts at an exact point from one pass over the data in floats.

        A move by at most 2**-10 / ceil(sqrt(d)) moves each tilt by at most 2**-10.
        """
        sums, near, order = self._certain(self._public.pull(theta))
        known = sums.rows * (near + 3 * UNIT_ROUNDOFF + SIGMOID_FLOOR) + order * sums.rest
        with working_precision(MATRIX_BITS):
            noise = arb(0, _SAFETY * known if sums.rows else 0.0)
            gradient = self._push([rational(each) + noise for each in sums.gradient])
            matrix, scale = rational_matrix(self._public.matrix), rational(self._public.scale)
            hessian = scale * (matrix * arb_mat(sums.hessian.tolist()) * matrix.transpose())
        width, tilts = self._public.width // self._tilts, self._tilts
        # of each row ||zeta||^2 <= K times the error of its m x m matrix, in Frobenius' norm
        lost = sums.rows * (8 * math.sqrt(tilts + 1) * near + SIGMOID_FLOOR) + order * sums.weight
        length = float((self._matrix**2).sum()) * self._scale
        slack = width * lost * length * _SAFETY**2 if sums.rows else 0.0
        curvature = REMAINS * smallest_eigenvalue_bound(hessian, slack=slack)
        reach = Fraction(1, (math.isqrt(self.dimension - 1) + 1) << _REACH_BITS)
        return Certified(gradient, curvature, reach)

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Return balls around the gradient, every record in ball arithmetic at ``bits`` bits."""
        w = self._public.pull(theta)
        working = bits + GUARD_BITS + math.ceil(sum(map(abs, w))).bit_length()
        totals = [(0, 0)] * self._public.width
        for some in self._pass(_Balls(self._link, tuple(w), self._tilts, bits, working)):
            totals = [(a + c, b + d) for (a, b), (c, d) in zip(totals, some, strict=True)]
        with working_precision(working):
            last = arb((1, -bits)) / CODE_MAX
            return self._push([(arb(whole) + arb(0, error)) * last for whole, error in totals])

    def _tilted(self, theta: Floats) -> Floats:
        return np.asarray((theta @ self._matrix + self._offset).reshape(self._tilts, -1))

    def _pass(self, function: Callable[[Marked], T]) -> Iterator[T]:
        width = self._public.width // self._tilts
        return self._rows(_OfMarked(width, self._weighted, function))

    def _push(self, codes: Sequence[arb]) -> list[arb]:
        scale = rational(self._public.scale)
        moved = rational_matrix(self._public.matrix) * arb_mat([[g] for g in codes])
        return [scale * entry for entry in moved.entries()]

    def _certain(self, exact: Sequence[Fraction]) -> tuple[_Sums, float, float]:
        """Return sums of a pass, the error of a row's slope, and the relative one of summing.

        A coarse part of slopes, a multiple of 2**-20, has exact products with the codes and exact
        sums per chunk; what is left, at most 2**-21 a record, sums to within (8192 + C + R) u of
        its absolute sum, in C chunks of R runs.
        """
        w = np.array([float(entry) for entry in exact]).reshape(self._tilts, -1)
        width = w.shape[1]
        tilt = (width + 2) * UNIT_ROUNDOFF * float(np.abs(w).sum(axis=1).max()) * _SAFETY
        total, runs = _Sums.none(self._tilts, width), 0
        for some in self._pass(_Splitting(self._link, w)):
            total.add(some)
            runs += 1
        order = (EXACT_ROWS + total.chunks + runs + 6) * UNIT_ROUNDOFF
        return total, slope_error(tilt, self._tilts), order


Marked = Iterator[tuple[Floats, Floats, Floats]]
"""Chunks of rows, their marks, and their weights: one for all of a chunk where none are given."""

_WHOLE = np.ones(1)


@dataclass(frozen=True, slots=True)
class _OfMarked(Generic[T]):
    """A function of rows, marks and weights, as one of chunks."""

    width: int
    weighted: bool
    function: Callable[[Marked], T]

    def __call__(self, chunks: Chunks) -> T:
        return self.function(map(self._split, chunks))

    def _split(self, chunk: Floats) -> tuple[Floats, Floats, Floats]:
        rows, marks = chunk[:, : self.width], chunk[:, self.width :]
        return (rows, marks[:, :-1], marks[:, -1]) if self.weighted else (rows, marks, _WHOLE)


def _blocks(zeta: Floats, curves: Floats) -> Floats:
    """Return sum_i curves_i (x) zeta_i zeta_i', of shape (m K, m K); ``curves`` are symmetric."""
    tilts, width = curves.shape[1], zeta.shape[1]
    one, two = np.triu_indices(tilts)
    first, last = np.triu_indices(width)
    # one product of matrices: pairs of tilts by pairs of entries
    made = curves[:, one, two].T @ (zeta[:, first] * zeta[:, last])
    found = np.zeros((tilts, tilts, width, width))
    for k, at in ((one, two), (two, one)):
        found[k[:, None], at[:, None], first, last] = made
        found[k[:, None], at[:, None], last, first] = made
    return found.transpose(0, 2, 1, 3).reshape(tilts * width, tilts * width)


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """A pass: g and H at w, in floats."""

    link: Link
    w: Floats

    def __call__(self, rows: Marked) -> tuple[Floats, Floats]:
        size = self.w.size
        gradient, hessian = np.zeros(size), np.zeros((size, size))
        for zeta, marks, share in rows:
            t = zeta @ self.w.T
            gradient += ((share[:, None] * self.link.slopes(t, marks)).T @ zeta).ravel()
            hessian += _blocks(zeta, share[:, None, None] * self.link.curves(t, marks))
        return gradient, hessian


@dataclass(frozen=True, slots=True, eq=False)
class _Farthest:
    """A pass: the largest stretch of a move."""

    link: Link
    move: Floats

    def __call__(self, rows: Marked) -> float:
        return max(
            (
                float(self.link.stretch(zeta @ self.move.T).max())
                for zeta, _, _ in rows
                if len(zeta)
            ),
            default=0.0,
        )


@dataclass(frozen=True, slots=True, eq=False)
class _SlopeAlong:
    """A pass: sum_i p_i grad f(t_i)'(move zeta_i) at w, in floats."""

    link: Link
    w: Floats
    move: Floats

    def __call__(self, rows: Marked) -> float:
        return sum(
            float(
                np.sum(
                    share[:, None] * self.link.slopes(zeta @ self.w.T, marks) * (zeta @ self.move.T)
                )
            )
            for zeta, marks, share in rows
        )


@dataclass(slots=True, eq=False)
class _Sums:
    """Sums over rows: those of p f_k zeta as a :class:`Split` each, and of p steady (x) zeta zeta'.

    The absolute entries of the latter's factors add up to ``weight``.
    """

    parts: list[Split]
    hessian: Floats
    weight: float = 0.0

    @classmethod
    def none(cls, tilts: int, width: int) -> _Sums:
        """Return the sums over no rows."""
        size = tilts * width
        return cls([Split.none(width) for _ in range(tilts)], np.zeros((size, size)))

    def add(self, other: _Sums) -> None:
        """Add the sums over more rows."""
        for own, more in zip(self.parts, other.parts, strict=True):
            own.add(more)
        self.hessian += other.hessian
        self.weight += other.weight

    @property
    def gradient(self) -> list[Fraction]:
        """Return the sums of p f_k zeta, one part after the other."""
        return [entry for part in self.parts for entry in part.gradient]

    @property
    def rows(self) -> int:
        """Return how many rows were summed."""
        return self.parts[0].rows

    @property
    def chunks(self) -> int:
        """Return in how many chunks."""
        return self.parts[0].chunks

    @property
    def rest(self) -> float:
        """Return the largest absolute sum of what the exact parts leave out."""
        return max(part.rest for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class _Splitting:
    """A pass: the sums at w."""

    link: Link
    w: Floats

    def __call__(self, rows: Marked) -> _Sums:
        tilts, width = self.w.shape
        found = _Sums.none(tilts, width)
        for zeta, marks, share in rows:
            t = zeta @ self.w.T
            slopes = share[:, None] * self.link.slopes(t, marks)
            steady = share[:, None, None] * self.link.steady(t, marks)
            found.add(
                _Sums(
                    [Split.of(zeta, slopes[:, k], np.zeros(len(zeta))) for k in range(tilts)],
                    _blocks(zeta, steady),
                    float(np.abs(steady).sum()),
                )
            )
        return found


@dataclass(frozen=True, slots=True, eq=False)
class _Balls:
    """A pass: g at w times ``CODE_MAX 2**bits``, each entry an integer and its error: they travel.

    Every record is in ball arithmetic of ``working`` bits.
    """

    link: Link
    w: tuple[Fraction, ...]
    tilts: int
    bits: int
    working: int

    def __call__(self, rows: Marked) -> list[tuple[int, int]]:
        width = len(self.w) // self.tilts
        with working_precision(self.working):
            parts = [self.w[k * width : (k + 1) * width] for k in range(self.tilts)]
            w = arb_mat([[rational(part[a]) / CODE_MAX for part in parts] for a in range(width)])
            total = arb_mat(self.tilts, width)
            for zeta, marks, share in rows:
                if len(zeta):
                    codes = arb_mat((zeta * CODE_MAX).astype(np.int64).tolist())
                    shares = np.broadcast_to(share, len(zeta)).tolist()  # exact in float64
                    sizes = [
                        [slope * own for slope in self.link.ball(t, mark)]
                        for t, mark, own in zip(
                            (codes * w).tolist(), marks.tolist(), shares, strict=True
                        )
                    ]
                    total += arb_mat(sizes).transpose() * codes
            return [whole_of(entry * arb((1, self.bits))) for entry in total.entries()]
