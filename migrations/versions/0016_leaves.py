"""Results as the chain holds them: leaves, which entries of the system account seal.

What is stored already is sealed by the first start, because its entry needs the ledger's writer.
The rules are written out here and not imported, so that this step stays what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, create_rules

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_LEAF_CONTINUES = """
(NEW.number = 1 OR EXISTS (SELECT 1 FROM leaf WHERE number = NEW.number - 1))
AND NOT EXISTS (SELECT 1 FROM leaf WHERE number = NEW.number OR release = NEW.release)
AND EXISTS (SELECT 1 FROM release WHERE number = NEW.release AND state = 'released')"""

_RULES = (
    Rule("leaf_no_update", "leaf", "UPDATE", None, "leaf: written once"),
    Rule("leaf_no_delete", "leaf", "DELETE", None, "leaf: written once"),
    Rule("leaf_continues", "leaf", "INSERT", _LEAF_CONTINUES, "leaf: not the next one"),
)


def upgrade() -> None:
    """Make the table and its rules."""
    op.create_table(
        "leaf",
        sa.Column("number", _INT, nullable=False),
        sa.Column("release", _INT, nullable=False),
        sa.Column("hash", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_leaf"),
        sa.UniqueConstraint("release", name="uq_leaf_release"),
        sa.CheckConstraint("length(hash) = 64", name="ck_leaf_hash"),
        sqlite_strict=True,
    )
    create_rules(op.get_bind(), _RULES)
