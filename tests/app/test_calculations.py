"""Calculating processes: what is calculated comes back, and no one waits for a lost one."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import pytest

from app.domain.problems import Problem, ProcessLostError, StoppedError
from app.processes import calculations
from app.processes.calculations import CalculatingProcesses
from app.services.plans.lanes import OutOfTimeError, at_most
from app.uploads.storing import Stop
from mechanisms.tables.workload import report
from tests.app.forks import Starved, forked, no_time_left, own_host, wait
from tests.app.uploads import SENTINEL

T = TypeVar("T")


def running() -> list[int]:
    """Return the processes that calculate now."""
    return forked(calculations)


@pytest.fixture(autouse=True, scope="module")
def host() -> Iterator[None]:
    with own_host(calculations):
        yield


@pytest.fixture
def calculator() -> Iterator[CalculatingProcesses]:
    wait(lambda: not running())
    found = CalculatingProcesses(log_level="error")
    yield found
    found.close()


def run(
    calculator: CalculatingProcesses,
    function: Callable[..., T],
    *arguments: object,
    stop: Stop | None = None,
    seconds: float = 60.0,
    urgent: bool = False,
) -> T:
    return calculator.run(function, *arguments, stop=stop or Stop(), seconds=seconds, urgent=urgent)


class Endless(threading.Thread):
    """A calculation that takes longer than the test, and its process."""

    failure: Exception | None = None

    def __init__(self, calculator: CalculatingProcesses) -> None:
        super().__init__(daemon=True)
        self._calculator = calculator
        self.stop = Stop()
        self.start()
        wait(lambda: len(running()) == 1)
        (self.process,) = running()

    def run(self) -> None:
        try:
            run(self._calculator, time.sleep, 600, stop=self.stop)
        except ProcessLostError as error:
            self.failure = error


def ours() -> tuple[int, str | None, int]:
    """Return a process's niceness, what it inherits of the service, and its largest core file."""
    core, _ = resource.getrlimit(resource.RLIMIT_CORE)
    return os.getpriority(os.PRIO_PROCESS, 0), os.environ.get("RELEASE_DESK_PLANTED"), core


def burn(seconds: float) -> int:
    """Use up processor time; return the policy."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return os.sched_getscheduler(0)


def refuse() -> None:
    raise Problem("invalid-request", errors=[{"field": "epsilon", "message": "no"}])


def fail() -> None:
    raise ValueError(SENTINEL)


@pytest.mark.wide
def test_it_calculates_elsewhere_and_knows_nothing_of_the_service(
    calculator: CalculatingProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELEASE_DESK_PLANTED", SENTINEL)
    assert run(calculator, os.getpid) != os.getpid()
    assert run(calculator, ours) == (os.getpriority(os.PRIO_PROCESS, 0) + 5, None, 0)
    assert run(calculator, divmod, 7, 2) == (3, 1)
    assert len(run(calculator, bytes, 1 << 25)) == 1 << 25, "however much it is"


def test_its_low_priority_counts_and_it_hears_no_ctrl_c(calculator: CalculatingProcesses) -> None:
    # Linux weighs priorities within a session, and shares the processor between sessions
    assert run(calculator, os.getsid, 0) == os.getsid(0)
    assert run(calculator, os.getpgrp) != os.getpgrp()


def test_two_processes_are_kept_for_the_next_and_no_more(
    calculator: CalculatingProcesses,
) -> None:
    first = run(calculator, os.getpid)
    threads = [threading.Thread(target=run, args=(calculator, time.sleep, 2)) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait(lambda: len(running()) == 3)
    for thread in threads:
        thread.join()
    wait(lambda: len(running()) == 2)
    for process in running():
        os.kill(process, signal.SIGKILL)
    wait(lambda: not running())
    assert run(calculator, os.getpid) != first, "the next one does not hear of a kept one's death"


def test_refusals_come_back_whole(calculator: CalculatingProcesses) -> None:
    with pytest.raises(Problem) as caught:
        run(calculator, refuse)
    assert caught.value.code == "invalid-request"
    assert caught.value.extras == {"errors": [{"field": "epsilon", "message": "no"}]}


def test_of_a_failure_nothing_is_told(
    calculator: CalculatingProcesses, capfd: pytest.CaptureFixture[str]
) -> None:
    calculations.FORKS.close()  # another host, so that it writes where this test reads
    with pytest.raises(ProcessLostError) as caught:
        run(calculator, fail)
    with pytest.raises(ProcessLostError):
        run(calculator, threading.Lock)  # cannot be sent back
    reported = capfd.readouterr().err
    assert "ValueError" in reported
    assert SENTINEL not in reported + repr(caught.value)


def test_of_two_that_are_killed_it_is_heard(calculator: CalculatingProcesses) -> None:
    endless = Endless(calculator)
    os.kill(endless.process, signal.SIGKILL)
    wait(lambda: len(running()) == 1 and endless.process not in running())
    assert endless.failure is None
    os.kill(*running(), signal.SIGKILL)
    endless.join(10)
    assert endless.failure is not None
    assert run(calculator, abs, -1) == 1


def test_what_nobody_waits_for_any_more_ends_with_its_process(
    calculator: CalculatingProcesses,
) -> None:
    endless = Endless(calculator)
    endless.stop.ask()
    endless.join(10)
    assert isinstance(endless.failure, StoppedError)
    wait(lambda: not running(), 5)
    with pytest.raises(StoppedError):
        run(calculator, abs, -1, stop=endless.stop)


def burn_for(seconds: float, most: float) -> str:
    """Use up processor time, as much as may be used; say whether it was enough."""
    try:
        with at_most(most):
            burn(seconds)
    except OutOfTimeError:
        return "not enough"
    return "enough"


def test_a_calculation_takes_no_more_time_than_it_may(calculator: CalculatingProcesses) -> None:
    """Those within it neither: and what is left is counted on after them."""
    first = run(calculator, os.getpid)
    with pytest.raises(Problem) as caught:
        run(calculator, burn, 60.0, seconds=0.2)
    assert caught.value.extras == {
        "errors": [
            {
                "field": "body",
                "message": "takes more seconds of processor time to calculate than it may; ask for "
                "fewer columns, groups or parts at once (0.2)",
            }
        ]
    }
    assert run(calculator, os.getpid) == first, "its process is not lost"
    assert run(calculator, burn_for, 0.01, 0.5) == "enough"
    assert run(calculator, burn_for, 60.0, 0.1) == "not enough"
    with pytest.raises(Problem):
        run(calculator, burn_often, seconds=0.5)


def burn_often() -> None:
    """Use up little time, again and again."""
    for _ in range(100):
        burn_for(1.0, 2.0)


def far(pause_s: float, *shares: float) -> str:
    """Say how far it is, now and then."""
    for share in shares:
        time.sleep(pause_s)
        report(share)
    return "done"


def test_who_waits_hears_how_far_it_is_and_never_that_it_is_less_far(
    calculator: CalculatingProcesses,
) -> None:
    seen: list[float] = []
    shares = (0.2, 0.6, 0.4, 1.0)
    asked = partial(
        calculator.run, far, stop=Stop(), seconds=60.0, urgent=False, on_progress=seen.append
    )
    assert asked(0.55, *shares) == "done"
    assert seen == [51 / 255, 153 / 255, 153 / 255, 1.0]
    assert asked(0.0, *shares) == "done"
    assert len(seen) == 4, "twice a second at most"
    assert run(calculator, far, 0.55, 0.5) == "done", "a caller need not ask for it"


def test_what_is_urgent_goes_before_what_is_made_in_spare_time(
    calculator: CalculatingProcesses,
) -> None:
    first = run(calculator, os.getpid, urgent=True)
    assert run(calculator, os.getpid) != first
    assert run(calculator, os.getpid, urgent=True) == first, "one of each is kept"
    assert run(calculator, os.sched_getscheduler, 0, urgent=True) == os.SCHED_OTHER


def test_closing_ends_what_is_under_way(calculator: CalculatingProcesses) -> None:
    endless = Endless(calculator)
    calculator.close()
    endless.join(10)
    assert endless.failure is not None
    wait(lambda: not running(), 5)
    with pytest.raises(ProcessLostError, match="any more"):
        run(calculator, abs, -1)


def test_a_calculation_that_gets_no_time_is_begun_again(
    calculator: CalculatingProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    starved = Starved()
    starved.put(monkeypatch)
    assert run(calculator, abs, -1) == 1
    assert starved.asked == [True, False]
    wait(lambda: not running())
    monkeypatch.undo()
    assert run(calculator, abs, -2) == 2, "one of a lower priority is not kept"


@pytest.mark.wide
def test_one_that_starves_later_is_replaced(
    calculator: CalculatingProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calculations.FORKS, "steady", False)
    calculations.FORKS.close()  # the next host shares the core
    with no_time_left():
        assert run(calculator, burn, 0.5) == os.SCHED_OTHER
    calculations.FORKS.close()
