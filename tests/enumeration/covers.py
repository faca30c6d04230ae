"""Adaptive rejection, walked: a chain of covers, one try at a time.

A try that fails changes what the sampler holds, so that it never begins anew. But two histories
that leave the same pieces, the same of them waiting to be cut, leave the same sampler. So the
states are the sets of pieces: each is tried on every outcome of its random bits, and hands its
failed mass on to other states.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from flint import arb

from mechanisms.exact.balls import below, rational
from mechanisms.exact.floats import working_precision
from mechanisms.randomness import Randomness
from mechanisms.samplers.boxes import Cover
from mechanisms.samplers.envelopes import Envelope, Piece
from mechanisms.samplers.polytopes import PolytopeCover
from tests.enumeration.walk import BITS, Bounds, Outcome, Stated, law_of

Held = Cover[Any] | PolytopeCover[Any]


def pieces(envelope: Envelope[Any]) -> list[Piece]:
    """Return the pieces that an envelope holds."""
    held = [value for value in vars(envelope).values() if isinstance(value, list)]
    return [piece for value in held for piece in value if isinstance(piece, Piece)]


def state(cover: Held) -> Hashable:
    """Return what the next try depends on: the pieces, which of them wait, and their scale."""
    found, waiting = [], vars(cover).get("_waiting", {}).values()
    for piece in pieces(cover.envelope):
        shape = getattr(piece, "box", None) or getattr(piece, "polytope", None)
        misses = getattr(piece, "misses", 0)
        found.append((piece.exponent, repr(shape), misses, piece in waiting))
    return tuple(sorted(found)), cover.envelope.reference


@dataclass(slots=True)
class Chain:
    """The covers that histories lead to, and the law of what is kept on the way."""

    cutoff: float
    lower: dict[Outcome, Fraction] = field(default_factory=dict)
    covers: dict[Hashable, Held] = field(default_factory=dict)
    tries: list[Bounds] = field(default_factory=list)
    runs: int = 0

    def walk(self, first: Held) -> Bounds:
        """Return the law of the first point kept.

        On boxes every failed try but one that changes nothing splits one piece more. So states are
        met in the order of how many were split, and each is tried when all of its mass has come.
        Polytopes wait, and a state of them may be met again. It is then tried with what came since.
        """
        waiting = {self._meet(first): Fraction(1)}
        while waiting:
            following: dict[Hashable, Fraction] = {}
            for key, mass in waiting.items():
                if mass >= self.cutoff:
                    self._try(key, mass, following)
            waiting = following
        return Bounds(self.lower, 1 - sum(self.lower.values(), Fraction(0)), self.runs)

    def _try(self, key: Hashable, mass: Fraction, following: dict[Hashable, Fraction]) -> None:
        cover = self.covers[key]
        shared = {id(part): part for part in vars(cover).values() if not _changes(part)}

        def attempt(randomness: Randomness) -> Outcome:
            own = copy.deepcopy(cover, dict(shared))
            kept = own.attempt(randomness)
            return ("kept", kept) if kept is not None else ("left", self._meet(own))

        bounds = law_of(attempt, cutoff=2.0**-40)
        self.tries.append(bounds)
        self.runs += bounds.runs
        unchanged = bounds.lower.get(("left", key), Fraction(0))
        with working_precision(BITS):
            share = rational(mass / (1 - unchanged))
            for (kind, what), odds in bounds.lower.items():
                into = self.lower if kind == "kept" else following
                if what != key:
                    into[what] = into.get(what, Fraction(0)) + below(share * rational(odds))

    def _meet(self, cover: Held) -> Hashable:
        key = state(cover)
        self.covers.setdefault(key, cover)
        return key


def _changes(part: object) -> bool:
    return isinstance(part, Envelope | dict)


def exponential_law(
    exponent: Callable[[tuple[int, ...]], arb], points: Sequence[tuple[int, ...]]
) -> Stated:
    """Return ``P(theta) ∝ exp(-E(theta))``."""
    weights = {point: (-exponent(point)).exp() for point in points}
    total = sum(weights.values(), arb(0))
    return Stated(lambda point: weights[point] / total, points)


def require_each_try(tries: Sequence[Bounds], stated: Stated) -> None:
    """Assert that what a try keeps has the law stated, given that it keeps anything.

    That is the claim of adaptive rejection, whatever the history that led to the cover.
    """
    with working_precision(BITS):
        for bounds in tries:
            kept = {what: low for (kind, what), low in bounds.lower.items() if kind == "kept"}
            least = sum(kept.values(), Fraction(0))
            most = least + bounds.unresolved
            for point in stated.support:
                probability, low = stated.at(point), kept.get(point, Fraction(0))
                assert not rational(low) > probability * rational(most), point
                assert not rational(low + bounds.unresolved) < probability * rational(least), point
