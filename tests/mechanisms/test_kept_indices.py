"""Sorted indices in few bytes are the same indices."""

from __future__ import annotations

import numpy as np

from mechanisms.objectives.check_loss.records import Bits, Few, Gaps, Index, kept
from tests.tiers import in_one

RECORDS = 1_000_000


def some(count: int, records: int = RECORDS) -> Index:
    chosen = np.random.default_rng(count).choice(records, size=count, replace=False)
    return np.sort(chosen).astype(np.int32)


@in_one(
    ("index", "records", "kind"),
    [
        (some(0), RECORDS, Few),
        (some(1000), RECORDS, Few),
        (some(1100), RECORDS, Few),  # so far apart that gaps take more than four bytes each
        (some(5000), RECORDS, Gaps),
        (some(100_000), RECORDS, Gaps),
        (some(200_000), RECORDS, Bits),
        (np.arange(RECORDS, dtype=np.int32), RECORDS, Bits),
        (np.arange(0, RECORDS, 255, dtype=np.int32), RECORDS, Gaps),
        (np.arange(254, RECORDS, 256, dtype=np.int32), RECORDS, Gaps),
        (np.append(np.arange(2000), RECORDS - 1).astype(np.int32), RECORDS, Gaps),
        (some(2047, 2048), 2048, Bits),
    ],
)
def test_they_come_back_in_the_smallest_form(index: Index, records: int, kind: type) -> None:
    found = kept(index, records)
    assert isinstance(found, kind)
    assert found.index.dtype == np.int32
    assert np.array_equal(found.index, index)
    assert found.nbytes <= min(index.nbytes, max(4096, records // 8 + 1))


def test_twin_gaps_that_do_not_go_on_lose_their_place() -> None:
    """Must fail: a gap of 255 bytes or more as one byte of its remainder."""
    index = some(5000)
    short = Gaps((np.diff(index, prepend=0) % 255).astype(np.uint8))
    assert not np.array_equal(short.index, index)
