"""Bringing a database to the newest schema, and checking that it is that schema."""

from __future__ import annotations

from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import Connection, text

from app.store.errors import StoreError, TamperedSchemaError
from app.store.rules import RULES, sqlite_trigger

_TRIGGERS = text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")


def migrate(connection: Connection) -> None:
    """Run every migration the database lacks, in the caller's transaction.

    Raises
    ------
    StoreError
        The database is at a step this version does not know.
    """
    config = Config()
    # Alembic reads options with "%" interpolation.
    location = str(resources.files("migrations")).replace("%", "%%")
    config.set_main_option("script_location", location)
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError("the database was made by a newer version of Release Desk") from error


def check_triggers(connection: Connection) -> None:
    """Refuse a database whose ledger is not guarded by exactly our triggers.

    Raises
    ------
    TamperedSchemaError
        A trigger is missing, changed or foreign; the message names it.
    """
    found = {row.name: _words(row.sql) for row in connection.execute(_TRIGGERS)}
    expected = {rule.name: _words(sqlite_trigger(rule)) for rule in RULES}
    wrong = sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )
    if wrong:
        raise TamperedSchemaError(
            f"the database's triggers are not the ones that guard the ledger: {', '.join(wrong)}"
        )


def _words(sql: str) -> tuple[str, ...]:
    return tuple(sql.split())
