"""What lies beside the database is on disk before it has its name, and its name before it is told.

Each test lets the power fail the moment something has been done.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import numpy as np
import pytest

from app.store import back_up
from app.store.database.lock import LEDGER_NAME, DirectoryLock
from app.store.ledger.signing import KEY_NAME, SigningKey
from app.vault.lineage import LineageFiles, Origin
from app.vault.vault import STALE, Vault, VaultWriter
from tests.app.flushes import flushes
from tests.app.ledgers import opened, url_of
from tests.app.uploads import DataHere, columns_spec, sample_csv

ORIGIN = Origin(account="acc_1", adjacency="replace_one", delta=None)


def finished(vault: Vault, writer: VaultWriter) -> None:
    for rows in (5, 3):
        writer.write({"a": np.arange(rows, dtype=np.int32)})
    for name in ("first", "second"):
        writer.attach(name, name.encode())
    writer.finish({})


def test_a_data_set_is_on_disk_before_it_is_shown(tmp_path: Path) -> None:
    with flushes() as disk:
        vault = Vault(tmp_path)
        with vault.writer("ds_1") as writer:
            finished(vault, writer)
            assert disk.is_whole(writer.directory), "whatever process goes on with it"
            vault.publish(writer)
            shown = tmp_path / "datasets" / "ds_1"
            assert disk.named == [shown]
            assert disk.early == []
            assert disk.is_found(shown, within=tmp_path)
            assert disk.is_gone(writer.directory)
            assert disk.is_found(writer.directory.parent, within=tmp_path)


def test_an_upload_is_on_disk_before_it_is_shown(tmp_path: Path) -> None:
    """Parts, sketches and manifest, as the engine has them written."""
    with flushes() as disk:
        engine = DataHere(Vault(tmp_path))
        engine.store("ds_1", io.BytesIO(sample_csv(50).encode()), columns_spec())
        shown = tmp_path / "datasets" / "ds_1"
        assert disk.named == [shown]
        assert disk.early == []
        assert len(list(shown.iterdir())) == 3
        assert disk.is_found(shown, within=tmp_path)


def test_an_erased_data_set_stays_erased(tmp_path: Path) -> None:
    with flushes() as disk:
        vault = Vault(tmp_path)
        with vault.writer("ds_1") as writer:
            finished(vault, writer)
            vault.publish(writer)
        vault.erase("ds_1")
        assert disk.named[-1].parent == tmp_path / "staging"
        assert disk.is_gone(tmp_path / "datasets" / "ds_1")
        assert disk.is_gone(disk.named[-1]), "nor is it in staging"


def test_a_data_set_that_was_set_aside_stays_there(tmp_path: Path) -> None:
    with flushes() as disk:
        vault = Vault(tmp_path)
        with vault.writer("ds_1") as writer:
            finished(vault, writer)
            vault.publish(writer)
        vault.recover(keep=(), known=())
        (aside,) = (tmp_path / STALE).iterdir()
        assert disk.is_found(aside, within=tmp_path)
        assert disk.is_gone(tmp_path / "datasets" / "ds_1")


def test_digests_and_their_key_are_on_disk_before_they_are_told(tmp_path: Path) -> None:
    with flushes() as disk:
        files = LineageFiles(tmp_path)
        directory = tmp_path / "lineage"
        files.key()
        assert disk.is_found(directory / "key", within=tmp_path)
        files.keep("ds_1", b"digests", ORIGIN)
        for name in ("ds_1.account", "ds_1.digests"):
            assert disk.is_found(directory / name, within=tmp_path)
        assert disk.named == [directory / n for n in ("key", "ds_1.account", "ds_1.digests")]
        assert disk.early == []


def test_the_signing_key_is_on_disk_before_it_signs(tmp_path: Path) -> None:
    with flushes() as disk:
        SigningKey.of(tmp_path)
        assert disk.named == [tmp_path / KEY_NAME]
        assert disk.early == []
        assert disk.is_found(tmp_path / KEY_NAME, within=tmp_path)


def test_a_backup_is_on_disk_before_it_has_its_name(tmp_path: Path) -> None:
    with opened(tmp_path / "live") as ledger:
        ledger.release("one")
        with flushes() as disk:
            copy = tmp_path / "copy.sqlite"
            back_up(url_of(tmp_path / "live"), copy)
            assert disk.named == [copy]
            assert disk.early == []
            assert disk.is_found(copy, within=tmp_path)


def test_whose_a_directory_is_is_never_half_written(tmp_path: Path) -> None:
    """An older note, or none, is put right by the next start or reconciliation."""
    lock = DirectoryLock(tmp_path)
    with flushes() as disk:
        assert lock.belongs_to("one")
        lock.give_to("other")
        assert disk.named == [tmp_path / LEDGER_NAME] * 2
        assert disk.early == []
    lock.release()


@pytest.mark.parametrize("flushed", [(), ("file",), ("file", "directory")])
def test_what_is_not_flushed_is_found_out(tmp_path: Path, flushed: tuple[str, ...]) -> None:
    with flushes() as disk, (tmp_path / "old").open("wb") as file:
        file.write(b"content")
        file.flush()
        if "file" in flushed:
            os.fsync(file.fileno())
        new = tmp_path / "new"
        (tmp_path / "old").rename(new)
        assert disk.is_whole(new) == ("file" in flushed)
        assert disk.early == ([] if flushed else [new])
        assert not disk.is_found(new, within=tmp_path)
        if "directory" in flushed:
            directory = os.open(tmp_path, os.O_RDONLY)
            os.fsync(directory)
            os.close(directory)
        assert disk.is_found(new, within=tmp_path) == ("directory" in flushed)
        assert disk.is_gone(tmp_path / "old") == ("directory" in flushed)
