"""What hostile statements are put together from, and what must come before them.

Names that begin with ``$`` stand for ids of the ledger that :mod:`tests.app.rules_alone` makes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import Template

from tests.app.ledgers import ANALYST


@dataclass(frozen=True)
class Attack:
    """A statement that a rule refuses, after some that every rule lets pass."""

    statement: str
    before: tuple[str, ...] = ()

    def on(self, names: Mapping[str, str]) -> tuple[list[str], str]:
        """Return what comes before and the statement, for a prepared ledger."""
        *before, statement = (
            Template(each).substitute(names) for each in (*self.before, self.statement)
        )
        return before, statement


def attacks(*statements: str, before: tuple[str, ...] = ()) -> list[Attack]:
    return [Attack(statement, before) for statement in statements]


def insert(table: str, values: Mapping[str, object], *, verb: str = "INSERT", of: str = "") -> str:
    """Return an insertion of columns given as SQL."""
    given = ", ".join(map(str, values.values()))
    return f"{verb} INTO {table} ({', '.join(values)}) SELECT {given} {of}"


_EFFECTS = {
    "grant": ("total_after", "+"),
    "expire": ("total_after", "-"),
    "debit": ("spent_after", "+"),
    "burn": ("spent_after", "+"),
    "reserve": ("reserved_after", "+"),
    "unreserve": ("reserved_after", "-"),
}


def entry(
    kind: str, amount: int, /, *, of: str = "$main", verb: str = "INSERT", **changes: object
) -> str:
    """Return the entry that continues an account's last one, ``p``, with some columns changed."""
    values: dict[str, object] = {
        "account": "p.account", "seq": "p.seq + 1", "epoch": "p.epoch", "kind": f"'{kind}'",
        "principal": f"'{ANALYST}'", "release": "NULL", "idem": "NULL", "fingerprint": "NULL",
        "note": "NULL", "amount": amount, "total_after": "p.total_after",
        "spent_after": "p.spent_after", "reserved_after": "p.reserved_after", "at": "p.at",
        "prev": "p.hash", "hash": f"'{'f' * 64}'", "key": "NULL", "role": "'system'",
    }  # fmt: skip
    if kind in _EFFECTS:
        column, sign = _EFFECTS[kind]
        values[column] = f"p.{column} {sign} {amount}"
    last = f"FROM entry AS p WHERE p.account = '{of}' ORDER BY p.seq DESC LIMIT 1"
    return insert("entry", {**values, **changes}, verb=verb, of=last)


def move(account: str = "$main") -> str:
    return f"UPDATE account SET seq = seq + 1 WHERE id = '{account}'"


def entries(kind: str, amount: int, **changes: Sequence[object]) -> list[Attack]:
    """Return attacks with an entry in each of which one column is another."""
    return [
        Attack(entry(kind, amount, **{column: value}), (move(),))
        for column, values in changes.items()
        for value in values
    ]


def release(*, verb: str = "INSERT", **changes: object) -> str:
    """Return the release that ``CHARGE`` is for, with some columns changed."""
    values: dict[str, object] = {
        "number": 99, "id": "'rel_new'", "account": "'$main'", "seq": LAST,
        "dataset": "'$dataset'", "principal": f"'{ANALYST}'", "state": "'debited'", "attempts": 1,
        "request": "'{}'", "plan": "'{}'", "fingerprint": "'print'", "created_at": "'now'",
        "finished_at": "NULL", "worker": "NULL", "result_hash": "NULL",
    }  # fmt: skip
    return insert("release", {**values, **changes}, verb=verb)


LAST = "(SELECT seq FROM account WHERE id = '$main')"
CHARGE = (
    move(),
    entry("debit", 7, release="'rel_new'", idem="'new'", fingerprint="'print'"),
)
SET_ASIDE = (
    move(),
    entry("reserve", 7, release="'rel_new'", idem="'new'", fingerprint="'print'"),
)
GIVEN_BACK = (move(), entry("unreserve", 30, release="'$reserved'"))
APPROVED = (
    move(),
    entry("debit", 30, release="'$reserved'", reserved_after="p.reserved_after - 30"),
)


def revised(fingerprint: str, **changes: object) -> tuple[str, ...]:
    """Return what moves the reserve of a release to another version."""
    moved = {"release": "'$reserved'", "fingerprint": fingerprint, **changes}
    return (*GIVEN_BACK, move(), entry("reserve", 7, **moved))


REVISED = revised("'print'")
# On another account, where one without a review may name any release.
NAMED_ELSEWHERE = (
    move("$third"),
    entry("debit", 7, of="$third", release="'$foreign'", idem="'new'"),
)


def hash_of(seq: object, account: str = "$main") -> str:
    return f"(SELECT hash FROM entry WHERE account = '{account}' AND seq = {seq})"


ENDING = (move(), entry("expire", 50, fingerprint=hash_of(2)))
ENDED_ELSEWHERE = (
    move("$third"),
    entry("grant", 50, of="$third", fingerprint="'end'", hash=f"'{'d' * 64}'"),
    move("$third"),
    entry("expire", 50, of="$third", fingerprint=f"'{'d' * 64}'"),
)
GRANTED = (move(), entry("grant", 5, fingerprint="'end'"))


ANSWERED = "UPDATE release SET state = 'released' WHERE id = '$debited'"
"""What makes the charged release one that has its result."""


def leaf(number: int, of: str) -> str:
    """Return the statement that stores a leaf of a release, or of one that is not there."""
    found = f"coalesce((SELECT number FROM release WHERE id = '{of}'), 99)"
    return f"$REPLACE INTO leaf (number, release, hash) VALUES ({number}, {found}, '{'b' * 64}')"


LAST_PART = "(SELECT max(number) FROM log_part)"
LEAVES = "(SELECT max(leaves_after) FROM log_part)"
HASHES = "(SELECT hashes FROM log_part WHERE number = 1)"
LOGGED = "(SELECT max(last_seq) FROM log_part WHERE account = '$main')"


def log_part(**changes: object) -> str:
    """Return the part that continues the log and the main account, with some columns changed."""
    values: dict[str, object] = {
        "number": f"{LAST_PART} + 1", "account": "'$main'", "after_seq": LOGGED, "last_seq": LAST,
        "leaves_before": LEAVES, "leaves_after": f"{LEAVES} + 1", "seed": f"'{'b' * 64}'",
        "hashes": HASHES,
    }  # fmt: skip
    return insert("log_part", {**values, **changes}, verb="$REPLACE")
