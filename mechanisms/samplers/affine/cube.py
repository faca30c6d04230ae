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

One try of a route: its random words, its float screen, its certified decision.

A route proposes theta from an envelope of the law and accepts it with
probability f / envelope. Every route therefore accepts a point with *exactly*
the law f, whatever the envelope, so the choice of route, made before the draw
or even between tries, changes the cost and never the law.

A try owns a row of 64-bit words. Word 0 begins the coin U, a uniform on (0, 1);
the try is accepted iff log U < log ratio. Further words either decide a discrete
choice by themselves (exact integer odds out of 2**64) or begin a uniform, whose
later bits are drawn only when a decision needs them.

The *screen* runs in floats over many rows at once. It may only answer "surely
rejected", and does so only beyond a margin that covers its rounding errors
(:data:`~mechanisms.samplers.affine.posterior.FLOAT_SLACK`). Ball arithmetic decides
the rest, with more bits until the balls are small enough.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from mechanisms.exact.balls import norm_largest, norm_one
from mechanisms.exact.continuous import UnsoundEnvelopeError
from mechanisms.exact.floats import Floats, Words, grid_point, working_precision
from mechanisms.randomness import LazyUniform, Randomness
from mechanisms.samplers.affine.posterior import FLOAT_SLACK, AffinePosterior, Shadow

WORD_BITS = 64
_FIRST_BITS = 64  # a word: what the screen has seen
_SHORT_WORD = np.uint64(1 << 44)  # below 2**-20


class Verdict(NamedTuple):
    """What a try amounts to, in balls: accept iff all conditions are >= 0 and log U < log_ratio."""

    theta: Sequence[arb]
    conditions: Sequence[arb]
    log_ratio: arb


class Route(Protocol):
    """An envelope of the law that can be drawn from.

    ``log_mass`` is the logarithm of the envelope's integral in the units in
    which f is written; the mean number of tries is its ratio to f's integral,
    so the route of least mass is the cheapest. ``choices`` words are discrete
    and precede ``uniforms`` words that begin uniforms.
    """

    @property
    def name(self) -> str: ...

    @property
    def log_mass(self) -> float: ...

    @property
    def guard_bits(self) -> int: ...

    @property
    def choices(self) -> int: ...

    @property
    def uniforms(self) -> int: ...

    def screen(self, choices: Words, uniforms: Floats) -> Floats:
        """Return per row an upper bound on the log ratio; -inf where surely outside."""

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict | None:
        """Return the try in balls at the working precision, or None if surely rejected."""


def random_words(randomness: Randomness, rows: int, columns: int) -> Words:
    """Return independent uniform 64-bit words."""
    size = 8 * rows * columns
    raw = randomness.bits(8 * size).to_bytes(size, "little")
    return np.frombuffer(raw, dtype="<u8").reshape(rows, columns)


def surviving(route: Route, words: Words) -> NDArray[np.intp]:
    """Return the rows that the floats cannot reject, in order."""
    middle = (words.astype(np.float64) + 0.5) * 2.0**-WORD_BITS
    begun = words[:, 1 + route.choices :]
    # A uniform with many leading zeros is known to few significant bits: not for floats.
    short = (begun < _SHORT_WORD).any(axis=1) | (words[:, 0] < _SHORT_WORD)
    # A ceiling that became nan rejects nothing: the balls decide that try.
    with np.errstate(all="ignore"):
        ceiling = route.screen(words[:, 1 : 1 + route.choices], middle[:, 1 + route.choices :])
        beaten = np.log(middle[:, 0]) > ceiling + 2.0**-40
    return np.flatnonzero(~beaten | short)


def decide(
    route: Route, row: Sequence[int], randomness: Randomness, step_exponent: int
) -> tuple[int, ...] | None:
    """Return the grid point of an accepted try, or None for a rejected one; certain either way.

    Raises
    ------
    UnsoundEnvelopeError
        The law is above the envelope there.
    """
    first = 1 + route.choices
    coin = LazyUniform.begun(randomness, row[0], WORD_BITS)
    uniforms = [LazyUniform.begun(randomness, word, WORD_BITS) for word in row[first:]]
    bits, kept = _FIRST_BITS, False
    while True:
        with working_precision(bits + 2 * route.guard_bits + 16):
            width = bits + route.guard_bits
            balls = [uniform.enclose(width) for uniform in uniforms]
            verdict = route.verdict(row[1:first], balls, bits)
            if verdict is None:
                return None
            kept_now = _kept(verdict, coin, bits) if not kept else True
            if kept_now is False:
                return None
            # Once kept for certain, more bits serve the rounding alone.
            kept = kept or kept_now is True
            point = grid_point(verdict.theta, step_exponent) if kept else None
        if point is not None:
            return point
        bits *= 2


def _kept(verdict: Verdict, coin: LazyUniform, bits: int) -> bool | None:
    """Return whether the try is accepted, or None while the balls leave it open."""
    sure = True
    for condition in verdict.conditions:
        if condition < 0:
            return False
        sure = sure and bool(condition >= 0)
    if sure and verdict.log_ratio > 0:
        raise UnsoundEnvelopeError
    log_coin = coin.enclose(bits).log()
    if log_coin > verdict.log_ratio:
        return False
    return True if sure and log_coin < verdict.log_ratio else None


# Route (a): K-norm noise on the gradient, pulled back through A


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
