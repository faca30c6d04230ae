"""What costs nothing yet ends when its client has gone: previews that wait, uploads."""

from __future__ import annotations

import asyncio
import io
import threading
from functools import partial
from typing import Any, BinaryIO

import anyio
import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.types import Message

from app.domain.errors import ProcessLostError, StoppedError
from app.services.datasets.storing import stored_while_there
from app.services.plans.lanes import FairLane
from app.uploads.intake import Stop
from app.web.requests.leaving import gone, while_there
from tests.app.uploads import columns_spec


class Client:
    """A client whose body has come, and who goes when told to."""

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


def test_who_has_gone_leaves_the_queue() -> None:
    """The calculation before it is finished, and its own is never begun."""

    async def scenario() -> None:
        lane, under_way, go_on = FairLane(most=2), asyncio.Event(), threading.Event()
        loop, begun = asyncio.get_running_loop(), []

        def first() -> None:
            loop.call_soon_threadsafe(under_way.set)
            go_on.wait(60)

        running = asyncio.ensure_future(lane.run("ada", first))
        await under_way.wait()
        client = Client()
        waiting = while_there(client.request, lane.run("ada", partial(begun.append, "second")))
        client.leaves.set()
        with pytest.raises(ClientDisconnect):
            await waiting
        again = asyncio.ensure_future(lane.run("ada", partial(begun.append, "third")))
        go_on.set()
        await asyncio.gather(running, again)
        assert begun == ["third"]

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
