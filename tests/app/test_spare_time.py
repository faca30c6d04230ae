"""Processes that are forked to order let the service go first, and get their time all the same."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from app.domain.problems import ProcessLostError
from app.processes import spare_time
from app.processes.channel import Message, StarvedError, receive
from app.processes.program import Crew, Forks
from app.processes.spare_time import Starvation
from tests.app.forks import children_of, host_of, no_time_left, wait

pytestmark = pytest.mark.slow


@pytest.fixture
def forks() -> Iterator[Forks]:
    found = Forks("tests.app.burning", quiet=False)
    yield found
    found.close()


@pytest.fixture
def crew(forks: Forks) -> Iterator[Crew]:
    found = Crew(forks)
    yield found
    found.close()


@dataclass(frozen=True)
class Process:
    """A process that has done its work and sleeps."""

    channel: Connection
    policy: int
    niceness: int
    id: int

    def there(self) -> bool:
        return Path(f"/proc/{self.id}").exists()


def burned(crew: Crew, *, burning: float, spare: bool) -> Process:
    """Return a process that has worked for these seconds."""
    channel = crew.begin(json.dumps([burning, 600]).encode(), spare=spare)
    try:
        message, body = receive(channel, 60)
    except StarvedError:
        crew.end(channel)
        raise
    assert message is Message.OUTCOME
    return Process(channel, *json.loads(bytes(body)))


def patiently(crew: Crew) -> Process:
    """Return one that has spare time; others may leave none for a while."""
    until = time.monotonic() + 60
    while True:
        try:
            return burned(crew, burning=0, spare=True)
        except StarvedError:
            assert time.monotonic() < until


def test_a_process_has_a_lower_priority_or_spare_time(crew: Crew) -> None:
    lower = burned(crew, burning=0, spare=False)
    assert lower.policy == os.SCHED_OTHER
    assert lower.niceness == os.getpriority(os.PRIO_PROCESS, 0) + 5
    assert patiently(crew).policy == os.SCHED_IDLE


def test_where_no_time_is_left_it_leaves_and_has_a_lower_priority_instead(crew: Crew) -> None:
    with no_time_left():
        with pytest.raises(StarvedError):
            burned(crew, burning=0.5, spare=True)
        process = crew.in_spare_time(lambda spare: burned(crew, burning=0.5, spare=spare))
    assert process.policy == os.SCHED_OTHER


@dataclass
class Clock:
    """What the other threads of a process do in the next quarter of a second."""

    now: int = 0
    had: int = 0
    wanting: bool = False

    def look(self, starvation: Starvation, *, had: int = 0, wanting: bool = True) -> bool:
        """Return what is found after it."""
        self.now, self.had, self.wanting = self.now + 250_000_000, self.had + had, wanting
        return starvation.found()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(time, "monotonic_ns", lambda: found.now)
    monkeypatch.setattr(spare_time, "others_had", lambda: found.had)
    monkeypatch.setattr(spare_time, "others_in", lambda _: found.wanting)
    return found


def test_who_wants_a_processor_for_two_seconds_and_has_none_starves(clock: Clock) -> None:
    starvation = Starvation()
    looks = [clock.look(starvation, had=1_000_000) for _ in range(8)]
    assert looks == [*[False] * 7, True]


def test_who_has_a_twentieth_does_not_starve_nor_who_wants_none(clock: Clock) -> None:
    starvation = Starvation()
    assert not any(clock.look(starvation, had=12_500_000) for _ in range(100))
    assert not any(clock.look(starvation, wanting=False) for _ in range(100))


def test_to_have_had_enough_before_is_not_counted(clock: Clock) -> None:
    starvation = Starvation()
    assert not any(clock.look(starvation, had=250_000_000) for _ in range(8))
    assert [clock.look(starvation) for _ in range(8)] == [*[False] * 7, True]


def test_a_thread_that_works_is_told_from_one_that_sleeps() -> None:
    woken, working = threading.Event(), True

    def work() -> None:
        woken.wait()
        while working:
            pass

    thread = threading.Thread(target=work)
    own = spare_time.others_had()
    thread.start()
    seen = [spare_time.others_in("R") for _ in range(20) if not time.sleep(0.01)]
    assert not all(seen), "nobody of ours works"
    woken.set()
    wait(lambda: spare_time.others_had() - own > 10_000_000)
    assert spare_time.others_in("R")
    working = False
    thread.join()


def test_where_there_was_none_none_is_looked_for_in_the_next_seconds(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[bool] = []

    def attempt(spare: bool) -> None:
        reported.append(spare)
        raise StarvedError

    now = 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    for _ in range(2):
        with pytest.raises(ProcessLostError):
            crew.in_spare_time(attempt)
    now += 11
    with pytest.raises(ProcessLostError):
        crew.in_spare_time(attempt)
    assert reported == [True, False, False, True, False]


def test_a_process_in_spare_time_leaves_with_whom_it_works_for(crew: Crew) -> None:
    one, other = patiently(crew), patiently(crew)
    crew.end(one.channel)
    wait(lambda: not one.there())
    assert other.there()
    crew.close()
    wait(lambda: not other.there())
    crew.end(other.channel)


def test_a_twin_leaves_with_its_host_and_what_runs_goes_on(forks: Forks, crew: Crew) -> None:
    process = patiently(crew)
    (twin,) = children_of(host_of(forks).process.pid)
    forks.close()
    wait(lambda: not Path(f"/proc/{twin}").exists())
    assert process.there()


def test_a_host_that_is_still_loading_leaves_with_its_server() -> None:
    forks = Forks("tests.app.never_loaded", quiet=False)
    forks.start()
    host = host_of(forks)
    host.orders.close()
    wait(lambda: host.process.poll() == 0)


def test_a_host_is_ready_when_it_has_loaded_and_no_sooner(forks: Forks, crew: Crew) -> None:
    loading = Forks("tests.app.never_loaded", quiet=False)
    assert not loading.is_ready()
    wait(forks.is_ready)
    assert forks.is_ready(), "it says so once, and that is not forgotten"
    assert patiently(crew).there(), "an order comes after it"
    assert not loading.is_ready(), "as long as that has taken"
    loading.close()


def test_a_host_that_is_lost_is_started_again_by_a_look(forks: Forks) -> None:
    wait(forks.is_ready)
    lost = host_of(forks).process
    lost.kill()
    lost.wait()
    assert not forks.is_ready()
    assert host_of(forks).process.pid != lost.pid
    wait(forks.is_ready)


def test_a_twin_that_is_lost_is_replaced(forks: Forks, crew: Crew) -> None:
    patiently(crew)
    (twin,) = children_of(host_of(forks).process.pid)
    os.kill(twin, signal.SIGKILL)
    wait(lambda: not Path(f"/proc/{twin}").exists())
    patiently(crew)


def test_where_the_system_tells_nothing_there_is_no_spare_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert spare_time.there_may_be_spare_time()
    with monkeypatch.context() as patch:
        patch.setattr(spare_time, "_TASKS", Path("/proc/none"))
        assert not spare_time.there_may_be_spare_time()
    monkeypatch.delattr(os, "SCHED_IDLE")
    assert not spare_time.there_may_be_spare_time()


def test_where_spare_time_is_forbidden_the_lower_priority_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbid(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", forbid)
    spare_time.take_spare_time()
