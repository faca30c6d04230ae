"""Processes that are forked from one which has loaded what they need.

Reading an upload, storing it, small draws and costly plans each happen in a
process of their own, which may be lost, and which gives its memory back when it
ends. Starting an interpreter for each would take a second. So a *host* is started once: it loads
a module, holds nothing of the service (no environment, no descriptor, no key),
and for every order, a few descriptors, forks a process that works on these.
The last of them is its *channel*: when nobody holds the other end any more,
the process leaves. Host and processes let the service go first
(:func:`give_way`), from before the host loads anything: a fork and its end
cost milliseconds themselves.

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import IntEnum
from multiprocessing.connection import Connection, Pipe
from pathlib import Path

_MAX_DESCRIPTORS = 2
_MAX_MESSAGE_BYTES = 1 << 24
_MAX_THREADS = 4
_NICENESS = 5
_START = """
import importlib, json, sys
sys.path[:] = json.loads(sys.argv[1])
from app.engine.forking import give_way, host
give_way(spare=sys.argv[4] == "spare")
host(importlib.import_module(sys.argv[2]).work, int(sys.argv[3]))
"""


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
    """:class:`app.engine.row_digests.RowDigests`, if the task has a key; before the outcome."""


class ProcessLostError(Exception):
    """A process of ours failed or died; what there is to say is in its own log."""


def send(channel: Connection, message: Message, body: bytes) -> None:
    """Send a message."""
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
    """
    if not channel.poll(patience_s):
        raise TimeoutError
    content = channel.recv_bytes(most)
    return Message(content[0]), memoryview(content)[1:]


class Forks:
    """Has processes forked to order; the host is started by the first. Any thread may use it.

    Parameters
    ----------
    module
        What the host loads; its function ``work`` takes an order's descriptors.
    quiet
        Whether what a process prints is dropped: a decoder's last words may hold cells.
    spare
        Whether host and processes run in time that nobody else in the service wants,
        rather than at a lower priority; see :func:`give_way`.
    """

    def __init__(self, module: str, *, quiet: bool, spare: bool) -> None:
        self.module = module
        self.quiet = quiet
        self.spare = spare
        self._lock = threading.Lock()
        # by process: a forked one does not use its parent's
        self._hosts: dict[int, _Host] = {}

    def order(self, *descriptors: int) -> None:
        """Have a process forked for these descriptors, which the caller keeps."""
        with self._lock:
            try:
                self._host().order(*descriptors)
            except OSError:  # the host was lost since the last order
                self._drop()
                self._host().order(*descriptors)

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
            told = [
                modules,
                forks.module,
                str(theirs.fileno()),
                "spare" if forks.spare else "after",
            ]
            process = subprocess.Popen(  # noqa: S603 - fixed words, this interpreter
                [sys.executable, "-I", "-c", _START, *told],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL if forks.quiet else None,
                pass_fds=[theirs.fileno()],
                env={"POLARS_MAX_THREADS": str(threads), "OPENBLAS_NUM_THREADS": "1"},
                process_group=0,
            )
        return cls(ours, process)

    def order(self, *descriptors: int) -> None:
        """Have a process forked."""
        socket.send_fds(self.orders, [b"o"], list(descriptors))

    def stop(self) -> None:
        """End the host."""
        self.orders.close()
        self.process.kill()
        self.process.wait()


class Crew:
    """Processes at work, each on one order; any number of threads may each wait for one.

    Parameters
    ----------
    forks
        Where they come from.
    """

    def __init__(self, forks: Forks) -> None:
        self._forks = forks
        self._lock = threading.Lock()
        self._channels: set[Connection] = set()
        self._closed = False

    def begin(self, order: bytes, *descriptors: int) -> Connection:
        """Have a process started and told what to do; return its channel.

        Raises
        ------
        ProcessLostError
            There are to be no more.
        """
        ours, theirs = Pipe()
        with theirs, self._lock:
            if self._closed:
                ours.close()
                raise ProcessLostError("no process is started any more")
            self._forks.order(*descriptors, theirs.fileno())
            self._channels.add(ours)
        with suppress(OSError):  # one that is gone already is noticed next
            ours.send_bytes(order)
        return ours

    @contextmanager
    def awaited(self, channel: Connection) -> Iterator[None]:
        """Receive what a process sends, inside, and be done with it afterwards.

        Raises
        ------
        ProcessLostError
            It died.
        """
        try:
            yield
        except (OSError, EOFError):
            raise ProcessLostError("a process died") from None
        finally:
            self.end(channel)

    def end(self, channel: Connection) -> None:
        """Have a process leave."""
        with self._lock:
            self._channels.discard(channel)
        channel.close()

    def close(self) -> None:
        """End every process; what waits for one hears that it is lost, once it is gone."""
        with self._lock:
            self._closed = True
            for channel in self._channels:
                with socket.socket(fileno=os.dup(channel.fileno())) as end:
                    end.shutdown(socket.SHUT_WR)


def host(work: Callable[..., None], descriptor: int) -> None:
    """Fork a process for every order until the other end goes.

    No thread of ours runs here: those of the libraries start with their first use, but for
    a few of their allocators', which know about forks.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what is forked
    with socket.socket(fileno=descriptor) as orders:
        while True:
            _, descriptors, _, _ = socket.recv_fds(orders, 1, _MAX_DESCRIPTORS)
            if not descriptors:
                return
            with suppress(OSError):  # no process to be had: the channel closes, and that is told
                if os.fork() == 0:
                    orders.close()
                    _work_and_leave(work, descriptors)
            for each in descriptors:
                os.close(each)


def _work_and_leave(work: Callable[..., None], descriptors: list[int]) -> None:
    """Do one order and leave, come what may."""
    try:
        threading.Thread(target=_leave_with, args=(descriptors[-1],), daemon=True).start()
        work(*descriptors)
    finally:
        os._exit(0)


def _leave_with(channel: int) -> None:
    """End this process when nobody listens any more, or nothing more will be said to it."""
    hung_up = select.poll()
    hung_up.register(channel, getattr(select, "POLLRDHUP", 0))  # Linux alone has this
    hung_up.poll()
    os._exit(0)


def give_way(*, spare: bool) -> None:
    """Let the service's own threads go first, in this process and those it forks.

    Under Linux a thread that wakes waits for the slice of the one that runs, some
    milliseconds, however low that one's priority is. One that has only spare
    time is interrupted at once; where the service leaves none, it gets next to none.

    Parameters
    ----------
    spare
        Whether to have only spare time, for what costs much and may wait.
    """
    if spare:
        with suppress(AttributeError, OSError):  # Linux alone has this
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            return
    os.nice(_NICENESS)


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
