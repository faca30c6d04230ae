"""The ledger's rules between rows, as SQLite triggers.

They hold whoever writes, this service or not. Each condition ends in
``IS NOT TRUE``, because a trigger's ``WHEN NULL`` would let the row pass. The
``BEFORE INSERT ... WHEN EXISTS`` ones are there for ``REPLACE``, which deletes
without delete triggers unless the connection asks for them.
"""

from __future__ import annotations

from collections.abc import Mapping

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
        NEW.total_after = max(p.spent_after + p.reserved_after, p.total_after - NEW.amount)
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

_ENTRY_EXISTS = """
EXISTS (SELECT 1 FROM entry WHERE account = NEW.account AND seq = NEW.seq)
OR EXISTS (SELECT 1 FROM entry WHERE principal = NEW.principal AND idem = NEW.idem)"""

_ACCOUNT_IS_THERE = """
EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.seq)"""

_EPOCH_FORWARD = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.created_at = OLD.created_at
AND NEW.epoch > OLD.epoch"""

_RELEASE_EXISTS = """
EXISTS (SELECT 1 FROM release WHERE id = NEW.id OR number = NEW.number)
OR EXISTS (SELECT 1 FROM release WHERE account = NEW.account AND seq = NEW.seq)"""

_STEP_FORWARD = """
CASE OLD.state
WHEN 'reserved' THEN
    NEW.seq = OLD.seq AND NEW.attempts = 0 AND NEW.state IN ('rejected', 'withdrawn', 'expired')
    OR NEW.seq > OLD.seq AND NEW.attempts = 1 AND NEW.state = 'debited'
WHEN 'debited' THEN
    NEW.seq = OLD.seq AND (
        NEW.state = 'debited' AND NEW.attempts = OLD.attempts + 1
        OR NEW.state IN ('released', 'void') AND NEW.attempts = OLD.attempts)
ELSE FALSE END"""

_SAME_RELEASE = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.account = OLD.account
AND NEW.dataset = OLD.dataset AND NEW.principal = OLD.principal AND NEW.request = OLD.request
AND NEW.plan = OLD.plan AND NEW.fingerprint = OLD.fingerprint
AND NEW.created_at = OLD.created_at"""

_CHARGED = """
EXISTS (
    SELECT 1 FROM entry AS e
    WHERE e.account = NEW.account AND e.seq = NEW.seq AND e.release = NEW.id
    AND e.fingerprint = NEW.fingerprint AND e.kind = CASE NEW.state
    WHEN 'debited' THEN 'debit' WHEN 'reserved' THEN 'reserve' END)
AND NEW.attempts = (NEW.state = 'debited')"""


def _never(name: str, event: str, message: str) -> tuple[str, str]:
    """Return a trigger that refuses every such statement."""
    return name, f"CREATE TRIGGER {name} BEFORE {event} {_abort(message)}"


def _when(name: str, event: str, condition: str, message: str) -> tuple[str, str]:
    """Return a trigger that refuses a row for which the condition is true."""
    return name, f"CREATE TRIGGER {name} BEFORE {event} WHEN {condition} {_abort(message)}"


def _unless(name: str, event: str, condition: str, message: str) -> tuple[str, str]:
    """Return a trigger that refuses a row for which the condition is not true, or is NULL."""
    return _when(name, event, f"({condition}) IS NOT TRUE", message)


def _abort(message: str) -> str:
    return f"BEGIN SELECT RAISE(ABORT, '{message}'); END"


CREATE: Mapping[str, str] = dict(
    (
        # The ledger's identity.
        _never("ledger_no_delete", "DELETE ON ledger", "ledger: its identity stays"),
        _when(
            "ledger_no_replace",
            "INSERT ON ledger",
            "EXISTS (SELECT 1 FROM ledger)",
            "ledger: there is one already",
        ),
        _unless(
            "ledger_epoch_forward",
            "UPDATE ON ledger",
            _EPOCH_FORWARD,
            "ledger: only the epoch moves, and only forward",
        ),
        # Entries: append-only, each continuing its predecessor.
        _never("entry_no_update", "UPDATE ON entry", "entry: append-only"),
        _never("entry_no_delete", "DELETE ON entry", "entry: append-only"),
        _when("entry_no_replace", "INSERT ON entry", _ENTRY_EXISTS, "entry: exists already"),
        _unless(
            "entry_continues",
            "INSERT ON entry",
            _CONTINUES,
            "entry: does not continue its predecessor",
        ),
        _unless(
            "entry_not_ahead", "INSERT ON entry", _ACCOUNT_IS_THERE, "entry: ahead of its account"
        ),
        _unless(
            "entry_epoch",
            "INSERT ON entry",
            "NEW.epoch = (SELECT epoch FROM ledger)",
            "entry: not of this epoch",
        ),
        # Accounts: opened empty, moved only by entries, never removed.
        _never("account_no_delete", "DELETE ON account", "account: accounts stay"),
        _when(
            "account_no_replace",
            "INSERT ON account",
            "EXISTS (SELECT 1 FROM account WHERE id = NEW.id)",
            "account: exists already",
        ),
        _unless(
            "account_opens_empty",
            "INSERT ON account",
            "NEW.seq = 1 AND NEW.spent = 0 AND NEW.reserved = 0",
            "account: opens at its first entry",
        ),
        _unless(
            "account_forward",
            "UPDATE ON account",
            "NEW.id = OLD.id AND NEW.seq > OLD.seq AND NEW.spent >= OLD.spent",
            "account: spent never decreases and seq moves forward",
        ),
        # Releases: one per charge, states only forward, final ones frozen.
        _never("release_no_delete", "DELETE ON release", "release: releases stay"),
        _when(
            "release_no_replace", "INSERT ON release", _RELEASE_EXISTS, "release: exists already"
        ),
        _unless(
            "release_charged", "INSERT ON release", _CHARGED, "release: begins with its charge"
        ),
        _unless(
            "release_forward",
            "UPDATE ON release",
            f"({_SAME_RELEASE}) AND ({_STEP_FORWARD})",
            "release: states only move forward",
        ),
    )
)
"""The statements that create the triggers, by trigger name, in order."""
