"""A full and a failing disk at every statement of a release, on PostgreSQL.

The server itself raises the error, before the statement has been run or after, so that the
class is the driver's own and the transaction is as dead as on a disk that is really full.
COMMIT fails on the server, or it happens and no one hears of it.

Nothing is acknowledged that is not durable, nothing is spent that was not charged, no
charge is made twice, and what has been drawn once for it stays the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import Debit, Finish, Store, UnknownCommitError
from app.store.database import postgresql
from app.store.guard import DiskError
from tests.app.homes import Home, home_on
from tests.app.ledgers import ANALYST, Ledger, found_by_key, opened
from tests.app.test_faults import AMOUNT, check

pytestmark = pytest.mark.postgres

ERRORS = [psycopg.errors.DiskFull, psycopg.errors.IoError]
FOREVER = float("inf")

_RAISE = "BEGIN RAISE EXCEPTION 'injected' USING ERRCODE = '{}'; END"
# What a deferred trigger raises is raised by COMMIT.
_RAISE_AT_COMMIT = """
CREATE TEMPORARY TABLE failing (x integer);
CREATE FUNCTION pg_temp.fail() RETURNS trigger LANGUAGE plpgsql AS $$ {} $$;
CREATE CONSTRAINT TRIGGER failing AFTER INSERT ON pg_temp.failing DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION pg_temp.fail();
INSERT INTO pg_temp.failing VALUES (1)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with home_on("postgres", tmp_path) as found:
        yield found


class Disk:
    """Counts a writer's statements, COMMIT included, and fails at one, or at so many from there.

    Where the answer to COMMIT is lost the connection goes too: a server that cannot flush its
    journal says why, in its last words, to everybody.
    """

    def __init__(self, store: Store, error: type[psycopg.Error], *, after: bool) -> None:
        self.count = 0
        self.at: int | None = None
        self.lasting: float = 1
        self._error, self._after = error, after
        self._raise = _RAISE.format(error.sqlstate)
        engine = store.writer.connection.engine
        self._commit = engine.dialect.do_commit
        engine.dialect.do_commit = self.commit  # type: ignore[method-assign]
        event.listen(engine, "do_execute", self.execute)

    def execute(self, cursor: Any, statement: str, parameters: Any, _context: object) -> bool:
        """Run a statement in SQLAlchemy's place, as one of the driver's."""
        fails = self._fails()
        if self._after or not fails:
            cursor.execute(statement, parameters)
        if fails:
            cursor.execute(f"DO $$ {self._raise} $$")
        return True

    def commit(self, connection: Any) -> None:
        fails = self._fails()
        if fails and not self._after:
            connection.execute(_RAISE_AT_COMMIT.format(self._raise))
        self._commit(connection)
        if fails:
            connection.driver_connection.close()
            raise self._error("injected")

    def _fails(self) -> bool:
        number, self.count = self.count, self.count + 1
        return self.at is not None and 0 <= number - self.at < self.lasting


@dataclass
class Analyst:
    """Asks for releases as the service does; knows every answer and how many were drawn."""

    ledger: Ledger
    answers: dict[str, bytes] = field(default_factory=dict)
    drawn: dict[str, list[bytes]] = field(default_factory=dict)

    def ask(self, idem: str) -> None:
        """Charge, draw and finish; what has been answered is neither charged nor drawn again."""
        store = self.ledger.store
        charged = store.write(
            Debit(
                dataset=self.ledger.dataset, principal=ANALYST, idem=idem, amount=AMOUNT,
                request="{}", plan="{}",
            )
        ).record  # fmt: skip
        if charged.state is not ReleaseState.RELEASED:
            state, _ = self.found(idem)
            assert state is ReleaseState.DEBITED, "it is charged before anything is drawn"
            drawn = self.drawn.setdefault(idem, [])
            drawn.append(f"{idem}, draw {len(drawn) + 1}".encode())
            assert store.write(Finish(release=charged.id, result=drawn[-1])).result == drawn[-1]
        state, result = self.found(idem)
        assert state is ReleaseState.RELEASED, "it is durable before anybody is told"
        assert result == self.drawn[idem][-1]
        assert self.answers.setdefault(idem, result) == result

    def found(self, idem: str) -> tuple[ReleaseState | None, bytes | None]:
        """Return how a release stands, in the eyes of everybody else."""
        with self.ledger.store.reading() as reader:
            found = found_by_key(reader, ANALYST, idem)
        return (None, None) if found is None else (found.state, found.result)

    def check(self) -> None:
        """All that was answered is there as it was answered, and paid for once."""
        check(self.ledger.store, self.ledger.account, set(), asked=len(self.drawn) + 1)
        for idem, answer in self.answers.items():
            assert self.found(idem) == (ReleaseState.RELEASED, answer)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lasting", [1, FOREVER], ids=["once", "from then on"])
@pytest.mark.parametrize("error", ERRORS)
def test_a_disk_error_of_the_server_at_any_statement(
    home: Home,
    error: type[psycopg.Error],
    lasting: float,
    after: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A write that is alone fails with its statement, and the next one succeeds.

    What became of a COMMIT without an answer is asked, unless that cannot be answered either.
    """
    monkeypatch.setattr(postgresql, "_DOUBT_S", 0.2)
    with opened(home, total=AMOUNT) as ledger:
        store, analyst = ledger.store, Analyst(ledger)
        disk = Disk(store, error, after=after)
        analyst.ask("warm up")
        statements = disk.count
        assert statements >= 11
        ledger.grant(AMOUNT * statements)  # so a second charge for anything is one too many
        disk.lasting, failed, unknown = lasting, 0, 0
        for at in range(statements):
            idem = f"fault at {at}"
            disk.count, disk.at = 0, at
            try:
                analyst.ask(idem)
            except DiskError as raised:
                failed += isinstance(getattr(raised.__cause__, "orig", None), error)
            except UnknownCommitError:
                unknown += 1
            assert store.failing == (idem not in analyst.answers)
            assert disk.count > at
            disk.at = None
            analyst.check()
            drawn = len(analyst.drawn.get(idem, ()))
            _, result = analyst.found(idem)
            analyst.ask(idem)
            assert not store.failing
            assert len(analyst.drawn[idem]) == drawn + (result is None)
        analyst.check()
        assert ledger.balance()[1] == ledger.balance()[0] == AMOUNT * (statements + 1)
        with pytest.raises(Problem, match="budget-exceeded"):
            analyst.ask("one more")
        commits = 2 if after else 0
        assert unknown == (0 if lasting == 1 else commits)
        assert failed == statements - commits
    with closing(home.open()) as store:
        check(store, ledger.account, set(), asked=statements + 1)
