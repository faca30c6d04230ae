"""Data sets that extend others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "version",
        sa.Column("dataset", _TEXT, nullable=False),
        sa.Column("earlier", _TEXT, nullable=False),
        sa.Column("first", _TEXT, nullable=False),
        sa.Column("number", _INT, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_version"),
        sa.UniqueConstraint("earlier", name="uq_version_earlier"),
        sa.UniqueConstraint("first", "number", name="uq_version_number"),
        sa.ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_version_dataset"),
        sa.ForeignKeyConstraint(["earlier"], ["dataset.id"], name="fk_version_earlier"),
        sa.ForeignKeyConstraint(["first"], ["dataset.id"], name="fk_version_first"),
        sa.CheckConstraint("number >= 2", name="ck_version_number"),
        sqlite_strict=True,
    )
