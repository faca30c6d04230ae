"""Storage trouble burns no budget: not before a charge, and not after one."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import OperationalError

from app.domain.problems import Problem
from app.domain.releases import ReleaseState
from app.processes.draws import NoAnswer, answer_of
from app.services.build import Services, in_background
from app.services.datasets import readable
from app.services.datasets.datasets import DatasetService
from app.services.plans.questions import Question
from app.services.releases import charged_draws, draws
from app.services.releases.charged_draws import ChargedDraws
from app.services.releases.draws import DrawDiedError
from app.store import Store
from mechanisms.privacy import Epsilon
from mechanisms.statistics.quantile import Quantile
from tests.app.test_services import ADA, BOB, leave_debited, new_dataset, opened, question, spent
from tests.speed import PATIENCE_S

ERRORS = [errno.EMFILE, errno.ENFILE, errno.EIO, errno.ENOSPC, errno.ENOMEM]


def median() -> Question:
    """A question whose draw reads a file that opening the data set does not keep."""
    return Question(
        statistic=Quantile(column="x", levels=(0.5,)),
        mechanism="auto",
        norm="auto",
        epsilon=Epsilon.parse("1"),
    )


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "FIRST_PAUSE_S", 0.01)
    monkeypatch.setattr(draws, "LONGEST_PAUSE_S", 0.05)
    monkeypatch.setattr(readable, "SOUND_S", 0.05)
    monkeypatch.setattr(readable, "PAUSE_S", 0.2)


@contextmanager
def failing(monkeypatch: pytest.MonkeyPatch, code: int, name: str) -> Iterator[list[Path]]:
    """Let the system refuse to open files of this name; yield those that were asked for."""
    asked: list[Path] = []
    system = os.open

    def refuse(path: Any, *arguments: Any, **options: Any) -> int:
        if Path(str(path)).name == name:
            asked.append(Path(path))
            raise OSError(code, os.strerror(code))
        return system(path, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        yield asked


def files(directory: Path, dataset: str) -> list[Path]:
    return sorted((directory / "datasets" / dataset).iterdir())


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not done():
            await asyncio.sleep(0.01)


def state_of(store: Store, release: str) -> tuple[ReleaseState, int]:
    with store.reading() as reader:
        record = reader.releases.get(release)
    assert record is not None
    return record.state, record.attempts


@asynccontextmanager
async def here(directory: Path) -> AsyncIterator[tuple[Store, Services]]:
    """A service that draws in its own threads, and claims what is left."""
    async with opened(directory, draw_process=False) as (store, services):
        services.jobs.start()
        async with in_background(services.readable.keep_looking()):
            yield store, services


def require_not_ready(services: Services, unreadable: int) -> None:
    with pytest.raises(Problem) as refused:
        services.health.check()
    assert (refused.value.code, refused.value.extras) == (
        "not-ready",
        {"unreadable_datasets": unreadable},
    )


@pytest.mark.parametrize(
    ("file", "opened_before"),
    [
        pytest.param(0, False, id="sketches"),
        pytest.param(0, True, id="sketches known"),
        pytest.param(1, True, id="manifest known"),
        pytest.param(2, False, id="part"),
    ],
)
def test_a_damaged_file_takes_no_charge_and_recovers(
    tmp_path: Path, file: int, opened_before: bool
) -> None:
    async def scenario() -> None:
        async with here(tmp_path) as (_, services):
            dataset = await new_dataset(services)
            if opened_before:
                await services.releases.submit(dataset, question(), idem="first", caller=BOB)
                await asyncio.sleep(0.1)  # so long it counts as sound
            charged = spent(services, dataset)
            path = files(tmp_path, dataset)[file]
            content = path.read_bytes()
            path.write_bytes(bytes([content[0] ^ 1]) + content[1:])
            for turn in range(3):
                with pytest.raises(Problem, match="dataset-unreadable"):
                    await services.releases.submit(dataset, question(), idem=f"a{turn}", caller=BOB)
            assert spent(services, dataset) == charged
            require_not_ready(services, 1)
            if opened_before:  # what is durable is told all the same
                again = await services.releases.submit(
                    dataset, question(), idem="first", caller=BOB
                )
                assert again.state is ReleaseState.RELEASED
            other = await new_dataset(services, name="another one")
            drawn = await services.releases.submit(other, question(), idem="other", caller=BOB)
            assert drawn.state is ReleaseState.RELEASED
            path.write_bytes(content)
            await until(lambda: services.readable.unreadable == 0)
            drawn = await services.releases.submit(dataset, question(), idem="a0", caller=BOB)
            assert (drawn.state, drawn.attempts) == (ReleaseState.RELEASED, 1)
            services.health.check()

    asyncio.run(scenario())


@pytest.mark.parametrize("code", ERRORS, ids=errno.errorcode.get)
def test_what_the_system_does_not_open_is_drawn_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Checked, charged, and then there is no descriptor: the release is put off, and not void."""

    async def scenario() -> None:
        async with here(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            await services.readable.require(dataset)
            with failing(monkeypatch, code, "attached.bin") as asked:
                put = await services.releases.submit(dataset, median(), idem="a", caller=BOB)
                assert (put.state, put.attempts) == (ReleaseState.DEBITED, 1)
                with pytest.raises(Problem, match="dataset-unreadable"):
                    await services.releases.submit(dataset, median(), idem="b", caller=BOB)
                require_not_ready(services, 1)
                await until(lambda: len(asked) >= 4)
                assert state_of(store, put.id) == (ReleaseState.DEBITED, 1)
            await until(lambda: state_of(store, put.id) == (ReleaseState.RELEASED, 1))
            assert spent(services, dataset) == 10**9
            again = await services.releases.submit(dataset, median(), idem="a", caller=BOB)
            assert again.state is ReleaseState.RELEASED
            assert store.verify().ok

    asyncio.run(scenario())


def test_what_can_never_be_read_is_void_after_real_attempts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draws, "TRIES_PER_ATTEMPT", 2)

    async def scenario() -> None:
        async with here(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            await services.readable.require(dataset)
            with failing(monkeypatch, errno.EIO, "attached.bin") as asked:
                put = await services.releases.submit(dataset, median(), idem="a", caller=BOB)
                await until(lambda: state_of(store, put.id)[0] is ReleaseState.VOID)
            assert state_of(store, put.id) == (ReleaseState.VOID, 3)
            assert len(asked) >= 6
            assert store.verify().ok

    asyncio.run(scenario())


def test_a_stop_hands_back_what_is_put_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "FIRST_PAUSE_S", 60)
    monkeypatch.setattr(draws, "LONGEST_PAUSE_S", 60)

    async def scenario() -> None:
        async with here(tmp_path) as (_, services):
            dataset = await new_dataset(services)
            await services.readable.require(dataset)
            with failing(monkeypatch, errno.EMFILE, "attached.bin"):
                put = await services.releases.submit(dataset, median(), idem="a", caller=BOB)
        async with here(tmp_path) as (store, _):
            await until(lambda: state_of(store, put.id) == (ReleaseState.RELEASED, 1))

    asyncio.run(scenario())


def test_no_memory_for_a_draw_is_an_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a process dies of it: three times, and the release is void."""
    left = 2

    def starved(*arguments: Any) -> Any:
        nonlocal left
        left -= 1
        if left >= 0:
            raise MemoryError
        return run(*arguments)

    run = charged_draws.run
    monkeypatch.setattr(charged_draws, "run", starved)

    async def scenario() -> None:
        nonlocal left
        async with here(tmp_path) as (store, services):
            dataset = await new_dataset(services)
            put = await services.releases.submit(dataset, question(), idem="a", caller=BOB)
            assert put.state is ReleaseState.DEBITED
            await until(lambda: state_of(store, put.id) == (ReleaseState.RELEASED, 3))
            left = 3
            put = await services.releases.submit(dataset, question(), idem="b", caller=BOB)
            await until(lambda: state_of(store, put.id) == (ReleaseState.VOID, 3))

    asyncio.run(scenario())


def test_an_archived_data_set_is_not_an_unreadable_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with here(tmp_path) as (_, services):
            dataset = await new_dataset(services)
            await services.archiving.archive(dataset, caller=ADA)
            with pytest.raises(Problem, match="dataset-archived"):
                await services.readable.require(dataset)
            services.health.check()

    asyncio.run(scenario())


def test_what_a_draw_process_says_is_told_apart() -> None:
    from app.domain.problems import DataUnreadableError

    assert answer_of(b"{}") == b"{}"
    assert answer_of(NoAnswer.for_want_of(ZeroDivisionError())) is None
    with pytest.raises(DataUnreadableError):
        answer_of(NoAnswer.for_want_of(DataUnreadableError()))
    with pytest.raises(DrawDiedError):
        answer_of(NoAnswer.for_want_of(MemoryError()))


AWAY = OperationalError("SELECT", {}, Exception("terminating connection"))
NO_THREAD = RuntimeError("can't start new thread")


@pytest.mark.parametrize(
    ("where", "name", "error"),
    [
        (DatasetService, "facts", AWAY),
        (DatasetService, "facts", NO_THREAD),
        (ChargedDraws, "ready", NO_THREAD),
    ],
    ids=["no database", "no thread for the facts", "no thread for the plan"],
)
def test_what_is_in_the_way_of_a_second_draw_makes_no_release_void(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: type, name: str, error: Exception
) -> None:
    """A database that is away, or no thread: nothing has been drawn."""
    asked, answered = list[object](), getattr(where, name)

    def failing_at_first(*given: Any) -> Any:
        asked.append(given)
        if len(asked) < 3:
            raise error
        return answered(*given)

    async def scenario() -> None:
        async with opened(tmp_path, draw_process=False) as (store, services):
            dataset = await new_dataset(services)
            left = await leave_debited(services, store, dataset, "a")
            monkeypatch.setattr(where, name, failing_at_first)
            services.jobs.start()
            await until(lambda: state_of(store, left)[0] is not ReleaseState.DEBITED)
            assert state_of(store, left)[0] is ReleaseState.RELEASED
            assert spent(services, dataset) == 10**9

    asyncio.run(scenario())
