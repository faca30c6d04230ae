"""The digests of uploads' rows, registered; data sets guarded as the ledger is.

The conditions are written out here and not imported, so that this step stays
what it was when later ones change the rules.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, create_rules

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_DATASET_IS_NEW = """
NOT EXISTS (SELECT 1 FROM dataset WHERE id = NEW.id OR name = NEW.name OR number = NEW.number)"""

_SAME_DATASET_IS_ARCHIVED = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name
AND NEW.account = OLD.account AND NEW.spec = OLD.spec AND NEW.rows IS NOT DISTINCT FROM OLD.rows
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND OLD.status = 'active' AND NEW.status = 'archived'"""

_RULES = (
    Rule("dataset_no_delete", "dataset", "DELETE", None, "dataset: data sets stay"),
    Rule("dataset_no_replace", "dataset", "INSERT", _DATASET_IS_NEW, "dataset: exists already"),
    Rule(
        "dataset_archived_once",
        "dataset",
        "UPDATE",
        _SAME_DATASET_IS_ARCHIVED,
        "dataset: only archiving changes it",
    ),
    Rule("lineage_no_update", "lineage", "UPDATE", None, "lineage: written once"),
    Rule("lineage_no_delete", "lineage", "DELETE", None, "lineage: written once"),
    Rule(
        "lineage_no_replace",
        "lineage",
        "INSERT",
        "NOT EXISTS (SELECT 1 FROM lineage WHERE dataset = NEW.dataset)",
        "lineage: written once",
    ),
)


def upgrade() -> None:
    """Make the table and its rules, and guard data sets."""
    op.create_table(
        "lineage",
        sa.Column("dataset", _TEXT, nullable=False),
        sa.Column("sha256", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("dataset", name="pk_lineage"),
        sa.ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_lineage_dataset"),
        sa.CheckConstraint("length(sha256) = 64", name="ck_lineage_sha256"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    create_rules(op.get_bind(), _RULES)
