"""When each key was used last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "key_use",
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("used_at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_key_use"),
        sa.ForeignKeyConstraint(["key"], ["api_key.id"], name="fk_key_use_key"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
