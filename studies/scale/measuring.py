"""Time, CPU time and memory of work in a process of its own, with all that it starts.

Memory is the anonymous memory of all processes together: the system may drop the pages of mapped
files. It is sampled 20 times a second.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

_EVERY_S = 0.05
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Measured:
    """The time of some work in seconds, its CPU time in seconds, its peak in MB, and its result."""

    seconds: float
    cpu_s: float
    peak_mb: float
    result: dict[str, Any]


@dataclass(slots=True)
class _Watch:
    """Watches a process and its descendants until stopped; ``own_cpu_s`` is its own CPU time."""

    peak_kb: int = 0
    own_cpu_s: float = 0.0
    cpu: dict[int, int] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Sample until stopped."""
        while not self.ended.wait(_EVERY_S):
            self.look()
            self.own_cpu_s = time.thread_time()

    def look(self) -> None:
        """Add up the memory held now, and note the CPU time of each process."""
        held = 0
        for process in (os.getpid(), *_below(os.getpid())):
            with suppress(OSError, ValueError, IndexError):
                status = Path(f"/proc/{process}/status").read_text()
                held += int(status.split("RssAnon:")[1].split()[0])
                stat = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
                self.cpu[process] = int(stat[11]) + int(stat[12])
        self.peak_kb = max(self.peak_kb, held)


def _below(process: int) -> Iterator[int]:
    """Yield a process's descendants."""
    with suppress(OSError):
        for children in Path(f"/proc/{process}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                yield child
                yield from _below(child)


def measured(
    work: Callable[..., dict[str, Any]], *arguments: object, most_s: float | None = None
) -> Measured:
    """Run a function of a module in a process of its own, and return its result.

    It may say how long it took itself, as ``seconds``, where not all of it counts.

    Raises
    ------
    TimeoutError
        It took longer than ``most_s``, and was ended.
    """
    context = get_context("forkserver")
    # what every process would load once more, unless the one that it is forked from has
    loaded = [name for name in sys.modules if name.startswith(f"{__package__.partition('.')[0]}.")]
    context.set_forkserver_preload([*loaded, work.__module__])
    ours, theirs = context.Pipe()
    process = context.Process(target=send_measured, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        if not ours.poll(most_s):
            raise TimeoutError
        result: Measured = ours.recv()  # where it failed, it has said why, and this is at an end
    finally:
        process.kill()
        process.join()
    return result


def send_measured(
    channel: Connection, work: Callable[..., dict[str, Any]], arguments: tuple[object, ...]
) -> None:
    """Send what a function took: the target of a new process, without its main program."""
    # what the work begins would load the program once more that this was begun by
    sys.modules["__main__"] = ModuleType("__main__")
    channel.send(watched(work, arguments))


def watched(work: Callable[..., dict[str, Any]], arguments: tuple[object, ...]) -> Measured:
    """Run a function in this process; its CPU time excludes the watching thread's."""
    with _watching() as watch:
        before = sum(watch.cpu.values())
        started = time.perf_counter()
        result = work(*arguments)
        seconds = time.perf_counter() - started
        watch.look()
        cpu = sum(watch.cpu.values()) - before
    # looking takes longer on a busy machine, since then there is more time to look in
    cpu_s = max(0.0, cpu / _TICKS - watch.own_cpu_s)
    return Measured(result.pop("seconds", seconds), cpu_s, watch.peak_kb / 1024, result)


@contextmanager
def _watching() -> Iterator[_Watch]:
    watch = _Watch()
    watch.look()
    thread = threading.Thread(target=watch.run, daemon=True)
    thread.start()
    try:
        yield watch
    finally:
        watch.ended.set()
        thread.join()
