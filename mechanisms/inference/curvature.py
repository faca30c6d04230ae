r"""The curvature of the logistic loss at a released theta, as an additive statistic.

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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement
from math import exp
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mechanisms.contract import Block, Data, Disturbance, Inference
from mechanisms.domain import CODE_BITS, Schema
from mechanisms.exact.many import Floats
from mechanisms.geometry.laws import simulate
from mechanisms.geometry.spaces import AdjacentOutputSpace, cube_space
from mechanisms.inference.evidence import Answers, Simulation, scaled_theta, spread_of
from mechanisms.inference.regression import Spectra
from mechanisms.knorm import IntegerNoise, integer_noise
from mechanisms.privacy import Adjacency, PrivacyLoss
from mechanisms.randomness import Randomness
from mechanisms.statistics.designs.rows import scaled_codes
from mechanisms.statistics.designs.scaling import RegressionScaling

_BITS = 10  # N = 2**10
_HALF = 1 << (CODE_BITS - _BITS - 1)  # half a step, so that a shift rounds to the nearest
# Theta and the table are that fine. Beyond 16 the curvature is below 2**-20, and rounds to 0.
_THETA_BITS, _TABLE_BITS = 12, 6
_REACH, _LARGEST_THETA = 16, 1 << 10
_CHUNK = 1 << 18  # rows: their sums of products stay integers below 2**53


METHOD = (
    "simulated from the law of the released coefficients and the noisy curvature of the loss at "
    "them, for rows that are drawn independently and a logistic model that holds; sampling and "
    "privacy noise together; to first order; values outside their bounds count as the bound"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Curvature:
    """T of one regression and its noise: the curvature, which is the score's covariance too.

    ``read`` are the columns a draw reads.
    """

    scaling: RegressionScaling
    replaced: bool
    read: tuple[str, ...]
    space: AdjacentOutputSpace
    noise: IntegerNoise
    method: str = METHOD

    @classmethod
    def calibrated(
        cls,
        scaling: RegressionScaling,
        schema: Schema,
        epsilon: PrivacyLoss,
        *,
        read: tuple[str, ...],
    ) -> Self:
        """Return T with noise that makes it epsilon-DP at any theta."""
        replaced = schema.adjacency is Adjacency.REPLACE_ONE
        space = cube_space(
            scaling.dimension * (scaling.dimension + 1) // 2,
            half_width=Fraction(2 if replaced else 1),
            unit=1 << (3 * _BITS),
            unit_name="largest curvatures of one record",
            description="a cube: every entry of the curvature moves by as much as one record can",
        )
        noise = integer_noise(space, "linf", epsilon.fraction)
        return cls(scaling=scaling, replaced=replaced, read=read, space=space, noise=noise)

    @property
    def sensitivity(self) -> str:
        """Return Delta_inf as text."""
        return self.space.text("linf")

    @property
    def sensitivity_unit(self) -> str:
        """Return the unit of the sensitivity."""
        return f"{self.space.unit_name}, in the linf norm"

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Return the entries (j, k), j <= k, in the vector's order."""
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
        steps = np.array([_on_grid(entry) for entry in theta], dtype=np.int64)
        size = self.scaling.dimension
        total = np.zeros((size, size), dtype=object)
        for some in data.map(partial(_sum_of, self.scaling, steps, _table()), self.read):
            total = total + some
        doubled = 2 if self.replaced else 1
        return [int(total[j, k]) * (doubled if j == k else 1) for j, k in self.pairs]

    def possible(self, vector: Sequence[Fraction], simulated: Simulation) -> tuple[Spectra, Floats]:
        """Return possible Hessians, and a score of that covariance for each."""
        unit, size = 4 << (3 * _BITS), self.scaling.dimension
        noise = simulated.noises() / unit
        hessians = np.empty((simulated.replicates, size, size))
        for place, (j, k) in enumerate(self.pairs):
            entry = float(vector[place] / unit) - noise[:, place]
            if j == k and self.replaced:
                entry = entry / 2
            hessians[:, j, k] = hessians[:, k, j] = entry
        spectra = Spectra.of(hessians)
        return spectra, spectra.times(simulated.normals("scores", size), 0.5)


def _sum_of(
    scaling: RegressionScaling, steps: NDArray[np.int64], table: Floats, block: Block
) -> NDArray[np.object_]:
    """Return the sum over a block, exactly; the table comes along, made in one place for all."""
    rows = _rows(scaling, block)
    total = np.zeros((scaling.dimension, scaling.dimension), dtype=object)
    for start in range(0, len(rows), _CHUNK):
        part = rows[start : start + _CHUNK]
        weights = table[_places(part @ steps)]
        floats = part.astype(np.float64)
        # Whole numbers that floats hold: in which order they are added does not matter.
        product = (floats * weights[:, None]).T @ floats
        total = total + np.rint(product).astype(np.int64).astype(object)
    return total


def _rows(scaling: RegressionScaling, block: Block) -> NDArray[np.int64]:
    """Return the scaled columns as multiples of 1 / N."""
    columns = [
        (scaled_codes(column, block[column.name]) + _HALF) >> (CODE_BITS - _BITS)
        for column in scaling.features
    ]
    if scaling.intercept:
        height = len(next(iter(block.values())))
        columns.insert(0, np.full(height, 1 << _BITS, dtype=np.int64))
    return np.column_stack(columns)


def _on_grid(entry: Fraction) -> int:
    most = _LARGEST_THETA << _THETA_BITS
    return min(max(round(entry * (1 << _THETA_BITS)), -most), most)


def _places(products: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where in the table a record's x'theta is, of products in units of both grids."""
    cut = products >> (_BITS + _THETA_BITS - _TABLE_BITS)
    most = _REACH << _TABLE_BITS
    return np.asarray(np.clip(cut, -most, most - 1) + most, dtype=np.int64)


def _table() -> Floats:
    """Return w at the middles of its cells, as multiples of 1 / N."""
    cells = range(-_REACH << _TABLE_BITS, _REACH << _TABLE_BITS)
    middles = ((cell + 0.5) / (1 << _TABLE_BITS) for cell in cells)
    # A library's exp may differ by a digit, so one process makes the table and sends it to all.
    weights = [4 * exp(-abs(t)) / (1 + exp(-abs(t))) ** 2 for t in middles]
    return np.array([float(min(round(weight * (1 << _BITS)), 1 << _BITS)) for weight in weights])


# Coefficients that solve a disturbed equation, and how far they may be from the population's

_EDGE = 1 - 2**-10  # of the bound: nearer, theta may have been held by it


class Curved(Protocol):
    """A second release, which gives the curvature and the score's law."""

    @property
    def noise(self) -> IntegerNoise:
        """Return the law of its noise."""

    @property
    def sensitivity(self) -> str:
        """Return its sensitivity as text."""

    @property
    def sensitivity_unit(self) -> str:
        """Return the unit of the sensitivity."""

    @property
    def method(self) -> str:
        """Return its assumptions on the population, in words."""

    def draw(self, theta: Sequence[Fraction], data: Data, randomness: Randomness) -> list[Fraction]:
        """Return the noisy vector at a theta that has been released."""

    def possible(self, vector: Sequence[Fraction], simulated: Simulation) -> tuple[Spectra, Floats]:
        """Return possible Hessians, and a score for each: shape (replicates, d)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """How one regression's coefficients were released."""

    scaling: RegressionScaling
    disturbance: Disturbance
    curved: Curved
    cost: str

    def infer(
        self, coefficients: dict[str, float], vector: Sequence[Fraction], simulated: Simulation
    ) -> Inference:
        """Return the inference from released coefficients and the second release."""
        theta = scaled_theta(self.scaling, coefficients)
        spectra, scores = self.curved.possible(vector, simulated)
        pull = float(self.disturbance.ridge) * theta + self._tilts(theta, spectra, simulated)
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
        seed = simulated.seed + b"tilt"
        return simulate(self.disturbance.ball, d, simulated.replicates, seed=seed) / rate
