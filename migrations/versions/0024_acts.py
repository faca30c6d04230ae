"""The index of acts names each other kind by a comparison of its own.

SQLite makes a list of ``NOT IN`` anew for each entry that it writes, or checks the index of.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

_ACTS = sa.text(
    "kind <> 'debit' AND kind <> 'reserve' AND kind <> 'unreserve' AND kind <> 'result'"
    " AND kind <> 'checkpoint'"
)


def upgrade() -> None:
    """Make the index anew."""
    op.drop_index("ix_entry_acts", "entry")
    op.create_index(
        "ix_entry_acts",
        "entry",
        ["account", "kind", "seq"],
        sqlite_where=_ACTS,
        postgresql_where=_ACTS,
    )
