"""Jobs: claimed once, drawn again after a death, void after the third, handed back at the end."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from app.domain.policies import Role
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.main import create_app
from app.places import open_store
from app.processes.build import build_processes
from app.services.build import Services, build_services
from app.services.datasets import erasing
from app.services.datasets.erasing import ErasingService
from app.services.people.keys import Caller
from app.services.plans.questions import Question
from app.services.releases.jobs import DrawDiedError, JobRunner, Lease, pauses_s
from app.services.releases.receipts import Receipts
from app.settings import Settings
from app.store import DatasetRecord, ReleaseRecord, Store
from app.store.anchor.standing import Standing
from app.web.requests.schemas import DatasetSpec
from app.worker import _work
from mechanisms.privacy import Epsilon
from mechanisms.statistics.quantile_regression import QuantileRegression
from tests.app.callers import register
from tests.app.ledgers import Place
from tests.speed import PATIENCE_S

ADA = Caller(key="key_ada", person="ada", role=Role.CURATOR)
BOB = Caller(key="key_bob", person="bob", role=Role.ANALYST)
ANSWER = b'{"drawn":1}'

Draw = Callable[[ReleaseRecord], bytes | None]


@dataclass
class Fake:
    """Draw processes that do what they are told, in turn; the last for all that follow."""

    does: list[Draw] = field(default_factory=lambda: [lambda _: ANSWER])
    count: int = 1
    drawn: list[str] = field(default_factory=list)
    at_once: int = 0
    most_at_once: int = 0
    going: asyncio.Event = field(default_factory=asyncio.Event)
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    receipts: Receipts | None = None
    """What signs the answers, as the processes do."""

    def __post_init__(self) -> None:
        self.going.set()

    async def draw(
        self, record: ReleaseRecord, dataset: DatasetRecord, manifest: str | None
    ) -> bytes | None:
        assert dataset.id == record.dataset
        self.drawn.append(record.id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await self._until_it_goes()
        self.at_once -= 1
        if self.stopped.is_set():
            raise DrawDiedError
        does = self.does.pop(0) if len(self.does) > 1 else self.does[0]
        answer = does(record)
        if answer is None or self.receipts is None:
            return answer
        return self.receipts.attach(record, answer)

    async def _until_it_goes(self) -> None:
        waits = [asyncio.ensure_future(event.wait()) for event in (self.going, self.stopped)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def stop(self) -> None:
        self.stopped.set()


def dies(_: ReleaseRecord) -> bytes | None:
    raise DrawDiedError


def question(epsilon: str = "1") -> Question:
    statistic = QuantileRegression(target="y", features=("x", "z"), bound=1.0)
    return Question(
        statistic=statistic, mechanism="kng", norm="auto", epsilon=Epsilon.parse(epsilon)
    )


@asynccontextmanager
async def opened(
    place: Place,
    processes: Any,
    *,
    drain_s: float = 5,
    lease_ms: int = 60_000,
    slot_ms: int = 0,
) -> AsyncIterator[tuple[Store, Services]]:
    settings = Settings(
        data_dir=place.directory, database_url=place.url, response_slot_ms=slot_ms, job_processes=1
    )
    store = open_store(settings)
    store.share()
    register(store, ADA, BOB)
    services = build_services(settings, store, build_processes(settings, store))
    jobs: JobRunner = services.jobs
    jobs._processes = processes
    if isinstance(processes, Fake):
        processes.receipts = services.receipts
    jobs.look_s = 0.05 if store.shared else None
    lease = Lease(store, services.releases.draws.worker, lease_ms=lease_ms)
    await lease.begin()
    try:
        yield store, services
    finally:
        await services.releases.close(timeout_s=drain_s)
        await lease.end()
        store.close()


async def new_dataset(services: Services) -> str:
    bounds = {"type": "number", "lower": -1, "upper": 1}
    spec = DatasetSpec.model_validate(
        {
            "name": "three columns",
            "adjacency": "replace_one",
            "columns": {"x": bounds, "y": bounds, "z": bounds},
            "budget": {"epsilon": "10"},
        }
    )
    rows = b"x,y,z\n0,0,0\n1,1,0\n"
    view, _ = await services.datasets.create(spec.declared(), io.BytesIO(rows), caller=ADA)
    return view.facts.id


async def ask(services: Services, dataset: str, idem: str = "a") -> ReleaseRecord:
    return await services.releases.submit(dataset, question(), idem=idem, caller=BOB)


async def final(services: Services, release: str) -> ReleaseRecord:
    for _ in range(3_000):  # far longer than it takes on an idle machine
        record = await services.releases.get(release, caller=BOB)
        if record.state is not ReleaseState.DEBITED:
            return record
        await asyncio.sleep(0.01)
    raise AssertionError("the job did not end")


def drawn(record: ReleaseRecord) -> int:
    """Return what the stored answer says, which has its receipt by now."""
    answer = json.loads(record.result or b"{}")
    assert answer["receipt"]
    return int(answer["drawn"])


def spent(services: Services, dataset: str) -> int:
    return services.budgets.view(dataset, caller=ADA).balance.spent


def test_a_job_is_queued_and_then_drawn_elsewhere(place: Place) -> None:
    async def scenario() -> None:
        fake = Fake()
        async with opened(place, fake) as (store, services):
            dataset = await new_dataset(services)
            queued = await ask(services, dataset)
            assert (queued.state, queued.worker) == (ReleaseState.DEBITED, None)
            assert json.loads(queued.plan)["job"] == {"deadline_s": 2, "expected_s": 2}
            again = await ask(services, dataset)
            assert again == queued
            services.jobs.start()
            done = await final(services, queued.id)
            assert (done.state, drawn(done), done.attempts) == (ReleaseState.RELEASED, 1, 1)
            assert done.worker == services.releases.draws.worker
            assert await ask(services, dataset) == done
            assert fake.drawn == [queued.id]
            assert spent(services, dataset) == 10**9
            assert store.verify().ok

    asyncio.run(scenario())


@pytest.mark.parametrize("turns", range(6))
def test_what_is_woken_while_it_closes_closes(tmp_path: Path, turns: int) -> None:
    async def scenario() -> None:
        async with opened(Place(tmp_path, f"sqlite:///{tmp_path}/l.sqlite"), Fake()) as (
            _,
            services,
        ):
            services.jobs.look_s = 60
            services.jobs.start()
            await services.jobs.idle()
            await asyncio.sleep(0.05)  # it has begun to wait
            services.jobs.wake()
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(30):
                await services.jobs.close(timeout_s=1)

    asyncio.run(scenario())


@pytest.mark.wide
def test_a_process_that_dies_costs_an_attempt(place: Place) -> None:
    async def scenario() -> None:
        fake = Fake([dies, dies, lambda record: b'{"drawn":%d}' % record.attempts])
        async with opened(place, fake) as (_, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            done = await final(services, (await ask(services, dataset)).id)
            assert (done.state, drawn(done)) == (ReleaseState.RELEASED, 3)
            assert spent(services, dataset) == 10**9

    asyncio.run(scenario())


def test_the_third_death_is_void_and_charged(place: Place) -> None:
    async def scenario() -> None:
        fake = Fake([dies])
        async with opened(place, fake) as (store, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            done = await final(services, (await ask(services, dataset)).id)
            assert (done.state, done.attempts) == (ReleaseState.VOID, 3)
            assert len(fake.drawn) == 3
            assert await ask(services, dataset) == done
            assert spent(services, dataset) == 10**9
            assert store.verify().ok

    asyncio.run(scenario())


def test_a_draw_that_fails_is_void_at_once(place: Place) -> None:
    async def scenario() -> None:
        fake = Fake([lambda _: None])
        async with opened(place, fake) as (_, services):
            services.jobs.start()
            done = await final(services, (await ask(services, await new_dataset(services))).id)
            assert (done.state, done.attempts, len(fake.drawn)) == (ReleaseState.VOID, 1, 1)

    asyncio.run(scenario())


def test_no_more_than_there_are_processes_draw_at_once(place: Place) -> None:
    async def scenario() -> None:
        fake = Fake(count=2)
        fake.going.clear()
        async with opened(place, fake) as (_, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            asked = [await ask(services, dataset, f"k{number}") for number in range(5)]
            while len(fake.drawn) < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert {*fake.drawn} == {release.id for release in asked[:2]}
            fake.going.set()
            for release in asked:
                assert (await final(services, release.id)).state is ReleaseState.RELEASED
            assert fake.most_at_once == 2
            assert sorted(fake.drawn) == sorted(release.id for release in asked)

    asyncio.run(scenario())


def test_a_stopping_service_hands_its_jobs_back(place: Place) -> None:
    async def scenario() -> None:
        stuck = Fake()
        stuck.going.clear()
        async with opened(place, stuck, drain_s=0.05) as (_, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            asked = await ask(services, dataset)
            while not stuck.drawn:
                await asyncio.sleep(0.01)
        async with opened(place, Fake()) as (_, services):
            queued = await services.releases.get(asked.id, caller=BOB)
            assert (queued.state, queued.worker, queued.attempts) == (asked.state, None, 1)
            services.jobs.start()
            done = await final(services, asked.id)
            assert (done.state, done.attempts) == (ReleaseState.RELEASED, 1)
            assert spent(services, dataset) == 10**9

    asyncio.run(scenario())


def test_a_stopping_service_lets_jobs_finish_for_a_while(place: Place) -> None:
    async def scenario() -> None:
        slow = Fake()
        slow.going.clear()
        async with opened(place, slow, drain_s=5) as (store, services):
            services.jobs.start()
            asked = await ask(services, await new_dataset(services))
            while not slow.drawn:
                await asyncio.sleep(0.01)
            asyncio.get_running_loop().call_later(0.2, slow.going.set)
        async with opened(place, Fake()) as (store, _):
            with store.reading() as reader:
                record = reader.releases.get(asked.id)
        assert record is not None
        assert record.state is ReleaseState.RELEASED

    asyncio.run(scenario())


def test_an_outcome_that_cannot_be_stored_is_drawn_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.releases.jobs._PAUSE_S", 0.01)

    async def scenario() -> None:
        async with opened(place, Fake()) as (_, services):
            draws = services.releases.draws
            finish, surely = draws.finish, draws.surely

            async def full(*_: object) -> Any:
                monkeypatch.setattr(draws, "finish", finish)
                monkeypatch.setattr(draws, "surely", still_full)
                raise OSError("no space left on device")

            async def still_full(*_: object) -> Any:
                monkeypatch.setattr(draws, "surely", surely)
                raise OSError("no space left on device")

            monkeypatch.setattr(draws, "finish", full)
            services.jobs.start()
            done = await final(services, (await ask(services, await new_dataset(services))).id)
            assert (done.state, done.attempts) == (ReleaseState.RELEASED, 1)

    asyncio.run(scenario())


@pytest.mark.wide
def test_what_cannot_be_handed_back_for_long_is_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A ledger that is frozen stays so; it is asked less and less often."""
    monkeypatch.setattr("app.services.releases.jobs._PAUSE_S", 0.001)
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    tries: list[object] = []

    async def scenario() -> None:
        async with opened(place, Fake()) as (store, services):
            draws = services.releases.draws
            surely = draws.surely

            async def broken(*_: object) -> Any:
                raise OSError("no space left on device")

            async def frozen(write: Any) -> Any:
                tries.append(write)
                if len(tries) < 6:
                    raise Problem("ledger-frozen")
                monkeypatch.setattr(draws, "finish", finish)
                monkeypatch.setattr(draws, "surely", surely)
                return await surely(write)

            finish = draws.finish
            asked = await ask(services, await new_dataset(services))
            claimed = await store.awrite(lambda work: work.releases.claim(draws.worker))
            assert claimed is not None
            monkeypatch.setattr(draws, "finish", broken)
            monkeypatch.setattr(draws, "surely", frozen)
            await services.jobs._work(claimed)
            services.jobs.start()
            assert (await final(services, asked.id)).state is ReleaseState.RELEASED

    asyncio.run(scenario())
    assert len(tries) == 6
    said = [each for each in caplog.records if each.msg == "not handed back"]
    assert [vars(each)["failure"] for each in said] == ["Problem"]


@pytest.mark.wide
def test_a_stopping_service_waits_for_no_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.releases.jobs._PAUSE_S", 1000.0)
    monkeypatch.setattr("app.services.releases.jobs._LONGEST_PAUSE_S", 1000.0)
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        async with opened(place, Fake()) as (store, services):
            draws, tries = services.releases.draws, asyncio.Event()

            async def frozen(_: object) -> Any:
                tries.set()
                raise Problem("ledger-frozen")

            await ask(services, await new_dataset(services))
            claimed = await store.awrite(lambda work: work.releases.claim(draws.worker))
            assert claimed is not None
            monkeypatch.setattr(draws, "surely", frozen)
            handing_back = asyncio.create_task(services.jobs._hand_back(claimed))
            await tries.wait()
            services.jobs._stopping.set()
            async with asyncio.timeout(PATIENCE_S):
                await handing_back

    asyncio.run(scenario())


def test_pauses_grow_up_to_a_bound() -> None:
    assert list(islice(pauses_s(), 8)) == [1, 2, 4, 8, 16, 30, 30, 30]


@pytest.mark.wide
def test_rows_go_when_the_last_job_on_an_archived_data_set_is_done(tmp_path: Path) -> None:
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        slow = Fake()
        slow.going.clear()
        async with opened(place, slow) as (_, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            asked = await ask(services, dataset)
            await services.archiving.archive(dataset, caller=ADA)
            await services.erasing.erase(dataset)
            assert list((tmp_path / "datasets").iterdir())
            slow.going.set()
            assert (await final(services, asked.id)).state is ReleaseState.RELEASED
            await services.jobs.idle()
            assert not list((tmp_path / "datasets").iterdir())

    asyncio.run(scenario())


@pytest.mark.postgres
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_what_one_process_erases_others_let_go_of(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not while a charged release waits for it, nor while the ledger is frozen."""
    monkeypatch.setattr(erasing, "LOOK_EVERY_S", 0.02)
    reported: list[str] = []

    async def scenario() -> None:
        slow = Fake()
        slow.going.clear()
        async with opened(place, slow) as (_, first), opened(place, Fake()) as (store, second):
            first.jobs.start()
            dataset = await new_dataset(first)
            plane: Any = second.erasing.plane

            def forget(name: str) -> None:
                reported.append(name)
                if len(reported) == 1:
                    raise OSError

            plane._erased = [forget]
            asked = await ask(first, dataset)
            plane.open(dataset)
            letting_go = asyncio.ensure_future(second.erasing.keep_erasing())
            await second.archiving.archive(dataset, caller=ADA)
            await asyncio.sleep(0.3)
            assert reported == []
            assert plane._cache._held
            with monkeypatch.context() as frozen:
                frozen.setattr(type(store), "frozen", Standing.OLDER)
                slow.going.set()
                assert (await final(first, asked.id)).state is ReleaseState.RELEASED
                await asyncio.sleep(0.3)
                assert reported == []
            while reported != [dataset, dataset]:  # it is tried again
                await asyncio.sleep(0.02)
            assert not plane._cache._held
            letting_go.cancel()

    asyncio.run(asyncio.wait_for(scenario(), PATIENCE_S))


def test_servers_and_workers_let_go_of_what_others_erase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def begun(_: ErasingService) -> None:
        looking.set()
        await asyncio.Event().wait()

    async def serves() -> None:
        application = create_app(settings)
        async with application.router.lifespan_context(application):
            await asyncio.Event().wait()

    async def scenario() -> None:
        for running in (serves, lambda: _work(settings)):
            looking.clear()
            task = asyncio.ensure_future(running())
            await asyncio.wait_for(looking.wait(), PATIENCE_S)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    looking = asyncio.Event()
    settings = Settings(data_dir=tmp_path / "data", job_processes=1)
    monkeypatch.setattr(ErasingService, "keep_erasing", begun)
    asyncio.run(scenario())


@pytest.mark.postgres
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_two_processes_draw_each_job_once(place: Place) -> None:
    async def scenario() -> None:
        one, other = Fake(), Fake()
        async with opened(place, one) as (store, first), opened(place, other) as (_, second):
            dataset = await new_dataset(first)
            asked = [await ask(first, dataset, f"k{number}") for number in range(8)]
            first.jobs.start()
            second.jobs.start()
            for release in asked:
                done = await final(second, release.id)
                assert (done.state, done.attempts) == (ReleaseState.RELEASED, 1)
            assert sorted(one.drawn + other.drawn) == sorted(release.id for release in asked)
            assert spent(first, dataset) == 8 * 10**9
            assert store.verify().ok

    asyncio.run(scenario())


@pytest.mark.postgres
@pytest.mark.parametrize("place", ["postgres"], indirect=True)
def test_a_dead_process_is_found_by_its_lease(place: Place) -> None:
    async def scenario() -> None:
        stuck = Fake()
        stuck.going.clear()
        async with opened(place, stuck, drain_s=0.01, lease_ms=1_500) as (_, dead):
            dead.jobs.start()
            dataset = await new_dataset(dead)
            asked = await ask(dead, dataset)
            while not stuck.drawn:
                await asyncio.sleep(0.01)
            async with opened(place, Fake()) as (_, living):
                living.jobs.start()
                await asyncio.sleep(2.5)  # longer than a lease, which is kept up
                assert (await living.releases.get(asked.id, caller=BOB)).attempts == 1
                for task in asyncio.all_tasks():
                    if "_keep_up" in repr(task):
                        task.cancel()
                done = await final(living, asked.id)
                assert (done.state, done.attempts) == (ReleaseState.RELEASED, 2)
                # the first was not dead after all: its late outcome changes nothing
                stuck.does = [lambda _: b'{"drawn":2}']
                stuck.going.set()
                await dead.jobs.idle()
                assert drawn(await living.releases.get(asked.id, caller=BOB)) == 1

    asyncio.run(scenario())
