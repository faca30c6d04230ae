"""Having processes forked from one that has loaded what they need.

Reading an upload, storing it, drawing and costly plans each happen in a
process of their own, which may be lost, and which gives its memory back when it
ends. Starting an interpreter for each would take a second. So a *host*
(:mod:`app.processes.fork_host`) is started once: it loads a module, holds nothing of the
service (no environment, no descriptor, no key), and for every order, a few descriptors,
forks a process that works on these. The last of them is its *channel*
(:mod:`app.processes.channel`): when no process holds the other end any more, the process leaves.

The service is never forked itself: a child of a process with threads could inherit a
lock that one of them holds.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.processes.fork_host import LOWER, SPARE

_MAX_THREADS = 4
_UNWARNED = "ignore:resource_tracker:UserWarning"
"""Processes leave at once. What unlinks the semaphores that they had need not warn of it."""
_START = """
import gc, importlib, json, sys
gc.disable()
sys.path[:] = json.loads(sys.argv[1])
from app.processes.spare_time import take_lower_priority
take_lower_priority()
from app.processes.fork_host import host, loading
descriptor = int(sys.argv[3])
with loading(descriptor):
    for further in sys.argv[4:]:
        importlib.import_module(further)
    module = importlib.import_module(sys.argv[2])
gc.freeze()
gc.enable()
host(module, descriptor)
"""
"""The host lets the service go first from before it loads anything, and leaves with it.

What it loads stays, so no garbage is collected while it loads, nor among it in what is forked.
"""


class Forks:
    """Has processes forked to order; the host is started by the first. Any thread may use it.

    Parameters
    ----------
    module
        What the host loads; its function ``work`` takes an order's descriptors
        (:func:`app.processes.fork_host.host`).
    quiet
        Whether what a process prints is dropped: a decoder's last words may hold cells.
    """

    def __init__(self, module: str, *, quiet: bool) -> None:
        self.module = module
        self.quiet = quiet
        self._further: dict[str, None] = {}
        self._lock = threading.Lock()
        # by process: a forked one does not use its parent's
        self._hosts: dict[int, _Host] = {}

    def order(self, *descriptors: int, spare: bool = False) -> None:
        """Have a process forked for these descriptors, which the caller keeps.

        Parameters
        ----------
        descriptors
            What it gets.
        spare
            Whether it is to run in spare time alone.
        """
        with self._lock:
            try:
                self._host().order(descriptors, spare=spare)
            except OSError:  # the host was lost since the last order
                self._drop()
                self._host().order(descriptors, spare=spare)

    def load(self, *modules: str) -> None:
        """Have hosts that are started from now on load these modules too."""
        self._further.update(dict.fromkeys(modules))

    @property
    def loaded(self) -> Sequence[str]:
        """Return the modules that a host loads in addition to its own."""
        return tuple(self._further)

    def start(self) -> None:
        """Have a host load what it needs, so that the first order does not wait for it."""
        with self._lock:
            self._host()

    def close(self) -> None:
        """End the host; processes that run are not touched, and an order starts another host."""
        with self._lock:
            self._drop()

    def _host(self) -> _Host:
        found = self._hosts.get(os.getpid())
        if found is None:
            found = self._hosts[os.getpid()] = _Host.start(self)
        return found

    def _drop(self) -> None:
        if (host := self._hosts.pop(os.getpid(), None)) is not None:
            host.stop()


class Started(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int: ...

    def kill(self) -> None: ...

    def wait(self) -> object: ...


def start_interpreter(forks: Forks, descriptor: int) -> Started:
    """Start an interpreter that becomes a host, and hears its orders from a descriptor.

    It gets nothing of this process but the module path. In a process group
    of its own it does not hear the terminal's Ctrl-C: uploads under way are
    taken in to their end. It stays in the service's session: Linux shares
    the processor between sessions first, whatever the priorities in them.
    """
    modules = json.dumps([str(Path(entry).absolute()) for entry in sys.path])
    threads = max(1, min(_MAX_THREADS, (os.cpu_count() or 2) // 2))
    arguments = (modules, forks.module, str(descriptor), *forks.loaded)
    command = [sys.executable, "-I", "-W", _UNWARNED, "-c", _START, *arguments]
    # An empty environment: no setting and no secret of the service is in what it forks.
    return subprocess.Popen(  # noqa: S603 - fixed words, this interpreter
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL if forks.quiet else None,
        pass_fds=[descriptor],
        env={"POLARS_MAX_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"},
        process_group=0,
    )


@dataclass(frozen=True, slots=True)
class _Host:
    """A host, and the way to it."""

    orders: socket.socket
    process: Started

    @classmethod
    def start(cls, forks: Forks) -> _Host:
        """Start one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            return cls(ours, start_interpreter(forks, theirs.fileno()))

    def order(self, descriptors: Sequence[int], *, spare: bool) -> None:
        """Have a process forked."""
        socket.send_fds(self.orders, [SPARE if spare else LOWER], list(descriptors))

    def stop(self) -> None:
        """End the host."""
        self.orders.close()
        # It holds nothing, and what it has forked does not depend on it.
        self.process.kill()
        self.process.wait()
