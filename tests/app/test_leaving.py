"""What costs nothing yet ends when its client has gone: previews that wait, uploads."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, BinaryIO

import anyio
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from app.domain.problems import Problem, ProcessLostError, StoppedError
from app.services.datasets.storing import stored_while_there
from app.services.plans.lanes import AT_ONCE, OnProgress, ProcessLane
from app.uploads.storing import Stop
from app.web.state import gone, while_there
from tests.app.uploads import columns_spec


class Client:
    """A client whose body has come, and who goes when asked to."""

    def __init__(self) -> None:
        self.leaves = asyncio.Event()
        self.request = Request({"type": "http", "headers": []}, self._receive)
        self._said = False

    async def _receive(self) -> Message:
        if not self._said:
            self._said = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.leaves.wait()
        return {"type": "http.disconnect"}


def test_an_answer_in_time_is_an_answer() -> None:
    async def scenario() -> None:
        assert await while_there(Client().request, asyncio.sleep(0, 7)) == 7
        with pytest.raises(KeyError):
            await while_there(Client().request, _refused())

    async def _refused() -> None:
        raise KeyError

    asyncio.run(scenario())


class _Calculating:
    """Calculations that go on until they are ended, or let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.go_on = threading.Event()

    def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        stop: Stop,
        seconds: float,
        urgent: bool,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Wait, as for a process."""
        del seconds, urgent, on_progress
        self.begun.append(arguments[0])
        gone = threading.Event()
        with stop.ends(gone.set):
            while not self.go_on.wait(0.01):
                if gone.is_set():
                    self.ended.append(arguments[0])
                    raise ProcessLostError
            return function(*arguments)

    def close(self) -> None:
        """Do nothing."""


class _OneByOne(threading.Event):
    """What lets one calculation go each time that it is set."""

    def __init__(self) -> None:
        super().__init__()
        self._room = threading.Semaphore(0)

    def set(self) -> None:
        """Let one more go."""
        self._room.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Return whether one may go, after a while at most."""
        return self._room.acquire(timeout=timeout)


async def _seen(found: list[str], count: int) -> None:
    while len(found) < count:
        await asyncio.sleep(0.01)


def test_who_has_gone_leaves_the_queue_and_ends_what_was_begun() -> None:
    async def scenario() -> None:
        made = _Calculating()
        lane = ProcessLane(made, most=3, seconds=60)
        first, second = Client(), Client()
        asked = [
            asyncio.ensure_future(while_there(client.request, lane.run("ada", str, name)))
            for client, name in ((first, "first"), (second, "second"))
        ]
        await _seen(made.begun, 1)
        third = asyncio.ensure_future(lane.run("ada", str, "third"))
        await asyncio.sleep(0)
        with pytest.raises(Problem, match="busy"):
            await lane.run("ada", str, "one too many")
        second.leaves.set()
        with pytest.raises(ClientDisconnect):
            await asked[1]
        first.leaves.set()
        with pytest.raises(ClientDisconnect):
            await asked[0]
        assert made.ended == ["first"]
        made.go_on.set()
        assert await third == "third"
        assert made.begun == ["first", "third"]

    asyncio.run(scenario())


def test_people_take_turns_and_nobody_has_two() -> None:
    async def scenario() -> None:
        made = _Calculating()
        made.go_on = _OneByOne()
        lane = ProcessLane(made, most=10, seconds=60)
        flood = [asyncio.ensure_future(lane.run("ada", str, f"ada {n}")) for n in range(5)]
        others = [asyncio.ensure_future(lane.run(name, str, name)) for name in ("bob", "cy")]
        await _seen(made.begun, AT_ONCE)
        # In processes of their own, whose beginnings may pass each other.
        assert sorted(made.begun) == ["ada 0", "bob"], "as many as there is room for, one of each"
        made.go_on.set()
        await _seen(made.begun, AT_ONCE + 1)
        assert made.begun[AT_ONCE] == "cy", "and then the one who has waited longest"
        for _ in (*flood, *others):
            made.go_on.set()
        await asyncio.gather(*flood, *others)

    asyncio.run(scenario())


class _Storing:
    """An intake whose process is at work until it is ended."""

    def __init__(self, *, ends: bool) -> None:
        self.ended = threading.Event()
        self.begun = threading.Event()
        self._ends = ends

    def store(
        self, dataset_id: str, content: BinaryIO, spec: Any, stop: Stop, extends: Any, /
    ) -> Any:
        """Wait to be ended, as for a process."""
        del content, spec, extends
        with stop.ends(self.ended.set):
            self.begun.set()
            if self._ends:
                self.ended.wait(60)
                raise ProcessLostError
        return dataset_id

    def manifest(self, dataset_id: str) -> str:
        """Return nothing: nothing was stored."""
        return dataset_id

    def close(self) -> None:
        """Do nothing."""


def test_an_upload_ends_with_its_client() -> None:
    async def scenario() -> None:
        for early in (False, True):
            intake, client = _Storing(ends=True), Client()
            if early:
                client.leaves.set()
            storing = asyncio.ensure_future(_stored(intake, client))
            if not early:
                await asyncio.to_thread(intake.begun.wait, 60)
                client.leaves.set()
            with pytest.raises(StoppedError):
                await storing

    asyncio.run(scenario())


def test_an_upload_whose_client_waits_is_stored() -> None:
    async def scenario() -> None:
        assert await _stored(_Storing(ends=False), Client()) == "ds_1"
        assert await _stored(_Storing(ends=False), None) == "ds_1"

    asyncio.run(scenario())


async def _stored(intake: Any, client: Client | None) -> Any:
    return await stored_while_there(
        intake,
        "ds_1",
        io.BytesIO(),
        columns_spec(),
        None,
        leaving=None if client is None else partial(gone, client.request),
        turns=anyio.CapacityLimiter(1),
    )
