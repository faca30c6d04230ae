"""Route (e): the base measure itself, for few records or a small epsilon.

theta = (+-E_1, ..., +-E_d) / G with independent exponentials, fair signs and G a Gamma(p - d), the
sum of p - d exponentials, has density proportional to (1 + ||theta||_1)^-p, for p > d: with
sum E_j a Gamma(d), rho follows a beta prime law, rho^(d - 1) (1 + rho)^-p, and theta / rho is
uniform on the l1 sphere. With L a certified upper bound of -k h / D(theta) over Theta, accept iff
rho <= B and log U < -k h / D(theta) - L. The envelope's mass is
exp(L) 2^d Gamma(p - d) / Gamma(p).

L = -c t_0, as in :mod:`mechanisms.samplers.affine.cube`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_mat

from mechanisms.exact.balls import norm_largest, norm_one
from mechanisms.exact.floats import Floats, Words
from mechanisms.samplers.affine.cube import Verdict, log_density_ceiling
from mechanisms.samplers.affine.posterior import FLOAT_SLACK, AffinePosterior

_LEAST_TOTAL = 0.25  # a sum of exponentials this small is left to the balls


@dataclass(frozen=True, slots=True)
class BaseMeasureRoute:
    """Propose theta from the base measure on all of R^d; ``least_height`` is t_0."""

    law: AffinePosterior
    least_height: float = 0.0

    @property
    def name(self) -> str:
        """Return the route's name."""
        return "base measure"

    @property
    def choices(self) -> int:
        """Return 1: a word whose low d bits are the signs."""
        return 1

    @property
    def uniforms(self) -> int:
        """Return p: one for each exponential."""
        return self.law.power

    @property
    def guard_bits(self) -> int:
        """Return the bits a product may cancel."""
        return self.law.guard_bits

    @property
    def log_mass(self) -> float:
        """Return log(2^d Gamma(p - d) / Gamma(p)) - c t_0."""
        shadow, size, power = self.law.shadow, self.law.dimension, self.law.power
        volume = size * math.log(2) + math.lgamma(power - size) - math.lgamma(power)
        return volume - shadow.floor_rate * self.least_height

    def screen(self, choices: Words, uniforms: Floats) -> Floats:
        """Return an upper bound on -k h / D + c t_0 per row."""
        shadow, size = self.law.shadow, self.law.dimension
        parts = -np.log(uniforms)
        bits = (choices[:, :1] >> np.arange(size, dtype=np.uint64)) & np.uint64(1)
        total = parts[:, size:].sum(axis=1)
        theta = (1 - 2.0 * bits) * parts[:, :size] / total[:, None]
        norm = np.abs(theta).sum(axis=1)
        # Farther out than 2 B the float errors below are not bounded.
        sure = (total >= _LEAST_TOTAL) & (norm <= 2 * shadow.bound)
        height = np.abs(theta @ shadow.matrix - shadow.vector).max(axis=1)
        height -= FLOAT_SLACK * 2 * shadow.reach
        slack = np.full_like(norm, FLOAT_SLACK * 2 * shadow.bound)
        ceiling = log_density_ceiling(shadow, np.maximum(height, 0.0), norm, slack)
        ceiling += shadow.power * np.log1p(norm) + FLOAT_SLACK * shadow.power * (2 + shadow.bound)
        ceiling += shadow.floor_rate * self.least_height * (1 + FLOAT_SLACK)
        # Logarithms that sum to little are known to few digits: not for floats.
        outside = (total >= _LEAST_TOTAL) & (norm * (1 - FLOAT_SLACK) > shadow.bound)
        # 0 is the ceiling of a ratio that is at most 1: it leaves the try to the balls.
        return np.where(outside, -np.inf, np.where(sure, ceiling, 0.0))

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict:
        """Return theta, B - rho and -k h / D + c t_0."""
        exact, size = self.law.enclose(bits), self.law.dimension
        parts = [-uniform.log() for uniform in uniforms]
        scale = 1 / sum(parts[size:], arb(0))
        theta = [
            -scale * part if choices[0] >> place & 1 else scale * part
            for place, part in enumerate(parts[:size])
        ]
        residual = exact.matrix * arb_mat(size, 1, theta) - exact.vector
        norm = norm_one(theta)
        log_density = exact.log_density(norm_largest(residual.entries()), theta)
        log_density += exact.power * (1 + norm).log()
        ceiling = exact.floor_rate * arb(self.least_height)
        return Verdict(
            theta=theta, conditions=[exact.bound - norm], log_ratio=log_density + ceiling
        )
