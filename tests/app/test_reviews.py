"""Reviews without HTTP: deadlines, what waits too long, faults, deaths; on both databases."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from app.domain.policies import Review, Role
from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.services.build import Services
from app.services.people.keys import Caller
from app.services.plans import plans
from app.services.plans.questions import Question
from app.services.releases.public_moments import PublicMoments
from app.services.releases.reviews import Decision, reserve
from app.store import Debit, ReleaseRecord
from app.store.ledger.reviews import Reviews
from app.web.requests.schemas import DatasetSpec
from mechanisms import catalog
from mechanisms.privacy import Epsilon
from tests.app.ledgers import Place, opened
from tests.app.test_jobs import BOB, Fake, drawn, final, question
from tests.app.test_jobs import opened as serving

ADA = Caller(key="key_ada", person="ada", role=Role.CURATOR)
AMOUNT = 3
DAYS = 30


async def reviewed_dataset(services: Services) -> str:
    bounds = {"type": "number", "lower": -1, "upper": 1}
    spec = DatasetSpec.model_validate(
        {
            "name": "three columns",
            "adjacency": "replace_one",
            "columns": {"x": bounds, "y": bounds, "z": bounds},
            "budget": {"epsilon": "10"},
            "policy": {"review": "above:0.5"},
        }
    )
    rows = io.BytesIO(b"x,y,z\n0,0,0\n1,1,0\n")
    return (await services.datasets.create(spec.declared(), rows, caller=ADA))[0].facts.id


async def waiting(services: Services, idem: str = "a") -> tuple[str, ReleaseRecord]:
    """Return a data set and a release that waits for its review."""
    dataset = await reviewed_dataset(services)
    record = await services.releases.submit(dataset, question(), idem=idem, caller=BOB)
    assert (record.state, record.attempts) == (ReleaseState.RESERVED, 0)
    return dataset, record


async def approve(services: Services, release: str) -> ReleaseRecord:
    return await services.reviews.decide(
        release, Decision.APPROVE, "fine", unchanged=lambda _: True, caller=ADA
    )


async def state_of(services: Services, release: str) -> ReleaseState:
    return (await services.releases.get(release, caller=BOB)).state


def amounts(services: Services, dataset: str) -> tuple[int, int]:
    balance = services.budgets.view(dataset, caller=ADA).balance
    return balance.spent, balance.reserved


# Policies


@pytest.mark.parametrize(
    ("text", "covered"), [("never", ()), ("always", ("0.5", "0.500000001")),
                          ("above:0.5", ("0.500000001",))],
)  # fmt: skip
def test_above_is_strict_and_exact(text: str, covered: tuple[str, ...]) -> None:
    review = Review.parse(text)
    assert str(review) == text
    prices = ("0.5", "0.500000001")
    assert tuple(each for each in prices if review.covers(Epsilon.parse(each))) == covered


@pytest.mark.parametrize(
    "text", ["", "sometimes", "Always", "above", "above:", "above:0", "above:-1", "above:1e-10",
             "above:0.5 ", "above:10001", "above:0x1"],
)  # fmt: skip
def test_what_is_no_review_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must"):
        Review.parse(text)


# Deadlines


def test_the_clock_of_a_deadline_begins_with_the_charge(place: Place) -> None:
    async def scenario() -> None:
        async with serving(place, Fake()) as (_, services):
            _, asked = await waiting(services)
            await asyncio.sleep(0.01)
            approved = await approve(services, asked.id)
            assert approved.charged_at > asked.charged_at == asked.created_at
            assert (approved.created_at, approved.plan) == (asked.created_at, asked.plan)
            assert json.loads(approved.plan)["job"]["deadline_s"] == 2
            # as if it had been asked for an hour earlier, and drawn half a second after approval
            hour = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
            charged = datetime.now(UTC) - timedelta(milliseconds=900)
            over = approved._replace(
                state=ReleaseState.RELEASED, created_at=hour, result=b"{}",
                charged_at=charged.isoformat(),
                finished_at=(charged + timedelta(milliseconds=500)).isoformat(),
            )  # fmt: skip
            moments = PublicMoments(100)
            charged_ms = -(-int(charged.timestamp() * 10**6) // 1000)
            assert moments.public_from_ms(over) == charged_ms + 2000
            assert moments.publicly(over).state is ReleaseState.DEBITED
            assert moments.publicly(over).result is None

    asyncio.run(scenario())


def test_an_approval_wakes_the_queue_though_its_client_leaves(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        async with serving(place, Fake()) as (store, services):
            services.jobs.look_s = None  # no one looks unless woken
            services.jobs.start()
            dataset, asked = await waiting(services)
            await services.jobs.idle()
            write, begun = store.awrite, asyncio.Event()

            async def slow(task: Any) -> Any:
                begun.set()
                await asyncio.sleep(0.05)
                return await write(task)

            monkeypatch.setattr(store, "awrite", slow)
            deciding = asyncio.create_task(approve(services, asked.id))
            await begun.wait()
            deciding.cancel()
            with pytest.raises(asyncio.CancelledError):
                await deciding
            while await state_of(services, asked.id) is ReleaseState.RESERVED:
                await asyncio.sleep(0.01)
            done = await final(services, asked.id)
            assert (done.state, drawn(done), done.attempts) == (ReleaseState.RELEASED, 1, 1)
            assert amounts(services, dataset) == (10**9, 0)

    asyncio.run(scenario())


@pytest.mark.wide
def test_what_was_approved_outlives_its_process(place: Place) -> None:
    async def scenario() -> None:
        async with serving(place, Fake()) as (_, services):
            dataset, asked = await waiting(services)
        async with serving(place, Fake()) as (_, services):
            # nothing claims it before it is approved
            services.jobs.start()
            await services.jobs.idle()
            assert await state_of(services, asked.id) is ReleaseState.RESERVED
            assert amounts(services, dataset) == (0, 10**9)
        async with serving(place, Fake()) as (store, services):
            approved = await approve(services, asked.id)  # and dies before anything is drawn
            assert (approved.worker, approved.attempts) == (None, 1)
            await store.awrite(lambda work: work.releases.claim("wrk_dead"))
        async with serving(place, Fake()) as (store, services):
            services.jobs.start()
            done = await final(services, asked.id)
            assert (done.state, done.attempts) == (ReleaseState.RELEASED, 2)
            again = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert again.result == done.result
            assert amounts(services, dataset) == (10**9, 0)
            assert store.verify(signed=True).ok

    asyncio.run(scenario())


def test_a_plan_that_has_changed_is_not_approved(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version may write plans in another form, or read no such question."""

    def gone(*_: object) -> Question:
        raise KeyError

    async def scenario() -> None:
        async with serving(place, Fake()) as (_, services):
            dataset, asked = await waiting(services)
            for module, name, other in (
                (catalog, "FORM", catalog.FORM + 1),
                (plans, "read_question", gone),
            ):
                with monkeypatch.context() as patched:
                    patched.setattr(module, name, other)
                    with pytest.raises(Problem, match="plan-changed"):
                        await approve(services, asked.id)
            assert amounts(services, dataset) == (0, 10**9)
            assert (await approve(services, asked.id)).state is ReleaseState.DEBITED

    asyncio.run(scenario())


def test_an_archive_that_comes_between_is_seen(place: Place) -> None:
    """Whether a data set is open is judged again where its budget is set aside."""

    async def scenario() -> None:
        async with serving(place, Fake()) as (store, services):
            dataset = await reviewed_dataset(services)
            await services.archiving.archive(dataset, caller=ADA)
            wanted = Debit(
                dataset=dataset, principal=BOB.person, idem="a", amount=1, request="{}", plan="{}"
            )
            with pytest.raises(Problem, match="dataset-archived"):
                await reserve(store, wanted)
            assert amounts(services, dataset) == (0, 0)

    asyncio.run(scenario())


# What waits too long


def test_what_waits_too_long_is_given_back(place: Place) -> None:
    async def scenario() -> None:
        async with serving(place, Fake()) as (store, services):
            dataset, asked = await waiting(services)
            later = datetime.now(UTC) + timedelta(days=DAYS)
            assert await services.reviews.expire_due(at=later - timedelta(minutes=1)) == 0
            assert await services.reviews.expire_due(at=later) == 1
            assert await services.reviews.expire_due(at=later) == 0
            over = await services.releases.get(asked.id, caller=BOB)
            assert (over.state, over.reason) == (ReleaseState.EXPIRED, "no one decided in time")
            assert amounts(services, dataset) == (0, 0)
            with store.reading() as reader:
                last = reader.entries.list(over.account)[-1]
            assert (last.kind, last.principal, last.release) == ("unreserve", "system", asked.id)
            for decision in Decision:
                with pytest.raises(Problem, match="not-awaiting-review"):
                    await services.reviews.decide(
                        asked.id, decision, "late", unchanged=lambda _: True, caller=ADA
                    )
            replay = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert replay == over
            assert store.verify().ok

    asyncio.run(scenario())


@pytest.mark.wide
def test_however_many_are_overdue_they_end(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with serving(place, Fake()) as (_, services):
            dataset, _ = await waiting(services)
            asked = question("0.6")
            for idem in "bcdef":
                await services.releases.submit(dataset, asked, idem=idem, caller=BOB)
            some = Reviews.waiting_since
            monkeypatch.setattr(
                Reviews, "waiting_since", lambda self, at, limit=2: some(self, at, limit=limit)
            )
            later = datetime.now(UTC) + timedelta(days=DAYS)
            assert await services.reviews.expire_due(at=later) == 6
            assert amounts(services, dataset) == (0, 0)

    asyncio.run(scenario())


@pytest.mark.wide
def test_whoever_decides_first_ends_what_is_overdue(place: Place) -> None:
    async def scenario() -> None:
        async with serving(place, Fake()) as (_, services):
            dataset, asked = await waiting(services)
            services.reviews._longest = timedelta(0)
            with pytest.raises(Problem, match="not-awaiting-review"):
                await approve(services, asked.id)
            assert await state_of(services, asked.id) is ReleaseState.EXPIRED
            assert amounts(services, dataset) == (0, 0)

    asyncio.run(scenario())


@pytest.mark.wide
def test_a_serving_process_ends_what_is_overdue(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.services.releases.reviews.LOOK_EVERY_S", 0.01)

    async def scenario() -> None:
        async with serving(place, Fake()) as (store, services):
            _, asked = await waiting(services)
            services.reviews._longest = timedelta(0)
            write = store.awrite

            async def failing(_: Any) -> Any:
                monkeypatch.setattr(store, "awrite", write if failing in seen else failing_again)
                seen.append(failing)
                raise Problem("busy")

            async def failing_again(_: Any) -> Any:
                monkeypatch.setattr(store, "awrite", write)
                raise OSError("no space left on device")

            seen: list[Any] = []
            monkeypatch.setattr(store, "awrite", failing)
            keeping = asyncio.create_task(services.reviews.keep_expiring())
            while await state_of(services, asked.id) is ReleaseState.RESERVED:
                await asyncio.sleep(0.01)
            keeping.cancel()
            assert seen
            assert await state_of(services, asked.id) is ReleaseState.EXPIRED

    asyncio.run(scenario())


def test_what_waits_is_found_by_its_index(tmp_path: Path) -> None:
    """However many releases there are: few of them wait at a time."""
    with opened(tmp_path) as ledger, ledger.store.reading() as r:
        asked: list[tuple[str, Any]] = []

        def note(_c: Any, _cursor: Any, statement: str, values: Any, *_: Any) -> None:
            if "FROM release" in statement:
                asked.append((statement, values))

        event.listen(r.connection, "before_cursor_execute", note)
        r.reviews.waiting_since("9999")
        r.reviews.waiting_for(ledger.dataset)
        r.releases.list(state=ReleaseState.RESERVED)
        event.remove(r.connection, "before_cursor_execute", note)
        plans = []
        for statement, values in asked:
            rows = r.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", values)
            plans.append(" ".join(str(row[3]) for row in rows))
    assert len(plans) == 3
    assert all("USING INDEX ix_release_reserved" in plan for plan in plans), plans
    assert "USING INDEX ix_entry_unreserve" in plans[-1]
