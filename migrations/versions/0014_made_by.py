"""Entries say by which key and in which role they were made, and the facts of keys stay.

What is there already keeps its form: it has neither. The conditions are written out
here and not imported, so that this step stays what it was when later ones change the rules.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from app.store.database.rules import Rule, create_rules

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

_TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_ACTS = sa.text("kind NOT IN ('debit', 'reserve', 'unreserve', 'result')")

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
    OR NEW.kind IN ('debit', 'reserve', 'unreserve', 'release_withdrawn')
) END"""

_SAME_KEY_IS_REVOKED = """
NEW.number = OLD.number AND NEW.id = OLD.id AND NEW.name = OLD.name AND NEW.role = OLD.role
AND NEW.person = OLD.person AND NEW.secret_hash = OLD.secret_hash
AND NEW.created_by = OLD.created_by AND NEW.created_at = OLD.created_at
AND NEW.expires_at IS NOT DISTINCT FROM OLD.expires_at
AND OLD.revoked_at IS NULL AND NEW.revoked_at IS NOT NULL"""

_RULES = (
    Rule(
        "entry_made_by",
        "entry",
        "INSERT",
        _MADE_BY,
        "entry: not made by a key in a role that allows it",
    ),
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
)


def upgrade() -> None:
    """Add the columns, an index for the checks of a start, and the rules."""
    op.add_column("entry", sa.Column("key", _TEXT))
    op.add_column("entry", sa.Column("role", _TEXT))
    op.create_index(
        "ix_entry_acts",
        "entry",
        ["account", "kind", "seq"],
        sqlite_where=_ACTS,
        postgresql_where=_ACTS,
    )
    create_rules(op.get_bind(), _RULES)
