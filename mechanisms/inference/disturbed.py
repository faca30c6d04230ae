r"""Coefficients that solve a disturbed equation, and how far they may be from the population's.

A mechanism released theta with ``grad(theta) + gamma theta + V = 0``
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
from typing import Protocol

import numpy as np

from mechanisms.contract import Data, Disturbance, Inference
from mechanisms.exact.arrays import Floats
from mechanisms.geometry.simulation import simulate
from mechanisms.inference.answers import Answers, scaled_theta
from mechanisms.inference.evidence import Simulation, spread_of
from mechanisms.inference.least_squares import Spectra
from mechanisms.knorm import IntegerNoise
from mechanisms.randomness import Randomness
from mechanisms.statistics.designs.scaling import RegressionScaling

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
