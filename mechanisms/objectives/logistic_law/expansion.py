"""The logistic loss's gradient near a point, with proved errors, from one pass over the rows.

    g(theta) = sum_i c_i sigma(t_i) zeta_i,   t_i = zeta_i'theta,   sigma(t) = 1 / (1 + exp(-t))

over distinct signed rows ``zeta_i = (1 - 2 y_i) x_i`` with counts c_i: a record's gradient
``(sigma(x'theta) - y) x`` is sigma(zeta'theta) zeta for either label.

*Conventions.* The entries of zeta are multiples of 1/F in [-1, 1]; theta is in steps of 2**-g;
u are the boxes' coordinates, theta = V u, and ``z = zeta V`` is exact in float64.

*Expansion.* sigma's derivatives are sigma' = sigma (1 - sigma), sigma'' = sigma' (1 - 2 sigma) and
sigma''' = sigma' (1 - 6 sigma'). The fourth is sigma' x (3 x**2 - 2), x = 1 - 2 sigma, in size at
most sigma'. |log sigma'| has a slope of at most 1, so sigma'(t + u) <= sigma'(t) exp|u|, and
``|sigma'''(t + u)| <= |sigma'''(t)| + sigma'(t) (exp|u| - 1)``. Integrated three times, for any p
and theta = p + delta, with t_i now at p, s_i = zeta_i'delta, r >= max |s_i|, and |zeta_ij| <= 1,

    |g_j(theta) - g_j(p) - (H delta)_j - delta' Q_j delta / 2|
        <= r/6 delta'K delta + b(r) delta'H delta,

    b(r) = (exp(r) - 1 - r - r**2/2 - r**3/6) / r**2,

    H = sum_i c_i sigma'(t_i) zeta_i zeta_i',    K = sum_i c_i |sigma'''(t_i)| zeta_i zeta_i',
    Q_j = sum_i c_i sigma''(t_i) zeta_ij zeta_i zeta_i'

(b increases; its series has factors of r/5 at most, so that r**2 / 24 / (1 - r/5) is above it where
r < 5). H and K are positive semidefinite, so their roots are seminorms: on a box the centre's and
the sides' add up. There g is its value and slope at the centre, v' Q_j v / 2, and the remainder.

*Chords.* On a box of half widths h, t_i moves by at most ``S = |z_i|'h``. The chord of sigma
between t - S and t + S, ends lo and hi, stays within ``S**2 / 2 max |sigma''|`` of sigma,
|sigma''| = sigma' |1 - 2 sigma| being at most 0.0963 and at most the product of its factors'
largest values; and sigma increases, so it is within (hi - lo) / 2 of their mean. By the better of
the two a record's weight is ``a_i + b_i z_i'v +- c_i`` over the box, v = u - centre, and so

    g(theta) in sum c_i a_i zeta_i + (sum c_i b_i zeta_i z_i') v +- sum c_i c_i |zeta_i|.

It serves boxes that are too large for an expansion, where few rows are far from the others.

*Floats.* With u = 2**-53, t_i errs by at most tau = (d + 2) u ||theta||_1, so sigma and
sigma (1 - sigma) err relatively by at most ``2 (SIGMOID_ERROR + 2 tau)`` while tau < 1/4, plus
``SIGMOID_FLOOR``; products with counts and entries by 4 u; sums over chunks, in any order, by
(chunk + chunks) u of the sum of sizes. Products of two entries are exact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from flint import arb, arb_mat

from mechanisms.domain import CODE_MAX
from mechanisms.exact.arrays import Floats, Integers
from mechanisms.exact.floats import SIGMOID_ERROR, SIGMOID_FLOOR, UNIT_ROUNDOFF, sigmoid
from mechanisms.objectives.logistic_law.search import Hint, search
from mechanisms.objectives.sigmoid import ball_sigmoid
from mechanisms.samplers.boxes import Space

MARGIN = 2.0**-40
"""Covers the rounding of formulas in a few floats, relative to the sizes in them."""

_ROUNDING = 2.0**-48  # relative room for a few float operations
_CHUNK_ROWS = 1 << 13  # keeps the table of points and rows small
_LARGEST_REACH = 600.0  # exp stays within the floats
_SMALL_REACH = 1.0  # below, the difference loses its digits
_BENT = 4  # times the error of a curvature: that of what it is multiplied by, too
_TINY = 1e-300  # keeps roots and quotients of bounds finite
_LARGEST_BEND = 0.0963  # above max |sigma''| = 1 / (6 sqrt 3)
_PREFERRED = 0.7  # a chord must beat the plain interval clearly to be worth its slope


class Frame(Protocol):
    """Where theta lies, and how many rows there are, wherever they are."""

    @property
    def grid_bits(self) -> int:
        """Return g: theta is in steps of 2**-g."""

    @property
    def space(self) -> Space:
        """Return Theta and the coordinates of boxes."""

    @property
    def dimension(self) -> int:
        """Return d."""

    @property
    def step(self) -> float:
        """Return 2**-g, by which lengths in grid steps become lengths in scaled units."""

    @property
    def total(self) -> float:
        """Return the number of rows."""

    def relative_error(self, size: float) -> float:
        """Return the relative error of a sum over all rows, at ``||theta||_1 <= size`` (scaled)."""


@dataclass(frozen=True, slots=True, eq=False)
class SignedRecords:
    """Distinct signed rows on a grid of theta, and a hint where their loss is least.

    ``codes`` (n x d) are F zeta, ``products`` (n x d (d + 1) / 2) the pairs zeta_j zeta_k, j <= k.
    """

    codes: Integers
    zeta: Floats
    counts: Floats
    products: Floats
    grid_bits: int
    space: Space
    hint: Hint

    @classmethod
    def build(
        cls, codes: Integers, counts: Integers, *, grid_bits: int, radius: int
    ) -> SignedRecords:
        """Prepare distinct rows; the coordinates follow the Hessian at the hint, a cost only."""
        zeta, weights = codes / CODE_MAX, counts.astype(np.float64)
        hint = search(zeta, weights, radius * 2.0**-grid_bits)
        return cls(
            codes=codes,
            zeta=zeta,
            counts=weights,
            products=np.column_stack([zeta[:, j] * zeta[:, k] for j, k in pairs(zeta.shape[1])]),
            grid_bits=grid_bits,
            space=Space.uncorrelated(hint.hessian, radius),
            hint=hint,
        )

    @property
    def dimension(self) -> int:
        """Return d."""
        return int(self.codes.shape[1])

    @property
    def step(self) -> float:
        """Return 2**-g, by which lengths in grid steps become lengths in scaled units."""
        return 2.0**-self.grid_bits

    @property
    def total(self) -> float:
        """Return the number of rows, each as often as it occurs."""
        return float(self.counts.sum())

    def chunks(self) -> Iterator[slice]:
        """Yield slices of rows."""
        for start in range(0, len(self.codes), _CHUNK_ROWS):
            yield slice(start, start + _CHUNK_ROWS)

    def relative_error(self, size: float) -> float:
        """Return the relative error of a sum over all rows, at ``||theta||_1 <= size`` (scaled)."""
        order = (_CHUNK_ROWS + len(self.codes) // _CHUNK_ROWS + 8) * UNIT_ROUNDOFF
        return (term_error(self.dimension, size) + order) * (1 + MARGIN)


def term_error(dimension: int, size: float) -> float:
    """Return the relative error of a row's weights, at ``||theta||_1 <= size`` (scaled)."""
    tau = (dimension + 2) * UNIT_ROUNDOFF * size
    return math.inf if tau >= 0.25 else 2 * (SIGMOID_ERROR + 2 * tau)  # above, nothing is proved


def pairs(dimension: int) -> list[tuple[int, int]]:
    """Return the places of the upper triangle, row by row."""
    return [(j, k) for j in range(dimension) for k in range(j, dimension)]


def symmetric(entries: Floats, dimension: int) -> Floats:
    """Return the symmetric matrix whose upper triangle is given row by row."""
    matrix = np.empty((dimension, dimension))
    for entry, (j, k) in zip(entries, pairs(dimension), strict=True):
        matrix[j, k] = matrix[k, j] = entry
    return matrix


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums over rows at a point: g, H and K by their upper triangles, and the Q_j, a row each.

    ``errors`` are those of the entries of g and of all others.
    """

    gradient: Floats
    curves: Floats
    spreads: Floats
    bends: Floats
    errors: tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """g(p), H, K and the Q_j at a point p, scaled units, with the errors of their entries.

    ``bends`` has shape (d, d, d), Q_j first; ``slopes`` is H V, ``sheared_bends`` V' Q_j V.
    """

    point: Floats
    gradient: Floats
    gradient_error: float
    hessian: Floats
    spread: Floats
    bends: Floats
    error: float
    slopes: Floats
    sheared_bends: Floats

    @classmethod
    def of(cls, shear: Floats, point: Floats, sums: Sums) -> Expansion:
        """Return it from sums over rows."""
        d = len(point)
        hessian, spread = symmetric(sums.curves, d), symmetric(sums.spreads, d)
        bends = np.stack([symmetric(row, d) for row in sums.bends])
        return cls(
            point=point,
            gradient=sums.gradient,
            gradient_error=sums.errors[0] * (1 + MARGIN),
            hessian=hessian,
            spread=spread,
            bends=bends,
            error=sums.errors[1] * (1 + MARGIN),
            slopes=hessian @ shear,
            sheared_bends=shear.T @ bends @ shear,
        )

    def curved(self, offsets: Floats) -> tuple[Floats, Floats, Floats]:
        """Return ``g(p) + H delta + delta' Q_j delta / 2`` (k x d), its errors, and its slopes.

        Offsets (k x d) and slopes (k x d x d, in theta) are in scaled units.
        """
        sizes = np.abs(offsets)
        length = sizes.sum(axis=1, keepdims=True)
        half = np.einsum("jlm,km->kjl", self.bends, offsets) / 2
        slopes = self.hessian + half
        middle = self.gradient + (slopes @ offsets[:, :, None])[:, :, 0]
        most = np.abs(self.gradient).max() + length * (self._largest + length * self._most_bent)
        error = self.gradient_error + self.error * length * (1 + length) + _ROUNDING * most
        return middle, np.broadcast_to(error, middle.shape), slopes + half

    @property
    def _largest(self) -> float:
        return float(np.abs(self.hessian).max())

    @property
    def _most_bent(self) -> float:
        return float(np.abs(self.bends).max())

    def near(self, offset: Floats) -> tuple[Floats, Floats]:
        """Return g at ``p + offset``, and the errors of its entries, the remainder included."""
        middle, error, _ = self.curved(offset[None, :])
        return middle[0], error[0] + self.rest(offset[None, :], 0 * offset, 0.0)

    def rest(self, offsets: Floats, half: Floats, size: float) -> Floats:
        """Return upper bounds of what is beyond (k), on boxes of half widths V v about offsets.

        ``size`` is at least the sum of ``|V| half``, scaled.
        """
        reach = (np.abs(offsets).sum(axis=1) + size) * (1 + MARGIN)
        third, fourth = beyond(reach)
        spread, curve = (
            (
                np.sqrt(self._squares(matrix, offsets))
                + np.sqrt(self._box_square(matrix, half, size))
            )
            ** 2
            for matrix in (self.spread, self.hessian)
        )
        return np.asarray((third * spread + fourth * curve) * (1 + MARGIN))

    def rest_between(self, offsets: Floats) -> float:
        """Return an upper bound of what is beyond on the hull of p and offsets (k x d)."""
        # Each factor is convex, so that it is largest at a vertex.
        third, fourth = beyond(np.abs(offsets).sum(axis=1).max() * (1 + MARGIN))
        spread, curve = (
            self._squares(matrix, offsets).max() for matrix in (self.spread, self.hessian)
        )
        return float((third * spread + fourth * curve) * (1 + MARGIN))

    def _squares(self, matrix: Floats, offsets: Floats) -> Floats:
        """Return upper bounds of ``offset' M offset``, positive."""
        exact = ((offsets @ matrix) * offsets).sum(axis=1)
        length = np.abs(offsets).sum(axis=1)
        rounding = (MARGIN * float(np.abs(matrix).max()) + self.error) * length**2
        return np.asarray(np.maximum(exact, 0) + rounding + _TINY)

    def _box_square(self, matrix: Floats, half: Floats, size: float) -> float:
        """Return an upper bound of the same for offsets whose entries are at most ``half``."""
        exact = half @ np.abs(matrix) @ half
        rounding = (MARGIN * float(np.abs(matrix).max()) + self.error) * size**2
        return float(exact * (1 + MARGIN) + rounding + _TINY)


def beyond(reach: Floats) -> tuple[Floats, Floats]:
    """Return upper bounds of ``r / 6`` and ``(exp(r) - 1 - r - r**2 / 2 - r**3 / 6) / r**2``.

    They are infinite where floats end.
    """
    r = np.minimum(reach, _LARGEST_REACH)
    grown = np.exp(r)
    series = np.where(
        r < _SMALL_REACH,
        r**2 / 24 / (1 - np.minimum(r, 1) / 5),
        (grown - 1 - r - r**2 / 2 - r**3 / 6) / np.maximum(r, _SMALL_REACH) ** 2,
    )
    fourth = np.where(reach > _LARGEST_REACH, np.inf, series * (1 + MARGIN))
    return np.asarray(reach / 6 * (1 + MARGIN)), fourth


def expand(records: SignedRecords, points: Floats) -> list[Expansion]:
    """Return the expansions at points (k x d), any floats in grid steps."""
    d, count, size = records.dimension, len(points), records.products.shape[1]
    gradient, bends = np.zeros((count, d)), np.zeros((count, d, size))
    curves, spreads = np.zeros((count, size)), np.zeros((count, size))
    residual, curvature = np.zeros(count), np.zeros(count)
    scaled = points * records.step
    for part in records.chunks():
        zeta, counts, products = records.zeta[part], records.counts[part], records.products[part]
        weight, complement = sigmoid(scaled @ zeta.T)  # 1 - weight would lose its digits
        curve = weight * complement
        spread = np.abs(1 - 6 * curve)
        bent = complement - weight
        weight *= counts
        curve *= counts
        gradient += weight @ zeta
        residual += weight.sum(axis=1)
        curves += curve @ products
        curvature += curve.sum(axis=1)
        spreads += (spread * curve) @ products
        bent *= curve
        for k in range(count):
            bends[k] += (zeta.T * bent[k]) @ products
    floor = float(records.counts.sum()) * SIGMOID_FLOOR
    found = []
    for k in range(count):
        error = records.relative_error(float(np.abs(scaled[k]).sum()))
        errors = bent_errors(
            error * float(residual[k]) + floor, error * float(curvature[k]) + floor
        )
        sums = Sums(gradient[k], curves[k], spreads[k], bends[k], errors)
        found.append(Expansion.of(records.space.shear, points[k], sums))
    return found


def bent_errors(gradient: float, curve: float) -> tuple[float, float]:
    """Return the errors of g, and of H, K and the Q_j, by those of sums of sigma and of sigma'."""
    return gradient, _BENT * curve


def gradient_near(records: SignedRecords, point: Floats) -> tuple[Floats, Floats]:
    """Return g at a point, any floats in grid steps, and the errors of its entries."""
    scaled, gradient, residual = point * records.step, np.zeros(records.dimension), 0.0
    for part in records.chunks():
        weight = sigmoid(records.zeta[part] @ scaled)[0] * records.counts[part]
        gradient += weight @ records.zeta[part]
        residual += float(weight.sum())
    error = records.relative_error(float(np.abs(scaled).sum())) * residual
    floor = records.total * SIGMOID_FLOOR
    return gradient, np.full(len(gradient), (error + floor) * (1 + MARGIN))


@dataclass(frozen=True, slots=True, eq=False)
class Chords:
    """On a box: g(theta) lies within ``rest`` (d) of ``middle + slopes v``, scaled units.

    The errors of floats are in ``rest``; v = u - centre with |v| <= half.
    """

    middle: Floats
    slopes: Floats
    rest: Floats


def chords(records: SignedRecords, centres: Floats, half: Floats) -> list[Chords]:
    """Return what chords say of boxes ``|u - centre| <= half`` (k x d, grid steps)."""
    d, count, step = records.dimension, len(centres), records.step
    shear = records.space.shear
    points, side = centres @ shear.T * step, half * step
    slack, reach = rounding_slack(records, centres, half)
    middle, rest = np.zeros((count, d)), np.zeros((count, d))
    curves = np.zeros((count, records.products.shape[1]))
    for part in records.chunks():
        zeta, counts = records.zeta[part], records.counts[part]
        move = np.abs(zeta @ shear) @ side + slack
        mean, slope, gap = chord(points @ zeta.T, move)
        middle += (mean * counts) @ zeta
        curves += (slope * counts) @ records.products[part]
        rest += (gap * counts) @ np.abs(zeta)
    total = float(records.counts.sum())
    # sums of means, and of slopes (below 1/4) by moves, each within this of the sizes added
    error = 4 * (records.relative_error(reach) + MARGIN) * total * (1 + reach)
    found = []
    for k in range(count):
        slopes = symmetric(curves[k], d) @ shear
        found.append(Chords(middle[k], slopes, rest[k] * (1 + MARGIN) + error))
    return found


def rounding_slack(records: Frame, centres: Floats, half: Floats) -> tuple[float, float]:
    """Return how far a tilt on boxes may err by rounding, and the largest sum of its sizes."""
    sizes = (np.abs(centres) + half) @ np.abs(records.space.shear).T
    reach = float(sizes.sum(axis=1).max()) * records.step
    return tilt_slack(records, reach), reach


def tilt_slack(records: Frame, reach: float) -> float:
    """Return how far a tilt may err by rounding, where the sizes in it add up to ``reach``."""
    return 4 * (records.dimension + 4) * UNIT_ROUNDOFF * reach


def chord(t: Floats, move: Floats) -> tuple[Floats, Floats, Floats]:
    """Return mean, slope, gap: ``|sigma(t + s) - mean - slope s| <= gap`` for |s| <= move."""
    low, low_rest = sigmoid(t - move)
    high, high_rest = sigmoid(t + move)
    half = (high - low) / 2
    # sigma' is largest where the interval is nearest to 0, |1 - 2 sigma| at an end
    largest = np.where(
        (low < 0.5) & (high > 0.5), 0.25, np.maximum(low * low_rest, high * high_rest)
    )
    bent = largest * np.maximum(np.abs(1 - 2 * low), np.abs(1 - 2 * high))
    gap = np.minimum(bent, _LARGEST_BEND) * (move * move / 2)
    # Where the chord is no better than the plain interval, the interval has no slope to carry.
    straight = gap < _PREFERRED * half
    slope = np.where(straight, half / move, 0.0)
    return (low + high) / 2, slope, np.where(straight, gap, half)


def exact_gradient(records: SignedRecords, theta: Sequence[int]) -> list[arb]:
    """Return balls around g(theta), every row in ball arithmetic at the working precision."""
    shift = arb((1, -records.grid_bits)) / CODE_MAX  # in theta, so that rows stay integers
    w = arb_mat([[arb(index) * shift] for index in theta])
    total = arb_mat(1, records.dimension)
    for part in records.chunks():
        rows = arb_mat(records.codes[part].tolist())
        tilts = (rows * w).entries()
        weights = [
            ball_sigmoid(t) * int(c) for t, c in zip(tilts, records.counts[part], strict=True)
        ]
        total += arb_mat([weights]) * rows
    return [entry / CODE_MAX for entry in total.entries()]
