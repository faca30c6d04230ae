"""The name of an archived data set may be given to another one.

SQLite cannot drop a table's constraint, so the table is made anew there, with its rows and rules.
The rules are written out here and not imported, so that this step stays what it was.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, create_rules, replace_rules

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ACTIVE = sa.text("status = 'active'")

_IS_NEW = """
NOT EXISTS (SELECT 1 FROM dataset WHERE id = NEW.id OR number = NEW.number)
AND NOT EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name AND status = 'active')"""

_IS_ARCHIVED = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name
AND NEW.account = OLD.account AND NEW.spec = OLD.spec AND NEW.rows IS NOT DISTINCT FROM OLD.rows
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND OLD.status = 'active' AND NEW.status = 'archived'"""

_NEW = Rule("dataset_no_replace", "dataset", "INSERT", _IS_NEW, "dataset: exists already")
_OTHERS = (
    Rule("dataset_no_delete", "dataset", "DELETE", None, "dataset: data sets stay"),
    Rule(
        "dataset_archived_once",
        "dataset",
        "UPDATE",
        _IS_ARCHIVED,
        "dataset: only archiving changes it",
    ),
)


def upgrade() -> None:
    """Make names unique among the data sets that are not archived."""
    connection = op.get_bind()
    if connection.dialect.name == "postgresql":
        op.drop_constraint("uq_dataset_name", "dataset")
        replace_rules(connection, (_NEW,))
    else:
        _make_anew(connection)
    op.create_index(
        "ix_dataset_name",
        "dataset",
        ["name"],
        unique=True,
        sqlite_where=_ACTIVE,
        postgresql_where=_ACTIVE,
    )


def _make_anew(connection: sa.Connection) -> None:
    # what refers to a data set is looked at once more, at the end of the transaction
    connection.exec_driver_sql("PRAGMA defer_foreign_keys = ON")
    connection.exec_driver_sql("CREATE TEMPORARY TABLE kept AS SELECT * FROM dataset")
    op.drop_table("dataset")
    op.create_table(
        "dataset",
        sa.Column("number", _INT, nullable=False),
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("name", _TEXT, nullable=False),
        sa.Column("account", _TEXT, nullable=False),
        sa.Column("spec", _TEXT, nullable=False),
        sa.Column("status", _TEXT, nullable=False),
        sa.Column("rows", _INT),
        sa.Column("created_by", _TEXT, nullable=False),
        sa.Column("created_at", _TEXT, nullable=False),
        sa.Column("archived_at", _TEXT),
        sa.PrimaryKeyConstraint("number", name="pk_dataset"),
        sa.UniqueConstraint("id", name="uq_dataset_id"),
        sa.ForeignKeyConstraint(["account"], ["account.id"], name="fk_dataset_account"),
        sa.CheckConstraint(
            "(status = 'active' AND archived_at IS NULL)"
            " OR (status = 'archived' AND archived_at IS NOT NULL)",
            name="ck_dataset_status",
        ),
        sa.CheckConstraint("rows IS NULL OR rows >= 0", name="ck_dataset_rows"),
        sqlite_strict=True,
    )
    connection.exec_driver_sql("INSERT INTO dataset SELECT * FROM temp.kept ORDER BY number")
    connection.exec_driver_sql("DROP TABLE temp.kept")
    create_rules(connection, (*_OTHERS, _NEW))
