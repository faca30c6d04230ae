"""The migrations and the tables say the same, and run from the installed package."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from app.store import Store, StoreError
from app.store.engines import writing_engine
from app.store.migrate import migrate
from app.store.tables import metadata
from app.store.unit_of_work import transaction
from tests.app.ledgers import file_of, url_of


def schema_of(file: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute(
            "SELECT type || ' ' || name, sql FROM sqlite_master"
            " WHERE sql IS NOT NULL AND name <> 'alembic_version'"
        ).fetchall()
    return {name: sql.replace('"', "").split() for name, sql in rows}


def test_migrating_from_empty_equals_creating_all(tmp_path: Path) -> None:
    migrated, created = tmp_path / "migrated.sqlite", tmp_path / "created.sqlite"
    with writing_engine(f"sqlite:///{migrated}").connect() as connection:
        with transaction(connection):
            migrate(connection)
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    with writing_engine(f"sqlite:///{created}").connect() as connection, transaction(connection):
        metadata.create_all(connection)
    assert differences == []
    assert schema_of(migrated) == schema_of(created)
    assert len(schema_of(created)) > len(metadata.tables) + 10


def test_a_failed_migration_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "half.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE release (x)")
    with pytest.raises(StoreError, match="already exists"):
        Store.open(f"sqlite:///{file}", data_dir=tmp_path)
    assert list(schema_of(file)) == ["table release"]


def test_a_newer_database_is_left_alone(tmp_path: Path) -> None:
    Store.open(url_of(tmp_path), data_dir=tmp_path).close()
    with closing(sqlite3.connect(file_of(tmp_path))) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StoreError, match="newer version"):
        Store.open(url_of(tmp_path), data_dir=tmp_path)


def test_the_command_line_finds_the_same_migrations() -> None:
    root = Path(__file__).parents[2]
    scripts = ScriptDirectory.from_config(Config(toml_file=root / "pyproject.toml"))
    assert Path(scripts.dir) == root / "migrations"
    assert len(scripts.get_heads()) == 1


def test_opening_again_changes_nothing(tmp_path: Path) -> None:
    for _ in range(2):
        store = Store.open(url_of(tmp_path), data_dir=tmp_path)
        head = store.verify().head
        store.close()
        store = Store.open(url_of(tmp_path), data_dir=tmp_path)
        assert store.verify().head == head
        assert store.verify().entries == 2, "the system account and its signing key"
        store.close()
