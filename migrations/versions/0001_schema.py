"""The schema of version 0.2.0: every table, index and trigger.

The statements are in a file per database next to this one, and not imported, so that this step stays
what it was when later ones change the tables.
"""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create everything."""
    connection = op.get_bind()
    file = Path(__file__).with_name(f"0001_{connection.dialect.name}.sql")
    _, *statements = file.read_text("utf-8").strip().split("\n\n")
    for statement in statements:
        connection.exec_driver_sql(statement)
