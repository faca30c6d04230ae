"""The queue of jobs, and whose turn it was last.

Jobs that wait already get no row: they are drawn all the same, as short ones.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "job",
        sa.Column("number", _INT, nullable=False),
        sa.Column("deadline_s", _INT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_job"),
        sa.ForeignKeyConstraint(["number"], ["release.number"], name="fk_job_release"),
        sa.CheckConstraint("deadline_s >= 1", name="ck_job_deadline"),
        sqlite_strict=True,
    )
    op.create_table(
        "turn",
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("dataset", _TEXT, nullable=False),
        sa.Column("number", _INT, nullable=False),
        sa.PrimaryKeyConstraint("person", "dataset", name="pk_turn"),
        sa.CheckConstraint("number >= 1", name="ck_turn_number"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
