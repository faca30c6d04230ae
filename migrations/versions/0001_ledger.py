"""The ledger's tables and triggers, data sets, releases and keys.

The statements are written out here and not imported, so that this step stays
what it was when later ones change the tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_SQLITE_TRIGGERS = (
    """CREATE TRIGGER ledger_no_delete BEFORE DELETE ON ledger BEGIN SELECT RAISE(ABORT, 'ledger: its identity stays'); END""",
    """CREATE TRIGGER ledger_no_replace BEFORE INSERT ON ledger WHEN EXISTS (SELECT 1 FROM ledger) BEGIN SELECT RAISE(ABORT, 'ledger: there is one already'); END""",
    """CREATE TRIGGER ledger_epoch_forward BEFORE UPDATE ON ledger WHEN (
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.created_at = OLD.created_at
AND NEW.epoch > OLD.epoch) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'ledger: only the epoch moves, and only forward'); END""",
    """CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'entry: append-only'); END""",
    """CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN SELECT RAISE(ABORT, 'entry: append-only'); END""",
    """CREATE TRIGGER entry_no_replace BEFORE INSERT ON entry WHEN 
EXISTS (SELECT 1 FROM entry WHERE account = NEW.account AND seq = NEW.seq)
OR EXISTS (SELECT 1 FROM entry WHERE principal = NEW.principal AND idem = NEW.idem) BEGIN SELECT RAISE(ABORT, 'entry: exists already'); END""",
    """CREATE TRIGGER entry_continues BEFORE INSERT ON entry WHEN (
CASE NEW.seq WHEN 1 THEN
    NEW.kind = 'open' AND NEW.prev = '0000000000000000000000000000000000000000000000000000000000000000' AND NEW.total_after = NEW.amount
    AND NEW.spent_after = 0 AND NEW.reserved_after = 0
ELSE EXISTS (
    SELECT 1 FROM entry AS p
    WHERE p.account = NEW.account AND p.seq = NEW.seq - 1 AND p.hash = NEW.prev
    AND p.epoch <= NEW.epoch
    AND CASE NEW.kind
    WHEN 'grant' THEN
        NEW.total_after = p.total_after + NEW.amount
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    WHEN 'expire' THEN
        NEW.total_after = max(p.spent_after + p.reserved_after, p.total_after - NEW.amount)
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    WHEN 'debit' THEN
        NEW.amount > 0 AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after + NEW.amount
        AND NEW.reserved_after IN (p.reserved_after, p.reserved_after - NEW.amount)
    WHEN 'burn' THEN
        NEW.total_after = p.total_after AND NEW.spent_after = p.spent_after + NEW.amount
        AND NEW.reserved_after = p.reserved_after
    WHEN 'reserve' THEN
        NEW.amount > 0 AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after
        AND NEW.reserved_after = p.reserved_after + NEW.amount
    WHEN 'unreserve' THEN
        NEW.total_after = p.total_after AND NEW.spent_after = p.spent_after
        AND NEW.reserved_after = p.reserved_after - NEW.amount
    ELSE
        NEW.account = '0' AND NEW.kind <> 'open' AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    END
) END) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'entry: does not continue its predecessor'); END""",
    """CREATE TRIGGER entry_not_ahead BEFORE INSERT ON entry WHEN (
EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.seq)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'entry: ahead of its account'); END""",
    """CREATE TRIGGER entry_epoch BEFORE INSERT ON entry WHEN (NEW.epoch = (SELECT epoch FROM ledger)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'entry: not of this epoch'); END""",
    """CREATE TRIGGER account_no_delete BEFORE DELETE ON account BEGIN SELECT RAISE(ABORT, 'account: accounts stay'); END""",
    """CREATE TRIGGER account_no_replace BEFORE INSERT ON account WHEN EXISTS (SELECT 1 FROM account WHERE id = NEW.id) BEGIN SELECT RAISE(ABORT, 'account: exists already'); END""",
    """CREATE TRIGGER account_opens_empty BEFORE INSERT ON account WHEN (NEW.seq = 1 AND NEW.spent = 0 AND NEW.reserved = 0) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'account: opens at its first entry'); END""",
    """CREATE TRIGGER account_forward BEFORE UPDATE ON account WHEN (NEW.id = OLD.id AND NEW.seq > OLD.seq AND NEW.spent >= OLD.spent) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'account: spent never decreases and seq moves forward'); END""",
    """CREATE TRIGGER release_no_delete BEFORE DELETE ON release BEGIN SELECT RAISE(ABORT, 'release: releases stay'); END""",
    """CREATE TRIGGER release_no_replace BEFORE INSERT ON release WHEN 
EXISTS (SELECT 1 FROM release WHERE id = NEW.id OR number = NEW.number)
OR EXISTS (SELECT 1 FROM release WHERE account = NEW.account AND seq = NEW.seq) BEGIN SELECT RAISE(ABORT, 'release: exists already'); END""",
    """CREATE TRIGGER release_charged BEFORE INSERT ON release WHEN (
EXISTS (
    SELECT 1 FROM entry AS e
    WHERE e.account = NEW.account AND e.seq = NEW.seq AND e.release = NEW.id
    AND e.fingerprint = NEW.fingerprint AND e.kind = CASE NEW.state
    WHEN 'debited' THEN 'debit' WHEN 'reserved' THEN 'reserve' END)
AND NEW.attempts = (NEW.state = 'debited')) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'release: begins with its charge'); END""",
    """CREATE TRIGGER release_forward BEFORE UPDATE ON release WHEN ((
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.account = OLD.account
AND NEW.dataset = OLD.dataset AND NEW.principal = OLD.principal AND NEW.request = OLD.request
AND NEW.plan = OLD.plan AND NEW.fingerprint = OLD.fingerprint
AND NEW.created_at = OLD.created_at) AND (
CASE OLD.state
WHEN 'reserved' THEN
    NEW.seq = OLD.seq AND NEW.attempts = 0 AND NEW.state IN ('rejected', 'withdrawn', 'expired')
    OR NEW.seq > OLD.seq AND NEW.attempts = 1 AND NEW.state = 'debited'
WHEN 'debited' THEN
    NEW.seq = OLD.seq AND (
        NEW.state = 'debited' AND NEW.attempts = OLD.attempts + 1
        OR NEW.state IN ('released', 'void') AND NEW.attempts = OLD.attempts)
ELSE FALSE END)) IS NOT TRUE BEGIN SELECT RAISE(ABORT, 'release: states only move forward'); END""",
)


def upgrade() -> None:
    op.create_table(
        "ledger",
        sa.Column("number", _INT, nullable=False),
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("epoch", _INT, nullable=False),
        sa.Column("created_at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_ledger"),
        sa.CheckConstraint("number = 1", name="ck_ledger_only_one"),
        sa.CheckConstraint("epoch >= 1", name="ck_ledger_epoch"),
        sqlite_strict=True,
    )
    op.create_table(
        "entry",
        sa.Column("account", _TEXT, nullable=False),
        sa.Column("seq", _INT, nullable=False),
        sa.Column("epoch", _INT, nullable=False),
        sa.Column("kind", _TEXT, nullable=False),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("release", _TEXT),
        sa.Column("idem", _TEXT),
        sa.Column("fingerprint", _TEXT),
        sa.Column("note", _TEXT),
        sa.Column("amount", _INT, nullable=False),
        sa.Column("total_after", _INT, nullable=False),
        sa.Column("spent_after", _INT, nullable=False),
        sa.Column("reserved_after", _INT, nullable=False),
        sa.Column("at", _TEXT, nullable=False),
        sa.Column("prev", _TEXT, nullable=False),
        sa.Column("hash", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("account", "seq", name="pk_entry"),
        sa.UniqueConstraint("principal", "idem", name="uq_entry_idem"),
        sa.UniqueConstraint(
            "account",
            "seq",
            "total_after",
            "spent_after",
            "reserved_after",
            "hash",
            name="uq_entry_balance",
        ),
        sa.CheckConstraint("seq >= 1", name="ck_entry_seq"),
        sa.CheckConstraint(
            "amount >= 0 AND spent_after >= 0 AND reserved_after >= 0"
            " AND spent_after + reserved_after <= total_after",
            name="ck_entry_within_total",
        ),
        sa.CheckConstraint(
            "CASE WHEN account = '0' THEN amount = 0 AND total_after = 0 AND kind NOT IN"
            " ('grant', 'expire', 'debit', 'reserve', 'unreserve', 'burn')"
            " ELSE kind IN ('open', 'grant', 'expire', 'debit', 'reserve', 'unreserve', 'burn') END",
            name="ck_entry_kind",
        ),
        sa.CheckConstraint(
            "(idem IS NULL OR kind IN ('debit', 'reserve'))"
            " AND (kind NOT IN ('debit', 'reserve', 'unreserve')"
            " OR (release IS NOT NULL AND fingerprint IS NOT NULL))",
            name="ck_entry_release",
        ),
        sa.CheckConstraint("length(prev) = 64 AND length(hash) = 64", name="ck_entry_hash"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "account",
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("seq", _INT, nullable=False),
        sa.Column("total", _INT, nullable=False),
        sa.Column("spent", _INT, nullable=False),
        sa.Column("reserved", _INT, nullable=False),
        sa.Column("head", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_account"),
        sa.CheckConstraint("seq >= 1", name="ck_account_seq"),
        sa.CheckConstraint(
            "spent >= 0 AND reserved >= 0 AND spent + reserved <= total",
            name="ck_account_within_total",
        ),
        sa.ForeignKeyConstraint(
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
    op.create_table(
        "dataset",
        sa.Column("number", _INT, nullable=False),
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("account", _TEXT, nullable=False),
        sa.Column("spec", _TEXT, nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("rows", _INT),
        sa.Column("created_by", _TEXT, nullable=False),
        sa.Column("created_at", _TEXT, nullable=False),
        sa.Column("archived_at", _TEXT),
        sa.PrimaryKeyConstraint("number", name="pk_dataset"),
        sa.UniqueConstraint("id", name="uq_dataset_id"),
        sa.UniqueConstraint("name", name="uq_dataset_name"),
        sa.ForeignKeyConstraint(["account"], ["account.id"], name="fk_dataset_account"),
        sa.CheckConstraint(
            "(status = 'active' AND archived_at IS NULL)"
            " OR (status = 'archived' AND archived_at IS NOT NULL)",
            name="ck_dataset_status",
        ),
        sa.CheckConstraint("rows IS NULL OR rows >= 0", name="ck_dataset_rows"),
        sqlite_strict=True,
    )
    op.create_table(
        "release",
        sa.Column("number", _INT, nullable=False),
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("account", _TEXT, nullable=False),
        sa.Column("seq", _INT, nullable=False),
        sa.Column("dataset", _TEXT, nullable=False),
        sa.Column("principal", _TEXT, nullable=False),
        sa.Column("state", _TEXT, nullable=False),
        sa.Column("attempts", _INT, nullable=False),
        sa.Column("request", _TEXT, nullable=False),
        sa.Column("plan", _TEXT, nullable=False),
        sa.Column("fingerprint", _TEXT, nullable=False),
        sa.Column("result", sa.LargeBinary),
        sa.Column("result_hash", _TEXT),
        sa.Column("created_at", _TEXT, nullable=False),
        sa.Column("finished_at", _TEXT),
        sa.PrimaryKeyConstraint("number", name="pk_release"),
        sa.UniqueConstraint("id", name="uq_release_id"),
        sa.UniqueConstraint("account", "seq", name="uq_release_charge"),
        sa.ForeignKeyConstraint(
            ["account", "seq"], ["entry.account", "entry.seq"], name="fk_release_charge"
        ),
        sa.ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_release_dataset"),
        sa.CheckConstraint(
            "state IN ('reserved', 'debited', 'released', 'void', 'rejected', 'withdrawn', 'expired')",
            name="ck_release_state",
        ),
        sa.CheckConstraint(
            "(state = 'released') = (result IS NOT NULL) AND (result IS NULL) = (result_hash IS NULL)",
            name="ck_release_result",
        ),
        sa.CheckConstraint("attempts >= 0 AND attempts <= 3", name="ck_release_attempts"),
        sqlite_strict=True,
    )
    op.create_table(
        "api_key",
        sa.Column("number", _INT, nullable=False),
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("role", _TEXT, nullable=False),
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("secret_hash", _TEXT, nullable=False),
        sa.Column("created_by", _TEXT, nullable=False),
        sa.Column("created_at", _TEXT, nullable=False),
        sa.Column("expires_at", _TEXT),
        sa.Column("revoked_at", _TEXT),
        sa.PrimaryKeyConstraint("number", name="pk_api_key"),
        sa.UniqueConstraint("id", name="uq_api_key_id"),
        sa.UniqueConstraint("secret_hash", name="uq_api_key_secret_hash"),
        sa.CheckConstraint("role IN ('analyst', 'curator', 'admin')", name="ck_api_key_role"),
        sqlite_strict=True,
    )
    op.create_index("ix_release_principal", "release", ["principal", "number"])
    op.create_index("ix_release_dataset", "release", ["dataset", "number"])
    op.create_index(
        "ix_release_debited",
        "release",
        ["number"],
        sqlite_where=sa.text("state = 'debited'"),
        postgresql_where=sa.text("state = 'debited'"),
    )
    if op.get_bind().dialect.name == "sqlite":
        for statement in _SQLITE_TRIGGERS:
            op.get_bind().exec_driver_sql(statement)
