"""The logistic loss's gradient near a point, with proved errors, from one pass over the rows.

    g(theta) = sum_i c_i sigma(t_i) zeta_i,   t_i = zeta_i'theta,   sigma(t) = 1 / (1 + exp(-t))

over distinct signed rows ``zeta_i = (1 - 2 y_i) x_i`` with counts c_i: a record's gradient
``(sigma(x'theta) - y) x`` is sigma(zeta'theta) zeta for either label.

*Conventions.* The entries of zeta are multiples of 1/F in [-1, 1]; theta is in steps of 2**-g;
u are the boxes' coordinates, theta = V u, and ``z = zeta V`` is exact in float64.

*Expansion.* |log sigma'| has a slope of at most 1, so sigma'(t + s) lies within exp(+-|s|) of
sigma'(t). Integrated twice, for any p and theta = p + delta, with t_i now at p, s_i = zeta_i'delta
and r >= max |s_i|,

    |g_j(theta) - g_j(p) - (H delta)_j| <= sum_i c_i sigma'(t_i) |zeta_ij| (exp|s_i| - 1 - |s_i|)
                                        <= b(r) delta' T_j delta,   b(r) = (exp(r) - 1 - r) / r**2,

    H = sum_i c_i sigma'(t_i) zeta_i zeta_i',   T_j = sum_i c_i sigma'(t_i) |zeta_ij| zeta_i zeta_i'

(b increases, and is at most exp(r) / 2: compare series). Every T_j is positive semidefinite, so
its root is a seminorm: on a box the centre's and the sides' add up.

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
from mechanisms.objectives.logistic_search import Hint, search
from mechanisms.objectives.sigmoid import ball_sigmoid
from mechanisms.samplers.boxes import Space

MARGIN = 2.0**-40
"""Covers the rounding of formulas in a few floats, relative to the sizes in them."""

_ROUNDING = 2.0**-48  # relative room for a few float operations
_CHUNK_ROWS = 1 << 13  # keeps the table of points and rows small
_LARGEST_REACH = 600.0  # exp stays within the floats
_SMALL_REACH = 2.0**-10  # below, exp(r) - 1 - r loses its digits
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
class Expansion:
    """g(p), H and T at a point p, scaled units, with the errors of their entries.

    ``thirds`` has shape (d, d, d), T_j first; ``slopes`` is H V, ``sheared_thirds`` V' T_j V.
    """

    point: Floats
    gradient: Floats
    gradient_error: float
    hessian: Floats
    hessian_error: float
    thirds: Floats
    slopes: Floats
    sheared_thirds: Floats

    @classmethod
    def of(
        cls,
        shear: Floats,
        point: Floats,
        sums: tuple[Floats, Floats, Floats],
        errors: tuple[float, float],
    ) -> Expansion:
        """Return it from g, the upper triangles of H and T, and the errors of g and of these."""
        gradient, curves, bends = sums
        d = len(point)
        hessian = symmetric(curves, d)
        thirds = np.stack([symmetric(row, d) for row in bends])
        return cls(
            point=point,
            gradient=gradient,
            gradient_error=errors[0] * (1 + MARGIN),
            hessian=hessian,
            hessian_error=errors[1] * (1 + MARGIN),
            thirds=thirds,
            slopes=hessian @ shear,
            sheared_thirds=shear.T @ thirds @ shear,
        )

    def linear(self, offset: Floats) -> tuple[Floats, Floats]:
        """Return g(p) + H offset (scaled units), and the errors of its entries."""
        size = np.abs(offset)
        sizes = np.abs(self.gradient) + np.abs(self.hessian) @ size
        error = self.gradient_error + self.hessian_error * float(size.sum()) + _ROUNDING * sizes
        return self.gradient + self.hessian @ offset, error

    def near(self, offset: Floats) -> tuple[Floats, Floats]:
        """Return g at ``p + offset``, and the errors of its entries, the remainder included."""
        middle, error = self.linear(offset)
        reach = float(np.abs(offset).sum()) * (1 + MARGIN)
        return middle, error + bend(reach) * self.squares(offset)

    def squares(self, offset: Floats) -> Floats:
        """Return upper bounds of ``offset' T_j offset``, positive."""
        size = np.abs(offset)
        exact = offset @ self.thirds @ offset
        rounding = MARGIN * (size @ np.abs(self.thirds) @ size)
        return np.asarray(exact + rounding + self.hessian_error * float(size.sum()) ** 2 + _TINY)

    def box_squares(self, half: Floats, size: float) -> Floats:
        """Return upper bounds of the same for offsets V v with |v| <= half, ``|V| half`` summed."""
        exact = half @ np.abs(self.sheared_thirds) @ half
        rounding = (MARGIN * float(np.abs(self.thirds).max()) + self.hessian_error) * size**2
        return np.asarray(exact * (1 + MARGIN) + rounding + _TINY)


def bend(reach: float) -> float:
    """Return an upper bound of ``(exp(r) - 1 - r) / r**2``, infinite where floats end."""
    if reach > _LARGEST_REACH:
        return math.inf
    if reach < _SMALL_REACH:
        return math.exp(reach) / 2 * (1 + MARGIN)
    return (math.expm1(reach) - reach) / reach**2 * (1 + MARGIN)


def expand(records: SignedRecords, points: Floats) -> list[Expansion]:
    """Return the expansions at points (k x d), any floats in grid steps."""
    d, count = records.dimension, len(points)
    gradient = np.zeros((count, d))
    curves = np.zeros((count, records.products.shape[1]))
    bends = np.zeros((count, d, records.products.shape[1]))
    residual, curvature = np.zeros(count), np.zeros(count)
    scaled = points * records.step
    for part in records.chunks():
        zeta, counts, products = records.zeta[part], records.counts[part], records.products[part]
        weight, complement = sigmoid(scaled @ zeta.T)  # 1 - weight would lose its digits
        weight *= counts
        curve = weight * complement
        gradient += weight @ zeta
        curves += curve @ products
        sizes = np.abs(zeta).T
        # T_j: curvatures again, weighed by |zeta_j|, which bound the third derivatives.
        for k in range(count):
            bends[k] += (sizes * curve[k]) @ products
        residual += weight.sum(axis=1)
        curvature += curve.sum(axis=1)
    floor = float(records.counts.sum()) * SIGMOID_FLOOR
    found = []
    for k in range(count):
        error = records.relative_error(float(np.abs(scaled[k]).sum()))
        found.append(
            Expansion.of(
                records.space.shear,
                points[k],
                (gradient[k], curves[k], bends[k]),
                (error * float(residual[k]) + floor, error * float(curvature[k]) + floor),
            )
        )
    return found


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
    return 4 * (records.dimension + 4) * UNIT_ROUNDOFF * reach, reach


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
