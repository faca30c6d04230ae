"""The box engine's interface of a law: lower bounds on boxes, exact values at points.

``P(theta) ∝ exp(-E(theta))`` on the grid points theta of a :class:`Space`. A law keeps a
*knowledge* of its own for every box (for example the records not decided there), hands
it down to the parts of the box, and never loses correctness by knowing little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from flint import arb

from mechanisms.exact.floats import Floats
from mechanisms.samplers.boxes.space import Box, Space

Knowledge = TypeVar("Knowledge")


@dataclass(frozen=True, slots=True, eq=False)
class Children(Generic[Knowledge]):
    """A law's bounds on k boxes: certified lower bounds of E, and its knowledge of each.

    ``exponents`` (length k, finite, at least the law's ``floor``) holds floats that are
    certainly at most E(theta) at every theta of the box. ``effort`` is what it took beyond a usual
    look at boxes, in tries.
    """

    exponents: Floats
    knowledge: Sequence[Knowledge]
    effort: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Start(Generic[Knowledge]):
    """A start box, a lower bound of E on it, and the knowledge of it."""

    box: Box
    exponent: float
    known: Knowledge


class BoxLaw(Protocol[Knowledge]):
    """A law on the grid. Coordinates u and theta are as in :class:`Space`, in grid steps."""

    @property
    def floor(self) -> float:
        """Return a lower bound of E on all of Theta."""

    def start(self, space: Space) -> Sequence[Start[Knowledge]]:
        """Return boxes that cover Theta without overlap; E is at least ``floor`` everywhere."""

    def widths(self, known: Knowledge) -> Floats | None:
        """Return how much each coordinate of a box matters, per unit of width; None: equally."""

    def size(self, known: Knowledge) -> int:
        """Return about how many bytes the knowledge of one box takes, without what boxes share."""

    def split(self, known: Knowledge, centres: Floats, half: Floats) -> Children[Knowledge]:
        """Bound E on the boxes ``|u - centre| <= half`` inside the box known.

        ``centres`` has shape (k, d), exact; ``half`` (d) holds for all of them.
        """

    def exponent(self, known: Knowledge, point: Sequence[int], bits: int) -> arb:
        """Return a ball around E at a grid point theta of the box, at ``bits`` working bits."""
