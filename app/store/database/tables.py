"""The tables. Every rule a CHECK can state is a named, table-level CHECK.

Rules between rows are triggers (:mod:`app.store.database.rules`). Integers are 64 bits; text is
never truncated; times are ISO 8601 in UTC.
"""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    event,
    text,
)

from app.store.database.rules import create_rules

metadata = MetaData()

_Int = BigInteger().with_variant(Integer(), "sqlite")
# Bytes decide, not a language: a new version of the operating system's collations would
# leave unique indexes of text in the wrong order, and let an Idempotency-Key in twice.
Text = sqlalchemy.Text().with_variant(sqlalchemy.Text(collation="C"), "postgresql")

ACTS = "kind NOT IN ('debit', 'reserve', 'unreserve', 'result')"
"""Of an entry: it is none of those that make up nearly the whole ledger."""

ledger = Table(
    "ledger",
    metadata,
    Column("number", _Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("epoch", _Int, nullable=False),
    Column("created_at", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_ledger"),
    CheckConstraint("number = 1", name="ck_ledger_only_one"),
    CheckConstraint("epoch >= 1", name="ck_ledger_epoch"),
    sqlite_strict=True,
)

entry = Table(
    "entry",
    metadata,
    Column("account", Text, nullable=False),
    Column("seq", _Int, nullable=False),
    Column("epoch", _Int, nullable=False),
    Column("kind", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("release", Text),
    Column("idem", Text),
    Column("fingerprint", Text),
    Column("note", Text),
    Column("amount", _Int, nullable=False),
    Column("total_after", _Int, nullable=False),
    Column("spent_after", _Int, nullable=False),
    Column("reserved_after", _Int, nullable=False),
    Column("at", Text, nullable=False),
    Column("prev", Text, nullable=False),
    Column("hash", Text, nullable=False),
    # What made it. Those written up to version 0.1 have neither, and a hash of another form.
    Column("key", Text),
    Column("role", Text),
    PrimaryKeyConstraint("account", "seq", name="pk_entry"),
    UniqueConstraint("principal", "idem", name="uq_entry_idem"),
    UniqueConstraint(
        "account",
        "seq",
        "total_after",
        "spent_after",
        "reserved_after",
        "hash",
        name="uq_entry_balance",
    ),
    CheckConstraint("seq >= 1", name="ck_entry_seq"),
    CheckConstraint(
        "amount >= 0 AND spent_after >= 0 AND reserved_after >= 0"
        " AND spent_after + reserved_after <= total_after",
        name="ck_entry_within_total",
    ),
    CheckConstraint(
        "CASE WHEN account = '0' THEN amount = 0 AND total_after = 0 AND kind NOT IN"
        " ('grant', 'expire', 'debit', 'reserve', 'unreserve', 'burn')"
        " ELSE kind IN ('open', 'grant', 'expire', 'debit', 'reserve', 'unreserve', 'burn') END",
        name="ck_entry_kind",
    ),
    CheckConstraint(
        "(idem IS NULL OR kind IN ('debit', 'reserve'))"
        " AND (kind NOT IN ('debit', 'reserve', 'unreserve')"
        " OR (release IS NOT NULL AND fingerprint IS NOT NULL))",
        name="ck_entry_release",
    ),
    CheckConstraint("length(prev) = 64 AND length(hash) = 64", name="ck_entry_hash"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

account = Table(
    "account",
    metadata,
    Column("id", Text, nullable=False),
    Column("seq", _Int, nullable=False),
    Column("total", _Int, nullable=False),
    Column("spent", _Int, nullable=False),
    Column("reserved", _Int, nullable=False),
    Column("head", Text, nullable=False),
    PrimaryKeyConstraint("id", name="pk_account"),
    CheckConstraint("seq >= 1", name="ck_account_seq"),
    CheckConstraint(
        "spent >= 0 AND reserved >= 0 AND spent + reserved <= total", name="ck_account_within_total"
    ),
    # At COMMIT the balance is the last entry, the total included: the triggers keep
    # entries from running ahead of the account, this keeps the account from running
    # ahead of its entries.
    ForeignKeyConstraint(
        ["id", "seq", "total", "spent", "reserved", "head"],
        [
            "entry.account",
            "entry.seq",
            "entry.total_after",
            "entry.spent_after",
            "entry.reserved_after",
            "entry.hash",
        ],
        name="fk_account_last_entry",
        deferrable=True,
        initially="DEFERRED",
    ),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Grants that end: what of a total goes again, and when it has gone.
expiring = Table(
    "expiring",
    metadata,
    Column("account", Text, nullable=False),
    Column("seq", _Int, nullable=False),
    Column("amount", _Int, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("expired_seq", _Int),
    PrimaryKeyConstraint("account", "seq", name="pk_expiring"),
    ForeignKeyConstraint(
        ["account", "seq"], ["entry.account", "entry.seq"], name="fk_expiring_grant"
    ),
    ForeignKeyConstraint(
        ["account", "expired_seq"], ["entry.account", "entry.seq"], name="fk_expiring_expired"
    ),
    CheckConstraint("amount > 0 AND expired_seq > seq", name="ck_expiring"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Slices of an account: what one person may use of it, and has used while there was a cap.
cap = Table(
    "cap",
    metadata,
    Column("number", _Int, nullable=False),
    Column("account", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("amount", _Int),
    Column("used", _Int, nullable=False),
    PrimaryKeyConstraint("number", name="pk_cap"),
    UniqueConstraint("account", "person", name="uq_cap_person"),
    ForeignKeyConstraint(["account"], ["account.id"], name="fk_cap_account"),
    CheckConstraint("amount >= 0", name="ck_cap_amount"),
    CheckConstraint("used >= 0", name="ck_cap_used"),
    sqlite_strict=True,
)

dataset = Table(
    "dataset",
    metadata,
    Column("number", _Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("rows", _Int),
    Column("created_by", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("archived_at", Text),
    PrimaryKeyConstraint("number", name="pk_dataset"),
    UniqueConstraint("id", name="uq_dataset_id"),
    UniqueConstraint("name", name="uq_dataset_name"),
    ForeignKeyConstraint(["account"], ["account.id"], name="fk_dataset_account"),
    CheckConstraint(
        "(status = 'active' AND archived_at IS NULL)"
        " OR (status = 'archived' AND archived_at IS NOT NULL)",
        name="ck_dataset_status",
    ),
    CheckConstraint("rows IS NULL OR rows >= 0", name="ck_dataset_rows"),
    sqlite_strict=True,
)

# The digests of a data set's rows are a file; this says which bytes it holds.
lineage = Table(
    "lineage",
    metadata,
    Column("dataset", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    PrimaryKeyConstraint("dataset", name="pk_lineage"),
    ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_lineage_dataset"),
    CheckConstraint("length(sha256) = 64", name="ck_lineage_sha256"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

release = Table(
    "release",
    metadata,
    Column("number", _Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("seq", _Int, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", _Int, nullable=False),
    Column("request", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("worker", Text),
    # Last: SQLite walks over a long value page by page to reach what lies behind it, and how
    # long a read takes must not tell whether there is a result yet.
    Column("result_hash", Text),
    Column("result", LargeBinary),
    PrimaryKeyConstraint("number", name="pk_release"),
    UniqueConstraint("id", name="uq_release_id"),
    UniqueConstraint("account", "seq", name="uq_release_charge"),
    ForeignKeyConstraint(
        ["account", "seq"], ["entry.account", "entry.seq"], name="fk_release_charge"
    ),
    ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_release_dataset"),
    CheckConstraint(
        "state IN ('reserved', 'debited', 'released', 'void', 'rejected', 'withdrawn', 'expired')",
        name="ck_release_state",
    ),
    CheckConstraint(
        "(state = 'released') = (result IS NOT NULL) AND (result IS NULL) = (result_hash IS NULL)",
        name="ck_release_result",
    ),
    CheckConstraint("attempts >= 0 AND attempts <= 3", name="ck_release_attempts"),
    sqlite_strict=True,
)

# Results as the chain holds them: leaves in the order of their entries, each of one release.
leaf = Table(
    "leaf",
    metadata,
    Column("number", _Int, nullable=False),
    Column("release", _Int, nullable=False),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_leaf"),
    UniqueConstraint("release", name="uq_leaf_release"),
    CheckConstraint("length(hash) = 64", name="ck_leaf_hash"),
    sqlite_strict=True,
)

# Processes that draw, each alive until its lease ends. A release's ``worker`` names
# one of them without a foreign key: it outlives the process.
worker = Table(
    "worker",
    metadata,
    Column("id", Text, nullable=False),
    Column("lease_until_ms", _Int, nullable=False),
    PrimaryKeyConstraint("id", name="pk_worker"),
    CheckConstraint("lease_until_ms >= 0", name="ck_worker_lease"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Jobs from their charge until the lane that drew them is free again, and how long each may
# take by its public deadline. A release left without a row here is drawn all the same.
job = Table(
    "job",
    metadata,
    Column("number", _Int, nullable=False),
    Column("deadline_s", _Int, nullable=False),
    PrimaryKeyConstraint("number", name="pk_job"),
    ForeignKeyConstraint(["number"], ["release.number"], name="fk_job_release"),
    CheckConstraint("deadline_s >= 1", name="ck_job_deadline"),
    sqlite_strict=True,
)

# What an operator has paused: a person by name, or a data set by id.
pause = Table(
    "pause",
    metadata,
    Column("number", _Int, nullable=False),
    Column("what", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("paused_by", Text, nullable=False),
    Column("paused_at", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_pause"),
    UniqueConstraint("what", "name", name="uq_pause_what"),
    CheckConstraint("what IN ('person', 'dataset')", name="ck_pause_what"),
    sqlite_strict=True,
)

# When a release of each person on each data set was claimed last: the count of all claims.
turn = Table(
    "turn",
    metadata,
    Column("person", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("number", _Int, nullable=False),
    PrimaryKeyConstraint("person", "dataset", name="pk_turn"),
    CheckConstraint("number >= 1", name="ck_turn_number"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# How many bytes each person has had stored on their last day.
allowance = Table(
    "allowance",
    metadata,
    Column("person", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("bytes", _Int, nullable=False),
    PrimaryKeyConstraint("person", name="pk_allowance"),
    CheckConstraint("bytes >= 0", name="ck_allowance_bytes"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# How many requests of a key have been given out to server processes, in the minute that ends then.
rate = Table(
    "rate",
    metadata,
    Column("key_id", Text, nullable=False),
    Column("ends_at_ms", _Int, nullable=False),
    Column("taken", _Int, nullable=False),
    PrimaryKeyConstraint("key_id", name="pk_rate"),
    CheckConstraint("taken >= 0", name="ck_rate_taken"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Uploads under way. Like a release's, the ``worker`` may be gone.
upload = Table(
    "upload",
    metadata,
    Column("dataset", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("begun_at", Text, nullable=False),
    PrimaryKeyConstraint("dataset", name="pk_upload"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

api_key = Table(
    "api_key",
    metadata,
    Column("number", _Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("secret_hash", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text),
    Column("revoked_at", Text),
    PrimaryKeyConstraint("number", name="pk_api_key"),
    UniqueConstraint("id", name="uq_api_key_id"),
    UniqueConstraint("secret_hash", name="uq_api_key_secret_hash"),
    CheckConstraint("role IN ('analyst', 'curator', 'admin')", name="ck_api_key_role"),
    sqlite_strict=True,
)

# When each key was used last, to the minute: beside the ledger, and no part of it.
key_use = Table(
    "key_use",
    metadata,
    Column("key", Text, nullable=False),
    Column("used_at", Text, nullable=False),
    PrimaryKeyConstraint("key", name="pk_key_use"),
    ForeignKeyConstraint(["key"], ["api_key.id"], name="fk_key_use_key"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Lists of one person's or one data set's releases, newest first, and what a restart must settle.
Index("ix_release_principal", release.c.principal, release.c.number)
Index(
    "ix_expiring_due",
    expiring.c.account,
    expiring.c.expires_at,
    sqlite_where=expiring.c.expired_seq.is_(None),
    postgresql_where=expiring.c.expired_seq.is_(None),
)
Index("ix_release_dataset", release.c.dataset, release.c.number)
# What waits for a review, and why something that did was given back.
Index(
    "ix_release_reserved",
    release.c.number,
    sqlite_where=release.c.state == "reserved",
    postgresql_where=release.c.state == "reserved",
)
Index(
    "ix_entry_unreserve",
    entry.c.release,
    sqlite_where=entry.c.kind == "unreserve",
    postgresql_where=entry.c.kind == "unreserve",
)
# Everything but charges and results, which are nearly all there is: few enough for each start.
Index(
    "ix_entry_acts",
    entry.c.account,
    entry.c.kind,
    entry.c.seq,
    sqlite_where=text(ACTS),
    postgresql_where=text(ACTS),
)
Index(
    "ix_release_debited",
    release.c.number,
    sqlite_where=release.c.state == "debited",
    postgresql_where=release.c.state == "debited",
)


@event.listens_for(metadata, "after_create")
def _create_rules(_target: MetaData, connection: Connection, **_options: object) -> None:
    create_rules(connection)
