"""Storing what a curator sends, for as long as they wait for it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

import anyio
import anyio.to_thread

from app.domain.datasets import ColumnsSpec
from app.domain.problems import invalid_request
from app.domain.sources import InvalidSourceError, Root, Source, located, partitions_of
from app.services.people.keys import Caller
from app.uploads.sources.places import Folders
from app.uploads.storing import Ingested, Intake, Stop

# What curators may register by URL: what lies below the roots that the operator allows


class SourceService:
    """Knows where sources may lie.

    Parameters
    ----------
    roots
        Below which they may; none: there are no sources.
    max_files, max_bytes
        How many files one may have, and how large it may be.
    """

    def __init__(self, roots: Sequence[Root], *, max_files: int, max_bytes: int) -> None:
        self._roots = roots
        self._max_files = max_files
        self._max_bytes = max_bytes

    def located(self, url: str) -> Source:
        """Return the source that a URL names; nothing is looked up.

        Raises
        ------
        Problem
            ``invalid-request``: it names none, or one that is not allowed.
        """
        most = {"max_files": self._max_files, "max_bytes": self._max_bytes}
        try:
            return located(url, self._roots, **most)
        except InvalidSourceError as error:
            raise invalid_request("source", str(error)) from None

    @contextmanager
    def first_file(self, source: Source) -> Iterator[tuple[BinaryIO, str, Sequence[str]]]:
        """Give a source's first file, its name, and the columns that its folders give.

        Raises
        ------
        Problem
            ``invalid-request``: it is in a bucket; ``source-unreadable`` or ``too-large``.
        """
        if source.root.scheme != "file":
            raise invalid_request(
                "source", "objects are not read for a draft: choose a file with the same columns"
            )
        with closing(Folders(source)) as place:
            path = next(iter(place.found()))
            try:
                partitions = tuple(partitions_of(path))
            except InvalidSourceError as error:
                raise invalid_request("source", str(error)) from None
            with (
                closing(place.opened(path)) as opened,
                os.fdopen(os.dup(opened.descriptor), "rb") as file,
            ):
                yield file, path[-1], partitions


# Storing what a curator sends, for as long as they wait for it

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
) -> Ingested:
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
