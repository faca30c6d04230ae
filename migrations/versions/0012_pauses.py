"""People and data sets that an operator has paused."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "pause",
        sa.Column("number", _INT, nullable=False),
        sa.Column("what", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("reason", _TEXT, nullable=False),
        sa.Column("paused_by", _TEXT, nullable=False),
        sa.Column("paused_at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_pause"),
        sa.UniqueConstraint("what", "name", name="uq_pause_what"),
        sa.CheckConstraint("what IN ('person', 'dataset')", name="ck_pause_what"),
        sqlite_strict=True,
    )
