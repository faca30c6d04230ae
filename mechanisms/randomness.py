"""The one source of random bits, and the exact primitives drawn from it.

Every draw of this package takes a :class:`Randomness`. The service builds it
with :func:`system_randomness`, which reads the operating system's generator;
the only seeded replacement is in :mod:`mechanisms.testing`.

Two kinds of exactness are offered.

*Integers and rationals only*: uniform integers, Bernoulli(p), Bernoulli(exp(-x)),
geometric and discrete Laplace variables (Canonne, Kamath & Steinke 2020,
arXiv 2004.00010, Algorithms 1 and 2).

*Lazy reals*: a :class:`LazyUniform` is an infinite binary expansion of which
only the bits asked for have been drawn. ``enclose(bits)`` gives a ball (Arb)
that certainly holds the value; a later call with more bits gives a smaller
ball inside it. A comparison or a rounding that a ball leaves open is decided
by drawing more bits, never by a float.
"""

from __future__ import annotations

import os
from fractions import Fraction
from typing import NoReturn, Protocol

from flint import arb

_BUFFER_BYTES = 512  # one call of the system serves many small draws


class BitSource(Protocol):
    """Anything that yields independent fair bits."""

    def bits(self, count: int) -> int:
        """Return an integer uniform on [0, 2**count)."""


class SystemBits:
    """Bits of the operating system's generator, buffered, never shared across a fork."""

    __slots__ = ("_buffer", "_left", "_pid")

    def __init__(self) -> None:
        self._buffer = 0
        self._left = 0
        self._pid = os.getpid()

    def bits(self, count: int) -> int:
        """Return an integer uniform on [0, 2**count).

        Raises
        ------
        OSError, NotImplementedError
            The operating system has no randomness to give; the draw must fail.
        """
        pid = os.getpid()
        if pid != self._pid:  # a forked child must not replay its parent's buffer
            self._pid, self._left = pid, 0
        # The few bits left are dropped: joining them to fresh ones would buy nothing.
        if self._left < count:
            fresh = max(_BUFFER_BYTES, (count + 7) // 8)
            self._buffer = int.from_bytes(os.urandom(fresh), "little")
            self._left = 8 * fresh
        value = self._buffer & ((1 << count) - 1)
        self._buffer >>= count
        self._left -= count
        return value

    def __reduce__(self) -> NoReturn:
        """Refuse to travel: bits that another process has could be drawn twice."""
        raise TypeError("random bits are drawn where they are used")


class Randomness:
    """Exact draws from one stream of bits.

    An instance belongs to one draw in one thread; make a new one per release.
    """

    __slots__ = ("_source",)

    def __init__(self, source: BitSource) -> None:
        self._source = source

    def bits(self, count: int) -> int:
        """Return an integer uniform on [0, 2**count)."""
        return self._source.bits(count)

    def below(self, bound: int) -> int:
        """Return an integer uniform on [0, bound), bound >= 1, by rejection."""
        count = (bound - 1).bit_length()
        while (value := self._source.bits(count)) >= bound:
            pass
        return value

    def bernoulli(self, probability: Fraction) -> bool:
        """Return True with exactly this rational probability in [0, 1]."""
        return self.below(probability.denominator) < probability.numerator

    def bernoulli_exp(self, exponent: Fraction) -> bool:
        """Return True with probability exactly exp(-exponent), exponent >= 0 (CKS Algorithm 1)."""
        whole, rest = divmod(exponent.numerator, exponent.denominator)
        return all(self._bernoulli_exp_unit(1, 1) for _ in range(whole)) and (
            self._bernoulli_exp_unit(rest, exponent.denominator)
        )

    def _bernoulli_exp_unit(self, numerator: int, denominator: int) -> bool:
        """Return True with probability exp(-numerator/denominator), the ratio in [0, 1]."""
        # More than k trials are made with probability ratio**k / k!. Of an odd number it is made
        # with
        # 1 - ratio + ratio**2 / 2 - ..., which is exp(-ratio).
        trials = 1
        while self.below(denominator * trials) < numerator:
            trials += 1
        return trials % 2 == 1

    def geometric_exp(self, rate: Fraction) -> int:
        """Return k >= 0 with probability proportional to exp(-rate k), rate > 0.

        The step inside CKS Algorithm 2: an exact geometric of ratio exp(-1/t)
        is built from a uniform remainder and a geometric of ratio exp(-1), then
        divided by s for rate = s/t.
        """
        scale = rate.denominator
        remainder = self.below(scale)
        while not self._bernoulli_exp_unit(remainder, scale):
            remainder = self.below(scale)
        quotient = 0
        while self._bernoulli_exp_unit(1, 1):
            quotient += 1
        return (remainder + scale * quotient) // rate.numerator

    def discrete_laplace(self, rate: Fraction) -> int:
        """Return v in Z with probability proportional to exp(-rate |v|) (CKS Algorithm 2)."""
        while True:
            negative = self._source.bits(1)
            magnitude = self.geometric_exp(rate)
            # A 0 with a minus is drawn again, or 0 would come twice as often as it should.
            if magnitude or not negative:
                return -magnitude if negative else magnitude

    def uniform(self) -> LazyUniform:
        """Return a real uniform on (0, 1), drawn lazily."""
        return LazyUniform(self)


class LazyUniform:
    """A real uniform on (0, 1) known to as many bits as were asked for.

    >>> from mechanisms.testing import seeded_randomness
    >>> u = seeded_randomness(1).uniform()
    >>> coarse, fine = u.enclose(8), u.enclose(64)
    >>> coarse.contains(fine)
    True
    """

    __slots__ = ("_count", "_numerator", "_randomness")

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness
        self._numerator = 0
        self._count = 0

    @classmethod
    def begun(cls, randomness: Randomness, numerator: int, count: int) -> LazyUniform:
        """Return the uniform whose first ``count`` bits were already drawn as ``numerator``."""
        uniform = cls(randomness)
        uniform._numerator = numerator
        uniform._count = count
        return uniform

    def prefix(self, bits: int) -> int:
        """Return k such that the value lies in [k, k+1] * 2**-bits."""
        missing = bits - self._count
        if missing > 0:
            self._numerator = (self._numerator << missing) | self._randomness.bits(missing)
            self._count = bits
        return self._numerator >> (self._count - bits)

    def enclose(self, bits: int) -> arb:
        """Return a ball of radius 2**-(bits+1) that holds the value."""
        return arb((2 * self.prefix(bits) + 1, -(bits + 1)), (1, -(bits + 1)))


def system_randomness() -> Randomness:
    """Return a fresh stream from the operating system's generator."""
    return Randomness(SystemBits())
