"""Linear regression: coefficients, R squared and residual variance of the population.

    y = x'theta + e,   e independent of x, of mean 0 and variance sigma**2,

in scaled units. Of each possible (X'X, X'y, y'y) without noise, n - d degrees of freedom:

    theta_0 = (X'X)^-1 X'y,   sigma'**2 = (y'y - theta_0'X'y) / chi2(n - d),
    theta' = theta_0 + sigma' (X'X)^(-1/2) z,   z standard normal,

which without privacy noise are the t and chi-square intervals of any textbook. Ridge and the
default rule of the estimate bias it, and have no part in this: the interval is of the population's
least squares. Sums whose X'X is not positive definite do not determine theta.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self, cast

import numpy as np

from mechanisms.contract import Data, Inference, Outcome, Statistic, Term
from mechanisms.exact.floats import Floats
from mechanisms.functional.sanitized import SanitizedEquations, equations
from mechanisms.geometry.spaces import AdjacentOutputSpace
from mechanisms.inference.evidence import (
    Answers,
    Evidence,
    Simulation,
    noise_of,
    scaled_theta,
    term,
)
from mechanisms.knorm import IntegerNoise, draw_coordinates
from mechanisms.randomness import Randomness
from mechanisms.statistics.additive import AdditiveForm
from mechanisms.statistics.designs.scaling import RegressionScaling
from mechanisms.statistics.linear_regression import LinearRegression
from mechanisms.statistics.second_order import Layout

# Least squares of many simulated sums at once

_LEAST_EIGENVALUE = 1e-12  # of the largest: less is rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Spectra:
    """Eigenvalues (k, d) and -vectors (k, d, d) of symmetric matrices.

    Values are NaN for a matrix that is not positive definite: nothing follows from it.
    """

    values: Floats
    vectors: Floats

    @classmethod
    def of(cls, matrices: Floats) -> Self:
        """Return the spectra of matrices of shape (k, d, d)."""
        values, vectors = np.linalg.eigh(matrices)
        clear = values[:, :1] > _LEAST_EIGENVALUE * np.abs(values[:, -1:])
        return cls(values=np.where(clear, values, np.nan), vectors=vectors)

    def times(self, points: Floats, power: float) -> Floats:
        """Return each matrix to a power times a vector: (k, d) to (k, d)."""
        along = np.einsum("kji,kj->ki", self.vectors, points)
        return np.asarray(np.einsum("kij,kj->ki", self.vectors, along * self.values**power))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sums:
    """X'X, X'y, y'y and n in scaled units, of several sets of sums: the first axis of each."""

    xx: Floats
    xy: Floats
    yy: Floats
    counts: Floats

    @classmethod
    def of(cls, sanitized: SanitizedEquations, rows: Floats) -> Self:
        """Return the sums of rows of entries: the equations', then y'y and n."""
        xx, xy = sanitized.matrices(rows[:, :-2])
        return cls(xx=xx, xy=xy, yy=rows[:, -2], counts=rows[:, -1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Fits:
    """Per set of sums: theta_0 = (X'X)^-1 X'y, and possible residual variances."""

    spectra: Spectra
    theta: Floats
    variance: Floats

    @classmethod
    def of(cls, sums: Sums, simulated: Simulation) -> Self:
        """Return the fits; NaN where sums do not determine theta."""
        spectra = Spectra.of(sums.xx)
        theta = spectra.times(sums.xy, -1)
        left = sums.yy - np.sum(theta * sums.xy, axis=1)
        degrees = np.maximum(sums.counts - theta.shape[1], 1.0)
        # Noise may carry it below 0, or above what n targets within [-1, 1] have.
        squares = np.clip(left, 0.0, np.maximum(sums.counts, 0.0))
        variance = squares / simulated.chi_squares("residuals", degrees)
        return cls(spectra=spectra, theta=theta, variance=variance)


# Linear regression: coefficients, R squared and residual variance of the population

METHOD = (
    "simulated from the noisy moments, the law of their noise and a linear model whose errors have "
    "one variance, independent of the features; sampling and privacy noise together; values "
    "outside their bounds count as the bound"
)


def of_regression(statistic: Statistic, evidence: Evidence) -> Inference | None:
    """Return the inference; None where the squared target was not released."""
    statistic = cast(
        LinearRegression, statistic
    )  # as the table of mechanisms.inference.moments has
    scaling = statistic.scaling(evidence.schema)
    sanitized = equations(scaling, evidence.sums)
    return of_equations(statistic, scaling, sanitized, evidence.simulated, evidence.outcome)


def of_equations(
    statistic: LinearRegression,
    scaling: RegressionScaling,
    sanitized: SanitizedEquations,
    simulated: Simulation,
    outcome: Outcome,
) -> Inference | None:
    """Return the inference of an answer; None where the squared target was not released."""
    if sanitized.yy is None or sanitized.count is None:
        return None
    jets = [*sanitized.jets(), sanitized.yy, sanitized.count]
    released = Sums.of(sanitized, np.array([[float(jet.value) for jet in jets]]))
    possible = Sums.of(sanitized, simulated.possible(jets))
    fits = Fits.of(possible, simulated)
    errors = simulated.normals("errors", scaling.dimension)
    theta = fits.theta + fits.spectra.times(errors * np.sqrt(fits.variance[:, None]), -0.5)
    share = _shares(possible, theta, fits.variance, intercept=scaling.intercept)
    answers = Answers.of(scaling, statistic.exact_bound)
    coefficients = cast(Mapping[str, float], outcome.value["coefficients"])
    noise = outcome.noise
    return Inference(
        terms=answers.terms(
            coefficients, theta, lambda name: noise_of(noise, "coefficients", name)
        ),
        method=METHOD,
        fit=_fit(released, scaled_theta(scaling, coefficients), (share, fits.variance), scaling),
    )


def _shares(sums: Sums, theta: Floats, variance: Floats, *, intercept: bool) -> Floats:
    """Return the shares of the variance that are explained."""
    explained = _explained(sums, theta, intercept=intercept)
    total = explained + variance
    return np.divide(explained, total, out=np.full_like(total, np.nan), where=total > 0)


def _explained(sums: Sums, theta: Floats, *, intercept: bool) -> Floats:
    """Return the variance of the fitted values, around zero without an intercept."""
    counts = np.maximum(sums.counts, 1.0)
    squares = np.einsum("ki,kij,kj->k", theta, sums.xx, theta) / counts
    means = np.sum(sums.xx[:, 0] * theta, axis=1) / counts if intercept else 0.0
    return np.asarray(np.maximum(squares - means**2, 0.0), dtype=np.float64)


def _fit(
    released: Sums, theta: Floats, possible: tuple[Floats, Floats], scaling: RegressionScaling
) -> tuple[Term, Term]:
    """Return R squared and the residual variance; the estimates are those of the answered theta."""
    rows, d = max(float(released.counts[0]), 1.0), len(theta)
    mean = released.xy[0, 0] / rows if scaling.intercept else 0.0
    total = max(float(released.yy[0]) / rows - mean**2, 0.0)
    left = float(released.yy[0] - 2 * theta @ released.xy[0] + theta @ released.xx[0] @ theta)
    left = min(max(left, 0.0), rows)
    # From scaled units back to the target's, squared as a variance is.
    unit = float(scaling.target.width) ** 2 if scaling.target is not None else 1.0
    share = min(max(1 - left / rows / total, 0.0), 1.0) if total > 0 else 0.0
    return (
        term("r_squared", share, possible[0], (0.0, 1.0), edges=True),
        term(
            "residual_variance",
            unit * min(left / max(rows - d, 1.0), 1.0),
            unit * possible[1],
            (0.0, unit),
            edges=True,
        ),
    )


# Its second release


@dataclass(frozen=True, slots=True, kw_only=True)
class MomentsBeside:
    """The moments of a linear regression's columns."""

    scaling: RegressionScaling
    layout: Layout
    form: AdditiveForm
    noise: IntegerNoise
    method: str = METHOD
    usual_weight: ClassVar[float] = 1.0

    @property
    def space(self) -> AdjacentOutputSpace:
        """Return the adjacent output space of the moments."""
        return self.form.space

    def draw(
        self, _theta: Sequence[Fraction], data: Data, randomness: Randomness
    ) -> list[Fraction]:
        """Return the noisy moments."""
        return draw_coordinates(self.form, self.noise, data, randomness)

    def possible(self, vector: Sequence[Fraction], simulated: Simulation) -> tuple[Spectra, Floats]:
        """Return the spectra of 2 X'X, and scores 2 X'e."""
        sums = self.layout.sums(vector)
        sanitized = equations(self.scaling, sums)
        if sanitized.yy is None:
            raise ValueError("all squares are released")
        # All from one noisy vector: the sums' noises belong together.
        jets = [*sanitized.jets(), sanitized.yy, sums[0, 0]]
        fits = Fits.of(Sums.of(sanitized, simulated.possible(jets)), simulated)
        errors = simulated.normals("errors", self.scaling.dimension)
        scores = fits.spectra.times(2 * np.sqrt(fits.variance[:, None]) * errors, 0.5)
        return Spectra(values=2 * fits.spectra.values, vectors=fits.spectra.vectors), scores
