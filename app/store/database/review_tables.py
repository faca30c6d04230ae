"""The tables of reviews: turns, versions, votes, comments, notices, and who saw what.

A release's own row says what it costs and whether it still waits; these say what reviewers and
the requester have said since. What binds them to the ledger are its entries.
"""

from __future__ import annotations

from sqlalchemy import (
    Column,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)

from app.store.database.metadata import Int, Text, metadata

# Whose turn it is, of releases that have been given back to who asked for them at least once.
review = Table(
    "review",
    metadata,
    Column("release", Text, nullable=False),
    Column("turn", Int, nullable=False),
    Column("version", Int, nullable=False),
    # 1 while it waits for who asked, 0 while it waits for its reviewers.
    Column("returned", Int, nullable=False),
    # How many votes of the turn everybody may know of: none until all are in.
    Column("shown", Int, nullable=False),
    Column("reason", Text),
    PrimaryKeyConstraint("release", name="pk_review"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_review_release"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Versions of a request that later ones have taken the place of, each with what reserved for it.
revision = Table(
    "revision",
    metadata,
    Column("release", Text, nullable=False),
    Column("version", Int, nullable=False),
    Column("account", Text, nullable=False),
    Column("seq", Int, nullable=False),
    Column("request", Text, nullable=False),
    Column("plan", Text, nullable=False),
    PrimaryKeyConstraint("release", "version", name="pk_revision"),
    UniqueConstraint("account", "seq", name="uq_revision_reserve"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_revision_release"),
    ForeignKeyConstraint(
        ["account", "seq"], ["entry.account", "entry.seq"], name="fk_revision_reserve"
    ),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Votes as the system account's entries of the same numbers hold them, by a digest with salt.
vote = Table(
    "vote",
    metadata,
    Column("seq", Int, nullable=False),
    Column("release", Text, nullable=False),
    Column("turn", Int, nullable=False),
    Column("person", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("salt", Text, nullable=False),
    PrimaryKeyConstraint("seq", name="pk_vote"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_vote_release"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
Index("ix_vote_release", vote.c.release, vote.c.seq)

comment = Table(
    "review_comment",
    metadata,
    Column("number", Int, nullable=False),
    Column("release", Text, nullable=False),
    Column("turn", Int, nullable=False),
    Column("person", Text, nullable=False),
    Column("private", Int, nullable=False),
    Column("text", Text, nullable=False),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_review_comment"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_review_comment_release"),
    sqlite_strict=True,
)
Index("ix_review_comment_release", comment.c.release, comment.c.number)

# The outbox: written in the transaction of what it reports.
notice = Table(
    "notice",
    metadata,
    Column("number", Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("audience", Text, nullable=False),
    Column("release", Text, nullable=False),
    Column("requester", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_notice"),
    UniqueConstraint("id", name="uq_notice_id"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_notice_release"),
    sqlite_strict=True,
)
Index("ix_notice_requester", notice.c.requester, notice.c.number)
Index("ix_notice_at", notice.c.at)

notice_read = Table(
    "notice_read",
    metadata,
    Column("person", Text, nullable=False),
    Column("notice", Int, nullable=False),
    Column("read_at", Text, nullable=False),
    PrimaryKeyConstraint("person", "notice", name="pk_notice_read"),
    ForeignKeyConstraint(["notice"], ["notice.number"], name="fk_notice_read_notice"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# How far each notice has come on each channel; without a row nothing has been tried.
delivery = Table(
    "delivery",
    metadata,
    Column("notice", Int, nullable=False),
    Column("channel", Text, nullable=False),
    Column("attempts", Int, nullable=False),
    Column("next_at", Text, nullable=False),
    Column("done_at", Text),
    PrimaryKeyConstraint("notice", "channel", name="pk_delivery"),
    ForeignKeyConstraint(["notice"], ["notice.number"], name="fk_delivery_notice"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Who has seen a result that is not public, once for each day and way.
sight = Table(
    "sight",
    metadata,
    Column("number", Int, nullable=False),
    Column("release", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("how", Text, nullable=False),
    Column("day", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_sight"),
    UniqueConstraint("release", "person", "how", "day", name="uq_sight_day"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_sight_release"),
    sqlite_strict=True,
)

# What a curator has changed of a data set's public description, each time whole.
dataset_edit = Table(
    "dataset_edit",
    metadata,
    Column("seq", Int, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("fields", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("seq", name="pk_dataset_edit"),
    ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_dataset_edit_dataset"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
Index("ix_dataset_edit_dataset", dataset_edit.c.dataset, dataset_edit.c.seq)
