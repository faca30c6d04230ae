"""The table of what is public: a row for each release that has ever been published.

``seq`` is that of the system account's entry. ``kinds`` and ``words`` are what a search
finds it by, made of public facts: no record. All else is what the entries say.
"""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)

from app.store.database.metadata import Int, Text, metadata

publication = Table(
    "publication",
    metadata,
    Column("number", Int, nullable=False),
    Column("release", Text, nullable=False),
    Column("seq", Int, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("kinds", Text, nullable=False),
    Column("words", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("published_by", Text, nullable=False),
    Column("published_at", Text, nullable=False),
    Column("note", Text),
    Column("withdrawn_by", Text),
    Column("withdrawn_at", Text),
    PrimaryKeyConstraint("number", name="pk_publication"),
    UniqueConstraint("release", name="uq_publication_release"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_publication_release"),
    CheckConstraint(
        "(note IS NULL) = (withdrawn_at IS NULL)"
        " AND (withdrawn_by IS NULL) = (withdrawn_at IS NULL)",
        name="ck_publication_withdrawn",
    ),
    sqlite_strict=True,
)
