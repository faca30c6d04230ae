"""Sums of log(1 + exp(.)) over private rows: float hints, certified sums, ball arithmetic.

``L(theta) = scale sum_i p_i log(1 + exp(zeta_i'w)) + c'theta,   w = A' theta + w_0``

with private rows zeta_i and weights p_i in [0, 1], all 1 where none are given, and public
scale > 0, A (d x K) and w_0; the linear part c is an exact function of the data. With
e_i = sigmoid(zeta_i'w):

- gradient in code units  g = sum p_i e_i zeta_i, in theta scale A g + c
- Hessian in code units   H = sum p_i e_i (1 - e_i) zeta_i zeta_i', in theta scale A H A'

Each of these is a pass over the rows: a function of some of them that travels to where they are
(:class:`Rows`). What comes back is added up in their order.

*Conventions.* The entries of a row are multiples of 1/F in [-1, 1], exact in
float64; rows come in chunks of at most 2**13, so the product of 21-bit
residuals with 21-bit codes sums to an exact integer in float64.
``steepness`` times ||v||_1 bounds |zeta_i'A'v|, so log sigmoid' moves by at most
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
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, Protocol, TypeVar

import numpy as np
from flint import arb, arb_mat
from scipy.special import expit

from mechanisms.domain import CODE_BITS, CODE_MAX, EXACT_ROWS
from mechanisms.exact.balls import MATRIX_BITS, rational, rational_matrix, smallest_eigenvalue_bound
from mechanisms.exact.floats import (
    SIGMOID_ERROR,
    SIGMOID_FLOOR,
    UNIT_ROUNDOFF,
    sigmoid,
    working_precision,
)
from mechanisms.exact.many import Floats
from mechanisms.objectives.design import Design
from mechanisms.samplers.minimiser import Certified

_WHOLE = np.ones(1)
_SAFETY = 1.01  # covers the rounding of the error bounds themselves
_SMALL_STRETCH = 0.5  # steps this short are taken whole, so a bound of the stretch will do
_GUARD_BITS = 64  # what an exponential, a quotient and the sum over all rows may lose

T = TypeVar("T")
Chunks = Iterable[Floats]
Weighed = Iterable[tuple[Floats, Floats]]
"""Chunks of rows with their weights, one for all of a chunk where none are given."""


class Rows(Protocol):
    """Private rows that are read in passes.

    They come in chunks, each float64 of shape (at most ``EXACT_ROWS``, K), or K + 1 with its
    weight at the end, a multiple of 1/F in [0, 1].
    """

    def __call__(self, function: Callable[[Chunks], T], /) -> Iterator[T]:
        """Yield the function's result for each run of chunks, in their order; it may travel."""


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
    """L of the module note; implements :class:`~mechanisms.samplers.minimiser.Objective`.

    Parameters
    ----------
    rows : Rows
        The rows zeta. Called once per pass over the data.
    public : AffineMap
        A, w_0, scale and steepness.
    linear : sequence of Fraction
        c, length d.
    weighted : bool
        Whether rows have weights.
    """

    __slots__ = (
        "_linear",
        "_matrix",
        "_offset",
        "_public",
        "_pull",
        "_rows",
        "_scale",
        "_weighted",
    )

    def __init__(
        self,
        rows: Rows,
        public: AffineMap,
        linear: Sequence[Fraction],
        *,
        weighted: bool = False,
    ) -> None:
        self._rows = rows
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
        width = self._public.width
        gradient, hessian = np.zeros(width), np.zeros((width, width))
        for slope, curve in self._pass(_Model(theta @ self._matrix + self._offset)):
            gradient += slope
            hessian += curve
        return (
            self._scale * (self._matrix @ gradient) + self._pull,
            self._scale * (self._matrix @ hessian @ self._matrix.T),
        )

    def stretch(self, step: Floats) -> float:
        """Return max_i |zeta_i'A'step| in floats, or a small bound of it."""
        bound = float(self._public.steepness) * float(np.abs(step).sum())
        if bound <= _SMALL_STRETCH:
            return bound
        return max(self._pass(_Farthest(step @ self._matrix)), default=0.0)

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative of the objective at theta + t step, in floats, a hint.

        Each call is a pass.
        """
        w, move = theta @ self._matrix + self._offset, step @ self._matrix
        level = float(self._pull @ step)
        return lambda share: (
            self._scale * sum(self._pass(_SlopeAlong(w + share * move, move))) + level
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
        """Return balls around the gradient, every record in ball arithmetic at ``bits`` bits.

        |zeta'w| <= ||w||_1, so with the bits of ||w||_1 and ``_GUARD_BITS`` every tilt is known
        to far less than ``2**-bits``, however large it is.
        """
        w = self._public.pull(theta)
        working = bits + _GUARD_BITS + math.ceil(sum(map(abs, w))).bit_length()
        totals = [(0, 0)] * self._public.width
        for some in self._pass(_Balls(tuple(w), bits, working)):
            # Integers and their errors: the sum is the same bits however the rows are parted.
            totals = [(a + c, b + d) for (a, b), (c, d) in zip(totals, some, strict=True)]
        with working_precision(working):
            last = arb((1, -bits)) / CODE_MAX
            return self._push([(arb(whole) + arb(0, error)) * last for whole, error in totals])

    def _pass(self, function: Callable[[Weighed], T]) -> Iterator[T]:
        return self._rows(_OfWeighed(self._weighted, function))

    def _push(self, codes: Sequence[arb]) -> list[arb]:
        """Return scale A g + c."""
        scale = rational(self._public.scale)
        moved = (self._ball_matrix() * arb_mat([[g] for g in codes])).entries()
        return [scale * g + rational(c) for g, c in zip(moved, self._linear, strict=True)]

    def _ball_matrix(self) -> arb_mat:
        return rational_matrix(self._public.matrix)

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
        total = _Split.none(width)
        runs = 0
        for some in self._pass(_Splitting(coarse, fine)):
            total.add(some)
            runs += 1
        near = SIGMOID_ERROR + UNIT_ROUNDOFF if tilt_error < 0.25 else math.inf
        eta = near + 2 * tilt_error
        order = (EXACT_ROWS + total.chunks + runs + 4) * UNIT_ROUNDOFF
        floor = total.rows * SIGMOID_FLOOR
        gradient = [
            Fraction(a, 1 << (2 * CODE_BITS)) + Fraction(b)
            for a, b in zip(total.high, total.low.tolist(), strict=True)
        ]
        tilts = total.rows * (UNIT_ROUNDOFF + lost) / 3
        error = near * total.residual + tilts + order * total.rest + floor
        hessian_error = (2 * eta + order) * total.weight + floor
        return CodeSums(
            gradient=gradient,
            error=_SAFETY * error if total.rows else 0.0,
            hessian=total.hessian,
            hessian_error=width * _SAFETY * hessian_error if total.rows else 0.0,
        )


@dataclass(frozen=True, slots=True)
class _OfWeighed(Generic[T]):
    """A function of rows and their weights, as one of chunks."""

    weighted: bool
    function: Callable[[Weighed], T]

    def __call__(self, chunks: Chunks) -> T:
        return self.function(map(self._split, chunks))

    def _split(self, chunk: Floats) -> tuple[Floats, Floats]:
        return (chunk[:, :-1], chunk[:, -1]) if self.weighted else (chunk, _WHOLE)


@dataclass(frozen=True, slots=True, eq=False)
class _Model:
    """A pass: g and H at w, in floats."""

    w: Floats

    def __call__(self, rows: Weighed) -> tuple[Floats, Floats]:
        width = len(self.w)
        gradient, hessian = np.zeros(width), np.zeros((width, width))
        for zeta, share in rows:
            e = expit(zeta @ self.w)
            gradient += (share * e) @ zeta
            hessian += zeta.T @ (zeta * (share * e * (1 - e))[:, None])
        return gradient, hessian


@dataclass(frozen=True, slots=True, eq=False)
class _Farthest:
    """A pass: max_i |zeta_i'move|, in floats."""

    move: Floats

    def __call__(self, rows: Weighed) -> float:
        return max(
            (float(np.abs(zeta @ self.move).max(initial=0)) for zeta, _ in rows), default=0.0
        )


@dataclass(frozen=True, slots=True, eq=False)
class _SlopeAlong:
    """A pass: sum_i e_i zeta_i'move at w, in floats."""

    w: Floats
    move: Floats

    def __call__(self, rows: Weighed) -> float:
        return sum(
            float((share * expit(zeta @ self.w)) @ (zeta @ self.move)) for zeta, share in rows
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Balls:
    """A pass: g at w times ``CODE_MAX 2**bits``, each entry an integer and its error: they travel.

    Every record is in ball arithmetic of ``working`` bits.
    """

    w: tuple[Fraction, ...]
    bits: int
    working: int

    def __call__(self, rows: Weighed) -> list[tuple[int, int]]:
        with working_precision(self.working):
            w = arb_mat([[rational(entry) / CODE_MAX] for entry in self.w])
            total = arb_mat(1, len(self.w))
            for zeta, share in rows:
                if len(zeta):
                    codes = arb_mat((zeta * CODE_MAX).astype(np.int64).tolist())
                    parts = np.broadcast_to(share, len(zeta)).tolist()  # exact in float64
                    tilts = (codes * w).entries()
                    sizes = [ball_sigmoid(t) * p for t, p in zip(tilts, parts, strict=True)]
                    total += arb_mat([sizes]) * codes
            return [_whole(entry * arb((1, self.bits))) for entry in total.entries()]


@dataclass(slots=True, eq=False)
class _Split:
    """Sums over rows for :meth:`SigmoidObjective._code_sums`; ``high`` is exact."""

    high: list[int]
    low: Floats
    hessian: Floats
    rows: int = 0
    chunks: int = 0
    residual: float = 0.0
    rest: float = 0.0
    weight: float = 0.0

    @classmethod
    def none(cls, width: int) -> _Split:
        """Return the sums over no rows."""
        return cls([0] * width, np.zeros(width), np.zeros((width, width)))

    def add(self, other: _Split) -> None:
        """Add the sums over more rows."""
        self.high = [a + b for a, b in zip(self.high, other.high, strict=True)]
        self.low += other.low
        self.hessian += other.hessian
        self.rows += other.rows
        self.chunks += other.chunks
        self.residual += other.residual
        self.rest += other.rest
        self.weight += other.weight


@dataclass(frozen=True, slots=True, eq=False)
class _Splitting:
    """A pass: sums at w in two parts, what is coarse apart from what is fine."""

    w: Floats
    rest: Floats

    def __call__(self, rows: Weighed) -> _Split:
        found = _Split.none(len(self.w))
        for zeta, share in rows:
            found.add(self._of(zeta, share))
        return found

    def _of(self, zeta: Floats, share: Floats) -> _Split:
        e, complement = sigmoid(zeta @ self.w + zeta @ self.rest)
        e *= share
        # A coarse part whose products sum exactly, and a fine one whose errors hardly count.
        coarse = np.rint(e * CODE_MAX) / CODE_MAX
        fine = e - coarse
        scaled = (coarse @ zeta) * 2.0 ** (2 * CODE_BITS)
        curve = e * complement
        return _Split(
            high=[int(part) for part in scaled.tolist()],
            low=fine @ zeta,
            hessian=zeta.T @ (zeta * curve[:, None]),
            rows=len(zeta),
            chunks=1,
            residual=float(e.sum()),
            rest=float(np.abs(fine).sum()),
            weight=float(curve.sum()),
        )


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


def _whole(value: arb) -> tuple[int, int]:
    """Return an integer, and how far it is at most from a real that is known to be finite."""
    lower = value.mid().floor()
    middle, error = lower.unique_fmpz(), value.rad().ceil().unique_fmpz()
    assert middle is not None
    assert error is not None
    return int(middle), int(error) + (lower != value.mid())


def ball_sigmoid(t: arb) -> arb:
    """Return 1 / (1 + exp(-t)), written so that nothing overflows."""
    if t.upper() < 0:
        small = t.exp()
        return small / (1 + small)
    return 1 / (1 + (-t).exp())


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
