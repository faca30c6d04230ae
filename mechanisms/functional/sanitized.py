"""Least squares from sanitized normal equations: post-processing, defined for all of them.

    theta = S (X'y)*,   S one of
      (X'X)*^+                    the pseudoinverse (Awan & Slavkovic, equation (5));
      ((X'X)* + lambda I)^+       ridge (6);
      sum_i v_i v_i' / max(l_i, tau)   with l_i, v_i the eigenvalues and -vectors of (X'X)*

in scaled coordinates (|x_ij| <= 1, |y_i| <= 1). Noise may make (X'X)* singular or
indefinite, and then (5) is arbitrarily large; the third rule is the default. It is (5)
wherever the data say more than the noise, tau being the largest eigenvalue the noise would
have by itself, twice the root of the mean over rows of their entries' summed variances
(Wigner's edge, ``2 sigma sqrt(d)`` for entries of one variance): public, like all of the law.

The paper's lambda = 16 m / epsilon, m the length of the sanitized vector, biases well determined
slopes. Root mean squared l2 error in scaled units, l-infinity noise, 200 draws each
(Cal.: California housing, house value on d - 1 columns, the last row on age and income):

=====  ===  ====  ======  ======  ========
n      d    eps   (5)     16m/e   tau rule
=====  ===  ====  ======  ======  ========
1e3    6    0.25  40      0.307   0.496
1e3    6    1     0.255   0.208   0.255
1e4    6    1     0.023   0.039   0.023
1e5    13   1     0.013   0.017   0.013
Cal.   8    1     52      3.92    3.77
Cal.   3    1     0.015   0.154   0.015
=====  ===  ====  ======  ======  ========

Whatever the rule, a theta with an l1 norm above the public bound is scaled back to it.

*Shrinkage.* The third rule's theta is then shrunk towards zero by positive-part James-Stein factors
(Stein 1981), made of the sanitized numbers and the known law alone. The noise of X'y gives theta
the covariance S C S'. Along its eigenvectors the noises z_i - E z_i are uncorrelated, of variances
E_i. The directions are cut into blocks, the noisiest first, of variances within a factor of
:data:`_ALIKE`, so that a well determined slope is not in one block with noise. Each block becomes

    z max(0, 1 - 2 a / |z|**2),   a = sum of its E_i - 2 max E_i,

and stays as it is where a <= 0, as for one or two directions. For normal noise of this covariance
each block then has at most the expected squared error that it has unshrunk, whatever the truth:
by Stein's identity the difference is the mean of ``4 a (a - sum E_i) / |z|**2 + 8 a sum E_i z_i**2
/ |z|**4``, at most 0 (Bock 1975), and where data say nothing it is nearly 0. By cells the
coordinates are those in which records spread evenly make X'X a multiple of I.
docs/research/tried.md has the figures.

*Interval.* A parametric bootstrap from sanitized quantities only: the answer is taken for the
truth, the known law of the noise is simulated around it (:mod:`mechanisms.geometry.laws`),
and half the interval's length is the 95% quantile of how far theta then moves, or the farther of
its 2.5% and 97.5% quantiles. It describes the
privacy noise, so it aims at the same rule's answer without noise; sampling error is not in it,
for the residuals are not released. It is that of theta before shrinkage, and is extended to the
answer where that is outside. Measured coverage, with and without an intercept, both
adjacencies: 93 to 99% of 150 draws for each coefficient at 20, 100 and 400 rows (epsilon 0.5)
and at 3,000 (epsilon 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np
from scipy.sparse import csr_array

from mechanisms.contract import LateNoise, Noise, Outcome
from mechanisms.exact.floats import Floats
from mechanisms.geometry.smooth import TAIL
from mechanisms.statistics.designs.scaling import RegressionScaling, ScaledColumn
from mechanisms.statistics.second_order import Jet

REPLICATES = 500  # enough for a 95% quantile that is right to about a percent of coverage
_RELATIVE_RANK = 1e-13  # smaller eigenvalues are rounding: the pseudoinverse leaves them out
_LARGEST = 1e300  # JSON has no infinity
_ALIKE = 9.0  # a factor of 3 between standard deviations, which are known to about that
_LEAST_USUAL = 1e-6  # of the largest eigenvalue: less is a direction that a design lacks


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """The computation of theta from the equations.

    Attributes
    ----------
    ridge
        gamma of the public penalty (gamma / 2) ||theta||**2, added to the sum of squared residuals.
        So lambda = gamma / 2; 0 is the pseudoinverse, None the default rule.
    bound
        The largest l1 norm of theta.
    """

    ridge: Fraction | None
    bound: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizedEquations:
    """(X'X)* and (X'y)*, each entry a number with its slopes in the noisy coordinates.

    Attributes
    ----------
    xx
        The entries (i, j), i <= j, of (X'X)*.
    xy
        The d entries of (X'y)*.
    yy
        (y'y)*; None where the squared target was not released.
    count
        n; None where it was not asked for.
    root
        W of the coordinates W'^-1 theta that the default rule is for: see :meth:`inverse_root`.
        None for those of theta itself.
    """

    xx: Mapping[tuple[int, int], Jet]
    xy: Sequence[Jet]
    yy: Jet | None = None
    count: Jet | None = None
    root: Floats | None = None

    @property
    def dimension(self) -> int:
        """Return d."""
        return len(self.xy)

    def matrices(self, entries: Floats) -> tuple[Floats, Floats]:
        """Return (X'X)* and (X'y)* of rows of entries, in the order of :meth:`jets`."""
        d = self.dimension
        xx = np.empty((len(entries), d, d))
        # One noisy entry stands on both sides of the diagonal: the matrix stays symmetric.
        for place, (i, j) in enumerate(self.xx):
            xx[:, i, j] = xx[:, j, i] = entries[:, place]
        return xx, entries[:, len(self.xx) :]

    def jets(self) -> list[Jet]:
        """Return all entries in one order."""
        return [*self.xx.values(), *self.xy]

    def noise_edge(self, noise: CoordinateNoise) -> float:
        """Return tau: it depends on the slopes alone, which are public."""
        if self.root is not None:
            return 2 * sqrt(self._turned_square(noise, self.root) / self.dimension)
        total = 0.0
        for (i, j), jet in self.xx.items():
            # Off the diagonal an entry is in two rows.
            total += noise.variance(jet) * (1 if i == j else 2)
        return 2 * sqrt(total / self.dimension)

    def _turned_square(self, noise: CoordinateNoise, root: Floats) -> float:
        """Return E ||W N W'||_F^2, N the noise of X'X, coordinates counted as uncorrelated.

        With N = sum_c v_c M_c it is the sum of Var(v_c) tr(M_c P M_c P), P = W'W.
        """
        inner, total = root.T @ root, 0.0
        parts: dict[int, Floats] = {}
        for (i, j), jet in self.xx.items():
            for at, slope in jet.slopes.items():
                part = parts.setdefault(at, np.zeros(inner.shape))
                part[i, j] = part[j, i] = float(slope * noise.stds[at])
        for part in parts.values():
            turned = part @ inner
            total += float((turned * turned.T).sum())
        return total

    def spread(self, noise: CoordinateNoise) -> Floats:
        """Return R with R R' the covariance of the noise of (X'y)*, shape (d, coordinates read).

        The coordinates that it reads are uncorrelated: negating the target or a column negates
        some sums and products, and leaves every ball as it is.
        """
        read = sorted({at for jet in self.xy for at in jet.slopes})
        found = np.zeros((self.dimension, len(read)))
        places = {at: place for place, at in enumerate(read)}
        for row, jet in enumerate(self.xy):
            for at, slope in jet.slopes.items():
                found[row, places[at]] = float(slope * noise.stds[at])
        return found

    def inverse_root(self) -> Floats:
        """Return W with W (X'X) W' a multiple of I, where X'X is not singular.

        The equations are those of records as they usually are. In the coordinates W'^-1 theta no
        direction then says less than others only for how its columns are coded.
        """
        entries = np.array([[float(jet.value) for jet in self.jets()]])
        values, vectors = np.linalg.eigh(self.matrices(entries)[0][0])
        least = _LEAST_USUAL * values[-1]
        return np.asarray(vectors.T / np.sqrt(np.maximum(values, least) / values[-1])[:, None])


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinateNoise:
    """The law of the noise in the coordinates, in their lattice units.

    ``simulated`` returns a number of vectors at rate 1, made of a seed; ``rate`` is epsilon / Delta
    or 1 / sigma. ``stds`` are the coordinates', and ``correlation`` that of two of them.
    """

    simulated: Callable[[int, bytes], Floats]
    dimension: int
    rate: Fraction
    stds: tuple[Fraction, ...]
    correlation: Callable[[int, int], float]

    def variance(self, jet: Jet) -> float:
        """Return the variance of a number linear in the coordinates."""
        parts = {at: float(slope * self.stds[at]) for at, slope in jet.slopes.items()}
        crossed = sum(
            self.correlation(one, other) * parts[one] * parts[other]
            for one, other in combinations(parts, 2)
        )
        # Rounding may leave a sum that cancels just below 0.
        return max(sum(part**2 for part in parts.values()) + 2 * crossed, 0.0)

    def simulate(self, jets: Sequence[Jet], *, seed: bytes, replicates: int = REPLICATES) -> Floats:
        """Return simulated noise of numbers linear in the coordinates, (replicates, numbers)."""
        cells = [
            (row, place, float(slope / self.rate))
            for row, jet in enumerate(jets)
            for place, slope in jet.slopes.items()
        ]
        rows, places, weights = (np.array(part) for part in zip(*cells, strict=True))
        shape = (len(jets), self.dimension)
        linear = csr_array((weights, (rows, places)), shape=shape)
        vectors = self.simulated(replicates, seed)
        return np.asarray((linear @ vectors.T).T, dtype=np.float64)


def equations(
    scaling: RegressionScaling, sums: Mapping[tuple[int, int], Jet]
) -> SanitizedEquations:
    """Return the equations from sums of products of (1, codes / F): see ``Layout.sums``.

    The sums' columns are those of ``scaling.columns``: the features, then the target.
    """
    design: list[tuple[int, ScaledColumn | None]] = [(0, None)] if scaling.intercept else []
    design += list(enumerate(scaling.features, start=1))
    target = (len(scaling.features) + 1, scaling.target)
    size = range(len(design))
    return SanitizedEquations(
        xx={(i, j): _product(sums, design[i], design[j]) for i in size for j in size if i <= j},
        xy=[_product(sums, row, target) for row in design],
        yy=_product(sums, target, target) if (target[0], target[0]) in sums else None,
        count=sums[0, 0],
    )


def _product(
    sums: Mapping[tuple[int, int], Jet],
    one: tuple[int, ScaledColumn | None],
    two: tuple[int, ScaledColumn | None],
) -> Jet:
    """Return the sum over records of the product of two scaled columns (None: the constant 1)."""
    total = Jet(Fraction(0), {})
    for i, left in _affine(one):
        for j, right in _affine(two):
            total += sums[min(i, j), max(i, j)].scaled(left * right)
    return total


def _affine(column: tuple[int, ScaledColumn | None]) -> list[tuple[int, Fraction]]:
    """Return a scaled column's nonzero weights on the constant 1 and on its code / F."""
    place, scaled = column
    if scaled is None:
        return [(0, Fraction(1))]
    centre = scaled.scale(0)
    slope = (place, scaled.scale(scaled.largest) - centre)
    return [(0, centre), slope] if centre else [slope]


def solve(xx: Floats, xy: Floats, rule: Rule, edge: float, root: Floats | None = None) -> Floats:
    """Return theta of each of several equations: shapes (k, d, d) and (k, d) to (k, d).

    Parameters
    ----------
    edge : float
        tau, which the default rule needs.
    root : array of float
        W of the coordinates that the default rule is for; None for those of theta.
    """
    turned = root if rule.ridge is None else None
    if turned is not None:
        xx, xy = turned @ xx @ turned.T, xy @ turned.T
    inverse, vectors, size = _inverted(xx, rule, edge)
    along = np.einsum("kji,kj->ki", vectors, xy / size[:, None])
    theta: Floats = np.einsum("kij,kj->ki", vectors, along * inverse)
    if turned is not None:
        theta = theta @ turned
    return _within(theta, rule)


def _inverted(xx: Floats, rule: Rule, edge: float) -> tuple[Floats, Floats, Floats]:
    """Return the eigenvalues of S times the size of X'X, its eigenvectors, and that size."""
    size = np.abs(xx).max(axis=(1, 2))
    # Scaled to size 1 first: released moments may be as large as floats allow.
    size = np.where(size > 0, size, 1.0)
    values, vectors = np.linalg.eigh(xx / size[:, None, None])
    if rule.ridge is None:
        # Negative eigenvalues are noise as well, and count as tau.
        inverse = 1 / np.maximum(values, np.maximum(edge / size, np.finfo(float).eps)[:, None])
    else:
        values = values + (float(rule.ridge) / 2 / size)[:, None]
        sizes = np.abs(values)
        kept = sizes > _RELATIVE_RANK * np.maximum(sizes.max(axis=1, keepdims=True), 1e-300)
        inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    return inverse, vectors, size


def _within(theta: Floats, rule: Rule) -> Floats:
    """Return each theta, scaled back to the bound if its l1 norm is above it."""
    length = np.abs(theta).sum(axis=1, keepdims=True)
    bound = float(rule.bound)
    return np.asarray(theta * np.minimum(1.0, bound / np.maximum(length, bound)))


def shrunk(
    theta: Floats,
    xx: Floats,
    rule: Rule,
    *,
    edge: float,
    spread: Floats,
    root: Floats | None = None,
) -> Floats:
    """Return theta, shape (d,), shrunk by the known law of its noise; as it is with a ridge.

    Parameters
    ----------
    xx : array of float
        (X'X)*, shape (d, d).
    edge, root : float, array of float
        As of :func:`solve`.
    spread : array of float
        R with R R' the covariance of the noise of (X'y)*: :meth:`SanitizedEquations.spread`.
    """
    if rule.ridge is not None:
        return theta
    turned = np.eye(len(theta)) if root is None else root
    inverse, vectors, size = _inverted((turned @ xx @ turned.T)[None], rule, edge)
    noise = inverse[0][:, None] * (vectors[0].T @ turned @ (spread / size[0]))
    directions, stds = directions_of(vectors[0] @ noise)
    coordinates = np.linalg.solve(turned.T, theta)
    along = directions.T @ coordinates
    # what has no noise is in no direction, and stays
    certain = coordinates - directions @ along
    found = certain + directions @ (along * james_stein(along**2, stds))
    return np.asarray(_within((found @ turned)[None], rule)[0])


def directions_of(noise: Floats) -> tuple[Floats, Floats]:
    """Return orthonormal directions without common noise, and their deviations, descending.

    ``noise`` is a root of the covariance: R, where that is R R'.
    """
    directions, stds, _ = np.linalg.svd(noise, full_matrices=False)
    return directions, stds


def james_stein(squares: Floats, stds: Floats) -> Floats:
    """Return the factor of each direction by the rule for blocks; ``stds`` descend."""
    factors, start = np.ones(len(squares)), 0
    while start < len(squares):
        largest = stds[start]
        block = slice(start, start + int(np.sum(stds[start:] ** 2 * _ALIKE >= largest**2)))
        excess = float(np.sum(stds[block] ** 2) - 2 * largest**2)
        square = float(np.sum(squares[block]))
        if excess > 0:
            factors[block] = max(0.0, 1 - 2 * excess / square) if square > 0 else 0.0
        start = block.stop
    return factors


def regression_outcome(
    sanitized: SanitizedEquations,
    scaling: RegressionScaling,
    rule: Rule,
    noise: CoordinateNoise,
    *,
    seed: bytes,
    centred: bool,
) -> Outcome:
    """Return the coefficients in column units, and the bootstrap's description of their noise.

    Parameters
    ----------
    seed : bytes
        Public: the sanitized numbers. The same ones give the same interval.
    centred : bool
        Whether intervals surround the coefficients (else zero, in a preview).
    """
    jets, edge, root = sanitized.jets(), sanitized.noise_edge(noise), sanitized.root
    centre = np.array([[float(jet.value) for jet in jets]])
    xx, xy = sanitized.matrices(centre)
    theta = solve(xx, xy, rule, edge, root)[0]
    kept = shrunk(theta, xx[0], rule, edge=edge, spread=sanitized.spread(noise), root=root)
    answer, middles = (_answer(each, scaling) for each in (kept, theta))

    def described() -> Noise:
        entries = centre + noise.simulate(jets, seed=seed)
        moved = solve(*sanitized.matrices(entries), rule, edge, root) - theta
        std, half = _spreads(moved, answer_slopes(scaling))
        ends = {
            name: [_finite(min(value, middle - reach)), _finite(max(value, middle + reach))]
            for name, reach in zip(scaling.names, half.tolist(), strict=True)
            for value, middle in [(answer[name], middles[name]) if centred else (0.0, 0.0)]
        }
        stds = {name: float(std[place]) for place, name in enumerate(scaling.names)}
        return Noise(std={"coefficients": stds}, interval_95={"coefficients": ends})

    return Outcome(value={"coefficients": answer}, noise=LateNoise(described))


def _answer(theta: Floats, scaling: RegressionScaling) -> dict[str, float]:
    """Return the coefficients in column units."""
    value = scaling.unscale([Fraction(float(entry)) for entry in theta])
    return {name: float(value[name]) for name in scaling.names}


def _finite(value: float) -> float:
    """Return the nearest number that JSON can hold."""
    return float(min(max(value, -_LARGEST), _LARGEST))


def _spreads(moved: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """Return the standard deviation and the 95% half-width of each answered number.

    ``moved`` holds replicates of theta around its centre, (replicates, d); ``widths`` the
    answered numbers as linear functions of theta, (answers, d).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        answers = np.clip(np.nan_to_num(moved @ widths.T), -_LARGEST, _LARGEST)
    size = np.maximum(np.abs(answers).max(axis=0), np.finfo(float).tiny)
    # Squares of numbers near the largest float would overflow: divided by the largest one first.
    std = size * np.sqrt(np.mean((answers / size) ** 2, axis=0))
    # of a skewed law both ends are covered, not only what is nearer
    ends = np.quantile(answers, (TAIL / 2, 1 - TAIL / 2), axis=0)
    half = np.quantile(np.abs(answers), 1 - TAIL, axis=0, method="higher")
    half = np.maximum(half, np.abs(ends).max(axis=0))
    return std, half


def answer_slopes(scaling: RegressionScaling) -> Floats:
    """Return the coefficients, in the order of ``scaling.names``, as linear functions of theta."""
    d = scaling.dimension
    origin = scaling.unscale([Fraction(0)] * d)
    columns = [
        scaling.unscale([Fraction(int(place == one)) for place in range(d)]) for one in range(d)
    ]
    return np.array(
        [[float(column[name] - origin[name]) for column in columns] for name in scaling.names]
    )
