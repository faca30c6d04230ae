"""A small ledger to test on: one store, one account, one data set, one analyst."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from app.domain.releases import may_be_redrawn
from app.domain.reviews import Decision, PlannedRequest, plan_key
from app.store import Charged, Debit, Reader, ReleaseRecord, Store, UnitOfWork
from app.store.anchor.file import FileAnchor
from app.store.database.rules import RULES, postgresql_triggers
from app.store.database.tables import metadata
from app.store.ledger.reviewing.votes import View
from tests.app.templates import migrated_sqlite

BACKENDS = ("sqlite", "postgres")

ANALYST = "person_ann"
CURATOR = "person_cleo"


def url_of(directory: Path) -> str:
    return f"sqlite:///{file_of(directory)}"


def file_of(directory: Path) -> Path:
    return directory / "ledger.sqlite"


@dataclass(frozen=True)
class Place:
    """Where a test's ledger is: a data directory, and a database of either kind."""

    directory: Path
    url: str
    anchored: bool = True

    @property
    def backend(self) -> str:
        return "sqlite" if self.url.startswith("sqlite") else "postgres"

    def open(self, **options: Any) -> Store:
        """Open the store, on SQLite with its anchor."""
        if self.backend == "sqlite" and self.anchored:
            options.setdefault("anchor", FileAnchor(self.directory / "anchor"))
        return Store.open(self.url, data_dir=self.directory, **options)


@contextmanager
def place_on(backend: str, directory: Path) -> Iterator[Place]:
    """Give a place that has its tables, and on PostgreSQL its database back at the end."""
    if backend == "sqlite":
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        file_of(directory).write_bytes(migrated_sqlite())
        yield Place(directory, url_of(directory))
        return
    from tests.app.postgres import databases

    name = databases().lend()
    try:
        yield Place(directory, databases().url(name))
    finally:
        databases().take_back(name)


@dataclass(frozen=True)
class Ledger:
    """An open store with an account of a given total."""

    store: Store
    account: str
    dataset: str
    place: Place

    @property
    def file(self) -> Path:
        return file_of(self.place.directory)

    def debit(
        self,
        idem: str,
        amount: int = 1,
        *,
        principal: str = ANALYST,
        request: str = "{}",
        worker: str | None = None,
    ) -> ReleaseRecord:
        """Charge for a release as the service does; the key must be a new one."""
        charged = self.store.write(
            Debit(
                dataset=self.dataset,
                principal=principal,
                idem=idem,
                amount=amount,
                request=request,
                plan="{}",
                worker=worker,
            )
        )
        assert charged.fresh, "the key has been used"
        return charged.record

    def reserve(self, u: UnitOfWork, idem: str, amount: int = 1) -> ReleaseRecord:
        """Set budget aside for a release that waits for its review."""
        return u.reviews.reserve(
            account=self.account,
            amount=amount,
            dataset=self.dataset,
            principal=ANALYST,
            request="{}",
            plan="{}",
            idem=idem,
        )

    def release(self, idem: str, amount: int = 1, result: bytes = b"{}") -> ReleaseRecord:
        debited = self.debit(idem, amount)
        return self.store.write(lambda u: u.releases.finish(debited.id, result))

    def grant(self, amount: int) -> None:
        self.store.write(
            lambda u: u.accounts.grant(self.account, amount, principal=CURATOR, reason="more")
        )

    def balance(self) -> tuple[int, int, int]:
        with self.store.reading() as r:
            found = r.accounts.get(self.account)
        assert found is not None
        return found.total, found.spent, found.reserved


@contextmanager
def opened(where: Place | Path, *, total: int = 1000, **options: Any) -> Iterator[Ledger]:
    """Open a ledger in a place, or in a directory on SQLite."""
    place = where if isinstance(where, Place) else Place(where, url_of(where))
    store = place.open(**options)
    try:
        account = store.write(
            lambda u: u.accounts.open(total=total, principal=CURATOR, reason="first budget")
        )
        dataset = store.write(
            lambda u: u.datasets.insert(
                name="people", account=account.id, spec="{}", rows=3, principal=CURATOR
            )
        )
        yield Ledger(store, account.id, dataset.id, place)
    finally:
        store.close()


def talked_about(store: Store, release: str, dataset: str) -> None:
    """Leave one of everything that is said of a release while it waits; it is revised once."""

    def talk(u: UnitOfWork) -> None:
        for decision in (Decision.APPROVE, Decision.REQUEST_CHANGES):
            u.votes.cast(release, turn=1, person=CURATOR, decision=decision, reason="hm")
        u.comments.add(release, turn=1, person=CURATOR, private=True, text="why?", most_bytes=None)
        u.reviews.request_changes(release, principal=CURATOR, reason="less, please")
        u.reviews.revise(release, amount=2, request='{"less":1}', plan='{"other":1}')
        u.notices.mark_read([1], ANALYST)
        u.notices.claim(1, "webhook", at="2026", next_at="2026-11-21T12:00:00Z")
        u.views.note([View(release=release, person=CURATOR, how="read", key="key", at="2026")])
        for words in ("first", "second"):
            u.datasets.edit(
                dataset, f'{{"description":"{words}"}}', principal=CURATOR, reason="clearer"
            )

    store.write(talk)


PLANNED = (
    PlannedRequest(request='{"first":1}', amount=2, mechanism="k_norm", norm="l2"),
    PlannedRequest(request='{"second":2}', amount=3, mechanism="kng", norm=None),
)
"""The questions of a study plan, as the store keeps them."""


def drafted(ledger: Ledger, name: str = "a study") -> str:
    """Save a study plan and return its id."""
    return ledger.store.write(
        lambda u: u.study_plans.save(
            account=ledger.account, dataset=ledger.dataset, person=ANALYST, name=name,
            purpose="a report", questions=PLANNED,
        )
    ).id  # fmt: skip


def requested_plan(ledger: Ledger, name: str = "a study") -> str:
    """Save a study plan and ask for its approval."""
    plan = drafted(ledger, name)
    ledger.store.write(lambda u: u.study_plans.request(plan))
    return plan


def returned_plan(ledger: Ledger, name: str = "a study") -> str:
    """Have a study plan requested whose reviewer then wants changes."""
    plan = requested_plan(ledger, name)
    ledger.store.write(
        lambda u: u.study_plans.request_changes(plan, principal=CURATOR, reason="less, please")
    )
    return plan


def resent_plan(ledger: Ledger, name: str = "a study") -> str:
    """Have a study plan requested again, with its second question alone."""
    plan = returned_plan(ledger, name)

    def send(u: UnitOfWork) -> None:
        u.study_plans.edit(plan, name="less", purpose=None, questions=PLANNED[1:])
        u.study_plans.request(plan)

    ledger.store.write(send)
    return plan


def approved_plan(
    ledger: Ledger, name: str = "a study", *, until: str = "2999-01-01T00:00:00.000000Z"
) -> str:
    """Have a study plan approved, after two votes on it."""
    plan = requested_plan(ledger, name)

    def approve(u: UnitOfWork) -> None:
        found = u.study_plans.get(plan)
        assert found is not None
        for decision in (Decision.REJECT, Decision.APPROVE):
            u.study_plans.vote(found, person=CURATOR, decision=decision, reason="hm")
        u.study_plans.approve(plan, principal=CURATOR, reason="fine", expires_at=until)

    ledger.store.write(approve)
    return plan


def planned_debit(ledger: Ledger, plan: str, question: int = 0) -> Charged:
    """Charge for a question of a study plan, as the service does."""
    planned = PLANNED[question]
    return ledger.store.write(
        Debit(
            dataset=ledger.dataset,
            principal=ANALYST,
            idem=plan_key(plan, question),
            amount=planned.amount,
            request=planned.request,
            plan="{}",
            study_plan=plan,
        )
    )


def found_by_key(reader: Reader, person: str, idem: str) -> ReleaseRecord | None:
    """Return the release that a person's Idempotency-Key has, as it is stored, or None."""
    known = reader.releases.known({(person, idem)}).get((person, idem))
    return None if known is None else reader.releases.get(known.id)


def left_behind(store: Store) -> tuple[ReleaseRecord, ...]:
    """Count a new attempt for what a dead process left charged, or void it; return the former."""

    def settle(u: UnitOfWork) -> tuple[ReleaseRecord, ...]:
        again = []
        for left in u.releases.debited():
            if may_be_redrawn(left.attempts):
                again.append(u.releases.begin_attempt(left.id))
            else:
                u.releases.void(left.id)
        return tuple(again)

    return store.write(settle)


@dataclass(frozen=True)
class Raw:
    """A connection that is not ours, to either database, with ``?`` for parameters."""

    connection: Any
    backend: str

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        if self.backend == "postgres":
            # without parameters the driver leaves percent signs alone
            statement = statement.replace("?", "%s") if parameters else statement
            return self.connection.execute(statement, parameters or None)
        return self.connection.execute(statement, parameters)

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE" if self.backend == "sqlite" else "BEGIN")

    def dump(self) -> list[object]:
        """Return every row of every table."""
        if self.backend == "sqlite":
            return list(self.connection.iterdump())
        return [
            (table.name, row)
            for table in metadata.sorted_tables
            for row in sorted(map(repr, self.execute(f"SELECT * FROM {table.name}").fetchall()))
        ]


DATABASE_ERRORS = (sqlite3.Error, psycopg.Error)
REFUSALS = (sqlite3.IntegrityError, psycopg.IntegrityError, psycopg.DataError)
"""What either driver raises for a statement that breaks a rule or a type."""


@contextmanager
def raw(where: Place | Path, *, guarded: bool = True) -> Iterator[Any]:
    """A connection that is not ours: with foreign keys on, or with every guard off.

    On a file the triggers are put back at the end: what is left is the edit alone.

    For a file it is the driver's own, for a place a :class:`Raw`.
    """
    if isinstance(where, Path):
        with _raw_file(where, guarded=guarded) as connection:
            yield connection
    elif where.backend == "sqlite":
        with _raw_file(file_of(where.directory), guarded=guarded) as connection:
            yield Raw(connection, "sqlite")
    else:
        with psycopg.connect(where.url, autocommit=True) as connection:
            if not guarded:
                _unguard(connection)
            yield Raw(connection, "postgres")


@contextmanager
def _raw_file(file: Path, *, guarded: bool) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        if guarded:
            connection.execute("PRAGMA foreign_keys = ON")
        else:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA ignore_check_constraints = ON")
            connection.execute("PRAGMA synchronous = OFF")
            triggers = connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
            ).fetchall()
            _at_once(connection, [f'DROP TRIGGER "{name}"' for name, _ in triggers])
        yield connection
        if not guarded:
            _at_once(connection, [statement for _, statement in triggers])
    finally:
        connection.close()


def _at_once(connection: sqlite3.Connection, statements: Sequence[str]) -> None:
    connection.execute("BEGIN")
    for statement in statements:
        connection.execute(statement)
    connection.execute("COMMIT")


@contextmanager
def unguarded(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Let the rest of a transaction on PostgreSQL edit as it likes, but for types and CHECKs.

    At the end the triggers are in force again: what is left is the edit alone.
    """
    connection.execute("SET LOCAL session_replication_role = replica")  # foreign keys too
    for table in metadata.tables:
        connection.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER".encode())
    yield
    for rule in RULES:
        for name, _ in postgresql_triggers(rule):
            enable = f"ALTER TABLE {rule.table} ENABLE ALWAYS TRIGGER {name}"
            connection.execute(enable.encode())
    connection.execute("SET LOCAL session_replication_role = origin")


def _unguard(connection: psycopg.Connection[Any]) -> None:
    for rule in RULES:
        connection.execute(f"DROP FUNCTION IF EXISTS {rule.name}() CASCADE".encode())
    for table, name in connection.execute(
        "SELECT conrelid::regclass::text, conname FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace AND contype IN ('c', 'f')"
    ).fetchall():
        connection.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}".encode())
