"""Backups: one snapshot, next to a running server, that replaces nothing."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from app.store import Store, StoreError, back_up, inspecting, was_served
from tests.app.ledgers import file_of, opened, url_of


def test_a_backup_is_a_whole_ledger(tmp_path: Path) -> None:
    with opened(tmp_path / "live", total=10**6) as ledger:
        stop = threading.Event()

        def write() -> None:
            number = 0
            while not stop.is_set():
                ledger.release(f"busy-{number}")
                number += 1

        writer = threading.Thread(target=write)
        writer.start()
        copies = []
        try:
            for number in range(5):
                copies.append(tmp_path / f"copy-{number}" / "ledger.sqlite")
                copies[-1].parent.mkdir()
                back_up(url_of(tmp_path / "live"), copies[-1])
        finally:
            stop.set()
            writer.join()
        spent = []
        for copy in copies:
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
            assert [*copy.parent.iterdir()] == [copy], "no journal and no scratch file beside it"
            with inspecting(f"sqlite:///{copy}") as r:
                assert r.verify().ok
                account = r.accounts.get(ledger.account)
                assert account is not None
                spent.append(account.spent)
        assert spent == sorted(spent)
        assert spent[-1] <= ledger.balance()[1]


def test_a_backup_can_be_made_without_a_server(tmp_path: Path) -> None:
    with opened(tmp_path) as ledger:
        ledger.release("one")
    back_up(url_of(tmp_path), tmp_path / "copy.sqlite")
    assert was_served(file_of(tmp_path))
    assert not was_served(tmp_path / "copy.sqlite")
    with inspecting(f"sqlite:///{tmp_path}/copy.sqlite") as r:
        assert [release.result for release in r.releases.list()] == [b"{}"]


def test_a_backup_replaces_nothing(tmp_path: Path) -> None:
    Store.open(url_of(tmp_path), data_dir=tmp_path).close()
    (tmp_path / "precious").write_text("an older backup")
    for url, target, why in (
        (url_of(tmp_path), "precious", "exists already"),
        (url_of(tmp_path), "no/such/place", "cannot be written"),
        (f"sqlite:///{tmp_path}/none.sqlite", "copy", "no ledger"),
        ("postgresql+psycopg://127.0.0.1/x", "copy", "pg_dump"),
        (f"sqlite:///{tmp_path}/precious", "copy", "cannot be copied"),
    ):
        with pytest.raises(StoreError, match=why):
            back_up(url, tmp_path / target)
    assert (tmp_path / "precious").read_text() == "an older backup"
    assert not (tmp_path / "copy").exists()
    assert not [*tmp_path.glob("*.part")]


def test_what_a_killed_backup_left_is_in_no_way_of_the_next(tmp_path: Path) -> None:
    Store.open(url_of(tmp_path), data_dir=tmp_path).close()
    (tmp_path / "copy.sqlite.part").write_text("half of it")
    back_up(url_of(tmp_path), tmp_path / "copy.sqlite")
    assert stat.S_IMODE((tmp_path / "copy.sqlite").stat().st_mode) == 0o600
