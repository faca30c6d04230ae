"""Each rule of the ledger, alone: it refuses what breaks it, and nothing else would.

Foreign keys, CHECKs and on PostgreSQL the keys themselves are out of force here, as they may be
for a stranger: whatever is refused, a rule has refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from app.store.database.rules import RULES, Rule, wrong_rules
from tests.app.attack_parts import Attack
from tests.app.attacks import ATTACKS
from tests.app.conftest import ON_BOTH
from tests.app.dropped_rules import drop_rules, replace_rules
from tests.app.ledgers import place_on
from tests.app.rules_alone import prepared

_SIDE = (
    r"(?:'\w*'|\((?:OLD|NEW)\.\w+ IS NULL\)|\(SELECT \w+ FROM \w+\)"
    r"|(?!(?:CASE|WHEN|AND|OR|NOT|EXISTS)\b)[\w.]+(?: [+-] [\w.]+)?)"
)
_COMPARISON = re.compile(
    rf"{_SIDE} (?:[=<>]+|IS NOT DISTINCT FROM) {_SIDE}"
    rf"|{_SIDE} IS (?:NOT )?NULL|{_SIDE} IN \([^)]*\)|\bFALSE\b"
)
_CHOICE = re.compile(r"[\w.]+ = CASE\b.*?\bEND\b", re.DOTALL)


class Prepared:
    """A ledger that only its rules guard; what is tried on it is undone."""

    def __init__(self, connection: Connection, names: Mapping[str, str]) -> None:
        self.connection = connection
        self.names = names

    def attacks(self, rule: Rule) -> list[Attack]:
        """Return what is tried on a rule here."""
        found = [*ATTACKS.get(rule.name, ())]
        if self.connection.dialect.name == "postgresql" and rule.event == "DELETE":
            found.append(Attack(f"TRUNCATE {rule.table}"))
        return found

    @contextmanager
    def undone(self) -> Iterator[None]:
        """Undo at the end whatever is done."""
        with self.connection.begin() as transaction:
            yield
            transaction.rollback()

    def tried(self, attack: Attack) -> str | None:
        """Try a statement inside a transaction, and return what it is told; None if it passes."""
        before, statement = attack.on(self.names)
        with self.connection.begin_nested() as savepoint:
            try:
                for each in before:
                    reported = self._told(each)
                    if reported is not None:
                        return f"before it: {reported}"
                return self._told(statement)
            finally:
                savepoint.rollback()

    def _told(self, statement: str) -> str | None:
        try:
            done = self.connection.exec_driver_sql(statement)
        except DBAPIError as error:
            return _words(error)
        assert done.rowcount != 0, f"{statement} changes nothing"
        return None


def _words(error: DBAPIError) -> str:
    """Return a refusal in the database's own words, without where it was raised."""
    diagnosis = getattr(error.orig, "diag", None)
    return str(error.orig) if diagnosis is None else str(diagnosis.message_primary)


@pytest.fixture(scope="module", params=ON_BOTH)
def ledger(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Prepared]:
    """A ledger of this module's, which stays as it is."""
    directory = tmp_path_factory.mktemp("ledger")
    with place_on(request.param, directory) as place, prepared(place) as (connection, names):
        yield Prepared(connection, names)


every_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


def test_nothing_is_tried_on_a_rule_that_is_not_there() -> None:
    assert ATTACKS.keys() == {rule.name for rule in RULES}


@every_rule
def test_a_rule_refuses_what_breaks_it(ledger: Prepared, rule: Rule) -> None:
    attacks = ledger.attacks(rule)
    assert attacks, f"nothing is tried on {rule.name}"
    with ledger.undone():
        assert wrong_rules(ledger.connection) == []
        for attack in attacks:
            assert ledger.tried(attack) == rule.message, attack


@every_rule
def test_without_the_rule_the_same_passes(ledger: Prepared, rule: Rule) -> None:
    """So it is this rule that refuses, and no other and no constraint."""
    with ledger.undone():
        drop_rules(ledger.connection, [rule.name])
        for attack in ledger.attacks(rule):
            assert ledger.tried(attack) is None, attack


def conditions(holds: str) -> list[tuple[int, int]]:
    """Return where in a rule's condition the comparisons it is made of are."""
    rest = _COMPARISON.sub("", _CHOICE.sub(lambda each: each.group().split("=", 1)[1], holds))
    assert not re.search(r"[=<>]|\bIS\b|\bIN\b|\bLIKE\b|\bBETWEEN\b", rest), rest
    return sorted(each.span() for each in (*_CHOICE.finditer(holds), *_COMPARISON.finditer(holds)))


@every_rule
def test_every_condition_of_a_rule_refuses_something(ledger: Prepared, rule: Rule) -> None:
    """With any comparison of it taken as decided, something passes that the rule refuses."""
    holds = rule.holds or ""
    attacks = ledger.attacks(rule)

    def passing(start: int, end: int) -> int | None:
        for decided in ("TRUE", "FALSE"):
            weaker = replace(rule, holds=f"{holds[:start]}{decided}{holds[end:]}")
            with ledger.undone():
                replace_rules(ledger.connection, [weaker])
                for number, attack in enumerate(attacks):
                    if ledger.tried(attack) is None:
                        return number
        return None

    for start, end in conditions(holds):
        found = passing(start, end)
        assert found is not None, f"nothing that is tried shows {holds[start:end]!r} at {start}"
        # Both are in about the same order: what shows the next is not far.
        attacks = attacks[found:] + attacks[:found]
