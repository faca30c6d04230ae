"""The repositories bundled for reading and for writing, and the only commit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from app.store.accounts import Accounts, AccountsWriter
from app.store.datasets import Datasets, DatasetsWriter
from app.store.entries import Entries, EntriesWriter, LedgerIdentity
from app.store.keys import Keys, KeysWriter
from app.store.records import Verification
from app.store.releases import Releases, ReleasesWriter
from app.store.verification import verify


class Reader:
    """All repositories over one snapshot of the database."""

    __slots__ = ("_connection", "accounts", "datasets", "entries", "keys", "releases")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.accounts = Accounts(connection)
        self.datasets = Datasets(connection)
        self.entries = Entries(connection)
        self.keys = Keys(connection)
        self.releases = Releases(connection)

    def verify(self) -> Verification:
        """Walk every chain, sum and result of the snapshot."""
        return verify(self._connection)


class UnitOfWork:
    """All repositories with their writing verbs, inside one transaction of the writer."""

    __slots__ = ("accounts", "datasets", "entries", "keys", "releases")

    def __init__(self, connection: Connection, identity: LedgerIdentity) -> None:
        self.entries = EntriesWriter(connection, identity)
        self.accounts = AccountsWriter(connection, self.entries)
        self.datasets = DatasetsWriter(connection, self.accounts)
        self.keys = KeysWriter(connection, self.accounts)
        self.releases = ReleasesWriter(connection, self.accounts)


@contextmanager
def transaction(connection: Connection) -> Iterator[None]:
    """Begin, and at the end commit; whatever goes wrong, the commit included, undoes it all."""
    outer = connection.begin()
    try:
        yield
        outer.commit()
    except BaseException:
        # After a failed COMMIT SQLAlchemy counts the transaction as over and SQLite
        # does not, so the driver is told as well.
        try:
            outer.rollback()
        finally:
            connection.connection.rollback()
        raise
