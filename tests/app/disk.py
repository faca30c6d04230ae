"""A disk that remembers: every write and flush of SQLite and of the anchor, in their order.

SQLite runs inside APSW on a file system of ours (a VFS) that passes everything
on to the real one and notes it; the anchor's system calls are noted in the same
list. From any prefix of that list :func:`image` makes what the disk may hold if
the power fails there: everything flushed, and of the rest nothing, all, or torn
pieces of it. The file system also fails on demand: ``fail_at`` is the operation
that gives an error of the operating system.

The store is not told: it gets APSW in place of the standard library's driver.
"""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import apsw
import pytest
from sqlalchemy import create_engine

from app.store.database import sqlite

SECTOR = 512
TEMPORARY = "a temporary file"
ERRORS: dict[str, tuple[type[apsw.Error], int]] = {
    "EIO": (apsw.IOError, errno.EIO),
    "ENOSPC": (apsw.FullError, errno.ENOSPC),
}
CODES = {apsw.IOError: sqlite3.SQLITE_IOERR, apsw.FullError: sqlite3.SQLITE_FULL}


@dataclass(frozen=True)
class Event:
    """Something that happened to a file; ``kind`` is also ``ack`` for what a caller was told."""

    kind: str
    path: str
    offset: int = 0
    content: bytes = b""


@dataclass
class Tape:
    """The list of events; operations that may fail are counted from 0."""

    events: list[Event] = field(default_factory=list)
    operations: int = 0
    fail_at: int | None = None
    fail_for: float = 1
    error: str = "EIO"
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, kind: str, path: str, offset: int = 0, content: bytes = b"") -> None:
        with self.lock:
            self.events.append(Event(kind, path, offset, content))

    def fails(self) -> bool:
        """Count one operation; return whether it is to fail."""
        with self.lock:
            number, self.operations = self.operations, self.operations + 1
            return self.fail_at is not None and 0 <= number - self.fail_at < self.fail_for

    def acknowledge(self, what: str) -> None:
        """Note what a caller has been told is durable."""
        self.note("ack", what)


class _File(apsw.VFSFile):
    def __init__(self, tape: Tape, name: Any, flags: list[int]) -> None:
        self._tape = tape
        named = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._path = named or TEMPORARY
        super().__init__("", name, flags)

    def _check(self) -> None:
        if self._tape.fails():
            raise ERRORS[self._tape.error][0]("injected")

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._check()
        super().xWrite(data, offset)
        self._tape.note("write", self._path, offset, bytes(data))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        self._check()
        super().xTruncate(size)
        self._tape.note("truncate", self._path, size)

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._check()
        super().xSync(flags)
        self._tape.note("sync", self._path)


class _FileSystem(apsw.VFS):
    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        super().__init__("tape", "")

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self._tape, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:  # noqa: N802
        super().xDelete(name, sync)
        self._tape.note("delete", name)


def image(
    events: Sequence[Event], root: Path, target: Path, *, fate: str, rng: random.Random
) -> None:
    """Write to ``target`` what the disk may hold of ``root`` after these events and a power cut.

    ``fate`` of what was not flushed: ``dropped``, ``kept``, or ``torn``.
    """
    flushed: dict[str, bytearray] = {}
    waiting: dict[str, list[Event]] = {}
    renames: list[Event] = []
    for event in events:
        match event.kind:
            case "write" | "truncate":
                waiting.setdefault(event.path, []).append(event)
            case "sync":
                content = flushed.setdefault(event.path, bytearray())
                for each in waiting.pop(event.path, []):
                    _apply(content, each)
            case "delete":
                flushed.pop(event.path, None)
                waiting.pop(event.path, None)
            case "rename":
                renames.append(event)
            case "sync directory":
                _rename(flushed, waiting, renames)
                renames = []
    if fate == "kept" or (fate == "torn" and rng.random() < 0.5):
        _rename(flushed, waiting, renames)
    for path, left in waiting.items():
        content = flushed.setdefault(path, bytearray())
        for each in left:
            for piece in (each,) if fate == "kept" else _pieces(each):
                if fate == "kept" or (fate == "torn" and rng.random() < 0.5):
                    _apply(content, piece)
    for path, content in flushed.items():
        if path == TEMPORARY:
            continue
        file = target / Path(path).relative_to(root)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)


def _rename(
    flushed: dict[str, bytearray], waiting: dict[str, list[Event]], renames: Sequence[Event]
) -> None:
    for event in renames:
        new = event.content.decode()
        flushed[new] = flushed.pop(event.path)
        waiting.pop(new, None)
        if event.path in waiting:
            waiting[new] = waiting.pop(event.path)


def _apply(content: bytearray, event: Event) -> None:
    if event.kind == "truncate":
        del content[event.offset :]
        return
    end = event.offset + len(event.content)
    content.extend(bytes(max(0, end - len(content))))
    content[event.offset : end] = event.content


def _pieces(event: Event) -> Iterator[Event]:
    if event.kind == "truncate":
        yield event
    for start in range(0, len(event.content), SECTOR):
        piece = event.content[start : start + SECTOR]
        yield Event("write", event.path, event.offset + start, piece)


class _Cursor:
    """As much of a DB-API cursor as SQLAlchemy and the store use."""

    def __init__(self, connection: _Connection) -> None:
        self._connection = connection
        self._rows: list[tuple[Any, ...]] = []
        self.description: tuple[tuple[Any, ...], ...] | None = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> _Cursor:
        cursor = self._connection.real.cursor()
        seen: list[Any] = []

        def trace(traced: apsw.Cursor, _sql: str, _bindings: object) -> bool:
            seen.append(traced.get_description())
            return True

        cursor.exec_trace = trace
        with _translated():
            self._rows = list(cursor.execute(self._connection.rewrite(sql), tuple(parameters)))
        names = seen[-1] if seen else ()
        self.description = tuple((n, *[None] * 6) for n, *_ in names) or None
        self.rowcount = self._connection.real.changes()
        self.lastrowid = self._connection.real.last_insert_rowid()
        return self

    def executemany(self, sql: str, many: Sequence[Sequence[Any]]) -> _Cursor:
        for parameters in many:
            self.execute(sql, parameters)
        return self

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int | None = None) -> list[tuple[Any, ...]]:
        size = self.arraysize if size is None else size
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None:
        self._rows = []


class _Connection:
    """As much of a DB-API connection as SQLAlchemy and the store use."""

    def __init__(self, database: str, rewrite: Callable[[str], str]) -> None:
        with _translated():
            self.real = apsw.Connection(database, vfs="tape")
        self.rewrite = rewrite
        self.isolation_level: str | None = None

    def cursor(self) -> _Cursor:
        return _Cursor(self)

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> _Cursor:
        return self.cursor().execute(sql, parameters)

    def create_function(self, *_: Any, **__: Any) -> None:
        """SQLAlchemy offers regular expressions; the store asks for none."""

    def commit(self) -> None:
        if self.real.in_transaction:
            self.execute("COMMIT")

    def rollback(self) -> None:
        if self.real.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        self.real.close(True)


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except apsw.ConstraintError as error:
        raise sqlite3.IntegrityError(str(error)) from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise sqlite3.DatabaseError(str(error)) from error
    except apsw.Error as error:
        reported = sqlite3.OperationalError(str(error))
        reported.sqlite_errorcode = CODES.get(type(error), sqlite3.SQLITE_ERROR)
        raise reported from error


@contextmanager
def recorded(*, rewrite: Callable[[str], str] = str) -> Iterator[Tape]:
    """Give every store that is opened meanwhile a disk that remembers.

    ``rewrite`` changes SQL on its way, e.g. to a weaker pragma.
    """
    tape = Tape()
    vfs = _FileSystem(tape)
    names = (name for name in dir(sqlite3) if not name.startswith("__"))
    driver = SimpleNamespace(**{name: getattr(sqlite3, name) for name in names})
    driver.connect = lambda database, **_: _Connection(database, rewrite)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(
            sqlite, "create_engine", lambda url, **o: create_engine(url, module=driver, **o)
        )
        _note_system_calls(patched, tape)
        yield tape
    vfs.unregister()


def _note_system_calls(patched: pytest.MonkeyPatch, tape: Tape) -> None:
    """Note what the anchor asks of the operating system; SQLite's own calls are not seen here."""
    pwrite, fdatasync, fsync, replace = os.pwrite, os.fdatasync, os.fsync, os.replace

    def checked(path: str) -> bool:
        """Return whether this is the anchor's; fail when it is its turn."""
        ours = "anchor" in Path(path).name
        if ours and tape.fails():
            raise OSError(ERRORS[tape.error][1], "injected")
        return ours

    def noted_pwrite(file: int, content: Any, offset: int) -> int:
        ours = checked(_path_of(file))
        done = pwrite(file, content, offset)
        if ours:
            tape.note("write", _path_of(file), offset, bytes(content[:done]))
        return done

    def noted_fdatasync(file: int) -> None:
        ours = checked(_path_of(file))
        fdatasync(file)
        if ours:
            tape.note("sync", _path_of(file))

    def noted_fsync(file: int) -> None:
        ours = checked(_path_of(file))
        fsync(file)
        if ours:
            tape.note("sync directory", _path_of(file))

    def noted_replace(old: Any, new: Any) -> None:
        ours = checked(str(old))
        replace(old, new)
        if ours:
            tape.note("rename", str(old), content=str(new).encode())

    patched.setattr(os, "pwrite", noted_pwrite)
    patched.setattr(os, "fdatasync", noted_fdatasync)
    patched.setattr(os, "fsync", noted_fsync)
    patched.setattr(os, "replace", noted_replace)


def _path_of(file: int) -> str:
    return str(Path(f"/proc/self/fd/{file}").readlink())
