"""Two-sided exponentials with exactly known odds and rates.

A coordinate has density proportional to exp(-r+ x) for x > 0 and exp(-r- |x|) for
x < 0. The envelope only needs rates a little below those asked for, so r+ is a
dyadic float, the sign is + with odds out of 2**64, and r- = r+ odds / (2**64 -
odds) follows from them: then the two sides meet at 0 and the density is known
exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from flint import arb

from mechanisms.exact.arrays import Floats, Words
from mechanisms.exact.balls import rational
from mechanisms.samplers.affine.tries import WORD_BITS

WORDS = 1 << WORD_BITS


@dataclass(frozen=True, slots=True)
class TwoSided:
    """Independent coordinates: rates for +, odds of + out of 2**64, rates for -."""

    plus: tuple[float, ...]
    odds: tuple[int, ...]
    minus: tuple[Fraction, ...]
    minus_hints: tuple[float, ...]

    def __len__(self) -> int:
        """Return how many coordinates there are."""
        return len(self.plus)

    @property
    def widths(self) -> list[float]:
        """Return 1 / r+ + 1 / r- per coordinate: the integrals."""
        return [1 / one + 1 / two for one, two in zip(self.plus, self.minus_hints, strict=True)]

    def balls(
        self, signs: Sequence[int], parts: Sequence[arb], scale: Fraction
    ) -> tuple[list[arb], arb]:
        """Return the coordinates and the sum of their sizes, from unit exponentials.

        ``scale`` multiplies every rate.
        """
        signed, total = [], arb(0)
        for place, (sign, part) in enumerate(zip(signs, parts, strict=True)):
            positive = sign < self.odds[place]
            rate = Fraction(self.plus[place]) if positive else self.minus[place]
            size = part / rational(scale * rate)
            total += size
            signed.append(size if positive else -size)
        return signed, total

    def floats(self, signs: Words, parts: Floats) -> Floats:
        """Return the coordinates per row, from exponentials already divided by the scale."""
        if not self.plus:
            return parts
        positive = signs < np.array(self.odds, dtype=np.uint64)
        minus = np.array(self.minus_hints)
        signed: Floats = np.where(positive, parts / np.array(self.plus), -parts / minus)
        return signed


def two_sided(plus: Sequence[float], minus: Sequence[float]) -> TwoSided | None:
    """Return coordinates whose rates are at most these floats; None unless all are positive."""
    if min([*plus, *minus], default=1.0) <= 0:
        return None
    odds = tuple(_odds(one, two) for one, two in zip(plus, minus, strict=True))
    if any(not 0 < odd < WORDS for odd in odds):
        return None
    rates = tuple(Fraction(one) * odd / (WORDS - odd) for one, odd in zip(plus, odds, strict=True))
    return TwoSided(tuple(plus), odds, rates, tuple(float(rate) for rate in rates))


def _odds(plus: float, minus: float) -> int:
    """Return odds of + whose implied rate for - lies just below ``minus``."""
    share = Fraction(minus) / (Fraction(plus) + Fraction(minus))
    return int(share * (1 - Fraction(1, 1 << 40)) * WORDS)
