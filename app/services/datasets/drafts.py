"""Drafts of specs, for the curator alone whose file it is.

A draft says what types columns have and how a file is written, from its first megabyte, and what a
dictionary states. It holds no bound, value or share that is taken from rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO, Protocol

import anyio.to_thread

from app.domain.sources import Source
from app.services.datasets.sources import SourceService
from app.uploads.drafting.drafts import Draft


class Drafting(Protocol):
    """Drafts a spec in a process of its own."""

    def draft(self, file: BinaryIO, name: str, dictionary: bytes = b"", /) -> Draft: ...


class DraftService:
    """Has specs drafted, some at once.

    Parameters
    ----------
    drafting
        Where files are read.
    sources
        Where sources may be.
    most
        How many are made at once; others wait.
    """

    def __init__(self, drafting: Drafting, sources: SourceService, *, most: int) -> None:
        self._drafting = drafting
        self._sources = sources
        self._threads = anyio.CapacityLimiter(most)

    async def of_file(self, file: BinaryIO, name: str, dictionary: bytes = b"") -> Draft:
        """Return the draft of an uploaded file.

        Raises
        ------
        Problem
            ``invalid-request``, about ``file`` or ``dictionary``; ``too-large``.
        """
        drafting = self._drafting.draft
        return await anyio.to_thread.run_sync(
            drafting, file, _stem(name), dictionary, limiter=self._threads
        )

    async def of_source(self, source: Source, dictionary: bytes = b"") -> tuple[Draft, str]:
        """Return the draft of a source's first file, with columns that its folders give; its name.

        Raises
        ------
        Problem
            As :meth:`of_file`; ``source-unreadable``, or ``invalid-request`` about ``source``.
        """
        return await anyio.to_thread.run_sync(
            self._first, source, dictionary, limiter=self._threads
        )

    def _first(self, source: Source, dictionary: bytes) -> tuple[Draft, str]:
        with self._sources.first_file(source) as (file, name, partitions):
            draft = self._drafting.draft(file, _stem(name), dictionary)
        columns: dict[str, Any] = dict(draft.spec["columns"])
        for each in partitions:
            columns.setdefault(each, {"type": "category", "values": []})
        spec: Mapping[str, Any] = {**draft.spec, "columns": columns}
        return replace(draft, spec=spec), name


def _stem(name: str) -> str:
    return name.partition(".")[0]
