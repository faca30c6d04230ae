"""An anchor in a second PostgreSQL database, shared by every server process of a ledger.

One row says what is certain and what was to follow, a row per account where it
stands. A writer holds the ledger's own lock while it is here, so writers come
one after the other; each goes on by compare-and-swap from the version that it
has read, so a copy of the ledger that is served in parallel stops at once.

What another process noted last may or may not have been committed. The ledger
itself shows it: :meth:`DatabaseAnchor.settle` is given where the accounts are.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import Connection, text
from sqlalchemy.engine import make_url

from app.domain.ledger import SYSTEM_ACCOUNT
from app.store.anchor.file import (
    as_text,
    from_text,
    positions_of,
    state_of,
    state_record,
    step_of,
    step_record,
)
from app.store.anchor.standing import (
    Anchored,
    AnchorError,
    AnchorMismatchError,
    AnchorMovedError,
    Evidence,
    LedgerState,
    Step,
)
from app.store.database.postgresql import DURABLE, LIVENESS, check_server
from app.store.errors import UnsupportedDatabaseError
from app.store.ledger.entries import Position

LONGEST_MS = 30_000
"""How long a statement may take: a writer waits for it with the ledger's lock in its hands, and so
does everyone behind it."""

_TABLES = (
    """CREATE TABLE IF NOT EXISTS anchor (
        number integer CONSTRAINT pk_anchor PRIMARY KEY CONSTRAINT ck_anchor CHECK (number = 1),
        version bigint NOT NULL, ledger text, epoch bigint, unfinished bigint, follows text)""",
    """CREATE TABLE IF NOT EXISTS anchor_account (
        account text CONSTRAINT pk_anchor_account PRIMARY KEY,
        seq bigint NOT NULL, head text NOT NULL, spent bigint NOT NULL)""",
)
_ROW = "SELECT version, ledger, epoch, unfinished, follows FROM anchor"
_ACCOUNTS = "SELECT account, seq, head, spent FROM anchor_account"
# With the version in one statement: a note may come between two.
_ACCOUNTS_AT = (
    "SELECT account, seq, head, spent, (SELECT version FROM anchor) FROM anchor_account"
    " WHERE account = ANY(%s)"
)
_HOLD = text("SELECT pg_advisory_xact_lock(:key)")
_TRY = "SELECT pg_try_advisory_xact_lock(%s)"
_PUT = (
    "INSERT INTO anchor_account (account, seq, head, spent)"
    " SELECT account, seq, head, spent FROM jsonb_to_recordset(%(accounts)s::jsonb)"
    " AS given (account text, seq bigint, head text, spent bigint)"
)
# One statement, so one round trip and one flush.
_NEXT = (
    "WITH won AS (UPDATE anchor SET version = version + 1, follows = %(follows)s,"
    " unfinished = unfinished + %(change)s WHERE version = %(version)s RETURNING 1),"
    " put AS (INSERT INTO anchor_account (account, seq, head, spent)"
    " SELECT account, seq, head, spent FROM jsonb_to_recordset(%(accounts)s::jsonb)"
    " AS given (account text, seq bigint, head text, spent bigint)"
    " WHERE EXISTS (SELECT 1 FROM won) ON CONFLICT (account) DO UPDATE"
    " SET seq = excluded.seq, head = excluded.head, spent = excluded.spent)"
    " SELECT count(*) FROM won"
)
_FIRST = (
    "INSERT INTO anchor (number, version, ledger, epoch, unfinished, follows)"
    " VALUES (1, %s, %s, %s, %s, %s) ON CONFLICT (number) DO UPDATE SET"
    " version = excluded.version, ledger = excluded.ledger, epoch = excluded.epoch,"
    " unfinished = excluded.unfinished, follows = excluded.follows"
)


class _Noted(NamedTuple):
    """The anchor's one row; without a ledger a reconciliation has begun."""

    version: int
    ledger: str | None
    epoch: int
    unfinished: int
    follows: str | None


class DatabaseAnchor:
    """The anchor of one ledger on PostgreSQL; each process has its own connection to it.

    Parameters
    ----------
    url
        The anchor's database: another one than the ledger's, best on another server.

    Raises
    ------
    UnsupportedDatabaseError
        It is no PostgreSQL database.
    """

    place = "database"

    def __init__(self, url: str) -> None:
        parsed = make_url(url.replace("postgres://", "postgresql://", 1))
        if parsed.get_backend_name() != "postgresql":
            raise UnsupportedDatabaseError("the anchor's database must be on PostgreSQL")
        self._info = make_conninfo(
            parsed.set(drivername="postgresql").render_as_string(hide_password=False),
            **{**LIVENESS, "application_name": "release-desk anchor"},
        )
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._version = 0
        self._certain: dict[str, Position] = {}
        self._applied: Step | None = None
        self._noted = False

    def read(self) -> Anchored | None:
        """Return what the rows say; None when there are none."""
        with self._connected() as connection, connection.transaction():
            noted = _noted(connection)
            accounts = _asked(connection, _ACCOUNTS)
        if noted is None:
            return None
        self._version = noted.version
        return _anchored(noted, accounts)

    @property
    def witness(self) -> DatabaseWitness:
        """Return a reader of it for other processes."""
        return DatabaseWitness(self._info)

    def start(self, state: LedgerState, *, lost: Step | None = None) -> None:
        """Write everything again if there is nothing yet, or after a committed reconciliation."""
        del lost  # the next transaction finds it, in whatever process
        known = self.read()
        if known is None or isinstance(known.follows, LedgerState):
            self._write(state, None)

    def settle(self, evidence: Evidence) -> Step | None:
        """Find out what became of the transaction noted last; return it if it was lost."""
        with self._connected() as connection:
            noted = _noted(connection)
            if noted is None or noted.ledger is None:
                raise AnchorMismatchError("the anchor has been emptied")
            # From here on a writer elsewhere makes the compare-and-swap of `begin` fail, and the
            # next transaction settles again. It judges by the ledger what the other one has noted.
            self._version, follows = noted.version, noted.follows
            record = from_text(follows) if follows else {"moves": {}, "results": {}}
            if "state" in record:
                raise AnchorMismatchError("a reconciliation has not been started from")
            # Results that are stored again are sealed, which moves the system account.
            names = sorted({*record["moves"], *evidence.moved, SYSTEM_ACCOUNT})
            rows = _asked(connection, _ACCOUNTS_AT, (names,))
        if any(version != noted.version for *_, version in rows):
            raise AnchorMovedError("somebody else has moved the anchor while it was read")
        self._certain = _by_name([at for *at, _ in rows])
        self._applied = None
        if not follows:
            return None
        # Noted and unknown: the ledger itself says whether the COMMIT came.
        step = step_of(record, self._certain)
        if _has_happened(step, evidence):
            self._applied = step
            self._certain |= {name: move.pending for name, move in step.moves.items()}
            return None
        return step

    def begin(self, step: Step) -> None:
        """Note a transaction with one statement, if no other process has noted one since."""
        self._noted = False
        if not (step.moves or step.results or step.unfinished_change):
            return
        for name, move in step.moves.items():
            # Before anything is noted: a step that starts elsewhere is not this ledger's next one.
            if self._certain.get(name) != move.before:
                raise AnchorMismatchError(f"account {name} is not where the anchor left it")
        # The step before is certain only now, so its moves are written with the
        # next note: one flush for both.
        applied = self._applied
        moved = {} if applied is None else {n: move.pending for n, move in applied.moves.items()}
        given = {
            "accounts": _json_of(moved),
            "change": 0 if applied is None else applied.unfinished_change,
            "version": self._version,
            "follows": as_text(step_record(step, kept=True), step.results),
        }
        with self._connected() as connection:
            won = _asked(connection, _NEXT, given)
        if won != [(1,)]:
            raise AnchorMovedError("somebody else has moved the anchor")
        self._version += 1
        self._noted = True

    def undo(self) -> None:
        """Take back the transaction begun last.

        One that changed nothing has not been noted: what is there is the one before it, which
        has been committed and must stay.
        """
        if not self._noted:
            return
        self._noted = False
        with self._connected() as connection:
            _asked(
                connection,
                "UPDATE anchor SET version = version + 1, follows = NULL WHERE version = %s"
                " RETURNING version",
                (self._version,),
            )

    def adopt(self, state: LedgerState) -> None:
        """Note the state that a reconciliation is about to commit, next to the certain one."""
        known = self.read()
        self._write(None if known is None else known.state, state)

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _write(self, state: LedgerState | None, adopted: LedgerState | None) -> None:
        follows = None if adopted is None else as_text(state_record(adopted))
        known = (None, None, None)
        if state is not None:
            known = (state.ledger, state.epoch, state.unfinished)  # type: ignore[assignment]
        accounts = {} if state is None else state.accounts
        with self._connected() as connection, connection.transaction():
            connection.execute(_begin().encode())
            connection.execute(_FIRST, (self._version + 1, *known, follows))
            connection.execute("DELETE FROM anchor_account")
            connection.execute(_PUT, {"accounts": _json_of(accounts)})
        self._version += 1

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            self._connection = self._connection or self._connect()
            yield self._connection
        except psycopg.Error as error:
            self.close()
            raise AnchorError("the anchor's database cannot be used") from error

    def _connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        with ExitStack() as unless_checked:
            connection = psycopg.connect(self._info, autocommit=True, prepare_threshold=None)
            # A server that may lose commits is refused before it is asked to keep anything.
            unless_checked.callback(connection.close)
            check_server(connection)
            with connection.transaction():
                for statement in (_begin(), *_TABLES):
                    connection.execute(statement.encode())
            unless_checked.pop_all()
        return connection


class DatabaseWitness:
    """Looks at an anchor's rows on a connection of its own, which cannot write."""

    def __init__(self, info: str) -> None:
        self._info = info

    def require_apart(self, ledger: Connection) -> None:
        """Refuse the ledger's own database, which a restore takes back with the ledger.

        A database has many addresses, and another server one of the same name. So the servers are
        asked: an advisory lock that the ledger's transaction holds is free in every other database.
        """
        key = secrets.randbits(63)
        ledger.execute(_HOLD, {"key": key})
        with self._connected() as connection:
            found = _asked(connection, _TRY, (key,))
        if found != [(True,)]:
            raise UnsupportedDatabaseError("the anchor needs another database than the ledger's")

    def look(self) -> Anchored | None:
        """Return what the rows say; None when there are none."""
        try:
            with self._connected() as connection:
                # One snapshot of both tables: a writer may move them between the two questions.
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                with connection.transaction():
                    noted = _noted(connection)
                    accounts = _asked(connection, _ACCOUNTS)
        except psycopg.errors.UndefinedTable:
            return None
        return None if noted is None else _anchored(noted, accounts)

    def between(
        self, before: Anchored | None, after: Anchored | None
    ) -> list[Anchored | None] | None:
        """Return both, if there can have been nothing else; the rows hold one step only."""
        if before == after:
            return [after]
        # More than one step lay between the looks, and the rows no longer show which.
        if before is None or after is None or after.state not in (before.state, before.latest):
            return None
        return [before, after]

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
        try:
            with psycopg.connect(self._info, autocommit=True, prepare_threshold=None) as connection:
                yield connection
        except psycopg.errors.UndefinedTable:
            raise
        except psycopg.Error as error:
            raise AnchorError("the anchor's database cannot be used") from error


def _begin() -> str:
    """Return what each transaction begins with: none takes long, and all are flushed.

    Neither is the session's, which may be another's behind a pooler.
    """
    return f"SELECT set_config('statement_timeout', '{LONGEST_MS}', true), {DURABLE}"


def _asked(
    connection: psycopg.Connection[tuple[Any, ...]], statement: str, given: Any = None
) -> list[tuple[Any, ...]]:
    """Return what a statement gives in a transaction of its own, or in the present one.

    It is begun and asked in one round trip.
    """
    # The only cursor that sends two statements in one go, with values put in by the client.
    cursor = psycopg.ClientCursor(connection)
    cursor.execute(f"{_begin()}; {statement}".encode(), given)
    cursor.nextset()
    return cursor.fetchall()


def _noted(connection: psycopg.Connection[tuple[Any, ...]]) -> _Noted | None:
    rows = _asked(connection, _ROW)
    return _Noted(*rows[0]) if rows else None


def _anchored(noted: _Noted, accounts: Sequence[tuple[Any, ...]]) -> Anchored:
    state = None
    if noted.ledger is not None:
        state = LedgerState(
            ledger=noted.ledger,
            epoch=noted.epoch,
            unfinished=noted.unfinished,
            accounts=_by_name(accounts),
        )
    record = from_text(noted.follows) if noted.follows else {}
    if "state" in record:
        return Anchored(state, state_of(record["state"]))
    if not record or state is None:
        return Anchored(state)
    return Anchored(state, step_of(record, state.accounts))


def _has_happened(step: Step, evidence: Evidence) -> bool:
    """Return whether a transaction has been committed, going by the ledger.

    Raises
    ------
    AnchorMismatchError
        The ledger is neither before nor after it.
    """
    if not step.moves:
        return evidence.settled(tuple(step.results))
    now = evidence.positions(tuple(step.moves))
    if all(now.get(name) == move.pending for name, move in step.moves.items()):
        return True
    if all(now.get(name) == move.before for name, move in step.moves.items()):
        return False
    raise AnchorMismatchError("the ledger is not where the anchor left it")


def _by_name(rows: Sequence[Sequence[Any]]) -> dict[str, Position]:
    return positions_of({name: at for name, *at in rows})


def _json_of(accounts: Any) -> str:
    return json.dumps(
        [
            {"account": name, "seq": at.seq, "head": at.head, "spent": at.spent}
            for name, at in accounts.items()
        ]
    )
