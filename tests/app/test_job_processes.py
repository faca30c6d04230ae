"""Draw processes for real: they draw, die alone, and go when their parent goes."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.domain.releases import ReleaseState
from app.processes.jobs import JobProcesses, _Drawer
from app.services.releases.jobs import DrawDiedError
from tests.app.ledgers import Place
from tests.app.test_jobs import BOB, ask, final, new_dataset, opened

PARENT = """
import sys, time
from pathlib import Path
from app.processes.jobs import _Drawer
if __name__ == "__main__":
    drawer = _Drawer(Path(sys.argv[1]), "warning")
    print(drawer._process.pid, flush=True)
    time.sleep(60)
"""


def processes(directory: Path) -> JobProcesses:
    return JobProcesses(count=1, data_dir=directory, log_level="warning")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_a_job_is_drawn_in_a_process_that_may_die(tmp_path: Path) -> None:
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        spawned = processes(tmp_path)
        async with opened(place, spawned) as (store, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            first = await final(services, (await ask(services, dataset, "a")).id)
            assert first.state is ReleaseState.RELEASED
            assert b'"coefficients"' in (first.result or b"")
            [drawer] = spawned._all
            drawer.kill()
            second = await final(services, (await ask(services, dataset, "b")).id)
            assert (second.state, second.attempts) == (ReleaseState.RELEASED, 2)
            assert spawned._all.isdisjoint({drawer})
            # what the process cannot draw is void, and the process goes on
            facts = services.datasets.facts(dataset)
            services.datasets._plane.erase(dataset)
            failed = await final(services, (await ask(services, dataset, "c")).id)
            assert (failed.state, failed.attempts) == (ReleaseState.VOID, 1)
            assert await spawned.draw(second, facts.record) is None
            assert store.verify().ok
            with store.reading() as reader:
                assert len(reader.releases.list(principal=BOB.person)) == 3
        with pytest.raises(DrawDiedError):
            await spawned.draw(second, facts.record)

    asyncio.run(scenario())


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
    deadline = time.monotonic() + 20
    while is_running(drawer) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(drawer)


def test_a_process_that_has_read_an_erased_data_set_ends(tmp_path: Path) -> None:
    place = Place(tmp_path, f"sqlite:///{tmp_path / 'ledger.sqlite'}")

    async def scenario() -> None:
        spawned = processes(tmp_path)
        async with opened(place, spawned) as (_, services):
            services.jobs.start()
            dataset = await new_dataset(services)
            await final(services, (await ask(services, dataset, "a")).id)
            [first] = spawned._all
            spawned.forget("ds_that_it_has_not_read")
            assert spawned._all == {first}
            spawned.forget(dataset)
            assert spawned._all == set()
            assert not is_running(pid_of(first))
            # one that is at work ends when it has drawn
            await final(services, (await ask(services, dataset, "b")).id)
            [second] = spawned._all
            os.kill(pid_of(second), signal.SIGSTOP)
            asked = await ask(services, dataset, "c")
            while spawned._idle:
                await asyncio.sleep(0.01)
            spawned.forget(dataset)
            assert spawned._all == {second}
            os.kill(pid_of(second), signal.SIGCONT)
            drawn = await final(services, asked.id)
            assert (drawn.state, drawn.attempts) == (ReleaseState.RELEASED, 1)
            assert not is_running(pid_of(second))

    asyncio.run(scenario())


def pid_of(drawer: _Drawer) -> int:
    pid = drawer._process.pid
    assert pid is not None
    return pid
