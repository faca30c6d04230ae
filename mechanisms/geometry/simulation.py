"""Simulated noise: what a law of noise does to an answer that no closed form describes.

The numbers here describe a release; they are never part of one. They are made of a
hash of public facts, so an interval is a function of sanitized numbers
alone: anyone who has the release can reproduce it, and a repeated query reveals nothing more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
from scipy.special import gammaincinv, ndtri

from mechanisms.exact.arrays import Floats
from mechanisms.geometry.balls import Ball, NormBall

_WORD_BYTES = 8
_FRACTION_BITS = 53  # as many as a float holds


def hashed_uniforms(seed: bytes, count: int) -> Floats:
    """Return numbers in (0, 1) made of SHAKE-256 of the seed: for simulations, never for noise."""
    words = np.frombuffer(hashlib.shake_256(seed).digest(_WORD_BYTES * count), dtype="<u8")
    # The middle of each float's cell: never 0 or 1, whose logarithms are infinite.
    kept = (words >> np.uint64(64 - _FRACTION_BITS)).astype(np.float64)
    return np.asarray((kept + 0.5) * 2.0**-_FRACTION_BITS, dtype=np.float64)


def simulate(ball: Ball | NormBall, dimension: int, count: int, *, seed: bytes) -> Floats:
    """Return ``count`` simulated vectors of K-norm noise at rate 1, shape (count, m).

    As on a fine lattice: ``V = r U`` with U uniform in the ball and r ~ Gamma(m + 1)
    (Awan & Slavkovic, Proposition 4.1), each ball by its shortest way.
    """
    if not isinstance(ball, str):
        return ball.simulate(count, lambda part, size: hashed_uniforms(seed + part.encode(), size))
    return _BALLS["l1" if dimension == 1 else ball](dimension, count, seed)


def _laplace(dimension: int, count: int, seed: bytes) -> Floats:
    u = hashed_uniforms(seed, count * dimension).reshape(count, dimension)
    return np.where(u < 0.5, np.log(2 * u), -np.log(2 * (1 - u)))


def _cube(dimension: int, count: int, seed: bytes) -> Floats:
    u = hashed_uniforms(seed, count * (dimension + 1)).reshape(count, dimension + 1)
    radius: Floats = gammaincinv(dimension + 1, u[:, :1])
    return radius * (2 * u[:, 1:] - 1)


def _sphere(dimension: int, count: int, seed: bytes) -> Floats:
    u = hashed_uniforms(seed, count * (dimension + 1)).reshape(count, dimension + 1)
    direction: Floats = ndtri(u[:, 1:])
    radius: Floats = gammaincinv(dimension, u[:, :1])
    length: Floats = np.sqrt(np.sum(direction**2, axis=1, keepdims=True))
    return radius * direction / length


_BALLS: dict[str, Callable[[int, int, bytes], Floats]] = {
    "l1": _laplace,
    "linf": _cube,
    "l2": _sphere,
}
