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

*What the tables are on PostgreSQL, as its catalogs say it, and what they must be.* The expected
side follows from the metadata but for conditions, which the server parses and prints in words of
its own. They are pinned here, by the names of their CHECKs and indexes: a new one needs its line,
and a test compares all of it with what a fresh migration makes.

*What the service's role may do on PostgreSQL: read, insert, and change what has to change.* The
role ``release_desk_service`` cannot log in. The user of the database address owns the tables, or
is merely a member of the role where the schema is somebody else's to migrate; either way the
service acts as the role. It may not change, remove or truncate an entry, whatever SQL reaches it;
the rules between rows (:mod:`app.store.database.rules`) hold for the owner too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Constraint,
    Engine,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    bindparam,
    create_engine,
    event,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from app.store.database.tables import metadata
from app.store.errors import ServerSettingError, StoreError, TamperedSchemaError, UnknownCommitError

if TYPE_CHECKING:
    import psycopg

ROLE = "release_desk_service"
"""What the service acts as: see :mod:`app.store.database.postgresql`."""

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
        # Not on the driver's connection, which may be gone once COMMIT has failed.
        connection.execution_options(transaction=Numbered(number, life))

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
    """Return by what the server knows the writer's present transaction, or its last one."""
    found: Numbered | None = connection.get_execution_options().get("transaction")
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


# What the tables are on PostgreSQL, as its catalogs say it, and what they must be

Part = tuple[str, str, str]
"""What a part of the schema is, the table it belongs to, and the name that is reported."""

Shape = Mapping[Part, object]

# Rewrite rules, row security, children and parents let a statement do something else than it
# says; an unlogged table is empty after a crash. The migrations' own table is theirs.
_OUR_TABLES = (
    "WITH part AS (SELECT oid, relname AS owner, concat_ws(' ', relkind, relpersistence,"
    " relrowsecurity, relforcerowsecurity,"
    " (SELECT count(*) FROM pg_rewrite WHERE ev_class = t.oid),"
    " (SELECT count(*) FROM pg_inherits WHERE t.oid IN (inhrelid, inhparent))) AS shape"
    " FROM pg_class t WHERE relnamespace = 'public'::regnamespace"
    " AND relkind IN ('r', 'p', 'f') AND relname <> 'alembic_version')"
)
_TABLES = "SELECT 'table' AS kind, owner, owner AS name, shape FROM part"
# Since PostgreSQL 18 NOT NULL is a constraint, which may not have looked at the rows there are.
_COLUMNS = (
    "SELECT 'column', owner, owner || '.' || attname,"
    " concat_ws(' ', upper(format_type(atttypid, atttypmod)),"
    " 'COLLATE ' || nullif(attcollation, 0)::regcollation,"
    " CASE WHEN attnotnull AND NOT EXISTS (SELECT 1 FROM pg_constraint WHERE contype = 'n'"
    " AND conrelid = attrelid AND attnum = ANY (conkey) AND NOT convalidated)"
    " THEN 'NOT NULL' END,"
    " 'DEFAULT ' || pg_get_expr(adbin, adrelid), attidentity, attgenerated)"
    " FROM part JOIN pg_attribute ON attrelid = part.oid AND attnum > 0 AND NOT attisdropped"
    " LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum"
)
# A foreign key is its triggers, four that must be on.
_CONSTRAINTS = (
    "SELECT 'constraint', owner, conname, concat_ws(' ', pg_get_constraintdef(n.oid),"
    " (SELECT string_agg(tgenabled::text, '') FROM pg_trigger WHERE tgconstraint = n.oid))"
    " FROM part JOIN pg_constraint n ON conrelid = part.oid WHERE contype <> 'n'"
)
_INDEXES = (
    "SELECT 'index', owner, c.relname,"
    " concat_ws(' ', pg_get_indexdef(c.oid), indisvalid AND indisready AND indislive)"
    " FROM part JOIN pg_index ON indrelid = part.oid JOIN pg_class c ON c.oid = indexrelid"
)
_FOUND = text(f"{_OUR_TABLES} {' UNION ALL '.join((_TABLES, _COLUMNS, _CONSTRAINTS, _INDEXES))}")

_CONDITIONS: Mapping[str, str] = {
    "ck_ledger_only_one": "(number = 1)",
    "ck_ledger_epoch": "(epoch >= 1)",
    "ck_entry_seq": "(seq >= 1)",
    "ck_entry_within_total": (
        "((amount >= 0) AND (spent_after >= 0) AND (reserved_after >= 0)"
        " AND ((spent_after + reserved_after) <= total_after))"
    ),
    "ck_entry_kind": (
        " CASE WHEN (account = '0'::text) THEN ((amount = 0) AND (total_after = 0)"
        " AND (kind <> ALL (ARRAY['grant'::text, 'expire'::text, 'debit'::text,"
        " 'reserve'::text, 'unreserve'::text, 'burn'::text])))"
        " ELSE (kind = ANY (ARRAY['open'::text, 'grant'::text, 'expire'::text, 'debit'::text,"
        " 'reserve'::text, 'unreserve'::text, 'burn'::text])) END"
    ),
    "ck_entry_release": (
        "(((idem IS NULL) OR (kind = ANY (ARRAY['debit'::text, 'reserve'::text])))"
        " AND ((kind <> ALL (ARRAY['debit'::text, 'reserve'::text, 'unreserve'::text]))"
        " OR ((release IS NOT NULL) AND (fingerprint IS NOT NULL))))"
    ),
    "ck_entry_hash": "((length(prev) = 64) AND (length(hash) = 64))",
    "ck_account_seq": "(seq >= 1)",
    "ck_account_within_total": (
        "((spent >= 0) AND (reserved >= 0) AND ((spent + reserved) <= total))"
    ),
    "ck_expiring": "((amount > 0) AND (expired_seq > seq))",
    "ck_cap_amount": "(amount >= 0)",
    "ck_cap_used": "(used >= 0)",
    "ck_dataset_status": (
        "(((status = 'active'::text) AND (archived_at IS NULL))"
        " OR ((status = ANY (ARRAY['archived'::text, 'deleted'::text]))"
        " AND (archived_at IS NOT NULL)))"
    ),
    "ck_dataset_rows": "((rows IS NULL) OR (rows >= 0))",
    "ck_leaf_hash": "(length(hash) = 64)",
    "ck_log_part_hashes": (
        "((length(seed) = 64) AND (length(hashes) = (32 * (leaves_after - leaves_before)))"
        " AND (leaves_after > leaves_before)"
        " AND ((leaves_after - leaves_before) <= (last_seq - after_seq))"
        " AND ((number > 1) OR (leaves_before = 0)))"
    ),
    "ck_lineage_sha256": "(length(sha256) = 64)",
    "ck_release_state": (
        "(state = ANY (ARRAY['reserved'::text, 'debited'::text, 'released'::text, 'void'::text,"
        " 'rejected'::text, 'withdrawn'::text, 'expired'::text]))"
    ),
    "ck_release_result": (
        "(((state = 'released'::text) = (result IS NOT NULL))"
        " AND ((result IS NULL) = (result_hash IS NULL)))"
    ),
    "ck_release_attempts": "((attempts >= 0) AND (attempts <= 3))",
    "ck_allowance_bytes": "(bytes >= 0)",
    "ck_rate_taken": "(taken >= 0)",
    "ck_worker_lease": "(lease_until_ms >= 0)",
    "ck_job_deadline": "(deadline_s >= 1)",
    "ck_turn_number": "(number >= 1)",
    "ck_desk_session_token_hash": "(length(token_hash) = 64)",
    "ck_desk_form_form": "(length(form) <= 100)",
    "ck_pause_what": "(what = ANY (ARRAY['person'::text, 'dataset'::text]))",
    "ck_version_number": "(number >= 2)",
    "ck_notice_about": "((release IS NULL) <> (study_plan IS NULL))",
    "ck_review_comment_about": "((release IS NULL) <> (study_plan IS NULL))",
    "ck_study_plan_state": (
        "(((state = 'draft'::text) = (requested_at IS NULL))"
        " AND ((state = 'draft'::text) = (seq IS NULL))"
        " AND ((decided_by IS NULL) = (decided_at IS NULL))"
        " AND ((expires_at IS NULL) OR (decided_at IS NOT NULL))"
        " AND ((state <> 'approved'::text) OR (expires_at IS NOT NULL))"
        " AND ((unsent IS NULL) OR (state = 'changes_requested'::text)))"
    ),
    "ck_publication_withdrawn": (
        "(((note IS NULL) = (withdrawn_at IS NULL))"
        " AND ((withdrawn_by IS NULL) = (withdrawn_at IS NULL)))"
    ),
    "ck_api_key_role": "(role = ANY (ARRAY['metrics'::text, 'auditor'::text, 'analyst'::text,"
    " 'reviewer'::text, 'curator'::text, 'admin'::text]))",
    "ix_dataset_name": "(status = 'active'::text)",
    "ix_expiring_due": "(expired_seq IS NULL)",
    "ix_release_reserved": "(state = 'reserved'::text)",
    "ix_entry_unreserve": "(kind = 'unreserve'::text)",
    "ix_entry_acts": (
        "((kind <> 'debit'::text) AND (kind <> 'reserve'::text) AND (kind <> 'unreserve'::text)"
        " AND (kind <> 'result'::text) AND (kind <> 'checkpoint'::text))"
    ),
    "ix_release_debited": "(state = 'debited'::text)",
    "ix_release_ended": (
        "((state <> 'reserved'::text) AND (state <> 'debited'::text)"
        " AND (state <> 'released'::text))"
    ),
}


def found_on_postgresql(connection: Connection) -> Shape:
    """Return what every table in our schema is, with its columns, constraints and indexes."""
    return {
        (row.kind, row.owner, row.name): _words(row.shape) for row in connection.execute(_FOUND)
    }


@cache
def expected_on_postgresql() -> Shape:
    """Return what :func:`found_on_postgresql` finds where the migrations made everything."""
    shape: dict[Part, object] = {}
    for table in metadata.sorted_tables:
        own = table.name
        shape["table", own, own] = "r p f f 0 0"
        for column in table.columns:
            shape["column", own, f"{own}.{column.name}"] = _column(table, column)
        for constraint in table.constraints:
            name = str(constraint.name)
            shape["constraint", own, name] = _words(_constraint(name, constraint))
            if isinstance(constraint, PrimaryKeyConstraint | UniqueConstraint):
                shape["index", own, name] = _index(name, own, constraint.columns, unique=True)
        for index in table.indexes:
            name = str(index.name)
            shape["index", own, name] = _index(name, own, index.columns, unique=index.unique)
    return shape


def _column(table: Table, column: Column[Any]) -> str:
    words = [column.type.compile(dialect=postgresql.dialect())]  # type: ignore[no-untyped-call]
    if not column.nullable:
        words.append("NOT NULL")
    if column is table.autoincrement_column:
        words.append(f"DEFAULT nextval('{table.name}_{column.name}_seq'::regclass)")
    return " ".join(words)


def _constraint(name: str, constraint: Constraint) -> str:
    if isinstance(constraint, PrimaryKeyConstraint):
        return f"PRIMARY KEY ({_names(constraint.columns)})"
    if isinstance(constraint, UniqueConstraint):
        return f"UNIQUE ({_names(constraint.columns)})"
    if isinstance(constraint, ForeignKeyConstraint):
        there = _names(each.column for each in constraint.elements)
        when = " DEFERRABLE INITIALLY DEFERRED" if constraint.deferrable else ""
        return (
            f"FOREIGN KEY ({_names(constraint.columns)})"
            f" REFERENCES {constraint.referred_table.name}({there}){when} OOOO"
        )
    return f"CHECK ({_CONDITIONS[name]})"


def _index(name: str, table: str, columns: Iterable[Column[Any]], *, unique: bool) -> str:
    where = f" WHERE {_CONDITIONS[name]}" if name in _CONDITIONS else ""
    return (
        f"CREATE {'UNIQUE ' if unique else ''}INDEX {name} ON public.{table}"
        f" USING btree ({_names(columns)}){where} t"
    )


def _names(columns: Iterable[Column[Any]]) -> str:
    return ", ".join(column.name for column in columns)


def _words(definition: str) -> str:
    return " ".join(definition.split())


# What the service's role may do on PostgreSQL: read, insert, and change what has to change

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
    "study_plan": "SELECT, INSERT, UPDATE, DELETE",
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
