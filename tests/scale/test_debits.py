"""What a charge costs the writer: its thread's processor time, however busy the machine is.

The bounds are about five times what it takes, so that a tenfold loss is found.
"""

from __future__ import annotations

import pytest

from studies.ledger import measure, median
from tests.scale.yardstick import slowness

pytestmark = pytest.mark.slow

DEBIT_US = 375
RELEASE_US = 650


def test_debits_and_whole_releases_cost_what_they_did() -> None:
    found = measure(debits=2_000, turns=1)
    assert median(found, lambda turn: turn.debits.writer_us) < DEBIT_US * slowness()
    assert median(found, lambda turn: turn.releases.writer_us) < RELEASE_US * slowness()
