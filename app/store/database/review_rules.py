"""The rules of the tables of reviews: what has been said stays said, and turns only go on."""

from __future__ import annotations

from app.store.database.rule import Rule

_TURNS_GO_ON = """
NEW.release = OLD.release AND NEW.turn >= OLD.turn AND NEW.version >= OLD.version"""

_SUPERSEDED = """
NOT EXISTS (SELECT 1 FROM revision WHERE release = NEW.release AND version = NEW.version)
AND EXISTS (
    SELECT 1 FROM entry AS e
    WHERE e.account = NEW.account AND e.seq = NEW.seq AND e.release = NEW.release
    AND e.kind = 'reserve')"""

_IN_THE_LEDGER = """
EXISTS (
    SELECT 1 FROM entry AS e
    WHERE e.account = '0' AND e.seq = NEW.seq AND e.kind = '{kind}' AND e.principal = NEW.person)"""

_WRITTEN_ONCE = ("revision", "vote", "review_comment", "notice", "sight", "dataset_edit")

REVIEW_RULES: tuple[Rule, ...] = (
    Rule("review_no_delete", "review", "DELETE", None, "review: reviews stay"),
    Rule("review_forward", "review", "UPDATE", _TURNS_GO_ON, "review: turns only go on"),
    Rule("revision_superseded", "revision", "INSERT", _SUPERSEDED, "revision: nothing reserved"),
    Rule(
        "vote_in_ledger",
        "vote",
        "INSERT",
        _IN_THE_LEDGER.format(kind="review_vote"),
        "vote: not in the ledger",
    ),
    Rule(
        "dataset_edit_in_ledger",
        "dataset_edit",
        "INSERT",
        _IN_THE_LEDGER.format(kind="dataset_edited"),
        "dataset_edit: not in the ledger",
    ),
    *(
        Rule(f"{table}_no_{event.lower()}", table, event, None, f"{table}: written once")
        for table in _WRITTEN_ONCE
        for event in ("UPDATE", "DELETE")
    ),
)
