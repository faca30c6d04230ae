"""Storing uploads whole or not at all.

Neither the vault nor the processes that read and store are known here, only what
they can do (the protocols below); the composition root puts them together.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import BinaryIO, Generic, Protocol, TypeVar

from app.domain.datasets import ColumnsSpec
from app.domain.sources import Source
from app.uploads.limits import Limits
from app.uploads.reading_task import ReadingTask
from app.uploads.storing import Ingested, Writer

WriterT = TypeVar("WriterT", bound=Writer)

_FAR_SILENCE_S = 3_600.0
"""How long a reader may be silent that waits for files from afar."""


class Vault(Protocol[WriterT]):
    """Where data sets are written."""

    def writer(self, dataset_id: str, /) -> AbstractContextManager[WriterT]: ...
    def publish(self, writer: WriterT, /) -> None: ...
    def manifest_digest(self, dataset_id: str, /) -> str: ...


class Storing(Protocol):
    """Has an upload read, and writes its files."""

    def take_in(
        self, writer: Writer, content: BinaryIO | Source, task: ReadingTask
    ) -> Ingested: ...
    def close(self) -> None: ...


class Intake(Generic[WriterT]):
    """Stores uploads.

    Parameters
    ----------
    vault
        Where data sets are kept.
    storing
        What writes an upload's files.
    limits
        What an upload may cost.
    lineage_key
        The secret of row digests; without one none are made.
    """

    def __init__(
        self,
        vault: Vault[WriterT],
        storing: Storing,
        *,
        limits: Limits | None = None,
        lineage_key: bytes | None = None,
    ) -> None:
        self._vault = vault
        self._storing = storing
        self._limits = limits or Limits()
        self._lineage_key = lineage_key

    def store(self, dataset_id: str, content: BinaryIO | Source, spec: ColumnsSpec) -> Ingested:
        """Store an upload, or what lies at a source, whole or not at all.

        Raises
        ------
        Problem
            ``invalid-upload`` or ``too-large``, as :func:`app.uploads.ingest.ingest`; of a
            source ``source-unreadable`` or ``source-changed`` too.
        """
        limits = self._limits
        if isinstance(content, Source):
            limits = replace(limits, max_upload_bytes=content.max_bytes, silence_s=_FAR_SILENCE_S)
        with self._vault.writer(dataset_id) as writer:
            task = ReadingTask.of(spec, limits, lineage_key=self._lineage_key)
            task = replace(task, fed=isinstance(content, Source))
            ingested = self._storing.take_in(writer, content, task)
            self._vault.publish(writer)
        return ingested

    def manifest(self, dataset_id: str) -> str:
        """Return the SHA-256 of a stored upload's manifest."""
        return self._vault.manifest_digest(dataset_id)

    def close(self) -> None:
        """End what takes uploads in."""
        self._storing.close()
