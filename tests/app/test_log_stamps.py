"""What an authority answers is kept where it is a stamp of what was sent, and asked for again."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from app.client import check_stamp
from app.services.transparency.authority import Authority, NotStampedError
from app.services.transparency.stamps import StampService, pause_after
from tests.app.authority import STAMPED_AT, Stamping, listening
from tests.app.ledgers import opened
from tests.app.logs import log_of


def test_what_the_authority_answers_must_be_a_stamp_of_what_was_sent(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        log = log_of(ledger)
        log.extend()
        with listening(Stamping()) as authority:
            stamps = StampService(ledger.store, Authority(url=authority.url))

            def refused(answer: bytes | None, told: str) -> None:
                authority.answers = answer
                with pytest.raises(NotStampedError, match=told):
                    anyio.run(stamps.stamp_next)

            refused(b"a page of a proxy", "cannot be read")
            refused(b"\x30\x05\x30\x03\x02\x01\x02", "no stamp of what was sent")  # a rejection
            refused(_of_another(authority), "no stamp of what was sent")
            authority.down = True
            refused(None, "status 503")
            authority.down = False
            assert anyio.run(stamps.stamp_next)
            assert not anyio.run(stamps.stamp_next), "there is no other"
        note = log.checkpoint().encode()
        assert check_stamp(stamps.stamp(), note, authority.pem) == STAMPED_AT
        ledger.debit("later")
        log.extend()
        with pytest.raises(NotStampedError, match="Refused"):
            anyio.run(stamps.stamp_next)
        assert not anyio.run(StampService(ledger.store, None).stamp_next), "nobody is set"


def _of_another(authority: Stamping) -> bytes:
    """Return the authority's stamp of other content, under another nonce."""
    imprint = b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"
    content = b"\x02\x01\x01" + imprint + bytes(32) + b"\x02\x01\x05\x01\x01\xff"
    return authority.stamp(b"\x30" + bytes([len(content)]) + content)


def test_pauses_grow_up_to_an_hour() -> None:
    pauses = [pause_after(failed) for failed in range(40)]
    assert pauses[:4] == [2.0, 10.0, 20.0, 40.0]
    assert pauses[-1] == 3600.0
