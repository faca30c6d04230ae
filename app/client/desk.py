"""The client: a connection to one service, as one person; each call is a method.

``ReleaseDesk`` and ``AsyncDesk`` have the same methods. Those of the second are awaited, and its
lists are read with ``async for``.
"""

from __future__ import annotations

import asyncio
import ssl
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import cache
from types import TracebackType
from typing import Self, TypeVar

import httpx

from app.client.calls import Calls
from app.client.datasets import AsyncDataset, Dataset
from app.client.errors import UnreachableError
from app.client.releasing import Awaiting, Blocking, Glance, Line, Pause, Steps

T = TypeVar("T")

_FIRST_PAUSE_S = 0.2
_FIRST_LOOK_S = 1.0


@cache
def _certificates() -> ssl.SSLContext:
    """Return what servers are known by; to read it takes longer than most requests."""
    return httpx.create_ssl_context()


class ReleaseDesk(Calls[Dataset], Blocking):
    """A connection to one service, as one person.

    Parameters
    ----------
    url
        Where the service is, e.g. ``http://127.0.0.1:8000``.
    key
        The person's API key.
    timeout_s
        How long to wait for one answer.
    attempts
        How often a repeatable request is sent at most.
    pause_s
        How long to wait before it is sent again; twice as long each time, 5 seconds at most.
    transport
        An httpx transport to use instead of the network.
    """

    dataset_type = Dataset

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 60.0,
        attempts: int = 5,
        pause_s: float = _FIRST_PAUSE_S,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.line = Line(attempts, pause_s)
        self._http = httpx.Client(
            base_url=url, headers=_headers(key), timeout=timeout_s, transport=transport,
            verify=_certificates(),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<ReleaseDesk {self._http.base_url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def run(self, steps: Steps[T]) -> T:
        """Run the steps of a call."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    with self._glancing(step.glance):
                        response = self._http.request(step.method, step.path, **step.content)
                except httpx.TransportError as error:
                    step = steps.throw(_unreachable(error))
                else:
                    step = steps.send(response)
        except StopIteration as done:
            result: T = done.value
            return result

    @contextmanager
    def _glancing(self, glance: Glance | None) -> Iterator[None]:
        """Look at something in a thread while the block lasts."""
        if glance is None:
            yield
            return
        ended = threading.Event()

        def look() -> None:
            pause_s = _FIRST_LOOK_S
            while not ended.wait(pause_s):
                with suppress(httpx.TransportError):  # the request itself reports it
                    pause_s = glance.pause_of(self._http.get(glance.path))

        thread = threading.Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()


class AsyncDesk(Calls[AsyncDataset], Awaiting):
    """A connection to one service for asyncio; parameters as of :class:`ReleaseDesk`."""

    dataset_type = AsyncDataset

    def __init__(
        self,
        url: str,
        key: str | None = None,
        *,
        timeout_s: float = 60.0,
        attempts: int = 5,
        pause_s: float = _FIRST_PAUSE_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.line = Line(attempts, pause_s)
        self._http = httpx.AsyncClient(
            base_url=url, headers=_headers(key), timeout=timeout_s, transport=transport,
            verify=_certificates(),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<AsyncDesk {self._http.base_url}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def run(self, steps: Steps[T]) -> T:
        """Run the steps of a call."""
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    async with self._glancing(step.glance):
                        response = await self._http.request(step.method, step.path, **step.content)
                except httpx.TransportError as error:
                    step = steps.throw(_unreachable(error))
                else:
                    step = steps.send(response)
        except StopIteration as done:
            result: T = done.value
            return result

    @asynccontextmanager
    async def _glancing(self, glance: Glance | None) -> AsyncIterator[None]:
        """Look at something in a task while the block lasts."""
        if glance is None:
            yield
            return

        async def look() -> None:
            pause_s = _FIRST_LOOK_S
            while True:
                await asyncio.sleep(pause_s)
                with suppress(httpx.TransportError):  # the request itself reports it
                    pause_s = glance.pause_of(await self._http.get(glance.path))

        task = asyncio.create_task(look())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


def _headers(key: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _unreachable(error: httpx.TransportError) -> UnreachableError:
    return UnreachableError(f"no answer from the service ({type(error).__name__})")
