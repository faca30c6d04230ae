"""Storing uploads whole or not at all.

Neither the vault nor the processes that read and store are known here, only what
they can do (the protocols below); the composition root puts them together.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import BinaryIO, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from app.domain.datasets import ColumnsSpec
from app.domain.problems import StoppedError
from app.domain.sources import Source
from app.uploads.reading_task import ReadingTask
from app.uploads.samples import Digests
from app.uploads.storing import Ingested, Writer
from app.uploads.trouble import Limits

# Which of many samples have digests in common with another one, found in one pass

_NOBODY = np.zeros(0, dtype=np.intp)


class Pool:
    """Several samples, put in order together once.

    Parameters
    ----------
    samples
        Digests; each sample holds each of its own once.
    """

    def __init__(self, samples: Sequence[Digests]) -> None:
        found = np.concatenate([np.zeros(0, dtype=np.uint64), *samples])
        owners = np.repeat(np.arange(len(samples)), [len(each) for each in samples])
        order = np.argsort(found, kind="stable")
        self._found, self._owners = found[order], owners[order]
        self._samples = len(samples)

    def common(self, digests: Digests) -> NDArray[np.intp]:
        """Return how many of these digests each sample has."""
        starts = self._found.searchsorted(digests)
        stops = self._found.searchsorted(digests, side="right")
        some = (stops > starts).nonzero()[0].tolist()
        runs = [self._owners[starts[place] : stops[place]] for place in some]
        owners = np.concatenate([_NOBODY, *runs])
        return np.bincount(owners, minlength=self._samples)

    def sharing(self, digests: Digests, least: int) -> Sequence[int]:
        """Return the places of the samples that have at least ``least`` of these digests."""
        found: list[int] = (self.common(digests) >= least).nonzero()[0].tolist()
        return found


def in_both(one: Digests, other: Digests) -> int:
    """Return how many digests are in both samples, which are in order and hold each once."""
    few, many = (one, other) if len(one) <= len(other) else (other, one)
    places = many.searchsorted(few)
    # Any place will do for what would be behind the last one: it is not what lies there.
    places[places == len(many)] = 0
    return int(np.count_nonzero(many[places] == few)) if len(many) else 0


# Storing uploads whole or not at all

WriterT = TypeVar("WriterT", bound=Writer)

_FAR_SILENCE_S = 3_600.0
"""How long a reader may be silent that waits for files from afar."""


class Stop:
    """Ends a piece of work early; any thread may ask for that, at any time.

    ``note``, of an upload, names a file in staging that holds the progress while the upload is
    read, and the text by which a client looks it up.
    """

    def __init__(self, note: tuple[str, str] | None = None) -> None:
        self.note = note
        self._lock = threading.Lock()
        self._asked = False
        self._end: Callable[[], None] | None = None

    def ask(self) -> None:
        """Have what is under way ended, and nothing else begun."""
        with self._lock:
            self._asked, end = True, self._end
        if end is not None:
            end()

    @contextmanager
    def ends(self, end: Callable[[], None]) -> Iterator[None]:
        """Run a block that ``end`` makes fail.

        Raises
        ------
        StoppedError
            The caller stopped it, before or during the reading.
        """
        self.check()
        with self._lock:
            self._end = end
        try:
            self.check()  # it may have been asked for just before
            yield
        except Exception:  # what was ended may fail in any way
            self.check()
            raise
        finally:
            with self._lock:
                self._end = None

    def check(self) -> None:
        """Raise :class:`StoppedError` if it was asked for."""
        with self._lock:
            asked = self._asked
        if asked:
            raise StoppedError("no one waits for it any more")


class Vault(Protocol[WriterT]):
    """Where data sets are written."""

    def writer(self, dataset_id: str, /) -> AbstractContextManager[WriterT]: ...
    def publish(self, writer: WriterT, /) -> None: ...
    def manifest_digest(self, dataset_id: str, /) -> str: ...
    def staged_files(self, name: str, /) -> Sequence[bytes]: ...


class Storing(Protocol):
    """Has an upload read, and writes its files."""

    def take_in(
        self,
        writer: Writer,
        content: BinaryIO | Source,
        task: ReadingTask,
        stop: Stop,
        extends: tuple[str, str] | None = None,
        /,
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

    def store(
        self,
        dataset_id: str,
        content: BinaryIO | Source,
        spec: ColumnsSpec,
        stop: Stop | None = None,
        extends: tuple[str, str | None] | None = None,
    ) -> Ingested:
        """Store an upload, or what lies at a source, whole or not at all.

        ``extends`` is a stored data set with these columns whose rows come first, and the SHA-256
        of its manifest where it is known.

        Raises
        ------
        Problem
            ``invalid-upload`` or ``too-large``, as :func:`app.uploads.ingest.ingest`; of a
            source ``source-unreadable`` or ``source-changed`` too. ``not-extendable``.
        StoppedError
            ``stop`` was asked to.
        """
        limits = self._limits
        if isinstance(content, Source):
            limits = replace(limits, max_upload_bytes=content.max_bytes, silence_s=_FAR_SILENCE_S)
        with self._vault.writer(dataset_id) as writer:
            task = ReadingTask.of(spec, limits, lineage_key=self._lineage_key)
            task = replace(task, fed=isinstance(content, Source))
            before = None
            if extends is not None:
                before = (extends[0], extends[1] or self.manifest(extends[0]))
            ingested = self._storing.take_in(writer, content, task, stop or Stop(), before)
            self._vault.publish(writer)
        return ingested

    def manifest(self, dataset_id: str) -> str:
        """Return the SHA-256 of a stored upload's manifest."""
        return self._vault.manifest_digest(dataset_id)

    def staged_files(self, name: str) -> Sequence[bytes]:
        """Return what the files of a name hold that uploads have in staging."""
        return self._vault.staged_files(name)

    def close(self) -> None:
        """End what takes uploads in."""
        self._storing.close()
