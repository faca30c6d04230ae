"""The path of one warm release through the server's code: files visited, and calls between them.

A service with its usual settings answers over HTTP in this process, whose threads all run under
Python's profiler. Once a question has been asked often enough that everything is loaded and known,
it is asked a few times more. A *hop* is a call from a function of one product file to a function of
another, whatever library lies between them; a coroutine that goes on counts as called once more. Of
the releases counted the shortest is shown: now and then one also does what falls due by the clock.
What happens in other processes is not counted, nor is other code than ``app`` and ``mechanisms``.

``python -m studies.hops`` prints both figures, and how many of the hops lead into each package;
with ``--calls`` every hop in its order, with ``--json`` the figures for a program.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import uvicorn

from app.main import create_app
from app.settings import Settings
from studies import load, service

_ROOT = Path(__file__).parent.parent
_PRODUCT = ("app", "mechanisms")
_WARMING, _COUNTED = 15, 15
_DRAWN = "app/engine/run.py"
_PATIENCE_S = 120.0
_QUIET_S = 0.05  # an answer has left before its last task has ended


@cache
def _product_file(name: str) -> str | None:
    """Return a source's path in this project, or None for code of others."""
    path = Path(name)
    if not path.is_relative_to(_ROOT):
        return None
    inside = path.relative_to(_ROOT)
    return str(inside) if inside.parts[0] in _PRODUCT else None


@dataclass(frozen=True, slots=True)
class Hop:
    """A call from one file's function to another's, in a thread."""

    thread: str
    caller: str
    called: str
    function: str

    def __str__(self) -> str:
        return f"{self.thread:<14} {self.caller:<40} {self.called}:{self.function}"


@dataclass(frozen=True, slots=True)
class Trip:
    """What one release has visited, its hops in order."""

    files: frozenset[str]
    hops: tuple[Hop, ...]


class _Recorder:
    """A profiler's hook: it notes calls into product code while it records."""

    def __init__(self) -> None:
        self.recording = False
        self._files: set[str] = set()
        self._hops: list[Hop] = []

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        if not self.recording or event != "call":
            return
        called = _product_file(frame.f_code.co_filename)
        if called is None:
            return
        self._files.add(called)
        caller = _product_caller(frame)
        if caller is not None and caller != called:
            name = threading.current_thread().name
            self._hops.append(Hop(name, caller, called, frame.f_code.co_name))

    def take(self) -> Trip:
        """Return what has been noted since last asked."""
        trip = Trip(frozenset(self._files), tuple(self._hops))
        self._files.clear()
        self._hops.clear()
        return trip


def _product_caller(frame: FrameType) -> str | None:
    """Return the product file that a call comes from, over any library's frames between."""
    before = frame.f_back
    while before is not None:
        if (file := _product_file(before.f_code.co_filename)) is not None:
            return file
        before = before.f_back
    return None


def shortest_trip() -> Trip:
    """Serve in this thread, ask in another, and return the shortest of the counted trips.

    The process's profiler and settings are changed for good: use a process of its own.
    """
    recorder, trips = _Recorder(), list[Trip]()
    with tempfile.TemporaryDirectory() as folder, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
        probe.close()
        os.environ["RELEASE_DESK_DATA_DIR"] = folder
        os.environ["RELEASE_DESK_BOOTSTRAP_KEY"] = service.KEY
        os.environ["RELEASE_DESK_LOG_LEVEL"] = "error"
        server = _server(port)
        client = threading.Thread(target=_ask, args=(port, server, recorder, trips))
        client.start()  # before the hook, which is for the server's threads alone
        threading.setprofile(recorder)
        sys.setprofile(recorder)
        try:
            server.run()
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        client.join()
    if len(trips) < _COUNTED:
        raise RuntimeError("the service did not answer")
    return min(trips, key=lambda trip: (len(trip.hops), len(trip.files)))


def _server(port: int) -> uvicorn.Server:
    config = uvicorn.Config(
        create_app(Settings()),
        host="127.0.0.1",
        port=port,
        http="app.api.connections:PatientProtocol",
        ws="none",
        log_level="error",
        access_log=False,
    )
    return uvicorn.Server(config)


def _ask(port: int, server: uvicorn.Server, recorder: _Recorder, trips: list[Trip]) -> None:
    """Ask for the same mean again and again, and stop the server."""
    try:
        service.wait_until_ready(port)
        dataset = service.upload(port, 1000)
        warm, until = 0, time.monotonic() + _PATIENCE_S
        while len(trips) < _COUNTED:
            trip = _trip(port, dataset, recorder)
            # Until the draw process is ready the server draws itself.
            warm += _DRAWN not in trip.files
            if warm > _WARMING:
                trips.append(trip)
            elif time.monotonic() > until:
                raise RuntimeError("no draw process has begun")
    finally:
        server.should_exit = True


def _trip(port: int, dataset: str, recorder: _Recorder) -> Trip:
    """Return what a release visits from its request to its last task's end."""
    question = service.mean_request(dataset, f"hops-{time.monotonic_ns()}")
    recorder.take()
    recorder.recording = True
    asked = load.run(port, question, total=1, connections=1)
    time.sleep(_QUIET_S)
    recorder.recording = False
    if set(asked.statuses) != {201}:
        raise RuntimeError(f"a release was refused: {asked.statuses}")
    return recorder.take()


def _main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m studies.hops", description=__doc__)
    parser.add_argument("--calls", action="store_true", help="list every hop")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    chosen = parser.parse_args(arguments)
    trip = shortest_trip()
    if chosen.json:
        found = {"files": sorted(trip.files), "hops": len(trip.hops)}
        sys.stdout.write(json.dumps(found) + "\n")
        return
    sys.stdout.write(f"{len(trip.files)} files, {len(trip.hops)} hops\n")
    into = Counter(str(Path(hop.called).parent) for hop in trip.hops)
    files = Counter(str(Path(file).parent) for file in trip.files)
    for package in sorted(files):
        sys.stdout.write(f"  {package:<28} {files[package]:3} files {into[package]:4} hops\n")
    for hop in trip.hops if chosen.calls else ():
        sys.stdout.write(f"{hop}\n")


if __name__ == "__main__":
    _main()
