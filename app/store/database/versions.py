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

# Versions of one ``first`` data set follow one another: ``earlier`` is extended again only where
# the version that extended it is deleted. No number is given twice.
version = Table(
    "version",
    metadata,
    Column("dataset", Text, nullable=False),
    Column("earlier", Text, nullable=False),
    Column("first", Text, nullable=False),
    Column("number", Int, nullable=False),
    PrimaryKeyConstraint("dataset", name="pk_version"),
    UniqueConstraint("first", "number", name="uq_version_number"),
    ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_version_dataset"),
    ForeignKeyConstraint(["earlier"], ["dataset.id"], name="fk_version_earlier"),
    ForeignKeyConstraint(["first"], ["dataset.id"], name="fk_version_first"),
    CheckConstraint("number >= 2", name="ck_version_number"),
    sqlite_strict=True,
)
