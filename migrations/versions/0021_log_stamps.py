"""Time stamps of the public log's checkpoints, made by an authority outside.

The rules are written out here and not imported, so that this step stays what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, create_rules

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_STAMP_GROWS = """
NOT EXISTS (SELECT 1 FROM log_stamp WHERE size >= NEW.size)
AND EXISTS (SELECT 1 FROM log_checkpoint WHERE size = NEW.size)"""

_RULES = (
    Rule("log_stamp_no_update", "log_stamp", "UPDATE", None, "log_stamp: append-only"),
    Rule("log_stamp_no_delete", "log_stamp", "DELETE", None, "log_stamp: append-only"),
    Rule("log_stamp_grows", "log_stamp", "INSERT", _STAMP_GROWS, "log_stamp: not of a later one"),
)


def upgrade() -> None:
    """Make the table and its rules."""
    op.create_table(
        "log_stamp",
        sa.Column("size", _INT, nullable=False),
        sa.Column("stamp", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("size", name="pk_log_stamp"),
        sqlite_strict=True,
    )
    create_rules(op.get_bind(), _RULES)
