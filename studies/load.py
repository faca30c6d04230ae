"""A small keep-alive HTTP load generator, light enough to leave the server the machine.

One thread and one selector, a fixed number of connections, a fixed number of
requests: a run always ends. Streams and tasks would cost as much CPU time
for each request as the server's own work on it.
"""

from __future__ import annotations

import re
import selectors
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass

RequestBytes = Callable[[int], bytes]

_PATIENCE_S = 60.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Load:
    """The result of a run: answers by status code, seconds, and latencies in seconds."""

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


class _Client:
    """One connection: it sends a request, reads the whole answer, and sends the next one."""

    def __init__(self, port: int, request: RequestBytes, numbers: Iterator[int]) -> None:
        self._request = request
        self._numbers = numbers
        self._received = b""
        self._began = 0.0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self) -> bool:
        """Send the next request, if there is one left."""
        number = next(self._numbers, None)
        if number is None:
            return False
        request = self._request(number)
        self._began = time.perf_counter()
        self.socket.sendall(request)
        return True

    def read(self) -> tuple[int, float] | None:
        """Take what has arrived; return the status and the latency once an answer is whole."""
        chunk = self.socket.recv(1 << 14)
        if not chunk:
            raise ConnectionError("the server has closed a connection")
        self._received += chunk
        head, end, body = self._received.partition(b"\r\n\r\n")
        if not end:
            return None
        length = _LENGTH.search(head + b"\r\n")
        if len(body) < (0 if length is None else int(length[1])):
            return None
        self._received = b""
        return int(head[9:12]), time.perf_counter() - self._began


def run(port: int, request: RequestBytes, *, total: int, connections: int) -> Load:
    """Send ``total`` requests over ``connections`` keep-alive connections.

    Raises
    ------
    OSError
        The server closes a connection, or answers nothing for a minute.
    """
    statuses: Counter[int] = Counter()
    latencies: list[float] = []
    numbers = iter(range(total))
    with ExitStack() as opened:
        selector = opened.enter_context(selectors.DefaultSelector())
        clients = [_Client(port, request, numbers) for _ in range(connections)]
        for client in clients:
            opened.callback(client.socket.close)
        start = time.perf_counter()
        for client in clients:
            if client.ask():
                selector.register(client.socket, selectors.EVENT_READ, client)
        while selector.get_map():
            ready = selector.select(_PATIENCE_S)
            if not ready:
                raise TimeoutError("the server answers no more")
            for key, _ in ready:
                answer = key.data.read()
                if answer is None:
                    continue
                statuses[answer[0]] += 1
                latencies.append(answer[1])
                if not key.data.ask():
                    selector.unregister(key.fileobj)
        elapsed_s = time.perf_counter() - start
    return Load(dict(statuses), elapsed_s, tuple(latencies))
