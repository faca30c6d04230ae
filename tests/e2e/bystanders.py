"""Somebody who reads and releases while others attack the server: how long answers take."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from tests.e2e.live import LiveServer, release_mean

ROUNDS = 3
FACTOR = 2.0


def latencies(server: LiveServer, dataset: str, column: str, seconds: float) -> list[float]:
    """Read and release in turns, another question each time; return how long each took."""
    found: list[float] = []
    with server.client() as client:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            started = time.perf_counter()
            number = time.time_ns()
            if len(found) % 2:
                answer = client.get(f"/v1/datasets/{dataset}/budget")
            else:
                epsilon = f"0.00000{1 + number % 999:03}"
                answer = release_mean(
                    client, dataset, column=column, epsilon=epsilon, key=str(number)
                )
            found.append(time.perf_counter() - started)
            assert answer.status_code < 300, answer.text
    return found


def require_served_as_before(
    server: LiveServer,
    dataset: str,
    column: str,
    attacked: Callable[[], AbstractContextManager[None]],
    *,
    seconds: float,
) -> None:
    """Fail unless the 99th percentile at most doubles under an attack.

    The slack is what the quiet times themselves differ by; whatever else the machine
    does can only make answers slower, for a while.
    """

    def p99(seconds: float) -> float:
        found = sorted(latencies(server, dataset, column, seconds))
        return found[int(0.99 * len(found))]

    latencies(server, dataset, column, 1)
    quiet, measured = [p99(seconds)], []
    for _ in range(ROUNDS):
        with attacked():
            busy = p99(2 * seconds)
        with server.client() as admin:
            assert admin.get("/readyz").status_code == 200
        quiet.append(p99(seconds))
        measured.append(busy)
        if busy <= FACTOR * max(quiet) + (max(quiet) - min(quiet)):
            return
    pytest.fail(f"99th percentiles: quiet {quiet} s, while under attack {measured} s")
