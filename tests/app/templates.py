"""A database with the tables of today and no ledger, to be copied: to migrate one takes long."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from app.store.database.engines import migrating_engine
from app.store.database.migrate import migrate
from app.store.unit_of_work import transaction
from tests.app.statements import share_compiled

share_compiled()


def migrate_empty(url: str) -> None:
    """Give an empty database its tables."""
    engine = migrating_engine(url)
    with engine.connect() as connection, transaction(connection):
        migrate(connection)
    engine.dispose()


@cache
def migrated_sqlite() -> bytes:
    """Return the bytes of such an SQLite database."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "template.sqlite"
        migrate_empty(f"sqlite:///{file}")
        assert [each.name for each in file.parent.iterdir()] == [file.name]
        return file.read_bytes()
