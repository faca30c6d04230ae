"""Turns: whose job is claimed next, how many a person may queue, and when a lane is free again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.domain.policies import Role
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.people.keys import Caller
from app.services.releases.jobs import SHORT_JOB_S
from app.services.releases.public_moments import PublicMoments
from app.store import Charged, Debit, ReleaseRecord
from app.store.ledger.pauses import PAUSE_SET, Paused
from tests.app.callers import register
from tests.app.ledgers import Ledger, Place, opened, raw
from tests.app.test_jobs import ANSWER, BOB, Fake, final, new_dataset, question
from tests.app.test_jobs import opened as serving

SHORT, LONG = 2, 64
DAN = Caller(key="key_dan", person="dan", role=Role.ANALYST)


@pytest.fixture
def ledger(place: Place) -> Iterator[Ledger]:
    with opened(place) as ledger:
        for worker in ("one", "two"):
            ledger.store.write(lambda u, w=worker: u.workers.beat(w, lease_ms=60_000))
        yield ledger


def queue(
    ledger: Ledger,
    person: str,
    idem: str,
    *,
    dataset: str | None = None,
    deadline_s: int = SHORT,
    most: int | None = None,
) -> ReleaseRecord:
    charged: Charged = ledger.store.write(
        Debit(
            dataset=dataset or ledger.dataset, principal=person, idem=idem, amount=1,
            request="{}", plan="{}", deadline_s=deadline_s, most_jobs=most,
        )
    )  # fmt: skip
    return charged.record


def another_dataset(ledger: Ledger, name: str) -> str:
    record = ledger.store.write(
        lambda u: u.datasets.insert(
            name=name, account=ledger.account, spec="{}", rows=3, principal="person_cleo"
        )
    )
    return record.id


def claim(ledger: Ledger, worker: str = "one", **which: Any) -> ReleaseRecord | None:
    return ledger.store.write(lambda u: u.releases.claim(worker, **which))


def claims(ledger: Ledger, *workers: str) -> list[str]:
    found = [claim(ledger, worker) for worker in workers]
    return [f"{each.principal} {each.dataset}" if each else "-" for each in found]


def test_people_take_turns_whoever_claims(ledger: Ledger) -> None:
    for number in range(5):
        queue(ledger, "ann", f"a{number}")
    queue(ledger, "bob", "b0")
    assert claims(ledger, "one", "two", "two") == [
        f"{person} {ledger.dataset}" for person in ("ann", "bob", "ann")
    ]
    # who comes back is next, and not before who has waited
    queue(ledger, "bob", "b1")
    queue(ledger, "cat", "c0")
    found = [each.split()[0] for each in claims(ledger, *["one", "two"] * 3)]
    assert found == ["cat", "bob", "ann", "ann", "ann", "-"]
    assert ledger.store.verify().ok


def test_within_a_person_data_sets_take_turns(ledger: Ledger) -> None:
    other = another_dataset(ledger, "other")
    for number in range(3):
        queue(ledger, "ann", f"a{number}")
    queue(ledger, "ann", "o", dataset=other)
    queue(ledger, "bob", "b", dataset=other)
    assert claims(ledger, *["one"] * 5) == [
        f"ann {ledger.dataset}",
        f"bob {other}",
        f"ann {other}",
        f"ann {ledger.dataset}",
        f"ann {ledger.dataset}",
    ]


def test_a_lane_for_short_jobs_takes_no_long_one(ledger: Ledger) -> None:
    long = queue(ledger, "ann", "long", deadline_s=LONG)
    assert claim(ledger, longest_s=SHORT_JOB_S) is None
    short = queue(ledger, "ann", "short", deadline_s=SHORT_JOB_S)
    left = ledger.debit("left", worker="dead")  # no job
    found = [claim(ledger, longest_s=SHORT_JOB_S) for _ in range(3)]
    assert {each.id for each in found if each} == {short.id, left.id}
    found = [claim(ledger), claim(ledger)]
    assert [each and each.id for each in found] == [long.id, None]


def test_nothing_of_some_people_is_claimed(ledger: Ledger) -> None:
    for person in ("ann", "bob", "cat"):
        queue(ledger, person, "a")
    ledger.debit("left", principal="ann", worker="dead")
    found = [
        claim(ledger, without=without) for without in (["ann", "bob"], ["ann", "bob"], ["ann"])
    ]
    assert [each and each.principal for each in found] == ["cat", None, "bob"]
    found = [claim(ledger, without=[], longest_s=SHORT_JOB_S) for _ in range(3)]
    assert [each and each.principal for each in found] == ["ann", "ann", None]


def test_a_draw_is_not_late_before_twice_its_deadline(ledger: Ledger) -> None:
    for slot_ms in (0, 100):
        moments = PublicMoments(slot_ms)
        long, small = queue(ledger, "ann", f"l{slot_ms}"), ledger.debit(f"s{slot_ms}")
        plan = f'{{"job": {{"deadline_s": {LONG}, "expected_s": 8}}}}'
        assert moments.late_ms(long._replace(plan=plan)) == 2000 * LONG
        assert moments.late_ms(small) == 4000
    assert moments.lane_taken_ms(small) * 2 == moments.late_ms(small), "a public moment"


def test_a_person_has_so_many_unfinished_jobs_and_no_more(ledger: Ledger) -> None:
    queued = [queue(ledger, "ann", idem, most=2) for idem in "ab"]
    with pytest.raises(Problem, match="too-many-jobs") as refused:
        queue(ledger, "ann", "c", most=2)
    assert refused.value.extras["maximum"] == 2
    assert (refused.value.status, refused.value.retry_after_s) == (429, 10)
    assert queue(ledger, "ann", "a", most=2).id == queued[0].id, "a replay is no new job"
    queue(ledger, "bob", "a", most=2)
    assert ledger.balance()[1] == 3, "nothing was charged"
    # an end is not public, but a free lane is
    claim(ledger, "one")
    ledger.store.write(lambda u: u.releases.finish(queued[0].id, b"{}"))
    with pytest.raises(Problem, match="too-many-jobs"):
        queue(ledger, "ann", "c", most=2)
    for each in queued:  # the other has not been drawn, and stays
        ledger.store.write(lambda u, r=each.id: u.releases.leave_queue(r))
    queue(ledger, "ann", "c", most=2)
    with pytest.raises(Problem, match="too-many-jobs"):
        queue(ledger, "ann", "d", most=2)


def test_what_a_dead_worker_had_drawn_counts_no_longer(ledger: Ledger) -> None:
    ledger.store.write(lambda u: u.workers.beat("dead", lease_ms=60_000))
    queued = queue(ledger, "ann", "a", most=1)
    claim(ledger, "dead")
    ledger.store.write(lambda u: u.releases.finish(queued.id, b"{}"))
    ledger.store.write(lambda u: u.workers.end("dead"))
    queue(ledger, "ann", "b", most=1)
    assert claim(ledger) is not None
    with ledger.store.reading() as reader:
        assert len(reader.releases.list(principal="ann")) == 2


def test_together_jobs_are_counted_one_by_one(ledger: Ledger) -> None:
    async def scenario() -> list[object]:
        asked = [
            ledger.store.awrite(
                Debit(
                    dataset=ledger.dataset, principal="ann", idem=f"k{number}", amount=1,
                    request="{}", plan="{}", deadline_s=SHORT, most_jobs=5,
                )
            )
            for number in range(20)
        ]  # fmt: skip
        return await asyncio.gather(*asked, return_exceptions=True)

    found = asyncio.run(scenario())
    assert sum(isinstance(each, Charged) for each in found) == 5
    assert ledger.balance()[1] == 5


def test_an_approved_release_is_queued_whatever_the_bound(ledger: Ledger) -> None:
    queue(ledger, "person_ann", "a", most=1)
    waits = ledger.store.write(lambda u: ledger.reserve(u, "r"))
    ledger.store.write(
        lambda u: u.reviews.approve(waits.id, principal="person_cleo", deadline_s=LONG)
    )
    with pytest.raises(Problem, match="too-many-jobs"):
        queue(ledger, "person_ann", "b", most=2)
    assert claim(ledger, longest_s=SHORT_JOB_S) is not None
    assert claim(ledger, longest_s=SHORT_JOB_S) is None
    assert claim(ledger) is not None


@dataclass
class Timed(Fake):
    """Draws that take a while by their key, and when each began."""

    draws_s: float = 0.0
    begun: dict[str, float] = field(default_factory=dict)

    async def draw(self, record: ReleaseRecord, dataset: Any, manifest: Any) -> bytes | None:
        self.begun[record.id] = time.monotonic()
        if record.principal == BOB.person:
            await asyncio.sleep(self.draws_s)
        return await super().draw(record, dataset, manifest)


INSERT_PAUSE = """
INSERT INTO pause (number, what, name, reason, paused_by, paused_at)
VALUES (9, 'person', 'dan', 'r', 'cleo', '2026-01-01T00:00:00Z')"""


def probes_begin(place: Place, *, draws_s: float, lane_ms: int) -> Sequence[float]:
    """Return when each of another person's jobs begins after the one that they wait behind."""

    async def scenario() -> Sequence[float]:
        timed = Timed(does=[lambda _: ANSWER], draws_s=draws_s)
        async with serving(place, timed) as (store, services):
            register(store, DAN)
            services.jobs.taken_ms = lambda _: lane_ms
            dataset = await new_dataset(services)

            async def ask(caller: Caller, idem: str) -> str:
                asked = await services.releases.submit(
                    dataset, question("0.01"), idem=idem, caller=caller
                )
                return asked.id

            target = await ask(BOB, "target")
            probes = [await ask(DAN, f"probe {number}") for number in range(5)]
            services.jobs.start()
            for probe in probes:
                assert (await final_of(services, probe)).state is ReleaseState.RELEASED
            assert (await final(services, target)).state is ReleaseState.RELEASED
            assert timed.most_at_once == 1
            return [timed.begun[probe] - timed.begun[target] for probe in probes]

    return asyncio.run(scenario())


async def final_of(services: Any, release: str) -> ReleaseRecord:
    while True:
        record: ReleaseRecord = await services.releases.get(release, caller=DAN)
        if record.state is not ReleaseState.DEBITED:
            return record
        await asyncio.sleep(0.01)


@pytest.mark.wide
@pytest.mark.parametrize("draws_s", [0.0, 0.08])
@pytest.mark.parametrize(
    ("lane_ms", "reported"),
    [pytest.param(600_000, False, id="kept"), pytest.param(0, True, id="twin: freed at once")],
)
def test_the_end_of_a_draw_begins_nobody_elses(
    tmp_path: Path, lane_ms: int, reported: bool, draws_s: float
) -> None:
    async def scenario() -> None:
        timed = Timed(draws_s=draws_s)
        place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")
        async with serving(place, timed) as (store, services):
            register(store, DAN)
            services.jobs.taken_ms = lambda _: lane_ms
            dataset = await new_dataset(services)
            target, probe = [
                await services.releases.submit(dataset, question("1"), idem="a", caller=caller)
                for caller in (BOB, DAN)
            ]
            services.jobs.start()
            assert (await final(services, target.id)).state is ReleaseState.RELEASED
            if reported:
                assert (await final_of(services, probe.id)).state is ReleaseState.RELEASED
                return
            await asyncio.sleep(0.3)
            assert probe.id not in timed.begun

    asyncio.run(scenario())


@pytest.mark.parametrize(("draws_s", "least_s"), [(0.0, 0.1), (0.08, 0.1), (0.15, 0.2)])
def test_a_lane_is_kept_until_a_deadline_or_a_doubling(
    tmp_path: Path, draws_s: float, least_s: float
) -> None:
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    begins = probes_begin(place, draws_s=draws_s, lane_ms=100)
    for number, begin in enumerate(begins):  # a busy machine makes them later, never earlier
        assert begin >= least_s + 0.1 * number - 0.005


@pytest.mark.parametrize("what", [*Paused])
def test_what_is_paused_waits_and_is_not_charged(ledger: Ledger, what: Paused) -> None:
    other = another_dataset(ledger, "other")
    name = {Paused.PERSON: "ann", Paused.DATASET: ledger.dataset}[what]
    queue(ledger, "ann", "a")
    left = ledger.debit("left", principal="ann", worker="dead")
    ledger.store.write(lambda u: u.pauses.pause(what, name, principal="cleo", reason="flood"))
    assert claim(ledger) is None
    with pytest.raises(Problem, match="paused") as refused:
        queue(ledger, "ann", "b")
    assert refused.value.extras == {"what": what.value}
    queue(ledger, "bob", "b", dataset=other)
    assert claims(ledger, "one", "two") == [f"bob {other}", "-"]
    assert queue(ledger, "ann", "a").principal == "ann", "a replay is no charge"
    ledger.store.write(lambda u: u.pauses.resume(what, name, principal="cleo", reason="over"))
    found = [claim(ledger), claim(ledger)]
    assert left.id in {each.id for each in found if each}
    assert ledger.balance()[1] == 3
    assert ledger.store.verify().ok


def test_a_pause_is_an_entry_and_cannot_be_edited(ledger: Ledger) -> None:
    def pause(name: str, reason: str) -> None:
        ledger.store.write(
            lambda u: u.pauses.pause(Paused.PERSON, name, principal="cleo", reason=reason)
        )

    pause("ann", "first")
    pause("ann", "second")
    pause("bob", "another")
    for _ in range(2):
        ledger.store.write(
            lambda u: u.pauses.resume(Paused.PERSON, "bob", principal="cleo", reason="over")
        )
    with ledger.store.reading() as reader:
        [kept] = reader.pauses.list()
        entries = [e for e in reader.entries.list("0") if e.kind == PAUSE_SET]
    assert (kept.name, kept.reason, kept.paused_by) == ("ann", "second", "cleo")
    assert len(entries) == 4
    edits = [
        ("UPDATE pause SET reason = 'none'", "a pause has been edited"),
        ("DELETE FROM pause", "a pause is missing"),
        (INSERT_PAUSE, "a pause has been edited"),
    ]
    for statement, fault in edits:
        with raw(ledger.place) as db:
            db.execute(statement)
        assert fault in str(ledger.store.verify())
