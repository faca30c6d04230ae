"""Workers with leases, and the worker that draws a release.

The condition is written out here and not imported, so that this step stays
what it was when later ones change the rules.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, replace_rules

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_INT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

_SAME_RELEASE_STEPS_FORWARD = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.account = OLD.account
AND NEW.dataset = OLD.dataset AND NEW.principal = OLD.principal AND NEW.request = OLD.request
AND NEW.plan = OLD.plan AND NEW.fingerprint = OLD.fingerprint
AND NEW.created_at = OLD.created_at
AND CASE OLD.state
WHEN 'reserved' THEN
    NEW.seq = OLD.seq AND NEW.attempts = 0 AND NEW.state IN ('rejected', 'withdrawn', 'expired')
    OR NEW.seq > OLD.seq AND NEW.attempts = 1 AND NEW.state = 'debited'
WHEN 'debited' THEN
    NEW.seq = OLD.seq AND (
        NEW.state = 'debited' AND NEW.attempts = OLD.attempts + 1
        OR NEW.state = 'debited' AND NEW.attempts = OLD.attempts
            AND (OLD.worker IS NULL) <> (NEW.worker IS NULL)
        OR NEW.state IN ('released', 'void') AND NEW.attempts = OLD.attempts)
ELSE FALSE END"""

_RULES = (
    Rule(
        "release_forward",
        "release",
        "UPDATE",
        _SAME_RELEASE_STEPS_FORWARD,
        "release: states only move forward",
    ),
)


def upgrade() -> None:
    op.create_table(
        "worker",
        sa.Column("id", _TEXT, nullable=False),
        sa.Column("lease_until_ms", _INT, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_worker"),
        sa.CheckConstraint("lease_until_ms >= 0", name="ck_worker_lease"),
        sqlite_strict=True,
        sqlite_with_rowid=False,
    )
    op.add_column("release", sa.Column("worker", _TEXT))
    replace_rules(op.get_bind(), _RULES)
