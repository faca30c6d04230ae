"""Anchors: which other cells occur in the row of a value, for a few values of a column.

An *anchor* is the sample of a column's smallest different digests, at most ``KEPT_VALUES``,
and for each of them a tag per column of the file. A tag is a keyed digest of this value and
the cell of that column in the same row. Two tables that hold the same rows choose the same
values, and have equal tags for the columns they share, whatever their names and order.

A value in several different rows says nothing of who is meant, and has no tags; rows
that are equal in every column count once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from app.uploads.prf import Prf
from app.uploads.samples import SPACE, Digests

KEPT_VALUES = 1 << 8
_FIRST_ROWS = 1 << 10
_TELLS_AFTER_ROWS = 1 << 12
_FEWEST_ALONE = 0.25  # a column with fewer values of one row each identifies no person

Tags = NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class Anchor:
    """The values of one column that are of one row each, ascending, with a row of tags each."""

    values: Digests
    tags: Tags
    limit: int

    def merged(self, other: Anchor) -> Anchor:
        """Return the anchor of both files' rows, without values that each has in another row."""
        limit = min(self.limit, other.limit)
        values = np.concatenate([self.values, other.values])
        tags = np.concatenate([self.tags, other.tags])
        order = np.argsort(values, kind="stable")
        order = order[values[order] < np.uint64(limit)]
        values, tags = values[order], tags[order]
        again = np.flatnonzero(values[1:] == values[:-1])
        alone = np.ones(len(values), dtype=np.bool_)
        alone[again + 1] = False
        alone[again] = (tags[again] == tags[again + 1]).all(axis=1)
        values, tags = values[alone], tags[alone]
        if len(values) > KEPT_VALUES:
            limit = int(values[KEPT_VALUES])
        return Anchor(values[:KEPT_VALUES], tags[:KEPT_VALUES], limit)


class AnchorSampler:
    """Collects an anchor while rows stream by.

    Parameters
    ----------
    columns
        How many columns the file has, as far as they are looked at.
    """

    def __init__(self, columns: int) -> None:
        self._limit = 2**64 - 1
        self._rows = 0
        self._values = np.zeros(0, dtype=np.uint64)
        self._counts = np.zeros(0, dtype=np.int64)
        self._lows = np.zeros((0, columns), dtype=np.uint64)
        self._highs = self._lows
        self._waiting: list[tuple[Digests, Digests]] = []
        self._waiting_rows = 0
        self._given_up = False

    def add(self, own: Digests, cells: Sequence[Digests]) -> None:
        """Look at some more rows: the anchor's own cells, and those of every column."""
        # as many as bring about as many values as are kept; short pieces first, since each
        # lowers the limit that the next ones must come below
        start, size = 0, max(_FIRST_ROWS, int(KEPT_VALUES * SPACE / self._limit))
        while start < len(own) and not self._given_up:
            chosen = start + np.flatnonzero(own[start : start + size] < np.uint64(self._limit))
            # 0 is a missing cell, which identifies no person, and would be below every limit.
            chosen = chosen[own[chosen] != 0]
            self._rows += min(size, len(own) - start)
            if len(chosen):
                side_by_side = np.column_stack([each[chosen] for each in cells])
                self._waiting.append((own[chosen], side_by_side))
                self._waiting_rows += len(chosen)
            if self._waiting_rows >= KEPT_VALUES:
                self._merge()
            start, size = start + size, 2 * size

    def _merge(self) -> None:
        """Merge the rows that wait."""
        values, cells = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting, self._waiting_rows = [], 0
        sums = cells + values[:, None]
        both = np.concatenate([self._values, values])
        order = np.argsort(both, kind="stable")
        both = both[order]
        # Inverted it differs from itself: so the first value begins a run, too.
        starts = np.flatnonzero(np.diff(both, prepend=~both[:1]) != 0)
        kept = starts[:KEPT_VALUES]
        if len(starts) > KEPT_VALUES:
            stop = int(starts[KEPT_VALUES])
            self._limit = int(both[stop])
            both, order = both[:stop], order[:stop]
        ones = np.ones(len(values), dtype=np.int64)
        self._values = both[kept]
        counts, lows, highs = (
            np.concatenate(each)[order]
            for each in ((self._counts, ones), (self._lows, sums), (self._highs, sums))
        )
        if len(kept) < len(both):  # else each value is there once, as it mostly is
            counts = np.add.reduceat(counts, kept)
            lows = np.minimum.reduceat(lows, kept, axis=0)
            highs = np.maximum.reduceat(highs, kept, axis=0)
        self._counts, self._lows, self._highs = counts, lows, highs
        if self._rows > _TELLS_AFTER_ROWS:
            self._given_up = int(self._alone().sum()) < _FEWEST_ALONE * len(kept)

    def _alone(self) -> NDArray[np.bool_]:
        """Say which values are of one row, or of several that are equal throughout."""
        alone: NDArray[np.bool_] = self._counts == 1
        several = np.flatnonzero(~alone)
        alone[several] = (self._lows[several] == self._highs[several]).all(axis=1)
        return alone

    def anchor(self, prf: Prf) -> Anchor | None:
        """Return the anchor, None where nearly all values are of several rows."""
        if self._waiting and not self._given_up:
            self._merge()
        alone = self._alone()
        if self._given_up or not alone.any():
            return None
        tags = (prf.of_sums(self._lows[alone]) >> np.uint64(32)).astype(np.uint32)
        return Anchor(self._values[alone], tags, self._limit)
