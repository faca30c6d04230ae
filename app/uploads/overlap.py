"""Comparing the digests of two tables; the verdict is the public rule's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from app.domain.overlap import MIN_BITS, MIN_COMMON, overlaps
from app.uploads.row_digests import SINGLE, Kept, RowDigests


class Newcomer:
    """A table that is compared with others, one after the other.

    Parameters
    ----------
    digests
        What tells its rows; its single columns are put in order once.
    """

    def __init__(self, digests: RowDigests) -> None:
        self._digests = digests
        self._singles = _singles_of(digests)
        joined = [kept.sample.digests for kept in self._singles]
        found = np.concatenate([np.zeros(0, dtype=np.uint64), *joined])
        owners = np.repeat(np.arange(len(joined)), [len(each) for each in joined])
        order = np.argsort(found, kind="stable")
        self._found, self._owners = found[order], owners[order]

    def overlaps(self, old: RowDigests) -> bool:
        """Say whether both hold largely the same rows; see :mod:`app.domain.overlap`."""
        new = self._digests
        if new.whole is not None and new.whole == old.whole and new.whole_bits >= MIN_BITS:
            return True
        pairs = (*_same_columns(new, old), *self._common_singles(old))
        return any(_samples_overlap(*pair) for pair in pairs)

    def _common_singles(self, old: RowDigests) -> Iterator[tuple[Kept, Kept]]:
        """Yield the single columns of two tables that have digests in common at all."""
        for theirs in _singles_of(old):
            common = self._common(theirs.sample.digests)
            for place in np.flatnonzero(common >= MIN_COMMON).tolist():
                yield self._singles[place], theirs

    def _common(self, digests: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return how many of these digests each single column has; both are in order."""
        starts = np.searchsorted(self._found, digests, side="left")
        stops = np.searchsorted(self._found, digests, side="right")
        some = np.flatnonzero(stops > starts).tolist()
        runs = [self._owners[starts[place] : stops[place]] for place in some]
        owners = np.concatenate([np.zeros(0, dtype=np.intp), *runs])
        return np.bincount(owners, minlength=len(self._singles))


def tables_overlap(new: RowDigests, old: RowDigests) -> bool:
    """Say whether two tables hold largely the same rows; see :mod:`app.domain.overlap`."""
    return Newcomer(new).overlaps(old)


def _singles_of(digests: RowDigests) -> Sequence[Kept]:
    return [kept for kept in digests.kept if SINGLE in kept.labels]


def _same_columns(new: RowDigests, old: RowDigests) -> Iterator[tuple[Kept, Kept]]:
    """Yield the samples over columns that go by the same label in both tables."""
    by_label = {label: kept for kept in old.kept for label in kept.labels if label != SINGLE}
    for kept in new.kept:
        yield from {
            id(by_label[label]): (kept, by_label[label])
            for label in kept.labels
            if label in by_label
        }.values()


def _samples_overlap(one: Kept, other: Kept) -> bool:
    limit = min(one.sample.limit, other.sample.limit)
    ours, theirs = one.sample.below(limit), other.sample.below(limit)
    if not len(ours) or not len(theirs):
        return False
    first = (len(ours), one.sample.rows) <= (len(theirs), other.sample.rows)
    smaller, larger = (one, other) if first else (other, one)
    return overlaps(
        smaller=smaller.shape,
        larger=larger.shape,
        compared=min(len(ours), len(theirs)),
        common=_in_both(ours, theirs),
    )


def _in_both(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> int:
    """Return how many digests are in both samples, which are in order and hold each once."""
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    places = np.searchsorted(many, few)
    places[places == len(many)] = 0
    return int(np.count_nonzero(many[places] == few))
