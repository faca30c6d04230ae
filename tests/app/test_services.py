"""The use cases without HTTP: what happens when a draw fails, a client leaves, a process dies."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.domain.policies import Role
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.places import open_store
from app.processes.build import build_processes
from app.services.build import Services, build_services
from app.services.datasets import datasets as dataset_module
from app.services.datasets.datasets import DatasetFacts
from app.services.datasets.erasing import Edit
from app.services.people.keys import Caller
from app.services.plans import plans
from app.services.plans.plans import make_offer
from app.services.plans.questions import Question, read_question
from app.services.releases import charged_draws
from app.store import DatasetRecord, DatasetStatus, Debit, Store, UnknownCommitError
from app.web.requests.schemas import DatasetSpec
from mechanisms.privacy import Epsilon
from mechanisms.statistics.mean import Mean
from mechanisms.statistics.total import Sum
from tests.app.callers import register
from tests.app.chosen import chosen
from tests.speed import PATIENCE_S

ADA = Caller(key="key_ada", person="ada", role=Role.CURATOR)
BOB = Caller(key="key_bob", person="bob", role=Role.ANALYST)
SECRET = "an exception that names the cell 77191"


def question(epsilon: str = "1", column: str = "x") -> Question:
    return Question(
        statistic=Mean(columns=(column,)),
        mechanism="auto",
        norm="auto",
        epsilon=Epsilon.parse(epsilon),
    )


@asynccontextmanager
async def opened(
    directory: Path, *, drain_s: float = 5, **settings: Any
) -> AsyncIterator[tuple[Store, Services]]:
    """Open a service without its clock, in which jobs are not claimed until they are started."""
    own = {"data_dir": directory, "response_slot_ms": 0, "job_processes": 1}
    config, constants = chosen(**own, **settings)
    store = open_store(config)
    register(store, ADA, BOB)
    services = build_services(config, store, build_processes(config, store, constants), constants)
    await services.lease.begin()
    try:
        yield store, services
    finally:
        await services.releases.close(timeout_s=drain_s)
        store.close()


async def new_dataset(
    services: Services,
    total: str = "10",
    *,
    name: str = "one column",
    rows: bytes = b"x\n1\n0\n",
) -> str:
    spec = DatasetSpec.model_validate(
        {
            "name": name,
            "adjacency": "replace_one",
            "columns": {"x": {"type": "number", "lower": 0, "upper": 1}},
            "budget": {"epsilon": total},
        }
    )
    view, _ = await services.datasets.create(spec.declared(), io.BytesIO(rows), caller=ADA)
    return view.facts.id


def spent(services: Services, dataset: str) -> int:
    return services.budgets.view(dataset, caller=ADA).balance.spent


def test_a_failed_draw_is_void_for_ever_and_stays_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError(SECRET)

    async def scenario() -> None:
        async with opened(tmp_path, draw_process=False) as (store, services):
            dataset = await new_dataset(services)
            with monkeypatch.context() as patched:
                patched.setattr(charged_draws, "run", broken)
                failed = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert (failed.state, failed.result) == (ReleaseState.VOID, None)
            again = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert again == failed
            assert spent(services, dataset) == 10**9
            with store.reading() as reader:
                assert [each.state for each in reader.releases.list()] == [ReleaseState.VOID]
            assert store.verify().ok

    asyncio.run(scenario())
    assert SECRET not in str([vars(each) for each in caplog.records])
    assert SECRET not in caplog.text


def hold_draws(
    services: Services, monkeypatch: pytest.MonkeyPatch, end: BaseException | None = None
) -> tuple[asyncio.Event, asyncio.Event]:
    """Let draws say that they have begun, and wait until they may go on or fail."""
    begun, go = asyncio.Event(), asyncio.Event()
    draws = services.releases.draws
    draw = draws.draw

    async def held(*arguments: Any) -> Any:
        begun.set()
        await go.wait()
        if end is not None:
            raise end
        return await draw(*arguments)

    monkeypatch.setattr(draws, "draw", held)
    return begun, go


def test_a_client_that_leaves_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (_, services):
            dataset = await new_dataset(services)
            begun, go = hold_draws(services, monkeypatch)
            asking = services.releases.submit(dataset, question(), idem="a", caller=BOB)
            waiting = asyncio.create_task(asking)
            await begun.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            go.set()
            again = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert again.state is ReleaseState.RELEASED
            assert again.attempts == 1
            assert spent(services, dataset) == 10**9

    asyncio.run(scenario())


@pytest.mark.parametrize("end", [None, OSError("away"), asyncio.CancelledError()])
def test_all_who_wait_under_one_key_are_told_the_same(
    tmp_path: Path, end: BaseException | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (_, services):
            dataset = await new_dataset(services)
            begun, go = hold_draws(services, monkeypatch, end)
            waiting = [
                asyncio.create_task(
                    services.releases.submit(dataset, question(), idem="a", caller=BOB)
                )
                for _ in range(3)
            ]
            await begun.wait()
            waiting[1].cancel()
            await asyncio.sleep(0)
            go.set()
            first, left, third = await asyncio.gather(*waiting, return_exceptions=True)
            assert isinstance(left, asyncio.CancelledError)
            assert first == third if end is None else type(first) is type(third) is type(end)
            assert spent(services, dataset) == 10**9

    asyncio.run(scenario())


async def leave_debited(
    services: Services,
    store: Store,
    dataset: str,
    idem: str,
    *,
    worker: str = "wrk_gone",
    asked: Question | None = None,
) -> str:
    """Charge for a release and forget to draw it, as a process does that dies."""
    asked, facts = asked or question(), services.datasets.facts(dataset)
    offer = make_offer(facts, asked)
    charged = await store.awrite(
        Debit(
            amount=offer.cost,
            dataset=dataset,
            principal=BOB.person,
            request=asked.canonical,
            plan=offer.text,
            idem=idem,
            worker=worker,
        )
    )
    return charged.record.id


def test_what_a_dead_process_left_is_drawn_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            left = await leave_debited(services, store, dataset, "a")
        async with opened(tmp_path) as (store, services):
            services.jobs.start()
            # a replay that comes before the draw waits for it
            record = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert (record.id, record.state, record.attempts) == (left, ReleaseState.RELEASED, 2)
            assert spent(services, dataset) == 10**9
            with pytest.raises(Problem, match="idempotency-key-reused"):
                await services.releases.submit(dataset, question("2"), idem="a", caller=BOB)
            assert store.verify().ok
        async with opened(tmp_path) as (_, services):
            services.jobs.start()
            again = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert again.result == record.result

    asyncio.run(scenario())


def test_a_request_of_a_version_without_a_field_replays(tmp_path: Path) -> None:
    asked = Question(
        statistic=Sum(columns=("x",)), mechanism="auto", norm="auto", epsilon=Epsilon.parse("1")
    )
    earlier = json.loads(asked.canonical)
    del earlier["statistic"]["where"]

    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            offer = make_offer(services.datasets.facts(dataset), asked)
            left = await store.awrite(
                Debit(
                    amount=offer.cost,
                    dataset=dataset,
                    principal=BOB.person,
                    request=json.dumps(earlier),
                    plan=offer.text,
                    idem="a",
                )
            )
            services.jobs.start()
            record = await services.releases.submit(dataset, asked, idem="a", caller=BOB)
            assert (record.id, record.state) == (left.record.id, ReleaseState.RELEASED)
            assert spent(services, dataset) == 10**9
            with pytest.raises(Problem, match="idempotency-key-reused"):
                await services.releases.submit(dataset, question(), idem="a", caller=BOB)

    asyncio.run(scenario())


@pytest.mark.parametrize("request_text", ["{}", '{"statistic":{"kind":"gone"}}'])
def test_a_request_that_cannot_be_read_any_more_is_void(tmp_path: Path, request_text: str) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            left = await store.awrite(
                Debit(
                    amount=10**9,
                    dataset=dataset,
                    principal=BOB.person,
                    request=request_text,
                    plan=json.dumps({}),
                    idem="a",
                )
            )
            services.jobs.start()
            await services.jobs.idle()
            with store.reading() as reader:
                record = reader.releases.get(left.record.id)
            assert record is not None
            assert record.state is ReleaseState.VOID
            with pytest.raises(Problem, match="idempotency-key-reused"):
                await services.releases.submit(dataset, question(), idem="a", caller=BOB)

    asyncio.run(scenario())


def test_after_three_deaths_a_release_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object) -> None:
        await asyncio.Event().wait()

    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            await leave_debited(services, store, dataset, "a")
            other = await leave_debited(services, store, dataset, "b")
        for _ in range(2):
            async with opened(tmp_path, drain_s=0.01) as (_, services):
                monkeypatch.setattr(services.releases.draws, "redraw", hang)
                services.jobs.start()
                while not services.jobs._working:
                    await asyncio.sleep(0.01)
        async with opened(tmp_path) as (store, services):
            services.jobs.start()
            void = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert (void.state, void.attempts) == (ReleaseState.VOID, 3)
            # the one that never had its turn has used up no attempt
            saved = await services.releases.submit(dataset, question(), idem="b", caller=BOB)
            assert (saved.id, saved.attempts) == (other, 2)
            assert spent(services, dataset) == 2 * 10**9
            assert store.verify().ok

    asyncio.run(scenario())


def test_a_replay_redraws_what_an_earlier_failure_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            mine = services.releases.draws.worker
            left = await leave_debited(services, store, dataset, "a", worker=mine)
            record = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert (record.id, record.attempts) == (left, 2)

    asyncio.run(scenario())


def test_archived_rows_stay_while_a_charged_release_needs_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            await leave_debited(services, store, dataset, "a")
            await services.archiving.archive(dataset, caller=ADA)
            await services.erasing.erase(dataset)
            services.jobs.start()
            record = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert record.state is ReleaseState.RELEASED
            await services.erasing.erase(dataset)
            assert not list((tmp_path / "datasets").iterdir())

    asyncio.run(scenario())


def test_a_slow_reader_does_not_forget_that_a_data_set_was_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (_, services):
            dataset = await new_dataset(services)
        async with opened(tmp_path) as (_, services):
            read, go = threading.Event(), threading.Event()
            parse = dataset_module.facts_of

            def slow(record: DatasetRecord) -> DatasetFacts:
                if record.status is DatasetStatus.ACTIVE:
                    read.set()
                    go.wait(PATIENCE_S)
                return parse(record)

            monkeypatch.setattr(dataset_module, "facts_of", slow)
            reading = asyncio.create_task(asyncio.to_thread(services.datasets.view, dataset))
            await asyncio.to_thread(read.wait, PATIENCE_S)
            await services.archiving.archive(dataset, caller=ADA)
            go.set()
            await reading
            assert services.datasets.facts(dataset).record.status is DatasetStatus.ARCHIVED

    asyncio.run(scenario())


def test_a_question_that_cannot_be_read_any_more_is_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise KeyError

    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            await leave_debited(services, store, dataset, "a")
            monkeypatch.setattr(plans, "read_question", gone)
            services.jobs.start()
            record = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert record.state is ReleaseState.VOID

    asyncio.run(scenario())


def test_too_many_at_once_are_refused_before_the_charge(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, max_waiting_draws=1) as (_, services):
            dataset = await new_dataset(services)
            outcomes = await asyncio.gather(
                *(
                    services.releases.submit(dataset, question(), idem=str(number), caller=BOB)
                    for number in range(6)
                ),
                return_exceptions=True,
            )
            refused = [each for each in outcomes if isinstance(each, Problem)]
            assert refused
            assert {each.code for each in refused} == {"busy"}
            assert spent(services, dataset) == (6 - len(refused)) * 10**9

    asyncio.run(scenario())


def test_a_full_queue_never_loses_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            write, calls = store.awrite, 0

            async def crowded(function: Any) -> Any:
                nonlocal calls
                calls += 1
                if calls in (2, 3):  # the first is the charge
                    raise Problem("busy")
                return await write(function)

            monkeypatch.setattr(store, "awrite", crowded)
            record = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert record.state is ReleaseState.RELEASED
            assert calls == 4

    asyncio.run(scenario())


def test_rows_without_a_data_set_are_cleared_away(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (_, services):
            dataset = await new_dataset(services)
        stray = tmp_path / "datasets" / "ds_stray"
        stray.mkdir()
        async with opened(tmp_path) as (_, services):
            assert not stray.exists()
            record = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert record.state is ReleaseState.RELEASED

    asyncio.run(scenario())


def test_a_lost_race_for_a_name_leaves_no_rows(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path) as (_, services):
            outcomes = await asyncio.gather(
                *(new_dataset(services) for _ in range(4)), return_exceptions=True
            )
            made = [each for each in outcomes if isinstance(each, str)]
            lost = [each for each in outcomes if isinstance(each, Problem)]
            assert (len(made), {each.code for each in lost}) == (1, {"name-taken"})
            kept = [path.name for path in (tmp_path / "datasets").iterdir()]
            assert kept == made

    asyncio.run(scenario())


@pytest.mark.parametrize("looked", [True, False])
@pytest.mark.parametrize("happened", [True, False])
def test_rows_stay_while_nobody_knows_whether_they_are_registered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, happened: bool, looked: bool
) -> None:
    """As when a PostgreSQL server goes away during the COMMIT and does not come back.

    The next look finds out, or else the next start.
    """

    async def scenario() -> None:
        async with opened(tmp_path) as (store, services):
            write = store.awrite

            async def lost(task: Any) -> Any:
                if getattr(task, "func", None) is None:  # the upload is written down
                    return await write(task)
                monkeypatch.setattr(store, "awrite", write)
                if happened:
                    await write(task)
                raise UnknownCommitError

            monkeypatch.setattr(store, "awrite", lost)
            with pytest.raises(UnknownCommitError):
                await new_dataset(services)
            [dataset] = [path.name for path in (tmp_path / "datasets").iterdir()]
            with store.reading() as reader:
                assert (reader.datasets.get(dataset) is not None) == happened
            if looked:
                await asyncio.to_thread(services.unfinished.clear)
                assert (tmp_path / "datasets" / dataset).exists() == happened
            if happened:
                record = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
                assert record.state is ReleaseState.RELEASED
        async with opened(tmp_path) as (store, services):
            kept = [path.name for path in (tmp_path / "datasets").iterdir()]
            assert kept == ([dataset] if happened else [])
            assert not (tmp_path / "stale").exists()
            if not happened:
                assert await new_dataset(services) != dataset, "the same rows may come again"
            assert store.verify().ok

    asyncio.run(scenario())


def test_questions_survive_their_canonical_text() -> None:
    asked = question("0.000000001")
    assert read_question(asked.canonical) == asked
    assert asked.canonical == read_question(asked.canonical).canonical


def test_what_is_asked_again_follows_the_policy_of_that_moment(tmp_path: Path) -> None:
    async def scenario() -> list[ReleaseState]:
        async with opened(tmp_path, draw_process=False) as (_, services):
            dataset, states = await new_dataset(services), []
            for turn, review in enumerate(("never", "always", "never")):
                edit = Edit(policy={"review": review})
                await services.editing.edit(dataset, edit, reason="who decides", caller=ADA)
                for again in "ab":
                    record = await services.releases.submit(
                        dataset, question(), idem=f"{again}{turn}", caller=BOB
                    )
                    states.append(record.state)
            return states

    free, waiting = [ReleaseState.RELEASED] * 2, [ReleaseState.RESERVED] * 2
    assert asyncio.run(scenario()) == free + waiting + free
