"""Pieces that cover a grid without overlap: chosen by weight, drawn from, kept or not.

Piece b carries a certified lower bound e_b of the exponent E on it, a set Q_b of grid points that
holds it, and the integer weight

    W_b >= 2**_SCALE * exp(-(e_b - reference))

per grid point, ``|Q_b| W_b`` in all. One try chooses a piece by weight and one point theta of Q_b
uniformly. A point outside of the piece is dropped; one inside is kept with probability
``2**_SCALE exp(-(E(theta) - reference)) / W_b``, at most 1.

*Why this is exact.* Given everything that happened before a try, the pair (piece, point) is a
given theta of Theta and the piece that holds it with probability W_b / sum(|Q| W); it is kept with
the ratio above. So theta is kept with probability exp(-E(theta)) times a factor that does not
depend on theta: given that this try succeeds, theta has the law, whatever the history. The number
of tries, the pieces and the reference depend on the data and on earlier tries; they decide when
the draw ends, not what it is, and are not released.

Several envelopes of one law may take turns: which of them is tried next is part of the history.

The choice is by exact integers. The ratio is irrational and is compared with a uniform number in
ball arithmetic, with more bits of both until it is decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from flint import arb

from mechanisms.exact.certainty import exceeds, settled
from mechanisms.randomness import Randomness
from mechanisms.samplers.envelopes.tree import SumTree

_GUARD_BITS = 64  # more than the exponential of an exponent can lose
_SCALE = 512  # bits of a piece's integer weight
_LEAST = -318.0  # lighter pieces are weighed as if this heavy; e**-318 > 2**(52 - _SCALE)
_REBASE_BITS = 120  # the weights are written anew before they outgrow the scale


class Weighed(Protocol):
    """What an envelope asks of a piece."""

    @property
    def exponent(self) -> float:
        """A certified lower bound of E on the piece."""

    @property
    def points(self) -> int:
        """The size of Q_b."""


class Trial(Protocol):
    """An envelope with its law: one try at a time."""

    def attempt(self, randomness: Randomness) -> tuple[int, ...] | None:
        """Return the point of one try where it is kept."""


def first_kept(trials: Sequence[Trial], randomness: Randomness) -> tuple[int, ...]:
    """Return the first point kept by envelopes of one law that take turns, a draw from the law."""
    while True:
        for trial in trials:
            point = trial.attempt(randomness)
            if point is not None:
                return point


Piece = TypeVar("Piece", bound=Weighed)


class Envelope(Generic[Piece]):
    """The pieces held, with their weights relative to a reference exponent."""

    def __init__(self, floor: float) -> None:
        self.reference = floor
        self._pieces: list[Piece | None] = []
        self._tree = SumTree()
        self._free: list[int] = []

    def add(self, piece: Piece) -> None:
        """Hold a piece."""
        if self._free:
            slot = self._free.pop()
            self._pieces[slot] = piece
        else:
            slot = len(self._pieces)
            self._pieces.append(piece)
        self._tree.set(slot, piece.points * self.weight(piece))

    def remove(self, slot: int) -> None:
        """Drop the piece of a slot."""
        self._pieces[slot] = None
        self._tree.set(slot, 0)
        self._free.append(slot)

    def choose(self, randomness: Randomness) -> tuple[int, Piece]:
        """Return a slot and its piece, with probability exactly in proportion to its weight."""
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

    def rebase(self) -> None:
        """Measure from the least exponent held once all weights have become small."""
        if self._tree.total.bit_length() >= _SCALE - _REBASE_BITS:
            return
        held = [piece for piece in self._pieces if piece is not None]
        # Pieces that were split have grown lighter: measured anew, weights keep their digits.
        self.reference = min(piece.exponent for piece in held)
        self._pieces = list(held)
        self._free = []
        self._tree = SumTree(piece.points * self.weight(piece) for piece in held)

    def keeps(self, piece: Piece, exponent: Callable[[int], arb], randomness: Randomness) -> bool:
        """Decide ``u W_b < 2**_SCALE exp(reference - E(theta))`` for a lazily drawn uniform u.

        ``exponent(bits)`` is a ball around E at the point drawn, at so many working bits.
        """
        uniform, weight = randomness.uniform(), self.weight(piece)

        def look(bits: int) -> bool | None:
            density = (arb(self.reference) - exponent(bits + _GUARD_BITS)).exp() * arb((1, _SCALE))
            return exceeds(density, uniform.enclose(bits) * weight)

        return settled(look, guard_bits=_GUARD_BITS)
