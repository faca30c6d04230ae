"""The polytope engine's interface of a law: bounds of its exponent, and where to cut next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from flint import arb

from mechanisms.samplers.polytopes.polytope import Cut, Polytope, Stack

Knowledge = TypeVar("Knowledge")

FLAT_NATS = 0.25
"""A polytope on which E varies by less is not worth a cut."""


@dataclass(frozen=True, slots=True, eq=False)
class View(Generic[Knowledge]):
    """A law's bound on a polytope: a certified lower bound of E, and its knowledge there.

    ``cut`` would sharpen the bound most, by about ``gain`` nats; None where E is as good as
    constant. Without a gain the cut comes before any other. ``effort`` is what it took beyond a
    usual look at a polytope, in tries.
    """

    exponent: float
    known: Knowledge
    cut: Cut | None
    gain: float = math.inf
    effort: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Part(Generic[Knowledge]):
    """A start polytope, a lower bound of E on it, and the knowledge of it."""

    polytope: Polytope
    exponent: float
    known: Knowledge


class PolytopeLaw(Protocol[Knowledge]):
    """A law on the grid points of a polytope, ``P(theta) ∝ exp(-E(theta))``."""

    @property
    def floor(self) -> float:
        """Return a lower bound of E on all of Theta."""

    def start(self) -> Sequence[Part[Knowledge]]:
        """Return polytopes that cover Theta without overlap; E is at least ``floor`` everywhere."""

    def views(self, known: Sequence[Knowledge], stack: Stack) -> Sequence[View[Knowledge]]:
        """Bound E on polytopes inside those known; ``floor`` or more, finite."""

    def size(self, known: Knowledge) -> int:
        """Return about how many bytes the knowledge of one polytope takes."""

    def exponent(self, known: Knowledge, point: Sequence[int], bits: int) -> arb:
        """Return a ball around E at a grid point of the polytope, at ``bits`` working bits."""
