"""Having processes forked from one that has loaded what they need.

Reading an upload, storing it, drawing and costly plans each happen in a
process of their own, which may be lost, and which gives its memory back when it
ends. Starting an interpreter for each would take a second. So a *host*
(:mod:`app.processes.forking`) is started once: it loads a module, holds nothing of the
service (no environment, no descriptor, no key), and for every order, a few descriptors,
forks a process that works on these. The last of them is its *channel*
(:mod:`app.processes.channel`): when no process holds the other end any more, the process leaves.

The service is never forked itself: a child of a process with threads could inherit a
lock that one of them holds.

*A host: it has loaded what processes need, and forks one for every order.*
:mod:`app.processes.forking` starts it and sends the orders. Host and processes let the service go
first; a process may be started to run in spare time alone (:mod:`app.processes.spare_time`), and
leaves when there is none.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Protocol

from app.processes.channel import Message, send
from app.processes.spare_time import Starvation, take_spare_time, there_may_be_spare_time

# A host: it has loaded what processes need, and forks one for every order

LOWER, SPARE = b"l", b"s"
"""What an order says of a process: that it has a lower priority, or spare time alone."""

# A channel, and what is read: a file, or a reader's blocks and the way to feed it.
_MAX_DESCRIPTORS = 3
_LOOK_MS = 250
_HUNG_UP = getattr(select, "POLLRDHUP", 0)  # Linux alone has this


@contextmanager
def loading(descriptor: int) -> Iterator[None]:
    """Leave as soon as the other end goes, while the block lasts: to load takes seconds."""
    loaded, telling = os.pipe()
    looking = threading.Thread(target=_leave_unless, args=(descriptor, loaded))
    looking.start()
    try:
        yield
    finally:
        os.close(telling)
        looking.join()  # no thread runs when processes are forked
        os.close(loaded)


def _leave_unless(descriptor: int, loaded: int) -> None:
    """End this process when the other end of a descriptor goes before that of another does."""
    gone = select.poll()
    gone.register(descriptor, _HUNG_UP)
    gone.register(loaded, _HUNG_UP)
    if any(each == descriptor for each, _ in gone.poll()):
        os._exit(0)


def host(module: ModuleType, descriptor: int) -> None:
    """Fork a process for every order until the other end goes.

    The module's ``work`` takes an order's descriptors. Its ``first``, if it has one, takes them
    before, while the process has no other thread: confinement holds for threads that come later.

    No thread of ours runs here: those of the libraries start with their first use, but for
    a few of their allocators', which know about forks. A process in spare time is forked
    from a second host like this one that has nothing else itself: to fork costs milliseconds too.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for its forks
    with socket.socket(fileno=descriptor) as orders:
        fork = _Twin(module, orders)
        for how, descriptors in _received(orders):
            with suppress(OSError):  # no process to be had: the channel closes, which reports it
                if how == SPARE:
                    fork.order(descriptors)
                elif os.fork() == 0:
                    fork.forget()
                    orders.close()
                    _work_and_leave(module, descriptors, spare=False)


class _Twin:
    """A process that forks as its host does, and has spare time; there is none until an order.

    Parameters
    ----------
    module
        What forked processes do.
    orders
        The host's, which the second host closes: only the host may listen.
    """

    def __init__(self, module: ModuleType, orders: socket.socket) -> None:
        self._module = module
        self._host_orders = orders
        self._way: socket.socket | None = None

    def order(self, descriptors: Sequence[int]) -> None:
        """Have a process forked."""
        try:
            self._send(descriptors)
        except OSError:  # it was lost since the last order
            self.forget()
            self._send(descriptors)

    def forget(self) -> None:
        """Close the way to the second host, which then leaves."""
        if self._way is not None:
            self._way.close()
            self._way = None

    def _send(self, descriptors: Sequence[int]) -> None:
        if self._way is None:
            self._way, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                if os.fork() == 0:
                    self.forget()
                    self._host_orders.close()
                    for each in descriptors:  # who holds one seems to listen
                        os.close(each)
                    self._be(theirs)
        socket.send_fds(self._way, [SPARE], list(descriptors))

    def _be(self, orders: socket.socket) -> None:
        try:
            spare = there_may_be_spare_time()
            if spare:
                take_spare_time()
            for _, descriptors in _received(orders):
                with suppress(OSError):  # as in a host
                    if os.fork() == 0:
                        orders.close()
                        _work_and_leave(self._module, descriptors, spare=spare)
        finally:
            os._exit(0)


def _received(orders: socket.socket) -> Iterator[tuple[bytes, list[int]]]:
    """Yield orders until the other end goes; what an order comes with is closed after it."""
    while True:
        how, descriptors, _, _ = socket.recv_fds(orders, 1, _MAX_DESCRIPTORS)
        if not descriptors:
            return
        yield how, descriptors
        for each in descriptors:
            os.close(each)


def _work_and_leave(module: ModuleType, descriptors: list[int], *, spare: bool) -> None:
    """Do one order and leave, come what may."""
    try:
        if (first := getattr(module, "first", None)) is not None:
            first(*descriptors)
        # A thread that only waits: work itself may be deep in a library when the server goes.
        leaving = partial(_leave_with, descriptors[-1], Starvation() if spare else None)
        threading.Thread(target=leaving, daemon=True).start()
        module.work(*descriptors)
    finally:
        os._exit(0)


def _leave_with(channel: int, starvation: Starvation | None) -> None:
    """End this process when its channel is closed at the other end.

    Or when its threads starve, if that is watched: this one gets its moment then, but late.
    """
    hung_up = select.poll()
    hung_up.register(channel, _HUNG_UP)
    while not hung_up.poll(None if starvation is None else _LOOK_MS):
        with suppress(Exception):  # there may be no memory or no descriptor to look with
            if starvation is not None and starvation.found():
                with Connection(os.dup(channel)) as telling:
                    send(telling, Message.STARVED, b"")
                break
    os._exit(0)


# Having processes forked from one that has loaded what they need

_MAX_THREADS = 4
_UNWARNED = "ignore:resource_tracker:UserWarning"
"""Processes leave at once. What unlinks the semaphores that they had need not warn of it."""
_START = """
import gc, importlib, json, sys
gc.disable()
sys.path[:] = json.loads(sys.argv[1])
from app.processes.spare_time import take_lower_priority
take_lower_priority()
from app.processes.forking import host, loading
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
        (:func:`app.processes.forking.host`).
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
