"""Storing what a curator sends, for as long as they wait for it."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import anyio
import anyio.to_thread

from app.domain.datasets import ColumnsSpec
from app.domain.sources import Source
from app.domain.upload_reports import UploadReport
from app.services.people.keys import Caller
from app.uploads.intake import Stop

Leaving = Callable[[], Coroutine[Any, Any, None]] | None
"""Ends when the sender of an upload has disconnected; None where none can."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Who waits for an upload: how they leave, and under which text they look how far it is."""

    leaving: Leaving = None
    reading: str | None = None


NO_WAITER = Waiting()
Before = tuple[str, str | None] | None
"""A data set whose rows come first, and its manifest's SHA-256 if it is known."""


class Stored(Protocol):
    """What an upload came to."""

    @property
    def rows(self) -> int:
        """Return how many rows were stored."""

    @property
    def report(self) -> UploadReport:
        """Return the counts for the uploader."""

    @property
    def digests(self) -> bytes | None:
        """Return the row digests, None where none are kept."""


class Intake(Protocol):
    """What takes uploads in, as far as the use cases know it."""

    def store(
        self,
        dataset_id: str,
        content: BinaryIO | Source,
        spec: ColumnsSpec,
        stop: Stop,
        extends: Before,
        /,
    ) -> Stored:
        """Store an upload, or what lies at a source, whole or not at all."""

    def manifest(self, dataset_id: str) -> str:
        """Return the SHA-256 of a stored upload's manifest."""

    def staged_files(self, name: str) -> Sequence[bytes]:
        """Return what the files of a name hold that uploads have in staging."""

    def close(self) -> None:
        """End the uploads that are being taken in."""


class Erasing(Protocol):
    """What erases the data of deleted data sets."""

    async def erase_deleted(self, dataset: str) -> None:
        """Erase a deleted data set's rows and digests."""


async def stored_while_there(
    intake: Intake,
    dataset: str,
    content: BinaryIO | Source,
    columns: ColumnsSpec,
    extends: Before,
    *,
    leaving: Leaving,
    note: tuple[str, str] | None = None,
    turns: anyio.CapacityLimiter,
) -> Stored:
    """Store an upload when its turn comes, unless its sender disconnects before it is stored.

    Until then a file in staging holds its progress: see :class:`Stop`.

    Raises
    ------
    Problem
        What the intake refuses.
    StoppedError
        They have left; nothing is stored.
    """
    stop = Stop(note)

    async def stop_then() -> None:
        if leaving is not None:
            await leaving()
            stop.ask()

    left = asyncio.ensure_future(stop_then())
    try:
        return await anyio.to_thread.run_sync(
            intake.store, dataset, content, columns, stop, extends, limiter=turns
        )
    finally:
        left.cancel()


def note_of(caller: Caller, waiting: Waiting) -> tuple[str, str] | None:
    """Return where an upload's progress is noted, and under which text; None for nowhere."""
    return None if waiting.reading is None else (note_name(caller.person), waiting.reading)


def note_name(person: str) -> str:
    """Return the name of the file that says how far an upload of a person's is."""
    return hashlib.sha256(person.encode()).hexdigest() + ".progress"
