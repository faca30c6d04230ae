"""The table of versions: data sets that hold the rows of an earlier one and more."""

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

# ``earlier`` is extended once only, so versions of one ``first`` data set follow one another.
version = Table(
    "version",
    metadata,
    Column("dataset", Text, nullable=False),
    Column("earlier", Text, nullable=False),
    Column("first", Text, nullable=False),
    Column("number", Int, nullable=False),
    PrimaryKeyConstraint("dataset", name="pk_version"),
    UniqueConstraint("earlier", name="uq_version_earlier"),
    UniqueConstraint("first", "number", name="uq_version_number"),
    ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_version_dataset"),
    ForeignKeyConstraint(["earlier"], ["dataset.id"], name="fk_version_earlier"),
    ForeignKeyConstraint(["first"], ["dataset.id"], name="fk_version_first"),
    CheckConstraint("number >= 2", name="ck_version_number"),
    sqlite_strict=True,
)
