"""PostgreSQL engines: what server and connections must be like, and how a transaction begins.

Writers are READ COMMITTED and take one advisory lock before anything else, so
they run one after the other, whatever process they are in. Readers are
REPEATABLE READ and read-only: one snapshot per block.

Every transaction but the migrating ones takes on the role ``release_desk_service``,
which the migrations make and which may not change or remove an entry.

**Poolers.** Nothing is left in a session: roles, settings and advisory locks belong to a
transaction, and no statement is prepared by name. So each transaction may meet another server
process, as behind a pooler that lends them one transaction at a time.

A COMMIT whose answer is lost with the connection has happened or not;
:func:`has_committed` asks the server which, so that nothing is written twice.
It asks by the transaction's number, which a server that has crashed may have
given to another transaction since: then a "yes" says nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import URL, Connection, Engine, bindparam, create_engine, event, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from app.store.errors import ServerSettingError, StoreError, UnknownCommitError

if TYPE_CHECKING:
    import psycopg

ROLE = "release_desk_service"
"""What the service acts as: see :mod:`app.store.database.privileges`."""

WRITER_LOCK = 0x72656C64736B
"""The advisory lock of this database that a writer holds until its transaction ends."""

REQUIRED: Mapping[str, str] = {"fsync": "on", "full_page_writes": "on", "server_encoding": "UTF8"}
"""Server settings without which a commit is not durable, or text is not kept as it is."""

_OLDEST = 150_000  # version 15, as the driver numbers them
_READERS = 8
_EXTRA_READERS = 8
# As long as a server may take to come back before the outcome of a COMMIT is unknown.
_DOUBT_S = 30.0
_REPLICA_S = 2  # a copy that is slow is left for the ledger's own server
_BEGIN_BESIDE = (
    "SELECT set_config('search_path', 'public, pg_temp', true),"
    f" set_config('statement_timeout', '{_REPLICA_S}s', true)"
)
_POLL_S = 0.1
LIVENESS: Mapping[str, int | str] = {
    "connect_timeout": 10,
    "keepalives_idle": 15,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
    "application_name": "release-desk",
}
"""How every connection is made: a peer that vanished without a word, whether it is waited for or
written to, must not hold the writer's lock for more than half a minute."""

# Weaker than the server's own default is a choice for one transaction; so is stronger.
DURABLE = (
    "CASE WHEN current_setting('synchronous_commit') = 'off'"
    " THEN set_config('synchronous_commit', 'on', true) END"
)
"""What a transaction selects whose COMMIT is not to be answered before it is on the disk."""

# A temporary table of the same name must not be read in place of ours.
_OURS = (
    "set_config('search_path', 'public, pg_temp', true),"
    f" set_config('idle_in_transaction_session_timeout', '60s', true), {DURABLE}"
)
_AS_SERVICE = f"set_config('role', '{ROLE}', true)"
# A server's statistics start from 0 after a crash, also one that its first process has outlived.
_LIFE = "concat(pg_postmaster_start_time(), ' ', pg_stat_get_bgwriter_stat_reset_time())"
_NUMBERED = f"SELECT pg_current_xact_id()::text, {_LIFE}, {_OURS}"
_LOCKED = f"FROM pg_advisory_xact_lock({WRITER_LOCK})"
_BEGIN_MIGRATING = f"{_NUMBERED} {_LOCKED}"
_BEGIN_WRITING = f"{_NUMBERED}, {_AS_SERVICE} {_LOCKED}"
_BEGIN_READING = f"SELECT {_OURS}, {_AS_SERVICE}"
_STATUS = text("SELECT pg_xact_status(CAST(CAST(:number AS text) AS xid8))").bindparams(
    bindparam("number")
)


class Numbered(NamedTuple):
    """A transaction by its number, and the life of the server in which that is its own."""

    number: str
    life: str


def migrating_engine(url: URL) -> Engine:
    """Return the engine that acts as the user of the address, who owns the tables."""
    return _serial(_checked(_writing(url), role=None), _BEGIN_MIGRATING)


def writing_engine(url: URL) -> Engine:
    """Return the engine of a process's one writing connection."""
    return _serial(_checked(_writing(url), role=ROLE), _BEGIN_WRITING)


def reading_engine(url: URL) -> Engine:
    """Return the pooled engine of readers, which cannot write."""
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=_READERS,
        max_overflow=_EXTRA_READERS,
        pool_pre_ping=True,
        connect_args=_driver_options(),
        execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
    )
    return _begun_by(_checked(engine, role=ROLE), _BEGIN_READING)


def replica_engine(url: URL) -> Engine:
    """Return the pooled engine of a standby, or of another copy, for reading only.

    Its callers can do without it: so it never waits long.
    """
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_size=_READERS,
        max_overflow=0,
        pool_timeout=_REPLICA_S,
        pool_pre_ping=True,
        connect_args={**_driver_options(), "connect_timeout": _REPLICA_S},
        execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
    )
    return _begun_by(engine, _BEGIN_BESIDE)


def _driver_options() -> dict[str, Any]:
    """Return the driver's options for a connection; no statement gets a name at the server."""
    return {**LIVENESS, "prepare_threshold": None}


def _begun_by(engine: Engine, statement: str) -> Engine:
    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        connection.exec_driver_sql(statement)

    return engine


def _writing(url: URL) -> Engine:
    return create_engine(
        url, poolclass=NullPool, connect_args=_driver_options(), isolation_level="READ COMMITTED"
    )


def _checked(engine: Engine, *, role: str | None) -> Engine:
    @event.listens_for(engine, "connect")
    def configure(connection: psycopg.Connection[tuple[object, ...]], _record: object) -> None:
        connection.autocommit = True
        check_server(connection)
        if role is not None:
            _require_role(connection, role)
        connection.autocommit = False

    return engine


def _serial(engine: Engine, begin: str) -> Engine:
    @event.listens_for(engine, "begin")
    def begin_transaction(connection: Connection) -> None:
        number, life, *_ = connection.exec_driver_sql(begin).one()
        connection.info["transaction"] = Numbered(number, life)

    return engine


def check_server(connection: psycopg.Connection[tuple[object, ...]]) -> None:
    """Refuse a server that may lose or change what it has committed.

    Raises
    ------
    ServerSettingError
        The message names the setting.
    """
    if connection.info.server_version < _OLDEST:
        raise ServerSettingError("the ledger needs PostgreSQL 15 or newer")
    for name, needed in REQUIRED.items():
        found = _setting(connection, name)
        if found != needed:
            raise ServerSettingError(
                f"PostgreSQL runs with {name} = {found}, and the ledger needs {needed}"
            )
    if _setting(connection, "in_hot_standby") == "on":
        raise ServerSettingError("this PostgreSQL server is a standby, which cannot be written to")


def _setting(connection: psycopg.Connection[tuple[object, ...]], name: str) -> object:
    row = connection.execute("SELECT current_setting(%s, true)", (name,)).fetchone()
    return None if row is None else row[0]


def _require_role(connection: psycopg.Connection[tuple[object, ...]], role: str) -> None:
    from psycopg import Error  # noqa: PLC0415 - loaded by now, and only where it is needed

    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL ROLE {role}".encode())
    except Error as error:
        raise StoreError(
            f"the database user cannot act as the role {role}; its administrator can allow it: "
            f"GRANT {role} TO the user"
        ) from error


def numbered(connection: Connection) -> Numbered | None:
    """Return by what the server knows the writer's present transaction."""
    found: Numbered | None = connection.info.get("transaction")
    return found


def has_committed(engine: Engine, transaction: Numbered) -> bool:
    """Return whether a transaction whose COMMIT was not answered has happened.

    Waits for the server to come back and to make up its mind. After a crash only a "no" can be
    trusted: where nothing of the transaction reached the disk its number is given out again.

    Raises
    ------
    UnknownCommitError
        It did not within half a minute, or a "yes" may be meant for another transaction.
    """
    deadline = time.monotonic() + _DOUBT_S
    while time.monotonic() < deadline:
        try:
            with engine.connect() as connection:
                status = connection.execute(_STATUS, {"number": transaction.number}).scalar_one()
                asked = numbered(connection)
        except DBAPIError:
            status, asked = "unreachable", None
        if status == "aborted":
            return False
        if status == "committed":
            if asked is None or asked.life != transaction.life:
                raise UnknownCommitError("the database was restarted during a COMMIT")
            return True
        time.sleep(_POLL_S)
    raise UnknownCommitError("the database went away during a COMMIT and has not come back")
