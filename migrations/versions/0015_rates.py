"""How many requests of each key have been given out in its minute."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "rate",
        sa.Column("key_id", _TEXT, nullable=False),
        sa.Column("ends_at_ms", _INT, nullable=False),
        sa.Column("taken", _INT, nullable=False),
        sa.PrimaryKeyConstraint("key_id", name="pk_rate"),
        sa.CheckConstraint("taken >= 0", name="ck_rate_taken"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
