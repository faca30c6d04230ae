"""All small data sets, their neighbours, and the largest certain privacy loss between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement, product
from typing import TypeVar

import numpy as np
from flint import arb

from mechanisms.exact.balls import rational
from mechanisms.exact.floats import working_precision
from mechanisms.privacy import Adjacency
from mechanisms.samplers.intervals import GridCodes
from tests.enumeration.walk import BITS, Bounds

Record = TypeVar("Record")
Rows = tuple[Record, ...]

MOST_ROWS = 4
VALUES = (0, 1, 2)


def data_sets(
    values: Sequence[Record] = VALUES,
    most: int = MOST_ROWS,  # type: ignore[assignment]
) -> list[Rows[Record]]:
    """Return every data set of up to so many rows, as sorted rows."""
    return [
        rows for size in range(most + 1) for rows in combinations_with_replacement(values, size)
    ]


def neighbours(
    sets: Sequence[Rows[Record]], adjacency: Adjacency
) -> Iterator[tuple[Rows[Record], Rows[Record]]]:
    """Yield every ordered pair of neighbours among data sets."""
    for here, there in product(sets, repeat=2):
        if here != there and are_neighbours(here, there, adjacency):
            yield here, there


def are_neighbours(here: Rows[Record], there: Rows[Record], adjacency: Adjacency) -> bool:
    """Say whether one row was replaced, or one was added or removed."""
    common, rest = 0, list(there)
    for row in here:
        if row in rest:
            rest.remove(row)
            common += 1
    left, right = len(here) - common, len(there) - common
    if adjacency is Adjacency.REPLACE_ONE:
        return (left, right) == (1, 1)
    return left + right == 1


def grid_of(
    rows: Sequence[int], *, low: int = 0, high: int = 2, places: Sequence[int] | None = None
) -> GridCodes:
    """Return the codes of a data set on a small grid, whose points have so many places."""
    codes, counts = np.unique(np.array(rows, dtype=np.int32), return_counts=True)
    starts = None if places is None else np.cumsum([0, *places])
    return GridCodes.count(codes, counts.astype(np.int64), low=low, high=high, starts=starts)


def largest_loss(
    laws: Mapping[Rows[Record], Bounds], adjacency: Adjacency
) -> tuple[arb, tuple[Rows[Record], Rows[Record]] | None]:
    """Return the largest log ratio of probabilities that is certain, and whose it is."""
    worst, where = Fraction(1), None
    for here, there in neighbours(list(laws), adjacency):
        for outcome, low in laws[here].lower.items():
            high = laws[there].upper(outcome)
            if low > worst * high:
                worst, where = low / high, (here, there)
    with working_precision(BITS):
        return rational(worst).log(), where


def each(
    sets: Sequence[Rows[Record]], law: Callable[[Rows[Record]], Bounds]
) -> dict[Rows[Record], Bounds]:
    """Return the law on each data set."""
    return {rows: law(rows) for rows in sets}
