"""Tables next to the ledger: work under way, what is counted, and browsers.

Nothing here is evidence of anything, but for pauses, of which the ledger has entries.

*The table of what is public: a row for each release that has ever been published.* ``seq`` is that
of the system account's entry. ``kinds`` and ``words`` are what a search finds it by, made of
public facts: no record. All else is what the entries say.

*The tables of reviews: turns, versions, votes, comments, notices, and who saw what.* A release's
own row says what it costs and whether it still waits; these say what reviewers and the requester
have said since. What binds them to the ledger are its entries.

What tables are made of: their registry, and the types of their columns.
"""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)

metadata = MetaData()

Int = BigInteger().with_variant(Integer(), "sqlite")
# Bytes decide, not a language: a new version of the operating system's collations would
# leave unique indexes of text in the wrong order, and let an Idempotency-Key in twice.
Text = sqlalchemy.Text().with_variant(sqlalchemy.Text(collation="C"), "postgresql")


# Tables next to the ledger: work under way, what is counted, and browsers


# The table of versions: data sets that hold the rows of an earlier one and more

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


# The table of what is public: a row for each release that has ever been published

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
Index("ix_publication_dataset", publication.c.dataset, publication.c.number)


# The tables of the public log (:mod:`app.store.merkle_log`)

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


# The tables of reviews: turns, versions, votes, comments, notices, and who saw what

# Whose turn it is, of releases that have been given back to who asked for them at least once.
review = Table(
    "review",
    metadata,
    Column("release", Text, nullable=False),
    Column("turn", Int, nullable=False),
    Column("version", Int, nullable=False),
    # 1 while it waits for who asked, 0 while it waits for its reviewers.
    Column("returned", Int, nullable=False),
    # How many votes of the turn everyone may know of: none until all are in.
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
    Column("release", Text),
    Column("study_plan", Text),
    Column("turn", Int, nullable=False),
    Column("person", Text, nullable=False),
    Column("private", Int, nullable=False),
    Column("text", Text, nullable=False),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_review_comment"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_review_comment_release"),
    ForeignKeyConstraint(["study_plan"], ["study_plan.id"], name="fk_review_comment_study_plan"),
    CheckConstraint("(release IS NULL) <> (study_plan IS NULL)", name="ck_review_comment_about"),
    sqlite_strict=True,
)
Index("ix_review_comment_release", comment.c.release, comment.c.number)
Index("ix_review_comment_study_plan", comment.c.study_plan, comment.c.number)

# Study plans: several questions that are reviewed as one. Each is charged when it is drawn, by an
# entry whose Idempotency-Key names plan and question. What has been requested changes only where
# its reviewers have asked for it: then it is sent again, and the version before is kept.
study_plan = Table(
    "study_plan",
    metadata,
    Column("number", Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("account", Text, nullable=False),
    Column("dataset", Text, nullable=False),
    Column("person", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("purpose", Text),
    Column("questions", Text, nullable=False),
    Column("created_at", Text, nullable=False),
    Column("state", Text, nullable=False),
    # How often it has come before its reviewers; 1 for a draft.
    Column("turn", Int, nullable=False),
    # What its owner has written since changes were requested, JSON: no one else sees it.
    Column("unsent", Text),
    # The system account's entry about the last step.
    Column("seq", Int),
    Column("requested_at", Text),
    Column("decided_by", Text),
    Column("decided_at", Text),
    Column("reason", Text),
    Column("expires_at", Text),
    Column("ended_at", Text),
    Column("sorts_as", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_study_plan"),
    UniqueConstraint("id", name="uq_study_plan_id"),
    ForeignKeyConstraint(["account"], ["account.id"], name="fk_study_plan_account"),
    ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_study_plan_dataset"),
    CheckConstraint(
        "(state = 'draft') = (requested_at IS NULL) AND (state = 'draft') = (seq IS NULL)"
        " AND (decided_by IS NULL) = (decided_at IS NULL)"
        " AND (expires_at IS NULL OR decided_at IS NOT NULL)"
        " AND (state <> 'approved' OR expires_at IS NOT NULL)"
        " AND (unsent IS NULL OR state = 'changes_requested')",
        name="ck_study_plan_state",
    ),
    sqlite_strict=True,
)
Index("ix_study_plan_person", study_plan.c.person, study_plan.c.number)
Index("ix_study_plan_state", study_plan.c.state, study_plan.c.number)
Index("ix_study_plan_sorted", study_plan.c.sorts_as, study_plan.c.number)

# Versions of a study plan that later ones have taken the place of, by the turn they were sent in.
plan_revision = Table(
    "plan_revision",
    metadata,
    Column("study_plan", Text, nullable=False),
    Column("turn", Int, nullable=False),
    Column("name", Text, nullable=False),
    Column("purpose", Text),
    Column("questions", Text, nullable=False),
    Column("requested_at", Text, nullable=False),
    PrimaryKeyConstraint("study_plan", "turn", name="pk_plan_revision"),
    ForeignKeyConstraint(["study_plan"], ["study_plan.id"], name="fk_plan_revision_study_plan"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)

# Votes on study plans, as the system account's entries of the same numbers hold them.
plan_vote = Table(
    "plan_vote",
    metadata,
    Column("seq", Int, nullable=False),
    Column("study_plan", Text, nullable=False),
    Column("turn", Int, nullable=False),
    Column("person", Text, nullable=False),
    Column("decision", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("at", Text, nullable=False),
    Column("salt", Text, nullable=False),
    PrimaryKeyConstraint("seq", name="pk_plan_vote"),
    ForeignKeyConstraint(["study_plan"], ["study_plan.id"], name="fk_plan_vote_study_plan"),
    sqlite_strict=True,
    sqlite_with_rowid=False,
)
Index("ix_plan_vote_study_plan", plan_vote.c.study_plan, plan_vote.c.seq)

# The outbox: written in the transaction of what it reports.
notice = Table(
    "notice",
    metadata,
    Column("number", Int, nullable=False),
    Column("id", Text, nullable=False),
    Column("event", Text, nullable=False),
    Column("audience", Text, nullable=False),
    Column("release", Text),
    Column("study_plan", Text),
    Column("requester", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text),
    Column("at", Text, nullable=False),
    PrimaryKeyConstraint("number", name="pk_notice"),
    UniqueConstraint("id", name="uq_notice_id"),
    ForeignKeyConstraint(["release"], ["release.id"], name="fk_notice_release"),
    ForeignKeyConstraint(["study_plan"], ["study_plan.id"], name="fk_notice_study_plan"),
    CheckConstraint("(release IS NULL) <> (study_plan IS NULL)", name="ck_notice_about"),
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


# Tables next to the ledger: work under way, what is counted, and browsers

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
