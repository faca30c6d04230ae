"""Weighted choice among a changing set, with exact integer weights.

A binary tree of partial sums: adding, removing and choosing touch one path.

*Pieces that cover a grid without overlap: chosen by weight, then a point is accepted or not.*
Piece b carries a certified lower bound e_b of the exponent E on it, a set Q_b of grid points that
holds it, and the integer weight

    W_b >= 2**_SCALE * exp(-(e_b - reference))

per grid point, ``|Q_b| W_b`` in all. One try chooses a piece by weight and one point theta of Q_b
uniformly. A point outside of the piece is rejected; one inside is accepted with probability
``2**_SCALE exp(-(E(theta) - reference)) / W_b``, at most 1.

*Why this is exact.* Given everything that happened before a try, the pair (piece, point) is a
given theta of Theta and the piece that holds it with probability W_b / sum(|Q| W); it is accepted
with the ratio above. So theta is accepted with probability exp(-E(theta)) times a factor that does
not depend on theta: given that this try succeeds, theta has the law, whatever the history. The
number of tries, the pieces and the reference depend on the data and on earlier tries. They decide
when the draw ends, not its result, and are not released.

Several envelopes of one law may take turns: which of them is tried next is part of the history.

*Memory* is bounded. Pieces that were split are stored. When the held pieces exceed the limit,
parts are merged again, starting with the lightest pieces. That too is history.

*A wrong bound* would change the law without a trace, so each point tried is compared with the bound
of its piece. A point below the bound ends the draw with an error.

The choice is by exact integers. The ratio is irrational and is compared with a uniform number in
ball arithmetic, with more bits of both until it is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from flint import arb

from mechanisms.exact.continuous import UnsoundEnvelopeError, exceeds, settled
from mechanisms.randomness import Randomness


class SumTree:
    """Non-negative integer weights of slots 0, 1, 2, ..., any of which may change."""

    __slots__ = ("_capacity", "_sums")

    def __init__(self, weights: Iterable[int] = ()) -> None:
        leaves = list(weights)
        self._capacity = max(1 << (len(leaves) - 1).bit_length(), 64) if leaves else 64
        self._fill(leaves)

    @property
    def total(self) -> int:
        """Return the sum of all weights."""
        return self._sums[1]

    def set(self, slot: int, weight: int) -> None:
        """Give a slot its weight; slots are added as they are named."""
        while slot >= self._capacity:
            leaves = self._sums[self._capacity :]
            self._capacity *= 2
            self._fill(leaves)
        place = self._capacity + slot
        change = weight - self._sums[place]
        while place:
            self._sums[place] += change
            place >>= 1

    def choose(self, randomness: Randomness) -> int:
        """Return a slot with probability exactly its weight over the total (above zero)."""
        target = randomness.below(self._sums[1])
        place = 1
        while place < self._capacity:
            place *= 2
            if target >= self._sums[place]:
                target -= self._sums[place]
                place += 1
        return place - self._capacity

    def _fill(self, leaves: list[int]) -> None:
        self._sums = [0] * self._capacity + leaves + [0] * (self._capacity - len(leaves))
        for place in reversed(range(1, self._capacity)):
            self._sums[place] = self._sums[2 * place] + self._sums[2 * place + 1]


# Pieces that cover a grid without overlap: chosen by weight, then a point is accepted or not

MOST_BYTES = 1 << 28
"""What an envelope holds stays below this; the pieces that were split take about as much again."""

_SPLIT_EFFORT = 16  # splitting a piece takes about as long as this many tries
_HEAD_START = 256 * (1 + _SPLIT_EFFORT)  # most draws take less
_AHEAD = 3  # then the envelope that should be quicker gets this multiple of the other's effort
_GUARD_BITS = 64  # more than the exponential of an exponent can lose
_SCALE = 512  # bits of a piece's integer weight
_LEAST = -318.0  # lighter pieces are weighed as if this heavy; e**-318 > 2**(52 - _SCALE)
_REBASE_BITS = 120  # the weights are rescaled before they exceed the scale


@dataclass(slots=True, eq=False, kw_only=True)
class Piece:
    """A piece: its bound e_b, the size of Q_b, about how many bytes it takes, and whence it came.

    ``parts`` counts the pieces it was split into that are not empty.
    """

    exponent: float
    points: int
    size: int
    whole: Piece | None = None
    parts: int = 0


class Trial(Protocol):
    """An envelope with its law: one try at a time."""

    @property
    def envelope(self) -> Envelope[Any]:
        """Return the pieces held."""

    def attempt(self, randomness: Randomness) -> tuple[int, ...] | None:
        """Return the point of one try if it is accepted."""


def first_kept(trials: Sequence[Trial], randomness: Randomness) -> tuple[int, ...]:
    """Return the first point that envelopes of one law, in turns, accept: a draw from the law.

    The first one has a head start, and more turns than the others: it should be the one expected
    to be quicker. Turns are shared by the effort made, not by tries, since misses cost little.
    """
    first, *others = trials
    while True:
        trial = min(others, key=_effort, default=first)
        if _effort(first) < _HEAD_START + _AHEAD * _effort(trial):
            trial = first
        point = trial.attempt(randomness)
        if point is not None:
            return point


def _effort(trial: Trial) -> int:
    return trial.envelope.effort


Held = TypeVar("Held", bound=Piece)


class Envelope(Generic[Held]):
    """The pieces held, with their weights relative to a reference exponent.

    ``effort`` counts what was done with them so far, in tries; who looks at more than usual adds
    to it.
    """

    def __init__(
        self, floor: float, pieces: Iterable[Held], *, most_bytes: int = MOST_BYTES
    ) -> None:
        self.reference = floor
        self.size = 0
        self.effort = 0
        self._most_bytes = most_bytes
        self._pieces: list[Held | None] = []
        self._tree = SumTree()
        self._free: list[int] = []
        for piece in pieces:
            self._add(piece)
        self._rebase()

    def replace(self, parts: Mapping[int, Sequence[Held]]) -> None:
        """Hold, instead of the pieces in some slots, parts that cover what of them is in Theta."""
        for slot, each in parts.items():
            self._replace(slot, each)
        if self.size > self._most_bytes:
            self._put_together()
        self._rebase()

    def _replace(self, slot: int, parts: Sequence[Held]) -> None:
        self.effort += _SPLIT_EFFORT
        whole: Piece | None = self._pieces[slot]
        assert whole is not None
        self._remove(slot)
        whole.parts = len(parts)
        for part in parts:
            part.whole = whole
            self._add(part)
        # A whole of which nothing is left is gone from the piece that it was a part of.
        while whole.whole is not None and not whole.parts:
            whole = whole.whole
            whole.parts -= 1

    def _add(self, piece: Held) -> None:
        self.size += piece.size
        # Slots are used again: the tree would else grow with every split.
        if self._free:
            slot = self._free.pop()
            self._pieces[slot] = piece
        else:
            slot = len(self._pieces)
            self._pieces.append(piece)
        self._tree.set(slot, self._mass(piece))

    def _remove(self, slot: int) -> None:
        piece = self._pieces[slot]
        assert piece is not None
        self.size -= piece.size
        self._pieces[slot] = None
        self._tree.set(slot, 0)
        self._free.append(slot)

    def _put_together(self) -> None:
        """Hold wholes instead of their parts, the lightest first, until half the bytes are free."""
        # Down to half, or the next split would begin it again.
        while self.size > self._most_bytes // 2:
            parts: dict[Held, list[int]] = {}
            for slot, piece in enumerate(self._pieces):
                if piece is not None and piece.whole is not None:
                    parts.setdefault(cast(Held, piece.whole), []).append(slot)
            # Only where all parts are held themselves: what is split further would be
            # covered twice.
            ready = [whole for whole, slots in parts.items() if len(slots) == whole.parts]
            if not ready:
                return
            for whole in sorted(ready, key=self._mass):
                for slot in parts[whole]:
                    self._remove(slot)
                whole.parts = 0
                self._add(whole)
                if self.size <= self._most_bytes // 2:
                    break

    def _mass(self, piece: Piece) -> int:
        return piece.points * self.weight(piece)

    def choose(self, randomness: Randomness) -> tuple[int, Held]:
        """Return a slot and its piece, with probability exactly in proportion to its weight."""
        self.effort += 1
        slot = self._tree.choose(randomness)
        piece = self._pieces[slot]
        assert piece is not None
        return slot, piece

    def weight(self, piece: Piece) -> int:
        """Return W_b: rounded up, exp's own error (below 2**-50) and the product's included."""
        log2 = max(self.reference - piece.exponent, _LEAST) * math.log2(math.e)
        whole = math.floor(log2)
        mantissa = math.ceil(2.0 ** (log2 - whole) * (1 + 2.0**-36) * 2.0**52)
        return int(mantissa) << (_SCALE - 52 + whole)

    def _rebase(self) -> None:
        """Measure from the least exponent held once all weights have become small."""
        if self._tree.total.bit_length() >= _SCALE - _REBASE_BITS:
            return
        held = [piece for piece in self._pieces if piece is not None]
        # Pieces that were split have become lighter: rescaled weights keep their digits.
        self.reference = min(piece.exponent for piece in held)
        self._pieces = list(held)
        self._free = []
        self._tree = SumTree(map(self._mass, held))

    def keeps(self, piece: Piece, exponent: Callable[[int], arb], randomness: Randomness) -> bool:
        """Decide ``u W_b < 2**_SCALE exp(reference - E(theta))`` for a lazily drawn uniform u.

        ``exponent(bits)`` is a ball around E at the point drawn, at ``bits`` working bits.

        Raises
        ------
        UnsoundEnvelopeError
            E is below the piece's bound at that point, for certain.
        """
        uniform, weight = randomness.uniform(), self.weight(piece)

        def look(bits: int) -> bool | None:
            density = (arb(self.reference) - exponent(bits + _GUARD_BITS)).exp() * arb((1, _SCALE))
            if density > weight:
                raise UnsoundEnvelopeError
            return exceeds(density, uniform.enclose(bits) * weight)

        return settled(look, guard_bits=_GUARD_BITS)
