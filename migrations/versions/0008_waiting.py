"""Finding what waits for a review, and why something that did was given back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_RESERVED = sa.text("state = 'reserved'")
_UNRESERVE = sa.text("kind = 'unreserve'")


def upgrade() -> None:
    op.create_index(
        "ix_release_reserved",
        "release",
        ["number"],
        sqlite_where=_RESERVED,
        postgresql_where=_RESERVED,
    )
    op.create_index(
        "ix_entry_unreserve",
        "entry",
        ["release"],
        sqlite_where=_UNRESERVE,
        postgresql_where=_UNRESERVE,
    )
