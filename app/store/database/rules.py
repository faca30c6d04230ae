"""The ledger's rules between rows: what may be written, by this service or any other client.

Each rule states what must hold for a row to be inserted, changed or removed, in
SQL that SQLite and PostgreSQL read alike (no scalar ``max``, no boolean used as
a number), and is rendered as a trigger of either. A condition that is NULL does
not hold.

The rules named ``..._no_replace`` are there for SQLite's ``REPLACE``, which
deletes without delete triggers unless the connection asks for them.

A change here needs a migration that drops the old trigger and creates the new
one, written out: a database is only opened when its triggers are exactly these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Connection, text

# One rule between rows; :mod:`app.store.database.rules` renders it as a trigger

Event = Literal["INSERT", "UPDATE", "DELETE"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: a row of ``table`` passes ``event`` only where ``holds`` is true.

    ``holds`` is a condition on ``NEW`` and ``OLD``; None lets nothing pass.
    ``message`` is the error of the refused statement.
    """

    name: str
    table: str
    event: Event
    holds: str | None
    message: str


# The rules of the public log: append-only, each part continuing the tree and its account

_PART_CONTINUES = """
NOT EXISTS (SELECT 1 FROM log_part WHERE number = NEW.number)
AND (NEW.number = 1 OR EXISTS (
    SELECT 1 FROM log_part AS p
    WHERE p.number = NEW.number - 1 AND p.leaves_after = NEW.leaves_before))
AND NOT EXISTS (
    SELECT 1 FROM log_part AS p WHERE p.account = NEW.account AND p.last_seq > NEW.after_seq)
AND (NEW.after_seq = 0 OR EXISTS (
    SELECT 1 FROM log_part AS p WHERE p.account = NEW.account AND p.last_seq = NEW.after_seq))
AND EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.last_seq)"""

_CHECKPOINT_GROWS = """
NOT EXISTS (SELECT 1 FROM log_checkpoint WHERE size >= NEW.size)
AND EXISTS (SELECT 1 FROM log_part WHERE leaves_after >= NEW.size)"""

_STAMP_GROWS = """
NOT EXISTS (SELECT 1 FROM log_stamp WHERE size >= NEW.size)
AND EXISTS (SELECT 1 FROM log_checkpoint WHERE size = NEW.size)"""

LOG_RULES: tuple[Rule, ...] = (
    Rule("log_part_no_update", "log_part", "UPDATE", None, "log_part: append-only"),
    Rule("log_part_no_delete", "log_part", "DELETE", None, "log_part: append-only"),
    Rule("log_part_continues", "log_part", "INSERT", _PART_CONTINUES, "log_part: not the next one"),
    Rule("log_checkpoint_no_update", "log_checkpoint", "UPDATE", None, "log_checkpoint: signed"),
    Rule("log_checkpoint_no_delete", "log_checkpoint", "DELETE", None, "log_checkpoint: signed"),
    Rule(
        "log_checkpoint_grows",
        "log_checkpoint",
        "INSERT",
        _CHECKPOINT_GROWS,
        "log_checkpoint: not of a larger log",
    ),
    Rule("log_stamp_no_update", "log_stamp", "UPDATE", None, "log_stamp: append-only"),
    Rule("log_stamp_no_delete", "log_stamp", "DELETE", None, "log_stamp: append-only"),
    Rule("log_stamp_grows", "log_stamp", "INSERT", _STAMP_GROWS, "log_stamp: not of a later one"),
)


# The rules of the tables of reviews: what has been said stays said

_WRITTEN_ONCE = (
    "revision", "vote", "plan_revision", "plan_vote", "review_comment", "notice", "sight",
    "dataset_edit",
)  # fmt: skip
_CHANGES: tuple[tuple[str, Event], ...] = (("update", "UPDATE"), ("delete", "DELETE"))

_PLAN_IS_NEW = """
NEW.state = 'draft' AND NEW.turn = 1
AND NOT EXISTS (SELECT 1 FROM study_plan WHERE id = NEW.id OR number = NEW.number)
AND EXISTS (SELECT 1 FROM dataset WHERE id = NEW.dataset AND account = NEW.account)"""

# A draft may be edited; every other step is an entry of the system account. Where changes were
# requested it is sent again as it was edited, once the version before is kept.
_PLAN_STEPS_FORWARD = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.account = OLD.account
AND NEW.dataset = OLD.dataset AND NEW.person = OLD.person AND NEW.created_at = OLD.created_at
AND CASE OLD.state
WHEN 'draft' THEN NEW.state IN ('draft', 'requested')
WHEN 'requested' THEN
    NEW.state IN ('changes_requested', 'approved', 'rejected', 'withdrawn', 'expired')
WHEN 'changes_requested' THEN
    NEW.state IN ('changes_requested', 'requested', 'withdrawn', 'expired')
WHEN 'approved' THEN NEW.state IN ('withdrawn', 'expired') AND NEW.expires_at = OLD.expires_at
ELSE FALSE END
AND CASE WHEN OLD.state = 'changes_requested' AND NEW.state = 'requested' THEN
    NEW.turn = OLD.turn + 1 AND EXISTS (
        SELECT 1 FROM plan_revision AS r
        WHERE r.study_plan = OLD.id AND r.turn = OLD.turn AND r.name = OLD.name
        AND r.purpose IS NOT DISTINCT FROM OLD.purpose AND r.questions = OLD.questions)
ELSE
    NEW.turn = OLD.turn AND (NEW.state = 'draft'
        OR NEW.name = OLD.name AND NEW.purpose IS NOT DISTINCT FROM OLD.purpose
        AND NEW.questions = OLD.questions)
END
AND (NEW.state = 'draft' OR EXISTS (
        SELECT 1 FROM entry AS e
        WHERE e.account = '0' AND e.seq = NEW.seq AND e.kind = CASE NEW.state
        WHEN 'requested' THEN 'study_plan_requested' WHEN 'approved' THEN 'study_plan_approved'
        WHEN 'changes_requested' THEN 'study_plan_changes_requested'
        WHEN 'rejected' THEN 'study_plan_rejected' WHEN 'withdrawn' THEN 'study_plan_withdrawn'
        WHEN 'expired' THEN 'study_plan_expired' END))"""

REVIEW_RULES: tuple[Rule, ...] = (
    Rule("review_no_delete", "review", "DELETE", None, "review: reviews stay"),
    Rule(
        "study_plan_no_delete",
        "study_plan",
        "DELETE",
        "OLD.state = 'draft'",
        "study_plan: what has been requested stays",
    ),
    Rule("study_plan_is_new", "study_plan", "INSERT", _PLAN_IS_NEW, "study_plan: not a new draft"),
    Rule(
        "study_plan_forward",
        "study_plan",
        "UPDATE",
        _PLAN_STEPS_FORWARD,
        "study_plan: states only move forward, each by its entry",
    ),
    *(
        Rule(f"{table}_no_{verb}", table, event, None, f"{table}: written once")
        for table in _WRITTEN_ONCE
        for verb, event in _CHANGES
    ),
)


# The ledger's rules between rows: what may be written, by this service or any other client

__all__ = [
    "RULES", "Rule", "create_rules", "postgresql_body", "postgresql_triggers", "sqlite_trigger",
    "wrong_rules",
]  # fmt: skip

_ON_POSTGRESQL = text(
    "SELECT tgname, tgenabled, pg_get_triggerdef(t.oid) AS definition, prosrc, proconfig, lanname,"
    " provolatile, prosecdef"
    " FROM pg_trigger t JOIN pg_proc p ON p.oid = tgfoid JOIN pg_language l ON l.oid = prolang"
    " JOIN pg_class c ON c.oid = tgrelid"
    " WHERE NOT tgisinternal AND c.relnamespace = 'public'::regnamespace"
)

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

# By either key: REPLACE would delete the row that has one of them.
_ENTRY_IS_NEW = """
NOT EXISTS (SELECT 1 FROM entry WHERE account = NEW.account AND seq = NEW.seq)
AND NOT EXISTS (SELECT 1 FROM entry WHERE principal = NEW.principal AND idem = NEW.idem)"""

_ACCOUNT_IS_THERE = """
EXISTS (SELECT 1 FROM account WHERE id = NEW.account AND seq >= NEW.seq)"""

_OF_THIS_EPOCH = "NEW.epoch = (SELECT epoch FROM ledger)"

_MADE_BY = """
CASE WHEN NEW.role = 'system' THEN NEW.key IS NULL
ELSE EXISTS (
    SELECT 1 FROM api_key AS k
    WHERE k.id = NEW.key AND k.role = NEW.role
    AND (k.person = NEW.principal OR NEW.kind = 'debit' AND NEW.idem IS NULL)
) AND (
    NEW.role = 'admin'
    OR NEW.role = 'curator'
    AND NOT (NEW.kind IN ('key_created', 'key_revoked', 'overlap_override', 'group_set',
        'groups_given', 'sign_in_allowed'))
    OR NEW.role = 'reviewer' AND NEW.kind IN ('unreserve', 'review_vote', 'release_approved',
        'release_rejected', 'release_changes_requested', 'study_plan_vote', 'study_plan_approved',
        'study_plan_rejected', 'study_plan_changes_requested')
    OR NEW.role = 'analyst' AND NEW.kind IN ('debit', 'reserve', 'unreserve', 'release_withdrawn',
        'release_returned', 'study_plan_requested', 'study_plan_withdrawn')
) END"""

_SAME_KEY_IS_REVOKED = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name AND NEW.role = OLD.role
AND NEW.person = OLD.person AND NEW.secret_hash = OLD.secret_hash
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND NEW.expires_at IS NOT DISTINCT FROM OLD.expires_at AND NEW.sorts_as = OLD.sorts_as
AND OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL"""

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
AND EXISTS (SELECT 1 FROM dataset WHERE id = NEW.dataset AND status = 'active')
AND NEW.attempts = CASE NEW.state WHEN 'debited' THEN 1 ELSE 0 END"""

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


_DATASET_IS_NEW = """
NOT EXISTS (SELECT 1 FROM dataset WHERE id = NEW.id OR number = NEW.number)
AND NOT EXISTS (SELECT 1 FROM dataset WHERE name = NEW.name AND status = 'active')"""

_SAME_DATASET_ENDS = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name
AND NEW.account = OLD.account AND NEW.spec = OLD.spec AND NEW.rows IS NOT DISTINCT FROM OLD.rows
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND NEW.sorts_as = OLD.sorts_as
AND (OLD.status = 'active' AND NEW.status = 'archived'
    OR OLD.status IN ('active', 'archived') AND NEW.status = 'deleted'
    AND (OLD.archived_at IS NULL OR NEW.archived_at = OLD.archived_at)
    AND NOT EXISTS (SELECT 1 FROM release WHERE dataset = NEW.id))"""

_LEAF_CONTINUES = """
(NEW.number = 1 OR EXISTS (SELECT 1 FROM leaf WHERE number = NEW.number - 1))
AND NOT EXISTS (SELECT 1 FROM leaf WHERE number = NEW.number OR release = NEW.release)
AND EXISTS (SELECT 1 FROM release WHERE number = NEW.release AND state = 'released')"""

_EXPIRING_GRANT = """
NEW.expired_seq IS NULL
AND NOT EXISTS (SELECT 1 FROM expiring WHERE account = NEW.account AND seq = NEW.seq)
AND EXISTS (
    SELECT 1 FROM entry AS g
    WHERE g.account = NEW.account AND g.seq = NEW.seq AND g.kind = 'grant'
    AND g.amount = NEW.amount AND g.fingerprint IS NOT NULL)"""

_SAME_GRANT_HAS_EXPIRED = """
NEW.account = OLD.account AND NEW.seq = OLD.seq AND NEW.amount = OLD.amount
AND NEW.expires_at = OLD.expires_at AND OLD.expired_seq IS NULL
AND EXISTS (
    SELECT 1 FROM entry AS e JOIN entry AS g ON g.account = e.account AND g.hash = e.fingerprint
    WHERE e.account = NEW.account AND e.seq = NEW.expired_seq AND e.kind = 'expire'
    AND g.seq = NEW.seq)"""

_SAME_SLICE = """
NEW.number = OLD.number AND NEW.account = OLD.account AND NEW.person = OLD.person"""


RULES: tuple[Rule, ...] = (
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
    Rule("entry_epoch", "entry", "INSERT", _OF_THIS_EPOCH, "entry: not of this epoch"),
    Rule(
        "entry_made_by",
        "entry",
        "INSERT",
        _MADE_BY,
        "entry: not made by a key in a role that allows it",
    ),
    # Keys: their facts stay, and only revoking changes them.
    Rule("api_key_no_delete", "api_key", "DELETE", None, "api_key: keys stay"),
    Rule(
        "api_key_no_replace",
        "api_key",
        "INSERT",
        "NOT EXISTS (SELECT 1 FROM api_key WHERE id = NEW.id OR number = NEW.number"
        " OR secret_hash = NEW.secret_hash)",
        "api_key: exists already",
    ),
    Rule(
        "api_key_revoked_once",
        "api_key",
        "UPDATE",
        _SAME_KEY_IS_REVOKED,
        "api_key: only revoking changes it",
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
    # Data sets: their facts stay, and only archiving and deleting change them.
    Rule("dataset_no_delete", "dataset", "DELETE", None, "dataset: data sets stay"),
    Rule("dataset_no_replace", "dataset", "INSERT", _DATASET_IS_NEW, "dataset: exists already"),
    Rule(
        "dataset_archived_once",
        "dataset",
        "UPDATE",
        _SAME_DATASET_ENDS,
        "dataset: only archiving changes it, and deleting one without releases",
    ),
    # Lineage: written once.
    Rule("lineage_no_update", "lineage", "UPDATE", None, "lineage: written once"),
    Rule("lineage_no_delete", "lineage", "DELETE", None, "lineage: written once"),
    Rule(
        "lineage_no_replace",
        "lineage",
        "INSERT",
        "NOT EXISTS (SELECT 1 FROM lineage WHERE dataset = NEW.dataset)",
        "lineage: written once",
    ),
    # Leaves: written once, without gaps, each of a release that has its result.
    Rule("leaf_no_update", "leaf", "UPDATE", None, "leaf: written once"),
    Rule("leaf_no_delete", "leaf", "DELETE", None, "leaf: written once"),
    Rule("leaf_continues", "leaf", "INSERT", _LEAF_CONTINUES, "leaf: not the next one"),
    # Grants that end, and slices of an account.
    Rule("expiring_no_delete", "expiring", "DELETE", None, "expiring: grants stay"),
    Rule("expiring_grant", "expiring", "INSERT", _EXPIRING_GRANT, "expiring: begins as a grant"),
    Rule(
        "expiring_once",
        "expiring",
        "UPDATE",
        _SAME_GRANT_HAS_EXPIRED,
        "expiring: a grant expires once, by its entry",
    ),
    Rule("cap_no_delete", "cap", "DELETE", None, "cap: slices stay"),
    Rule(
        "cap_no_replace",
        "cap",
        "INSERT",
        "NOT EXISTS (SELECT 1 FROM cap WHERE number = NEW.number)"
        " AND NOT EXISTS (SELECT 1 FROM cap WHERE account = NEW.account AND person = NEW.person)",
        "cap: exists already",
    ),
    Rule("cap_same_slice", "cap", "UPDATE", _SAME_SLICE, "cap: slices stay with their persons"),
    *REVIEW_RULES,
    *LOG_RULES,
)
"""Every rule, in the order in which the triggers are created."""


def create_rules(connection: Connection, rules: Sequence[Rule] = RULES) -> None:
    """Create the triggers of these rules on tables that exist."""
    statements = _CREATE[connection.dialect.name]
    for rule in rules:
        for statement in statements(rule):
            connection.exec_driver_sql(statement)


def wrong_rules(connection: Connection) -> list[str]:
    """Return the names of triggers that are missing, changed or not ours."""
    found, expected = _FOUND[connection.dialect.name](connection)
    return sorted(
        name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)
    )


def _found_on_sqlite(connection: Connection) -> tuple[dict[str, object], dict[str, object]]:
    rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"))
    found: dict[str, object] = {row.name: row.sql.split() for row in rows}
    return found, {rule.name: sqlite_trigger(rule).split() for rule in RULES}


def _found_on_postgresql(connection: Connection) -> tuple[dict[str, object], dict[str, object]]:
    found: dict[str, object] = {
        row.tgname: tuple(row[1:]) for row in connection.execute(_ON_POSTGRESQL)
    }
    expected: dict[str, object] = {
        name: (
            "A",
            f"CREATE TRIGGER {name} {fires} EXECUTE FUNCTION {rule.name}()",
            postgresql_body(rule),
            ["search_path=public, pg_temp"],
            "plpgsql",
            # Volatile: it sees what its own statement has written; with the caller's rights.
            "v",
            False,
        )
        for rule in RULES
        for name, fires in postgresql_triggers(rule)
    }
    return found, expected


def sqlite_trigger(rule: Rule) -> str:
    """Return the statement that creates a rule's trigger on SQLite."""
    when = "" if rule.holds is None else f" WHEN ({rule.holds}) IS NOT TRUE"
    return (
        f"CREATE TRIGGER {rule.name} BEFORE {rule.event} ON {rule.table}{when} "
        f"BEGIN SELECT RAISE(ABORT, '{rule.message}'); END"
    )


def postgresql_body(rule: Rule) -> str:
    """Return the body of the function that a rule's trigger runs on PostgreSQL."""
    refuse = f"RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = '{rule.message}';"
    if rule.holds is None:
        return f"BEGIN {refuse} END"
    row, whole = "NEW", ""
    if rule.event == "DELETE":  # a whole table has no row that may go
        row, whole = "OLD", f"IF TG_OP = 'TRUNCATE' THEN {refuse} END IF; "
    return f"BEGIN {whole}IF ({rule.holds}) IS NOT TRUE THEN {refuse} END IF; RETURN {row}; END"


def postgresql_triggers(rule: Rule) -> tuple[tuple[str, str], ...]:
    """Return the names of a rule's triggers on PostgreSQL, each with when it fires.

    What may not be deleted, or not always, may not be truncated either.
    """
    row = (rule.name, f"BEFORE {rule.event} ON public.{rule.table} FOR EACH ROW")
    if rule.event == "DELETE":
        return row, (
            f"{rule.name}_truncate",
            f"BEFORE TRUNCATE ON public.{rule.table} FOR EACH STATEMENT",
        )
    return (row,)


def _create_on_sqlite(rule: Rule) -> Sequence[str]:
    return (sqlite_trigger(rule),)


def _create_on_postgresql(rule: Rule) -> Sequence[str]:
    # A table of the same name in pg_temp must not be read in place of ours, and the
    # triggers fire in replication mode too, which would else switch them off.
    function = (
        f"CREATE FUNCTION {rule.name}() RETURNS trigger LANGUAGE plpgsql "
        f"SET search_path = public, pg_temp AS $rule${postgresql_body(rule)}$rule$"
    )
    statements = [function]
    for name, fires in postgresql_triggers(rule):
        statements.append(f"CREATE TRIGGER {name} {fires} EXECUTE FUNCTION {rule.name}()")
        statements.append(f"ALTER TABLE {rule.table} ENABLE ALWAYS TRIGGER {name}")
    return statements


_CREATE = {"sqlite": _create_on_sqlite, "postgresql": _create_on_postgresql}
_FOUND = {"sqlite": _found_on_sqlite, "postgresql": _found_on_postgresql}
