"""Processes that try what a taken-over decoder might, for tests.

A host forks them as it forks readers of uploads (:mod:`app.processes.upload_reader`).
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import threading
from collections.abc import Callable, Mapping
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from app.processes import upload_reader
from app.uploads.sources.feeding import reopened

first = upload_reader.first


def work(file: int, channel: int) -> None:
    """Try everything, in this thread and in one that is started later; send what became of it."""
    with Connection(channel) as sending:
        order = json.loads(sending.recv_bytes())
        done = [tried(file, **order)]
        later = threading.Thread(target=lambda: done.append(tried(file, **order)))
        later.start()
        later.join()
        sending.send_bytes(json.dumps(done).encode())


def tried(file: int, *, folder: str, port: int, service: int) -> Mapping[str, str | None]:
    """Return what was refused with which error, and what worked with None."""
    found: dict[str, str | None] = {}
    for name, attempt in attempts(file, Path(folder), port, service).items():
        try:
            attempt()
        except Exception as error:
            found[name] = type(error).__name__
        else:
            found[name] = None
    return found


def attempts(
    file: int, folder: Path, port: int, service: int
) -> Mapping[str, Callable[[], object]]:
    """Return what may be tried on a folder, a port where something listens, and a process."""
    ledger = folder / "release-desk.db"
    libc = ctypes.CDLL(None, use_errno=True)

    def victim(number: int) -> Path:
        return folder / f"victim{number}"

    def called(name: str, *words: object) -> None:
        if getattr(libc, name)(*words) < 0:
            raise OSError(ctypes.get_errno(), name)

    def connected(kind: int) -> None:
        with socket.socket(socket.AF_INET, kind) as made:
            made.connect(("127.0.0.1", port))

    def forked() -> None:
        if os.fork() == 0:
            os._exit(0)

    return {
        "open its own file again": lambda: os.close(reopened(file)),
        "read the ledger": ledger.read_bytes,
        "list its folder": lambda: list(folder.iterdir()),
        "read it through another process": Path(f"/proc/{service}/root{ledger}").read_bytes,
        "read the service's environment": Path(f"/proc/{service}/environ").read_bytes,
        "truncate by name": lambda: os.truncate(victim(0), 0),
        "truncate by opening": lambda: victim(1).open("wb").close(),
        "append": lambda: victim(2).open("ab").close(),
        "truncate its own file": lambda: os.ftruncate(file, 0),
        "map its own file to write": lambda: mmap.mmap(file, 1, mmap.MAP_SHARED),
        "write to its own file": lambda: os.write(file, b"x"),
        "unlink": lambda: victim(3).unlink(),
        "rename": lambda: victim(4).rename(folder / "renamed"),
        "link": lambda: os.link(victim(5), folder / "linked"),
        "make a file": (folder / "made").touch,
        "make a folder": (folder / "folder").mkdir,
        "change a mode": lambda: victim(6).chmod(0o777),
        "change a time": lambda: os.utime(victim(7)),
        "open TCP": partial(connected, socket.SOCK_STREAM),
        "open UDP": partial(connected, socket.SOCK_DGRAM),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)).close(),
        "open a local socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "fork": forked,
        "run a program": lambda: called("execve", b"/no/such/program", None, None),
        "signal the service": lambda: os.kill(service, signal.SIGCONT),
        "signal its group": lambda: os.kill(0, signal.SIGCONT),
        "limit the service": lambda: resource.prlimit(service, resource.RLIMIT_CORE, (0, 0)),
        "take a descriptor": lambda: os.pidfd_open(service),
        "trace the service": lambda: called("ptrace", 16, service, 0, 0),
    }
