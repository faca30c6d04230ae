"""Exact continuous K-norm vectors, as lazily refined balls.

The law is ``f(V) ∝ exp(-rate ||V||_K)`` on R^d for the l1, l2 or l-infinity
norm, any d >= 1 and any rate > 0 (Awan & Slavkovic, Algorithms 5 to 7).
A vector is an object: it holds uniforms of which only the bits looked at have
been drawn, and ``enclose(bits)`` evaluates it in ball arithmetic. Every
enclosure holds the one real vector that was drawn, so a later call with more
bits refines an earlier one; nothing is ever re-drawn or rounded here.

*Constructions.* E denotes -log of a lazy uniform, an exact exponential.

- l1: independent coordinates, sign times E / rate.
- l-infinity: radius Gamma(d + 1) / rate times a uniform point of the cube.
- l2: radius Gamma(d) / rate times a uniform direction Z / ||Z||_2, with Z
  standard normal by Box and Muller, Z = sqrt(2 E) (cos, sin)(2 pi U).

Gamma variables of integer shape are sums of exponentials.

Questions about exact reals, asked with more bits until the answer is certain.

A random real is drawn lazily, and looked at as a ball. A question about it
(is it above that threshold? which integer is nearest?) is open while the ball holds both answers.
Guessing then would change the law, so nothing is ever decided but for certain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Literal, Protocol, TypeVar

from flint import arb

from mechanisms.exact.balls import norm_two, rational
from mechanisms.exact.floats import working_precision
from mechanisms.randomness import LazyUniform, Randomness

Answer = TypeVar("Answer")


class UnsoundEnvelopeError(ArithmeticError):
    """A law is above the envelope it is drawn from, so accepted points have another law.

    The sampler's own arithmetic is wrong then. The draw ends with nothing to release.
    """

    def __init__(self) -> None:
        super().__init__("a law is above its envelope: nothing is drawn")


def settled(
    look: Callable[[int], Answer | None], *, first_bits: int = 64, guard_bits: int = 0
) -> Answer:
    """Return the first answer of ``look(bits)`` that is not None, for bits doubling each time.

    Parameters
    ----------
    look : callable
        Reads the given number of bits of every real involved; None while the question is open. It
        is called at ``bits + guard_bits`` bits of working precision.
    first_bits, guard_bits : int
        How many bits to begin with, and how many more the arithmetic may lose.
    """
    bits = first_bits
    while True:
        with working_precision(bits + guard_bits):
            answer = look(bits)
        if answer is not None:
            return answer
        bits *= 2


def exceeds(left: arb, right: arb) -> bool | None:
    """Return whether one number is above another, or None where their balls overlap.

    >>> exceeds(arb(2), arb(1)), exceeds(arb(1), arb(2)), exceeds(arb(1, 1), arb(2))
    (True, False, None)
    """
    if left > right:
        return True
    return False if left < right else None


# Exact continuous K-norm vectors, as lazily refined balls


BallNorm = Literal["l1", "l2", "linf"]

_GUARD_BITS = 32  # more than a logarithm and a few products can lose


class LazyVector(Protocol):
    """A random real vector that can be read with any precision."""

    def enclose(self, bits: int) -> list[arb]:
        """Return balls around the coordinates; their radii vanish as ``bits`` grows."""


def knorm_vector(
    *, norm: BallNorm, dimension: int, rate_squared: Fraction, randomness: Randomness
) -> LazyVector:
    """Draw V with density proportional to exp(-rate ||V||_K) on R^dimension, lazily.

    Parameters
    ----------
    norm : {"l1", "l2", "linf"}
        The norm K.
    dimension : int
        d >= 1.
    rate_squared : Fraction
        The square of the rate, exactly; squared because an l2 sensitivity is
        often the root of a rational. A rational rate r is passed as ``r**2``.
    randomness : Randomness
        Where the bits come from.

    Returns
    -------
    LazyVector
        ``enclose(bits)`` looks at ``bits`` bits of each uniform. A ball is
        infinite (with probability about d 2**-bits) while a uniform under a
        logarithm may still be zero; ask for more bits.

    Notes
    -----
    **Privacy.** With rate = epsilon / Delta_K, ``T + V`` is epsilon-DP for a
    statistic of K-norm sensitivity Delta_K (Awan & Slavkovic, Prop. 2.10).
    """
    if dimension < 1 or rate_squared <= 0:
        raise ValueError("dimension and rate must be positive")
    kinds: dict[str, type[_L1Vector | _L2Vector | _LinfVector]] = {
        "l1": _L1Vector,
        "l2": _L2Vector,
        "linf": _LinfVector,
    }
    return kinds[norm](dimension, rate_squared, randomness)


def _uniforms(count: int, randomness: Randomness) -> tuple[LazyUniform, ...]:
    return tuple(randomness.uniform() for _ in range(count))


def gamma(uniforms: Sequence[LazyUniform], bits: int) -> arb:
    """Return -log of the product: Gamma of shape len(uniforms), rate 1."""
    # One logarithm of a product costs less, and is tighter, than many logarithms.
    product = arb(1)
    for uniform in uniforms:
        product *= uniform.enclose(bits)
    return -product.log()


def inverse_root(rate_squared: Fraction) -> arb:
    """Return 1 / rate."""
    return rational(1 / rate_squared).sqrt()


class _L1Vector:
    """Independent Laplace coordinates."""

    __slots__ = ("_magnitudes", "_rate_squared", "_signs")

    def __init__(self, dimension: int, rate_squared: Fraction, randomness: Randomness) -> None:
        self._rate_squared = rate_squared
        self._signs = tuple(1 - 2 * randomness.bits(1) for _ in range(dimension))
        self._magnitudes = _uniforms(dimension, randomness)

    def enclose(self, bits: int) -> list[arb]:
        with working_precision(bits + _GUARD_BITS):
            scale = inverse_root(self._rate_squared)
            return [
                sign * scale * gamma((magnitude,), bits)
                for sign, magnitude in zip(self._signs, self._magnitudes, strict=True)
            ]


class _LinfVector:
    """A Gamma(d + 1) radius times a uniform point of the cube [-1, 1]^d."""

    __slots__ = ("_point", "_radius", "_rate_squared")

    def __init__(self, dimension: int, rate_squared: Fraction, randomness: Randomness) -> None:
        self._rate_squared = rate_squared
        self._radius = _uniforms(dimension + 1, randomness)
        self._point = _uniforms(dimension, randomness)

    def enclose(self, bits: int) -> list[arb]:
        with working_precision(bits + _GUARD_BITS):
            radius = inverse_root(self._rate_squared) * gamma(self._radius, bits)
            return [radius * (2 * uniform.enclose(bits) - 1) for uniform in self._point]


class _L2Vector:
    """A Gamma(d) radius times a uniform direction."""

    __slots__ = ("_angles", "_dimension", "_lengths", "_radius", "_rate_squared")

    def __init__(self, dimension: int, rate_squared: Fraction, randomness: Randomness) -> None:
        self._rate_squared = rate_squared
        self._dimension = dimension
        self._radius = _uniforms(dimension, randomness)
        pairs = (dimension + 1) // 2
        self._lengths = _uniforms(pairs, randomness)
        self._angles = _uniforms(pairs, randomness)

    def enclose(self, bits: int) -> list[arb]:
        with working_precision(bits + _GUARD_BITS):
            normal = self._normal(bits)
            length = norm_two(normal)
            radius = inverse_root(self._rate_squared) * gamma(self._radius, bits) / length
            return [radius * z for z in normal]

    def _normal(self, bits: int) -> list[arb]:
        """Return d independent standard normals; an odd d leaves the last one unused."""
        normal: list[arb] = []
        for length, angle in zip(self._lengths, self._angles, strict=True):
            scale = (2 * gamma((length,), bits)).sqrt()
            sine, cosine = (2 * angle.enclose(bits)).sin_cos_pi()
            normal += [scale * cosine, scale * sine]
        return normal[: self._dimension]
