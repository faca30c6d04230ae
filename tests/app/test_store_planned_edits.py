"""Edits by somebody who knows the tables, with every guard off: found on both databases.

On PostgreSQL each edit is made in a transaction that is undone once it has been looked at.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine

from app.domain.ledger import Entry, chain_hash
from app.domain.releases import result_digest
from app.store.database.engines import migrating_engine
from app.store.database.migrate import check_schema
from app.store.database.tables import metadata
from app.store.errors import TamperedSchemaError
from app.store.verification.verify import verify
from tests.app.conftest import ON_BOTH
from tests.app.ledgers import Place, Raw, file_of, opened, place_on, raw, unguarded
from tests.app.test_store_edits import everything

LEDGER = sorted(
    set(metadata.tables)
    - {"worker", "job", "turn", "key_use", "upload", "rate", "allowance"}
    - {"desk_form", "desk_session", "notice", "notice_read", "delivery", "review_comment", "sight"}
    - {"log_stamp"}
)
"""The tables that are the ledger: not who draws what next, what is on its way in, how often, or who
is told of it, says something to it or has seen it. Stamps hold by their authority's signature."""


@dataclass
class Seen:
    """What verification says of an edit, and the parts for which a store is not opened."""

    faults: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def refused(connection: Connection) -> list[str]:
    """Return the parts of the schema that the check at start names."""
    try:
        check_schema(connection)
    except TamperedSchemaError as error:
        return str(error).rpartition(": ")[2].split(", ")
    return []


def see(connection: Connection, seen: Seen) -> None:
    """Look at an edited ledger as a start does, and as a verification does."""
    seen.refused += refused(connection)
    seen.faults += verify(connection, signed=True, processes=0).faults


@dataclass(frozen=True)
class Original:
    """A closed ledger with one of everything, which edits leave as it is."""

    place: Place
    file: Path
    """What is edited on SQLite: a copy, which the next edit replaces."""
    engine: Engine
    """One for all edits: each would compile the statements of a verification again."""

    @contextmanager
    def edited(self) -> Iterator[tuple[Raw, Seen]]:
        """Give a connection without guards; what it has done is seen, and gone, at the end."""
        edit = self._on_a_copy if self.place.backend == "sqlite" else self._undone
        with edit() as both:
            yield both
        self.engine.dispose()

    @contextmanager
    def _on_a_copy(self) -> Iterator[tuple[Raw, Seen]]:
        seen = Seen()
        shutil.copy(file_of(self.place.directory), self.file)
        with raw(self.file, guarded=False) as connection:
            yield Raw(connection, "sqlite"), seen
        with self.engine.connect() as reopened:
            see(reopened, seen)

    @contextmanager
    def _undone(self) -> Iterator[tuple[Raw, Seen]]:
        seen = Seen()
        with self.engine.connect() as connection, connection.begin() as transaction:
            driver: Any = connection.connection.dbapi_connection
            with unguarded(driver):
                yield Raw(driver, "postgres"), seen
            see(connection, seen)
            transaction.rollback()

    def rows(self, connection: Raw) -> list[object]:
        return [
            sorted(map(repr, connection.execute(f"SELECT * FROM {table}").fetchall()))
            for table in LEDGER
        ]


@contextmanager
def original_on(backend: str, directories: pytest.TempPathFactory) -> Iterator[Original]:
    with place_on(backend, directories.mktemp("original")) as place:
        with opened(place, total=100) as ledger:
            everything(ledger)
        file = directories.mktemp("edited") / "edited.sqlite"
        url = f"sqlite:///{file}" if backend == "sqlite" else place.url
        yield Original(place, file, migrating_engine(url))


@pytest.fixture(scope="module", params=ON_BOTH)
def original(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Original]:
    with original_on(request.param, tmp_path_factory) as made:
        yield made


def test_nothing_is_found_where_nothing_was_done(original: Original) -> None:
    with original.edited() as (_, seen):
        pass
    assert seen == Seen()


@pytest.mark.wide
def test_every_removal_is_found(original: Original) -> None:
    removals = []
    with original.edited() as (connection, _):
        for table in LEDGER:
            keys = [column.name for column in metadata.tables[table].primary_key]
            where = " AND ".join(f"{key} = ?" for key in keys)
            rows = connection.execute(f"SELECT {', '.join(keys)} FROM {table}").fetchall()
            assert rows, f"there must be a row in {table} to remove"
            removals += [(f"DELETE FROM {table} WHERE {where}", row) for row in rows]
    assert len(removals) > 60
    for statement, row in removals:
        with original.edited() as (connection, seen):
            assert connection.execute(statement, row).rowcount == 1
        assert seen.faults, (statement, row)


def budget_account(connection: Raw) -> str:
    """Return the account with the most debits."""
    return str(
        connection.execute(
            "SELECT account FROM entry WHERE kind = 'debit'"
            " GROUP BY account ORDER BY count(*) DESC, account LIMIT 1"
        ).fetchone()[0]
    )


def raise_the_total(connection: Raw) -> None:
    connection.execute("UPDATE account SET total = total + 5 WHERE total > 50")


def raise_the_total_everywhere(connection: Raw) -> None:
    account = (budget_account(connection),)
    connection.execute("UPDATE account SET total = total + 5 WHERE id = ?", account)
    connection.execute("UPDATE entry SET total_after = total_after + 5 WHERE account = ?", account)
    connection.execute(
        "UPDATE entry SET amount = amount + 5 WHERE account = ? AND seq = 1", account
    )


def move_what_is_reserved(connection: Raw) -> None:
    connection.execute("UPDATE account SET reserved = 0 WHERE reserved > 0")


def refund(connection: Raw) -> None:
    connection.execute("UPDATE account SET spent = 0")
    connection.execute("UPDATE entry SET spent_after = 0, amount = 0 WHERE kind = 'debit'")


def drop_a_system_entry(connection: Raw) -> None:
    connection.execute("DELETE FROM entry WHERE account = '0' AND kind = 'key_revoked'")


def blame_somebody_else(connection: Raw) -> None:
    connection.execute(
        "UPDATE entry SET principal = 'person_bob' WHERE account = '0' AND kind = 'key_revoked'"
    )


def drop_the_last_debit(connection: Raw) -> None:
    """Cut the chain's end off and fit the balance to what is left; the release remains."""
    account = budget_account(connection)
    connection.execute(
        "DELETE FROM entry WHERE account = ? AND seq >= (SELECT max(seq) FROM entry"
        " WHERE account = ? AND kind = 'debit')",
        (account, account),
    )
    connection.execute(
        "UPDATE account SET (seq, total, spent, reserved, head) ="
        " (SELECT seq, total_after, spent_after, reserved_after, hash FROM entry"
        " WHERE account = ? ORDER BY seq DESC LIMIT 1) WHERE id = ?",
        (account, account),
    )


def drop_a_whole_account(connection: Raw) -> None:
    """With its data set, as if neither had ever been."""
    (account,) = connection.execute(
        "SELECT id FROM account WHERE id NOT IN ('0', ?)", (budget_account(connection),)
    ).fetchone()
    connection.execute(
        "DELETE FROM lineage WHERE dataset IN (SELECT id FROM dataset WHERE account = ?)",
        (account,),
    )
    for table, column in (("dataset", "account"), ("entry", "account"), ("account", "id")):
        connection.execute(f"DELETE FROM {table} WHERE {column} = ?", (account,))


def swap_entries(connection: Raw) -> None:
    account = budget_account(connection)
    for start, end in ((3, 999), (4, 3), (999, 4)):
        connection.execute(
            "UPDATE entry SET seq = ? WHERE account = ? AND seq = ?", (end, account, start)
        )


def rehash_one(connection: Raw) -> None:
    """Edit an early entry and give it a correct hash; the next one still binds the old."""
    (ledger,) = connection.execute("SELECT id FROM ledger").fetchone()
    names = [column.name for column in metadata.tables["entry"].c]
    key = (budget_account(connection),)
    connection.execute("UPDATE entry SET note = 'forged' WHERE account = ? AND seq = 2", key)
    row = connection.execute(
        f"SELECT {', '.join(names)} FROM entry WHERE account = ? AND seq = 2", key
    ).fetchone()
    connection.execute(
        "UPDATE entry SET hash = ? WHERE account = ? AND seq = 2",
        (chain_hash(Entry(**dict(zip(names, row, strict=True))), ledger), *key),
    )


def replace_results(connection: Raw) -> None:
    connection.execute("UPDATE release SET result = ? WHERE state = 'released'", (b"{}",))


def edit_a_result_with_its_hash(connection: Raw) -> None:
    for number, result, at in connection.execute(
        "SELECT number, result, finished_at FROM release WHERE result IS NOT NULL"
    ).fetchall():
        forged = result.replace(b'"income":3', b'"income":4')
        connection.execute(
            "UPDATE release SET result = ?, result_hash = ? WHERE number = ?",
            (forged, result_digest(forged, at), number),
        )


def drop_the_receipt_too(connection: Raw) -> None:
    forged = b'{"id":"rel","value":{"income":4}}'
    for number, at in connection.execute(
        "SELECT number, finished_at FROM release WHERE result IS NOT NULL"
    ).fetchall():
        connection.execute(
            "UPDATE release SET result = ?, result_hash = ? WHERE number = ?",
            (forged, result_digest(forged, at), number),
        )


def swap_two_results(connection: Raw) -> None:
    """Give each of two releases the other's signed answer, hash, and time."""
    one, two = connection.execute(
        "SELECT number, result, result_hash, finished_at FROM release WHERE state = 'released'"
    ).fetchmany(2)
    for (number, *_), (_, *theirs) in ((one, two), (two, one)):
        connection.execute(
            "UPDATE release SET result = ?, result_hash = ?, finished_at = ? WHERE number = ?",
            (*theirs, number),
        )


def draw_a_void_release_again(connection: Raw) -> None:
    connection.execute(
        "UPDATE release SET state = 'debited', finished_at = NULL, attempts = 1"
        " WHERE state = 'void'"
    )


def forget_attempts(connection: Raw) -> None:
    connection.execute("UPDATE release SET attempts = 1 WHERE state = 'debited'")


def count_another_attempt(connection: Raw) -> None:
    connection.execute("UPDATE release SET attempts = 3 WHERE state = 'debited'")


def swap_the_public_key(connection: Raw) -> None:
    connection.execute("UPDATE entry SET note = ? WHERE kind = 'receipt_key'", ("A" * 43,))


def widen_a_dataset(connection: Raw) -> None:
    connection.execute("UPDATE dataset SET spec = '{\"policy\": null}'")


def archive_quietly(connection: Raw) -> None:
    connection.execute("UPDATE dataset SET status = 'archived', archived_at = 'now'")


def become_an_admin(connection: Raw) -> None:
    connection.execute("UPDATE api_key SET role = 'admin'")


def bring_a_key_back(connection: Raw) -> None:
    connection.execute("UPDATE api_key SET revoked_at = NULL")


def smuggle_a_key_in(connection: Raw) -> None:
    connection.execute(
        "INSERT INTO api_key SELECT 99, 'key_x', name, 'admin', person, 'hash', created_by,"
        " created_at, NULL, NULL, sorts_as FROM api_key LIMIT 1"
    )


def raise_the_epoch(connection: Raw) -> None:
    connection.execute("UPDATE ledger SET epoch = 2")


def rename_the_ledger(connection: Raw) -> None:
    connection.execute("UPDATE ledger SET id = ?", (f"ledger_{secrets.token_hex(16)}",))


def forget_a_lineage(connection: Raw) -> None:
    connection.execute("DELETE FROM lineage")


def raise_a_cap(connection: Raw) -> None:
    connection.execute("UPDATE cap SET amount = amount + 1")


def make_a_grant_last(connection: Raw) -> None:
    connection.execute("DELETE FROM expiring")


@pytest.mark.parametrize(
    "attack",
    [
        raise_the_total,
        raise_the_total_everywhere,
        move_what_is_reserved,
        refund,
        drop_a_system_entry,
        blame_somebody_else,
        drop_the_last_debit,
        drop_a_whole_account,
        swap_entries,
        rehash_one,
        replace_results,
        edit_a_result_with_its_hash,
        drop_the_receipt_too,
        swap_two_results,
        draw_a_void_release_again,
        forget_attempts,
        count_another_attempt,
        swap_the_public_key,
        widen_a_dataset,
        archive_quietly,
        become_an_admin,
        bring_a_key_back,
        smuggle_a_key_in,
        raise_the_epoch,
        rename_the_ledger,
        forget_a_lineage,
        raise_a_cap,
        make_a_grant_last,
    ],
)
def test_a_planned_edit_is_found(original: Original, attack: Callable[[Raw], None]) -> None:
    with original.edited() as (connection, seen):
        before = original.rows(connection)
        attack(connection)
        assert original.rows(connection) != before, "the attack must have done something"
    assert seen.faults
