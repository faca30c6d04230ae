"""Opening a ledger's database for writing: the locks, the migrations, the identity.

A copy of the database, kept by PostgreSQL itself, for what everyone may read.

It may be behind, and is never needed: nothing that decides on money, and nothing that a key is
needed for, is read there. Each block that is read is one snapshot, which is looked at first: it
must be of this ledger, in this epoch, and of this version's schema.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, insert, select
from sqlalchemy.exc import DatabaseError, SQLAlchemyError

from app.domain.ledger import SYSTEM_ACCOUNT
from app.logs import describe
from app.store.database import tables
from app.store.database.engines import migrating_engine, replica_engine, sqlite_file, writing_engine
from app.store.database.lock import DatabaseLock, DirectoryLock, keep_private
from app.store.database.migrate import check_schema, is_newest, migrate
from app.store.errors import StoreError, UnsupportedDatabaseError
from app.store.ledger.entries import SYSTEM, EntriesWriter, LedgerIdentity, Occasion
from app.store.ledger.records import new_id, now
from app.store.unit_of_work import Reader, transaction
from app.vault.stored import flush

T = TypeVar("T")

REST_S = 10.0
"""A replica that could not be read is left alone for so long."""

_LOG = logging.getLogger(__name__)
_IDENTITY = select(tables.ledger.c.id, tables.ledger.c.epoch)


class ReplicaAwayError(StoreError):
    """The replica cannot be read now, or is not this ledger's."""


class Replica:
    """Reads a copy of a ledger, as long as that can be done.

    Parameters
    ----------
    url
        Where it is.
    identity
        Whose copy it must be.
    clock
        A clock in seconds that only goes forward.
    """

    def __init__(
        self,
        url: str,
        identity: LedgerIdentity,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = replica_engine(url)
        self._identity = identity
        self._clock = clock
        self._rests_until = 0.0

    def read(self, read: Callable[[Reader], T]) -> T:
        """Return what is read of one snapshot.

        Raises
        ------
        ReplicaAwayError
            It is not there, was not a moment ago, or is another ledger's.
        """
        if self._clock() < self._rests_until:
            raise ReplicaAwayError("the replica was away a moment ago")
        try:
            with self._engine.connect() as connection:
                found = connection.execute(_IDENTITY).one_or_none()
                if found is None or LedgerIdentity(*found) != self._identity:
                    raise ReplicaAwayError("the replica is another ledger's, or far behind")
                if not is_newest(connection):
                    raise ReplicaAwayError("the replica has another schema than this version's")
                return read(Reader(connection))
        except (SQLAlchemyError, StoreError) as error:
            # Left alone for a while: each try may take seconds, and every reader would
            # wait for them.
            self._rests_until = self._clock() + REST_S
            _LOG.warning("the replica is not read", extra=describe(error))
            raise ReplicaAwayError("the replica cannot be read") from error

    @property
    def is_there(self) -> bool:
        """Return whether it can be read now."""
        try:
            self.read(lambda _: None)
        except ReplicaAwayError:
            return False
        return True

    def close(self) -> None:
        """Close its connections."""
        self._engine.dispose()


# Opening a ledger's database for writing: the locks, the migrations, the identity


# A copy of an SQLite ledger, made while a server is running


def back_up(url: str, target: Path) -> None:
    """Write one snapshot of the database to a new file, durably and all at once.

    Raises
    ------
    StoreError
        The file exists, there is no database, or the copy cannot be written.
    """
    file = sqlite_file(url)
    if file is None:
        raise UnsupportedDatabaseError(
            "this copies an SQLite ledger; back PostgreSQL up with pg_dump, and run "
            "`release-desk ledger reconcile` after a restore"
        )
    source = file.absolute()
    if not source.is_file():
        raise StoreError("there is no ledger at this address")
    if target.exists():
        raise StoreError(
            f"{target} exists already, and a backup never replaces a file. Name a new one, such as "
            f"{target.with_name(f'{date.today().isoformat()}-{target.name}')}"
        )
    try:
        # Made first, and for this user alone: the copy holds everything the ledger does. Its name
        # is its own, so that what a killed backup leaves is in no other's way.
        made, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".part", dir=target.parent)
        os.close(made)
        partial = Path(name)
        try:
            _copy(source, partial)
            os.link(partial, target)  # unlike a rename this never replaces a file
        finally:
            partial.unlink()
        flush(target.parent)
    except sqlite3.Error as error:
        raise StoreError(f"the database cannot be copied: {error}") from error
    except OSError as error:
        raise StoreError(f"{target} cannot be written: {error.strerror}") from error


def _copy(source: Path, partial: Path) -> None:
    with closing(sqlite3.connect(f"{source.as_uri()}?mode=rw", uri=True, timeout=5)) as connection:
        # Of one snapshot, and without what was deleted; a plain copy of the file
        # would miss the write-ahead log.
        connection.execute("VACUUM INTO ?", (str(partial),))
    flush(partial)


# Opening a ledger's database for writing: the locks, the migrations, the identity


@dataclass(frozen=True, slots=True)
class Opened:
    """A migrated database, its one writing connection, and the locks that make it the one."""

    connection: Connection
    identity: LedgerIdentity
    lock: DirectoryLock
    _held: ExitStack

    def close(self) -> None:
        """Close the connection and give everything free."""
        self._held.close()


def open_database(url: str, *, data_dir: Path) -> Opened:
    """Take the data directory and the database, and bring the schema up to date.

    Raises
    ------
    StoreError
        Another server runs here, or the database cannot hold a ledger.
    """
    file = sqlite_file(url)
    with ExitStack() as held:
        lock = DirectoryLock(data_dir, shared=file is None)
        held.callback(lock.release)
        if file is not None:
            # Another directory may name the same file.
            held.callback(DatabaseLock(file).release)
        try:
            _migrate(url)
            if file is not None:
                _keep_private(file.resolve())
            connection = writing_engine(url).connect()
            held.callback(connection.close)
            identity = _identify(connection)
        except DatabaseError as error:
            raise StoreError(f"the database cannot be used: {error.orig}") from error
        except UnicodeDecodeError as error:
            raise StoreError("the database cannot be used: its schema is no text") from error
        return Opened(connection, identity, lock, held.pop_all())


def _keep_private(file: Path) -> None:
    """Keep an SQLite database, and what belongs to it, from other users of the machine."""
    for suffix in ("", "-wal", "-shm"):  # made later, the two have the mode of the first
        with suppress(FileNotFoundError):
            keep_private(file.with_name(f"{file.name}{suffix}"))


def _migrate(url: str) -> None:
    """Bring the schema up to date, as the user who may, and check it."""
    engine = migrating_engine(url)
    with engine.connect() as connection:
        # In a transaction of its own: what is checked is what was committed.
        with transaction(connection):
            migrate(connection)
        with transaction(connection):
            check_schema(connection)


def _identify(connection: Connection) -> LedgerIdentity:
    """Return the ledger's identity; a new ledger is given one, and its system account."""
    with transaction(connection):
        row = connection.execute(select(tables.ledger)).one_or_none()
        if row is not None:
            return LedgerIdentity(row.id, row.epoch)
        identity, at = LedgerIdentity(new_id("ledger"), 1), now()
        connection.execute(
            insert(tables.ledger),
            {"number": 1, "id": identity.id, "epoch": identity.epoch, "created_at": at},
        )
        occasion = Occasion(principal=SYSTEM, note="system account")
        EntriesWriter(connection, identity).open_account(SYSTEM_ACCOUNT, 0, occasion, at=at)
        return identity
