"""The boxes that a draw begins with, as polytopes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import Any, TypeVar

from mechanisms.samplers.boxes import Space, Start
from mechanisms.samplers.polytopes import Cut, Part, Polytope

Knowledge = TypeVar("Knowledge")


def on_polytopes(
    space: Space, starts: Sequence[Start[Any]], inside: Knowledge, outside: Knowledge
) -> list[Part[Knowledge]]:
    """Return polytopes that cover Theta as boxes do: one at the minimiser, others around it.

    What lies outside of the first box has one bound, that of the others. ``inside`` and ``outside``
    are what is known there.
    """
    left: Polytope | None = Polytope.cross(space.dimension, space.radius)
    inner, *outer = starts
    parts: list[Part[Knowledge]] = []
    # the slabs outside of the inner box come off one by one, as Box.less cuts them
    for cut in starmap(Cut, space.faces(inner.box)) if outer else ():
        left, slab = left.halves(cut) if left else (None, None)
        if slab is not None:
            parts.append(Part(slab, outer[0].exponent, outside))
    if left is not None:
        parts.append(Part(left, inner.exponent, inside))
    return parts
