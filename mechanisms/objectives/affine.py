"""Sums of convex functions of affine tilts over private rows, read in passes.

``L(theta) = scale sum_i p_i f(zeta_i'w) + c'theta + rho/2 ||A'theta||^2,   w = A' theta + w_0``

with private rows zeta_i and weights p_i in [0, 1], all 1 where none are given, and public
scale > 0, rho >= 0, A (d x K) and w_0; the linear part c is an exact function of the data. The
:class:`Link` is f' and f''. With t_i = zeta_i'w:

- gradient in code units  g = sum p_i f'(t_i) zeta_i, in theta scale A g + c + rho A A'theta
- Hessian in code units   H = sum p_i f''(t_i) zeta_i zeta_i', in theta scale A H A' + rho A A'

Each of these is a pass over the rows: a function of some of them that travels to where they are
(:class:`Rows`). What comes back is added up in their order.

*Conventions.* The entries of a row are multiples of 1/F in [-1, 1], exact in
float64; rows come in chunks of at most 2**13, so the product of 21-bit
residuals with 21-bit codes sums to an exact integer in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Generic, Protocol, TypeVar

import numpy as np
from flint import arb, arb_mat

from mechanisms.domain import CODE_BITS, CODE_MAX
from mechanisms.exact.balls import rational, rational_matrix
from mechanisms.exact.floats import Floats, working_precision

_WHOLE = np.ones(1)
GUARD_BITS = 64
"""What an exponential, a quotient and the sum over all rows may lose."""

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


@dataclass(slots=True, eq=False)
class Split:
    """Sums over rows: of p f'(t) zeta in two parts, and of p f''(t) zeta zeta'.

    ``high`` is exact, in units of 1/F^2: the products of a multiple of 1/F with codes, summed.
    ``low`` is of what is left, whose sizes add up to ``rest``; those of p f'(t) to ``residual`` and
    those of p f''(t) to ``weight``.
    """

    high: list[int]
    low: Floats
    hessian: Floats
    rows: int = 0
    chunks: int = 0
    residual: float = 0.0
    rest: float = 0.0
    weight: float = 0.0

    @classmethod
    def none(cls, width: int) -> Split:
        """Return the sums over no rows."""
        return cls([0] * width, np.zeros(width), np.zeros((width, width)))

    @classmethod
    def of(cls, zeta: Floats, slopes: Floats, curves: Floats) -> Split:
        """Return the sums over a chunk, given p f'(t), of size 1 at most, and p f''(t)."""
        # A coarse part whose products sum exactly, and a fine one whose errors hardly count.
        coarse = np.rint(slopes * CODE_MAX) / CODE_MAX
        fine = slopes - coarse
        scaled = (coarse @ zeta) * 2.0 ** (2 * CODE_BITS)
        return cls(
            high=[int(part) for part in scaled.tolist()],
            low=fine @ zeta,
            hessian=zeta.T @ (zeta * curves[:, None]),
            rows=len(zeta),
            chunks=1,
            residual=float(np.abs(slopes).sum()),
            rest=float(np.abs(fine).sum()),
            weight=float(curves.sum()),
        )

    def add(self, other: Split) -> None:
        """Add the sums over more rows."""
        self.high = [a + b for a, b in zip(self.high, other.high, strict=True)]
        self.low += other.low
        self.hessian += other.hessian
        self.rows += other.rows
        self.chunks += other.chunks
        self.residual += other.residual
        self.rest += other.rest
        self.weight += other.weight

    @property
    def gradient(self) -> list[Fraction]:
        """Return both parts of the first sum."""
        return [
            Fraction(a, 1 << (2 * CODE_BITS)) + Fraction(b)
            for a, b in zip(self.high, self.low.tolist(), strict=True)
        ]


class Link(Protocol):
    """The first two derivatives of f; it travels."""

    def slopes(self, t: Floats, /) -> Floats:
        """Return f'(t) of some tilts, in floats."""

    def curves(self, t: Floats, /) -> Floats:
        """Return f''(t) of some tilts, in floats."""

    def ball(self, t: arb, /) -> arb:
        """Return a ball around f'(t)."""


class AffineObjective:
    """L of the module note, but for what is certified of it in floats.

    Parameters
    ----------
    rows : Rows
        The rows zeta. Called once per pass over the data.
    link : Link
        f' and f''.
    public : AffineMap
        A, w_0, scale and steepness.
    linear : sequence of Fraction
        c, length d.
    weighted : bool
        Whether rows have weights.
    ridge : Fraction
        rho.
    """

    __slots__ = (
        "_linear",
        "_link",
        "_matrix",
        "_offset",
        "_public",
        "_pull",
        "_ridge",
        "_rows",
        "_scale",
        "_weighted",
    )

    def __init__(
        self,
        rows: Rows,
        link: Link,
        public: AffineMap,
        linear: Sequence[Fraction],
        *,
        weighted: bool = False,
        ridge: Fraction = Fraction(0),
    ) -> None:
        self._rows = rows
        self._link = link
        self._ridge = ridge
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
        for slope, curve in self._pass(_Model(self._link, theta @ self._matrix + self._offset)):
            gradient += slope
            hessian += curve
        square = float(self._ridge) * (self._matrix @ self._matrix.T)
        return (
            self._scale * (self._matrix @ gradient) + self._pull + square @ theta,
            self._scale * (self._matrix @ hessian @ self._matrix.T) + square,
        )

    def slope_along(self, theta: Floats, step: Floats) -> Callable[[float], float]:
        """Return t -> the derivative of the objective at theta + t step, in floats, a hint.

        Each call is a pass.
        """
        w, move = theta @ self._matrix + self._offset, step @ self._matrix
        ridge = float(self._ridge)
        level = float(self._pull @ step) + ridge * float((theta @ self._matrix) @ move)
        rising = ridge * float(move @ move)
        return lambda share: (
            self._scale * sum(self._pass(_SlopeAlong(self._link, w + share * move, move)))
            + level
            + share * rising
        )

    def gradient(self, theta: Sequence[Fraction], bits: int) -> list[arb]:
        """Return balls around the gradient, every record in ball arithmetic at ``bits`` bits.

        |zeta'w| <= ||w||_1, so with the bits of ||w||_1 and ``GUARD_BITS`` every tilt is known
        to far less than ``2**-bits``, however large it is.
        """
        w = self._public.pull(theta)
        working = bits + GUARD_BITS + math.ceil(sum(map(abs, w))).bit_length()
        totals = [(0, 0)] * self._public.width
        for some in self._pass(_Balls(self._link, tuple(w), bits, working)):
            # Integers and their errors: the sum is the same bits however the rows are parted.
            totals = [(a + c, b + d) for (a, b), (c, d) in zip(totals, some, strict=True)]
        with working_precision(working):
            last = arb((1, -bits)) / CODE_MAX
            pushed = self._push([(arb(whole) + arb(0, error)) * last for whole, error in totals])
            return self._ridged(theta, pushed)

    def _pass(self, function: Callable[[Weighed], T]) -> Iterator[T]:
        return self._rows(_OfWeighed(self._weighted, function))

    def _push(self, codes: Sequence[arb]) -> list[arb]:
        """Return scale A g + c."""
        scale = rational(self._public.scale)
        moved = (self._ball_matrix() * arb_mat([[g] for g in codes])).entries()
        return [scale * g + rational(c) for g, c in zip(moved, self._linear, strict=True)]

    def _ridged(self, theta: Sequence[Fraction], gradient: list[arb]) -> list[arb]:
        """Return a gradient with that of the ridge: rho A A'theta, exactly."""
        if not self._ridge:
            return gradient
        along = [
            sum(
                (row[k] * t for row, t in zip(self._public.matrix, theta, strict=True)), Fraction(0)
            )
            for k in range(self._public.width)
        ]
        return [
            entry + rational(self._ridge * sum(map(mul, row, along), Fraction(0)))
            for entry, row in zip(gradient, self._public.matrix, strict=True)
        ]

    def _ball_matrix(self) -> arb_mat:
        return rational_matrix(self._public.matrix)


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

    link: Link
    w: Floats

    def __call__(self, rows: Weighed) -> tuple[Floats, Floats]:
        width = len(self.w)
        gradient, hessian = np.zeros(width), np.zeros((width, width))
        for zeta, share in rows:
            t = zeta @ self.w
            gradient += (share * self.link.slopes(t)) @ zeta
            hessian += zeta.T @ (zeta * (share * self.link.curves(t))[:, None])
        return gradient, hessian


@dataclass(frozen=True, slots=True, eq=False)
class _SlopeAlong:
    """A pass: sum_i p_i f'(t_i) zeta_i'move at w, in floats."""

    link: Link
    w: Floats
    move: Floats

    def __call__(self, rows: Weighed) -> float:
        return sum(
            float((share * self.link.slopes(zeta @ self.w)) @ (zeta @ self.move))
            for zeta, share in rows
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Balls:
    """A pass: g at w times ``CODE_MAX 2**bits``, each entry an integer and its error: they travel.

    Every record is in ball arithmetic of ``working`` bits.
    """

    link: Link
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
                    sizes = [self.link.ball(t) * p for t, p in zip(tilts, parts, strict=True)]
                    total += arb_mat([sizes]) * codes
            return [whole_of(entry * arb((1, self.bits))) for entry in total.entries()]


def whole_of(value: arb) -> tuple[int, int]:
    """Return an integer, and how far it is at most from a real that is known to be finite."""
    lower = value.mid().floor()
    middle, error = lower.unique_fmpz(), value.rad().ceil().unique_fmpz()
    assert middle is not None
    assert error is not None
    return int(middle), int(error) + (lower != value.mid())
