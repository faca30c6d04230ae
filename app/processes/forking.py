"""Processes that are forked from one which has loaded what they need.

Reading an upload, storing it, small draws and costly plans each happen in a
process of their own, which may be lost, and which gives its memory back when it
ends. Starting an interpreter for each would take a second. So a *host* is started once: it loads
a module, holds nothing of the service (no environment, no descriptor, no key),
and for every order, a few descriptors, forks a process that works on these.
The last of them is its *channel*: when nobody holds the other end any more,
the process leaves. Host and processes let the service go first, from before the
host loads anything; a process may be told to run in spare time alone
(:mod:`app.processes.spare_time`), and leaves when there is none.

*Messages.* A process answers on its channel with messages of one byte that
says what it is (:class:`Message`) and a body.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from app.domain.errors import ProcessLostError
from app.processes.spare_time import Starvation, take_spare_time, there_may_be_spare_time

_MAX_DESCRIPTORS = 2
_MAX_MESSAGE_BYTES = 1 << 24
_MAX_THREADS = 4
_LOOK_MS = 250
_START = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
from app.processes.spare_time import take_lower_priority
take_lower_priority()
from app.processes.forking import host
host(importlib.import_module(sys.argv[2]).work, int(sys.argv[3]))
"""
_LOWER, _SPARE = b"l", b"s"
_SENDING = threading.Lock()


class Message(IntEnum):
    """What a message's body is."""

    BLOCK = 0
    """The declared columns' int32 codes, one column after the other."""
    OUTCOME = 1
    """What the work came to, JSON or (of calculations) pickled; the last message."""
    PROBLEM = 2
    """JSON: code, detail and extras of a refusal; the last message."""
    FAILED = 3
    """A reader says the class of an exception that is none of ours, others nothing; the last."""
    DIGESTS = 4
    """:class:`app.uploads.row_digests.RowDigests`, if the task has a key; before the outcome."""
    STARVED = 5
    """There is no spare time; the last message, which :func:`receive` raises."""


class StarvedError(ProcessLostError):
    """No time was left for a process in spare time, and it has left."""


def send(channel: Connection, message: Message, body: bytes) -> None:
    """Send a message, whole: a process's other thread may have one to send too."""
    with _SENDING:
        channel.send_bytes(bytes([message]) + body)


def receive(
    channel: Connection,
    patience_s: float | None = None,
    *,
    most: int | None = _MAX_MESSAGE_BYTES,
) -> tuple[Message, memoryview]:
    """Return the next message, unless the other end is silent for too long.

    ``most`` bytes are taken, any number if None: for one whose messages follow from ours.

    Raises
    ------
    OSError, EOFError, ValueError, IndexError
        It is silent or gone, or this is no message.
    StarvedError
        It leaves, for want of spare time.
    """
    if not channel.poll(patience_s):
        raise TimeoutError
    content = channel.recv_bytes(most)
    message = Message(content[0])
    if message is Message.STARVED:
        raise StarvedError
    return message, memoryview(content)[1:]


class Forks:
    """Has processes forked to order; the host is started by the first. Any thread may use it.

    Parameters
    ----------
    module
        What the host loads; its function ``work`` takes an order's descriptors.
    quiet
        Whether what a process prints is dropped: a decoder's last words may hold cells.
    """

    def __init__(self, module: str, *, quiet: bool) -> None:
        self.module = module
        self.quiet = quiet
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

    def start(self) -> None:
        """Have a host load what it needs, so that the first order does not wait for it."""
        with self._lock:
            self._host()

    def close(self) -> None:
        """Let go of the host; processes that run are not touched, and an order starts another."""
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


@dataclass(frozen=True, slots=True)
class _Host:
    """A host, and the way to it."""

    orders: socket.socket
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, forks: Forks) -> _Host:
        """Start one.

        It gets nothing of this process but the module path. In a process group
        of its own it does not hear the terminal's Ctrl-C: uploads under way are
        taken in to their end. It stays in the service's session: Linux shares
        the processor between sessions first, whatever the priorities in them.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            modules = json.dumps([str(Path(entry).absolute()) for entry in sys.path])
            threads = max(1, min(_MAX_THREADS, (os.cpu_count() or 2) // 2))
            process = subprocess.Popen(  # noqa: S603 - fixed words, this interpreter
                [sys.executable, "-I", "-c", _START, modules, forks.module, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL if forks.quiet else None,
                pass_fds=[theirs.fileno()],
                env={"POLARS_MAX_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"},
                process_group=0,
            )
        return cls(ours, process)

    def order(self, descriptors: Sequence[int], *, spare: bool) -> None:
        """Have a process forked."""
        socket.send_fds(self.orders, [_SPARE if spare else _LOWER], list(descriptors))

    def stop(self) -> None:
        """End the host."""
        self.orders.close()
        self.process.kill()
        self.process.wait()


def host(work: Callable[..., None], descriptor: int) -> None:
    """Fork a process for every order until the other end goes.

    No thread of ours runs here: those of the libraries start with their first use, but for
    a few of their allocators', which know about forks. A process in spare time is forked
    from a twin of this one that has nothing else itself: to fork costs milliseconds too.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what is forked
    with socket.socket(fileno=descriptor) as orders:
        twin = _Twin(work, orders)
        for how, descriptors in _received(orders):
            with suppress(OSError):  # no process to be had: the channel closes, and that is told
                if how == _SPARE:
                    twin.order(descriptors)
                elif os.fork() == 0:
                    twin.forget()
                    orders.close()
                    _work_and_leave(work, descriptors, spare=False)


class _Twin:
    """A process that forks as its host does, and has spare time; there is none until an order.

    Parameters
    ----------
    work
        What forked processes do.
    orders
        The host's, which is not for the twin: nobody else may seem to listen.
    """

    def __init__(self, work: Callable[..., None], orders: socket.socket) -> None:
        self._work = work
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
        """Let go of the twin; it leaves when nobody holds on to it."""
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
        socket.send_fds(self._way, [_SPARE], list(descriptors))

    def _be(self, orders: socket.socket) -> None:
        try:
            spare = there_may_be_spare_time()
            if spare:
                take_spare_time()
            for _, descriptors in _received(orders):
                with suppress(OSError):  # as in a host
                    if os.fork() == 0:
                        orders.close()
                        _work_and_leave(self._work, descriptors, spare=spare)
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


def _work_and_leave(work: Callable[..., None], descriptors: list[int], *, spare: bool) -> None:
    """Do one order and leave, come what may."""
    try:
        leaving = partial(_leave_with, descriptors[-1], Starvation() if spare else None)
        threading.Thread(target=leaving, daemon=True).start()
        work(*descriptors)
    finally:
        os._exit(0)


def _leave_with(channel: int, starvation: Starvation | None) -> None:
    """End this process when nobody listens any more, or nothing more will be said to it.

    Or when its threads starve, if that is watched: this one gets its moment then, but late.
    """
    hung_up = select.poll()
    hung_up.register(channel, getattr(select, "POLLRDHUP", 0))  # Linux alone has this
    while not hung_up.poll(None if starvation is None else _LOOK_MS):
        with suppress(Exception):  # there may be no memory or no descriptor to look with
            if starvation is not None and starvation.found():
                with Connection(os.dup(channel)) as telling:
                    send(telling, Message.STARVED, b"")
                break
    os._exit(0)


def confine(limits: Mapping[int, int], *, oom_score: int) -> None:
    """Give this process what it may use, for good.

    Parameters
    ----------
    limits
        Resource (``RLIMIT_*``) to how much of it there is.
    oom_score
        How readily the system ends it when memory runs out, up to 1000.
    """
    with suppress(OSError):  # Linux alone has this
        Path("/proc/self/oom_score_adj").write_text(str(oom_score))
    for kind, most in {resource.RLIMIT_CORE: 0, **limits}.items():
        resource.setrlimit(kind, (most, most))
