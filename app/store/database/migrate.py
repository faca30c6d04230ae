"""Bringing a database to the newest schema.

Alembic is loaded where it is needed: processes that draw or store have no use for it, and it takes
a tenth of the time that they take to start.

*Whether a database has exactly the schema that the migrations make.* Rows are guarded by triggers,
CHECKs, foreign keys and unique indexes; a database whose guards have been edited is a finding of
its own, whatever its rows say.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib import resources

from sqlalchemy import Connection, create_engine, exists, literal, select, text

from app.store.database.postgresql import (
    Shape,
    check_privileges,
    expected_on_postgresql,
    found_on_postgresql,
    grant,
)
from app.store.database.rules import RULES, wrong_rules
from app.store.database.tables import metadata
from app.store.errors import StoreError, TamperedSchemaError

# Whether a database has exactly the schema that the migrations make

# Statistics are the operator's to gather, and the migrations' own table is theirs.
_ON_SQLITE = text(
    "SELECT type, name, tbl_name, sql FROM sqlite_master"
    " WHERE tbl_name <> 'alembic_version' AND name NOT LIKE 'sqlite_stat%'"
)
_RULES = frozenset(rule.name for rule in RULES)


def check_schema(connection: Connection) -> None:
    """Refuse a database whose tables are not guarded by exactly our rules.

    Tables that are none of ours are left to :func:`schema_faults`.

    Raises
    ------
    TamperedSchemaError
        A trigger, constraint, index or column is missing, changed or foreign, and
        the message names it; or the service could rewrite entries.
    """
    found, expected = _shapes(connection)
    ours = [part for part in found.keys() | expected.keys() if part[1] in metadata.tables]
    parts = [part[2] for part in ours if found.get(part) != expected.get(part)]
    wrong = sorted({*wrong_rules(connection), *parts})
    if wrong:
        raise TamperedSchemaError(
            f"the database's schema is not the one that guards the ledger: {', '.join(wrong)}"
        )
    if connection.dialect.name == "postgresql":
        check_privileges(connection)


def schema_faults(connection: Connection) -> Iterator[str]:
    """Yield what is not as the migrations make it; only our own names are shown."""
    if not is_newest(connection):
        yield "the schema is not the one of this version"
    found, expected = _shapes(connection)
    if connection.dialect.name == "postgresql":
        try:
            check_privileges(connection)
        except TamperedSchemaError:
            yield "the service's role may do more to entries than read and append"
    wrong = wrong_rules(connection)
    rules = [name for name in wrong if name.removesuffix("_truncate") in _RULES]
    parts = [part[2] for part, shape in expected.items() if found.get(part) != shape]
    named = sorted({*rules, *parts})
    if named:
        yield f"the schema's {', '.join(named)}: missing or changed"
    if len(rules) < len(wrong) or not found.keys() <= expected.keys():
        yield "the schema holds something foreign"


def reference_faults(connection: Connection) -> Iterator[str]:
    """Yield the foreign keys with a row that refers to nothing; only our own names are shown.

    PostgreSQL checks a reference once, and not where a superuser has it look away.
    """
    for table in metadata.sorted_tables:
        for key in table.foreign_key_constraints:
            refers = [element.parent.is_not(None) for element in key.elements]
            there = exists().where(*(e.parent == e.column for e in key.elements))
            there = there.correlate(table)
            found = connection.execute(select(literal(1)).where(*refers, ~there).limit(1))
            if found.first() is not None:
                yield f"{key.name}: a row refers to nothing"


def _shapes(connection: Connection) -> tuple[Shape, Shape]:
    """Return what every part of the schema is, and what it must be."""
    if connection.dialect.name == "sqlite":
        return _sqlite_shape(connection), _expected_on_sqlite()
    return found_on_postgresql(connection), expected_on_postgresql()


def _sqlite_shape(connection: Connection) -> Shape:
    """Return each table, index and trigger as the words of its statement."""
    return {
        (row.type, row.tbl_name, row.name): (row.sql or "").replace('"', "").split()
        for row in connection.execute(_ON_SQLITE)
    }


@cache
def _expected_on_sqlite() -> Shape:
    # Made in memory from the metadata: SQLite prints statements as they were given.
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection)
        shape = _sqlite_shape(connection)
    engine.dispose()
    return shape


# Bringing a database to the newest schema


def migrate(connection: Connection) -> None:
    """Run every migration the database lacks, in the caller's transaction.

    Raises
    ------
    StoreError
        The schema has a revision that this version does not know.
    """
    if is_newest(connection):  # as at nearly every start: no step need be read
        return
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415
    from alembic.util import CommandError  # noqa: PLC0415

    config = Config()
    # Alembic reads options with "%" interpolation.
    location = str(resources.files("migrations")).replace("%", "%%")
    config.set_main_option("script_location", location)
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError(
            "the database was made by a newer version of Release Desk, or by one before 0.2.0. "
            "Start the newer version, or start with an empty data directory and upload the files "
            "again"
        ) from error
    # A user who may not grant anything can still serve a database that needs no step.
    if connection.dialect.name == "postgresql":
        grant(connection)


def is_newest(connection: Connection) -> bool:
    """Return whether the database has the schema of this version."""
    return _step_of(connection) == _newest()


@cache
def _newest() -> str | None:
    from alembic.script import ScriptDirectory  # noqa: PLC0415

    return ScriptDirectory(str(resources.files("migrations"))).get_current_head()


def _step_of(connection: Connection) -> str | None:
    from alembic.migration import MigrationContext  # noqa: PLC0415

    return MigrationContext.configure(connection).get_current_revision()
