"""What is reserved is spent or given back once, by the release that it was reserved for.

The conditions are written out here and not imported, so that this step stays
what it was when later ones change the rules.
"""

from __future__ import annotations

from alembic import op

from app.store.database.rules import Rule, replace_rules

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

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

_SAME_RELEASE_STEPS_FORWARD = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.account = OLD.account
AND NEW.dataset = OLD.dataset AND NEW.principal = OLD.principal AND NEW.request = OLD.request
AND NEW.plan = OLD.plan AND NEW.fingerprint = OLD.fingerprint
AND NEW.created_at = OLD.created_at
AND CASE OLD.state
WHEN 'reserved' THEN
    EXISTS (
        SELECT 1 FROM account AS a JOIN entry AS e ON e.account = a.id AND e.seq = a.seq
        WHERE a.id = NEW.account AND e.release = NEW.id AND (
            NEW.seq = OLD.seq AND NEW.attempts = 0 AND e.kind = 'unreserve'
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

_RULES = (
    Rule(
        "entry_continues",
        "entry",
        "INSERT",
        _CONTINUES,
        "entry: does not continue its predecessor",
    ),
    Rule(
        "release_forward",
        "release",
        "UPDATE",
        _SAME_RELEASE_STEPS_FORWARD,
        "release: states only move forward",
    ),
)


def upgrade() -> None:
    replace_rules(op.get_bind(), _RULES)
