"""At the socket, the time of an answer shows nothing of its noise and nothing of the data.

The small runs make draws leak on purpose, by sleeping as long as their noise is
large or as their data set says, and show that the slot takes the leak away and
that without it, or with the next tick in its place, the same test would find it.
The full run (``-m long``) takes the real draws of a real server process.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import numpy as np
import pytest
from scipy.stats import ks_2samp, spearmanr

from app.domain.units import Schedule, response_schedule
from app.services.releases import charged_draws
from app.services.releases import draws as draw_module
from app.services.releases import public_moments as showing_module
from app.web import state as clock_module
from tests.contract import service as contract
from tests.e2e import live

pytestmark = [pytest.mark.slow, pytest.mark.timed]

SLOT_MS = 200
LEAK_S = 0.1
CONNECTIONS = 24
ASKED = 480
ASKED_OF_BOTH, LEAST_P = 1000, 1e-9
"""Laws that are 0.21 apart somewhere are found, as by 480 at 1e-4; by chance hardly ever."""
MEAN: dict[str, Any] = {"statistic": {"kind": "mean", "columns": ["x"]}, "epsilon": "0.01"}
LINE: dict[str, Any] = {
    "statistic": {"kind": "linear_regression", "target": "y", "features": ["x"], "bound": 2},
    "mechanism": "exponential",
    "epsilon": "0.01",
}
BOUNDS = {"type": "number", "lower": -1, "upper": 1}
COLUMNS = {"x": BOUNDS, "y": BOUNDS}
FLAT = "x,y\n" + "0,0\n" * 40
WORST = "x,y\n" + "0,0\n" * 39 + "1,1\n"


@dataclass(frozen=True)
class Answered:
    """One answer: its data set, how long it took, how much of a slot early, what it says."""

    dataset: str
    latency_s: float
    early_ms: float
    value: dict[str, Any]


@dataclass(frozen=True)
class Desk:
    """Where releases are asked for, and as whom."""

    port: int
    key: str
    slot_ms: int
    connections: int = CONNECTIONS

    def ask(self, datasets: Sequence[str], body: dict[str, Any], count: int) -> list[Answered]:
        """Ask ``count`` questions, of each data set in turn, at random moments of the slot."""
        return asyncio.run(self._ask(datasets, json.dumps(body).encode(), count))

    async def _ask(self, datasets: Sequence[str], body: bytes, count: int) -> list[Answered]:
        numbers = iter(range(count))
        pauses = random.Random(1)
        found: list[Answered] = []

        async def connection() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            for number in numbers:
                dataset = datasets[number % len(datasets)]
                await asyncio.sleep(pauses.uniform(0, self.slot_ms / 1000))
                found.append(await self._one(reader, writer, dataset, body))
            writer.close()

        await asyncio.gather(*(connection() for _ in range(self.connections)))
        return found

    async def _one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, dataset: str, body: bytes
    ) -> Answered:
        head = (
            f"POST /v1/datasets/{dataset}/releases HTTP/1.1\r\nHost: desk\r\n"
            f"Authorization: Bearer {self.key}\r\nIdempotency-Key: {uuid4()}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        sent_ms, started = time.time() * 1000, time.perf_counter()
        writer.write(head.encode() + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        latency_s, received_ms = time.perf_counter() - started, time.time() * 1000
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = await reader.readexactly(length)
        assert answer.startswith(b"HTTP/1.1 201"), content
        earliest = response_schedule(arrived_ms=int(sent_ms), slot_ms=self.slot_ms).deadline_ms
        return Answered(dataset, latency_s, earliest - received_ms, json.loads(content)["value"])


def correlation(answers: Sequence[Answered]) -> float:
    """Return Spearman's rho of latency and |noise|; the mean of the data is 0."""
    return float(
        spearmanr(
            [answer.latency_s for answer in answers],
            [abs(answer.value["x"]) for answer in answers],
        ).statistic
    )


def told_apart(answers: Sequence[Answered], one: str) -> float:
    """Return the p-value of the two data sets' latencies having one law."""
    ours = [answer.latency_s for answer in answers if answer.dataset == one]
    theirs = [answer.latency_s for answer in answers if answer.dataset != one]
    return float(ks_2samp(ours, theirs).pvalue)


def leaking(sleep_s: Callable[[Any, str], float]) -> Callable[..., Any]:
    """Return the draw, followed by a sleep that its value and its data set decide."""
    draw = charged_draws.run

    def slow(plan: Any, data: Any) -> Any:
        outcome = draw(plan, data)
        time.sleep(sleep_s(outcome.value, data._key))
        return outcome

    return slow


@contextmanager
def desk(directory: Path, slot_ms: int) -> Iterator[tuple[Desk, list[str]]]:
    """Serve from a thread of this process, where draws can be made to leak; add data sets."""
    with (
        contract.running(directory, response_slot_ms=slot_ms, draw_threads=64) as service,
        service.client() as client,
    ):
        datasets = [
            str(contract.upload(client, rows, columns=COLUMNS, budget={"epsilon": "1000"})["id"])
            for rows in (FLAT, WORST)
        ]
        yield Desk(httpx.URL(service.url).port or 0, contract.ADMIN_KEY, SLOT_MS), datasets


def make_slow(monkeypatch: pytest.MonkeyPatch, sleep_s: Callable[[Any, str], float]) -> None:
    """Let draws leak, each in a thread of its own like all whose time may depend on data."""
    monkeypatch.setattr(charged_draws, "run", leaking(sleep_s))
    monkeypatch.setattr(draw_module, "batched_ms", lambda *_: math.inf)


def as_long_as_the_noise(value: Any, _dataset: str) -> float:
    return float(min(LEAK_S, abs(value["x"]) * LEAK_S / 5))


@pytest.mark.parametrize(("slot_ms", "leaks"), [(SLOT_MS, False), (0, True)])
def test_latency_tells_nothing_of_the_noise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slot_ms: int, leaks: bool
) -> None:
    make_slow(monkeypatch, as_long_as_the_noise)
    with desk(tmp_path / "data", slot_ms) as (service, datasets):
        answers = service.ask(datasets[:1], MEAN, ASKED)
    rho = correlation(answers)
    # five standard deviations of an independent pair; the leak alone is several times that
    assert (abs(rho) > 5 / np.sqrt(len(answers))) == leaks, rho
    if not leaks:
        assert max(answer.early_ms for answer in answers) <= 0


@pytest.mark.parametrize("rule", ["a full slot", "the next tick"])
def test_latency_tells_nothing_of_the_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: str
) -> None:
    slow: set[str] = set()
    make_slow(monkeypatch, lambda _, dataset: LEAK_S if dataset in slow else 0.0)
    if rule == "the next tick":
        for module in (clock_module, showing_module):
            monkeypatch.setattr(module, "response_schedule", next_tick)
    with desk(tmp_path / "data", SLOT_MS) as (service, datasets):
        slow.add(datasets[1])
        answers = service.ask(datasets, MEAN, ASKED_OF_BOTH)
    p = told_apart(answers, datasets[0])
    if rule == "the next tick":
        assert p < LEAST_P, p
    else:
        assert p > LEAST_P, p
        assert max(answer.early_ms for answer in answers) <= 0


def next_tick(*, arrived_ms: int, slot_ms: int) -> Schedule:
    """The rule that leaks: a draw that just misses a tick waits for the next one."""
    tick = -(-arrived_ms // slot_ms) * slot_ms
    return Schedule(tick - slot_ms, slot_ms)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_full_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """20,000 means and 10,000 regressions on two worst neighbours: a server's real draws.

    An independent pair's rho is within 0.02 with probability 0.995.
    """
    with live.LiveServer(tmp_path / "data", RELEASE_DESK_RESPONSE_SLOT_MS="100") as server:
        with server.client() as client:
            datasets = [
                str(live.upload(client, rows, COLUMNS, budget={"epsilon": "1000"})["id"])
                for rows in (FLAT, WORST)
            ]
        service = Desk(server.port, live.ADMIN_KEY, slot_ms=100, connections=48)
        means = service.ask(datasets[:1], MEAN, 20_000)
        lines = service.ask(datasets, LINE, 10_000)
    rho, p = correlation(means), told_apart(lines, datasets[0])
    early_ms = max(answer.early_ms for answer in (*means, *lines))
    with capsys.disabled():
        sys.stdout.write(
            f"\nrho {rho:+.4f}, p {p:.3g}, {-early_ms:.1f} ms after its tick or later\n"
        )
    assert abs(rho) < 0.02
    assert p > LEAST_P
    assert early_ms <= 0
