"""Reviews with turns, versions, votes and comments; the outbox; who saw what; edits of data sets.

The conditions are written out here and not imported, so that this step stays
what it was when later ones change the rules.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, create_rules, replace_rules

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_CONTINUES = """
CASE NEW.seq WHEN 1 THEN
    NEW.kind = 'open'
    AND NEW.prev = '0000000000000000000000000000000000000000000000000000000000000000'
    AND NEW.total_after = NEW.amount AND NEW.spent_after = 0 AND NEW.reserved_after = 0
ELSE EXISTS (
    SELECT 1 FROM entry AS p
    WHERE p.account = NEW.account AND p.seq = NEW.seq - 1 AND p.hash = NEW.prev
    AND p.epoch <= NEW.epoch
    AND CASE NEW.kind
    WHEN 'grant' THEN
        NEW.total_after = p.total_after + NEW.amount
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    WHEN 'expire' THEN
        NEW.total_after = CASE
            WHEN p.total_after - NEW.amount > p.spent_after + p.reserved_after
            THEN p.total_after - NEW.amount ELSE p.spent_after + p.reserved_after END
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    WHEN 'debit' THEN
        NEW.amount > 0 AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after + NEW.amount
        AND NEW.reserved_after = CASE WHEN NEW.idem IS NOT NULL THEN p.reserved_after
            WHEN EXISTS (
                SELECT 1 FROM release AS r
                JOIN entry AS e ON e.account = r.account AND e.seq = r.seq
                WHERE r.id = NEW.release AND r.account = NEW.account AND r.state = 'reserved'
                AND e.amount = NEW.amount AND e.principal = NEW.principal
            ) THEN p.reserved_after - NEW.amount END
    WHEN 'burn' THEN
        NEW.total_after = p.total_after AND NEW.spent_after = p.spent_after + NEW.amount
        AND NEW.reserved_after = p.reserved_after
    WHEN 'reserve' THEN
        NEW.amount > 0 AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after
        AND NEW.reserved_after = p.reserved_after + NEW.amount
        AND (NEW.idem IS NOT NULL
            OR p.kind = 'unreserve' AND p.release = NEW.release AND p.principal = NEW.principal)
    WHEN 'unreserve' THEN
        NEW.total_after = p.total_after AND NEW.spent_after = p.spent_after
        AND NEW.reserved_after = p.reserved_after - NEW.amount
        AND EXISTS (
            SELECT 1 FROM release AS r
            JOIN entry AS e ON e.account = r.account AND e.seq = r.seq
            WHERE r.id = NEW.release AND r.account = NEW.account AND r.state = 'reserved'
            AND e.amount = NEW.amount)
    ELSE
        NEW.account = '0' AND NEW.kind <> 'open' AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    END
) END"""

_MADE_BY = """
CASE WHEN NEW.role = 'system' THEN NEW.key IS NULL
ELSE EXISTS (
    SELECT 1 FROM api_key AS k
    WHERE k.id = NEW.key AND k.role = NEW.role
    AND (k.person = NEW.principal OR NEW.kind = 'debit' AND NEW.idem IS NULL)
) AND (
    NEW.role = 'admin'
    OR NEW.role = 'curator'
    AND NOT (NEW.kind IN ('key_created', 'key_revoked', 'overlap_override'))
    OR NEW.kind IN ('debit', 'reserve', 'unreserve', 'release_withdrawn', 'release_returned')
) END"""

_SAME_RELEASE_STEPS_FORWARD = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.account = OLD.account
AND NEW.dataset = OLD.dataset AND NEW.principal = OLD.principal
AND NEW.created_at = OLD.created_at
AND (NEW.request = OLD.request AND NEW.plan = OLD.plan AND NEW.fingerprint = OLD.fingerprint
    OR NEW.state = 'reserved')
AND CASE OLD.state
WHEN 'reserved' THEN
    EXISTS (
        SELECT 1 FROM account AS a JOIN entry AS e ON e.account = a.id AND e.seq = a.seq
        WHERE a.id = NEW.account AND e.release = NEW.id AND (
            NEW.seq = e.seq AND NEW.attempts = 0 AND e.kind = 'reserve' AND e.idem IS NULL
                AND e.fingerprint = NEW.fingerprint AND NEW.state = 'reserved'
            OR NEW.seq = OLD.seq AND NEW.attempts = 0 AND e.kind = 'unreserve'
                AND NEW.state IN ('rejected', 'withdrawn', 'expired')
            OR NEW.seq = e.seq AND NEW.attempts = 1 AND e.kind = 'debit'
                AND NEW.state = 'debited'))
WHEN 'debited' THEN
    NEW.seq = OLD.seq AND (
        NEW.state = 'debited' AND NEW.attempts = OLD.attempts + 1
        OR NEW.state = 'debited' AND NEW.attempts = OLD.attempts
            AND (OLD.worker IS NULL) <> (NEW.worker IS NULL)
        OR NEW.state IN ('released', 'void') AND NEW.attempts = OLD.attempts)
ELSE FALSE END"""

_WRITTEN_ONCE = ("revision", "vote", "review_comment", "notice", "sight", "dataset_edit")

_CHANGED = (
    Rule(
        "entry_continues",
        "entry",
        "INSERT",
        _CONTINUES,
        "entry: does not continue its predecessor",
    ),
    Rule(
        "entry_made_by",
        "entry",
        "INSERT",
        _MADE_BY,
        "entry: not made by a key in a role that allows it",
    ),
    Rule(
        "release_forward",
        "release",
        "UPDATE",
        _SAME_RELEASE_STEPS_FORWARD,
        "release: states only move forward",
    ),
)

_NEW = (
    Rule("review_no_delete", "review", "DELETE", None, "review: reviews stay"),
    *(
        Rule(f"{table}_no_{verb}", table, event, None, f"{table}: written once")
        for table in _WRITTEN_ONCE
        for verb, event in (("update", "UPDATE"), ("delete", "DELETE"))
    ),
)


def upgrade() -> None:
    """Make the tables and their rules, and let a reserve be moved by a later version."""
    op.create_table(
        "review",
        sa.Column("release", _TEXT, nullable=False),
        sa.Column("turn", _INT, nullable=False),
        sa.Column("version", _INT, nullable=False),
        sa.Column("returned", _INT, nullable=False),
        sa.Column("shown", _INT, nullable=False),
        sa.Column("reason", _TEXT),
        sa.PrimaryKeyConstraint("release", name="pk_review"),
        sa.ForeignKeyConstraint(["release"], ["release.id"], name="fk_review_release"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "revision",
        sa.Column("release", _TEXT, nullable=False),
        sa.Column("version", _INT, nullable=False),
        sa.Column("account", _TEXT, nullable=False),
        sa.Column("seq", _INT, nullable=False),
        sa.Column("request", _TEXT, nullable=False),
        sa.Column("plan", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("release", "version", name="pk_revision"),
        sa.UniqueConstraint("account", "seq", name="uq_revision_reserve"),
        sa.ForeignKeyConstraint(["release"], ["release.id"], name="fk_revision_release"),
        sa.ForeignKeyConstraint(
            ["account", "seq"], ["entry.account", "entry.seq"], name="fk_revision_reserve"
        ),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "vote",
        sa.Column("seq", _INT, nullable=False),
        sa.Column("release", _TEXT, nullable=False),
        sa.Column("turn", _INT, nullable=False),
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("decision", _TEXT, nullable=False),
        sa.Column("reason", _TEXT, nullable=False),
        sa.Column("at", _TEXT, nullable=False),
        sa.Column("salt", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_vote"),
        sa.ForeignKeyConstraint(["release"], ["release.id"], name="fk_vote_release"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "review_comment",
        sa.Column("number", _INT, nullable=False),
        sa.Column("release", _TEXT, nullable=False),
        sa.Column("turn", _INT, nullable=False),
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("private", _INT, nullable=False),
        sa.Column("text", _TEXT, nullable=False),
        sa.Column("at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_review_comment"),
        sa.ForeignKeyConstraint(["release"], ["release.id"], name="fk_review_comment_release"),
        sqlite_strict=True,
    )
    op.create_table(
        "notice",
        sa.Column("number", _INT, nullable=False),
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("event", _TEXT, nullable=False),
        sa.Column("audience", _TEXT, nullable=False),
        sa.Column("release", _TEXT, nullable=False),
        sa.Column("requester", _TEXT, nullable=False),
        sa.Column("actor", _TEXT, nullable=False),
        sa.Column("reason", _TEXT),
        sa.Column("at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_notice"),
        sa.UniqueConstraint("id", name="uq_notice_id"),
        sa.ForeignKeyConstraint(["release"], ["release.id"], name="fk_notice_release"),
        sqlite_strict=True,
    )
    op.create_table(
        "notice_read",
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("notice", _INT, nullable=False),
        sa.Column("read_at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("person", "notice", name="pk_notice_read"),
        sa.ForeignKeyConstraint(["notice"], ["notice.number"], name="fk_notice_read_notice"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "delivery",
        sa.Column("notice", _INT, nullable=False),
        sa.Column("channel", _TEXT, nullable=False),
        sa.Column("attempts", _INT, nullable=False),
        sa.Column("next_at", _TEXT, nullable=False),
        sa.Column("done_at", _TEXT),
        sa.PrimaryKeyConstraint("notice", "channel", name="pk_delivery"),
        sa.ForeignKeyConstraint(["notice"], ["notice.number"], name="fk_delivery_notice"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sight",
        sa.Column("number", _INT, nullable=False),
        sa.Column("release", _TEXT, nullable=False),
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("how", _TEXT, nullable=False),
        sa.Column("day", _TEXT, nullable=False),
        sa.Column("key", _TEXT, nullable=False),
        sa.Column("at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("number", name="pk_sight"),
        sa.UniqueConstraint("release", "person", "how", "day", name="uq_sight_day"),
        sa.ForeignKeyConstraint(["release"], ["release.id"], name="fk_sight_release"),
        sqlite_strict=True,
    )
    op.create_table(
        "dataset_edit",
        sa.Column("seq", _INT, nullable=False),
        sa.Column("dataset", _TEXT, nullable=False),
        sa.Column("fields", _TEXT, nullable=False),
        sa.Column("person", _TEXT, nullable=False),
        sa.Column("reason", _TEXT, nullable=False),
        sa.Column("at", _TEXT, nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_dataset_edit"),
        sa.ForeignKeyConstraint(["dataset"], ["dataset.id"], name="fk_dataset_edit_dataset"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.create_index("ix_vote_release", "vote", ["release", "seq"])
    op.create_index("ix_review_comment_release", "review_comment", ["release", "number"])
    op.create_index("ix_notice_requester", "notice", ["requester", "number"])
    op.create_index("ix_notice_at", "notice", ["at"])
    op.create_index("ix_dataset_edit_dataset", "dataset_edit", ["dataset", "seq"])
    replace_rules(op.get_bind(), _CHANGED)
    create_rules(op.get_bind(), _NEW)
