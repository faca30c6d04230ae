"""Comparing the digests of two tables; the verdict is the public rule's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.domain.overlap import MIN_BITS, MIN_COMMON, overlaps
from app.engine.row_digests import SINGLE, Kept, RowDigests


def tables_overlap(new: RowDigests, old: RowDigests) -> bool:
    """Say whether two tables hold largely the same rows; see :mod:`app.domain.overlap`."""
    if new.whole is not None and new.whole == old.whole and new.whole_bits >= MIN_BITS:
        return True
    return any(_samples_overlap(*pair) for pair in (*_same_columns(new, old), *_singles(new, old)))


def _same_columns(new: RowDigests, old: RowDigests) -> Iterator[tuple[Kept, Kept]]:
    """Yield the samples over columns that go by the same label in both tables."""
    by_label = {label: kept for kept in old.kept for label in kept.labels if label != SINGLE}
    for kept in new.kept:
        yield from {
            id(by_label[label]): (kept, by_label[label])
            for label in kept.labels
            if label in by_label
        }.values()


def _singles(new: RowDigests, old: RowDigests) -> Iterator[tuple[Kept, Kept]]:
    """Yield the single columns of two tables that have digests in common at all."""
    others = [kept for kept in old.kept if SINGLE in kept.labels]
    if not others:
        return
    digests = np.concatenate([kept.sample.digests for kept in others])
    owners = np.repeat(np.arange(len(others)), [len(kept.sample.digests) for kept in others])
    order = np.argsort(digests, kind="stable")
    digests, owners = digests[order], owners[order]
    for kept in new.kept:
        if SINGLE in kept.labels:
            found = np.isin(digests, kept.sample.digests)
            common = np.bincount(owners[found], minlength=len(others))
            for place in np.flatnonzero(common >= MIN_COMMON).tolist():
                yield kept, others[place]


def _samples_overlap(one: Kept, other: Kept) -> bool:
    limit = min(one.sample.limit, other.sample.limit)
    ours, theirs = one.sample.below(limit), other.sample.below(limit)
    if not len(ours) or not len(theirs):
        return False
    first = (len(ours), one.sample.rows) <= (len(theirs), other.sample.rows)
    smaller, larger = (one, other) if first else (other, one)
    common = len(np.intersect1d(ours, theirs, assume_unique=True))
    return overlaps(
        smaller=smaller.shape,
        larger=larger.shape,
        compared=min(len(ours), len(theirs)),
        common=common,
    )
