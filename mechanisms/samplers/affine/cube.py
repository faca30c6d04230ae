"""Route (a): K-norm noise on the gradient, pulled back through A.

V with density proportional to exp(-c ||V||_inf) is G (2 u - 1) / c with u
uniform on the unit cube and G a Gamma(d + 1), the sum of d + 1 exponentials.
theta = theta_hat + A^-1 V then has density proportional to exp(-c h): an
envelope of f, as c <= k / (1 + rho) on Theta and (1 + rho)^-p <= 1. Accept iff
rho <= B and log U < log f + c h. The envelope's mass is d! (2 / c)^d / det A.

*Route (b): uniform on Theta, for few records or a small epsilon.* theta = B (+-E_1, ..., +-E_d) /
(E_0 + ... + E_d) with independent exponentials and fair signs is uniform on ||theta||_1 <= B. With
L a certified upper bound on log f over Theta, accept iff log U < log f(theta) - L. The envelope's
mass is exp(L) (2 B)^d / d!.

L = -c t_0, where t_0 <= min h over Theta is a dyadic number certified by the
vertex route's dual point (0 when there is none): f's exponent is at least
k h / (1 + B) >= c t_0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat

from mechanisms.exact.balls import norm_largest, norm_one
from mechanisms.exact.many import Floats, Words
from mechanisms.samplers.affine.posterior import FLOAT_SLACK, AffinePosterior, Shadow
from mechanisms.samplers.affine.tries import Verdict


@dataclass(frozen=True, slots=True)
class CubeRoute:
    """Propose theta_hat + A^-1 V, V the l_inf K-norm noise at the smallest rate on Theta."""

    law: AffinePosterior

    @property
    def name(self) -> str:
        """Return the route's name."""
        return "cube"

    @property
    def choices(self) -> int:
        """Return 0: nothing discrete is drawn."""
        return 0

    @property
    def uniforms(self) -> int:
        """Return d + 1 uniforms for the radius, d for the place in the cube."""
        return 2 * self.law.dimension + 1

    @property
    def guard_bits(self) -> int:
        """Return the bits a product may cancel."""
        return self.law.guard_bits

    @property
    def log_mass(self) -> float:
        """Return log(d! (2 / c)^d / det A)."""
        shadow, size = self.law.shadow, self.law.dimension
        return (
            math.lgamma(size + 1) + size * math.log(2 / shadow.floor_rate) - shadow.log_determinant
        )

    def screen(self, choices: Words, uniforms: Floats) -> Floats:
        """Return an upper bound on log f + c h per row."""
        del choices
        shadow, size = self.law.shadow, self.law.dimension
        radius = -np.log(uniforms[:, : size + 1]).sum(axis=1) / shadow.floor_rate
        noise = radius[:, None] * (2 * uniforms[:, size + 1 :] - 1)
        norm, slack = pulled_norm(shadow, noise, radius)
        height = np.abs(noise).max(axis=1)
        ceiling = log_density_ceiling(shadow, height, norm, slack)
        ceiling += shadow.floor_rate * height * (1 + FLOAT_SLACK)
        # certainly outside Theta: never accepted
        return np.where(norm - slack > shadow.bound, -np.inf, ceiling)

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict:
        """Return theta, B - rho and log f + c h."""
        del choices
        exact, size = self.law.enclose(bits), self.law.dimension
        product = arb(1)
        for uniform in uniforms[: size + 1]:
            product *= uniform  # exponentials add up: one logarithm for all of them
        radius = -product.log() / exact.floor_rate
        noise = [radius * (2 * uniform - 1) for uniform in uniforms[size + 1 :]]
        theta = (exact.centre + exact.inverse * arb_mat(size, 1, noise)).entries()
        norm = norm_one(theta)
        height = norm_largest(noise)
        return Verdict(
            theta=theta,
            conditions=[exact.bound - norm],
            log_ratio=exact.log_density(height, theta) + exact.floor_rate * height,
        )


def pulled_norm(shadow: Shadow, noise: Floats, radius: Floats) -> tuple[Floats, Floats]:
    """Return ||theta_hat + A^-1 V||_1 per row and a bound on its rounding error, |V| <= radius.

    A radius made of logarithms has an absolute error of some ulps of 1 / c.
    """
    norm: Floats = np.abs(shadow.centre + noise @ shadow.inverse.T).sum(axis=1)
    swing = shadow.spread * (radius + 1 / shadow.floor_rate)
    return norm, FLOAT_SLACK * (1 + shadow.centre_norm + swing)


def log_density_ceiling(shadow: Shadow, height: Floats, norm: Floats, slack: Floats) -> Floats:
    """Return an upper bound on log f when rho is within ``slack`` of ``norm``.

    c h is taken to be known up to FLOAT_SLACK, relative or absolute.
    """
    widest = np.minimum(norm + slack, shadow.bound)
    narrowest = np.maximum(norm - slack, 0.0)
    exponent = shadow.rate * height * (1 - FLOAT_SLACK) / (1 + widest)
    base = shadow.power * np.log1p(narrowest)
    ceiling: Floats = FLOAT_SLACK * (2 + shadow.power + shadow.bound) - exponent - base
    return ceiling


# Route (b): uniform on Theta, for few records or a small epsilon

_LEAST_TOTAL = 0.25  # a sum of exponentials this small is left to the balls


@dataclass(frozen=True, slots=True)
class CrossPolytopeRoute:
    """Propose theta uniform on the l1 ball; ``least_height`` is t_0."""

    law: AffinePosterior
    least_height: float = 0.0

    @property
    def name(self) -> str:
        """Return the route's name."""
        return "cross-polytope"

    @property
    def choices(self) -> int:
        """Return 1: a word whose low d bits are the signs."""
        return 1

    @property
    def uniforms(self) -> int:
        """Return d + 1, one for each exponential."""
        return self.law.dimension + 1

    @property
    def guard_bits(self) -> int:
        """Return the bits a product may cancel."""
        return self.law.guard_bits

    @property
    def log_mass(self) -> float:
        """Return log((2 B)^d / d!) - c t_0."""
        shadow, size = self.law.shadow, self.law.dimension
        volume = size * math.log(2 * shadow.bound) - math.lgamma(size + 1)
        return volume - shadow.floor_rate * self.least_height

    def screen(self, choices: Words, uniforms: Floats) -> Floats:
        """Return an upper bound on log f + c t_0 per row."""
        shadow, size = self.law.shadow, self.law.dimension
        parts = -np.log(uniforms)
        bits = (choices[:, :1] >> np.arange(size, dtype=np.uint64)) & np.uint64(1)
        total = parts.sum(axis=1)
        theta = shadow.bound * (1 - 2.0 * bits) * parts[:, 1:] / total[:, None]
        height = np.abs(theta @ shadow.matrix - shadow.vector).max(axis=1)
        height -= FLOAT_SLACK * shadow.reach
        norm = np.abs(theta).sum(axis=1)
        slack = np.full_like(norm, FLOAT_SLACK * shadow.bound)
        ceiling = log_density_ceiling(shadow, np.maximum(height, 0.0), norm, slack)
        ceiling += shadow.floor_rate * self.least_height * (1 + FLOAT_SLACK)
        # Logarithms that sum to little are known to few digits: not for floats.
        return np.where(total < _LEAST_TOTAL, 0.0, ceiling)

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict:
        """Return theta and log f + c t_0; theta lies in Theta by construction."""
        exact, size = self.law.enclose(bits), self.law.dimension
        parts = [-uniform.log() for uniform in uniforms]
        scale = exact.bound / sum(parts, arb(0))
        theta = [
            -scale * part if choices[0] >> place & 1 else scale * part
            for place, part in enumerate(parts[1:])
        ]
        residual = exact.matrix * arb_mat(size, 1, theta) - exact.vector
        log_density = exact.log_density(norm_largest(residual.entries()), theta)
        ceiling = exact.floor_rate * arb(self.least_height)
        return Verdict(theta=theta, conditions=(), log_ratio=log_density + ceiling)
