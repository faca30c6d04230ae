"""Bringing a database to the newest schema.

Alembic is loaded where it is needed: processes that draw or store have no use for it, and it takes
a tenth of the time that they take to start.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from sqlalchemy import Connection

from app.store.database.privileges import grant
from app.store.errors import StoreError


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
