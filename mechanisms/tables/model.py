r"""Synthetic records of a graphical model that is fitted to margins.

    p(x) = product over columns v of  p(x_v | x_S(v)),      S(v) within one earlier clique S(u) + u

Each factor ``p(v | S)`` is read off one margin that holds S and v. So S + v is a clique of a
junction tree, and the model has exactly the margin of that clique, if margins agree on what they
share. Where all margins are of two columns it is a tree.

*The fit.* Columns are added one at a time, always the one with the largest mutual information with
columns of one clique, in one margin:

    I(v; S) = h(S + v) - h(S) - h(v) + h(none),      h(A) = sum over cells c of T_A of  c log2 c.

For margins of two columns that is the algorithm of Prim (1957) for the maximum spanning tree, whose
model is nearest in the sense of Kullback and Leibler among all trees (Chow & Liu 1968). For larger
margins it is greedy, as in PrivBayes (Zhang et al. 2017). Columns that no margin connects are
independent. Pairs without a margin are independent given the model.

*Records.* A column is drawn for all records that agree in S at once, by systematic sampling: their
order is pseudo-random, and record j of n takes the cell that holds ``(j + u) / n`` of the counts,
u one pseudo-random number of the group. Each record has the model's law, and the margins of cliques
differ from the model's by less than one record a cell and group.

**Privacy.** Margins are released numbers, seeds are public: post-processing (Awan & Slavkovic 2021,
Proposition 2.11).

*The same everywhere.* All numbers are integers, and sums do not depend on their order. Logarithms
are integers of 24 binary places, made by squaring; pseudo-random numbers are SplitMix64 (Steele et
al. 2014), begun at SHA-256 of the seed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import combinations, pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from mechanisms.exact.floats import Integers
from mechanisms.exact.fractions import once
from mechanisms.tables.records import scrambled
from mechanisms.tables.residuals import summed
from mechanisms.tables.workload import ColumnSet, Workload

MOST_ROWS = 1 << 20
"""Records in one draw, so that products of 64 bits hold what is computed with."""
MOST_COUNT = 1 << 32
"""The largest total of a margin."""

_PLACES = 24  # of logarithms
_PARTS = 1 << 10  # a group's offset is a multiple of this part of a record
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class Link:
    """A column, the columns that it depends on, and the margin that says how."""

    column: int
    given: ColumnSet
    margin: ColumnSet

    @property
    def clique(self) -> ColumnSet:
        """Return all of these columns."""
        return tuple(sorted((*self.given, self.column)))


@dataclass(frozen=True, eq=False)
class GraphicalModel:
    """Columns in an order in which each depends on earlier ones alone.

    Attributes
    ----------
    counts
        The margins: whole numbers, none negative, of at most :data:`MOST_COUNT` together.
    links
        One for each column that a margin has.
    """

    workload: Workload
    counts: Mapping[ColumnSet, Integers]
    links: tuple[Link, ...]

    @classmethod
    def fitted(cls, workload: Workload, counts: Mapping[ColumnSet, Integers]) -> GraphicalModel:
        """Return the model of these margins."""
        return cls(workload, counts, tuple(_links(workload, counts)))

    def knows(self, columns: ColumnSet) -> bool:
        """Return whether the model has a margin as it was given: whether a clique holds it."""
        return columns in self._known

    @once
    def _known(self) -> frozenset[ColumnSet]:
        return frozenset(
            part
            for link in self.links
            for order in range(len(link.clique) + 1)
            for part in combinations(link.clique, order)
        )

    def draw(self, rows: int, seed: int) -> Integers:
        """Return the cell of each record in each column, shape (rows, columns).

        Columns that no margin has are 0.
        """
        if not 0 <= rows <= MOST_ROWS:
            raise ValueError("too many records")
        codes = np.zeros((rows, len(self.workload.sizes)), dtype=np.int64)
        for link in self.links:
            group = np.zeros(rows, dtype=np.int64)
            for column in link.given:
                group = group * self.workload.sizes[column] + codes[:, column]
            words = stream(seed, f"cells of {link.column}", rows)
            codes[:, link.column] = _drawn(self._factor(link), group, words)
        return codes

    def _factor(self, link: Link) -> Integers:
        """Return counts with a row for each cell of S; rows without records have those of all."""
        clique = link.clique
        table = summed(self.counts[link.margin], link.margin, clique)
        table = np.moveaxis(table, clique.index(link.column), -1)
        table = table.reshape(-1, self.workload.sizes[link.column])
        every = table.sum(axis=0)
        empty = table.sum(axis=1) == 0
        return np.where(empty[:, None], every if every.any() else every + 1, table)


def stream(seed: int, name: str, count: int) -> NDArray[np.uint64]:
    """Return pseudo-random words of 64 bits, each name of a seed with its own."""
    begin = int.from_bytes(sha256(f"{seed} {name}".encode()).digest()[:8], "little")
    return scrambled(np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN + np.uint64(begin))


def _drawn(table: Integers, group: Integers, words: NDArray[np.uint64]) -> Integers:
    """Return a cell for each record, given its row of the table."""
    order = np.lexsort((words, group))
    group = group[order]
    starts = np.searchsorted(group, np.arange(len(table) + 1))
    first, many = starts[group], np.diff(starts)[group]
    # the words' high bits decide the order, so the low ones are free
    offset = (words[order[first]] % np.uint64(_PARTS)).astype(np.int64)
    place = (np.arange(len(group)) - first) * _PARTS + offset
    reached = place * table.sum(axis=1)[group] // (many * _PARTS)
    ends = np.cumsum(table.ravel())
    begins = np.concatenate([[0], ends])[group * table.shape[1]]
    cells = np.empty(len(group), dtype=np.int64)
    found = np.searchsorted(ends, begins + reached, side="right")
    cells[order] = found - group * table.shape[1]
    return cells


# The fit


def _links(workload: Workload, counts: Mapping[ColumnSet, Integers]) -> Iterator[Link]:
    """Yield the links in an order in which each depends on earlier columns alone."""
    holding: dict[int, list[ColumnSet]] = {}
    for margin in workload.maximal():
        for column in margin:
            holding.setdefault(column, []).append(margin)
    left, information = sorted(holding), _Information.of(counts)
    best: dict[int, tuple[int, int, Link]] = {}
    while left:
        if best:
            column = max(best, key=lambda each: (*best[each][:2], -each))
            link = best.pop(column)[2]
        else:
            column = left[0]
            link = Link(column, (), holding[column][0])
        yield link
        left.remove(column)
        clique = link.clique
        for margin in holding[column]:
            given = tuple(each for each in margin if each in clique)
            for other in margin:
                if other not in left:
                    continue
                gain = information.mutual(other, given, margin)
                new = gain, -len(given), Link(other, given, margin)
                if other not in best or new[:2] > best[other][:2]:
                    best[other] = new


@dataclass(frozen=True, slots=True)
class _Information:
    """The h of column sets, in whole numbers of ``2**-_PLACES``."""

    counts: Mapping[ColumnSet, Integers]
    known: dict[ColumnSet, int] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: Mapping[ColumnSet, Integers]) -> _Information:
        """Return those of the margins themselves, all at once."""
        flat = np.concatenate([each.ravel() for each in counts.values()])
        ends = np.cumsum([0, *(each.size for each in counts.values())])
        sums = np.concatenate([[0], np.cumsum(_self_information(flat))])
        # sums wrap around at 2**64, and so do their differences: those are right
        found = [int(sums[end] - sums[begin]) for begin, end in pairwise(ends)]
        return cls(counts, dict(zip(counts, found, strict=True)))

    def mutual(self, column: int, given: ColumnSet, margin: ColumnSet) -> int:
        """Return I(v; S), times the number of records."""
        both = tuple(sorted((*given, column)))
        known = [self._of(each, margin) for each in (both, given, (column,), ())]
        return known[0] - known[1] - known[2] + known[3]

    def _of(self, columns: ColumnSet, margin: ColumnSet) -> int:
        if columns not in self.known:
            table = summed(self.counts[margin], margin, columns)
            self.known[columns] = int(_self_information(np.atleast_1d(table)).sum())
        return self.known[columns]


def _self_information(counts: Integers) -> Integers:
    """Return ``c log2 c`` in steps of ``2**-_PLACES``, 0 for 0.

    >>> (_self_information(np.array([0, 1, 2, 8])) >> _PLACES).tolist()
    [0, 0, 2, 24]
    """
    numbers = np.maximum(counts, 1).astype(np.uint64)
    # exact: floats hold whole numbers below 2**53, and frexp reads their exponent
    whole = np.frexp(numbers.astype(np.float64))[1].astype(np.int64) - 1
    part = (
        numbers << (31 - whole).clip(0).astype(np.uint64) >> (whole - 31).clip(0).astype(np.uint64)
    )
    found = whole.astype(np.uint64)
    for _ in range(_PLACES):
        part = part * part >> np.uint64(31)
        over = part >> np.uint64(32)
        part >>= over
        found = (found << np.uint64(1)) | over
    return np.asarray(counts.astype(np.int64) * found.astype(np.int64))


def cells_of(workload: Workload, codes: Integers, columns: ColumnSet) -> Integers:
    """Return a margin of records, counted."""
    cell = np.zeros(len(codes), dtype=np.int64)
    for column in columns:
        cell = cell * workload.sizes[column] + codes[:, column]
    shape = workload.shape(columns)
    return np.bincount(cell, minlength=prod(shape)).reshape(shape)
