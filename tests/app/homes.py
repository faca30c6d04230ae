"""A ledger with its anchor, on either database, whose database can be saved and put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql
from sqlalchemy.engine import make_url

from app.store import FileAnchor, Store
from app.store.anchor.database import DatabaseAnchor
from app.store.anchor.file import LOG_NAME
from app.store.anchor.standing import Anchor
from app.store.database.tables import metadata
from tests.app.ledgers import Place, file_of, place_on, unguarded

FILES = ("", "-wal", "-shm")


@dataclass(frozen=True)
class Saved:
    """What a database held: its files by suffix, or every table as COPY gives it."""

    parts: dict[str, bytes]
    sequences: dict[str, int | None] = field(default_factory=dict)

    def without_journal(self) -> Saved:
        return Saved({"": self.parts[""]})


@dataclass(frozen=True)
class Home(Place):
    """Where a ledger is, and where its anchor: in the directory, or in a second database."""

    anchor_url: str = ""

    def anchor(self) -> Anchor | None:
        if not self.anchored:
            return None
        if self.backend == "sqlite":
            return FileAnchor(self.directory / "anchor")
        return DatabaseAnchor(self.anchor_url)

    def open(self, **options: Any) -> Store:
        """Open the store with its anchor; on PostgreSQL others may too."""
        store = Store.open(
            self.url, data_dir=self.directory, **{"anchor": self.anchor(), **options}
        )
        store.share()
        return store

    def forget_anchor(self) -> None:
        if self.backend == "sqlite":
            (self.directory / "anchor" / LOG_NAME).unlink()
            return
        with psycopg.connect(self.anchor_url) as connection:
            connection.execute("DROP TABLE anchor")

    def save(self) -> Saved:
        """Copy the database next to a running server: its files as they are, or as a dump would."""
        if self.backend == "sqlite":
            files = {suffix: self._file(suffix) for suffix in FILES}
            return Saved({suffix: f.read_bytes() for suffix, f in files.items() if f.exists()})
        with psycopg.connect(self.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            return Saved(
                {name: _copied(connection, name) for name in metadata.tables},
                dict(
                    connection.execute(
                        "SELECT sequencename, last_value FROM pg_sequences"
                        " WHERE schemaname = 'public'"
                    ).fetchall()
                ),
            )

    def put_back(self, saved: Saved) -> None:
        """Put what was saved, here or elsewhere, in the database's place."""
        if self.backend == "sqlite":
            self._remove_files()
            for suffix, content in saved.parts.items():
                self._file(suffix).write_bytes(content)
            return
        with psycopg.connect(self.url) as connection, unguarded(connection):
            for table in metadata.sorted_tables:
                connection.execute(sql.SQL("DELETE FROM {}").format(sql.Identifier(table.name)))
                _copy_in(connection, table.name, saved.parts[table.name])
            for name, last in saved.sequences.items():
                connection.execute(
                    "SELECT setval(quote_ident(%s)::regclass, %s, %s)",
                    (name, last or 1, last is not None),
                )

    def remove(self) -> None:
        """Delete the database; on PostgreSQL an empty one of its name comes after it."""
        if self.backend == "sqlite":
            self._remove_files()
            return
        from tests.app.postgres import databases

        name = make_url(self.url).database
        databases().administer(f'DROP DATABASE "{name}" WITH (FORCE)')
        databases().administer(f'CREATE DATABASE "{name}" TEMPLATE template0')

    def _file(self, suffix: str) -> Path:
        return Path(f"{file_of(self.directory)}{suffix}")

    def _remove_files(self) -> None:
        for suffix in FILES:
            self._file(suffix).unlink(missing_ok=True)


@contextmanager
def home_on(backend: str, directory: Path) -> Iterator[Home]:
    """Give a home on a backend, and its databases back at the end."""
    with place_on(backend, directory) as place:
        anchor_url = ""
        if backend != "sqlite":
            from tests.app.postgres import databases

            anchor_url = databases().url(databases().empty())
        yield Home(directory, place.url, anchor_url=anchor_url)


def _copied(connection: psycopg.Connection[Any], table: str) -> bytes:
    statement = sql.SQL("COPY {} TO STDOUT (FORMAT binary)").format(sql.Identifier(table))
    with connection.cursor().copy(statement) as rows:
        return b"".join(bytes(each) for each in rows)


def _copy_in(connection: psycopg.Connection[Any], table: str, content: bytes) -> None:
    statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(sql.Identifier(table))
    with connection.cursor().copy(statement) as rows:
        rows.write(content)
