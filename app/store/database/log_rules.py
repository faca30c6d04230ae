"""The rules of the public log: append-only, each part continuing the tree and its account."""

from __future__ import annotations

from app.store.database.rule import Rule

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
