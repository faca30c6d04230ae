"""The tables of the public log (:mod:`app.store.merkle_log`)."""

from __future__ import annotations

from sqlalchemy import (
    CheckConstraint,
    Column,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)

from app.store.database.metadata import Int, Text, metadata

# Leaves, entries in the order in which they came into the log: each part is of one account, the
# entries after one number up to another. The system account's seals of results are no leaves.
log_part = Table(
    "log_part",
    metadata,
    Column("number", Int, nullable=False),
    Column("account", Text, nullable=False),
    Column("after_seq", Int, nullable=False),
    Column("last_seq", Int, nullable=False),
    Column("leaves_before", Int, nullable=False),
    Column("leaves_after", Int, nullable=False),
    Column("seed", Text, nullable=False),
    Column("hashes", LargeBinary, nullable=False),
    PrimaryKeyConstraint("number", name="pk_log_part"),
    UniqueConstraint("account", "last_seq", name="uq_log_part_account"),
    UniqueConstraint("leaves_before", name="uq_log_part_leaves_before"),
    CheckConstraint(
        "length(seed) = 64 AND length(hashes) = 32 * (leaves_after - leaves_before)"
        " AND leaves_after > leaves_before AND leaves_after - leaves_before <= last_seq - after_seq"
        " AND (number > 1 OR leaves_before = 0)",
        name="ck_log_part_hashes",
    ),
    sqlite_strict=True,
)

# What has been signed of the log: signed notes, each of more leaves than the one before.
log_checkpoint = Table(
    "log_checkpoint",
    metadata,
    Column("size", Int, nullable=False),
    Column("note", Text, nullable=False),
    PrimaryKeyConstraint("size", name="pk_log_checkpoint"),
    sqlite_strict=True,
)

# Time stamps of checkpoints, as an authority outside has answered them (RFC 3161).
log_stamp = Table(
    "log_stamp",
    metadata,
    Column("size", Int, nullable=False),
    Column("stamp", LargeBinary, nullable=False),
    PrimaryKeyConstraint("size", name="pk_log_stamp"),
    sqlite_strict=True,
)
