"""Sessions of browsers, and forms that were sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "desk_session",
        sa.Column("token_hash", _TEXT, nullable=False),
        sa.Column("key_id", _TEXT, nullable=False),
        sa.Column("began_at_s", _INT, nullable=False),
        sa.Column("seen_at_s", _INT, nullable=False),
        sa.PrimaryKeyConstraint("token_hash", name="pk_desk_session"),
        sa.CheckConstraint("length(token_hash) = 64", name="ck_desk_session_token_hash"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "desk_form",
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("form", _TEXT, nullable=False),
        sa.Column("location", _TEXT),
        sa.Column("at_s", _INT, nullable=False),
        sa.PrimaryKeyConstraint("person", "form", name="pk_desk_form"),
        sa.CheckConstraint("length(form) <= 100", name="ck_desk_form_form"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
