"""The process of small draws for real: it draws many at once, may die, and lets data go."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.constants import Constants
from app.domain.problems import DataUnreadableError
from app.domain.releases import ReleaseState
from app.processes import small_draws
from app.processes.channel import framed, pickled
from app.services.build import Services
from app.services.datasets import readable
from app.services.releases.draws import DrawDiedError, NoDrawProcessError
from app.services.releases.receipts import Receipts, sent_answer
from app.store import ReleaseRecord
from tests.app.forks import forked, own_host, wait
from tests.app.test_services import ADA, BOB, new_dataset, opened, question, spent
from tests.speed import PATIENCE_S
from tests.tiers import wide


def processes() -> Sequence[int]:
    """Return the processes of small draws that belong to this one."""
    return forked(small_draws)


@pytest.fixture(autouse=True, scope="module")
def host() -> Iterator[None]:
    with own_host(small_draws):
        yield


@pytest.fixture(autouse=True)
def alone(host: None) -> None:
    """Wait until the last test's processes have left."""
    del host
    wait(lambda: not processes())


async def ended(pids: Sequence[int]) -> bool:
    deadline = time.monotonic() + PATIENCE_S
    while set(pids) & set(processes()) and time.monotonic() < deadline:
        await asyncio.sleep(0.01)
    return not set(pids) & set(processes())


async def until_ready(services: Services) -> None:
    """Wait until draws would not wait for a process: it is ready, or there is none to be had."""
    small = services.releases.draws.small_draws
    assert small is not None
    async with asyncio.timeout(PATIENCE_S):
        while not small.prepare():
            await asyncio.sleep(0.01)


async def ask_all(services: Services, dataset: str, keys: str) -> list[ReleaseRecord]:
    await until_ready(services)
    asked = (
        services.releases.submit(dataset, question("0.1"), idem=key, caller=BOB) for key in keys
    )
    return await asyncio.wait_for(asyncio.gather(*asked), PATIENCE_S)


async def erase(services: Services, dataset: str) -> None:
    await services.archiving.archive(dataset, caller=ADA)
    await services.erasing.erase(dataset)


def value_of(record: ReleaseRecord) -> float:
    return float(json.loads(record.result or b"")["value"]["x"])


def test_many_are_drawn_at_once_and_signed(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (store, services):
            dataset = await new_dataset(services)
            found = await ask_all(services, dataset, "abcdefghijklmnopqrst")
            [process] = processes()
            makes_way = min(os.getpriority(os.PRIO_PROCESS, 0) + 5, 19)
            assert os.getpriority(os.PRIO_PROCESS, process) == makes_way
            assert os.sched_getscheduler(process) == os.SCHED_OTHER
            assert {each.state for each in found} == {ReleaseState.RELEASED}
            assert {each.attempts for each in found} == {1}
            assert len({value_of(each) for each in found}) == len(found)
            assert spent(services, dataset) == len(found) * 10**8
            receipts = Receipts(store)
            for each in found:
                assert each.result is not None
                assert receipts.check(sent_answer(json.loads(each.result), each.result)).ok
            assert store.verify(signed=True).ok
            begun = processes()
        assert await ended(begun)

    asyncio.run(scenario())


def test_what_a_dying_process_leaves_is_drawn_here(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (store, services):
            dataset = await new_dataset(services)
            await ask_all(services, dataset, "a")
            [pid] = processes()
            os.kill(pid, signal.SIGSTOP)
            asking = asyncio.ensure_future(ask_all(services, dataset, "bcdef"))
            while spent(services, dataset) < 6 * 10**8:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            assert not asking.done()
            os.kill(pid, signal.SIGKILL)
            found = await asking
            assert {each.state for each in found} == {ReleaseState.RELEASED}
            assert {each.attempts for each in found} == {2}
            assert sum("draw process died" in line for line in caplog.messages) == 5
            # another one is begun for what comes next
            [later] = await ask_all(services, dataset, "g")
            assert (later.state, later.attempts) == (ReleaseState.RELEASED, 1)
            assert store.verify(signed=True).ok

    asyncio.run(scenario())


def test_until_the_process_is_ready_it_is_drawn_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    ordered: list[socket.socket] = []

    def order(descriptor: int) -> None:
        ordered.append(socket.socket(fileno=os.dup(descriptor)))

    async def scenario() -> None:
        monkeypatch.setattr(small_draws.FORKS, "order", order)
        async with opened(tmp_path, draw_process=True) as (store, services):
            dataset = await new_dataset(services)
            draws: Any = services.releases.draws

            async def ask(key: str) -> ReleaseRecord:
                asked = services.releases.submit(dataset, question("0.1"), idem=key, caller=BOB)
                return await asyncio.wait_for(asked, 30)

            found = [await ask("a")]
            while not ordered or not draws.small_draws._opening.done():
                await asyncio.sleep(0.01)
            found.append(await ask("b"))  # there is one, and it is loading
            assert not draws.small_draws.prepare()
            assert {(each.state, each.attempts) for each in found} == {(ReleaseState.RELEASED, 1)}
            with ordered.pop() as process:
                assert process.recv(1 << 16)  # for whom it draws: what comes next is a release
                process.sendall(framed(pickled(None)))
                await until_ready(services)
                asking = asyncio.ensure_future(ask("c"))
                assert await asyncio.get_running_loop().run_in_executor(None, process.recv, 1 << 16)
                await asyncio.sleep(0.05)
                assert not asking.done()
            later = await asking
            assert (later.state, later.attempts) == (ReleaseState.RELEASED, 2)
            assert "draw process lost" in caplog.messages
            assert store.verify(signed=True).ok

    asyncio.run(scenario())


@pytest.mark.parametrize("error", [BlockingIOError, RuntimeError, MemoryError])
def test_without_a_process_it_is_drawn_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    asked: list[object] = []

    def refuse(*descriptors: object) -> None:
        asked.append(descriptors)
        raise error("no process to be had")

    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (_, services):
            dataset = await new_dataset(services)
            with monkeypatch.context() as patched:
                patched.setattr(small_draws.FORKS, "order", refuse)
                found = await ask_all(services, dataset, "abc")
                found += await ask_all(services, dataset, "def")
                assert len(asked) == 1  # it is not tried for every draw
            assert {(each.state, each.attempts) for each in found} == {(ReleaseState.RELEASED, 1)}
            monkeypatch.setattr(services.releases.draws.small_draws, "_begin_again", 0.0)
            [later] = await ask_all(services, dataset, "g")
            assert (later.state, later.attempts) == (ReleaseState.RELEASED, 1)
            assert len(processes()) == 1

    asyncio.run(scenario())


def test_one_that_dies_without_an_answer_is_not_begun_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (_, services):
            dataset = await new_dataset(services)
            # ordered, and gone before it says anything
            monkeypatch.setattr(small_draws.FORKS, "order", asked.append)
            found = await ask_all(services, dataset, "ab")
            found += await ask_all(services, dataset, "cd")
            assert {(each.state, each.attempts) for each in found} == {(ReleaseState.RELEASED, 1)}
            assert len(asked) == 1

    asyncio.run(scenario())


def test_it_signs_with_the_key_of_the_server(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (store, services):
            dataset = await new_dataset(services)
            (tmp_path / "receipts.key").unlink()  # keys are to be changed at the next start
            [found] = await ask_all(services, dataset, "a")
            assert len(processes()) == 1
            assert (
                Receipts(store)
                .check(sent_answer(json.loads(found.result or b""), found.result or b""))
                .ok
            )
            assert not (tmp_path / "receipts.key").exists()
            assert store.verify(signed=True).ok

    asyncio.run(scenario())


def test_an_answer_is_told_to_nobody_but_who_asked_for_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (_, services):
            dataset = await new_dataset(services)
            one, other = await ask_all(services, dataset, "ab")
            public = services.datasets.facts(dataset).record
            loop = asyncio.get_running_loop()
            failed: list[bool] = []
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            _, channel = await loop.create_connection(
                lambda: small_draws._Channel(loop, lambda: failed.append(True)), sock=ours
            )
            asked = [channel.ask(each, public, None, expected_ms=1.0) for each in (one, other)]
            await asyncio.sleep(0.05)
            with theirs:
                theirs.sendall(framed(pickled([(other.id, b"{}"), (one.id, b"{}")])))
                reported = await asyncio.gather(*asked, return_exceptions=True)
            assert [type(each) for each in reported] == [DrawDiedError, DrawDiedError]
            assert failed == [True]
            with pytest.raises(NoDrawProcessError):
                channel.ask(one, public, None, expected_ms=1.0)

    asyncio.run(scenario())


def test_what_cannot_be_read_there_is_put_off_and_the_process_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readable, "SOUND_S", 60)

    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (store, services):
            dataset = await new_dataset(services)
            plane = services.erasing.plane
            await services.readable.require(dataset)
            plane._vault.erase(dataset)  # type: ignore[attr-defined]
            [put_off] = await ask_all(services, dataset, "a")
            assert (put_off.state, put_off.attempts) == (ReleaseState.DEBITED, 1)
            assert services.readable.unreadable == 1
            assert spent(services, dataset) == 10**8
            begun = processes()
            [other] = await ask_all(services, await new_dataset(services, name="other"), "b")
            assert other.state is ReleaseState.RELEASED
            assert processes() == begun
            assert store.verify().ok

    asyncio.run(scenario())


def test_it_draws_what_was_charged_for_or_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (_, services):
            dataset = await new_dataset(services)
            [drawn] = await ask_all(services, dataset, "a")
            public = services.datasets.facts(dataset).record
            small = services.releases.draws.small_draws
            assert small is not None
            plan = json.loads(drawn.plan)
            cheaper = drawn._replace(amount=drawn.amount // 4)
            other = drawn._replace(plan=json.dumps({**plan, "form": 0}))
            worse = drawn._replace(request=question("0.2").canonical)
            for record in (cheaper, other, worse):
                assert await small.draw(record, public, None, expected_ms=1) is None
            again = await small.draw(drawn, public, None, expected_ms=1)
            assert again is not None
            assert json.loads(again)["epsilon"] == "0.1"
            with pytest.raises(DataUnreadableError):  # other rows than those of the ledger
                await small.draw(drawn, public, "0" * 64, expected_ms=1)

    asyncio.run(scenario())


def test_it_lets_go_of_a_data_set_that_is_erased(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, draw_process=True) as (_, services):
            dataset = await new_dataset(services)
            other = await new_dataset(services, name="other")
            unread = await new_dataset(services, name="unread")
            await ask_all(services, dataset, "ab")
            begun = processes()
            await erase(services, unread)
            [same] = await ask_all(services, other, "c")
            assert processes() == begun
            await erase(services, dataset)
            assert await ended(begun)
            [later] = await ask_all(services, other, "d")
            assert {same.state, later.state} == {ReleaseState.RELEASED}
            assert value_of(same) != value_of(later)

    asyncio.run(scenario())


def test_closing_waits_for_no_draw(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(tmp_path, drain_s=0.2, draw_process=True) as (_, services):
            dataset = await new_dataset(services)
            await ask_all(services, dataset, "a")
            [pid] = processes()
            os.kill(pid, signal.SIGSTOP)
            asking = asyncio.ensure_future(ask_all(services, dataset, "b"))
            while spent(services, dataset) < 2 * 10**8:
                await asyncio.sleep(0.01)
        with pytest.raises(asyncio.CancelledError):
            await asking
        os.kill(pid, signal.SIGCONT)
        assert await ended([pid])
        # another process draws it, as after a crash
        async with opened(tmp_path, draw_process=True) as (store, services):
            with store.reading() as reader:
                [left] = reader.releases.debited()
            services.jobs.start()
            await asyncio.wait_for(services.jobs.idle(), PATIENCE_S)
            [found] = await ask_all(services, dataset, "b")
            assert (found.id, found.state, found.attempts) == (left.id, ReleaseState.RELEASED, 2)

    asyncio.run(scenario())


@pytest.mark.parametrize(("processors", "wanted"), [(1, False), (2, True), (None, False)])
def test_it_is_there_where_there_is_a_processor_for_it(
    monkeypatch: pytest.MonkeyPatch, processors: int | None, wanted: bool
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    assert Constants().resolved_draw_process is wanted
    assert Constants(draw_process=not wanted).resolved_draw_process is not wanted


_LONE = """
import socket, sys
from app.processes.channel import framed, pickled
from app.processes.draws import work
from app.processes.draws import DrawOrder
from app.store import KeySource, LedgerIdentity
server, process = socket.socketpair()
if sys.argv[1:]:
    order = DrawOrder(sys.argv[1], LedgerIdentity("led_1", 1), KeySource("", bytes(32)), "info")
    server.sendall(framed(pickled(order)))
server.shutdown(socket.SHUT_WR)
work(process.detach())
"""


@pytest.mark.wide
@pytest.mark.parametrize("reported", [True, *wide(False)])
def test_a_process_whose_server_is_done_ends_in_silence(tmp_path: Path, reported: bool) -> None:
    arguments = [str(tmp_path)] if reported else []
    command = [sys.executable, "-c", _LONE, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("", "")
