"""Comparing what is kept of two files' first columns; the verdict is the public rule's."""

from __future__ import annotations

import numpy as np

from app.domain.overlap import (
    MIN_BITS,
    MIN_SHARE,
    Floor,
    beyond_chance,
    chance_of_columns,
    chance_of_equal,
    covers,
)
from app.uploads.anchors import Anchor
from app.uploads.file_columns import ColumnSum, FileDigests
from app.uploads.pools import Pool, in_both, places_in


class NewFile:
    """A file that is compared with others, one after the other."""

    def __init__(self, digests: FileDigests) -> None:
        self._digests = digests
        self._anchors = list(digests.anchors.items())
        self._values = Pool([anchor.values for _, anchor in self._anchors])
        self._sums = Pool([each.sample.digests for each in digests.sums])

    def overlaps(self, old: FileDigests, floor: Floor) -> bool:
        """Say whether both files hold largely the same rows; see :mod:`app.domain.overlap`."""
        return self._by_sums(old, floor) or self._by_anchors(old, floor)

    def _by_sums(self, old: FileDigests, floor: Floor) -> bool:
        return any(
            _sums_overlap(self._digests, self._digests.sums[place], old, theirs, floor)
            for theirs in old.sums
            for place in self._sums.sharing(theirs.sample.digests, floor.common)
        )

    def _by_anchors(self, old: FileDigests, floor: Floor) -> bool:
        return any(
            _anchors_overlap(self._digests, self._anchors[place], old, theirs, floor)
            for theirs in old.anchors.items()
            for place in self._values.sharing(theirs[1].values, floor.common)
        )


def _sums_overlap(
    new: FileDigests, one: ColumnSum, old: FileDigests, other: ColumnSum, floor: Floor
) -> bool:
    """Say whether rows agree over all columns or all but one of either file."""
    ours, theirs = new.within(one.left_out), old.within(other.left_out)
    if not (covers(new.columns, ours) or covers(old.columns, theirs)):
        return False
    any_all = one.left_out is None or other.left_out is None
    if any_all and one.whole == other.whole and one.whole is not None:
        return one.whole_bits >= MIN_BITS and len(one.sample.digests) >= floor.compared
    # Above it one of the two has kept nothing, so nothing there can be compared.
    limit = min(one.sample.limit, other.sample.limit)
    few, many = sorted(
        ((new, one, one.sample.below(limit)), (old, other, other.sample.below(limit))),
        key=lambda each: (len(each[2]), each[1].sample.rows),
    )
    columns = [*(new.columns[place] for place in ours), *(old.columns[place] for place in theirs)]
    chance = max(
        chance_of_columns(columns),
        chance_of_equal(smaller=few[0].shape(few[1]), larger=many[0].shape(many[1])),
    )
    return beyond_chance(chance, compared=len(few[2]), common=in_both(few[2], many[2]), floor=floor)


def _anchors_overlap(
    new: FileDigests,
    one: tuple[int, Anchor],
    old: FileDigests,
    other: tuple[int, Anchor],
    floor: Floor,
) -> bool:
    """Say whether enough columns agree in the rows of the values that two columns share."""
    (our_place, ours), (their_place, theirs) = one, other
    limit = np.uint64(min(ours.limit, theirs.limit))
    compared = min(np.searchsorted(each.values, limit) for each in (ours, theirs))
    places, there = places_in(theirs.values, ours.values)
    joined = int(np.count_nonzero(there))
    if joined < max(floor.common, MIN_SHARE * compared):
        return False
    tags, their_tags = ours.tags[there], theirs.tags[places[there]]
    agreeing = (tags[:, :, None] == their_tags[:, None, :]).sum(axis=0)
    found, their_found = {our_place}, {their_place}
    for place, their in np.argwhere(agreeing >= MIN_SHARE * joined).tolist():
        chance = max(new.columns[place].chance, old.columns[their].chance)
        common = int(agreeing[place, their])
        beyond = beyond_chance(chance, compared=joined, common=common, floor=floor)
        if beyond and place != our_place and their != their_place:
            found.add(place)
            their_found.add(their)
    return covers(new.columns, found) or covers(old.columns, their_found)
