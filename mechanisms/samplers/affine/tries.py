"""One try of a route: its random words, its float screen, its certified decision.

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

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from flint import arb
from numpy.typing import NDArray

from mechanisms.exact.certainty import UnsoundEnvelopeError
from mechanisms.exact.floats import grid_point, working_precision
from mechanisms.exact.many import Floats, Words
from mechanisms.randomness import LazyUniform, Randomness

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
