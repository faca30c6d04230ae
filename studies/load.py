"""A small keep-alive HTTP load generator, light enough to leave the server the machine.

One asyncio loop, a fixed number of connections, a fixed number of requests:
a run always ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

RequestBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class Load:
    """What a run measured: answers by status code, seconds, and latencies in seconds."""

    statuses: dict[int, int]
    elapsed_s: float
    latencies_s: tuple[float, ...]

    @property
    def per_second(self) -> float:
        """Return answers per second."""
        return sum(self.statuses.values()) / self.elapsed_s

    def quantile(self, level: float) -> float:
        """Return a latency quantile in seconds."""
        ordered = sorted(self.latencies_s)
        return ordered[min(len(ordered) - 1, int(level * len(ordered)))]


def post(path: str, body: bytes, headers: dict[str, str]) -> bytes:
    """Return the bytes of one HTTP/1.1 POST of a JSON body."""
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", *(f"{k}: {v}" for k, v in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def _answer(reader: asyncio.StreamReader) -> int:
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head[9:12])
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            await reader.readexactly(int(value))
    return status


async def _run(port: int, request: RequestBytes, total: int, connections: int) -> Load:
    statuses: dict[int, int] = {}
    latencies: list[float] = []
    numbers = iter(range(total))

    async def worker() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in numbers:
            start = time.perf_counter()
            writer.write(request(number))
            status = await _answer(reader)
            latencies.append(time.perf_counter() - start)
            statuses[status] = statuses.get(status, 0) + 1
        writer.close()

    start = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(connections)))
    return Load(statuses, time.perf_counter() - start, tuple(latencies))


def run(port: int, request: RequestBytes, *, total: int, connections: int) -> Load:
    """Send ``total`` requests over ``connections`` keep-alive connections."""
    return asyncio.run(_run(port, request, total, connections))
