"""What is read of releases: no result before it is shown, and no more of a list than is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, event

from app.domain.access import Span
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.build import Services
from app.services.plans import answers as work
from app.services.releases import public_moments as moments
from app.services.releases.public_moments import PublicMoments
from app.services.releases.reviews import Decision
from app.store import ReleasePage, ReleaseRecord, Store
from app.store.database.tables import metadata
from mechanisms.statistics.count import Count
from tests.app.ledgers import Ledger, Place, opened
from tests.app.test_jobs import ADA, BOB, Fake, ask, new_dataset
from tests.app.test_jobs import opened as serving

HOUR_S = 3600
ANSWER = b'{"drawn":"%s"}' % (b"x" * 300_000)


@contextmanager
def heard(store: Store) -> Iterator[list[str]]:
    """Collect every statement that a store has its database run."""
    statements: list[str] = []
    ours = {store.readers, store.writer.connection.engine}

    def hear(connection: Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
        if connection.engine in ours:  # servers of other tests may run in this process
            statements.append(statement)

    event.listen(Engine, "before_cursor_execute", hear)
    try:
        yield statements
    finally:
        event.remove(Engine, "before_cursor_execute", hear)


def reads_a_result(statement: str) -> bool:
    return "release.result" in statement


async def seen(
    store: Store, services: Services, dataset: str, release: str, idem: str
) -> list[str]:
    """Ask for a release in every way that there is, and return what was run for each."""
    reads: list[Callable[[], Any]] = [
        lambda: services.releases.get(release, caller=BOB),
        lambda: services.releases.get(release, caller=ADA),
        lambda: ask(services, dataset, idem),
        lambda: services.derivations.derive(release, Count(), together_with=(), caller=BOB),
        lambda: services.reviews.withdraw(release, caller=BOB),
        lambda: services.reviews.decide(
            release, Decision.REJECT, "no", unchanged=lambda _: True, caller=ADA
        ),
    ]
    with heard(store) as statements:
        for read in reads:
            with suppress(Problem):  # what may be done to no running release
                found = await read()
                assert (found.state, found.result) == (ReleaseState.DEBITED, None)
            statements.append("--")
        page = services.releases.list(
            caller=BOB, dataset=dataset, before=None, limit=5, most_bytes=2**20
        )
    assert [each.result for each in page.records] == [None] * len(page.records)
    return statements


@pytest.mark.wide
def test_what_has_ended_too_early_is_read_as_what_has_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work, "SHORTEST_DEADLINE_S", HOUR_S)

    async def scenario() -> None:
        async with serving(place, Fake(), slot_ms=20) as (store, services):
            dataset = await new_dataset(services)
            asked = await ask(services, dataset, "a")
            running = await seen(store, services, dataset, asked.id, "a")
            store.write(lambda u: u.releases.finish(asked.id, ANSWER))
            ended = await seen(store, services, dataset, asked.id, "a")
            assert ended == running
            assert not [each for each in running if reads_a_result(each)]
            assert any("FROM release" in each for each in running)

            later = moments.now_ms() + 1000 * HOUR_S
            monkeypatch.setattr(moments, "now_ms", lambda: later)
            with heard(store) as statements:
                shown = await services.releases.get(asked.id, caller=BOB)
                replayed = await ask(services, dataset, "a")
            assert shown.result == replayed.result == ANSWER
            assert sum(map(reads_a_result, statements)) == 2

    asyncio.run(scenario())


def test_a_repeated_key_reads_its_result_where_it_is_refused_today(place: Place) -> None:
    async def scenario() -> None:
        async with serving(place, Fake()) as (store, services):
            dataset = await new_dataset(services)
            asked = await ask(services, dataset, "a")
            store.write(lambda u: u.releases.finish(asked.id, ANSWER))
            await services.archiving.archive(dataset, caller=ADA)
            assert (await ask(services, dataset, "a")).result == ANSWER
            with pytest.raises(Problem, match="dataset-archived"):
                await ask(services, dataset, "b")

    asyncio.run(scenario())


def test_showing_costs_the_same_whether_a_draw_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times that are read are the same ones, and so is what comes of it."""
    monkeypatch.setattr(moments, "now_ms", lambda: 1_000)
    parsed: list[str] = []
    whole = moments._ms

    def counted(moment: str) -> int:
        parsed.append(moment)
        return whole(moment)

    monkeypatch.setattr(moments, "_ms", counted)
    running = ReleaseRecord.begun(
        number=1, id="rel_1", account="a", seq=2, dataset="d", principal="p", request="{}",
        plan='{"job":{"deadline_s":2}}', fingerprint="f", created_at="1970-01-01T00:00:00.000000Z",
        worker=None, entry_hash="h", amount=1,
    )  # fmt: skip
    ended = running._replace(state=ReleaseState.RELEASED, finished_at="1970-01-01T00:00:00.500000Z")
    shown, counts = [], []
    for record in (running, ended, ended._replace(state=ReleaseState.VOID)):
        parsed.clear()
        shown.append(PublicMoments(20).publicly(record))
        counts.append(len(parsed))
    assert shown == [running] * 3
    assert len(set(counts)) == 1


def as_asked(page: ReleasePage) -> list[bytes | None]:
    return [each.result for each in page.records]


def hidden(record: ReleaseRecord) -> ReleaseRecord:
    return record._replace(state=ReleaseState.DEBITED)


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with opened(place) as found:
        yield found


def test_a_page_ends_after_some_bytes_and_reads_no_more(ledger: Ledger) -> None:
    results = [b"%d" % n * 1000 for n in range(6)]
    for n, result in enumerate(results):
        ledger.release(f"k{n}", result=result)
    newest = results[::-1]
    with ledger.store.reading() as r:
        for most, count in ((1, 1), (1500, 1), (2500, 2), (3500, 3), (10**6, 4)):
            page = r.releases.page(limit=4, most_bytes=most)
            assert as_asked(page) == newest[:count], most
            assert page.more
        whole = r.releases.page(limit=6, most_bytes=10**6)
        assert (as_asked(whole), whole.more) == (newest, False)
        rest = r.releases.page(limit=6, most_bytes=2500, before=whole.records[3].number)
        assert (as_asked(rest), rest.more) == (newest[4:], False)
        assert r.releases.page(limit=6, most_bytes=1, principal="nobody") == ((), False)


def test_the_bytes_of_a_page_are_those_of_what_is_shown(ledger: Ledger) -> None:
    released = [ledger.release(f"k{n}", result=b"x" * 1000).id for n in range(3)]
    with ledger.store.reading() as r, heard(ledger.store) as statements:
        page = r.releases.page(limit=3, most_bytes=100, shown=hidden)
        assert [each.id for each in page.records] == released[::-1]
        assert as_asked(page) == [None] * 3
        assert not page.more
    assert not [each for each in statements if reads_a_result(each)]


def test_requests_count_too_and_are_not_read_beyond_a_page(ledger: Ledger) -> None:
    for n in range(4):
        ledger.debit(f"k{n}", request='{"asked":"%s"}' % ("x" * 1000))
    shown: list[str] = []

    def noted(record: ReleaseRecord) -> ReleaseRecord:
        shown.append(record.id)
        return record

    with ledger.store.reading() as r:
        page = r.releases.page(limit=4, most_bytes=2500, shown=noted)
    assert (len(page.records), page.more) == (2, True)
    assert shown == [each.id for each in page.records]


def test_a_page_of_heads_reads_no_results(ledger: Ledger) -> None:
    released = [ledger.release(f"k{n}", result=b"x" * 1000).id for n in range(3)][::-1]
    with ledger.store.reading() as r, heard(ledger.store) as statements:
        first = r.releases.page_of_heads(span=Span(limit=2), shown=hidden)
        rest = r.releases.page_of_heads(span=Span(limit=2, before=first[-1].number))
        back = r.releases.page_of_heads(span=Span(limit=2, after=rest[0].number))
        oldest = r.releases.page_of_heads(span=Span(limit=2, ascending=True))
    assert (
        [[each.id for each in page] for page in (first, rest, back, oldest)]
        == [
            released[:2],
            released[2:],
            released[:2][::-1],  # as they are read: those next to the row first
            released[1:][::-1],
        ]
    )
    assert {each.state for each in first} == {ReleaseState.DEBITED}
    assert [each.result for each in rest] == [None]
    assert not [each for each in statements if reads_a_result(each)]


# The order of the columns


def test_nothing_lies_behind_a_result() -> None:
    """SQLite would walk over the result to reach it."""
    names = [column.name for column in metadata.tables["release"].columns]
    assert names[-2:] == ["result_hash", "result"]
