"""A host: it has loaded what processes need, and forks one for every order.

:mod:`app.processes.forking` starts it and sends the orders. Host and processes let the
service go first; a process may be started to run in spare time alone
(:mod:`app.processes.spare_time`), and leaves when there is none.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from types import ModuleType

from app.processes.channel import Message, send
from app.processes.spare_time import Starvation, take_spare_time, there_may_be_spare_time

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
