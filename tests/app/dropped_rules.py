"""The ledger's rules dropped, or others in their place: what a forger does first."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from app.store.database.rules import Rule, create_rules

_DROP = {
    "sqlite": "DROP TRIGGER IF EXISTS {name}",
    # Its triggers go with the function.
    "postgresql": "DROP FUNCTION IF EXISTS {name}() CASCADE",
}


def drop_rules(connection: Connection, names: Sequence[str]) -> None:
    """Drop rules by name, those that are there."""
    for name in names:
        connection.exec_driver_sql(_DROP[connection.dialect.name].format(name=name))


def replace_rules(connection: Connection, rules: Sequence[Rule]) -> None:
    """Put rules in the place of those with the same names."""
    drop_rules(connection, [rule.name for rule in rules])
    create_rules(connection, rules)
