"""A copy of an SQLite ledger, made while a server is running."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from contextlib import closing
from datetime import date
from pathlib import Path

from app.store.database.engines import sqlite_file
from app.store.errors import StoreError, UnsupportedDatabaseError
from app.vault.flushing import flush


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
