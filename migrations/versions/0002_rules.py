"""The rules between rows in SQL that both databases read.

The conditions are written out here and not imported, so that this step stays
what it was when later ones change the rules.
"""

from __future__ import annotations

from alembic import op

from app.store.database.rules import Rule, replace_rules

revision = "0002"
down_revision = "0001"
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
        AND NEW.reserved_after IN (p.reserved_after, p.reserved_after - NEW.amount)
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
    ELSE
        NEW.account = '0' AND NEW.kind <> 'open' AND NEW.total_after = p.total_after
        AND NEW.spent_after = p.spent_after AND NEW.reserved_after = p.reserved_after
    END
) END"""

_ENTRY_IS_NEW = """
NOT EXISTS (SELECT 1 FROM entry WHERE account = NEW.account AND seq = NEW.seq)
AND NOT EXISTS (SELECT 1 FROM entry WHERE principal = NEW.principal AND idem = NEW.idem)"""

_ACCOUNT_IS_THERE = """
EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.seq)"""

_EPOCH_FORWARD = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.created_at = OLD.created_at
AND NEW.epoch > OLD.epoch"""

_RELEASE_IS_NEW = """
NOT EXISTS (SELECT 1 FROM release WHERE id = NEW.id OR number = NEW.number)
AND NOT EXISTS (SELECT 1 FROM release WHERE account = NEW.account AND seq = NEW.seq)"""

_CHARGED = """
EXISTS (
    SELECT 1 FROM entry AS e
    WHERE e.account = NEW.account AND e.seq = NEW.seq AND e.release = NEW.id
    AND e.fingerprint = NEW.fingerprint AND e.kind = CASE NEW.state
    WHEN 'debited' THEN 'debit' WHEN 'reserved' THEN 'reserve' END)
AND NEW.attempts = CASE NEW.state WHEN 'debited' THEN 1 ELSE 0 END"""

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
        OR NEW.state IN ('released', 'void') AND NEW.attempts = OLD.attempts)
ELSE FALSE END"""

_RULES = (
    # The ledger's identity.
    Rule("ledger_no_delete", "ledger", "DELETE", None, "ledger: its identity stays"),
    Rule(
        "ledger_no_replace",
        "ledger",
        "INSERT",
        "NOT EXISTS (SELECT 1 FROM ledger)",
        "ledger: there is one already",
    ),
    Rule(
        "ledger_epoch_forward",
        "ledger",
        "UPDATE",
        _EPOCH_FORWARD,
        "ledger: only the epoch moves, and only forward",
    ),
    # Entries: append-only, each continuing its predecessor.
    Rule("entry_no_update", "entry", "UPDATE", None, "entry: append-only"),
    Rule("entry_no_delete", "entry", "DELETE", None, "entry: append-only"),
    Rule("entry_no_replace", "entry", "INSERT", _ENTRY_IS_NEW, "entry: exists already"),
    Rule(
        "entry_continues",
        "entry",
        "INSERT",
        _CONTINUES,
        "entry: does not continue its predecessor",
    ),
    Rule("entry_not_ahead", "entry", "INSERT", _ACCOUNT_IS_THERE, "entry: ahead of its account"),
    Rule(
        "entry_epoch",
        "entry",
        "INSERT",
        "NEW.epoch = (SELECT epoch FROM ledger)",
        "entry: not of this epoch",
    ),
    # Accounts: opened empty, moved only by entries, never removed.
    Rule("account_no_delete", "account", "DELETE", None, "account: accounts stay"),
    Rule(
        "account_no_replace",
        "account",
        "INSERT",
        "NOT EXISTS (SELECT 1 FROM account WHERE id = NEW.id)",
        "account: exists already",
    ),
    Rule(
        "account_opens_empty",
        "account",
        "INSERT",
        "NEW.seq = 1 AND NEW.spent = 0 AND NEW.reserved = 0",
        "account: opens at its first entry",
    ),
    Rule(
        "account_forward",
        "account",
        "UPDATE",
        "NEW.id = OLD.id AND NEW.seq > OLD.seq AND NEW.spent >= OLD.spent",
        "account: spent never decreases and seq moves forward",
    ),
    # Releases: one per charge, states only forward, final ones frozen.
    Rule("release_no_delete", "release", "DELETE", None, "release: releases stay"),
    Rule("release_no_replace", "release", "INSERT", _RELEASE_IS_NEW, "release: exists already"),
    Rule("release_charged", "release", "INSERT", _CHARGED, "release: begins with its charge"),
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
