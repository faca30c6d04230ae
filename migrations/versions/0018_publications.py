"""Releases that are public, and those that have been."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "publication",
        sa.Column("number", _INT, nullable=False),
        sa.Column("release", _TEXT, nullable=False),
        sa.Column("seq", _INT, nullable=False),
        sa.Column("dataset", _TEXT, nullable=False),
        sa.Column("kinds", _TEXT, nullable=False),
        sa.Column("words", _TEXT, nullable=False),
        sa.Column("reason", _TEXT, nullable=False),
        sa.Column("published_by", _TEXT, nullable=False),
        sa.Column("published_at", _TEXT, nullable=False),
        sa.Column("note", _TEXT),
        sa.Column("withdrawn_by", _TEXT),
        sa.Column("withdrawn_at", _TEXT),
        sa.PrimaryKeyConstraint("number", name="pk_publication"),
        sa.UniqueConstraint("release", name="uq_publication_release"),
        sa.ForeignKeyConstraint(["release"], ["release.id"], name="fk_publication_release"),
        sa.CheckConstraint(
            "(note IS NULL) = (withdrawn_at IS NULL)"
            " AND (withdrawn_by IS NULL) = (withdrawn_at IS NULL)",
            name="ck_publication_withdrawn",
        ),
        sqlite_strict=True,
    )
