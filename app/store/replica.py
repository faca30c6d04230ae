"""A copy of the database, kept by PostgreSQL itself, for what everyone may read.

It may be behind, and is never needed: nothing that decides on money, and nothing that a key is
needed for, is read there. Each block that is read is one snapshot, which is looked at first: it
must be of this ledger, in this epoch, and of this version's schema.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from app.logs import describe
from app.store.database import tables
from app.store.database.engines import replica_engine
from app.store.database.migrate import is_newest
from app.store.errors import StoreError
from app.store.ledger.entries import LedgerIdentity
from app.store.unit_of_work import Reader

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
