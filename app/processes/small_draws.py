"""Small draws: the process in which small releases are drawn while their clients wait.

A small draw takes a tenth of a millisecond. Hundreds of them a second would hold
the interpreter's lock against all other work in the server, so a separate process
makes them (:mod:`app.processes.draws`). It is sent the charged releases that one turn
of the event loop asks for, a few milliseconds of draws at a time.

What it remembers of data sets goes with the process: when one is erased, another
process is begun.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import cast

import anyio.to_thread

from app.domain.problems import StorageError
from app.logs import describe
from app.processes.channel import Frames, framed, pickled, unpickled
from app.processes.draws import FORKS, Answers, DrawOrder, NoAnswer, answer_of
from app.services.releases.charged_draws import packed
from app.services.releases.draws import DrawDiedError, NoDrawProcessError
from app.store import DatasetRecord, ReleaseRecord

_LOG = logging.getLogger(__name__)
_PAUSE_S = 5.0
_MOST_MS = 5.0
"""Draws answered together: while their results are stored, the next ones are drawn."""


class SmallDraws:
    """Has small releases drawn in a separate process, which starts at the first request.

    Parameters
    ----------
    order
        What the process is sent first.
    """

    def __init__(self, order: DrawOrder) -> None:
        self._order = order
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Task[_Channel] | None = None
        self._begin_again = 0.0
        self._closed = False
        FORKS.start()

    def prepare(self) -> bool:
        """Begin a process where there is none; return whether a draw need not wait for one."""
        opening = self._opening
        channel = _opened(opening)
        if opening is not None and channel is not None and channel.retired:
            self._forget_channel(opening)
        if self._opening is not None:
            return channel is not None and channel.ready
        # None is to be had: the caller need not wait for one, and will hear so.
        if self._closed or self._paused:
            return True
        self._begin()
        return False

    async def draw(
        self,
        record: ReleaseRecord,
        dataset: DatasetRecord,
        manifest: str | None,
        *,
        expected_ms: float,
    ) -> bytes | None:
        """Return the signed answer of a charged release, or None when its draw failed.

        Raises
        ------
        DrawDiedError
            The process died.
        NoDrawProcessError
            There is none to be had, or it died before it was asked.
        StorageError
            It could not read the data, or there was no signature.
        asyncio.CancelledError
            This has been closed.
        """
        channel = await self._channel()
        if channel.retired:  # its data have been erased
            channel = await self._channel()
        return await channel.ask(record, dataset, manifest, expected_ms=expected_ms)

    def forget(self, dataset: str) -> None:
        """Forget what has been read of a data set; any thread may ask for it."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the event loop has ended, and the process with it
                # Everything here belongs to the loop's thread.
                self._loop.call_soon_threadsafe(self._retire, dataset)

    def close(self) -> None:
        """End the process; draws that it has not answered are cancelled."""
        self._closed = True
        self._retire()

    async def _channel(self) -> _Channel:
        if self._closed:
            raise asyncio.CancelledError
        if self._opening is None and self._paused:
            raise NoDrawProcessError
        opening = self._opening or self._begin()
        try:
            # Shielded: a client that goes away must not end the process that others wait for.
            channel = await asyncio.shield(opening)
        except Exception as error:
            raise NoDrawProcessError from error
        if channel.retired:
            self._forget_channel(opening)
        return channel

    def _begin(self) -> asyncio.Task[_Channel]:
        self._loop = asyncio.get_running_loop()
        self._opening = asyncio.ensure_future(self._open())
        self._opening.add_done_callback(self._notice)
        return self._opening

    def _notice(self, opening: asyncio.Task[_Channel]) -> None:
        """Notice that no process could be begun, whether or not a request waits for it."""
        if _opened(opening) is not None:
            return
        self._forget_channel(opening)
        if not opening.cancelled() and (error := opening.exception()) is not None:
            self._pause()
            _LOG.error("no draw process", extra=describe(error))

    @property
    def _paused(self) -> bool:
        return time.monotonic() < self._begin_again

    def _pause(self) -> None:
        """Begin no process for a while: the last one could not, or answered nothing."""
        self._begin_again = time.monotonic() + _PAUSE_S

    def _forget_channel(self, opening: asyncio.Task[_Channel]) -> None:
        """Begin another process for the next draw, unless that has been done."""
        if self._opening is opening:
            self._opening = None

    async def _open(self) -> _Channel:
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                await anyio.to_thread.run_sync(FORKS.order, theirs.fileno())
            ours.setblocking(False)
            loop = asyncio.get_running_loop()
            _, channel = await loop.create_connection(
                lambda: _Channel(loop, self._pause), sock=ours
            )
        except BaseException:
            ours.close()
            raise
        channel.write(self._order)
        if self._closed:
            channel.retire(cancel=True)
        return channel

    def _retire(self, dataset: str | None = None) -> None:
        """Let the process end; given a data set, if it may have read that."""
        opening = self._opening
        channel = _opened(opening)
        if opening is None or channel is None:
            return  # one that is being begun has read nothing yet
        if dataset is None or dataset in channel.datasets:
            self._forget_channel(opening)
            channel.retire(cancel=self._closed)


def _opened(opening: asyncio.Task[_Channel] | None) -> _Channel | None:
    """Return what has been opened, if it has been and could be."""
    if opening is None or not opening.done() or opening.cancelled():
        return None
    return opening.result() if opening.exception() is None else None


@dataclass(frozen=True, slots=True)
class _Asked:
    """A release to be drawn, about how long that takes, and who waits for it."""

    record: ReleaseRecord
    dataset: DatasetRecord
    manifest: str | None
    expected_ms: float
    waiter: asyncio.Future[bytes | None]


class _Channel(asyncio.Protocol):
    """A process, as its server sees it.

    ``ready`` is whether it says so, ``retired`` whether it takes no more, ``datasets`` are
    those it has been asked about; ``failed`` is called if it dies without an answer.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, failed: Callable[[], None]) -> None:
        self._failed = failed
        self._answered = False
        self.ready = False
        self.retired = False
        self.datasets: set[str] = set()
        self._loop = loop
        self._cancelled = False
        self._frames = Frames()
        self._waiting: list[_Asked] = []
        self._sent: deque[Sequence[_Asked]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)

    def ask(
        self,
        record: ReleaseRecord,
        dataset: DatasetRecord,
        manifest: str | None,
        *,
        expected_ms: float,
    ) -> asyncio.Future[bytes | None]:
        """Have a release drawn, together with what else this turn of the event loop asks for.

        Raises
        ------
        NoDrawProcessError
            It has died, or takes no more.
        """
        if self.retired:
            raise NoDrawProcessError
        # The first of a turn: what else this turn asks for goes along.
        if not self._waiting:
            self._loop.call_soon(self._hand_over)
        waiter: asyncio.Future[bytes | None] = self._loop.create_future()
        self._waiting.append(_Asked(record, dataset, manifest, expected_ms, waiter))
        self.datasets.add(dataset.id)
        return waiter

    def write(self, content: object) -> None:
        """Send an object."""
        self._transport.write(_frame_of(content))

    def retire(self, *, cancel: bool) -> None:
        """Take no more, and end the process once it has answered; ``cancel``: at once."""
        self.retired, self._cancelled = True, cancel
        if cancel:
            self._transport.abort()
        elif not (self._waiting or self._sent):
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        """Dispatch answers to their waiting futures."""
        for frame in self._frames.add(data):
            answers: Answers | None = unpickled(frame)
            if answers is None:
                self.ready = True
                continue
            # An answer must never reach another release: one mismatch, and nothing of
            # this process is believed.
            if [name for name, _ in answers] != [asked.record.id for asked in self._sent[0]]:
                _LOG.error("draw process out of step")
                self._transport.abort()
                return
            self._answered = True
            for asked, (_, answered) in zip(self._sent.popleft(), answers, strict=True):
                _tell(asked.waiter, answered)
        if self.retired and not (self._waiting or self._sent):
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting futures: the process is gone."""
        del exc
        if not self.retired:
            _LOG.error("draw process lost")
            # It has never answered: another would not do better at once.
            if not self._answered:
                self._failed()
        self.retired = True
        for asked in chain.from_iterable(self._sent):
            self._tell_lost(asked, DrawDiedError())
        # Never handed over, so nothing of them was begun.
        for asked in self._waiting:
            self._tell_lost(asked, NoDrawProcessError())
        self._sent.clear()
        self._waiting.clear()

    def _tell_lost(self, asked: _Asked, error: Exception) -> None:
        if self._cancelled:
            asked.waiter.cancel()
        elif not asked.waiter.done():
            asked.waiter.set_exception(error)

    def _hand_over(self) -> None:
        if not self._waiting:  # the process was lost
            return
        try:
            frames = [
                (
                    batch,
                    _frame_of([(asked.record, asked.dataset, asked.manifest) for asked in batch]),
                )
                for batch in packed(self._waiting, most_ms=_MOST_MS)
            ]
        except Exception as error:  # out of memory, say: waiters get the error of a lost process
            _LOG.error("no draw process", extra=describe(error))
            self._transport.abort()
            return
        self._waiting = []
        for batch, frame in frames:
            self._sent.append(batch)
            self._transport.write(frame)


def _tell(waiter: asyncio.Future[bytes | None], answered: bytes | NoAnswer) -> None:
    if waiter.done():
        return
    try:
        waiter.set_result(answered if isinstance(answered, bytes) else answer_of(answered))
    except (StorageError, DrawDiedError) as error:
        waiter.set_exception(error)


def _frame_of(content: object) -> bytes:
    return framed(pickled(content))
