"""Passes over blocks of rows: exact sums, and the few rows that are still open.

Each is a function of one block and runs where the block is. Its results are integers that are
added up, and tables of rows with their counts, so they do not depend on how rows are divided.

Two things do depend on the parts: which rows are sampled, and whether a part's open rows are held.
They affect the course of the search, and so which random bits it reads, but never the law of the
draw. The parts are those of the stored data set, in every process that makes passes.

*Most rows are decided for all boxes together.* For u in boxes whose hull has centre c and half
widths h, and |x| <= F, a row's position x'V u is within ``F sum |V| h`` of x'V c. The spread lowers
a target by less than half a code. Rows farther than that from their target, and than the certified
error of the floats, are decided equally on all of the boxes; the others are decided per box.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mechanisms.domain import CODE_MAX, EXACT_ROWS
from mechanisms.exact.floats import SPACING, Floats, Integers
from mechanisms.objectives.check_loss.gradient import GradientLaw, LossLaw
from mechanisms.objectives.check_loss.law import Rest
from mechanisms.objectives.check_loss.records import Grid, Records
from mechanisms.objectives.design import distinct_rows

Block = Mapping[str, NDArray[np.int32]]
Reader = Callable[[Block], Floats]
"""Returns the columns of (x, y) of a block, (d + 1) x n codes, exact in float64."""

FEW_DISTINCT = 512
"""At most this many distinct rows are held whole, whatever the number of rows."""

_LOOKED_AT = 2048  # rows or more that show whether a block may have few distinct ones
_MIXING = np.uint64(0x9E3779B97F4A7C15)
_SAFETY = 64  # more roundings than any sum here takes

Sums = tuple[int, ...]


class MakeLaw(Protocol):
    """Makes one of the two laws for records on a grid."""

    def __call__(self, records: Records, *, rest: Rest | None = None) -> GradientLaw | LossLaw: ...


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Distinct rows (x, y), n x (d + 1), and how often each occurs."""

    rows: Integers
    counts: Integers

    @classmethod
    def of(cls, rows: Integers) -> Table:
        """Return the table of rows that may repeat."""
        return cls(*distinct_rows(rows))


class Gathering:
    """Tables put together while they are small enough to be held."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tables: list[Table] | None = []
        self._size = 0

    def add(self, table: Table | None) -> None:
        """Take a block's table; None stands for one that is too large."""
        if self._tables is None:
            return
        if table is None:
            self._tables = None
            return
        self._tables.append(table)
        self._size += len(table.counts)
        # Merged at twice the limit: a row is then sorted a few times at most, not once for each
        # block.
        if self._size > 2 * self._most:
            whole = self._merged(self._tables)
            self._size = len(whole.counts)
            self._tables = [whole] if self._size <= self._most else None

    @property
    def table(self) -> Table | None:
        """The distinct rows of all, or None for too many."""
        if not self._tables:
            return None
        whole = self._merged(self._tables)
        return whole if len(whole.counts) <= self._most else None

    @staticmethod
    def _merged(tables: Sequence[Table]) -> Table:
        rows = np.concatenate([table.rows for table in tables])
        return Table(*distinct_rows(rows, np.concatenate([table.counts for table in tables])))


@dataclass(frozen=True, slots=True, eq=False)
class Surveyed:
    """Sums of (x, y) over some rows, their products, a sample, and all rows if few differ."""

    rows: int
    total: Sums
    gram: NDArray[np.object_]
    sample: Integers
    few: Table | None


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Looks at a block for the first time."""

    read: Reader
    stride: int

    def __call__(self, block: Block) -> Surveyed:
        """Return the results."""
        columns = self.read(block)
        size, rows = columns.shape
        gram: NDArray[np.object_] = np.zeros((size, size), dtype=object)
        for start in range(0, rows, EXACT_ROWS):
            part = columns[:, start : start + EXACT_ROWS]
            # Exact in floats for ``EXACT_ROWS`` rows; Python's integers hold the sum of all.
            gram = gram + (part @ part.T).astype(np.int64).astype(object)
        return Surveyed(
            rows=rows,
            total=_sums(columns),
            gram=gram,
            sample=_rows(columns[:, _places(columns, self.stride)]),
            few=_few(columns),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Sifted:
    """Of some rows and one box: sums over the reached and the open ones, and the open ones."""

    reached: Sums
    opened: Sums
    gathered: Floats
    table: Table | None

    def alone(self) -> Sifted:
        """Return the sums alone."""
        return replace(self, table=None)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sieve:
    """Decides the rows of a block on boxes ``|u - centre| <= half`` (k x d and d).

    At most ``most`` open rows are given back for each of the boxes (0 for those whose rows are not
    wanted), and of those open on the first one a sample, one of ``stride`` rows.
    """

    read: Reader
    grid: Grid
    make: MakeLaw
    centres: Floats
    half: Floats
    stride: int
    most: tuple[int, ...]

    def __call__(self, block: Block) -> tuple[list[Sifted], Integers]:
        """Return the results on each box, and the sample."""
        columns = self.read(block)
        ahead, near = self._glance(columns)
        reached = columns @ ahead
        places = np.flatnonzero(near)
        rows = _rows(columns[:, places])
        law = self.make(Records.on(self.grid, rows, np.ones(len(rows), dtype=np.int64)))
        indices, beyond, gathered = law.decide(law.root(), self.centres, self.half)
        found = [
            Sifted(
                reached=_exact(reached + sums),
                opened=_exact(law.xy[index].sum(axis=0)),
                gathered=held,
                table=Table.of(rows[index]) if len(index) <= most else None,
            )
            for index, sums, held, most in zip(indices, beyond, gathered, self.most, strict=True)
        ]
        some = np.zeros(columns.shape[1], dtype=np.bool_)
        some[_places(columns, self.stride)] = True
        return found, rows[indices[0][some[places[indices[0]]]]]

    def _glance(self, columns: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return which rows are reached on every box (as 0 and 1), and which are not decided."""
        shear = np.abs(self.grid.space.shear)
        low = (self.centres - self.half).min(axis=0)
        high = (self.centres + self.half).max(axis=0)
        theta = self.grid.space.shear @ ((low + high) / 2)
        size = float((shear @ (np.abs(low) + np.abs(high))).sum())
        wide = CODE_MAX * float((shear @ (high - low)).sum()) / 2 + _error(size, self.grid)
        distance = _distance(columns, theta, self.grid)
        ahead = distance > wide
        missed = distance < -wide - _lowered(self.grid)
        return ahead.astype(np.float64), ~(ahead | missed)


@dataclass(frozen=True, slots=True, eq=False)
class Standing:
    """Finds which rows of a block are reached at a grid point theta, and which are on it."""

    read: Reader
    grid: Grid
    point: tuple[int, ...]

    def __call__(self, block: Block) -> tuple[Sums, Sums]:
        """Return the sums of (x, y) over the rows beyond their targets, and those on them."""
        columns = self.read(block)
        theta = np.array(self.point, dtype=np.float64)  # exact
        distance = _distance(columns, theta, self.grid)
        error = _error(float(np.abs(theta).sum()), self.grid)
        ahead = distance > error
        near = ~(ahead | (distance < -error - _lowered(self.grid)))
        rows = _rows(columns[:, near])
        records = Records.on(self.grid, rows, np.ones(len(rows), dtype=np.int64))
        position = records.position(np.arange(len(rows), dtype=np.int32), self.point)
        beyond = columns @ ahead.astype(np.float64) + rows[position > 0].sum(axis=0)
        return _exact(beyond), _exact(rows[position == 0].sum(axis=0))


def added(sums: Iterable[Sums]) -> Sums:
    """Return the exact sum of some."""
    return tuple(map(sum, zip(*sums, strict=True)))


def _places(columns: Floats, stride: int) -> NDArray[np.int64]:
    """Return the places of a sample: one of each ``stride`` rows, which the first row decides.

    So in periodic rows no phase is sampled more often than others.
    """
    starts = np.arange(0, columns.shape[1], stride)
    mixed = np.zeros(len(starts), dtype=np.uint64)
    for column in columns:
        mixed = (mixed ^ column[starts].astype(np.int64).astype(np.uint64)) * _MIXING
        mixed ^= mixed >> np.uint64(29)
    offsets = (mixed >> np.uint64(32)).astype(np.int64) % stride
    return np.asarray(np.minimum(starts + offsets, columns.shape[1] - 1))


def _distance(columns: Floats, theta: Floats, grid: Grid) -> Floats:
    """Return how far each row is beyond its target before that is lowered."""
    return np.asarray(np.append(theta, -np.ldexp(1.0, grid.bits)) @ columns)


def _error(size: float, grid: Grid) -> float:
    """Return the largest error of a distance, where theta's l1 norm is at most ``size``."""
    return _SAFETY * SPACING * CODE_MAX * (size + 2.0**grid.bits)


def _lowered(grid: Grid) -> float:
    """Return the largest reduction of a target."""
    return np.ldexp(0.5, grid.bits) if grid.spread else 0.0


def _rows(columns: Floats) -> Integers:
    return np.ascontiguousarray(columns.T).astype(np.int64)


def _sums(columns: Floats) -> Sums:
    return _exact(columns @ np.ones(columns.shape[1]))


def _exact(sums: Floats | Integers) -> Sums:
    """Return integers that floats hold exactly: sums of a block's codes are far below 2**53."""
    return tuple(int(each) for each in sums)


def _few(columns: Floats) -> Table | None:
    """Return all distinct rows of a block, or None where they are not few."""
    # A few rows that differ prove that many do, and spare the sorting of them all.
    some = columns[:, :: max(1, columns.shape[1] // _LOOKED_AT)]
    first = Table.of(_rows(some))
    if len(first.counts) > FEW_DISTINCT:
        return None
    whole = Table.of(_rows(columns))
    return whole if len(whole.counts) <= FEW_DISTINCT else None
