"""Grants that end, and slices of an account.

The conditions are written out here and not imported, so that this step stays
what it was when later ones change the rules.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, create_rules

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_EXPIRING_GRANT = """
NEW.expired_seq IS NULL
AND NOT EXISTS (SELECT 1 FROM expiring WHERE account = NEW.account AND seq = NEW.seq)
AND EXISTS (
    SELECT 1 FROM entry AS g
    WHERE g.account = NEW.account AND g.seq = NEW.seq AND g.kind = 'grant'
    AND g.amount = NEW.amount AND g.fingerprint IS NOT NULL)"""

_SAME_GRANT_HAS_EXPIRED = """
NEW.account = OLD.account AND NEW.seq = OLD.seq AND NEW.amount = OLD.amount
AND NEW.expires_at = OLD.expires_at AND OLD.expired_seq IS NULL
AND EXISTS (
    SELECT 1 FROM entry AS e JOIN entry AS g ON g.account = e.account AND g.hash = e.fingerprint
    WHERE e.account = NEW.account AND e.seq = NEW.expired_seq AND e.kind = 'expire'
    AND g.seq = NEW.seq)"""

_SAME_SLICE = """
NEW.number = OLD.number AND NEW.account = OLD.account AND NEW.person = OLD.person"""

_RULES = (
    Rule("expiring_no_delete", "expiring", "DELETE", None, "expiring: grants stay"),
    Rule("expiring_grant", "expiring", "INSERT", _EXPIRING_GRANT, "expiring: begins as a grant"),
    Rule(
        "expiring_once",
        "expiring",
        "UPDATE",
        _SAME_GRANT_HAS_EXPIRED,
        "expiring: a grant expires once, by its entry",
    ),
    Rule("cap_no_delete", "cap", "DELETE", None, "cap: slices stay"),
    Rule(
        "cap_no_replace",
        "cap",
        "INSERT",
        "NOT EXISTS (SELECT 1 FROM cap WHERE number = NEW.number)"
        " AND NOT EXISTS (SELECT 1 FROM cap WHERE account = NEW.account AND person = NEW.person)",
        "cap: exists already",
    ),
    Rule("cap_same_slice", "cap", "UPDATE", _SAME_SLICE, "cap: slices stay with their persons"),
)


def upgrade() -> None:
    """Make both tables and their rules."""
    op.create_table(
        "expiring",
        sa.Column("account", _TEXT, nullable=False),
        sa.Column("seq", _INT, nullable=False),
        sa.Column("amount", _INT, nullable=False),
        sa.Column("expires_at", _TEXT, nullable=False),
        sa.Column("expired_seq", _INT),
        sa.PrimaryKeyConstraint("account", "seq", name="pk_expiring"),
        sa.ForeignKeyConstraint(
            ["account", "seq"], ["entry.account", "entry.seq"], name="fk_expiring_grant"
        ),
        sa.ForeignKeyConstraint(
            ["account", "expired_seq"], ["entry.account", "entry.seq"], name="fk_expiring_expired"
        ),
        sa.CheckConstraint("amount > 0 AND expired_seq > seq", name="ck_expiring"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "cap",
        sa.Column("number", _INT, nullable=False),
        sa.Column("account", _TEXT, nullable=False),
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("amount", _INT),
        sa.Column("used", _INT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_cap"),
        sa.UniqueConstraint("account", "person", name="uq_cap_person"),
        sa.ForeignKeyConstraint(["account"], ["account.id"], name="fk_cap_account"),
        sa.CheckConstraint("amount >= 0", name="ck_cap_amount"),
        sa.CheckConstraint("used >= 0", name="ck_cap_used"),
        sqlite_strict=True,
    )
    op.create_index(
        "ix_expiring_due",
        "expiring",
        ["account", "expires_at"],
        sqlite_where=sa.text("expired_seq IS NULL"),
        postgresql_where=sa.text("expired_seq IS NULL"),
    )
    create_rules(op.get_bind(), _RULES)
