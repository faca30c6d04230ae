"""What an authority answers is kept where it is a stamp of what was sent, and asked for again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner, Result
from rfc3161_client import TimestampRequestBuilder

from app.cli import main
from app.client import ReceiptError, check_stamp
from app.services.transparency.stamps import (
    Authority,
    NotStampedError,
    StampService,
    in_order,
    pause_after,
)
from tests.app.authority import STAMPED_AT, Stamping, listening
from tests.app.conftest import ON_BOTH
from tests.app.ledgers import Ledger, Place, opened, place_on, raw
from tests.app.logs import log_of


def test_what_the_authority_answers_must_be_a_stamp_of_what_was_sent(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        log = log_of(ledger)
        log.extend()
        with listening(Stamping()) as authority:
            stamps = StampService(ledger.store, Authority(url=authority.url))

            def refused(answer: bytes | None, reported: str) -> None:
                authority.answers = answer
                with pytest.raises(NotStampedError, match=reported):
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


def test_an_authority_may_send_its_certificates_in_any_order(tmp_path: Path) -> None:
    """As one by OpenSSL does: its own first, then those above it."""
    with opened(tmp_path) as ledger:
        log = log_of(ledger)
        log.extend()
        with listening(Stamping(issued=True)) as authority:
            stamps = StampService(ledger.store, Authority(url=authority.url))
            assert anyio.run(stamps.stamp_next)
        note, stamp = log.checkpoint().encode(), stamps.stamp()
    assert check_stamp(stamp, note, authority.pem) == STAMPED_AT
    with pytest.raises(ReceiptError, match="not by this authority"):
        check_stamp(stamp, note, Stamping(issued=True).pem)


@pytest.mark.parametrize("issued", [False, True])
def test_only_the_order_of_certificates_is_changed(issued: bool) -> None:
    authority = Stamping(issued=issued)
    answer = authority.stamp(TimestampRequestBuilder(b"note").build().as_bytes())
    ordered = in_order(answer)
    assert (ordered == answer) == (not issued)
    assert sorted(ordered) == sorted(answer)
    assert in_order(ordered) == ordered
    for size in range(len(answer)):
        with pytest.raises((IndexError, ValueError)):
            in_order(answer[:size])


def _of_another(authority: Stamping) -> bytes:
    """Return the authority's stamp of other content, under another nonce."""
    imprint = b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"
    content = b"\x02\x01\x01" + imprint + bytes(32) + b"\x02\x01\x05\x01\x01\xff"
    return authority.stamp(b"\x30" + bytes([len(content)]) + content)


def test_pauses_grow_up_to_an_hour() -> None:
    pauses = [pause_after(failed) for failed in range(40)]
    assert pauses[:4] == [2.0, 10.0, 20.0, 40.0]
    assert pauses[-1] == 3600.0


@dataclass(frozen=True)
class Books:
    """A ledger with stamped checkpoints, whoever stamped them, and the command that checks them."""

    ledger: Ledger
    authority: Stamping
    sizes: list[int]

    def grow(self, *, stamped: bool = True) -> None:
        """Have another checkpoint, and another stamp."""
        self.ledger.debit(f"ask {len(self.sizes)}")
        log = log_of(self.ledger)
        log.extend()
        self.sizes.append(int(log.checkpoint().split("\n")[1]))
        if stamped:
            stamps = StampService(self.ledger.store, Authority(url=self.authority.url))
            assert anyio.run(stamps.stamp_next)

    def edit(self, statement: str, *values: Any) -> None:
        """Edit the tables with every guard off."""
        with raw(self.ledger.place, guarded=False) as connection:
            connection.execute(statement, values)

    def stamp(self, size: int) -> bytes:
        with self.ledger.store.reading() as reader:
            found = reader.stamps.of(size)
        assert found is not None
        return found

    def verify(self, *options: str, authority: bytes | None = None) -> Result:
        place = self.ledger.place
        pem = place.directory / "authority.pem"
        pem.write_bytes(self.authority.pem if authority is None else authority)
        environment = {
            "RELEASE_DESK_DATA_DIR": str(place.directory),
            "RELEASE_DESK_DATABASE_URL": place.url,
            "RELEASE_DESK_ANCHOR_DIR": (
                str(place.directory / "anchor") if place.backend == "sqlite" else None
            ),
        }
        command = ["audit", "verify", "--no-signatures", "--authority", str(pem), *options]
        return CliRunner(env=environment).invoke(main, command)


def _now(**later: float) -> str:
    return (datetime.now(UTC) + timedelta(**later)).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def books(where: Place | Path, *, at: str | None = None) -> Iterator[Books]:
    """Open a ledger next to an authority, with three checkpoints and their stamps."""
    with opened(where) as ledger, listening(Stamping(at=at or _now())) as authority:
        kept = Books(ledger, authority, [])
        for _ in range(3):
            kept.grow()
        yield kept


@pytest.mark.parametrize("backend", ON_BOTH)
def test_every_stamp_kept_is_checked_by_the_authority_s_certificates(
    tmp_path: Path, backend: str
) -> None:
    with place_on(backend, tmp_path) as place, books(place) as kept:
        done = kept.verify()
        assert done.exit_code == 0, done.output
        assert "time stamps: 3 checked\n" in done.stdout
        kept.grow(stamped=False)
        assert "time stamps: 3 checked, 1 still to come\n" in kept.verify().stdout
        reported = json.loads(kept.verify("--json").stdout)
        assert (reported["ok"], reported["stamps"]) == (True, {"checked": 3, "waiting": 1})


def test_where_no_stamp_is_kept_it_says_so(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        kept = Books(ledger, Stamping(), [])
        kept.grow(stamped=False)
        done = kept.verify()
        assert done.exit_code == 0
        assert "time stamps: none is kept\n" in done.stdout
        assert json.loads(kept.verify("--json").stdout)["stamps"] == {"checked": 0, "waiting": 0}


def _another_authority(kept: Books, size: int) -> None:
    other = Stamping(name="another authority", at=kept.authority.at)
    _restamp(kept, size, other)


def _same_name(kept: Books, size: int) -> None:
    _restamp(kept, size, Stamping(name=kept.authority.name, at=kept.authority.at))


def _restamp(kept: Books, size: int, by: Stamping) -> None:
    with kept.ledger.store.reading() as reader, listening(by):
        note = reader.log.checkpoint_of(size)
        assert note is not None
        stamp = Authority(url=by.url).stamp(note.encode())
    kept.edit("UPDATE log_stamp SET stamp = ? WHERE size = ?", stamp, size)


def _another_checkpoint(kept: Books, size: int) -> None:
    stamp = kept.stamp(kept.sizes[0])
    kept.edit("UPDATE log_stamp SET stamp = ? WHERE size = ?", stamp, size)


def _one_byte(kept: Books, size: int) -> None:
    stamp = kept.stamp(size)
    changed = stamp[:-1] + bytes([stamp[-1] ^ 1])  # of the signature
    kept.edit("UPDATE log_stamp SET stamp = ? WHERE size = ?", changed, size)


def _no_stamp(kept: Books, size: int) -> None:
    kept.edit("UPDATE log_stamp SET stamp = ? WHERE size = ?", b"a page of a proxy", size)


@pytest.mark.parametrize(
    "forge", [_another_authority, _same_name, _another_checkpoint, _one_byte, _no_stamp]
)
def test_a_stamp_that_does_not_hold_is_a_fault(
    tmp_path: Path, forge: Callable[[Books, int], None]
) -> None:
    with books(tmp_path) as kept:
        size = kept.sizes[1]
        forge(kept, size)
        reported = json.loads(kept.verify("--json").stdout)
        fault = f"the time stamp of the log's first {size} leaves: it is not of this checkpoint, or"
        assert f"{fault} not by this authority" in reported["faults"]
        assert len([each for each in reported["faults"] if "time stamp" in each]) == 1
        assert (reported["ok"], reported["stamps"]["checked"]) == (False, 3)
        assert kept.verify().exit_code == 1


def test_only_the_authority_named_is_believed(tmp_path: Path) -> None:
    with books(tmp_path) as kept:
        done = kept.verify(authority=Stamping(at=kept.authority.at).pem)
        assert done.exit_code == 1
        assert done.stdout.startswith("INVALID")
        assert done.stdout.count("not by this authority") == 3
        wrong = kept.verify(authority=b"no certificate")
        assert wrong.exit_code == 2
        assert "no certificates that can be read" in wrong.stderr


@pytest.mark.parametrize(("apart", "held"), [(-30.0, True), (3600.0, True), (-120.0, False)])
def test_a_stamp_from_before_its_checkpoint_is_a_fault(
    tmp_path: Path, apart: float, held: bool
) -> None:
    """Two clocks may differ a little; a stamp may come as late as it likes."""
    with books(tmp_path, at=_now(seconds=apart)) as kept:
        done = kept.verify()
        assert done.exit_code == (0 if held else 1), done.output
        assert ("its time is before the checkpoint's own" in done.stdout) is not held


def test_a_stamp_that_was_taken_out_or_put_in_is_a_fault(tmp_path: Path) -> None:
    with books(tmp_path) as kept:
        size = kept.sizes[1]
        stamp = kept.stamp(size)
        kept.edit("DELETE FROM log_stamp WHERE size = ?", size)
        assert f"first {size} leaves: it was taken out" in kept.verify().stdout
        kept.edit("INSERT INTO log_stamp (size, stamp) VALUES (?, ?)", size, stamp)
        kept.edit("INSERT INTO log_stamp (size, stamp) VALUES (?, ?)", 999, stamp)
        assert "first 999 leaves: there is no such checkpoint" in kept.verify().stdout
        with raw(kept.ledger.place) as connection:
            connection.execute("DROP TABLE log_stamp")
        broken = kept.verify()
        assert broken.exit_code == 1
        assert "the time stamps cannot be read through" in broken.stdout
