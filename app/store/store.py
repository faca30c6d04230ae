"""The store as one object: the lock, the migrated database, its writer and its readers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, insert, select
from sqlalchemy.exc import DatabaseError

from app.domain.ledger import SYSTEM_ACCOUNT
from app.domain.problems import Problem
from app.logs import describe
from app.store import tables
from app.store.engines import is_shared, migrating_engine, reading_engine, writing_engine
from app.store.entries import EntriesWriter, LedgerIdentity, Occasion
from app.store.errors import StoreError
from app.store.ids import new_id, now
from app.store.lock import DirectoryLock
from app.store.migrate import check_schema, migrate
from app.store.records import Verification
from app.store.signing import KEY_NAME, RECEIPT_KEY, SigningKey
from app.store.unit_of_work import Reader, transaction
from app.store.writer import QUEUE_LENGTH, Task, Writer

T = TypeVar("T")

SYSTEM = "system"
"""The principal of what the service does by itself."""

_log = logging.getLogger(__name__)


class Store:
    """The one writer and any number of readers of a ledger; see the package's docstring.

    Attributes
    ----------
    identity
        The ledger's id and epoch, which its hashes bind.
    key
        What its receipts are signed with.
    shared
        Whether other processes may write to the same database meanwhile (PostgreSQL).
        What they can change must then be read anew, and not remembered.
    """

    def __init__(
        self,
        *,
        lock: DirectoryLock,
        connection: Connection,
        readers: Engine,
        writer: Writer,
        identity: LedgerIdentity,
        key: SigningKey,
        shared: bool,
    ) -> None:
        self.identity = identity
        self.key = key
        self.shared = shared
        self._lock = lock
        self._connection = connection
        self._readers = readers
        self._writer = writer

    @classmethod
    def open(cls, url: str, *, data_dir: Path, queue_length: int = QUEUE_LENGTH) -> Store:
        """Take the directory, migrate the database and start the writer.

        Raises
        ------
        StoreError
            Another server runs here, the directory or its signing key belongs to another
            ledger, or the database cannot hold one.
        """
        shared = is_shared(url)
        lock = DirectoryLock(data_dir, shared=shared)
        try:
            _migrate(url)
            connection = writing_engine(url).connect()
            try:
                identity = _identify(connection)
                lock.belong_to(identity.id)
                key = SigningKey.of(data_dir)
                _know(connection, identity, key)
                readers = reading_engine(url)
                writer = Writer(connection, identity, queue_length=queue_length)
            except BaseException:
                connection.close()
                raise
        except BaseException as error:
            lock.release()
            if isinstance(error, DatabaseError):
                raise StoreError(f"the database cannot be used: {error.orig}") from error
            raise
        return cls(
            lock=lock,
            connection=connection,
            readers=readers,
            writer=writer,
            identity=identity,
            key=key,
            shared=shared,
        )

    @property
    def alone(self) -> bool:
        """Return whether this was the only process on the data directory when it opened."""
        return self._lock.alone

    def share(self) -> None:
        """Let other processes open the data directory, where the database can be shared.

        Until then the first one has it to itself, to clear away what a crash left.
        """
        self._lock.share()

    def close(self) -> None:
        """Finish what waits, close every connection and give the directory free."""
        self._writer.close()
        self._readers.dispose()
        self._connection.close()
        self._lock.release()

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Read one snapshot of the database; connections of this kind cannot write."""
        with self._readers.connect() as connection:
            yield Reader(connection)

    def write(self, task: Task[T]) -> T:
        """Run a function or a command in the writer; return its result once it is durable.

        Raises
        ------
        Problem
            ``busy`` when too much waits; else whatever the task raised.
        """
        return self._writer.write(task)

    async def awrite(self, task: Task[T]) -> T:
        """Do what :meth:`write` does without holding a thread while it waits."""
        return await self._writer.awrite(task)

    def write_later(self, function: Task[object]) -> None:
        """Have a function run when the writer gets to it; for notes that may be lost."""
        try:
            self._writer.submit(function).add_done_callback(_log_lost)
        except (Problem, StoreError):
            _log.info("a note was not written")

    def verify(self) -> Verification:
        """Walk every chain, sum and result of one snapshot."""
        with self.reading() as reader:
            return reader.verify()


def _log_lost(done: Future[object]) -> None:
    if (error := done.exception()) is not None:
        _log.warning("a note was not written", extra=describe(error))


@contextmanager
def inspecting(url: str) -> Iterator[Reader]:
    """Read a database beside a running server: no lock, no migration, no writing.

    Raises
    ------
    StoreError
        There is no database at this address, or it cannot be opened.
    """
    engine = reading_engine(url)
    database = engine.url.database
    if not is_shared(url) and (database is None or not Path(database).is_file()):
        raise StoreError("there is no ledger at this address")
    try:
        connection = engine.connect()
    except DatabaseError as error:
        raise StoreError("the database cannot be opened") from error
    try:
        yield Reader(connection)
    finally:
        connection.close()
        engine.dispose()


def _migrate(url: str) -> None:
    """Bring the schema up to date, as the user who may, and check it."""
    engine = migrating_engine(url)
    with engine.connect() as connection:
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
        identity = LedgerIdentity(new_id("ledger"), 1)
        connection.execute(
            insert(tables.ledger),
            {"number": 1, "id": identity.id, "epoch": identity.epoch, "created_at": now()},
        )
        occasion = Occasion(principal=SYSTEM, note="system account")
        EntriesWriter(connection, identity).open_account(SYSTEM_ACCOUNT, 0, occasion)
        return identity


def _know(connection: Connection, identity: LedgerIdentity, key: SigningKey) -> None:
    """Record a key that has just been made; refuse one that is not the last one recorded.

    Raises
    ------
    StoreError
        The ledger knows another key as its present one.
    """
    with transaction(connection):
        entries = EntriesWriter(connection, identity)
        known = [entry.note for entry in entries.of_system(RECEIPT_KEY)]
        if known[-1:] == [key.public]:
            return
        if known and not key.fresh:
            raise StoreError(
                f"{KEY_NAME} in the data directory is not the signing key that the ledger has "
                "recorded. Put the right file back, or remove it: a new key is then made and "
                "recorded."
            )
        if known:
            _log.warning("a new signing key has been made; receipts of the old one stay valid")
        entries.append_system(
            RECEIPT_KEY, Occasion(principal=SYSTEM, fingerprint=key.name, note=key.public)
        )
