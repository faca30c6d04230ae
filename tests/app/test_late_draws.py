"""Late draws: they leave their lanes to others, and whoever has them takes no lane after lane."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from app.domain.policies import Role
from app.domain.releases import ReleaseState
from app.services.people.keys import Caller
from app.store import ReleaseRecord, Store
from tests.app.callers import register
from tests.app.ledgers import Place
from tests.app.test_jobs import ANSWER, BOB, Fake, new_dataset, opened, question

ANN, CAT, DAN = (
    Caller(key=f"key_{name}", person=name, role=Role.ANALYST) for name in ("ann", "cat", "dan")
)
LATE_MS = 100
NOT_YET_S = 0.5
LOOKS_S = 1.5  # one that is late looks for room every second


@dataclass
class Stuck(Fake):
    """Draws of which those of some people, and some releases, end when they are asked to."""

    stuck: dict[str, asyncio.Event] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)

    async def draw(self, record: ReleaseRecord, dataset: Any, manifest: Any) -> bytes | None:
        self.begun.append(record.principal)
        told = self.stuck.get(record.id) or self.stuck.get(record.principal)
        if told is not None:
            ends = asyncio.ensure_future(told.wait())
            await asyncio.wait(
                [ends, asyncio.ensure_future(self.stopped.wait())],
                return_when=asyncio.FIRST_COMPLETED,
            )
        return await super().draw(record, dataset, manifest)


@dataclass
class Desk:
    """A service whose draws take as long as a test says."""

    store: Store
    services: Any
    draws: Stuck
    dataset: str

    async def ask(self, caller: Caller, idem: str = "a") -> str:
        asked = await self.services.releases.submit(
            self.dataset, question("0.01"), idem=idem, caller=caller
        )
        return str(asked.id)

    async def shown(self, caller: Caller, release: str) -> None:
        async with asyncio.timeout(60):
            while (await self.state(caller, release)) is not ReleaseState.RELEASED:
                await asyncio.sleep(0.01)

    async def state(self, caller: Caller, release: str) -> ReleaseState:
        record = await self.services.releases.get(release, caller=caller)
        return ReleaseState(record.state)

    async def ends(self, caller: Caller, *releases: str) -> None:
        self.draws.stuck[caller.person].set()
        for release in releases:
            await self.shown(caller, release)

    async def begins(self, *people: str) -> None:
        async with asyncio.timeout(60):
            while self.draws.begun != [*people]:
                await asyncio.sleep(0.01)


@asynccontextmanager
async def desk(
    directory: Path, *stuck: Caller, count: int = 1, late_ms: int = LATE_MS
) -> AsyncIterator[Desk]:
    draws = Stuck(does=[lambda _: ANSWER], count=count)
    draws.stuck = {caller.person: asyncio.Event() for caller in stuck}
    place = Place(directory, f"sqlite:///{directory / 'ledger.sqlite'}")
    async with opened(place, draws, drain_s=0) as (store, services):
        register(store, ANN, CAT, DAN)
        services.jobs.late_ms = lambda _: late_ms
        yield Desk(store, services, draws, await new_dataset(services))


@pytest.mark.parametrize(
    ("late_ms", "held_up"),
    [pytest.param(LATE_MS, False, id="late"), pytest.param(600_000, True, id="twin: never late")],
)
def test_a_draw_that_does_not_end_holds_nobody_up(
    tmp_path: Path, late_ms: int, held_up: bool
) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, BOB, late_ms=late_ms) as at:
            stuck, behind = await at.ask(BOB), await at.ask(ANN)
            at.services.jobs.start()
            if held_up:
                await asyncio.sleep(NOT_YET_S)
                assert at.draws.begun == ["bob"]
                return
            await at.shown(ANN, behind)
            assert await at.state(BOB, stuck) is ReleaseState.DEBITED
            await at.ends(BOB, stuck)
            assert await at.services.jobs.idle() is None

    asyncio.run(scenario())


@pytest.mark.parametrize("count", [1, 2])
def test_who_has_a_late_draw_does_not_take_all_lanes(tmp_path: Path, count: int) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, BOB, count=count) as at:
            mine = [await at.ask(BOB, idem) for idem in "abcd"]
            at.services.jobs.start()
            await at.begins(*["bob"] * count)
            await asyncio.sleep(NOT_YET_S)
            assert len(at.draws.begun) == count, "the others wait for their own"
            for turn, caller in enumerate((ANN, CAT, DAN, ANN)):
                await at.shown(caller, await at.ask(caller, str(turn)))
            await at.ends(BOB, *mine)

    asyncio.run(scenario())


def test_lanes_that_claim_at_once_do_not_forget_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, BOB, count=2) as at:
            mine = [await at.ask(BOB, idem) for idem in "abcd"]
            first = at.draws.stuck[mine[0]] = asyncio.Event()
            at.services.jobs.start()
            await at.begins("bob", "bob")
            await asyncio.sleep(NOT_YET_S)
            first.set()  # both lanes are free, and look into the queue
            await at.begins("bob", "bob", "bob")
            await asyncio.sleep(NOT_YET_S)
            assert len(at.draws.begun) == 3, "as many are at work as there are lanes"
            await at.ends(BOB, *mine)

    asyncio.run(scenario())


def test_without_room_a_late_draw_keeps_its_lane(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, ANN, BOB, CAT) as at:
            asked: Sequence[str] = [await at.ask(caller) for caller in (ANN, BOB, CAT, DAN)]
            at.services.jobs.start()
            await at.begins("ann", "bob", "cat")
            await asyncio.sleep(NOT_YET_S)
            assert at.draws.begun == ["ann", "bob", "cat"]
            at.draws.stuck["bob"].set()
            await at.shown(DAN, asked[3])
            for caller, release in zip((ANN, CAT), (asked[0], asked[2]), strict=True):
                assert await at.state(caller, release) is ReleaseState.DEBITED
                await at.ends(caller, release)

    asyncio.run(scenario())


def test_room_is_free_again_at_a_public_moment_only(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, ANN, BOB, CAT) as at:
            at.services.jobs.taken_ms = lambda record: 600_000 if record.principal == "bob" else 0
            asked = [await at.ask(caller) for caller in (ANN, BOB, CAT, DAN)]
            at.services.jobs.start()
            await at.begins("ann", "bob", "cat")
            at.draws.stuck["bob"].set()
            await at.shown(BOB, asked[1])
            await asyncio.sleep(LOOKS_S)
            assert at.draws.begun == ["ann", "bob", "cat"], "when it ended is not told"

    asyncio.run(scenario())


@pytest.mark.parametrize("ended", [False, True])
def test_what_has_no_room_takes_it_whether_it_has_ended_or_not(tmp_path: Path, ended: bool) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, ANN, BOB, CAT) as at:
            at.services.jobs.taken_ms = lambda record: 600_000 if record.principal == "cat" else 0
            asked = [await at.ask(caller) for caller in (ANN, BOB, CAT, DAN)]
            at.services.jobs.start()
            await at.begins("ann", "bob", "cat")
            await asyncio.sleep(NOT_YET_S)  # there is no room for cat's by now
            if ended:
                at.draws.stuck["cat"].set()
                await at.shown(CAT, asked[2])
            at.draws.stuck["bob"].set()
            await at.shown(DAN, asked[3])

    asyncio.run(scenario())


def test_late_draws_are_handed_back_when_a_server_stops(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with desk(tmp_path, BOB) as at:
            stuck = await at.ask(BOB)
            at.services.jobs.start()
            await at.shown(ANN, await at.ask(ANN))
            await at.services.jobs.close(timeout_s=0)
            with at.store.reading() as reader:
                left = reader.releases.get(stuck)
            assert left is not None
            assert (left.state, left.worker, left.attempts) == (ReleaseState.DEBITED, None, 1)

    asyncio.run(scenario())
