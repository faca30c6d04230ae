"""Commands: done many at a time, each answered as if it had been done alone."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.store import UnitOfWork
from app.store.ledger.commands import Charged, Command, Debit, Finish, Void
from app.store.ledger.entries import Move
from tests.app.ledgers import ANALYST, CURATOR, Ledger, Place, opened
from tests.app.test_ledger_race import hold


def debit(ledger: Ledger, idem: str, amount: int = 1, **changes: Any) -> Debit:
    wanted = Debit(
        dataset=ledger.dataset, principal=ANALYST, idem=idem, amount=amount, request="{}", plan="[]"
    )
    return replace(wanted, **changes)


def together(ledger: Ledger, *tasks: Any) -> list[Any]:
    """Let tasks wait behind a busy writer, and return what each came to or raised."""
    go = hold(ledger)
    futures: list[Future[Any]] = [ledger.store.writer.submit(task) for task in tasks]
    go.set()
    return [future.exception(30) or future.result(30) for future in futures]


def codes(outcomes: list[Any]) -> list[str]:
    """Return what was refused by its code, what failed by its class, and the rest as ok."""
    return [
        each.code
        if isinstance(each, Problem)
        else type(each).__name__
        if isinstance(each, BaseException)
        else "ok"
        for each in outcomes
    ]


def test_debits_of_one_batch_are_charged_in_order_and_in_one_update(place: Place) -> None:
    with opened(place, total=10) as ledger:
        updates: list[str] = []

        @event.listens_for(ledger.store.writer.connection, "before_cursor_execute")
        def count(_c: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
            updates.extend([statement] * statement.startswith("UPDATE account"))

        amounts = (4, 7, 5, 1, 2, 1)
        outcomes = together(
            ledger, *(debit(ledger, f"k{n}", amount) for n, amount in enumerate(amounts))
        )
        assert codes(outcomes) == ["ok", "budget-exceeded", "ok", "ok"] + ["budget-exceeded"] * 2
        assert len(updates) == 1
        assert (outcomes[1].requested, outcomes[1].remaining) == (7, 6)
        assert outcomes[4].remaining == 0
        assert ledger.balance() == (10, 10, 0)
        with ledger.store.reading() as r:
            for seq, charged in zip((2, 3, 4), (outcomes[0], *outcomes[2:4]), strict=True):
                (entry,) = r.entries.list(ledger.account, after=seq - 1, limit=1)
                assert charged == Charged(r.releases.get(charged.record.id), fresh=True)
                assert (charged.record.seq, charged.record.entry_hash) == (seq, entry.hash)
                assert (entry.release, entry.at) == (charged.record.id, charged.record.created_at)
        assert ledger.store.verify().ok


def test_a_key_is_charged_once_in_a_batch_and_after_it(place: Place) -> None:
    with opened(place) as ledger:
        same, other = debit(ledger, "k", 5), debit(ledger, "k", 5, principal="person_bob")
        first, again, bobs = together(ledger, same, replace(same, request="[]"), other)
        (later,) = together(ledger, same)
        assert (first.fresh, again.fresh, bobs.fresh, later.fresh) == (True, False, True, False)
        assert first.record == again.record == later.record != bobs.record
        assert ledger.balance() == (1000, 10, 0)


def test_ids_of_releases_made_one_after_the_other_begin_alike(place: Place) -> None:
    with opened(place, total=10) as ledger:
        alone = ledger.debit("alone")
        outcomes = together(
            ledger, debit(ledger, "a"), debit(ledger, "b", 99), debit(ledger, "a"),
            debit(ledger, "c"),
        )  # fmt: skip
        assert codes(outcomes) == ["ok", "budget-exceeded", "ok", "ok"]
        reserved = ledger.store.write(
            lambda u: u.reviews.reserve(
                account=ledger.account, amount=1, dataset=ledger.dataset, principal=ANALYST,
                request="{}", plan="[]", idem="reserved",
            )
        )  # fmt: skip
        made = [alone, outcomes[0].record, outcomes[3].record, reserved]
        assert [record.number for record in made] == [1, 2, 3, 4]
        assert len({record.id[:12] for record in made}) == 1
        assert len({record.id for record in made}) == 4


def test_a_refused_charge_leaves_its_key_free(place: Place) -> None:
    with opened(place, total=5) as ledger:
        outcomes = together(ledger, debit(ledger, "k", 6), debit(ledger, "k", 5))
        assert codes(outcomes) == ["budget-exceeded", "ok"]
        assert outcomes[1].fresh


def test_what_cannot_be_charged_is_refused_alone(place: Place) -> None:
    with opened(place) as ledger:
        kept = ledger.store.write(debit(ledger, "kept"))
        outcomes = together(
            ledger,
            debit(ledger, "a"),
            debit(ledger, "b", dataset="ds_none"),
            lambda u: u.datasets.archive(ledger.dataset, principal=CURATOR).status,
            debit(ledger, "c"),
            debit(ledger, "kept"),
        )
        assert codes(outcomes) == ["ok", "not-found", "ok", "dataset-archived", "ok"]
        assert outcomes[4] == Charged(kept.record, fresh=False)


@pytest.mark.parametrize("amount", [0, -1, True, 2**63])
def test_an_impossible_amount_fails_alone(place: Place, amount: int) -> None:
    with opened(place) as ledger:
        good, bad, last = together(
            ledger, debit(ledger, "a"), debit(ledger, "b", amount), debit(ledger, "c")
        )
        assert isinstance(bad, (ValueError, Problem))
        assert (good.record.seq, last.record.seq) == (2, 3)
        assert ledger.balance() == (1000, 2, 0)
        assert ledger.store.verify().ok


def test_a_row_the_database_refuses_fails_alone(place: Place) -> None:
    """Text no client can send: it violates a rule of the database and of nothing before it."""
    with opened(place) as ledger:
        bad: Any = debit(ledger, "b", plan=None)
        good, refused, last = together(ledger, debit(ledger, "a"), bad, debit(ledger, "c"))
        assert isinstance(refused, IntegrityError)
        assert (good.record.seq, last.record.seq) == (2, 3)
        assert ledger.store.verify().ok


def test_between_functions_too_what_fails_fails_alone(place: Place) -> None:
    with opened(place) as ledger:
        bad = debit(ledger, "b", plan=None)

        def grant(u: UnitOfWork) -> int:
            return u.accounts.grant(ledger.account, 5, principal=CURATOR, reason="r").total_after

        first, good, refused, last, second = together(
            ledger, grant, debit(ledger, "a", 1), bad, debit(ledger, "c", 2), grant
        )
        assert isinstance(refused, Exception)
        assert (first, second) == (1005, 1010)
        assert (good.fresh, last.fresh) == (True, True)
        assert ledger.balance() == (1010, 3, 0)
        assert ledger.store.verify().ok


def test_releases_are_settled_once_and_by_the_first_that_comes(place: Place) -> None:
    with opened(place) as ledger:
        a, b, c, d = (ledger.debit(key).id for key in "abcd")
        commands: tuple[Command[Any], ...] = (
            Finish(release=a, result=b"1"),
            Finish(release=a, result=b"2"),
            Void(release=b),
            Finish(release=b, result=b"3"),
            Finish(release="rel_none", result=b"4"),
            Void(release=c),
            Finish(release=d, result=b""),
        )
        outcomes = together(ledger, *commands)
        void = "release-void"
        assert codes(outcomes) == ["ok", void, "ok", void, void, "ok", "ok"]
        assert codes(together(ledger, *commands)) == [void] * 7
        with ledger.store.reading() as r:
            stored = [r.releases.get(release) for release in (a, b, c, d)]
        assert stored == [outcomes[0], outcomes[2], outcomes[5], outcomes[6]]
        assert [each and (each.state, each.result) for each in stored] == [
            (ReleaseState.RELEASED, b"1"), (ReleaseState.VOID, None),
            (ReleaseState.VOID, None), (ReleaseState.RELEASED, b""),
        ]  # fmt: skip
        assert ledger.balance() == (1000, 4, 0)
        assert ledger.store.verify().ok


def test_of_two_steps_for_one_release_the_first_counts(place: Place) -> None:
    with opened(place) as ledger:
        a, b = (ledger.debit(key).id for key in "ab")
        steps: tuple[Command[Any], ...] = (
            Finish(release=a, result=b"1"), Finish(release=a, result=b"2"),
            Void(release=b), Finish(release=b, result=b"3"),
        )  # fmt: skip
        assert codes(together(ledger, *steps)) == ["ok", "release-void"] * 2
        with ledger.store.reading() as r:
            stored = [r.releases.get(release) for release in (a, b)]
        assert [each and (each.state, each.result) for each in stored] == [
            (ReleaseState.RELEASED, b"1"), (ReleaseState.VOID, None),
        ]  # fmt: skip
        assert ledger.store.verify().ok


def test_a_batch_of_any_size_is_written_whole(place: Place) -> None:
    with opened(place) as ledger:
        charged = together(ledger, *(debit(ledger, f"k{n}") for n in range(151)))
        known = [each.record for each in charged]
        done = together(
            ledger, *(Finish(release=r.id, result=r.id.encode(), known=r) for r in known)
        )
        assert [each.result for each in done] == [each.id.encode() for each in known]
        with ledger.store.reading() as r:
            assert r.releases.get_all([each.id for each in known]) == {
                each.id: each for each in done
            }
        assert [each.number for each in done] == sorted(each.number for each in done)
        assert len({each.entry_hash for each in done}) == 151
        assert ledger.store.verify().ok


def test_before_commit_hears_of_every_account_that_moves(place: Place) -> None:
    with opened(place) as ledger:
        heard: list[Mapping[str, Move]] = []
        writer = ledger.store.writer
        writer.before_commit = lambda work: heard.append(work.changes.moves())

        def fail(u: UnitOfWork) -> None:
            u.accounts.grant(ledger.account, 1, principal=CURATOR, reason="r")
            u.accounts.open(total=3, principal=CURATOR, reason="r")
            raise RuntimeError

        def open_another(u: UnitOfWork) -> str:
            return u.accounts.open(total=3, principal=CURATOR, reason="r").id

        with ledger.store.reading() as r:
            accounts = {name: r.accounts.get(name) for name in ("0", ledger.account)}
        *_, opened_ = together(ledger, debit(ledger, "a", 7), debit(ledger, "b", 2), open_another)
        failed = together(ledger, fail, fail)
        assert codes(failed) == ["RuntimeError"] * 2
        assert heard[0] == {}
        assert heard[2:] == [{}], "of what fails nothing is heard"
        with ledger.store.reading() as r:
            for name, move in heard[1].items():
                now, before = r.accounts.get(name), accounts.get(name)
                assert now is not None
                assert (move.pending.seq, move.pending.head) == (now.seq, now.head)
                assert move.pending.spent == now.spent
                if before is None:
                    assert move.before is None
                else:
                    assert move.before is not None
                    assert (move.before.seq, move.before.head) == (before.seq, before.head)
                    assert move.before.spent == before.spent
        assert heard[1].keys() == {"0", ledger.account, opened_}
        assert heard[1][ledger.account].pending.spent == 9


def test_before_commit_may_forbid_the_commit(place: Place) -> None:
    with opened(replace(place, anchored=False)) as ledger:

        def forbid(work: UnitOfWork) -> None:
            if any(move.pending.spent > 5 for move in work.changes.moves().values()):
                raise OSError("no anchor")

        ledger.store.writer.before_commit = forbid
        outcomes = together(ledger, *(debit(ledger, key, 3) for key in "abc"))
        assert [isinstance(each, OSError) for each in outcomes] == [False, True, True]
        assert ledger.balance() == (1000, 3, 0)
        ledger.store.writer.before_commit = lambda _: None
        assert ledger.store.write(debit(ledger, "b", 3)).fresh
        assert ledger.store.verify().ok


def test_tasks_of_many_loops_are_told_and_one_that_left_is_not(place: Place) -> None:
    with opened(place) as ledger:
        go = hold(ledger)

        async def charge() -> list[Any]:
            tasks = [
                asyncio.ensure_future(ledger.store.awrite(debit(ledger, f"k{n}"))) for n in range(9)
            ]
            await asyncio.sleep(0)
            tasks[4].cancel()
            go.set()
            return await asyncio.gather(*tasks, return_exceptions=True)

        first, second = asyncio.run(charge()), asyncio.run(charge())
        assert isinstance(first[4], asyncio.CancelledError)
        assert [each.fresh for each in first if isinstance(each, Charged)] == [True] * 8
        assert [each.fresh for each in second if isinstance(each, Charged)] == [False] * 8
        assert ledger.balance() == (1000, 9, 0)


def test_a_loop_that_has_ended_holds_nobody_up(place: Place) -> None:
    with opened(place) as ledger:
        go = hold(ledger)

        async def leave() -> None:
            asyncio.ensure_future(ledger.store.awrite(debit(ledger, "a")))  # noqa: RUF006
            await asyncio.sleep(0)

        asyncio.run(leave())
        waiting = ledger.store.writer.submit(debit(ledger, "b"))
        go.set()
        assert waiting.result(30).fresh
        assert ledger.balance() == (1000, 2, 0)


def test_what_is_undone_is_not_told_before_commit(place: Place) -> None:
    """A function charges and finishes and then fails: the hook hears of neither."""
    with opened(place) as ledger:
        kept, undone = ledger.debit("kept").id, ledger.debit("undone").id
        heard: list[Mapping[str, bytes | None]] = []
        debits: list[int] = []
        writer = ledger.store.writer
        before = writer.before_commit

        def listen(work: UnitOfWork) -> None:
            heard.append({**work.changes.settled})
            debits.append(work.changes.debits)
            before(work)

        def fail(u: UnitOfWork) -> None:
            u.releases.finish(undone, b"never")
            reserved = ledger.reserve(u, "never")
            u.reviews.approve(reserved.id, principal=CURATOR, reason="r")
            assert u.changes.debits > 0
            raise RuntimeError

        writer.before_commit = listen
        finish = Finish(release=kept, result=b"1")
        outcomes = together(ledger, finish, debit(ledger, "a"), fail, replace(finish, result=b"2"))
        assert isinstance(outcomes[2], RuntimeError)
        assert (heard[1], debits[1]) == ({kept: b"1"}, 1)
        (finished,) = together(ledger, Finish(release=undone, result=b"3"))
        assert finished.result == b"3"
        assert heard[-1] == {undone: b"3"}
