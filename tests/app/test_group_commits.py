"""What waits is one commit, noted in the anchor while it is written; COMMIT waits for both."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from app.domain.problems import Problem
from app.store import Debit, Finish, Void
from app.store.anchor.file import FileAnchor
from app.store.anchor.standing import AnchorError, AnchorMismatchError, Standing, Step
from app.store.errors import StoreClosedError
from app.store.guard import Guard
from app.store.unit_of_work import UnitOfWork
from tests.app.ledgers import Ledger, Place, opened, place_on
from tests.app.test_ledger_batches import together
from tests.app.test_ledger_race import hold
from tests.speed import PATIENCE_S


class InjectedError(Exception):
    """What fails on purpose."""


Noted = Callable[[FileAnchor, Step], None]
_begin: Noted = FileAnchor.begin


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Place]:
    """Give a place on SQLite, whose anchor is a file."""
    with place_on("sqlite", tmp_path / "data") as place:
        yield place


def charge(ledger: Ledger, key: str, amount: int = 1) -> Debit:
    return Debit(
        dataset=ledger.dataset, principal="ann", idem=key, amount=amount, request="{}", plan="{}"
    )


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(work(), PATIENCE_S)

    asyncio.run(limited())


@contextmanager
def told_of_statements(ledger: Ledger) -> Iterator[list[str]]:
    """Yield the statements of the writer's connection, in short, as they come."""
    reported: list[str] = []
    engine = ledger.store.writer.connection.engine

    def tell(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        reported.append(" ".join(statement.split()[:3]))

    def tell_commit(_conn: Any) -> None:
        reported.append("COMMIT")

    event.listen(engine, "before_cursor_execute", tell)
    event.listen(engine, "commit", tell_commit)
    yield reported
    event.remove(engine, "before_cursor_execute", tell)
    event.remove(engine, "commit", tell_commit)


def test_a_note_and_the_rows_take_their_time_together(
    home: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home) as ledger, told_of_statements(ledger) as reported:
        release = ledger.debit("before")
        written, threads = threading.Event(), set()

        def slow(anchor: FileAnchor, step: Step) -> None:
            if step.results:
                assert written.wait(PATIENCE_S), "rows are written before the note is there"
            threads.add(threading.current_thread().name.partition("_")[0])
            _begin(anchor, step)
            reported.append("noted")

        def heard(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if statement.startswith("INSERT INTO leaf"):
                written.set()

        engine = ledger.store.writer.connection.engine
        event.listen(engine, "before_cursor_execute", heard)
        monkeypatch.setattr(FileAnchor, "begin", slow)
        reported.clear()
        together(
            ledger, charge(ledger, "a"), Finish(release=release.id, result=b"1", known=release)
        )
        event.remove(engine, "before_cursor_execute", heard)
        assert threads == {"anchor-note"}
        assert reported[-2:] == ["noted", "COMMIT"]
        assert [each for each in reported if each.startswith("INSERT INTO")] == [
            "INSERT INTO entry", "INSERT INTO release", "INSERT INTO leaf"
        ], "one statement each: the entry that seals the result goes with the charge's"  # fmt: skip
        assert ledger.store.verify().ok


@pytest.mark.parametrize("error", [AnchorError("full"), AnchorMismatchError("another")])
def test_what_cannot_be_noted_is_not_committed(
    home: Place, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(home) as ledger:
        ledger.debit("before", 5)

        def fail(_anchor: FileAnchor, _step: Step) -> None:
            raise error

        monkeypatch.setattr(FileAnchor, "begin", fail)
        with pytest.raises((AnchorError, Problem)):
            ledger.store.write(charge(ledger, "a"))
        assert ledger.balance() == (1000, 5, 0)
        assert ledger.store.failing
        monkeypatch.undo()
        frozen = isinstance(error, AnchorMismatchError)
        assert (ledger.store.frozen is Standing.DIFFERENT) == frozen
        if frozen:
            with pytest.raises(Problem, match="ledger-frozen"):
                ledger.store.write(charge(ledger, "a"))
        else:
            assert ledger.store.write(charge(ledger, "a")).fresh
            assert not ledger.store.failing
            assert ledger.store.verify().ok


def test_what_is_refused_is_known_before_it_is_announced(place: Place) -> None:
    """Nothing of it is left in the anchor, where it would be taken for lost."""
    with opened(place) as ledger:
        first, second = ledger.debit("one"), ledger.debit("two")
        ledger.store.write(Finish(release=first.id, result=b"1", known=first))
        outcomes = together(
            ledger,
            charge(ledger, "a"),
            Finish(release=first.id, result=b"again", known=first),
            Finish(release=second.id, result=b"2", known=second),
            charge(ledger, "a"),
        )
        assert isinstance(outcomes[1], Problem)
        assert outcomes[1].code == "release-void"
        assert outcomes[2].result == b"2"
        assert (outcomes[0].fresh, outcomes[3].fresh) == (True, False)
        assert ledger.store.verify().ok
        with pytest.raises(Problem, match="release-void"):
            ledger.store.write(Finish(release=first.id, result=b"again", known=first))
        assert ledger.store.verify().ok
        assert not ledger.store.failing
        assert ledger.balance() == (1000, 3, 0)
        store = ledger.place.open
    with closing(store()) as again:
        assert again.frozen is None
        assert again.verify().ok


def test_what_is_announced_and_cannot_be_written_is_taken_back(home: Place) -> None:
    with opened(home) as ledger:
        engine, failing = ledger.store.writer.connection.engine, ["INSERT INTO release"]

        def fail(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if failing and statement.startswith(failing[0]):
                failing.pop()
                raise InjectedError

        event.listen(engine, "before_cursor_execute", fail)
        outcomes = together(ledger, *(charge(ledger, key) for key in "abc"))
        event.remove(engine, "before_cursor_execute", fail)
        assert [each.fresh for each in outcomes] == [True] * 3
        assert ledger.balance() == (1000, 3, 0)
        assert ledger.store.verify().ok
        store = ledger.place.open
    with closing(store()) as again:
        assert again.frozen is None
        assert again.verify().ok


def test_what_is_announced_is_taken_back_while_no_other_server_may_write(
    home: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On PostgreSQL a rollback lets the next writer in, who finds the note, or is passed by it."""
    with opened(home) as ledger:
        ledger.debit("before")
        engine, rolled_back = ledger.store.writer.connection.engine, threading.Event()
        reported: list[str] = []

        def slow(anchor: FileAnchor, step: Step) -> None:
            rolled_back.wait(0.2)
            _begin(anchor, step)
            reported.append("noted")

        def heard(anchor: FileAnchor) -> None:
            undo(anchor)
            reported.append("taken back")

        def fail(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
            if not reported and statement.startswith("INSERT INTO release"):
                raise InjectedError

        def tell_rollback(_conn: Any) -> None:
            rolled_back.set()
            reported.append("ROLLBACK")

        undo: Callable[[FileAnchor], None] = FileAnchor.undo
        monkeypatch.setattr(FileAnchor, "begin", slow)
        monkeypatch.setattr(FileAnchor, "undo", heard)
        event.listen(engine, "before_cursor_execute", fail)
        event.listen(engine, "rollback", tell_rollback)
        with pytest.raises(InjectedError):
            ledger.store.write(charge(ledger, "a"))
        assert ledger.store.write(charge(ledger, "a")).fresh
        event.remove(engine, "rollback", tell_rollback)
        event.remove(engine, "before_cursor_execute", fail)
        assert reported == ["noted", "taken back", "ROLLBACK", "noted"]


def test_an_opening_that_is_interrupted_waits_for_its_note(
    home: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported, closed = [], threading.Event()
    close: Callable[[FileAnchor], None] = FileAnchor.close

    def slow(anchor: FileAnchor, step: Step) -> None:
        closed.wait(0.2)
        _begin(anchor, step)
        reported.append("noted")

    def tell_closed(anchor: FileAnchor) -> None:
        closed.set()
        reported.append("closed")
        close(anchor)

    def interrupt(_guard: Guard) -> None:
        raise KeyboardInterrupt

    before = {*threading.enumerate()}
    with monkeypatch.context() as patched:
        patched.setattr(FileAnchor, "begin", slow)
        patched.setattr(FileAnchor, "close", tell_closed)
        patched.setattr(Guard, "noted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            home.open()
    assert reported == ["noted", "closed"], "one thread at a time uses it"
    assert {*threading.enumerate()} == before
    with closing(home.open()) as again:
        assert again.frozen is None


def test_what_a_command_comes_to_is_not_known_before_it_is_written(place: Place) -> None:
    """A release that is given up has an entry of its own, and is read again: all in order."""
    with opened(place) as ledger:
        first, second = ledger.debit("one"), ledger.debit("two")
        outcomes = together(
            ledger,
            Void(release=first.id),
            charge(ledger, "a"),
            Finish(release=second.id, result=b"2", known=second),
        )
        assert [each.state for each in (outcomes[0], outcomes[2])] == ["void", "released"]
        assert ledger.balance() == (1000, 3, 0)
        assert ledger.store.verify().ok


def test_what_no_task_can_be_told_stops_no_other_write(place: Place) -> None:
    with opened(place) as ledger:

        async def work() -> None:
            with pytest.raises(RuntimeError):
                await ledger.store.awrite(lambda _: next(iter(())))
            assert (await ledger.store.awrite(charge(ledger, "k"))).fresh

        run(work)
        assert ledger.balance() == (1000, 1, 0)


def test_tasks_fill_the_queue_too(place: Place) -> None:
    with opened(place, queue_length=4) as ledger:

        async def work() -> None:
            go = hold(ledger)
            writes = [ledger.store.awrite(charge(ledger, f"k{number}")) for number in range(6)]
            waiting = asyncio.gather(*writes, return_exceptions=True)
            await asyncio.sleep(0)
            go.set()
            refused = [each.code for each in await waiting if isinstance(each, Problem)]
            assert refused == ["busy", "busy"]

        run(work)
        assert ledger.balance() == (1000, 4, 0)


def test_a_closed_store_refuses_what_tasks_write(place: Place) -> None:
    with opened(place) as ledger:

        async def work() -> None:
            ledger.store.writer.close()
            with pytest.raises(StoreClosedError):
                await ledger.store.awrite(charge(ledger, "k"))

        run(work)
        assert ledger.balance() == (1000, 0, 0)


def test_what_waits_when_a_store_is_closed_is_written(place: Place) -> None:
    with opened(place) as ledger:
        writer = ledger.store.writer
        begun, going_on = threading.Event(), threading.Event()

        def hold(_: UnitOfWork) -> None:
            begun.set()
            assert going_on.wait(PATIENCE_S)

        held = writer.submit(hold)
        assert begun.wait(PATIENCE_S)
        waiting = writer.submit(charge(ledger, "k"))
        closing = threading.Thread(target=writer.close)
        closing.start()
        until = time.monotonic() + PATIENCE_S
        while writer._waiting.qsize() < 2:
            assert time.monotonic() < until
            time.sleep(0.001)
        going_on.set()
        held.result(PATIENCE_S)
        assert waiting.result(PATIENCE_S).fresh
        closing.join(PATIENCE_S)
        assert not closing.is_alive()
        assert ledger.balance() == (1000, 1, 0)
