"""What the service's role may do on PostgreSQL: read, insert, and change what has to change.

The role ``release_desk_service`` cannot log in. The user of the database address owns
the tables, or is merely a member of the role where the schema is somebody
else's to migrate; either way the service acts as the role. It may not change,
remove or truncate an entry, whatever SQL reaches it; the rules between rows
(:mod:`app.store.database.rules`) hold for the owner too.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import Connection, text

from app.store.database.postgresql import ROLE
from app.store.database.tables import metadata
from app.store.errors import StoreError, TamperedSchemaError

_USUAL = "SELECT, INSERT, UPDATE"
_OTHERS: Mapping[str, str] = {
    # Append-only, whatever SQL reaches the service.
    "entry": "SELECT, INSERT",
    "leaf": "SELECT, INSERT",
    "log_part": "SELECT, INSERT",
    "log_checkpoint": "SELECT, INSERT",
    "log_stamp": "SELECT, INSERT",
    "upload": "SELECT, INSERT, UPDATE, DELETE",
    "rate": "SELECT, INSERT, UPDATE, DELETE",
    "worker": "SELECT, INSERT, UPDATE, DELETE",
    "job": "SELECT, INSERT, DELETE",
    "pause": "SELECT, INSERT, DELETE",
    "desk_session": "SELECT, INSERT, UPDATE, DELETE",
    "desk_form": "SELECT, INSERT, UPDATE, DELETE",
}

_STANDING = text(
    "SELECT r.rolname IS NOT NULL AS known, u.rolsuper OR u.rolcreaterole AS may_make,"
    " r.oid IS NOT NULL AND pg_has_role(u.oid, r.oid, 'MEMBER') AS member"
    " FROM pg_roles u LEFT JOIN pg_roles r ON r.rolname = :role WHERE u.rolname = session_user"
)
_FORBIDDEN = text(
    "SELECT string_agg(DISTINCT p, ', ') FROM unnest(ARRAY['UPDATE', 'DELETE', 'TRUNCATE']) AS p"
    " WHERE has_table_privilege(:role, 'public.entry', p)"
    " OR (p = 'UPDATE' AND has_any_column_privilege(:role, 'public.entry', p))"
)


def grant(connection: Connection) -> None:
    """Make the role if need be, and give it exactly what the service needs.

    Raises
    ------
    StoreError
        The user may neither make the role nor act as it.
    """
    _ensure_role(connection)
    statements = [
        f"GRANT USAGE ON SCHEMA public TO {ROLE}",
        # First nothing, then what is needed: what an earlier version was given does not stay.
        f"REVOKE ALL ON ALL TABLES IN SCHEMA public FROM {ROLE}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {ROLE}",
        f"GRANT SELECT ON alembic_version TO {ROLE}",
    ]
    for table in metadata.sorted_tables:
        rights = _OTHERS.get(table.name, _USUAL)
        statements.append(f"GRANT {rights} ON {table.name} TO {ROLE}")
    for statement in statements:
        connection.exec_driver_sql(statement)


def _ensure_role(connection: Connection) -> None:
    standing = connection.execute(_STANDING, {"role": ROLE}).one()
    if not standing.known and standing.may_make:
        connection.exec_driver_sql(f"CREATE ROLE {ROLE} NOLOGIN")
    elif not standing.known:
        raise StoreError(
            f"the database user may not make the role {ROLE}; its administrator can: "
            f"CREATE ROLE {ROLE} NOLOGIN; GRANT {ROLE} TO the user"
        )
    if not standing.member:
        connection.exec_driver_sql(f"GRANT {ROLE} TO CURRENT_USER")


def check_privileges(connection: Connection) -> None:
    """Refuse a database where the service could rewrite its own ledger.

    Raises
    ------
    TamperedSchemaError
        The role may do more to entries than read and append.
    """
    found = connection.execute(_FORBIDDEN, {"role": ROLE}).scalar_one()
    if found:
        raise TamperedSchemaError(f"the role {ROLE} has {found} on the ledger's entries")
