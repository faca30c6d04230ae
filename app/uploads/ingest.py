"""An upload becomes blocks of integer codes, in bounded memory.

The format is told by the first bytes, never by a name: gzip, Parquet, or else
CSV (the dialect of :mod:`app.uploads.csv_records`). What is wrong is told by
rows, columns and fixed words; no cell and no other program's message is
repeated anywhere.

**Privacy.** The outcome of an upload is seen by curators only, who may learn
counts and row numbers.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, cast

from app.domain.datasets import ColumnsSpec
from app.domain.upload_reports import UploadReport
from app.uploads.cells import RowEncoder
from app.uploads.csv_file import csv_blocks
from app.uploads.csv_records import Source
from app.uploads.limits import RATIO_FREE_BYTES, Limits
from app.uploads.parquet_file import MAGIC as PARQUET
from app.uploads.parquet_file import parquet_blocks
from app.uploads.prf import Prf
from app.uploads.read_cells import Codes
from app.uploads.row_digests import RowDigester
from app.uploads.sources.fed import FileOfMany
from app.uploads.sources.layout import Layout
from app.uploads.trouble import MORE_ROWS, Troubles, UnreadableError, too_large

GZIP = b"\x1f\x8b"
_ZIP = b"PK\x03\x04"


def ingest(
    stream: BinaryIO,
    spec: ColumnsSpec,
    *,
    limits: Limits | None = None,
    report: UploadReport | None = None,
    digester: RowDigester | None = None,
    ids: Prf | None = None,
) -> Iterator[Mapping[str, Codes]]:
    """Yield the declared columns of an upload as blocks of int32 codes, in stored order.

    Where the spec has a unit, they are the words of :mod:`app.uploads.people.wire`.

    Parameters
    ----------
    stream
        The uploaded file, at its start: CSV, gzip CSV or Parquet. For Parquet
        it must have a descriptor.
    spec
        The declared columns. Others in the file are seen by the digester alone.
    limits
        What the upload may cost; the defaults of :class:`Limits` otherwise.
    report
        Receives the counts of rows and cells; complete after the last block.
    digester
        Sees every row as it is in the file, with the numbers of its first columns.
    ids
        What digests people's ids, where the spec has a unit.

    Raises
    ------
    Problem
        ``invalid-upload`` with what is wrong, at the latest with the last
        block; ``too-large``.
    """
    files = [FileOfMany(stream)]
    yield from ingest_files(files, spec, limits=limits, report=report, digester=digester, ids=ids)


def ingest_files(
    files: Iterable[FileOfMany],
    spec: ColumnsSpec,
    *,
    limits: Limits | None = None,
    report: UploadReport | None = None,
    digester: RowDigester | None = None,
    ids: Prf | None = None,
    layout: Layout | None = None,
) -> Iterator[Mapping[str, Codes]]:
    """Yield what :func:`ingest` would of one file that holds the rows of all, in their order.

    Their columns are the same: the file's, and those that its folders tell. The first file
    with anything wrong is told of, and is the last one that is read. ``layout`` tells, with each
    block, how far they have been read.
    """
    limits = limits or Limits()
    report = UploadReport() if report is None else report
    encoder = RowEncoder.of(spec, report, digester, ids)
    layout = layout or Layout()
    rows = 0
    for file in files:
        troubles = Troubles()
        layout.begin(file.partitions)
        try:
            for block in _blocks(
                file, spec, layout=layout, encoder=encoder, limits=limits, troubles=troubles
            ):
                rows += len(next(iter(block.values())))
                # with a unit PeopleRows counts, by what is kept of each person
                if spec.unit is None and spec.max_rows is not None and rows > spec.max_rows:
                    raise UnreadableError(MORE_ROWS)
                # Of all files together; what reads one counts that one alone.
                if report.rows > limits.max_upload_rows:
                    raise too_large("max_upload_rows", limits.max_upload_rows)
                yield block
        except UnreadableError as error:
            troubles.extend([error.trouble])
        if troubles:
            raise troubles.refusal(file=file.number)


def _blocks(
    file: FileOfMany,
    spec: ColumnsSpec,
    *,
    layout: Layout,
    encoder: RowEncoder,
    limits: Limits,
    troubles: Troubles,
) -> Iterator[Mapping[str, Codes]]:
    source = sent = _Bounded(file.stream, "max_upload_bytes", limits.max_upload_bytes)
    layout.place = lambda: sent.taken
    descriptor = file.stream.fileno() if file.by_ranges else None
    if source.peek(len(GZIP)) == GZIP:
        # gzip is read from its beginning alone
        source, descriptor = _expanded(source, limits), None
        if source.peek(len(PARQUET)) == PARQUET:
            raise UnreadableError("the file is Parquet inside gzip; send the Parquet file itself")
    start = source.peek(len(PARQUET))
    if start == _ZIP:
        raise UnreadableError("the file is a ZIP archive or a spreadsheet, not CSV or Parquet")
    if start == PARQUET:
        return parquet_blocks(
            file.stream, spec, layout=layout, encoder=encoder, limits=limits, troubles=troubles
        )
    return csv_blocks(
        source,
        spec,
        file=descriptor,
        layout=layout,
        encoder=encoder,
        limits=limits,
        troubles=troubles,
    )


def _expanded(source: _Bounded, limits: Limits) -> _Bounded:
    """Return the content of a gzip file, bounded in itself and against what was sent for it."""
    content = _Expanded(gzip.GzipFile(fileobj=cast(BinaryIO, source), mode="rb"))
    steep = _Steep(content, source, limits.max_compression_ratio)
    return _Bounded(steep, "max_expanded_bytes", limits.max_expanded_bytes)


class _Bounded:
    """Reads from a source, as full as asked for, and refuses to go beyond a limit."""

    def __init__(self, source: Source, limit: str, maximum: int) -> None:
        self._source = source
        self._limit = limit
        self._maximum = maximum
        self.taken = 0
        self._ahead = b""

    def peek(self, size: int) -> bytes:
        """Return the next bytes without taking them."""
        self._ahead = self.read(size) + self._ahead
        return self._ahead

    def read(self, size: int, /) -> bytes:
        """Return as many bytes as asked for, fewer only at the end."""
        pieces, have = [self._ahead[:size]], min(size, len(self._ahead))
        self._ahead = self._ahead[size:]
        while have < size and (piece := self._source.read(size - have)):
            pieces.append(piece)
            have += len(piece)
            self.taken += len(piece)
            if self.taken > self._maximum:
                raise too_large(self._limit, self._maximum)
        # mostly one read has all of it, and is not copied
        return pieces[-1] if len(pieces) == 2 and not pieces[0] else b"".join(pieces)


class _Steep:
    """Refuses a content that grows faster than ``max_ratio`` times what has been taken for it."""

    def __init__(self, content: Source, compressed: _Bounded, max_ratio: int) -> None:
        self._content = content
        self._compressed = compressed
        self._max_ratio = max_ratio
        self._given = 0

    def read(self, size: int, /) -> bytes:
        """Return some of the content."""
        piece = self._content.read(size)
        self._given += len(piece)
        allowed = max(RATIO_FREE_BYTES, self._max_ratio * self._compressed.taken)
        if self._given > allowed:
            raise too_large("max_compression_ratio", self._max_ratio)
        return piece


class _Expanded:
    """Reads the content of a gzip file."""

    def __init__(self, file: gzip.GzipFile) -> None:
        self._file = file

    def read(self, size: int, /) -> bytes:
        """Return some of the content.

        Raises
        ------
        UnreadableError
            The compressed data are damaged or cut short.
        """
        try:
            return self._file.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise UnreadableError("the gzip data are damaged or cut short") from None
