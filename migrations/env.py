"""Alembic's entry point: on the store's own connection at start, or from the command line.

From the command line (writing a new migration) the database is
``RELEASE_DESK_DATABASE_URL``.
"""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection

from app.store.database.engines import writing_engine
from app.store.database.tables import metadata
from app.store.unit_of_work import transaction


def run(connection: Connection) -> None:
    """Run the migrations inside the transaction that the connection is in."""
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


if context.config.attributes.get("connection") is not None:
    run(context.config.attributes["connection"])
else:
    with (
        writing_engine(os.environ["RELEASE_DESK_DATABASE_URL"]).connect() as connection,
        transaction(connection),
    ):
        run(connection)
