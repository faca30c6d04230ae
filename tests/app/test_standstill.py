"""A process whose threads wait for each other for ever ends, and no other does."""

from __future__ import annotations

import subprocess
import sys

import pytest

from app.processes.spare_time import Standstill, there_may_be_spare_time

_START = """
import threading, time
from app.processes.spare_time import Standstill

still = Standstill(0.5)
still.watch()

def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
"""


def ends_with(body: str) -> int:
    command = [sys.executable, "-c", _START + body]
    return subprocess.run(command, timeout=60, check=False, capture_output=True).returncode


@pytest.mark.skipif(not there_may_be_spare_time(), reason="the system does not tell")
def test_threads_that_wait_for_each_other_end_their_process() -> None:
    assert ends_with("lock = threading.Lock(); lock.acquire(); lock.acquire()") == 1


@pytest.mark.parametrize(
    "body",
    [
        "with still.excused(): time.sleep(2)",
        "other = threading.Thread(target=burn, args=(1.5,)); other.start(); other.join()",
    ],
    ids=["waits for somebody else", "waits for one that works"],
)
def test_who_waits_for_good_reason_goes_on(body: str) -> None:
    assert ends_with(body) == 0


def test_nothing_is_found_while_a_process_is_excused() -> None:
    still = Standstill(1.0)
    with still.excused():
        assert not any(still.found() for _ in range(20))
