"""How many bytes each person has had stored on their last day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "allowance",
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("day", _TEXT, nullable=False),
        sa.Column("bytes", _INT, nullable=False),
        sa.PrimaryKeyConstraint("person", name="pk_allowance"),
        sa.CheckConstraint("bytes >= 0", name="ck_allowance_bytes"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
