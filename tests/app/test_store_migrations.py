"""The migrations and the tables say the same, and run from the installed package."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import make_url

from app.store import Store, StoreError
from app.store.database.engines import migrating_engine
from app.store.database.migrate import migrate
from app.store.database.postgresql import expected_on_postgresql, found_on_postgresql
from app.store.database.tables import metadata
from app.store.unit_of_work import transaction
from tests.app.conftest import ON_BOTH
from tests.app.ledgers import Place, raw
from tests.app.postgres import databases


def schema_of(file: Path) -> dict[str, list[str]]:
    with closing(sqlite3.connect(file)) as connection:
        rows = connection.execute(
            "SELECT type || ' ' || name, sql FROM sqlite_master"
            " WHERE sql IS NOT NULL AND name <> 'alembic_version'"
        ).fetchall()
    return {name: sql.replace('"', "").split() for name, sql in rows}


POSTGRESQL_SCHEMA = """
SELECT 'column ' || table_name || '.' || column_name,
    concat_ws(' ', data_type, is_nullable, column_default, collation_name)
FROM information_schema.columns WHERE table_schema = 'public'
UNION ALL
SELECT 'constraint ' || conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
UNION ALL
SELECT 'index ' || indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
UNION ALL
SELECT 'trigger ' || tgname, concat_ws(' ', pg_get_triggerdef(t.oid), tgenabled, prosrc, proconfig)
FROM pg_trigger t JOIN pg_proc p ON p.oid = tgfoid WHERE NOT tgisinternal
"""


def postgresql_schema_of(url: str) -> dict[str, list[str]]:
    with psycopg.connect(url) as connection:
        rows = connection.execute(POSTGRESQL_SCHEMA).fetchall()
    return {name: text.split() for name, text in rows if "alembic_version" not in name}


@pytest.mark.parametrize("backend", ON_BOTH)
def test_migrating_from_empty_equals_creating_all(backend: str, tmp_path: Path) -> None:
    if backend == "sqlite":
        urls = [f"sqlite:///{tmp_path}/{name}.sqlite" for name in ("migrated", "created")]
    else:
        urls = [databases().url(databases().empty()) for _ in range(2)]
    with migrating_engine(urls[0]).connect() as connection:
        with transaction(connection):
            migrate(connection)
        differences = compare_metadata(MigrationContext.configure(connection), metadata)
    with migrating_engine(urls[1]).connect() as connection, transaction(connection):
        metadata.create_all(connection)
    if backend == "sqlite":
        migrated, created = (schema_of(Path(make_url(url).database or "")) for url in urls)
    else:
        migrated, created = (postgresql_schema_of(url) for url in urls)
    assert differences == []
    assert migrated == created
    assert len(created) > len(metadata.tables) + 10


@pytest.mark.postgres
def test_what_is_expected_on_postgresql_is_what_is_made() -> None:
    """Conditions are pinned in the words of the server."""
    urls = [databases().url(databases().empty()) for _ in range(2)]
    for url, make in zip(urls, (migrate, metadata.create_all), strict=True):
        with migrating_engine(url).connect() as connection, transaction(connection):
            make(connection)
            assert found_on_postgresql(connection) == expected_on_postgresql()


def test_every_text_is_compared_by_its_bytes() -> None:
    """A collation of the operating system's may change under a unique index."""
    for table in metadata.tables.values():
        for column in table.columns:
            kind = column.type.dialect_impl(postgresql.dialect())
            if isinstance(kind, sqlalchemy.Text):
                assert kind.collation == "C", f"{table.name}.{column.name}"


def test_a_failed_migration_leaves_nothing(tmp_path: Path) -> None:
    file = tmp_path / "half.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE release (x)")
    with pytest.raises(StoreError, match="already exists"):
        Store.open(f"sqlite:///{file}", data_dir=tmp_path)
    assert list(schema_of(file)) == ["table release"]


@pytest.mark.parametrize("revision", ["9999", "0026"])
def test_a_database_of_another_version_is_left_alone(place: Place, revision: str) -> None:
    """A newer one's, and 0.1.0's, whose revisions went up to 0026."""
    place.open().close()
    with raw(place) as db:
        (step,) = db.execute("SELECT version_num FROM alembic_version").fetchone()
        db.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    with pytest.raises(StoreError, match=r"newer version .* empty data directory"):
        place.open()
    with raw(place) as db:
        db.execute("UPDATE alembic_version SET version_num = ?", (step,))


def test_the_command_line_finds_the_same_migrations() -> None:
    root = Path(__file__).parents[2]
    scripts = ScriptDirectory.from_config(Config(toml_file=root / "pyproject.toml"))
    assert Path(scripts.dir) == root / "migrations"
    assert len(scripts.get_heads()) == 1


def test_opening_again_changes_nothing(place: Place) -> None:
    found = []
    for _ in range(3):
        store = place.open()
        found.append(store.verify())
        store.close()
    assert found[0] == found[1] == found[2]
    assert found[0].ok
    assert found[0].entries == 2, "the system account and its signing key"
