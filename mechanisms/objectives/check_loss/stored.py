"""More rows than memory holds: read in passes, with exact sums, and held in part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import Floats, Integers
from mechanisms.exact.fractions import once
from mechanisms.objectives.check_loss.law import CheckLossLaw, Rest
from mechanisms.objectives.check_loss.passes import (
    FEW_DISTINCT,
    Block,
    Gathering,
    MakeLaw,
    Reader,
    Sieve,
    Sifted,
    Standing,
    Survey,
    Surveyed,
    Table,
    added,
)
from mechanisms.objectives.check_loss.records import Grid, Records

T = TypeVar("T")

_SAMPLES = 64  # times the sample wanted: more rows are never sampled
_MANY = 4  # beyond this multiple of the capacity, open rows that hardly repeat are not read


class Run(Protocol):
    """Yields a function's result for each block of rows, in their order."""

    def __call__(self, function: Callable[[Block], T], /) -> Iterator[T]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many rows may be held, and about how many sampled, of at most ``rows``."""

    rows: int
    held: int
    sample: int

    @property
    def stride(self) -> int:
        """Return how many rows there are for one of a sample of all."""
        return self.stride_of(self.rows)

    def stride_of(self, rows: int) -> int:
        """Return the stride for ``rows`` rows; a sample is not much larger if there are more."""
        least = self.rows // (_SAMPLES * self.sample)
        return 1 << max(0, max(rows // self.sample, least).bit_length() - 1)


def survey(run: Run, read: Reader, *, columns: int, stride: int) -> Surveyed:
    """Read all rows, of ``columns`` columns (x, y), for the first time."""
    few = Gathering(FEW_DISTINCT)
    rows, total, samples = 0, (0,) * columns, [np.zeros((0, columns), dtype=np.int64)]
    gram: NDArray[np.object_] = np.zeros((columns, columns), dtype=object)
    few.add(Table.of(samples[0]))
    for each in run(Survey(read, stride)):
        few.add(each.few)
        samples.append(each.sample)
        rows, total, gram = rows + each.rows, added([total, each.total]), gram + each.gram
    return Surveyed(rows, total, gram, np.concatenate(samples), few.table)


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredRows:
    """Rows that are read in passes.

    ``run`` makes a pass, ``read`` gives a block's columns of (x, y), and ``make`` the law of some
    rows. ``surveyed`` is what the first pass has found.
    """

    run: Run
    read: Reader
    make: MakeLaw
    grid: Grid
    limits: Limits
    surveyed: Surveyed

    def sift(self, centres: Floats, half: Floats, most: int) -> tuple[list[Sifted], Integers, int]:
        """Decide all rows on the boxes ``|u - centre| <= half`` (k x d and d), in one pass.

        Returns what is found on each, with its open rows if they are ``most`` at most; a sample of
        those open on the first one; and for how many rows one of the sample stands.
        """
        boxes = len(centres)
        opened = self._open(centres, half)
        stride = self.limits.stride_of(len(opened[0]) * self.limits.stride)
        # A 0 spares the blocks the making of tables that would be thrown away.
        wanted = tuple(most * self._worth_holding(rows, most) for rows in opened)
        sieve = Sieve(
            read=self.read,
            grid=self.grid,
            make=self.make,
            centres=centres,
            half=half,
            stride=stride,
            most=wanted,
        )
        tables = [Gathering(most) for _ in range(boxes)]
        found: list[list[Sifted]] = [[] for _ in range(boxes)]
        samples = []
        for each, sample in self.run(sieve):
            samples.append(sample)
            for box, part in enumerate(each):
                tables[box].add(part.table)
                found[box].append(part.alone())
        whole = [_together(parts, table.table) for parts, table in zip(found, tables, strict=True)]
        return whole, np.concatenate(samples), stride

    def _open(self, centres: Floats, half: Floats) -> list[Integers]:
        """Return which rows of the sample of all are open on each box."""
        law = self._sampled
        indices, _, _ = law.decide(law.root(), centres, half)
        return [self.surveyed.sample[index] for index in indices]

    @once
    def _sampled(self) -> CheckLossLaw:
        return self.sampled(self.surveyed.sample)

    def may_hold(self, centre: Floats, half: Floats, most: int) -> bool:
        """Return, by the sample, whether the open rows of one box may be as few as that."""
        [rows] = self._open(centre[None, :], half)
        return self._worth_holding(rows, most // _MANY)

    def _worth_holding(self, rows: Integers, most: int) -> bool:
        """Return, by the sampled open rows of a box, whether all of them may be few, or repeat."""
        if len(rows) * self.limits.stride <= _MANY * most:
            return True
        return 2 * len(Table.of(rows).counts) <= len(rows)

    def sampled(self, rows: Integers, rest: Rest | None = None) -> CheckLossLaw:
        """Return the law of some rows of a sample, each once."""
        return self.make(Records.on(self.grid, rows, np.ones(len(rows), dtype=np.int64)), rest=rest)

    def rest(self, found: Sifted) -> Rest:
        """Return the sums over the rows that are decided on a box."""
        away = zip(self.surveyed.total, found.opened, strict=True)
        return Rest(tuple(every - open_ for every, open_ in away), found.reached)

    def held(self, found: Sifted, table: Table) -> CheckLossLaw:
        """Return the law on a box from its open rows."""
        return self.make(Records.on(self.grid, table.rows, table.counts), rest=self.rest(found))

    def bound(self, found: Sifted, centre: Floats, half: Floats) -> float:
        """Return a lower bound of E on a box, from sums alone."""
        size = len(self.surveyed.total)
        nothing = np.zeros((0, size), dtype=np.int64)
        law = self.make(
            Records.on(self.grid, nothing, nothing[:, 0]),
            rest=Rest(self.surveyed.total, found.reached),
        )
        none = law.root().index
        gathered = found.gathered[None, :]
        low = law.bounds([none], np.zeros((1, size)), gathered, centre[None, :], half)
        return float(low[0])

    def value(self, point: tuple[int, ...]) -> Fraction:
        """Return E over its rate at a grid point theta, exactly, by a pass over the rows."""
        found = list(self.run(Standing(self.read, self.grid, point)))
        nothing = np.zeros((0, len(point) + 1), dtype=np.int64)
        none = (0,) * (len(point) + 1)
        law = self.make(
            Records.on(self.grid, nothing, nothing[:, 0]), rest=Rest(self.surveyed.total, none)
        )
        return law.of_sums(
            point, added(beyond for beyond, _ in found), added(tied for _, tied in found)
        )


def _together(parts: list[Sifted], table: Table | None) -> Sifted:
    """Merge the results of several blocks on a box."""
    return Sifted(
        reached=added(part.reached for part in parts),
        opened=added(part.opened for part in parts),
        gathered=np.sum([part.gathered for part in parts], axis=0),
        table=table,
    )
