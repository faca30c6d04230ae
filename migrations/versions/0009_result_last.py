"""The result comes last in a release's row, on SQLite.

SQLite walks over a long value page by page to reach the columns behind it: how long
it took to read when a release began told whether it had a result. PostgreSQL keeps
long values elsewhere, so the order of its columns may stay what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_COLUMNS = (
    "number, id, account, seq, dataset, principal, state, attempts, request, plan, fingerprint,"
    " created_at, finished_at, worker, result_hash, result"
)
_TRIGGERS = sa.text(
    "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    " AND (tbl_name = 'release' OR sql LIKE '%release%') ORDER BY rowid"
)
_INDEXES = sa.text(
    "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'release'"
    " AND sql IS NOT NULL ORDER BY rowid"
)


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        return
    # They are put back word for word: what guards the ledger is not this step's to say.
    triggers = connection.execute(_TRIGGERS).all()
    indexes = connection.execute(_INDEXES).all()
    for trigger in triggers:
        connection.exec_driver_sql(f'DROP TRIGGER "{trigger.name}"')
    op.rename_table("release", "release_before")
    _create_release()
    connection.exec_driver_sql(
        f"INSERT INTO release ({_COLUMNS}) SELECT {_COLUMNS} FROM release_before ORDER BY number"
    )
    op.drop_table("release_before")
    for made in (*indexes, *triggers):
        connection.exec_driver_sql(made.sql)


def _create_release() -> None:
    op.create_table(
        "release",
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("account", sa.Text, nullable=False),
        sa.Column("seq", sa.Integer, nullable=False),
        sa.Column("dataset", sa.Text, nullable=False),
        sa.Column("principal", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("request", sa.Text, nullable=False),
        sa.Column("plan", sa.Text, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("created_at", sa.Text, nullable=False),
        sa.Column("finished_at", sa.Text),
        sa.Column("worker", sa.Text),
        sa.Column("result_hash", sa.Text),
        sa.Column("result", sa.LargeBinary),
        sa.PrimaryKeyConstraint("number", name="pk_release"),
        sa.UniqueConstraint("id", name="uq_release_id"),
        sa.UniqueConstraint("account", "seq", name="uq_release_charge"),
        sa.ForeignKeyConstraint(
            ["account", "seq"], ["entry.account", "entry.seq"], name="fk_release_charge"
        ),
        sa.ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_release_dataset"),
        sa.CheckConstraint(
            "state IN"
            " ('reserved', 'debited', 'released', 'void', 'rejected', 'withdrawn', 'expired')",
            name="ck_release_state",
        ),
        sa.CheckConstraint(
            "(state = 'released') = (result IS NOT NULL)"
            " AND (result IS NULL) = (result_hash IS NULL)",
            name="ck_release_result",
        ),
        sa.CheckConstraint("attempts >= 0 AND attempts <= 3", name="ck_release_attempts"),
        sqlite_strict=True,
    )
