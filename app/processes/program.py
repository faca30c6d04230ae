"""The program that every helper process runs, and how the service has processes begun.

Reading an upload, storing it, drawing and costly calculations each happen in a
process of their own, which may be lost, and which gives its memory back when it
ends. Starting an interpreter for each would take a second. So for each kind of work, a *task*
(:data:`TASKS`), a *host* is started once: it loads the task's module, holds nothing of the
service (no environment, no descriptor, no key), and for every order, a few descriptors,
forks a process that works on these. The last of them is its *channel*
(:mod:`app.processes.channel`): when no process holds the other end any more, the process leaves.

The service is never forked itself: a child of a process with threads could inherit a
lock that one of them holds.

*A host: it has loaded what processes need, and forks one for every order.* Host and processes let
the service go first; a process may be started to run in spare time alone
(:mod:`app.processes.spare_time`), and leaves when there is none.

*What a process does first*, of its own: it logs as the service does, and takes no more than it may.

*Crews*: processes at work for many threads, which first run in spare time.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import logging
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from app.domain.problems import ProcessLostError
from app.logs import configure_logs
from app.processes.channel import Message, StarvedError, send
from app.processes.spare_time import Starvation, take_spare_time, there_may_be_spare_time

# A host: it has loaded what processes need, and forks one for every order

LOWER, SPARE = b"l", b"s"
"""What an order says of a process: that it has a lower priority, or spare time alone."""

_LOADED = b"r"
"""What a host sends once, when it has loaded everything."""

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
        with suppress(OSError):  # the other end may be gone
            orders.send(_LOADED)
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
        try:
            how, descriptors, _, _ = socket.recv_fds(orders, 1, _MAX_DESCRIPTORS)
        except ConnectionResetError:  # it went with something unread
            return
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
from app.processes.program import host, loading
descriptor = int(sys.argv[3])
with loading(descriptor):
    for further in sys.argv[4:]:
        importlib.import_module(further)
    module = importlib.import_module(sys.argv[2])
gc.freeze()
gc.set_threshold(50_000)
gc.enable()
host(module, descriptor)
"""
"""The host lets the service go first from before it loads anything, and leaves with it.

What it loads stays, so no garbage is collected while it loads, nor among it in what is forked.
There it is collected rarely: a collection takes longer than a small draw, and an answer of a
million numbers is a third faster.
"""


class Forks:
    """Has processes forked to order; the host is started by the first. Any thread may use it.

    Parameters
    ----------
    module
        What the host loads; its function ``work`` takes an order's descriptors
        (:func:`app.processes.program.host`).
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

    def is_ready(self) -> bool:
        """Return whether the host has loaded what it needs; one that was lost is started again."""
        with self._lock:
            if (ready := self._host().is_ready()) is None:
                self._drop()
                self._host()
            return bool(ready)

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


def start_interpreter(forks: Forks, descriptor: int) -> subprocess.Popen[bytes]:
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


@dataclass(slots=True)
class _Host:
    """A host, and the way to it; ``loaded`` is whether it has said that it is ready."""

    orders: socket.socket
    process: subprocess.Popen[bytes]
    loaded: bool = False

    @classmethod
    def start(cls, forks: Forks) -> _Host:
        """Start one."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            return cls(ours, start_interpreter(forks, theirs.fileno()))

    def order(self, descriptors: Sequence[int], *, spare: bool) -> None:
        """Have a process forked."""
        socket.send_fds(self.orders, [SPARE if spare else LOWER], list(descriptors))

    def is_ready(self) -> bool | None:
        """Return whether it has loaded everything; None if it is gone."""
        try:
            while self.orders.recv(1, socket.MSG_DONTWAIT):
                self.loaded = True
        except BlockingIOError:  # nothing more is said, and the other end is there
            return self.loaded
        except OSError:
            return None
        return None

    def stop(self) -> None:
        """End the host."""
        self.orders.close()
        # It holds nothing, and what it has forked does not depend on it.
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of work: the module that does it, and what its processes print.

    The module's ``work`` takes an order's descriptors; see :func:`host`.
    """

    module: str
    quiet: bool = False


TASKS: Mapping[str, Task] = {
    # small draws and jobs
    "draw": Task("app.processes.draws"),
    "calculate": Task("app.processes.calculations"),
    # stores uploads, compares and indexes them
    "store": Task("app.processes.uploads"),
    # reads uploads and drafts their specs, confined
    "read": Task("app.processes.upload_reader", quiet=True),
}
"""All that is done in processes of its own."""

HOSTS: Mapping[str, Forks] = {
    name: Forks(task.module, quiet=task.quiet) for name, task in TASKS.items()
}
"""By task, the hosts that this process shares; each is started when it is first needed."""


@atexit.register
def _close_hosts() -> None:
    for forks in HOSTS.values():
        forks.close()


# What a process does first

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # as malloc.h numbers them
_KEPT_BYTES, _LARGE_BYTES = 1 << 28, 1 << 25
_OOM_SCORE = 500
"""Before the service itself, and after what reads uploads."""


def prepare(
    *,
    log_level: str,
    directories: Collection[Path] = (),
    limits: Mapping[int, int] | None = None,
    finishes: bool = False,
) -> None:
    """Log as the service does, and take no more than this process may use.

    Parameters
    ----------
    log_level
        Least severe line of its log.
    directories
        Where it writes, or reads the service's files.
    limits
        As for :func:`confine`.
    finishes
        Whether it goes on after a SIGTERM. One for all processes at once is the
        service's to act on, which lets charged releases be drawn.
    """
    if finishes:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    configure_logs(level=log_level, directories=directories)
    end_first(_OOM_SCORE)
    confine(limits or {})


def end_first(score: int) -> None:
    """Have the system end this process rather than others when memory runs out: up to 1000."""
    with suppress(OSError):  # Linux alone has this
        Path("/proc/self/oom_score_adj").write_text(str(score))


def confine(limits: Mapping[int, int]) -> None:
    """Give this process what it may use, for good.

    Parameters
    ----------
    limits
        Resource (``RLIMIT_*``) to how much of it there is.
    """
    # No core dump: it would write rows to the disk.
    for kind, most in {resource.RLIMIT_CORE: 0, **limits}.items():
        resource.setrlimit(kind, (most, most))


def keep_memory() -> None:
    """Have memory that arrays leave used by the next ones, up to so much of it.

    Given back, it would be asked for again at once, page by page. Not for what reads uploads, whose
    memory is bounded: what is kept counts. Where the C library has no such thing it stays as it is.
    """
    with suppress(AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)


# Processes at work for many threads, which first run in spare time

T = TypeVar("T")

_LOG = logging.getLogger(__name__)
_NONE_FOR_S = 10.0  # what has no spare time now has hardly any a moment later


def begun(forks: Forks, order: bytes, *descriptors: int, spare: bool) -> Connection:
    """Have a process forked and send it its order; return its channel."""
    channel = _forked(forks, descriptors, spare=spare)
    with suppress(OSError):  # one that is gone already is noticed next
        channel.send_bytes(order)
    return channel


def _forked(forks: Forks, descriptors: Sequence[int], *, spare: bool) -> Connection:
    ours, theirs = Pipe()
    with theirs:
        forks.order(*descriptors, theirs.fileno(), spare=spare)
    return ours


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
        self._none_until = 0.0

    def in_spare_time(self, attempt: Callable[[bool], T]) -> T:
        """Return what an attempt in spare time comes to, or one without where there is none.

        Where there was none, none is looked for in the next seconds.

        Parameters
        ----------
        attempt
            Called with whether its processes run in spare time; starts from scratch each time.

        Raises
        ------
        Exception
            What the last attempt raises.
        """
        if time.monotonic() >= self._none_until:
            try:
                return attempt(True)
            except StarvedError:
                self._none_until = time.monotonic() + _NONE_FOR_S
                _LOG.info("no spare time")
        return attempt(False)

    def begin(self, order: bytes, *descriptors: int, spare: bool) -> Connection:
        """Have a process started and send it its order; return its channel.

        Parameters
        ----------
        order
            What it is sent.
        descriptors, spare
            As for :meth:`Forks.order`.

        Raises
        ------
        ProcessLostError
            There are to be no more.
        """
        # Under the lock, so that none is begun behind close().
        with self._lock:
            if self._closed:
                raise ProcessLostError("no process is started any more")
            channel = _forked(self._forks, descriptors, spare=spare)
            self._channels.add(channel)
        with suppress(OSError):  # as in begun()
            channel.send_bytes(order)
        return channel

    @contextmanager
    def awaited(self, channel: Connection) -> Iterator[None]:
        """Receive what a process sends, inside, and be done with it afterwards.

        Raises
        ------
        ProcessLostError
            It died.
        StarvedError
            It leaves, for want of spare time; it may not be gone yet.
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

    def close(self, *, at_once: bool = False) -> None:
        """End every process; what waits for one hears that it is lost, once it is gone.

        ``at_once``: before it is gone, for processes that leave nothing but their answer.
        One that cannot leave yet, deep in a calculation say, then blocks no other.
        """
        with self._lock:
            self._closed = True
            for channel in self._channels:
                _shut(channel, at_once=at_once)

    def give_up(self, channel: Connection) -> None:
        """End a process that is at work; what waits for it hears that it is lost, once it is."""
        with self._lock:
            if channel in self._channels:
                _shut(channel, at_once=False)


def _shut(channel: Connection, *, at_once: bool) -> None:
    with socket.socket(fileno=os.dup(channel.fileno())) as end:
        # Shut down and not closed: a thread may be reading from it, and would not hear of that.
        end.shutdown(socket.SHUT_RDWR if at_once else socket.SHUT_WR)
