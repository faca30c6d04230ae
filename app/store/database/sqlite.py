"""SQLite engines: the pragmas of every connection, and how a transaction begins.

The pragmas are read back after they are set, because SQLite ignores one it
cannot honour (a file system without shared memory has no WAL, for example).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from functools import partial

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import NullPool, QueuePool

from app.store.errors import PragmaMismatchError

PRAGMAS: Mapping[str, tuple[str, object]] = {
    "journal_mode": ("WAL", "wal"),
    "synchronous": ("FULL", 2),
    "foreign_keys": ("ON", 1),
    "recursive_triggers": ("ON", 1),
    "trusted_schema": ("OFF", 0),
    "busy_timeout": ("5000", 5000),
}
"""Each pragma, the value it is set to, and what reading it back must give."""

_WRITER_PRAGMAS: Mapping[str, tuple[str, object]] = {
    **PRAGMAS,
    # What undoes a statement stays out of files: a crash has no use for it.
    "temp_store": ("MEMORY", 2),
    "cache_size": ("-32768", -32768),  # KiB
    # Pages in the write-ahead log. The same few index pages are written again and again:
    # copying them home every hundred releases would cost as much as writing them.
    "wal_autocheckpoint": ("4000", 4000),
}
_READER_PRAGMAS: Mapping[str, tuple[str, object]] = {**PRAGMAS, "query_only": ("ON", 1)}

# A row of a release fits into half a page, and not into one of the usual 4,096 bytes: what a
# commit writes is fewer pages. Only a new file takes it; others keep the size that they have.
_SIZE_PAGES = "PRAGMA page_size = 8192"

_READERS = 16  # connections that are kept; reading blocks no other connection
_EXTRA_READERS = 48  # 64 in all: app.constants counts on no more


def writing_engine(url: URL) -> Engine:
    """Return the engine of the one writing connection; it begins with BEGIN IMMEDIATE."""
    engine = create_engine(url, poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def size_pages(connection: sqlite3.Connection, _record: object) -> None:
        connection.execute(_SIZE_PAGES)  # before the log is begun, which fixes it

    return _prepared(engine, _WRITER_PRAGMAS, begin="BEGIN IMMEDIATE")


def reading_engine(url: URL) -> Engine:
    """Return the pooled engine of readers, which cannot write."""
    engine = create_engine(
        url, poolclass=QueuePool, pool_size=_READERS, max_overflow=_EXTRA_READERS
    )
    return _prepared(engine, _READER_PRAGMAS, begin="BEGIN")


def _prepared(engine: Engine, pragmas: Mapping[str, tuple[str, object]], *, begin: str) -> Engine:
    @event.listens_for(engine, "connect")
    def configure(connection: sqlite3.Connection, _record: object) -> None:
        # Without this the driver would begin transactions of its own, and late.
        connection.isolation_level = None
        set_pragmas(connection, pragmas)

    event.listen(engine, "begin", partial(Connection.exec_driver_sql, statement=begin))
    return engine


def set_pragmas(connection: sqlite3.Connection, pragmas: Mapping[str, tuple[str, object]]) -> None:
    """Set every pragma on a fresh connection and read it back.

    Raises
    ------
    PragmaMismatchError
        SQLite did not take one of them.
    """
    for name, (value, expected) in pragmas.items():
        connection.execute(f"PRAGMA {name} = {value}")
        found = connection.execute(f"PRAGMA {name}").fetchone()[0]
        if found != expected:
            raise PragmaMismatchError(
                f"SQLite runs with {name} = {found} here, and the ledger needs {value}"
            )
