"""Time, processor time and memory of work in a process of its own, with all that it starts.

Memory is what the processes hold themselves, all together: pages of files that they map are the
system's to drop. It is looked at twenty times a second.
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
    """What work took, and what it told: seconds, processor seconds, MB at most."""

    seconds: float
    cpu_s: float
    peak_mb: float
    told: dict[str, Any]


@dataclass(slots=True)
class _Watch:
    """Looks at a process and its descendants until told to end; ``own_cpu_s`` it took itself."""

    peak_kb: int = 0
    own_cpu_s: float = 0.0
    cpu: dict[int, int] = field(default_factory=dict)
    ended: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Look, and look again."""
        while not self.ended.wait(_EVERY_S):
            self.look()
            self.own_cpu_s = time.thread_time()

    def look(self) -> None:
        """Add up what is held now, and note the processor time of each."""
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
    """Run a function of a module in a process of its own; it tells what it likes.

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
    process = context.Process(target=tell, args=(theirs, work, arguments))
    process.start()
    theirs.close()
    try:
        if not ours.poll(most_s):
            raise TimeoutError
        told: Measured = ours.recv()  # where it failed, it has said why, and this is at an end
    finally:
        process.kill()
        process.join()
    return told


def tell(
    channel: Connection, work: Callable[..., dict[str, Any]], arguments: tuple[object, ...]
) -> None:
    """Send what a function took; for a process of its own, whose program is forgotten."""
    # what the work begins would load the program once more that this was begun by
    sys.modules["__main__"] = ModuleType("__main__")
    channel.send(watched(work, arguments))


def watched(work: Callable[..., dict[str, Any]], arguments: tuple[object, ...]) -> Measured:
    """Run a function in this process; of its processor time, what looks at it takes no part."""
    with _watching() as watch:
        before = sum(watch.cpu.values())
        started = time.perf_counter()
        told = work(*arguments)
        seconds = time.perf_counter() - started
        watch.look()
        cpu = sum(watch.cpu.values()) - before
    # looking takes long where others are at work, since then there is more time to look in
    cpu_s = max(0.0, cpu / _TICKS - watch.own_cpu_s)
    return Measured(told.pop("seconds", seconds), cpu_s, watch.peak_kb / 1024, told)


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
