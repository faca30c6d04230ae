"""Draw processes for real: they draw, die alone, and go when their parent goes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.domain.problems import DataUnreadableError
from app.domain.releases import ReleaseState
from app.processes import jobs as job_processes
from app.processes.draws import DrawOrder
from app.processes.jobs import JobProcesses
from app.services.datasets import readable
from app.services.releases.draws import DrawDiedError
from app.store import LedgerIdentity, SigningKey
from tests.app.forks import forked, own_host, wait
from tests.app.ledgers import Place
from tests.app.test_jobs import ADA, BOB, ask, final, new_dataset, opened, question
from tests.speed import PATIENCE_S

PARENT = """
import sys, time
from pathlib import Path
from tests.app.forks import forked, wait
from tests.app.test_job_processes import processes
from app.processes import jobs
spawned = processes(Path(sys.argv[1]))
process = spawned._take("ds_1")
process.channel.recv_bytes()  # it is ready
print(*forked(jobs), flush=True)
time.sleep(60)
"""


def processes(directory: Path, count: int = 1) -> JobProcesses:
    """Return one that signs as some ledger does."""
    order = DrawOrder.of(
        data_dir=directory,
        identity=LedgerIdentity("led_1", 1),
        key=SigningKey.of_bytes(bytes(32)),
        log_level="warning",
    )
    return JobProcesses(count=count, order=order)


@pytest.fixture(autouse=True, scope="module")
def host() -> Iterator[None]:
    with own_host(job_processes):
        yield


@pytest.fixture(autouse=True)
def alone(host: None) -> None:
    """Wait until the last test's processes have left."""
    del host
    wait(lambda: not forked(job_processes))


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except (FileNotFoundError, ProcessLookupError):  # before it is opened, or read
        return False
    return state != "Z"


def test_a_job_is_drawn_in_a_process_that_may_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readable, "SOUND_S", 60)
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        spawned = processes(tmp_path)
        async with opened(place, spawned) as (store, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            first = await final(services, (await ask(services, dataset, "a")).id)
            assert first.state is ReleaseState.RELEASED
            answer = json.loads(first.result or b"")
            assert "coefficients" in answer["value"]
            assert answer["receipt"]
            [process], [pid] = spawned._all, forked(job_processes)
            os.kill(pid, signal.SIGSTOP)
            asked = await ask(services, dataset, "b")
            while (await services.releases.get(asked.id, caller=BOB)).worker is None:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.5)  # it has been asked by then
            os.kill(pid, signal.SIGKILL)
            second = await final(services, asked.id)
            assert (second.state, second.attempts) == (ReleaseState.RELEASED, 2)
            assert spawned._all.isdisjoint({process})
            # what the process cannot read is put off, and the process goes on
            facts = services.datasets.facts(dataset)
            with pytest.raises(DataUnreadableError):  # other rows than those of the ledger
                await spawned.draw(second, facts.record, "0" * 64)
            services.erasing.plane.erase(dataset)
            put_off = (await ask(services, dataset, "c")).id
            while services.readable.unreadable == 0:
                await asyncio.sleep(0.01)
            found = await services.releases.get(put_off, caller=BOB)
            assert (found.state, found.attempts) == (ReleaseState.DEBITED, 1)
            with pytest.raises(DataUnreadableError):
                await spawned.draw(second, facts.record, None)
            assert store.verify().ok
            with store.reading() as reader:
                assert len(reader.releases.list(principal=BOB.person)) == 3
        with pytest.raises(DrawDiedError):
            await spawned.draw(second, facts.record, None)

    asyncio.run(scenario())


def test_no_attempt_is_lost_to_processes_that_die_while_they_wait(tmp_path: Path) -> None:
    """As many as a release has attempts may be killed by a machine that is short of memory."""
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        spawned = processes(tmp_path, count=3)
        async with opened(place, spawned) as (_, services):
            dataset = await new_dataset(services)
            asked = [(await ask(services, dataset, idem)).id for idem in "abc"]
            services.jobs.start()
            for release in asked:
                await final(services, release)
            for pid in forked(job_processes):
                os.kill(pid, signal.SIGKILL)
            wait(lambda: not forked(job_processes))
            drawn = await final(services, (await ask(services, dataset, "d")).id)
            assert (drawn.state, drawn.attempts) == (ReleaseState.RELEASED, 1)

    asyncio.run(scenario())


@pytest.mark.wide
def test_a_draw_process_goes_with_its_parent(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, str(script), str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as parent:
        assert parent.stdout is not None
        drawer = int(parent.stdout.readline())
        assert is_running(drawer)
        # neither signal ends it by itself: they may be meant for the parent
        time.sleep(1)
        parent.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while is_running(drawer) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(drawer)


@pytest.mark.wide
def test_a_process_that_has_read_an_erased_data_set_ends(tmp_path: Path) -> None:
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        spawned = processes(tmp_path)
        async with opened(place, spawned) as (_, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            await final(services, (await ask(services, dataset, "a")).id)
            [first], [pid] = spawned._all, forked(job_processes)
            spawned.forget("ds_that_it_has_not_read")
            assert spawned._all == {first}
            spawned.forget(dataset)
            assert spawned._all == set()
            wait(lambda: not is_running(pid), 5)
            # one that is at work ends when it has drawn
            await final(services, (await ask(services, dataset, "b")).id)
            [second], [pid] = spawned._all, forked(job_processes)
            os.kill(pid, signal.SIGSTOP)
            asked = await ask(services, dataset, "c")
            while spawned._idle:
                await asyncio.sleep(0.01)
            spawned.forget(dataset)
            assert spawned._all == {second}
            os.kill(pid, signal.SIGCONT)
            drawn = await final(services, asked.id)
            assert (drawn.state, drawn.attempts) == (ReleaseState.RELEASED, 1)
            wait(lambda: not is_running(pid), 5)

    asyncio.run(scenario())


@pytest.mark.wide
def test_a_late_draw_has_a_process_beside_the_lanes(tmp_path: Path) -> None:
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        spawned = processes(tmp_path)
        async with opened(place, spawned) as (_, services):
            services.jobs.late_ms = lambda _: 100
            services.jobs.start()
            dataset = await new_dataset(services)
            await final(services, (await ask(services, dataset, "a")).id)
            [late] = forked(job_processes)
            os.kill(late, signal.SIGSTOP)
            try:
                stuck = await ask(services, dataset, "b")
                while (await services.releases.get(stuck.id, caller=BOB)).worker is None:
                    await asyncio.sleep(0.01)
                other = await services.releases.submit(dataset, question(), idem="a", caller=ADA)
                async with asyncio.timeout(60):
                    while other.state is ReleaseState.DEBITED:
                        await asyncio.sleep(0.01)
                        other = await services.releases.get(other.id, caller=ADA)
                assert other.state is ReleaseState.RELEASED
                assert len(forked(job_processes)) == 2
            finally:
                os.kill(late, signal.SIGCONT)
            assert (await final(services, stuck.id)).attempts == 1
            # no more are kept than there are lanes
            wait(lambda: len(forked(job_processes)) == 1)
            await final(services, (await ask(services, dataset, "c")).id)

    asyncio.run(scenario())


@pytest.mark.wide
def test_stopping_waits_for_no_process(tmp_path: Path) -> None:
    """Nor for one that cannot leave, as deep in a calculation: its draw is handed back."""
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        spawned = processes(tmp_path)
        async with opened(place, spawned, drain_s=0.1) as (store, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            await final(services, (await ask(services, dataset, "a")).id)
            [pid] = forked(job_processes)
            os.kill(pid, signal.SIGSTOP)
            try:
                asked = await ask(services, dataset, "b")
                while spawned._idle:
                    await asyncio.sleep(0.01)
                async with asyncio.timeout(5):
                    await services.jobs.close(timeout_s=0.1)
                with store.reading() as reader:
                    left = reader.releases.get(asked.id)
                assert left is not None
                assert (left.state, left.worker, left.attempts) == (ReleaseState.DEBITED, None, 1)
            finally:
                os.kill(pid, signal.SIGCONT)
            wait(lambda: not is_running(pid), 5)

    asyncio.run(scenario())
