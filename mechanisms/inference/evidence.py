"""The input of an inference: sanitized moments, the law of their noise, and an answer.

*The argument.* Let S* = S + V be the released sums, V of a law that is known exactly and symmetric.
What the sums may have been is described by ``S* - V'`` with V' simulated, and the population's
number by what the statistic's model makes of each of those. The 2.5% and 97.5% points of that are
the interval.

For a ratio of two sums, as the slope of one line is, the interval is Fieller's (1954), and exact
however large the noise is. The true ratio t makes ``S1* - t S2*`` equal to the noise V1 - t V2,
whose law is known; t is in the interval where that is no rare value of it. In particular the
bias that noise in X'X gives to slopes is not in the interval. For several columns it is a
generalised fiducial distribution (Hannig, Iyer, Lai & Lee 2016), which ``studies/coverage.py``
measures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from scipy.special import gammaincinv, ndtri

from mechanisms.contract import IN_CONFIDENCE, Inference, Noise, Outcome, Statistic, Term
from mechanisms.domain import NumberColumn, Schema
from mechanisms.exact.floats import Floats
from mechanisms.functional.sanitized import CoordinateNoise, answer_slopes
from mechanisms.geometry.laws import hashed_uniforms
from mechanisms.geometry.smooth import TAIL
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.second_order import Jet

_CELLS = 4_000_000  # of simulated noise: a second or so
_LEAST, _MOST = 400, 2_000  # draws, by how many coordinates each of them has
_ONE_SIGMA = 0.158655  # of a normal variable lies below minus one standard deviation
_LARGEST = 1e300  # JSON has no infinity


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """Simulated numbers made of a public seed: the same one gives the same numbers."""

    noise: CoordinateNoise
    seed: bytes

    @property
    def replicates(self) -> int:
        """Return how many simulated sums there are: fewer where each is long."""
        return min(max(_CELLS // self.noise.dimension, _LEAST), _MOST)

    def possible(self, jets: Sequence[Jet]) -> Floats:
        """Return possible values of noisy sums without noise, shape (replicates, sums)."""
        centre = np.array([float(jet.value) for jet in jets])
        noise = self.noise.simulate(jets, seed=self.seed, replicates=self.replicates)
        return np.asarray(centre - noise, dtype=np.float64)

    def noises(self) -> Floats:
        """Return noise of the coordinates themselves, shape (replicates, m)."""
        vectors = self.noise.simulated(self.replicates, self.seed)
        return np.asarray(vectors / float(self.noise.rate), dtype=np.float64)

    def normals(self, part: str, columns: int) -> Floats:
        """Return standard normal numbers, shape (replicates, columns)."""
        u = hashed_uniforms(self.seed + part.encode(), self.replicates * columns)
        return np.asarray(ndtri(u).reshape(self.replicates, columns), dtype=np.float64)

    def chi_squares(self, part: str, degrees: Floats) -> Floats:
        """Return one chi-square number for each of the given degrees of freedom."""
        u = hashed_uniforms(self.seed + part.encode(), self.replicates)
        return np.asarray(2 * gammaincinv(degrees / 2, u), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything public that an inference from moments may use.

    Attributes
    ----------
    names, numbers
        The columns, and their bounds, in the order of the sums.
    sums
        The noisy sums of products of (1, codes / F), by their places: see ``Layout.sums``.
    simulated
        Seeded by the sanitized numbers.
    outcome
        The answer made of these sums, and its noise.
    """

    schema: Schema
    names: tuple[str, ...]
    numbers: Sequence[NumberColumn]
    sums: Mapping[tuple[int, int], Jet]
    simulated: Simulation
    outcome: Outcome


Infer = Callable[[Statistic, Evidence], Inference | None]
"""The inference of an answer made of moments about the population; None where there is none."""


def term(
    name: str,
    estimate: float,
    possible: Floats,
    limits: tuple[float, float],
    noise_95: tuple[float, float] | None = None,
    *,
    place: tuple[str | int, ...] = (),
    edges: bool = False,
) -> Term:
    """Return the inference about a number of the population, from simulated ones.

    Parameters
    ----------
    possible
        The simulated numbers; NaN (undetermined by the sums) counts as far below and far above.
    limits
        Public: between them the number is, whatever is released.
    place
        The path of the number in the answer's value; empty where it is not in it.
    edges
        Whether an estimate at or beyond a limit says only where the noise has pushed it, as a share
        of 1 or a variance of 0. There is then none, and a reason in its place; so it is of NaN.
    """
    # Finite ends: JSON has no infinity.
    low, high = (min(max(end, -_LARGEST), _LARGEST) for end in limits)
    ends = spread_of(possible, limits)
    # a number that bounds hold on one side is no more certain for that
    free = spread_of(possible - estimate, (low - high, high - low), outside=2 * _ONE_SIGMA)
    edge = edges and not low < estimate < high
    return Term(
        term=name,
        estimate=None if edge else estimate,
        reason=IN_CONFIDENCE if edge else None,
        std_error=min(free[1] / 2 - free[0] / 2, high / 2 - low / 2),
        # An interval without its own estimate would be read as a mistake.
        confidence_95=ends if edge else (min(ends[0], estimate), max(ends[1], estimate)),
        noise_95=noise_95,
        place=place,
        open=ends[0] <= low and ends[1] >= high,
    )


def spread_of(
    possible: Floats, limits: tuple[float, float], *, outside: float = TAIL
) -> tuple[float, float]:
    """Return the ends of simulated numbers, except for this share; NaN as in a term."""
    low, high = (min(max(end, -_LARGEST), _LARGEST) for end in limits)
    below = np.sort(np.clip(np.where(np.isnan(possible), low, possible), low, high))
    above = np.sort(np.clip(np.where(np.isnan(possible), high, possible), low, high))
    return _quantile(below, outside / 2), _quantile(above, 1 - outside / 2)


def _quantile(ordered: Floats, level: float) -> float:
    return float(np.quantile(ordered, level, method="median_unbiased"))


def noise_of(noise: Noise | None, *place: str | int) -> tuple[float, float] | None:
    """Return the interval of the privacy noise at a place of an answer, if it is known."""
    if noise is None:
        return None
    found: Any = noise.interval_95
    for step in place:
        found = found[step]
    return float(found[0]), float(found[1])


# From scaled coefficients to terms of an answer, in the columns' units

_WIDEST = Fraction(10**6)  # the largest bound that may be asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The coefficients ``origin + slopes theta``, each at most ``reach`` away from its origin."""

    names: tuple[str, ...]
    origin: Floats
    slopes: Floats
    reach: Floats

    @classmethod
    def of(cls, scaling: RegressionScaling, bound: Fraction | None) -> Self:
        """Return the answers of a regression whose theta has an l1 norm within the bound."""
        origin = scaling.unscale([Fraction(0)] * scaling.dimension)
        slopes = answer_slopes(scaling)
        most = float(_WIDEST if bound is None else bound)
        # Enormous units may carry this to infinity, which is cut where terms are made.
        with np.errstate(over="ignore"):
            reach = most * np.abs(slopes).max(axis=1)
        return cls(
            names=scaling.names,
            origin=np.array([float(origin[name]) for name in scaling.names]),
            slopes=slopes,
            reach=reach,
        )

    def terms(
        self,
        coefficients: Mapping[str, float],
        theta: Floats,
        noise: Callable[[str], tuple[float, float] | None],
    ) -> tuple[Term, ...]:
        """Return a term for each coefficient, of simulated theta: shape (replicates, d)."""
        return tuple(
            term(
                name,
                coefficients[name],
                self.at(column, theta),
                self.limits(column),
                noise(name),
                place=("coefficients", name),
            )
            for column, name in enumerate(self.names)
        )

    def at(self, place: int, theta: Floats) -> Floats:
        """Return one coefficient of each theta; NaN where it left the floats."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(self.origin[place] + theta @ self.slopes[place], dtype=np.float64)

    def limits(self, place: int) -> tuple[float, float]:
        """Return the possible range of a coefficient."""
        start, half = float(self.origin[place]), float(self.reach[place])
        return start - half, start + half


def scaled_theta(scaling: RegressionScaling, coefficients: Mapping[str, float]) -> Floats:
    """Return the theta of an answer, up to the rounding of its numbers."""
    exact = scaling.scaled({name: Fraction(value) for name, value in coefficients.items()})
    return np.array([float(entry) for entry in exact])
