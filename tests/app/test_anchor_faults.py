"""Faults at every statement of an anchor in a second database.

A statement fails before it is run or after, with its answer lost; the connection goes with
it. Nothing is acknowledged that is not durable, nothing is spent that was not charged,
and the store goes on as soon as the anchor is there again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest
from sqlalchemy import event

from app.domain.problems import Problem
from app.store import Store
from app.store.anchor.database import DatabaseAnchor
from app.store.anchor.standing import AnchorError
from tests.app.homes import Home, home_on
from tests.app.ledgers import ANALYST, Ledger, found_by_key, opened
from tests.app.test_faults import AMOUNT, RESULT, InjectedError, check, raise_at_commit, release
from tests.tiers import wide

pytestmark = pytest.mark.postgres
T = TypeVar("T")
FOREVER = float("inf")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """A ledger's database and its anchor's; a file's anchor is failed by the disk."""
    with home_on("postgres", tmp_path) as found:
        yield found


class Line:
    """Counts an anchor's statements and connections, and fails at one, or at so many from there."""

    def __init__(self) -> None:
        self.count = 0
        self.at: int | None = None
        self.lasting: float = 1
        self.after = False

    def run(self, statement: Callable[[], T]) -> T:
        """Do something that may fail, and then has been done or not."""
        number, self.count = self.count, self.count + 1
        fails = self.at is not None and 0 <= number - self.at < self.lasting
        if fails and not self.after:
            raise psycopg.OperationalError("injected")
        found = statement()
        if fails:
            raise psycopg.OperationalError("injected")
        return found


@dataclass(frozen=True)
class OnLine:
    """An anchor's connection."""

    connection: psycopg.Connection[Any]
    line: Line

    def wait(self, exchange: Any, *given: Any) -> Any:
        """Do what a cursor of this connection says to the server, and hears from it."""
        return self.line.run(lambda: self.connection.wait(exchange, *given))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.connection, name)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Line:
    """What every anchor's connection goes through."""
    connect, found = DatabaseAnchor._connect, Line()

    def connected(anchor: DatabaseAnchor) -> OnLine:
        found.run(lambda: None)
        return OnLine(connect(anchor), found)

    monkeypatch.setattr(DatabaseAnchor, "_connect", connected)
    return found


def again(store: Store, dataset: str, idem: str) -> bytes | None:
    """Ask again and return the answer; as in the service, what has been stored meanwhile wins.

    The charge's own transaction stores a result that was noted before, and not committed.
    """
    try:
        return release(store, dataset, idem).result
    except Problem as problem:
        if problem.code != "release-void":
            raise
    with store.reading() as reader:
        found = found_by_key(reader, ANALYST, idem)
    assert found is not None
    return found.result


def spent(ledger: Ledger) -> int:
    """Return how many releases have been paid for."""
    times, rest = divmod(ledger.balance()[1], AMOUNT)
    assert rest == 0
    return times


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("lasting", [FOREVER, *wide(1)], ids=["from then on", "once"])
def test_a_fault_at_any_statement_of_the_anchor_stops_one_write(
    home: Home, line: Line, lasting: float, after: bool
) -> None:
    with opened(home, total=10**6) as ledger:
        store, dataset = ledger.store, ledger.dataset
        reported, burned = {"warm up"}, 0
        release(store, dataset, "warm up")
        line.count = 0
        release(store, dataset, "counted")
        reported.add("counted")
        statements = line.count
        assert statements == 6, "a charge and a result: two looks each, and a note"
        line.lasting, line.after = lasting, after
        for at in range(statements):
            idem = f"fault at {at}"
            line.count, line.at = 0, at
            for _ in range(1 if lasting == 1 else 2):
                with pytest.raises(AnchorError):
                    release(store, dataset, idem)
                assert store.failing
            line.at = None
            # A charge that has been noted and not committed is burned by the next transaction.
            burned += after and at == statements // 2 - 1
            check(store, ledger.account, reported, asked=len(reported) + burned + 1)
            assert again(store, dataset, idem) == RESULT
            assert not store.failing
            reported.add(idem)
            check(store, ledger.account, reported, asked=len(reported) + burned)
            assert spent(ledger) == len(reported) + burned
    with closing(home.open()) as store:
        check(store, ledger.account, reported, asked=len(reported) + burned)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    "lasting",
    [pytest.param(1, marks=pytest.mark.slow, id="once"), pytest.param(FOREVER, id="from then on")],
)
def test_a_commit_that_fails_with_its_anchor_is_burned_or_undone(
    home: Home, line: Line, lasting: float, after: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """The statement that takes back a note fails too: the first error is told, this one logged."""
    with opened(home, total=10**6) as ledger:
        store, dataset = ledger.store, ledger.dataset
        release(store, dataset, "warm up")
        engine = store.writer.connection.engine
        event.listen(engine, "commit", raise_at_commit)
        line.count, line.at, line.lasting, line.after = 0, 3, lasting, after
        with pytest.raises(InjectedError):
            release(store, dataset, "lost")
        assert store.failing
        (logged,) = (each for each in caplog.records if each.levelname == "ERROR")
        assert vars(logged)["failure"] == "AnchorError"
        event.remove(engine, "commit", raise_at_commit)
        line.at = None
        assert release(store, dataset, "lost").result == RESULT
        assert not store.failing
        check(store, ledger.account, {"warm up", "lost"}, asked=3)
        assert spent(ledger) == (2 if after else 3)
