"""Uploads under way, so that what a killed server leaves of one is known and can be removed."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "upload",
        sa.Column("dataset", _TEXT, nullable=False),
        sa.Column("worker", _TEXT, nullable=False),
        sa.Column("begun_at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_upload"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
