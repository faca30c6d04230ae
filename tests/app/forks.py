"""What processes a test has had forked, and not those of other tests' servers in its process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from app.processes.channel import StarvedError
from app.processes.program import Crew, Forks
from app.processes.upload_reading import SHARED
from tests.speed import PATIENCE_S


class OwnForks(Forks):
    """A host that no one else uses.

    While they are ``steady``, its processes are not in spare time, so that each is
    there until it has done what it is told, however busy the machine is.
    """

    steady = True

    def order(self, *descriptors: int, spare: bool = False) -> None:
        super().order(*descriptors, spare=spare and not self.steady)


@contextmanager
def own_host(module: ModuleType) -> Iterator[None]:
    """Have a module's processes forked from a host that no one else uses, and readers too."""
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((module, "FORKS"), (SHARED, "forks")):
            others = getattr(owner, name)
            patch.setattr(owner, name, OwnForks(others.module, quiet=others.quiet))
        yield
        module.FORKS.close()
        SHARED.forks.close()


@dataclass
class Starved:
    """How the processes of a crew were begun, if those with spare time never had any."""

    asked: list[bool] = field(default_factory=list)
    left: Callable[[], None] = lambda: None
    """What such a process does before it leaves."""

    def put(self, patch: pytest.MonkeyPatch) -> None:
        """Let processes starve."""
        begin = Crew.begin

        def begun(crew: Crew, order: bytes, *descriptors: int, spare: bool) -> Connection:
            self.asked.append(spare)
            if spare:
                self.left()
                raise StarvedError
            return begin(crew, order, *descriptors, spare=spare)

        patch.setattr(Crew, "begin", begun)


def forked(module: ModuleType) -> list[int]:
    """Return the processes that a module's host has forked and that are still there."""
    return children_of(host_of(module.FORKS).process.pid)


def host_of(forks: Forks) -> Any:
    """Return the host that has them forked, started if there is none: its process, its orders."""
    return forks._host()


def children_of(process: int) -> list[int]:
    """Return the processes that the main thread of a process has begun."""
    listed = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(child) for child in listed.split()]


def wait(condition: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until a condition holds."""
    until = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


@contextmanager
def no_time_left() -> Iterator[None]:
    """Have this thread, and what it starts, share one core with a program that keeps it busy."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            yield
        finally:
            busy.kill()
            busy.wait()
    finally:
        os.sched_setaffinity(0, cores)
