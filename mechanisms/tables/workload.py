"""Workloads: the margins that are wanted, of columns with known numbers of cells.

*Conventions.* Columns are numbered from 0, column i has n_i cells. A *column set* is an increasing
tuple of column numbers, and its margin the array of counts of shape ``[n_i for i in set]``. The
empty set's margin is the number of records. ``N_A`` is the product of the n_i of a set A.

*Progress.* Long calculations report how far they are (:func:`report`) to a caller that asks for it
(:func:`reporting`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import Integers

MOST_COLUMNS = 100
MOST_CELLS = 10**6
"""Over all margins that are wanted: an answer of some tens of megabytes."""

_ROWS_AT_ONCE = 1 << 14  # a block's columns stay near the processor while their pairs are counted

ColumnSet = tuple[int, ...]
Counts = NDArray[Any]
"""Whole numbers in an array of a margin's shape: int64, or Python integers."""


Criterion = Literal["sum", "largest"]
"""What a split of a budget makes small: the sum of all cells' variances, or the largest one."""


class WorkloadError(ValueError):
    """The margins cannot be asked for; the message names public facts alone."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Wanted margins.

    Attributes
    ----------
    sizes
        Each column's number of cells.
    margins
        Column sets, each once; at least one.

    Raises
    ------
    WorkloadError
        There is no margin, a set is not one, or there are too many columns or cells.

    Examples
    --------
    >>> two_way = Workload.of_order((2, 3, 4), 2)
    >>> two_way.margins, two_way.cells
    (((0, 1), (0, 2), (1, 2)), 26)
    """

    sizes: tuple[int, ...]
    margins: tuple[ColumnSet, ...]

    def __post_init__(self) -> None:
        if len(self.sizes) > MOST_COLUMNS:
            raise WorkloadError(f"there are at most {MOST_COLUMNS} columns")
        if not self.margins:
            raise WorkloadError("name at least one margin")
        if len(set(self.margins)) < len(self.margins):
            raise WorkloadError("a margin is named twice")
        for margin in self.margins:
            if list(margin) != sorted(set(margin)) or not margin:
                raise WorkloadError("a margin has at least one column, and each once")
            if margin[0] < 0 or margin[-1] >= len(self.sizes):
                raise WorkloadError("a margin's columns are among the columns")
        if min(self.sizes) < 1:
            raise WorkloadError("a column has at least one cell")
        if self.cells > MOST_CELLS:
            raise WorkloadError(f"there are at most {MOST_CELLS:,} cells over all margins")

    @classmethod
    def of_order(cls, sizes: Sequence[int], order: int) -> Workload:
        """Return all margins of this many columns; of all columns where there are fewer.

        Raises
        ------
        WorkloadError
            They are too many.
        """
        if len(sizes) > MOST_COLUMNS:  # before a walk through all of them
            raise WorkloadError(f"there are at most {MOST_COLUMNS} columns")
        return cls(
            tuple(sizes), tuple(combinations(range(len(sizes)), min(order, max(len(sizes), 1))))
        )

    @property
    def cells(self) -> int:
        """Return the number of cells over all margins."""
        return sum(map(self.size, self.margins))

    def size(self, columns: ColumnSet) -> int:
        """Return N_A."""
        return prod(self.sizes[i] for i in columns)

    def shape(self, columns: ColumnSet) -> tuple[int, ...]:
        """Return the shape of a margin."""
        return tuple(self.sizes[i] for i in columns)

    def closure(self) -> tuple[ColumnSet, ...]:
        """Return every subset of a margin that has a contrast, smaller ones first.

        A column of one cell has none.
        """
        found = {part for margin in self.margins for part in self.parts(margin)}
        return tuple(sorted(found, key=lambda each: (len(each), each)))

    def parts(self, margin: ColumnSet) -> Iterator[ColumnSet]:
        """Yield the subsets of one margin that have a contrast, the empty one first."""
        split = [i for i in margin if self.sizes[i] > 1]
        for order in range(len(split) + 1):
            yield from combinations(split, order)

    def maximal(self) -> tuple[ColumnSet, ...]:
        """Return the margins that are part of no other one."""
        inside: set[ColumnSet] = set()
        for margin in self.margins:
            for order in range(len(margin)):
                inside.update(combinations(margin, order))
        return tuple(margin for margin in self.margins if margin not in inside)

    def holders(self) -> dict[ColumnSet, ColumnSet]:
        """Return for every set of the closure the first maximal margin that holds it."""
        found: dict[ColumnSet, ColumnSet] = {}
        for margin in self.maximal():
            for part in self.parts(margin):
                found.setdefault(part, margin)
        return found


def count_margins(
    codes: NDArray[Any], workload: Workload, masses: Integers | None = None
) -> dict[ColumnSet, Integers]:
    """Return the exact counts of the maximal margins.

    Parameters
    ----------
    codes
        Each record's cell in each column, shape (records, columns).
    masses
        How many records each one stands for; 1 where there are none.

    Notes
    -----
    Where records have masses the sums are floats that hold whole numbers below 2**53 exactly,
    whatever the order of additions.
    """
    wanted = workload.maximal()
    counts = {each: np.zeros(workload.shape(each), dtype=np.int64) for each in wanted}
    for start in range(0, len(codes), _ROWS_AT_ONCE):
        block = np.array(codes[start : start + _ROWS_AT_ONCE].T, dtype=np.int64, order="C")
        own = None if masses is None else masses[start : start + _ROWS_AT_ONCE]
        for each in wanted:
            counts[each] += _counted(block, each, own, workload)
    return counts


def _counted(
    block: NDArray[Any], columns: ColumnSet, masses: Integers | None, workload: Workload
) -> Integers:
    shape = workload.shape(columns)
    cell = np.zeros(block.shape[1], dtype=np.int64)
    for place, (column, size) in enumerate(zip(columns, shape, strict=True)):
        cell = cell * size + block[column] if place else block[column]
    found = np.bincount(cell, weights=masses, minlength=prod(shape))
    return found.astype(np.int64).reshape(shape)


# How far a long calculation of public numbers is

_LISTENER: ContextVar[Callable[[float], object] | None] = ContextVar("listener", default=None)


@contextmanager
def reporting(on_progress: Callable[[float], object]) -> Iterator[None]:
    """Call a function with the share that is done, from 0 to 1, whenever the block says it."""
    before = _LISTENER.set(on_progress)
    try:
        yield
    finally:
        _LISTENER.reset(before)


@contextmanager
def stage(first: float, last: float) -> Iterator[None]:
    """Let what the block says of itself be a part of the whole: from one share to another."""
    whole = _LISTENER.get()
    if whole is None:
        yield
        return
    with reporting(lambda share: whole(first + (last - first) * share)):
        report(0.0)
        yield


def report(share: float) -> None:
    """Report which share of the present stage is done. Nothing listens to a draw."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(share)
