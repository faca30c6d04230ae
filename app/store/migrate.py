"""Bringing a database to the newest schema, and checking that it is that schema."""

from __future__ import annotations

from functools import cache
from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from app.store.errors import StoreError, TamperedSchemaError
from app.store.privileges import check_privileges, grant
from app.store.rules import wrong_rules


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
    before = _step_of(connection)
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise StoreError("the database was made by a newer version of Release Desk") from error
    # A user who may not grant anything can still serve a database that needs no step.
    if connection.dialect.name == "postgresql" and _step_of(connection) != before:
        grant(connection)


def is_newest(connection: Connection) -> bool:
    """Return whether the database has the schema of this version."""
    return _step_of(connection) == _newest()


@cache
def _newest() -> str | None:
    return ScriptDirectory(str(resources.files("migrations"))).get_current_head()


def _step_of(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def check_schema(connection: Connection) -> None:
    """Refuse a database whose ledger is not guarded by exactly our rules.

    Raises
    ------
    TamperedSchemaError
        A trigger is missing, changed or foreign, and the message names it; or
        the service could rewrite entries.
    """
    wrong = wrong_rules(connection)
    if wrong:
        raise TamperedSchemaError(
            f"the database's triggers are not the ones that guard the ledger: {', '.join(wrong)}"
        )
    if connection.dialect.name == "postgresql":
        check_privileges(connection)
