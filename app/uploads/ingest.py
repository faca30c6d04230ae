"""An upload becomes blocks of values, in bounded memory.

The first bytes decide the format, never a name: gzip, Parquet, Excel, or else
CSV (the dialect of :mod:`app.uploads.csv_file`); what is none of these is refused by its name
(:mod:`app.uploads.recognition`). A fault is reported by
rows, columns and fixed words; no cell and no other program's message is
repeated anywhere.

**Privacy.** The outcome of an upload is seen by curators only, who may learn
counts and row numbers.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, BinaryIO, cast

import numpy as np

from app.domain.datasets import ColumnsSpec
from app.domain.upload_reports import UploadReport
from app.uploads.cells import RowEncoder
from app.uploads.csv_file import csv_blocks
from app.uploads.parquet_file import parquet_blocks, table_blocks
from app.uploads.people.wire import fields_of
from app.uploads.prf import Prf
from app.uploads.recognition import (
    GZIP,
    LOOKED_AT,
    PARQUET,
    Source,
    Transcoded,
    is_workbook,
    recognised,
)
from app.uploads.row_digests import RowDigester
from app.uploads.sources.feeding import FileOfMany
from app.uploads.sources.places import Layout
from app.uploads.trouble import (
    MORE_ROWS,
    RATIO_FREE_BYTES,
    Limits,
    Troubles,
    UnreadableError,
    too_large,
)
from app.uploads.workbook import workbook_frame
from mechanisms.domain import Values


def ingest(
    stream: BinaryIO,
    spec: ColumnsSpec,
    *,
    limits: Limits | None = None,
    report: UploadReport | None = None,
    digester: RowDigester | None = None,
    ids: Prf | None = None,
) -> Iterator[Mapping[str, Values]]:
    """Yield the declared columns of an upload as blocks of values, in stored order.

    Where the spec has a unit, they are the arrays of :mod:`app.uploads.people.wire`.

    Parameters
    ----------
    stream
        The uploaded file, at its start: CSV, gzip CSV, Parquet or Excel. For
        Parquet it must have a descriptor.
    spec
        The declared columns. Others in the file are seen by the digester alone.
    limits
        What the upload may cost; the defaults of :class:`Limits` otherwise.
    report
        Receives the counts of rows and cells; complete after the last block.
    digester
        Sees every row as it is in the file.
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
) -> Iterator[Mapping[str, Values]]:
    """Yield what :func:`ingest` would of one file that holds the rows of all, in their order.

    Their columns are the same: the file's, and those that its folders give. The first file
    with a fault is reported, and is the last one that is read; from there on blocks have no
    rows. ``layout`` reports, with each block, how far they have been read.
    """
    limits = limits or Limits()
    report = UploadReport() if report is None else report
    encoder = RowEncoder.of(spec, report, digester, ids)
    layout = layout or Layout()
    nothing = {name: np.zeros(0, field.dtype) for name, field in fields_of(spec).items()}
    rows = 0
    for file in files:
        troubles = Troubles()
        layout.begin(file.partitions)
        try:
            for block in _blocks(
                file, spec, layout=layout, encoder=encoder, limits=limits, troubles=troubles
            ):
                if block is None:  # what reads a channel must not think that this has stopped
                    yield nothing
                    continue
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
    if layout.points is not None:
        for name, count in layout.points.counts.items():
            report.columns[name].like_thousands = count


def _blocks(
    file: FileOfMany,
    spec: ColumnsSpec,
    *,
    layout: Layout,
    encoder: RowEncoder,
    limits: Limits,
    troubles: Troubles,
) -> Iterator[Mapping[str, Values] | None]:
    source = sent = _Bounded(file.stream, "max_upload_bytes", limits.max_upload_bytes)
    layout.place = lambda: sent.taken
    descriptor = file.stream.fileno() if file.by_ranges else None
    packed = source.peek(len(GZIP)) == GZIP
    if packed:
        # gzip is read from its beginning alone
        source, descriptor = _expanded(source, limits), None
    start = source.peek(LOOKED_AT)
    if (kind := recognised(start)) is not None:
        raise UnreadableError(kind.sentence)
    tabular = "Parquet" if start.startswith(PARQUET) else "Excel" if is_workbook(start) else None
    if packed and tabular is not None:
        raise UnreadableError(f"the file is {tabular} inside gzip; send the {tabular} file itself")
    if tabular == "Parquet":
        return parquet_blocks(
            file.stream, spec, layout=layout, encoder=encoder, limits=limits, troubles=troubles
        )
    if tabular == "Excel":
        return _sheet_blocks(
            file.stream, spec, layout=layout, encoder=encoder, limits=limits, troubles=troubles
        )
    text: Source = source
    if spec.text.encoding != "utf-8":
        # what is read is no longer the file, so it is not read by ranges of bytes
        text, descriptor = Transcoded(source, spec.text.encoding), None
    return csv_blocks(
        text,
        spec,
        file=descriptor,
        layout=layout,
        encoder=encoder,
        limits=limits,
        troubles=troubles,
    )


def _sheet_blocks(
    file: BinaryIO, spec: ColumnsSpec, *, limits: Limits, **how: Any
) -> Iterator[Mapping[str, Values] | None]:
    """Yield the declared columns of an Excel workbook's first sheet as blocks of codes."""
    size = file.seek(0, os.SEEK_END)
    if size > limits.max_upload_bytes:
        raise too_large("max_upload_bytes", limits.max_upload_bytes)
    frame = workbook_frame(file, limits, skip_rows=spec.text.skip_rows)
    yield from table_blocks(
        frame.lazy(), frame.schema, spec, size=size, limits=limits, kind="excel", **how
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
