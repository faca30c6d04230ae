r"""The curvature of a loss at a released theta, as an additive statistic: logistic and Huber's.

    T(D) = sum_i w(x_i'theta) x_i x_i',   w(t) = 4 sigma(t) (1 - sigma(t)) in [0, 1],

the d (d + 1) / 2 entries j <= k, a quarter of which is the Hessian. Theta is public by now: it has
been released.

*Integers.* Each factor is one of a record alone, and an integer: columns are rounded to multiples
of 1/N, N = 2**10; x'theta is an exact integer sum of those with theta rounded to a public grid, cut
to multiples of 1/64 in [-16, 16]; w is read there from a public table of multiples of 1/N. So
|contribution| <= N**3, and no float has a say: products are summed as floats that hold integers
below 2**53.

**Sensitivity.** In units of N**3 a square w x_j**2 lies in [0, 1], a product in [-1, 1].

- replace-one: with squares taken twice every entry moves by at most 2, and so it does where a
  record may come or go as well (a filter): 2 w x_j**2 <= 2.
- add-remove: with squares taken once every entry moves by at most 1.

The differences lie in that cube, which is drawn from in the l-infinity norm.

*Huber's loss* with the threshold k and t = theta'x - y needs two matrices, of the same form:

    T(D) = (sum_i 1{|t_i| < k} x_i x_i',  sum_i (psi(t_i) / k)**2 x_i x_i'),

with psi(t) = t cut to [-k, k]: the Hessian, and the covariance of the score over k**2. This is the
sandwich, which holds whatever the residuals' law is. t is an exact integer: columns are rounded to
multiples of 2**-16 for it, theta to its grid; |psi| / k is rounded down to a multiple of 1/N, and
so is its square. Both weights lie in [0, 1], so the bounds are those above, for each of twice as
many entries.

*Coefficients that solve a disturbed equation, and how far they may be from the population's.* A
mechanism released theta with ``grad(theta) + gamma theta + V = 0``
(:class:`~mechanisms.contract.Disturbance`). At the population's theta_0 the gradient is the score
S: a sum of n independent terms of mean 0. With H the Hessian of the loss, to first order

    theta_0 = theta + H^-1 (gamma theta + V + S),

and without privacy the rows alone would give ``theta + H^-1 (gamma theta + V)``. So the ridge's
bias is taken back. V is simulated by its law at theta; H and the law of S come from a second
release of the same records (:class:`Curved`), whose own noise is simulated as that of moments is.

The exponential mechanism draws theta with density exp(-c (loss(theta) + gamma / 2 ||theta||^2)).
Of least squares that is normal around the solution of ``grad(theta) + gamma theta = 0``, with the
covariance ``((H + gamma) c)^-1``. So the equation holds with ``V ~ N(0, (H + gamma) / c)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, product
from math import exp, sqrt
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, Disturbance, Inference
from mechanisms.domain import CENTRE, CODE_BITS, NARROW, Column, NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.geometry.laws import simulate
from mechanisms.geometry.spaces import AdjacentOutputSpace, cube_space
from mechanisms.inference.evidence import Answers, Simulation, scaled_theta, spread_of
from mechanisms.inference.regression import Spectra
from mechanisms.knorm import IntegerNoise, integer_noise
from mechanisms.privacy import Adjacency, EpsilonShare, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.statistics.designs.rows import scaled_codes
from mechanisms.statistics.designs.scaling import RegressionScaling, ScaledColumn

COLUMN_BITS = 10  # N = 2**10
# Theta and the table are that fine. Beyond 16 the curvature is below 2**-20, and rounds to 0.
THETA_BITS, _TABLE_BITS = 12, 6
_REACH, _LARGEST_THETA = 16, 1 << 10
_CHUNK = 1 << 18  # rows: their sums of products stay integers below 2**53
FINE_BITS = 16  # of columns in residuals
LEAST_THRESHOLD = Fraction(1, 1 << 10)
"""Of Huber's loss: below, rounded residuals would decide which records it squares."""


METHOD = (
    "simulated from the law of the released coefficients and the noisy curvature of the loss at "
    "them, for rows that are drawn independently and a logistic model that holds; sampling and "
    "privacy noise together; to first order; values outside their bounds count as the bound"
)


HUBER = (
    "simulated from the law of the released coefficients and the noisy curvature and score of the "
    "loss at them (a sandwich), for rows that are drawn independently; of the line that has the "
    "least Huber's loss in the population; sampling and privacy noise together; to first order; "
    "values outside their bounds count as the bound"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curvature:
    """T of one regression and its noise: the Hessian, and what the score's covariance needs.

    ``read`` are the columns a draw reads. ``threshold`` is that of Huber's loss, in scaled units;
    None for the logistic loss, whose Hessian is the score's covariance too.
    """

    scaling: RegressionScaling
    replaced: bool
    read: tuple[str, ...]
    space: AdjacentOutputSpace
    noise: IntegerNoise
    threshold: Fraction | None = None
    usual_weight: ClassVar[float] = 0.7

    @property
    def method(self) -> str:
        """Return its assumptions on the population, in words."""
        return METHOD if self.threshold is None else HUBER

    @classmethod
    def calibrated(
        cls,
        scaling: RegressionScaling,
        schema: Schema,
        epsilon: PrivacyLoss,
        *,
        read: tuple[str, ...],
        threshold: Fraction | None = None,
    ) -> Self:
        """Return T with noise that makes it epsilon-DP at any theta."""
        calibrate = partial(integer_noise, norm="linf", epsilon=epsilon.fraction)
        return cls.of(scaling, schema, calibrate, read=read, threshold=threshold)

    @classmethod
    def of(
        cls,
        scaling: RegressionScaling,
        schema: Schema,
        noise: Callable[[AdjacentOutputSpace], IntegerNoise],
        *,
        read: tuple[str, ...],
        threshold: Fraction | None = None,
    ) -> Self:
        """Return T with this noise on its space."""
        replaced = schema.adjacency is Adjacency.REPLACE_ONE
        matrices = 1 if threshold is None else 2
        space = cube_space(
            matrices * scaling.dimension * (scaling.dimension + 1) // 2,
            half_width=Fraction(2 if replaced else 1),
            unit=1 << (3 * COLUMN_BITS),
            unit_name="largest curvatures of one record",
            description="a cube: every entry of the curvature moves by as much as one record can",
        )
        return cls(
            scaling=scaling, replaced=replaced, read=read, space=space, noise=noise(space),
            threshold=threshold,
        )  # fmt: skip

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the entries (j, k), j <= k, in the order of each matrix in the vector."""
        return tuple(combinations_with_replacement(range(self.scaling.dimension), 2))

    def draw(self, theta: Sequence[Fraction], data: Data, randomness: Randomness) -> list[Fraction]:
        """Return T(D; theta) + V: the private step, all of it."""
        added, steps = self.noise.draw(randomness), self.noise.refinement
        return [
            Fraction(exact * steps + error, steps)
            for exact, error in zip(self.total(theta, data), added, strict=True)
        ]

    def total(self, theta: Sequence[Fraction], data: Data) -> list[int]:
        """Return T(D) at theta, exactly; private."""
        steps = np.array([on_grid(entry) for entry in theta], dtype=np.int64)
        size = self.scaling.dimension
        function: Callable[[Block], list[NDArray[np.object_]]]
        if self.threshold is None:
            function = partial(_sum_of, self.scaling, steps, _table())
        else:
            function = partial(_sums_of_huber, self.scaling, steps, self.threshold)
        totals = [np.zeros((size, size), dtype=object) for _ in range(self.matrices)]
        for some in data.map(function, self.read):
            totals = [total + each for total, each in zip(totals, some, strict=True)]
        doubled = 2 if self.replaced else 1
        return [
            int(total[j, k]) * (doubled if j == k else 1) for total in totals for j, k in self.pairs
        ]

    @property
    def matrices(self) -> int:
        """Return how many matrices there are in the vector."""
        return 1 if self.threshold is None else 2

    def possible(self, vector: Sequence[Fraction], simulated: Simulation) -> tuple[Spectra, Floats]:
        """Return possible Hessians, and a score of possible covariance for each."""
        normals = simulated.normals("scores", self.scaling.dimension)
        if self.threshold is None:
            (hessians,) = self._matrices(vector, simulated, 4 << (3 * COLUMN_BITS))
            spectra = Spectra.of(hessians)
            return spectra, spectra.times(normals, 0.5)
        hessians, covariances = self._matrices(vector, simulated, 1 << (3 * COLUMN_BITS))
        # Noise may leave a covariance that is none: what is below 0 counts as 0.
        values, vectors = np.linalg.eigh(covariances)
        scores = Spectra(values=np.maximum(values, 0.0), vectors=vectors).times(normals, 0.5)
        return Spectra.of(hessians), float(self.threshold) * scores

    def _matrices(
        self, vector: Sequence[Fraction], simulated: Simulation, unit: int
    ) -> tuple[Floats, ...]:
        """Return possible matrices without noise, each of shape (replicates, d, d)."""
        size, noise = self.scaling.dimension, simulated.noises() / unit
        found = [np.empty((simulated.replicates, size, size)) for _ in range(self.matrices)]
        for place, (matrix, (j, k)) in enumerate(product(found, self.pairs)):
            entry = float(vector[place] / unit) - noise[:, place]
            if j == k and self.replaced:
                entry = entry / 2
            matrix[:, j, k] = matrix[:, k, j] = entry
        return tuple(found)


def _sum_of(
    scaling: RegressionScaling, steps: NDArray[np.int64], table: Floats, block: Block
) -> list[NDArray[np.object_]]:
    """Return the sum over a block, exactly; the table comes along, made in one place for all."""
    rows = scaled_rows(scaling, block, COLUMN_BITS)
    return [_weighed(rows, table[_places(rows @ steps)])]


def _sums_of_huber(
    scaling: RegressionScaling, steps: NDArray[np.int64], threshold: Fraction, block: Block
) -> list[NDArray[np.object_]]:
    """Return the sums over a block, exactly: of the Hessian, and of the score's covariance."""
    assert scaling.target is not None  # of a linear regression
    products = scaled_rows(scaling, block, FINE_BITS) @ steps
    target = _scaled(scaling.target, block, FINE_BITS)
    residuals = np.abs(products - (target << THETA_BITS))
    most = int(threshold * (1 << (FINE_BITS + THETA_BITS)))
    shares = (np.minimum(residuals, most) << COLUMN_BITS) // most
    rows = scaled_rows(scaling, block, COLUMN_BITS)
    return [
        _weighed(rows, np.where(residuals < most, float(1 << COLUMN_BITS), 0.0)),
        _weighed(rows, ((shares * shares) >> COLUMN_BITS).astype(np.float64)),
    ]


def _weighed(rows: NDArray[np.int64], weights: Floats) -> NDArray[np.object_]:
    """Return the sum of w x x', x and w multiples of 1 / N."""
    total = np.zeros((rows.shape[1], rows.shape[1]), dtype=object)
    for start in range(0, len(rows), _CHUNK):
        floats = rows[start : start + _CHUNK].astype(np.float64)
        # Whole numbers that floats hold: in which order they are added does not matter.
        found = (floats * weights[start : start + _CHUNK, None]).T @ floats
        total = total + np.rint(found).astype(np.int64).astype(object)
    return total


def scaled_rows(scaling: RegressionScaling, block: Block, bits: int) -> NDArray[np.int64]:
    """Return the scaled columns as multiples of 2**-bits."""
    columns = [_scaled(column, block, bits) for column in scaling.features]
    if scaling.intercept:
        height = len(next(iter(block.values())))
        columns.insert(0, np.full(height, 1 << bits, dtype=np.int64))
    return np.column_stack(columns)


def _scaled(column: ScaledColumn, block: Block, bits: int) -> NDArray[np.int64]:
    # half a step is added, so that a shift rounds to the nearest
    half = 1 << (CODE_BITS - bits - 1)
    return (scaled_codes(column, block[column.name]) + half) >> (CODE_BITS - bits)


def on_grid(entry: Fraction) -> int:
    """Return an entry of theta in steps of its grid, within its reach."""
    most = _LARGEST_THETA << THETA_BITS
    return min(max(round(entry * (1 << THETA_BITS)), -most), most)


def _places(products: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where in the table a record's x'theta is, of products in units of both grids."""
    cut = products >> (COLUMN_BITS + THETA_BITS - _TABLE_BITS)
    most = _REACH << _TABLE_BITS
    return np.asarray(np.clip(cut, -most, most - 1) + most, dtype=np.int64)


def _table() -> Floats:
    """Return w at the middles of its cells, as multiples of 1 / N."""
    cells = range(-_REACH << _TABLE_BITS, _REACH << _TABLE_BITS)
    middles = ((cell + 0.5) / (1 << _TABLE_BITS) for cell in cells)
    # A library's exp may differ by a digit, so one process makes the table and sends it to all.
    weights = [4 * exp(-abs(t)) / (1 + exp(-abs(t))) ** 2 for t in middles]
    return np.array(
        [float(min(round(weight * (1 << COLUMN_BITS)), 1 << COLUMN_BITS)) for weight in weights]
    )


# Coefficients that solve a disturbed equation, and how far they may be from the population's

_EDGE = 1 - 2**-10  # of the bound: nearer, theta may have been held by it


class Curved(Protocol):
    """A second release, which gives the curvature and the score's law."""

    @property
    def usual_weight(self) -> float:
        """Return that of a record in the curvature, of at most 1."""

    @property
    def scaling(self) -> Any:
        """Return the coordinates of the curvature."""

    @property
    def noise(self) -> IntegerNoise:
        """Return the law of its noise."""

    @property
    def space(self) -> AdjacentOutputSpace:
        """Return its adjacent output space."""

    @property
    def method(self) -> str:
        """Return its assumptions on the population, in words."""

    def draw(self, theta: Sequence[Fraction], data: Data, randomness: Randomness) -> list[Fraction]:
        """Return the noisy vector at a theta that has been released."""

    def possible(self, vector: Sequence[Fraction], simulated: Simulation) -> tuple[Spectra, Floats]:
        """Return possible Hessians, and a score for each: shape (replicates, d)."""


CLEARLY = 2.0
"""How far above the epsilon where half of the intervals say nothing hardly one does."""
_BOOLEAN = 0.5
"""The variance of a boolean in scaled units, of which one value is twice as frequent at least."""


def enough_times(
    curved: Curved,
    schema: Schema,
    epsilon: PrivacyLoss | EpsilonShare,
    *,
    deviation: float | None = None,
) -> tuple[float, float]:
    """Return how many times this epsilon leaves hardly an interval open, 1 at most if it does.

    With entries of the deviation s, d columns and n records half of the intervals are open where
    the noise is as large as the least eigenvalue, and hardly one is at half of that noise:

        s d / (n w v) = 1,   v the least variance of a feature with its mean,

    w the usual weight of a record. So it is in 40 settings (every loss, 1 to 6 features, numbers or
    booleans). Public facts alone enter: first as many rows as are assumed, whose features spread as
    is typical of them, or else fill their bounds; then as few as are considered
    (:attr:`~mechanisms.domain.Schema.considered_rows`), with narrow features where nothing is
    stated. ``deviation`` is s where the space is no cube.
    """
    change = 2 if schema.adjacency is Adjacency.REPLACE_ONE else 1
    entries = curved.space.dimension
    noise = change * sqrt((entries + 1) * (entries + 2) / 3) / float(epsilon.fraction)
    noise = noise if deviation is None else deviation
    columns = [schema.columns[each.name] for each in curved.scaling.features]
    fewest, assumed = schema.considered_rows
    scaled = CLEARLY * noise * float(curved.scaling.dimension) / curved.usual_weight
    wide, narrow = (
        min((_variance(each, narrow=narrow) for each in columns), default=1.0)
        for narrow in (False, True)
    )
    return scaled / (assumed * wide), scaled / (fewest * narrow)


def _variance(column: Column, *, narrow: bool) -> float:
    """Return a column's variance in half-widths of its bounds, next to a constant one."""
    if not isinstance(column, NumberColumn) or column.boolean:
        return _BOOLEAN
    half, stated = (column.upper - column.lower) / 2, column.typical
    if stated is not None:
        middle = float((stated.mean - column.lower) / half) - 1
        variance = float(stated.std / half) ** 2
    elif narrow:
        middle, variance = 2 * CENTRE - 1, (2 * NARROW) ** 2
    else:
        middle, variance = 0.0, 1 / 3
    return min(variance, 1.0) / (1 + middle**2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """How one regression's coefficients were released."""

    scaling: Any
    disturbance: Disturbance
    curved: Curved
    cost: str

    def infer(
        self, coefficients: dict[str, float], vector: Sequence[Fraction], simulated: Simulation
    ) -> Inference:
        """Return the inference from released coefficients and the second release."""
        theta = scaled_theta(self.scaling, coefficients)
        spectra, scores = self.curved.possible(vector, simulated)
        joined = self._joined()
        ridge = float(self.disturbance.ridge) * joined @ (joined.T @ theta)
        pull = ridge + self._tilts(theta, spectra, simulated)
        rows, population = (theta + spectra.times(part, -1) for part in (pull, pull + scores))
        bound = self.disturbance.bound
        # Held by the bound, theta solves no such equation: nothing is said.
        if bound is not None and np.abs(theta).sum() >= float(bound) * _EDGE:
            rows, population = np.full_like(rows, np.nan), np.full_like(population, np.nan)
        answers = Answers.of(self.scaling, bound)
        places = {name: place for place, name in enumerate(answers.names)}

        def noise(name: str) -> tuple[float, float]:
            place = places[name]
            return spread_of(answers.at(place, rows), answers.limits(place))

        return Inference(
            terms=answers.terms(coefficients, population, noise),
            method=self.curved.method,
            cost=self.cost,
        )

    def _tilts(self, theta: Floats, spectra: Spectra, simulated: Simulation) -> Floats:
        """Return simulated V, shape (replicates, d)."""
        d, rate = len(theta), self.disturbance.rate(float(np.abs(theta).sum()))
        # The exponential mechanism: normal, with the covariance (H + gamma) / c.
        if self.disturbance.ball is None:
            held = replace(spectra, values=spectra.values + float(self.disturbance.ridge))
            tilts = held.times(simulated.normals("tilt", d), 0.5) / np.sqrt(rate)
            return np.asarray(tilts, dtype=np.float64)
        parts = [
            simulate(self.disturbance.ball, size, simulated.replicates, seed=simulated.seed + name)
            for size, name in self._blocks()
        ]
        return np.asarray(np.hstack(parts) @ self._joined().T / rate, dtype=np.float64)

    def _joined(self) -> Floats:
        """Return F."""
        if self.disturbance.joined is None:
            return np.eye(self.scaling.dimension)
        return np.array(self.disturbance.joined, dtype=np.float64)

    def _blocks(self) -> Iterator[tuple[int, bytes]]:
        """Yield how long each block is, and what names its numbers."""
        if self.disturbance.joined is None:
            yield self.scaling.dimension, b"tilt"
        for place, size in enumerate(self.disturbance.blocks):
            yield size, b"tilt%d" % place
