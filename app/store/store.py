"""The store as one object: the lock, the migrated database, its writer and its readers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DatabaseError

from app.domain.problems import Problem
from app.logs import describe
from app.store.anchor.standing import Anchor, Standing
from app.store.database.engines import is_shared, reading_engine
from app.store.database.migrate import is_newest
from app.store.errors import StoreError
from app.store.guard import Guard, disk_errors_told
from app.store.ledger.signing import KEY_NAME, ReceiptKey, SigningKey, record_key, recorded_keys
from app.store.opening import Opened, Replica, ReplicaAwayError, open_database
from app.store.unit_of_work import Reader, UnitOfWork, transaction
from app.store.verification.marks import Mark
from app.store.verification.verify import Progress, Verification, record_faults
from app.store.writer import QUEUE_LENGTH, Task, Writer

T = TypeVar("T")

_log = logging.getLogger(__name__)

VERIFIED_WHOLE = 1_000
"""A ledger of no more entries is verified from its beginning each time."""


class Store:
    """The one writer and any number of readers of a ledger; see the package's docstring.

    Attributes
    ----------
    identity
        The ledger's id and epoch, which its hashes bind.
    key
        What its receipts are signed with.
    shared
        Whether other processes may write to the same database in parallel (PostgreSQL).
        What they can change must then be read again, and not cached.
    writer
        The one thread that writes, batch after batch.
    write, awrite
        The writer's: they do a function or a command durably.
    readers
        Connections that can only read.
    """

    def __init__(
        self,
        *,
        opened: Opened,
        guard: Guard,
        readers: Engine,
        writer: Writer,
        key: ReceiptKey,
        shared: bool,
        replica: Replica | None,
    ) -> None:
        self.identity = opened.identity
        self.key = key
        self.shared = shared
        self._opened = opened
        self._guard = guard
        self.readers = readers
        self.writer = writer
        self.write, self.awrite = writer.write, writer.awrite
        self._replica = replica
        self._closed = False
        self._sound: Mark | None = None

    @classmethod
    def open(
        cls,
        url: str,
        *,
        data_dir: Path,
        anchor: Anchor | None = None,
        key: ReceiptKey | None = None,
        replica: str | None = None,
        queue_length: int = QUEUE_LENGTH,
    ) -> Store:
        """Take the directory, migrate the database, compare it with its anchor, start the writer.

        The anchor is the store's from here on. A database that is not where its
        anchor expects it is opened all the same, but :attr:`frozen`. Without a
        ``key`` the data directory's is taken, and made where there is none. A ``replica`` is the
        address of a copy for :meth:`read_public`.

        Raises
        ------
        StoreError
            Another server runs here, the signing key is not the ledger's, or the database
            cannot hold a ledger.
        """
        # Whatever fails on the way closes what was opened before it.
        with ExitStack() as held:
            if anchor is not None:
                held.callback(anchor.close)
            opened = open_database(url, data_dir=data_dir)
            held.callback(opened.close)
            guard = Guard(opened.connection, anchor)
            # Before anything that a note under way uses is closed.
            held.callback(guard.stop)
            guard.start(opened.identity, own=opened.lock.belongs_to(opened.identity.id))
            # Before the writer starts: a table that says something else than the
            # entries allows too much.
            guard.check(_mismatches(opened))
            key = key or SigningKey.of(data_dir)
            # A frozen ledger takes no entry, not even of a key.
            if guard.frozen is None:
                _know(opened, key, guard)
            readers = reading_engine(url)
            copy = None if replica is None else Replica(replica, opened.identity)
            writer = Writer(
                opened.connection,
                opened.identity,
                queue_length=queue_length,
                require_open=guard.require_open,
                before_commit=guard.announce,
                noted=guard.noted,
                rolled_back=guard.rolled_back,
            )
            # Opened: from here on close() is in charge.
            held.pop_all()
        return cls(
            opened=opened,
            guard=guard,
            readers=readers,
            writer=writer,
            key=key,
            shared=is_shared(url),
            replica=copy,
        )

    @property
    def frozen(self) -> Standing | None:
        """Return why nothing may be written, or None."""
        return self._guard.frozen

    @property
    def failing(self) -> bool:
        """Return whether the last transaction could not be committed."""
        return self.writer.failing

    def is_newest(self) -> bool:
        """Return whether the database has this version's schema."""
        with self._connected() as connection:
            return is_newest(connection)

    @property
    def anchored(self) -> str:
        """Return what kind of place the anchor is in."""
        return self._guard.place

    @property
    def alone(self) -> bool:
        """Return whether this was the only process on the data directory when it opened."""
        return self._opened.lock.alone

    def share(self) -> None:
        """Let other processes open the data directory, where the database can be shared.

        Until then the first one has it to itself, to clear away what a crash left.
        """
        self._opened.lock.share()

    def close(self) -> None:
        """Finish what waits, close every connection and give the directory free.

        A thread may be reading, and cannot be interrupted: it closes its own.
        Closing again does nothing: the numbers of its files may be others' by then.
        """
        self.writer.close()
        if self._closed:
            return
        self._closed = True
        # Not the engine's dispose(): that puts another pool in this one's place, and no one would
        # ever close what is given back to this one.
        self.readers.pool.dispose()
        if self._replica is not None:
            self._replica.close()
        self._guard.close()
        self._opened.close()
        self.key.close()

    @contextmanager
    def reading(self) -> Iterator[Reader]:
        """Read one snapshot of the database; connections of this kind cannot write."""
        with self._connected() as connection:
            yield Reader(connection)

    def read_public(self, read: Callable[[Reader], T]) -> T:
        """Read what everyone may: of the replica, where there is one that can be read.

        That may be behind. So what it refuses or does not have is read of the ledger's own
        database, as is everything while it is away.
        """
        if self._replica is not None:
            with suppress(Problem, ReplicaAwayError):
                return self._replica.read(read)
        with self.reading() as reader:
            return read(reader)

    @property
    def replica(self) -> str:
        """Return whether public pages are read of a replica, for ``/readyz``."""
        if self._replica is None:
            return "off"
        return "read" if self._replica.is_there else "away"

    @contextmanager
    def _connected(self) -> Iterator[Connection]:
        try:
            with disk_errors_told(), self.readers.connect() as connection:
                yield connection
        finally:
            # Asked once the connection is in the pool again, so close() finds it there, or we do.
            if self._closed:
                self.readers.pool.dispose()

    def require_clock(self) -> None:
        """Pass while the clock may date entries: before work that ends in one.

        Raises
        ------
        Problem
            ``clock-behind``.
        """
        self.writer.require_clock()

    def write_later(self, function: Task[object]) -> None:
        """Have a function run when the writer gets to it; for notes that may be lost."""
        try:
            self.writer.submit(function).add_done_callback(_log_lost)
        except (Problem, StoreError):
            _log.info("a note was not written")

    def verify(
        self, *, signed: bool = False, full: bool = True, progress: Progress | None = None
    ) -> Verification:
        """Walk every chain, sum and result and compare the anchor; ``signed``: receipts too.

        ``progress`` is called with the share that is done.

        Unless ``full``, a ledger of more than :data:`VERIFIED_WHOLE` entries is walked from the
        last sound verification of this process. Rows that are not as the entries say freeze
        the ledger.
        """
        since = None if full else self._sound
        if since is not None and signed and not since.signed:
            since = None
        with self.reading() as reader:
            found = reader.verify(
                signed=signed,
                witness=self._guard.witness,
                marked=True,
                since=since,
                progress=progress,
            )
        self._sound = found.mark if found.entries > VERIFIED_WHOLE else None
        self._guard.check(found.mismatches)
        return replace(found, mark=None)


def _log_lost(done: Future[object]) -> None:
    if (error := done.exception()) is not None:
        _log.warning("a note was not written", extra=describe(error))


@contextmanager
def inspecting(url: str) -> Iterator[Reader]:
    """Read a database while a server is running: no lock, no migration, no writing.

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
    except (DatabaseError, UnicodeDecodeError) as error:
        raise StoreError("the database cannot be opened") from error
    try:
        yield Reader(connection)
    finally:
        connection.close()
        engine.dispose()


def _know(opened: Opened, key: ReceiptKey, guard: Guard) -> None:
    """Record a key that has just been made; refuse one that is not the last one recorded.

    Raises
    ------
    StoreError
        The ledger knows another key as its present one.
    """
    with transaction(opened.connection):
        work = UnitOfWork(opened.connection, opened.identity)
        known = recorded_keys(work.entries)
        if known[-1:] != [key.public]:
            _require_fresh(key, known)
            record_key(work.entries, key)
        if work.changes.pending:
            guard.before_commit(work)


def _require_fresh(key: ReceiptKey, known: Sequence[str | None]) -> None:
    if known and not key.fresh:
        raise StoreError(
            f"{KEY_NAME} in the data directory is not the signing key that the ledger has "
            "recorded. Put the right file back, or remove it: a new key is then made and "
            "recorded."
        )
    if known:
        _log.warning("a new signing key is in use; receipts of the old one stay valid")


def _mismatches(opened: Opened) -> list[str]:
    """Return where tables do not hold what the entries say."""
    with transaction(opened.connection):
        return record_faults(opened.connection)
