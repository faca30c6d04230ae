"""What the tables are on PostgreSQL, as its catalogs say it, and what they must be.

The expected side follows from the metadata but for conditions, which the server parses and
prints in words of its own. They are pinned here, by the names of their CHECKs and indexes: a
new one needs its line, and a test compares all of it with what a fresh migration makes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    Constraint,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects import postgresql

from app.store.database.tables import metadata

Part = tuple[str, str, str]
"""What a part of the schema is, the table it belongs to, and the name that is reported."""

Shape = Mapping[Part, object]

# Rewrite rules, row security, children and parents let a statement do something else than it
# says; an unlogged table is empty after a crash. The migrations' own table is theirs.
_OURS = (
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
_FOUND = text(f"{_OURS} {' UNION ALL '.join((_TABLES, _COLUMNS, _CONSTRAINTS, _INDEXES))}")

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
    "ck_publication_withdrawn": (
        "(((note IS NULL) = (withdrawn_at IS NULL))"
        " AND ((withdrawn_by IS NULL) = (withdrawn_at IS NULL)))"
    ),
    "ck_api_key_role": "(role = ANY (ARRAY['analyst'::text, 'curator'::text, 'admin'::text,"
    " 'metrics'::text]))",
    "ix_dataset_name": "(status = 'active'::text)",
    "ix_expiring_due": "(expired_seq IS NULL)",
    "ix_release_reserved": "(state = 'reserved'::text)",
    "ix_entry_unreserve": "(kind = 'unreserve'::text)",
    "ix_entry_acts": (
        "((kind <> 'debit'::text) AND (kind <> 'reserve'::text) AND (kind <> 'unreserve'::text)"
        " AND (kind <> 'result'::text) AND (kind <> 'checkpoint'::text))"
    ),
    "ix_release_debited": "(state = 'debited'::text)",
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
