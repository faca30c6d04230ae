"""Comparing the digests of two tables; the verdict is the public rule's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from app.domain.overlap import (
    MIN_BITS,
    OTHERS,
    OWN,
    Floor,
    is_below,
    overlaps,
    same_people,
)
from app.uploads.intake import Pool, in_both
from app.uploads.row_digests import ALL, SINGLE, Kept, RowDigests
from app.uploads.samples import Sample


class Newcomer:
    """A table that is compared with others, one after the other.

    Parameters
    ----------
    digests
        The digests of its rows; its single columns are put in order once.
    """

    def __init__(self, digests: RowDigests) -> None:
        self._digests = digests
        self._singles = singles_of(digests)
        self._pool = Pool([kept.sample.digests for kept in self._singles])

    @property
    def is_small(self) -> bool:
        """Say whether it is too small to be compared with what others have uploaded."""
        rows = [kept.shape for kept in self._digests.kept if ALL in kept.labels]
        return any(is_below(OTHERS, shape) for shape in rows)

    def overlaps(self, old: RowDigests, floor: Floor = OWN) -> bool:
        """Say whether both hold largely the same rows; see :mod:`app.domain.overlap`."""
        new = self._digests
        if _people_overlap(new.people, old.people, floor):
            return True
        if new.whole is not None and new.whole == old.whole and new.whole_bits >= MIN_BITS:
            return len(new.kept[0].sample.digests) >= floor.compared
        pairs = (*_same_columns(new, old), *self._common_singles(old, floor))
        return any(_samples_overlap(*pair, floor) for pair in pairs)

    def shares(self, old: RowDigests) -> bool:
        """Say whether any row or person is in both, by all columns of the spec."""
        new = self._digests
        pairs = [(new.people, old.people)]
        pairs += [
            (one.sample, other.sample)
            for one in new.kept
            for other in old.kept
            if ALL in one.labels and ALL in other.labels
        ]
        return any(
            in_both(one.digests, other.digests) > 0
            for one, other in pairs
            if one is not None and other is not None
        )

    def _common_singles(self, old: RowDigests, floor: Floor) -> Iterator[tuple[Kept, Kept]]:
        """Yield the single columns of two tables that have digests in common at all."""
        for theirs in singles_of(old):
            for place in self._pool.sharing(theirs.sample.digests, floor.common):
                yield self._singles[place], theirs


def tables_overlap(new: RowDigests, old: RowDigests) -> bool:
    """Say whether two tables hold largely the same rows; see :mod:`app.domain.overlap`."""
    return Newcomer(new).overlaps(old)


def singles_of(digests: RowDigests) -> Sequence[Kept]:
    """Return the samples of single columns."""
    return [kept for kept in digests.kept if SINGLE in kept.labels]


def _same_columns(new: RowDigests, old: RowDigests) -> Iterator[tuple[Kept, Kept]]:
    """Yield the samples over columns that go by the same label in both tables."""
    by_label = {
        label: kept for kept in old.kept for label in kept.labels if SINGLE not in kept.labels
    }
    for kept in new.kept:
        if SINGLE in kept.labels:
            continue
        yield from {
            id(by_label[label]): (kept, by_label[label])
            for label in kept.labels
            if label in by_label
        }.values()


def _people_overlap(one: Sample | None, other: Sample | None, floor: Floor) -> bool:
    if one is None or other is None:
        return False
    limit = min(one.limit, other.limit)
    ours, theirs = one.below(limit), other.below(limit)
    compared = min(len(ours), len(theirs))
    return same_people(compared=compared, common=in_both(ours, theirs), floor=floor)


def _samples_overlap(one: Kept, other: Kept, floor: Floor) -> bool:
    limit = min(one.sample.limit, other.sample.limit)
    ours, theirs = one.sample.below(limit), other.sample.below(limit)
    compared = min(len(ours), len(theirs))
    # The rule says no, too. Most pairs of tables end here, before their shapes are looked at.
    if compared < floor.compared or (common := in_both(ours, theirs)) < floor.common:
        return False
    first = (len(ours), one.sample.rows) <= (len(theirs), other.sample.rows)
    smaller, larger = (one, other) if first else (other, one)
    return overlaps(
        smaller=smaller.shape,
        larger=larger.shape,
        compared=compared,
        common=common,
        floor=floor,
        same_columns=SINGLE not in one.labels,
    )
