"""Tables next to the ledger: work under way, what is counted, and browsers.

Nothing here is evidence of anything, but for pauses, of which the ledger has entries.
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

# Processes that draw, each alive until its lease ends. A release's ``worker`` names
# one of them without a foreign key: it outlives the process.
worker = Table(
    "worker",
    metadata,
    Column("id", Text, nullable=False),
    Column("lease_until_ms", Int, nullable=False),
    PrimaryKeyConstraint("id", name="pk_worker"),
    CheckConstraint("lease_until_ms >= 0", name="ck_worker_lease"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Jobs from their charge until the lane that drew them is free again, and how long each may
# take by its public deadline. A release left without a row here is drawn all the same.
job = Table(
    "job",
    metadata,
    Column("number", Int, nullable=False),
    Column("deadline_s", Int, nullable=False),
    PrimaryKeyConstraint("number", name="pk_job"),
    ForeignKeyConstraint(["number"], ["release.number"], name="fk_job_release"),
    CheckConstraint("deadline_s >= 1", name="ck_job_deadline"),
    sqlite_strict=True,
)

# What an operator has paused: a person by name, or a data set by id.
pause = Table(
    "pause",
    metadata,
    Column("number", Int, nullable=False),
    Column("what", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("paused_by", Text, nullable=False),
    Column("paused_at", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_pause"),
    UniqueConstraint("what", "name", name="uq_pause_what"),
    CheckConstraint("what IN ('person', 'dataset')", name="ck_pause_what"),
    sqlite_strict=True,
)

# When a release of each person on each data set was claimed last: the count of all claims.
turn = Table(
    "turn",
    metadata,
    Column("person", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("number", Int, nullable=False),
    PrimaryKeyConstraint("person", "dataset", name="pk_turn"),
    CheckConstraint("number >= 1", name="ck_turn_number"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# How many bytes each person has had stored on their last day.
allowance = Table(
    "allowance",
    metadata,
    Column("person", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("bytes", Int, nullable=False),
    PrimaryKeyConstraint("person", name="pk_allowance"),
    CheckConstraint("bytes >= 0", name="ck_allowance_bytes"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# How many requests of a key have been given out to server processes, in the minute that ends then.
rate = Table(
    "rate",
    metadata,
    Column("key_id", Text, nullable=False),
    Column("ends_at_ms", Int, nullable=False),
    Column("taken", Int, nullable=False),
    PrimaryKeyConstraint("key_id", name="pk_rate"),
    CheckConstraint("taken >= 0", name="ck_rate_taken"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Uploads under way. Like a release's, the ``worker`` may be gone.
upload = Table(
    "upload",
    metadata,
    Column("dataset", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("begun_at", Text, nullable=False),
    PrimaryKeyConstraint("dataset", name="pk_upload"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# When each key was used last, to the minute: next to the ledger, and no part of it.
key_use = Table(
    "key_use",
    metadata,
    Column("key", Text, nullable=False),
    Column("used_at", Text, nullable=False),
    PrimaryKeyConstraint("key", name="pk_key_use"),
    ForeignKeyConstraint(["key"], ["api_key.id"], name="fk_key_use_key"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Browsers that are signed in: the key by which, and when they began and were last heard of.
desk_session = Table(
    "desk_session",
    metadata,
    Column("token_hash", Text, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("began_at_s", Int, nullable=False),
    Column("seen_at_s", Int, nullable=False),
    PrimaryKeyConstraint("token_hash", name="pk_desk_session"),
    CheckConstraint("length(token_hash) = 64", name="ck_desk_session_token_hash"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Forms that were sent, and where what they did is shown: none is acted on twice.
desk_form = Table(
    "desk_form",
    metadata,
    Column("person", Text, nullable=False),
    Column("form", Text, nullable=False),
    Column("location", Text),
    Column("at_s", Int, nullable=False),
    PrimaryKeyConstraint("person", "form", name="pk_desk_form"),
    CheckConstraint("length(form) <= 100", name="ck_desk_form_form"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
