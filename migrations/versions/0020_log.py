"""The public log: a Merkle tree over the ledger's entries, and its signed checkpoints.

What the ledger holds already comes into the log while the service runs. The rules are written out
here and not imported, so that this step stays what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, create_rules

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_ACTS = sa.text("kind NOT IN ('debit', 'reserve', 'unreserve', 'result', 'checkpoint')")

_PART_CONTINUES = """
NOT EXISTS (SELECT 1 FROM log_part WHERE number = NEW.number)
AND (NEW.number = 1 OR EXISTS (
    SELECT 1 FROM log_part AS p
    WHERE p.number = NEW.number - 1 AND p.leaves_after = NEW.leaves_before))
AND NOT EXISTS (
    SELECT 1 FROM log_part AS p WHERE p.account = NEW.account AND p.last_seq > NEW.after_seq)
AND (NEW.after_seq = 0 OR EXISTS (
    SELECT 1 FROM log_part AS p WHERE p.account = NEW.account AND p.last_seq = NEW.after_seq))
AND EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.last_seq)"""

_CHECKPOINT_GROWS = """
NOT EXISTS (SELECT 1 FROM log_checkpoint WHERE size >= NEW.size)
AND EXISTS (SELECT 1 FROM log_part WHERE leaves_after >= NEW.size)"""

_RULES = (
    Rule("log_part_no_update", "log_part", "UPDATE", None, "log_part: append-only"),
    Rule("log_part_no_delete", "log_part", "DELETE", None, "log_part: append-only"),
    Rule("log_part_continues", "log_part", "INSERT", _PART_CONTINUES, "log_part: not the next one"),
    Rule("log_checkpoint_no_update", "log_checkpoint", "UPDATE", None, "log_checkpoint: signed"),
    Rule("log_checkpoint_no_delete", "log_checkpoint", "DELETE", None, "log_checkpoint: signed"),
    Rule(
        "log_checkpoint_grows",
        "log_checkpoint",
        "INSERT",
        _CHECKPOINT_GROWS,
        "log_checkpoint: not of a larger log",
    ),
)


def upgrade() -> None:
    """Make the tables and their rules."""
    op.create_table(
        "log_part",
        sa.Column("number", _INT, nullable=False),
        sa.Column("account", _TEXT, nullable=False),
        sa.Column("after_seq", _INT, nullable=False),
        sa.Column("last_seq", _INT, nullable=False),
        sa.Column("leaves_before", _INT, nullable=False),
        sa.Column("leaves_after", _INT, nullable=False),
        sa.Column("seed", _TEXT, nullable=False),
        sa.Column("hashes", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_log_part"),
        sa.UniqueConstraint("account", "last_seq", name="uq_log_part_account"),
        sa.UniqueConstraint("leaves_before", name="uq_log_part_leaves_before"),
        sa.CheckConstraint(
            "length(seed) = 64 AND length(hashes) = 32 * (leaves_after - leaves_before)"
            " AND leaves_after > leaves_before AND leaves_after - leaves_before <= last_seq - after_seq"
            " AND (number > 1 OR leaves_before = 0)",
            name="ck_log_part_hashes",
        ),
        sqlite_strict=True,
    )
    op.create_table(
        "log_checkpoint",
        sa.Column("size", _INT, nullable=False),
        sa.Column("note", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("size", name="pk_log_checkpoint"),
        sqlite_strict=True,
    )
    create_rules(op.get_bind(), _RULES)
    op.drop_index("ix_entry_acts", "entry")
    op.create_index(
        "ix_entry_acts",
        "entry",
        ["account", "kind", "seq"],
        sqlite_where=_ACTS,
        postgresql_where=_ACTS,
    )
