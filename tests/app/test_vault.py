"""The vault: all or nothing, and no byte goes unchecked."""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from app.vault.stored import (
    AbsentError,
    OutdatedError,
    TamperedError,
    UnreadableError,
    VaultError,
    WaitingFiles,
    WaitingNote,
)
from app.vault.vault import MAX_PART_ROWS, Vault, VaultWriter

BLOCK = {"a": np.arange(5, dtype=np.int32), "b": np.array([0, 255, 1, 2, 3], dtype=np.uint8)}


def _publish(vault: Vault, name: str = "ds_1") -> None:
    with vault.writer(name) as writer:
        writer.write(BLOCK)
        writer.write({column: codes[:2] for column, codes in BLOCK.items()})
        writer.attach("sketch.json", b"[1,2]")
        writer.finish({"columns": {}})
        vault.publish(writer)


def test_round_trip(tmp_path: Path) -> None:
    _publish(Vault(tmp_path))
    stored = Vault(tmp_path).open("ds_1")
    assert (stored.id, stored.rows, stored.facts) == ("ds_1", 7, {"columns": {}})
    assert [part.rows for part in stored.parts] == [5, 2]
    read = stored.parts[0].read(["b", "a"])
    assert {name: codes.tolist() for name, codes in read.items()} == {
        "b": [0, 255, 1, 2, 3],
        "a": [0, 1, 2, 3, 4],
    }
    assert {name: values.dtype for name, values in read.items()} == {
        name: values.dtype for name, values in BLOCK.items()
    }
    assert stored.attached["sketch.json"].read() == b"[1,2]"
    stored.verify()


def test_files_of_a_name_in_staging_are_read_until_they_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Vault(tmp_path)
    with vault.writer("ds_1") as writer, vault.writer("ds_2") as other:
        for each, content in ((writer, b"some rows"), (other, b"more rows")):
            (each.directory / "note").write_bytes(content)
            (each.directory / "another").write_bytes(b"")
        assert sorted(vault.staged_files("note")) == [b"more rows", b"some rows"]
        read = Path.read_bytes

        def gone(path: Path) -> bytes:
            if "ds_1" in path.parent.name:
                path.unlink()  # between the look and the read
            return read(path)

        monkeypatch.setattr(Path, "read_bytes", gone)
        assert vault.staged_files("note") == [b"more rows"]
    assert not vault.staged_files("note")
    with pytest.raises(AbsentError):
        vault.staged_files("../note")


def test_a_data_set_without_rows(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    with vault.writer("empty") as writer:
        writer.finish({})
        vault.publish(writer)
    assert (vault.open("empty").rows, vault.open("empty").parts) == (0, ())


def test_parts_are_numbered_and_bounded(tmp_path: Path) -> None:
    with Vault(tmp_path).writer("ds_1") as writer:
        part = writer.write({"a": np.zeros(MAX_PART_ROWS, dtype=np.int32)})
        assert part.file.path.name == "part-00000.parquet"
        for rows in (0, MAX_PART_ROWS + 1):
            with pytest.raises(ValueError, match="a part has"):
                writer.write({"a": np.zeros(rows, dtype=np.int32)})


def test_what_is_not_published_leaves_nothing(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    with vault.writer("ds_1") as writer:
        writer.write(BLOCK)
        assert writer.directory.is_dir()
    with pytest.raises(AbsentError):
        vault.open("ds_1")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_who_starts_over_meets_nothing_of_what_was_before_nor_what_still_comes(
    tmp_path: Path,
) -> None:
    vault = Vault(tmp_path)
    with vault.writer("ds_1") as writer:
        before = VaultWriter(writer.id, writer.directory)
        before.write(BLOCK)
        before.attach("sketch.json", b"half")
        writer.start_over()
        writer.write(BLOCK)
        before.write(BLOCK)
        writer.attach("sketch.json", b"[1,2]")
        writer.finish({})
        vault.publish(writer)
    with pytest.raises(FileNotFoundError):
        before.write(BLOCK)
    found = vault.open("ds_1")
    assert len(found.parts) == 1
    assert found.attached["sketch.json"].read() == b"[1,2]"
    assert list((tmp_path / "staging").iterdir()) == []


def test_what_is_staged_can_be_removed_by_its_data_set(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    with vault.writer("ds_1") as one, vault.writer("ds_2") as other:
        one.write(BLOCK)
        assert vault.staged() == {"ds_1", "ds_2"}
        vault.unstage("ds_1")
        assert vault.staged() == {"ds_2"}
        other.write(BLOCK)


def test_a_published_data_set_is_not_replaced(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    with pytest.raises(VaultError, match="cannot be published"):
        _publish(vault)
    vault.open("ds_1").verify()


@pytest.mark.parametrize("crash_at", ["write", "attach", "manifest", "finish", "rename"])
def test_a_process_that_dies_leaves_nothing_visible(tmp_path: Path, crash_at: str) -> None:
    script = textwrap.dedent(
        """
        import os, signal, sys
        from pathlib import Path
        import numpy as np
        from app.vault import vault as module
        def die(*_):
            os.kill(os.getpid(), signal.SIGKILL)
        vault = module.Vault(Path(sys.argv[1]))
        with vault.writer("ds_1") as writer:
            writer.write({"a": np.arange(9, dtype=np.int32)})
            if sys.argv[2] == "write": die()
            writer.attach("sketch.json", b"{}")
            if sys.argv[2] == "attach": die()
            if sys.argv[2] == "manifest": module.flush = die
            writer.finish({})
            if sys.argv[2] == "finish": die()
            if sys.argv[2] == "rename": Path.rename = die
            vault.publish(writer)
        """
    )
    dead = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path), crash_at],
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        timeout=60,
    )
    assert dead.returncode == -9
    vault = Vault(tmp_path)
    with pytest.raises(AbsentError):
        vault.open("ds_1")
    assert any((tmp_path / "staging").iterdir())
    vault.recover(keep=[], known=[])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    _publish(vault)


def test_recovery_removes_the_archived_and_moves_the_unknown_aside(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    for name in ("kept", "archived", "unknown"):
        _publish(vault, name)
    known = {"kept", "archived", "gone"}
    assert vault.recover(keep={"kept"}, known=known) == ["unknown"]
    assert vault.recover(keep={"kept"}, known=known) == []
    assert vault.open("kept").rows == 7
    for name in ("archived", "unknown"):
        with pytest.raises(AbsentError):
            vault.open(name)
    (aside,) = (tmp_path / "stale").iterdir()
    assert aside.name.startswith("unknown-")
    assert (aside / "manifest.json").is_file()
    assert not [path for path in tmp_path.rglob("*") if "archived" in path.name]


def test_erased_is_gone(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    vault.erase("ds_1")
    vault.erase("ds_1")
    with pytest.raises(AbsentError):
        vault.open("ds_1")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "x" * 300])
def test_names_stay_inside(tmp_path: Path, name: str) -> None:
    with pytest.raises(AbsentError):
        Vault(tmp_path).open(name)


@pytest.mark.parametrize("change", ["flip", "append", "cut", "remove", "exchange"])
def test_a_tampered_part_is_detected(tmp_path: Path, change: str) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    first, second = (part.file.path for part in vault.open("ds_1").parts)
    stored = vault.open("ds_1")
    stored.parts[0].read(["a"])  # seen once already: a later change must still be noticed
    content = bytearray(first.read_bytes())
    match change:
        case "flip":
            content[len(content) // 2] ^= 1
            first.write_bytes(content)
        case "append":
            first.write_bytes(content + b"\0")
        case "cut":
            first.write_bytes(content[:-1])
        case "remove":
            first.unlink()
        case "exchange":
            first.write_bytes(second.read_bytes())
    with pytest.raises(TamperedError):
        stored.parts[0].read(["a"])
    with pytest.raises(TamperedError):
        vault.open("ds_1").verify()
    assert stored.parts[1].read(["a"])["a"].tolist() == [0, 1]


def test_what_is_attached_lies_in_one_file(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    contents = {f"column-{number}": bytes([number]) * number for number in range(200)}
    with vault.writer("ds_1") as writer:
        for name, content in contents.items():
            writer.attach(name, content)
        writer.finish({})
        vault.publish(writer)
    assert len(list((tmp_path / "datasets" / "ds_1").iterdir())) == 2
    attached = vault.open("ds_1").attached
    assert {name: piece.read() for name, piece in attached.items()} == contents


def _extend(vault: Vault, earlier: str, name: str) -> None:
    with vault.writer(name) as writer:
        writer.build_on(vault.open(earlier).parts)
        writer.write(BLOCK)
        writer.finish({})
        vault.publish(writer)


@pytest.mark.parametrize("linked", [True, False])
def test_a_data_set_that_extends_another_has_its_parts_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """The same file under two names, or a copy where the file system has no links."""
    if not linked:
        monkeypatch.setattr(Path, "hardlink_to", failing(errno.EXDEV))
    vault = Vault(tmp_path)
    _publish(vault)
    _extend(vault, "ds_1", "ds_2")
    both = [tmp_path / "datasets" / name / "part-00001.parquet" for name in ("ds_1", "ds_2")]
    assert (both[0].stat().st_ino == both[1].stat().st_ino) is linked
    vault.erase("ds_1")
    stored = vault.open("ds_2")
    stored.verify()
    assert [part.rows for part in stored.parts] == [5, 2, 5]
    assert stored.parts[1].read(["a"])["a"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("error", "reported"), [(errno.ENOENT, TamperedError), (errno.EIO, UnreadableError)]
)
def test_a_part_that_cannot_be_linked_is_told_as_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, reported: type[VaultError]
) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    monkeypatch.setattr(Path, "hardlink_to", failing(error))
    with pytest.raises(reported):
        _extend(vault, "ds_1", "ds_2")
    monkeypatch.undo()
    assert vault.published() == ["ds_1"]
    vault.open("ds_1").verify()


def failing(error: int) -> Any:
    def fail(*_: object) -> None:
        raise OSError(error, os.strerror(error))

    return fail


@pytest.mark.parametrize("change", ["flip", "append", "cut", "remove"])
def test_a_tampered_sketch_is_detected(tmp_path: Path, change: str) -> None:
    vault = Vault(tmp_path)
    with vault.writer("ds_1") as writer:
        writer.attach("first", b"[0]")
        writer.attach("sketch.json", b"[1,2]")
        writer.finish({})
        vault.publish(writer)
    path = tmp_path / "datasets" / "ds_1" / "attached.bin"
    content = {"flip": b"[0][1,3]", "append": b"[0][1,2]3", "cut": b"[0][1,2"}.get(change)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    stored = vault.open("ds_1")
    with pytest.raises(TamperedError):
        stored.verify()
    if change == "append":  # what is read is what was published
        assert stored.attached["sketch.json"].read() == b"[1,2]"
    else:
        with pytest.raises(TamperedError):
            stored.attached["sketch.json"].read()


def test_a_data_set_of_an_earlier_version_is_refused_with_the_way_out(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    path = tmp_path / "datasets" / "ds_1" / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_bytes()) | {"version": 2}))
    with pytest.raises(OutdatedError, match="earlier version; upload it again"):
        vault.open("ds_1")
    _publish(vault, "ds_2")
    _publish(vault, "ds_3")
    (tmp_path / "datasets" / "ds_3" / "manifest.json").write_text("{")
    assert vault.outdated() == ["ds_1"], "what else is wrong is found out when it is used"


def test_only_a_finished_data_set_is_published(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    with vault.writer("ds_1") as writer:
        writer.write(BLOCK)
        with pytest.raises(VaultError, match="finished"):
            vault.publish(writer)


def test_a_manifest_is_the_one_that_was_registered(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    vault.open("ds_1", manifest=vault.manifest_digest("ds_1")).check()
    with pytest.raises(TamperedError, match="not the one that was registered"):
        vault.open("ds_1", manifest="0" * 64)


def test_a_manifest_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    path = tmp_path / "datasets" / "ds_1" / "manifest.json"
    sound = json.loads(path.read_bytes())
    for change in ({"rows": 8}, {"id": "ds_2"}, {"parts": None}):
        path.write_text(json.dumps(sound | change))
        with pytest.raises(TamperedError):
            vault.open("ds_1")
    path.write_text("{")
    with pytest.raises(TamperedError):
        vault.open("ds_1")
    path.write_text(
        json.dumps(sound | {"parts": [{"file": "../x", "size": 0, "sha256": "", "rows": 7}]})
    )
    with pytest.raises(VaultError):
        vault.open("ds_1")


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    for directory in ("datasets", "staging", "datasets/ds_1"):
        assert (tmp_path / directory).stat().st_mode & 0o077 == 0


def test_a_part_is_hashed_once_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    hashed: list[Path] = []
    digest = hashlib.file_digest

    def noted(file: BufferedReader, kind: str) -> Any:
        hashed.append(Path(f"/proc/self/fd/{file.fileno()}").readlink())
        return digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", noted)
    part = vault.open("ds_1").parts[0]
    for _ in range(3):
        part.read(["a"])
    assert hashed == [part.file.path]
    os.utime(part.file.path)
    part.read(["a"])
    assert hashed == [part.file.path] * 2


@contextmanager
def refusing(monkeypatch: pytest.MonkeyPatch, code: int) -> Iterator[None]:
    """Let the system open no file, for a reason."""

    def refuse(*_: Any, **__: Any) -> int:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        patched.setattr(io, "open", refuse)
        yield


@pytest.mark.parametrize("code", [errno.EMFILE, errno.EIO, errno.ENOMEM, errno.EACCES])
def test_what_the_system_does_not_give_is_neither_gone_nor_altered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    stored = vault.open("ds_1")
    with refusing(monkeypatch, code):
        for read in (
            partial(vault.open, "ds_1"),
            partial(vault.manifest_digest, "ds_1"),
            stored.check,
            stored.verify,
            stored.attached["sketch.json"].read,
            partial(stored.parts[0].read, ["a"]),
        ):
            with pytest.raises(UnreadableError):
                read()
    stored.check()
    (tmp_path / "datasets" / "ds_1" / "part-00000.parquet").unlink()
    with pytest.raises(TamperedError):
        stored.check()


@pytest.mark.parametrize("panic", [pl.exceptions.PanicException("24"), OSError(24, "files")])
def test_a_checked_part_that_cannot_be_parsed_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, panic: BaseException
) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    part = vault.open("ds_1").parts[0]

    def fail(*_: Any, **__: Any) -> None:
        raise panic

    monkeypatch.setattr(pl, "read_parquet", fail)
    with pytest.raises(UnreadableError):
        part.read(["a"])
    panic = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        part.read(["a"])


@pytest.mark.parametrize("name", ["attached.bin", "part-00001.parquet"])
def test_a_check_hashes_what_has_changed(tmp_path: Path, name: str) -> None:
    vault = Vault(tmp_path)
    _publish(vault)
    place = tmp_path / "datasets" / "ds_1"
    stored = vault.open("ds_1")
    stored.check()
    stored.check()
    content = (place / name).read_bytes()
    (place / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(TamperedError):
        stored.check()
    (place / name).write_bytes(content)
    stored.check()


def test_a_disk_without_room_for_a_rename_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "no space left")

    vault = Vault(tmp_path)
    with vault.writer("ds_1") as writer:
        writer.write(BLOCK)
        writer.finish({})
        monkeypatch.setattr(Path, "rename", full)
        with pytest.raises(OSError, match="no space"):
            vault.publish(writer)


def test_a_note_of_a_waiting_upload_is_taken_once(tmp_path: Path) -> None:
    files = WaitingFiles(tmp_path)
    note = WaitingNote("ds_1", 5, "f00")
    files.put(note, b"who and what")
    (tmp_path / "waiting" / ".cut-off").write_bytes(b"who")
    files.sweep()
    assert files.all() == [note]
    assert files.read(note) == b"who and what"
    assert [files.take(note), files.take(note)] == [True, False]
    assert files.read(note) is None
