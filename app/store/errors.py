"""What is wrong with the store itself. None of these is ever answered to a client in words.

``StoreError``
    ``DirectoryLockedError``: another server holds the data directory.
    ``PragmaMismatchError``: SQLite does not run as the ledger needs it.
    ``ServerSettingError``: PostgreSQL does not.
    ``UnsupportedDatabaseError``: not a database this version can use.
    ``OutdatedDataError``: rows were stored by an earlier version, which is not read any more.
    ``TamperedSchemaError``: the schema is not the one the migrations made.
    ``SomeRefusedError``: of several steps taken together not all could be.
    ``StoreClosedError``: a write after closing.
    ``LostUpdateError``: somebody else writes to the database.
    ``UnknownCommitError``: the database went away in the middle of a COMMIT.
    ``DiskError``: the disk did not take or give something (:mod:`app.store.guard`).
"""

from __future__ import annotations


class StoreError(Exception):
    """The store cannot work; the message is for the operator."""


class DirectoryLockedError(StoreError):
    """Another server holds the data directory."""


class PragmaMismatchError(StoreError):
    """SQLite does not run with a setting the ledger needs."""


class ServerSettingError(StoreError):
    """PostgreSQL does not run with a setting the ledger needs."""


class UnsupportedDatabaseError(StoreError):
    """Not a database this version can keep a ledger in."""


class OutdatedDataError(StoreError):
    """The data directory holds rows in a form of an earlier version."""


class TamperedSchemaError(StoreError):
    """A part of the schema is missing or is not the one the migrations made."""


class SomeRefusedError(StoreError):
    """Of several steps taken together not all could be; the writer takes each alone."""


class StoreClosedError(StoreError):
    """The store has been closed."""


class LostUpdateError(StoreError):
    """An account was not as the writer had just read it: somebody else writes."""


class UnknownCommitError(StoreError):
    """It is unknown whether a transaction was committed; it must not be run again."""
