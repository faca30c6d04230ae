"""Whether a database has exactly the schema that the migrations make.

Rows are guarded by triggers, CHECKs, foreign keys and unique indexes; a database
whose guards have been edited is a finding of its own, whatever its rows say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache

from sqlalchemy import Connection, create_engine, exists, literal, select, text

from app.store.errors import TamperedSchemaError
from app.store.migrate import is_newest
from app.store.privileges import check_privileges
from app.store.rules import RULES, wrong_rules
from app.store.tables import metadata

# Statistics are the operator's to gather, and the migrations' own table is theirs.
_ON_SQLITE = text(
    "SELECT type, name, tbl_name, sql FROM sqlite_master"
    " WHERE tbl_name <> 'alembic_version' AND name NOT LIKE 'sqlite_stat%'"
)
_ON_POSTGRESQL = text(
    "SELECT c.relname AS owner, n.conname AS name, n.convalidated AS sound FROM pg_constraint n"
    " JOIN pg_class c ON c.oid = n.conrelid WHERE c.relname <> 'alembic_version'"
    " AND n.connamespace = 'public'::regnamespace AND n.contype IN ('c', 'f', 'p', 'u')"
    " UNION SELECT t.relname, c.relname, i.indisvalid AND i.indisready FROM pg_index i"
    " JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_class t ON t.oid = i.indrelid"
    " WHERE t.relname <> 'alembic_version' AND c.relnamespace = 'public'::regnamespace"
)
_RULES = frozenset(rule.name for rule in RULES)

Shape = Mapping[tuple[str, str], object]


def schema_faults(connection: Connection) -> Iterator[str]:
    """Yield what is not as the migrations make it; only our own names are told."""
    if not is_newest(connection):
        yield "the schema is not the one of this version"
    if connection.dialect.name == "sqlite":
        found, expected = _sqlite_shape(connection), _expected_on_sqlite()
    else:
        found, expected = _postgresql_shape(connection), _expected_on_postgresql()
        try:
            check_privileges(connection)
        except TamperedSchemaError:
            yield "the service's role may do more to entries than read and append"
    wrong = wrong_rules(connection)
    rules = [name for name in wrong if name.removesuffix("_truncate") in _RULES]
    parts = [name for (owner, name), shape in expected.items() if found.get((owner, name)) != shape]
    named = sorted({*rules, *parts})
    if named:
        yield f"the schema's {', '.join(named)}: missing or changed"
    if len(rules) < len(wrong) or not found.keys() <= expected.keys():
        yield "the schema holds something foreign"


def reference_faults(connection: Connection) -> Iterator[str]:
    """Yield the foreign keys with a row that refers to nothing; only our own names are told.

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


def _sqlite_shape(connection: Connection) -> Shape:
    """Return each table, index and trigger as the words of its statement."""
    return {
        (row.tbl_name, row.name): (row.type, row.sql and row.sql.replace('"', "").split())
        for row in connection.execute(_ON_SQLITE)
    }


@cache
def _expected_on_sqlite() -> Shape:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        metadata.create_all(connection)
        shape = _sqlite_shape(connection)
    engine.dispose()
    return shape


def _postgresql_shape(connection: Connection) -> Shape:
    """Return whether each constraint and index is in force."""
    return {(row.owner, row.name): row.sound for row in connection.execute(_ON_POSTGRESQL)}


@cache
def _expected_on_postgresql() -> Shape:
    shape: dict[tuple[str, str], object] = {}
    for table in metadata.sorted_tables:
        for constraint in table.constraints:
            shape[table.name, str(constraint.name)] = True
        for index in table.indexes:
            shape[table.name, str(index.name)] = True
    return shape
