"""Servers and their hosts, forked from a process that has loaded all: to load takes seconds.

A host (:mod:`app.processes.program`) that is forked differs in nothing but that from one that is
started: its environment is empty, it has a group of its own and a lower priority, and it leaves
with its server. One that is started is tested next to this, and wherever a test starts a server by
its command.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import os
import signal
import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from app.processes import program
from app.processes.program import Forks, host
from app.processes.spare_time import take_lower_priority

LOADED = multiprocessing.get_context("forkserver")
"""What begins processes; each has loaded what servers, hosts and tests of the ledger need."""
LOADED.set_forkserver_preload(
    [
        "app.cli", "app.main", "alembic.command", "anyio._backends._asyncio", "httpx", "polars",
        "uvicorn", "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.protocols.http.auto",
        "app.processes.calculations", "app.processes.draws",
        "app.processes.upload_reader", "app.processes.uploads",
        "pytest", "tests.app.disk", "tests.app.homes", "tests.app.loaded",
    ]
)  # fmt: skip
_MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class _Forked:
    """A host that another process has forked, and waits for."""

    pid: int

    def kill(self) -> None:
        """End it; it may have left."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> None:
        """Wait for nothing: it has been killed, and holds nothing."""


def may_have_children() -> None:
    """Let this process begin others: one that ends with the tests, a daemon, otherwise may not."""
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]


def fork_hosts() -> None:
    """Have the hosts of this process forked from a copy of it as it is now, without threads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _fork_to_order(theirs)
    theirs.close()
    one_by_one = threading.Lock()

    def forked(forks: Forks, descriptor: int) -> _Forked:
        order = json.dumps([forks.module, forks.quiet, forks.loaded]).encode()
        with one_by_one:
            socket.send_fds(ours, [order], [descriptor, 2])
            return _Forked(int(ours.recv(_MOST_BYTES)))

    program.start_interpreter = forked


def _fork_to_order(orders: socket.socket) -> None:
    """Fork a host for every order until the other end goes."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no one waits for what is forked
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        while True:
            order, descriptors, _, _ = socket.recv_fds(orders, _MOST_BYTES, 2)
            if not descriptors:
                break
            pid = os.fork()
            if pid == 0:
                orders.close()
                _be_host(*json.loads(order), *descriptors)
            for each in descriptors:
                os.close(each)
            orders.send(str(pid).encode())
    finally:
        os._exit(0)


def _be_host(module: str, quiet: bool, further: list[str], descriptor: int, log: int) -> None:
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update({"POLARS_MAX_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"})
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard, place in enumerate((nothing, nothing, nothing if quiet else log)):
        os.dup2(place, standard)
    for each in (nothing, log):
        os.close(each)
    Path("/proc/self/comm").write_text(module.rpartition(".")[2])
    take_lower_priority()
    for each in further:
        importlib.import_module(each)
    loaded = importlib.import_module(module)
    gc.freeze()
    host(loaded, descriptor)
