"""Route (c): a radial envelope that follows Delta(theta).

Write theta = theta_hat + s A^-1 u with s = h and u on the surface of the cube.
Then rho lies in [rho_lo(s), rho_hi(s)] = [max(0, a - kappa s), min(B, a + kappa s)]
with a = ||theta_hat||_1 and kappa = sum |A^-1_ij|, so in the coordinates (s, u),
whose volume element is s^(d-1) ds du up to a constant,

    log f <= sup over R in [1 + rho_lo, 1 + rho_hi] of -k s / R - p log R,

attained at R = k s / p clipped to the interval (at its right end for p = 0).
Cut s >= 0 into pieces [s_i, s_(i+1)] at dyadic places that reach beyond the
largest h on Theta, and bound log f on a piece by U_i, that supremum with s_i in
the exponent and s_(i+1) in the interval. The envelope is constant on a piece:

    envelope_i = exp(offset) W_i / (s_(i+1)^d - s_i^d),

with integers W_i large enough that envelope_i >= exp(U_i) (float logarithms,
rounded up by a margin). A piece is drawn with odds W_i exactly, s as
(s_i^d + v (s_(i+1)^d - s_i^d))^(1/d), a face of the cube and the d - 1 other
coordinates uniformly; accept iff rho <= B and log U < log f - log envelope_i, the
latter in balls from the integers W_i. The envelope's mass is
exp(offset) sum W_i 2^d / det A.

One coefficient where a record is replaced: pieces of the line.

f(theta) = exp(-k |A theta - b| / D) (1 + |theta|)^-p on [-B, B], with D as in
:mod:`mechanisms.samplers.affine.posterior`, which grows with |theta|. So on a piece [l, r] on one
side of 0

    log f <= -k min |A theta - b| / D(far end) - p log(1 + |near end|),

and likewise from below. Pieces are cut in halves where the two bounds differ by much mass, which
ends near f itself, for all data. The envelope is constant on a piece, W_i / (r - l) times
exp(offset), with integers W_i that make it no less than the bound (float logarithms, rounded up by
a margin). A piece is drawn with odds W_i exactly, theta uniformly in it; accept iff |theta| <= B
and log U < log f - log envelope, the latter in balls from the integers W_i.

*Two-sided exponentials with exactly known odds and rates.* A coordinate has density proportional
to exp(-r+ x) for x > 0 and exp(-r- |x|) for x < 0. The envelope only needs rates a little below
those asked for, so r+ is a dyadic float, the sign is + with odds out of 2**64, and r- = r+ odds /
(2**64 - odds) follows from them: then the two sides meet at 0 and the density is known exactly.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat
from numpy.typing import NDArray

from mechanisms.exact.balls import norm_one, rational
from mechanisms.exact.floats import Floats, Words
from mechanisms.exact.fractions import once
from mechanisms.samplers.affine.cube import WORD_BITS, Verdict, log_density_ceiling, pulled_norm
from mechanisms.samplers.affine.posterior import FLOAT_SLACK, AffinePosterior, Shadow

# Two-sided exponentials with exactly known odds and rates

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


# One coefficient where a record is replaced: pieces of the line

_ROOM = 2.0**WORD_BITS * (1 - 2.0**-30)  # words for all odds, with room to round each up
_MARGIN = 2.0**-20  # covers the float logarithms of the bounds
_ROUNDS = 80  # of cuts: pieces then are narrower than any law that floats can hold
_SHARE = 2.0**-7  # of all mass, which one piece may lose before it is cut


class _Pieces(NamedTuple):
    """Places, cumulated odds W, log heights and the log offset."""

    places: Floats
    ends: NDArray[np.uint64]
    heights: Floats
    offset: float


@dataclass(frozen=True)
class LineRoute:
    """Propose theta from a piecewise constant envelope."""

    law: AffinePosterior

    @property
    def name(self) -> str:
        """Return the route's name."""
        return "line"

    @property
    def choices(self) -> int:
        """Return 1: the piece."""
        return 1

    @property
    def uniforms(self) -> int:
        """Return 1: the place in it."""
        return 1

    @property
    def guard_bits(self) -> int:
        """Return the bits a product may cancel."""
        return self.law.guard_bits

    @property
    def log_mass(self) -> float:
        """Return offset + log sum W_i."""
        return self.pieces.offset + math.log(float(self.pieces.ends[-1]))

    @once
    def pieces(self) -> _Pieces:
        """Return the envelope."""
        return _envelope(self.law.shadow)

    def screen(self, choices: Words, uniforms: Floats) -> Floats:  # noqa: ARG002
        """Return 0 per row: most tries are accepted, and the balls decide them all."""
        return np.zeros(len(choices))

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict | None:
        """Return theta, B - |theta| and log f - log envelope; None for a word beyond the odds."""
        exact, pieces = self.law.enclose(bits), self.pieces
        piece = int(np.searchsorted(pieces.ends, np.uint64(choices[0]), side="right"))
        if piece == len(pieces.ends):
            return None
        low, high = arb(float(pieces.places[piece])), arb(float(pieces.places[piece + 1]))
        theta = low + uniforms[0] * (high - low)
        weight = int(pieces.ends[piece]) - (int(pieces.ends[piece - 1]) if piece else 0)
        height = abs(exact.matrix[0, 0] * theta - exact.vector[0, 0])
        log_envelope = (arb(weight) / (high - low)).log() + arb(pieces.offset)
        return Verdict(
            theta=[theta],
            conditions=[exact.bound - abs(theta)],
            log_ratio=exact.log_density(height, [theta]) - log_envelope,
        )


def _envelope(shadow: Shadow) -> _Pieces:
    """Cut the line where the bounds lose mass, and turn the upper ones into integer odds."""
    # A hair beyond B, which a float may have rounded down; points outside are rejected.
    edge = shadow.bound * (1 + FLOAT_SLACK)
    places = np.array([-edge, 0.0, edge])
    for _ in range(_ROUNDS):
        low, high = _bounds(shadow, places)
        widths = np.diff(places)
        top = float((high + np.log(widths)).max())
        lost = widths * (np.exp(high - top) - np.exp(low - top))
        middles = places[:-1] + widths / 2
        cut = lost > _SHARE * float((widths * np.exp(high - top)).sum())
        # Where floats have no number between the ends, a piece stays whole.
        cut &= (middles > places[:-1]) & (middles < places[1:])
        if not cut.any():
            break
        places = np.sort(np.concatenate([places, middles[cut]]))
    high, log_widths = _bounds(shadow, places)[1], np.log(np.diff(places))
    logs = high + log_widths
    top = float(logs.max())
    masses = np.exp(logs - top)
    room = _ROOM / float(masses.sum())
    # Rounded up: the envelope stays above f.
    integers = (masses * room).astype(np.uint64) + np.uint64(1)
    offset = top - math.log(room) + _MARGIN
    heights = np.log(integers.astype(np.float64)) - log_widths + offset
    return _Pieces(places, np.cumsum(integers, dtype=np.uint64), heights, offset)


def _bounds(shadow: Shadow, places: Floats) -> tuple[Floats, Floats]:
    """Return lower and upper bounds of log f on each piece, the upper ones rounded up."""
    left, right = places[:-1], places[1:]
    ends = np.abs(np.stack([left, right]))
    near, far = ends.min(axis=0), ends.max(axis=0)
    slack = FLOAT_SLACK * (far * shadow.matrix[0, 0] + abs(shadow.vector[0]))
    values = np.stack([left, right]) * shadow.matrix[0, 0] - shadow.vector[0]
    # Between ends of different signs |A theta - b| falls to 0.
    crossed = values[0] * values[1] <= 0
    least = np.where(crossed, 0.0, np.maximum(np.abs(values).min(axis=0) - slack, 0.0))
    most = np.abs(values).max(axis=0) + slack
    high = -shadow.rate * least / _divisor(far) - shadow.power * np.log1p(near)
    low = -shadow.rate * most / _divisor(near) - shadow.power * np.log1p(far)
    return low, high + FLOAT_SLACK * (1 + np.abs(high))


def _divisor(length: Floats) -> Floats:
    """Return D at a length |theta|."""
    # At 1/2 this is 1, as it is below.
    longer = np.maximum(length, 0.5)
    return np.asarray((1 + longer) / 2 + 1 / (8 * longer))


# Route (c): a radial envelope that follows Delta(theta)


# Words for the odds of all pieces, with room for rounding each up.
_PARTS_PER_DIMENSION = 4  # finer pieces fit f better and cost more to look up


@dataclass(frozen=True)
class RadialRoute:
    """Propose a radius from a piecewise envelope and a direction uniform on the cube's surface."""

    law: AffinePosterior

    @property
    def name(self) -> str:
        """Return the route's name."""
        return "radial"

    @property
    def choices(self) -> int:
        """Return 2: the piece and the face."""
        return 2

    @property
    def uniforms(self) -> int:
        """Return d: the radius and d - 1 coordinates on the face."""
        return self.law.dimension

    @property
    def guard_bits(self) -> int:
        """Return the bits a product may cancel."""
        return self.law.guard_bits

    @property
    def log_mass(self) -> float:
        """Return offset + log sum W_i + d log 2 - log det A."""
        size, total = self.law.dimension, float(self.pieces.ends[-1])
        volume = size * math.log(2) - self.law.shadow.log_determinant
        return self.pieces.offset + math.log(total) + volume

    @once
    def pieces(self) -> Pieces:
        """Return the envelope."""
        return _cut(self.law.shadow, self.law.dimension)

    def screen(self, choices: Words, uniforms: Floats) -> Floats:
        """Return an upper bound on log f - log envelope per row."""
        shadow, pieces, size = self.law.shadow, self.pieces, self.law.dimension
        piece = np.searchsorted(pieces.ends, choices[:, 0], side="right")
        drawn = piece < len(pieces.ends)
        piece = np.where(drawn, piece, 0)
        low, high = pieces.places[piece], pieces.places[piece + 1]
        shrunk: Floats = (low / high) ** size
        radius: Floats = high * (shrunk + uniforms[:, 0] * (1 - shrunk)) ** (1 / size)
        # The few words beyond a multiple of 2 d name no face; their tries are rejected.
        face = choices[:, 1] // np.uint64(_face_width(size))
        inside = drawn & (face < 2 * size)
        noise = np.empty((len(radius), size))
        noise[:, 1:] = radius[:, None] * (2 * uniforms[:, 1:] - 1)
        axis = np.where(inside, face >> np.uint64(1), 0).astype(np.intp)
        rows = np.arange(len(radius))
        # The radius takes the face's coordinate, whose own uniform moves to coordinate 0.
        noise[rows, 0] = noise[rows, axis]
        noise[rows, axis] = np.where(face & np.uint64(1), -radius, radius)
        norm, slack = pulled_norm(shadow, noise, radius)
        ceiling = log_density_ceiling(shadow, radius, norm, slack) - pieces.heights[piece]
        outside = ~inside | (norm - slack > shadow.bound)
        return np.where(outside, -np.inf, ceiling + FLOAT_SLACK * (1 + abs(pieces.heights[piece])))

    def verdict(self, choices: Sequence[int], uniforms: Sequence[arb], bits: int) -> Verdict | None:
        """Return theta, B - rho and log f - log envelope; None for a word beyond the odds."""
        exact, pieces, size = self.law.enclose(bits), self.pieces, self.law.dimension
        piece = int(np.searchsorted(pieces.ends, np.uint64(choices[0]), side="right"))
        face = choices[1] // _face_width(size)
        if piece == len(pieces.ends) or face >= 2 * size:
            return None
        low, high = arb(float(pieces.places[piece])), arb(float(pieces.places[piece + 1]))
        volume = high**size - low**size
        radius = (low**size + uniforms[0] * volume).root(size)
        noise = [radius, *(radius * (2 * uniform - 1) for uniform in uniforms[1:])]
        axis = face >> 1
        noise[0], noise[axis] = noise[axis], -radius if face & 1 else radius
        theta = (exact.centre + exact.inverse * arb_mat(size, 1, noise)).entries()
        norm = norm_one(theta)
        log_envelope = (arb(pieces.weight(piece)) / volume).log() + arb(pieces.offset)
        return Verdict(
            theta=theta,
            conditions=[exact.bound - norm],
            log_ratio=exact.log_density(radius, theta) - log_envelope,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """The envelope: places s_0 = 0 < ... < s_m, cumulated odds W, log heights, log offset."""

    places: Floats
    ends: NDArray[np.uint64]
    heights: Floats
    offset: float

    def weight(self, piece: int) -> int:
        """Return W_i."""
        before = int(self.ends[piece - 1]) if piece else 0
        return int(self.ends[piece]) - before


def _face_width(size: int) -> int:
    """Return how many words fall to one of the 2 d faces; the few left over are rejected."""
    return (1 << WORD_BITS) // (2 * size)


def _cut(shadow: Shadow, size: int) -> Pieces:
    """Choose places, bound f on each piece and turn the bounds into integer odds."""
    places = _places(shadow, size)
    low, high = places[:-1], places[1:]
    bounds = _suprema(shadow, low, high)
    log_volumes = size * np.log(high) + np.log1p(-((low / high) ** size))
    logs = bounds + log_volumes
    top = float(logs.max())
    masses = np.exp(logs - top)
    room = _ROOM / float(masses.sum())
    # Rounding up keeps every weight at least 1 and the envelope above f.
    integers = (masses * room).astype(np.uint64) + np.uint64(1)
    offset = top - math.log(room) + _MARGIN
    heights = np.log(integers.astype(np.float64)) - log_volumes + offset
    ends = np.cumsum(integers, dtype=np.uint64)
    return Pieces(places=places, ends=ends, heights=heights, offset=offset)


def _suprema(shadow: Shadow, low: Floats, high: Floats) -> Floats:
    """Return upper bounds on log f for h in [low, high], rounded up."""
    swing = shadow.spread * high
    narrow = 1 + np.maximum(0.0, shadow.centre_norm * (1 - 4 * FLOAT_SLACK) - swing)
    wide = 1 + np.minimum(shadow.bound * (1 + FLOAT_SLACK), shadow.centre_norm + swing)
    exponent = shadow.rate * low
    if not shadow.power:
        bounds: Floats = -exponent / wide
    else:
        narrow = np.minimum(narrow, wide)
        best = np.clip(exponent / shadow.power, narrow, wide)
        bounds = -exponent / best - shadow.power * np.log(best)
    return bounds + FLOAT_SLACK * (1 + np.abs(bounds))


def _places(shadow: Shadow, size: int) -> Floats:
    """Return places close together where the mass can be, doubling from there to the last h."""
    growth = 1 + 1 / (_PARTS_PER_DIMENSION * size)
    places = [0.0, 0.1 * size / shadow.rate]
    # Next to no mass lies beyond: there wider pieces cost nothing.
    far = (4 * size + 60) / shadow.floor_rate
    while places[-1] < shadow.reach:
        places.append(places[-1] * (growth if places[-1] < far else 2.0))
    return np.array(places)
