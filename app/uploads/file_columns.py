"""Digests over a file's first columns, declared or not: the same people by other columns.

A user may declare half of a file's columns, then the other half, and so bring the same
people twice. So up to a public number of columns are read, texts too, in two ways.

*Anchors.* For a few values of each column, tags of the cells in their rows
(:mod:`app.uploads.anchors`). They find the same rows whatever columns have been added,
dropped or renamed, as long as one column has values that are of one row each.

*Sums.* Each row's digests summed over all columns, and over all but one. They find
the same rows of few-valued columns if the files differ by one column.

Only keyed digests are kept: undeclared values are not stored.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.domain.overlap import ColumnShape, TableShape, chance_of_pair, is_list, repeat_bits
from app.uploads.anchors import Anchor, AnchorSampler
from app.uploads.file_cells import FileCells
from app.uploads.grids import Grid
from app.uploads.prf import Prf
from app.uploads.samples import Digests, Sample, Sampler, Sieve, Uppers

_KEEP_SUMS = 1 << 10
_MOST_LOOKED_AT = 1 << 15


@dataclass(frozen=True, slots=True)
class ColumnSum:
    """A sample of rows over all columns but one, or over all (None).

    ``whole`` is the digest of all rows with their counts, None when too many are
    different, and ``whole_bits`` how unlikely chance is to repeat them.
    """

    left_out: int | None
    sample: Sample
    whole: str | None
    whole_bits: float


@dataclass(frozen=True, slots=True)
class FileDigests:
    """What is kept of a file's first columns; ``anchors`` are by the columns' places."""

    columns: tuple[ColumnShape, ...] = ()
    sums: tuple[ColumnSum, ...] = ()
    anchors: Mapping[int, Anchor] = field(default_factory=dict)

    def within(self, left_out: int | None) -> Sequence[int]:
        """Return the places of all columns but one."""
        return [place for place in range(len(self.columns)) if place != left_out]

    def shape(self, column_sum: ColumnSum) -> TableShape:
        """Return what the public rule asks of a table, for these columns of it."""
        bits = sum(self.columns[place].bits for place in self.within(column_sum.left_out))
        return column_sum.sample.shape(bits)

    def merged(self, other: FileDigests) -> FileDigests:
        """Return the digests of two files' rows together; of the longer where columns differ."""
        more, less = (self, other) if self.rows >= other.rows else (other, self)
        if len(more.columns) != len(less.columns):
            return more
        theirs = {each.left_out: each.sample for each in less.sums}
        sums = (
            ColumnSum(place, each.sample.merged(theirs[place], keep=_KEEP_SUMS), None, 0.0)
            for each in more.sums
            if (place := each.left_out) in theirs
        )
        anchors = {
            place: anchor.merged(less.anchors[place])
            for place, anchor in more.anchors.items()
            if place in less.anchors
        }
        return FileDigests(more.columns, tuple(sums), anchors)

    @property
    def rows(self) -> int:
        """Return how many rows it is of."""
        return max((each.sample.rows for each in self.sums), default=0)

    def facts(self) -> dict[str, object]:
        """Return all but the digests, JSON-ready."""
        return {
            "columns": [[each.bits, each.chance, each.is_list] for each in self.columns],
            "sums": [
                {
                    "left_out": each.left_out,
                    "whole": each.whole,
                    "whole_bits": each.whole_bits,
                    **each.sample.facts(),
                }
                for each in self.sums
            ],
            "anchors": [
                {"column": place, "size": len(anchor.values), "limit": anchor.limit}
                for place, anchor in self.anchors.items()
            ],
        }

    def body(self) -> bytes:
        """Return the digests."""
        sums = [each.sample.digests.astype("<u8").tobytes() for each in self.sums]
        anchors = [
            anchor.values.astype("<u8").tobytes() + anchor.tags.astype("<u4").tobytes()
            for anchor in self.anchors.values()
        ]
        return b"".join((*sums, *anchors))

    @classmethod
    def of(cls, facts: Mapping[str, Any], body: bytes) -> FileDigests:
        """Return the inverse of :meth:`facts` and :meth:`body`.

        Raises
        ------
        ValueError, KeyError, TypeError
            They are something else.
        """
        columns = tuple(
            ColumnShape(bits=float(bits), chance=float(chance), is_list=bool(listed))
            for bits, chance, listed in facts["columns"]
        )
        pieces = _Pieces(body)
        sums = tuple(
            ColumnSum(
                _place(each["left_out"], columns),
                Sample.of(each, pieces.words(each["size"])),
                each["whole"],
                float(each["whole_bits"]),
            )
            for each in facts["sums"]
        )
        anchors = {
            int(each["column"]): Anchor(
                pieces.words(each["size"]),
                pieces.tags(each["size"], len(columns)),
                int(each["limit"]),
            )
            for each in facts["anchors"]
        }
        if not pieces.empty or not anchors.keys() <= set(range(len(columns))):
            raise ValueError("other sizes")
        return cls(columns, sums, anchors)


def _place(place: object, columns: Sequence[ColumnShape]) -> int | None:
    if place is None:
        return None
    if not isinstance(place, int) or place not in range(len(columns)):
        raise ValueError("another column")
    return place


class _Pieces:
    """Takes a body apart."""

    def __init__(self, body: bytes) -> None:
        self._body = memoryview(body)

    @property
    def empty(self) -> bool:
        """Return whether all of it has been taken."""
        return not self._body

    def words(self, size: int) -> Digests:
        """Add some digests."""
        return np.frombuffer(self._take(8 * size), dtype="<u8").astype(np.uint64)

    def tags(self, rows: int, columns: int) -> NDArray[np.uint32]:
        """Add some rows of tags."""
        taken = np.frombuffer(self._take(4 * rows * columns), dtype="<u4")
        return taken.astype(np.uint32).reshape(rows, columns)

    def _take(self, size: int) -> memoryview:
        if not 0 <= size <= len(self._body):
            raise ValueError("other sizes")
        taken, self._body = self._body[:size], self._body[size:]
        return taken


class FileDigester:
    """Makes the digests of a file's first columns, which arrive in blocks."""

    def __init__(self, prf: Prf) -> None:
        self._prf = prf
        self._grids: list[Grid] = []
        self._anchors: list[AnchorSampler] = []
        self._sums: list[Sampler] = []
        self._sieve = Sieve(0, [])
        self._seen = _Seen()

    def add(self, columns: Sequence[FileCells], uppers: Uppers | None = None) -> None:
        """Take in some rows of all columns that are looked at, of one or more.

        ``uppers`` are of the same rows.
        """
        if not self._grids:
            self._grids = [Grid() for _ in columns]
            self._anchors = [AnchorSampler(len(columns)) for _ in columns]
            self._sums = [Sampler(_KEEP_SUMS, patient=True)]
            self._sums += [Sampler(_KEEP_SUMS) for _ in columns]
            every = range(len(columns))
            all_but = [every, *([other for other in every if other != place] for place in every)]
            self._sieve = Sieve(len(columns), [*zip(self._sums, all_but, strict=True)])
        cells = [column.digests for column in columns]
        self._sieve.add(cells, uppers)
        for place, column in enumerate(columns):
            self._grids[place].add(column.plain, column.ends)
            self._anchors[place].add(cells[place], cells)
        self._seen.add(columns)

    def alike(self, places: Sequence[int]) -> float:
        """Return the chance that two rows agree in some columns."""
        return self._seen.alike(places)

    def finish(self) -> FileDigests:
        """Return the digests of everything that was added."""
        anchors = {
            place: anchor
            for place, sampler in enumerate(self._anchors)
            if (anchor := sampler.anchor(self._prf)) is not None
        }
        sums = (_sum_of(place, sampler) for place, sampler in enumerate(self._sums))
        columns = tuple(self._seen.shape(place, grid) for place, grid in enumerate(self._grids))
        return FileDigests(columns, tuple(each for each in sums if each is not None), anchors)


def _sum_of(place: int, sampler: Sampler) -> ColumnSum | None:
    sample = sampler.sample()
    if sample is None:
        return None
    counts, left_out = sampler.counts(), place - 1 if place else None
    if counts is None:
        return ColumnSum(left_out, sample, None, 0.0)
    whole = hashlib.sha256(sample.digests.tobytes() + counts.tobytes()).hexdigest()
    return ColumnSum(left_out, sample, whole, repeat_bits(counts.tolist()))


class _Seen:
    """Some rows of the file, spread over all of it, that show what its columns are like."""

    def __init__(self) -> None:
        self._rows = 0
        self._step = 1
        self._held: list[NDArray[np.uint64]] = []
        self._size = 0
        self._texts: set[int] = set()

    def add(self, columns: Sequence[FileCells]) -> None:
        """Look at some more rows, at a fixed interval."""
        # The interval counts rows of the file, wherever its blocks begin.
        some = slice(-self._rows % self._step, None, self._step)
        self._rows += len(columns[0].digests)
        self._hold(np.stack([column.digests[some] for column in columns]))
        self._texts |= {
            place
            for place, column in enumerate(columns)
            if column.texts is not None and column.texts.any()
        }
        if self._size > _MOST_LOOKED_AT:
            thinning = -(-self._size // _MOST_LOOKED_AT)
            held, self._held, self._size = np.hstack(self._held), [], 0
            self._hold(held[:, ::thinning])
            self._step *= thinning

    def _hold(self, rows: NDArray[np.uint64]) -> None:
        self._held.append(rows)
        self._size += rows.shape[1]

    def alike(self, places: Sequence[int]) -> float:
        """Return the chance that two rows agree in some columns, by those looked at."""
        if not self._held:
            return 1.0
        cells = np.hstack(self._held)[places]
        # odd factors: the same cells in other columns are no equal rows
        rows = np.arange(1, 2 * len(places), 2, dtype=np.uint64) @ cells
        _, counts = np.unique(rows, return_counts=True)
        return chance_of_pair(_pairs(counts), rows=len(rows), bits=math.inf)

    def shape(self, place: int, grid: Grid) -> ColumnShape:
        """Return what the public rule asks of a column."""
        cells = np.concatenate([held[place] for held in self._held])
        _, counts = np.unique(cells, return_counts=True)
        present = int(np.count_nonzero(cells))
        distinct = len(counts) - (present < len(cells))
        bits, listed = grid.bits(), False
        if place in self._texts:
            bits = max(bits, math.log2(max(1, distinct)))
        else:
            rows, different = present * self._step, distinct * self._step
            listed = is_list(rows=rows, distinct=different, bits=grid.even_bits())
        chance = chance_of_pair(_pairs(counts), rows=len(cells), bits=bits)
        return ColumnShape(bits=bits, chance=chance, is_list=listed)


def _pairs(counts: NDArray[np.int64]) -> int:
    """Return how many pairs there are of equal ones, which occur so often each."""
    return int((counts * (counts - 1)).sum()) // 2
