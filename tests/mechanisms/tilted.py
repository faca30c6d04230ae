"""Densities of perturbed minimisers, and a search for neighbours whose densities differ most.

theta is the minimiser of the tilted sum, so ``V = -(gradient + gamma theta)``: its density is
f(V(theta)) |det dV/dtheta|, with the Hessians of whatever rank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import minimize

from mechanisms.exact.floats import Floats
from mechanisms.objectives.losses import Loss, Norm
from mechanisms.perturbation.calibration import ridge_of

ORDERS = {"linf": np.inf, "l2": 2, "l1": 1}


@dataclass(frozen=True, kw_only=True)
class Model:
    """A record's gradient (d) and Hessian (d, d) at theta, written plainly."""

    gradient: Callable[[Floats, Floats], Floats]
    hessian: Callable[[Floats, Floats], Floats]

    def tilt(self, rows: Iterable[Floats], theta: Floats, gamma: float) -> Floats:
        """Return -V."""
        return gamma * theta + sum((self.gradient(row, theta) for row in rows), np.zeros(1))

    def log_density(
        self, rows: Sequence[Floats], theta: Floats, gamma: float, norm: Norm, rate: float
    ) -> float:
        """Return log f(V(theta)) + log |det dV/dtheta|, up to a constant."""
        length = np.linalg.norm(self.tilt(rows, theta, gamma), ORDERS[norm])
        slope = gamma * np.eye(len(theta))
        for row in rows:
            slope = slope + self.hessian(row, theta)
        return float(-rate * length + np.linalg.slogdet(slope)[1])


@dataclass(frozen=True, kw_only=True)
class Spent:
    """Constants as a plan has them: those of a loss, or of a mutant of it."""

    gamma: float
    rate: float
    norm: Norm
    epsilon: float

    @classmethod
    def of(cls, loss: Loss, norm: Norm, epsilon: str, q: str) -> Spent:
        """Return what a plan takes of a loss."""
        whole, share = Fraction(epsilon), Fraction(q)
        return cls(
            gamma=float(ridge_of(loss, whole, share)),
            rate=float(whole * share) / math.sqrt(loss.sensitivity_squared(norm)),
            norm=norm,
            epsilon=float(whole),
        )


Pair = tuple[Sequence[Floats], Sequence[Floats], Floats]
"""The rows of two neighbours, and a theta where their densities are compared."""


def largest_loss(model: Model, spent: Spent, pairs: Iterable[Pair], *, polished: int = 6) -> float:
    """Return the largest log ratio of densities that a search finds, as a share of epsilon.

    The worst of ``pairs`` are improved by a search over theta.
    """

    def loss(pair: Pair, theta: Floats) -> float:
        one, two, _ = pair
        found = model.log_density(one, theta, spent.gamma, spent.norm, spent.rate)
        return abs(found - model.log_density(two, theta, spent.gamma, spent.norm, spent.rate))

    ranked = sorted(
        ((loss(pair, pair[2]), at, pair) for at, pair in enumerate(pairs)), reverse=True
    )
    best = ranked[0][0]
    for _, _, pair in ranked[:polished]:
        found = minimize(
            lambda theta, pair=pair: -loss(pair, theta),
            pair[2],
            method="Nelder-Mead",
            options={"maxiter": 150},
        )
        best = max(best, -float(found.fun))
    return best / spent.epsilon
