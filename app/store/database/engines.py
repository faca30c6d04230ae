"""Engines of either database: what every connection must be set to, and how a transaction begins.

SQLite has one writing connection in one process; it begins with ``BEGIN
IMMEDIATE``. On PostgreSQL any number of processes write, one transaction at a
time: each begins by taking one advisory lock, so that group commits of several
processes neither deadlock nor race for an Idempotency-Key.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import URL, Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from app.store.database import postgresql, sqlite
from app.store.errors import UnsupportedDatabaseError

__all__ = [
    "is_shared",
    "migrating_engine",
    "reading_engine",
    "replica_engine",
    "sqlite_file",
    "writing_engine",
]


def writing_engine(url: str) -> Engine:
    """Return the engine of the ledger's writer; only one transaction of its kind runs at once."""
    parsed = _parsed(url)
    if is_shared(url):
        return postgresql.writing_engine(parsed)
    return sqlite.writing_engine(parsed)


def migrating_engine(url: str) -> Engine:
    """Return the engine that may change the schema; it begins as the writer does."""
    parsed = _parsed(url)
    if is_shared(url):
        return postgresql.migrating_engine(parsed)
    return sqlite.writing_engine(parsed)


def reading_engine(url: str) -> Engine:
    """Return the pooled engine of readers, which cannot write."""
    parsed = _parsed(url)
    if is_shared(url):
        return postgresql.reading_engine(parsed)
    return sqlite.reading_engine(parsed)


def replica_engine(url: str) -> Engine:
    """Return the pooled engine of a copy that the server keeps, which cannot be written to.

    Raises
    ------
    UnsupportedDatabaseError
        It is none of PostgreSQL's.
    """
    if not is_shared(url):
        raise UnsupportedDatabaseError("a replica is kept by PostgreSQL")
    return postgresql.replica_engine(_parsed(url))


def is_shared(url: str) -> bool:
    """Return whether other processes may write to this database while it is open here."""
    return _parsed(url).get_backend_name() == "postgresql"


def sqlite_file(url: str) -> Path | None:
    """Return the file of an SQLite database; None for another kind."""
    return None if is_shared(url) else Path(_parsed(url).database or "")


def _parsed(url: str) -> URL:
    """Return the address of a database that can hold a ledger.

    Raises
    ------
    UnsupportedDatabaseError
        The message does not repeat the address: it may hold a password.
    """
    try:
        # The short name is common, and the driver is not the operator's choice.
        parsed = make_url(url.replace("postgres://", "postgresql://", 1))
    except ArgumentError:
        raise UnsupportedDatabaseError("the database's address is not a URL") from None
    backend = parsed.get_backend_name()
    if backend == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise UnsupportedDatabaseError("the ledger is kept in SQLite or PostgreSQL only")
    if parsed.database in (None, "", ":memory:"):
        raise UnsupportedDatabaseError("the database must be a file: a ledger has to last")
    return parsed
