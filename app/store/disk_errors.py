"""Errors of either database that are the disk's, or for want of memory or descriptors.

Nothing of a transaction that fails so has been written, and the same may be written later.
"""

from __future__ import annotations

import sqlite3
from contextlib import AbstractContextManager

from sqlalchemy.exc import DBAPIError

from app.domain.errors import StorageError, is_of_storage
from app.store.anchor.standing import AnchorError
from app.store.errors import StoreError

_OF_SQLITE = frozenset(
    {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_CANTOPEN}
)
_PRIMARY = 0xFF
"""Where SQLite's result codes have what is extended by their other bits."""

_OF_POSTGRESQL = ("53", "58")
"""Classes of SQLSTATE: insufficient resources, system errors."""


class DiskError(StoreError, StorageError):
    """The disk of the database or of its anchor does not take or give what it should."""


class _DiskErrorsTold:
    """A block that all writes share: a generator for each would take longer than its lines."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, (DBAPIError, AnchorError, OSError)) and _is_of_disk(error):
            raise DiskError(
                "the database's disk is full or fails, or nothing can be opened"
            ) from error


_TOLD = _DiskErrorsTold()


def disk_errors_told() -> AbstractContextManager[None]:
    """Raise errors of the disk as disk errors.

    Raises
    ------
    DiskError
        In place of the database's or the operating system's error.
    """
    return _TOLD


def _is_of_disk(error: DBAPIError | AnchorError | OSError) -> bool:
    if isinstance(error, AnchorError):
        return error.__cause__ is not None and is_of_storage(error.__cause__)
    if isinstance(error, OSError):
        return is_of_storage(error)
    code = getattr(error.orig, "sqlite_errorcode", None)
    if code is not None:
        return code & _PRIMARY in _OF_SQLITE
    return str(getattr(error.orig, "sqlstate", "")).startswith(_OF_POSTGRESQL)
