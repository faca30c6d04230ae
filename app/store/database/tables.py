"""All tables, those of the ledger here. Every rule a CHECK can state is a named CHECK of a table.

Rules between rows are triggers (:mod:`app.store.database.rules`). Integers are 64 bits; text is
never truncated; times are ISO 8601 in UTC.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    Connection,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    event,
    text,
)

from app.store.database.rules import create_rules
from app.store.database.side_tables import (
    Int,
    Text,
    allowance,
    comment,
    dataset_edit,
    delivery,
    desk_form,
    desk_session,
    job,
    key_use,
    log_checkpoint,
    log_part,
    log_stamp,
    metadata,
    notice,
    notice_read,
    pause,
    plan_revision,
    plan_vote,
    publication,
    rate,
    review,
    revision,
    sight,
    study_plan,
    turn,
    upload,
    version,
    vote,
    worker,
)

__all__ = [
    "ACTS", "ENDED", "account", "allowance", "api_key", "cap", "comment", "dataset", "dataset_edit",
    "delivery", "desk_form", "desk_session", "entry", "expiring", "job", "key_use", "leaf",
    "ledger", "lineage", "log_checkpoint", "log_part", "log_stamp", "metadata", "notice",
    "notice_read", "pause", "plan_revision", "plan_vote", "publication", "rate", "release",
    "review", "revision", "sight", "study_plan", "turn", "upload", "version", "vote", "worker",
]  # fmt: skip

ACTS = (
    "kind <> 'debit' AND kind <> 'reserve' AND kind <> 'unreserve' AND kind <> 'result'"
    " AND kind <> 'checkpoint'"
)
"""Of an entry: it is none of those that make up nearly the whole ledger.

Not a list, which SQLite would make again for each entry that it writes or checks.
"""

ENDED = "state <> 'reserved' AND state <> 'debited' AND state <> 'released'"
"""Of a release: it has ended without a result, as few do."""

ledger = Table(
    "ledger",
    metadata,
    Column("number", Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("epoch", Int, nullable=False),
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
    Column("seq", Int, nullable=False),
    Column("epoch", Int, nullable=False),
    Column("kind", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("release", Text),
    Column("idem", Text),
    Column("fingerprint", Text),
    Column("note", Text),
    Column("amount", Int, nullable=False),
    Column("total_after", Int, nullable=False),
    Column("spent_after", Int, nullable=False),
    Column("reserved_after", Int, nullable=False),
    Column("at", Text, nullable=False),
    Column("prev", Text, nullable=False),
    Column("hash", Text, nullable=False),
    # What made it: the service itself has no key.
    Column("key", Text),
    Column("role", Text, nullable=False),
    PrimaryKeyConstraint("account", "seq", name="pk_entry"),
    # NULLs are all different: only debits and reserves have a key. Nothing but
    # what the account's foreign key refers to.
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
    Column("seq", Int, nullable=False),
    Column("total", Int, nullable=False),
    Column("spent", Int, nullable=False),
    Column("reserved", Int, nullable=False),
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
    Column("seq", Int, nullable=False),
    Column("amount", Int, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("expired_seq", Int),
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
    Column("number", Int, nullable=False),
    Column("account", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("amount", Int),
    Column("used", Int, nullable=False),
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
    Column("number", Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("spec", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("rows", Int),
    Column("created_by", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("archived_at", Text),
    Column("sorts_as", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_dataset"),
    UniqueConstraint("id", name="uq_dataset_id"),
    ForeignKeyConstraint(["account"], ["account.id"], name="fk_dataset_account"),
    CheckConstraint(
        "(status = 'active' AND archived_at IS NULL)"
        " OR (status IN ('archived', 'deleted') AND archived_at IS NOT NULL)",
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
    Column("number", Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("seq", Int, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("principal", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Int, nullable=False),
    Column("request", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("finished_at", Text),
    Column("worker", Text),
    # Last: SQLite walks over a long value page by page to reach what lies behind it, and how
    # long a read takes must not reveal whether there is a result yet.
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
    Column("number", Int, nullable=False),
    Column("release", Int, nullable=False),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_leaf"),
    UniqueConstraint("release", name="uq_leaf_release"),
    CheckConstraint("length(hash) = 64", name="ck_leaf_hash"),
    sqlite_strict=True,
)

api_key = Table(
    "api_key",
    metadata,
    Column("number", Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("secret_hash", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("expires_at", Text),
    Column("revoked_at", Text),
    Column("sorts_as", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_api_key"),
    UniqueConstraint("id", name="uq_api_key_id"),
    UniqueConstraint("secret_hash", name="uq_api_key_secret_hash"),
    CheckConstraint(
        "role IN ('metrics', 'auditor', 'analyst', 'reviewer', 'curator', 'admin')",
        name="ck_api_key_role",
    ),
    sqlite_strict=True,
)

# Lists of one person's or one data set's releases, newest first, and what a restart must settle.
# A name belongs to one data set at a time: an archived or deleted one has lost it.
Index(
    "ix_dataset_name",
    dataset.c.name,
    unique=True,
    sqlite_where=text("status = 'active'"),
    postgresql_where=text("status = 'active'"),
)
# Lists that people sort by name: by what :func:`app.domain.access.sorts_as` makes of it.
Index("ix_dataset_sorted", dataset.c.sorts_as, dataset.c.number)
Index("ix_api_key_sorted", api_key.c.sorts_as, api_key.c.number)
Index("ix_release_principal", release.c.principal, release.c.number)
Index(
    "ix_expiring_due",
    expiring.c.account,
    expiring.c.expires_at,
    sqlite_where=expiring.c.expired_seq.is_(None),
    postgresql_where=expiring.c.expired_seq.is_(None),
)
Index("ix_dataset_account", dataset.c.account, dataset.c.number)
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
# Everything but charges, results and checkpoints, which are nearly all there is: few enough for
# each start.
Index(
    "ix_entry_acts",
    entry.c.account,
    entry.c.kind,
    entry.c.seq,
    sqlite_where=text(ACTS),
    postgresql_where=text(ACTS),
)
# The ledger as people read it, newest first.
Index("ix_entry_at", entry.c.at)
# What has ended without a result, which little does.
Index(
    "ix_release_ended",
    release.c.state,
    release.c.number,
    sqlite_where=text(ENDED),
    postgresql_where=text(ENDED),
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
