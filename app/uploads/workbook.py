"""Excel workbooks (.xlsx): the first sheet as a table, and all sheets as rows, in bounded memory.

A workbook is a ZIP archive of XML, so a few bytes can declare gigabytes. Its members' sizes are
checked before any is unpacked, and no more is unpacked than they declare. XML with a document type,
and with it every entity, is refused before it is parsed. On a server it is read in the confined
process that reads uploads alone; the command line reads it on the user's machine.

A missing cell stays missing, and a whole number is a whole number though the format knows only
floats. A cell that holds an error is its text, such as ``#DIV/0!``, to be refused. Where the types
of a column's cells are mixed, it is a column of texts.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import date, datetime, time
from itertools import islice
from typing import IO, Any, BinaryIO
from xml.parsers import expat

import polars as pl

from app.domain.problems import Problem
from app.uploads.trouble import RATIO_FREE_BYTES, Limits, UnreadableError, too_large

DAMAGED = "the file is no whole Excel workbook (.xlsx): open it in Excel, and save it again"
HAS_TYPE = (
    "the Excel workbook holds XML with a document type (<!DOCTYPE ...>), which is not read: open "
    "it in Excel, and save it again"
)
FIRST_ROW = (
    "the first row of the Excel workbook's first sheet must name each column once; "
    "`skip_rows` says how many title rows are above it"
)
_BATCH_ROWS = 1 << 12
_BLOCK_BYTES = 1 << 12
_MOST_MEMBERS = 10_000
_EXACT = 2**53
"""Below it each whole number is a float of its own."""


def workbook_frame(
    file: BinaryIO,
    limits: Limits | None = None,
    *,
    skip_rows: int = 0,
    most_rows: int | None = None,
) -> pl.DataFrame:
    """Return the first sheet: below some title rows the header, and at most ``most_rows`` rows.

    Empty rows at the end are left out: they are only formatted.

    Raises
    ------
    UnreadableError
        It is no whole workbook, or its first row names no columns.
    Problem
        ``too-large``: more bytes, rows or columns than the limits allow.
    """
    limits = limits or Limits()
    batches: list[pl.DataFrame] = []
    rows = 0
    try:
        for names, cells in _batches(file, limits, skip_rows, most_rows):
            rows += len(cells)
            if rows > limits.max_upload_rows:
                raise too_large("max_upload_rows", limits.max_upload_rows)
            columns = list(zip(*cells, strict=True)) or [()] * len(names)
            batches.append(pl.DataFrame(list(map(_column, names, columns))))
    except (UnreadableError, MemoryError, Problem):
        raise
    except Exception:  # whatever the reader thinks of a file that is none
        raise UnreadableError(DAMAGED) from None
    joined = [_joined([each[name] for each in batches]) for name in batches[0].columns]
    return tidied(_without_empty_end(pl.DataFrame(joined)))


def _without_empty_end(frame: pl.DataFrame) -> pl.DataFrame:
    filled = frame.select(pl.any_horizontal(pl.all().is_not_null())).to_series().arg_true()
    return frame.head(filled[-1] + 1 if len(filled) else 0)


Sheets = Generator[tuple[str, Iterator[Sequence[Any]]], None, None]


def sheets_of(file: BinaryIO, limits: Limits) -> Sheets:
    """Yield the sheets by their names, each with its rows until the next one is asked for.

    A row is as wide as its last cell. Rows that are not in the file are empty ones: there may be
    many, so the caller counts.

    Raises
    ------
    UnreadableError
        It is no ZIP archive, or its XML has a document type.
    Problem
        ``too-large``: more bytes than the limits allow.
    Exception
        It is damaged: the reader raises all kinds.
    """
    import openpyxl  # noqa: PLC0415 - few files need it

    _check_members(file, limits)
    book = openpyxl.load_workbook(file, read_only=True, data_only=True, keep_links=False)
    try:
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # what it says of its size may be wrong
            yield str(sheet.title), sheet.iter_rows(values_only=True)
    finally:
        book.close()


def _check_members(file: BinaryIO, limits: Limits) -> None:
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_sizes(members, file.seek(0, 2), limits)
            for each in members:
                with archive.open(each) as part:
                    _check_prolog(part)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError, zlib.error):
        raise UnreadableError(DAMAGED) from None
    file.seek(0)


def _check_sizes(members: Sequence[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    content = sum(each.file_size for each in members)
    if content > limits.max_expanded_bytes:
        raise too_large("max_expanded_bytes", limits.max_expanded_bytes)
    if len(members) > _MOST_MEMBERS or content > max(
        RATIO_FREE_BYTES, limits.max_compression_ratio * size
    ):
        raise too_large("max_compression_ratio", limits.max_compression_ratio)


class _ContentError(Exception):
    """The first element of a document begins."""


def _check_prolog(part: IO[bytes]) -> None:
    """Refuse XML with a document type; it is above the first element, and no more is read."""

    def refuse(*_: object) -> None:
        raise UnreadableError(HAS_TYPE)

    def end(*_: object) -> None:
        raise _ContentError

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler, parser.StartElementHandler = refuse, end
    try:
        while block := part.read(_BLOCK_BYTES):
            parser.Parse(block)
    except (_ContentError, expat.ExpatError, LookupError):
        pass  # the content begins, or it is no XML: a picture, or damaged


def _batches(
    file: BinaryIO, limits: Limits, skip_rows: int, most_rows: int | None
) -> Iterator[tuple[list[str], list[Sequence[Any]]]]:
    """Yield the header with some rows at a time, one batch at least."""
    with closing(sheets_of(file, limits)) as sheets:
        _, rows = next(sheets)
        header = next(islice(rows, skip_rows, None), ())
        names = ["" if name is None else str(name) for name in header]
        while names and not names[-1]:  # columns that are only formatted
            names.pop()
        if not names or len(set(names)) < len(names):
            raise UnreadableError(FIRST_ROW)
        if len(names) > limits.max_file_columns:
            raise too_large("max_file_columns", limits.max_file_columns)
        width, left, first = len(names), most_rows, True
        while True:
            wanted = _BATCH_ROWS if left is None else min(_BATCH_ROWS, left)
            batch: list[Sequence[Any]] = []
            batch += ((*row, *(None,) * width)[:width] for row in islice(rows, wanted))
            if batch or first:
                yield names, batch
            first = False
            left = None if left is None else left - len(batch)
            if len(batch) < wanted or left == 0:
                return


def _column(name: str, cells: Sequence[Any]) -> pl.Series:
    """Return some cells of a column as one type; where types are mixed, as texts."""
    kinds = {type(cell) for cell in cells if cell is not None}
    if not kinds:
        return pl.Series(name, [None] * len(cells), dtype=pl.Null)
    if kinds <= {int, float}:
        return pl.Series(name, cells, dtype=pl.Float64, strict=False)
    if kinds <= {bool}:
        return pl.Series(name, cells, dtype=pl.Boolean)
    if kinds <= {date, datetime}:
        # Excel knows no zones, and a date is midnight: both are made one type.
        moments = [cell and datetime(*cell.timetuple()[:6]) for cell in cells]
        return pl.Series(name, moments, dtype=pl.Datetime("us"))
    texts = [None if cell is None else cell_text(cell) for cell in cells]
    return pl.Series(name, texts, dtype=pl.String)


def _joined(parts: Sequence[pl.Series]) -> pl.Series:
    """Return one column of parts that may have other types, which are texts then."""
    kinds = {part.dtype for part in parts if part.dtype != pl.Null}
    if len(kinds) <= 1:
        kind = next(iter(kinds), pl.String())
        return pl.concat([part.cast(kind) for part in parts])
    return pl.concat([_texts(part) for part in parts])


def _texts(part: pl.Series) -> pl.Series:
    if part.dtype in (pl.String, pl.Null):
        return part.cast(pl.String)
    return pl.Series(
        part.name, [None if cell is None else cell_text(cell) for cell in part], dtype=pl.String
    )


def cell_text(cell: object) -> str:
    """Return a cell as a text: a whole number without a point, a moment as in ISO 8601."""
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float) and cell.is_integer():
        # from 2^53 on it may stand for several ids, which the service refuses in this notation
        return str(int(cell)) if abs(cell) < _EXACT else f"{cell:.16e}"
    return cell.isoformat() if isinstance(cell, date | datetime | time) else str(cell)


def tidied(frame: pl.DataFrame) -> pl.DataFrame:
    """Return a table with whole numbers as such, and nothing where a float is no number."""

    def column(series: pl.Series) -> pl.Series:
        if not series.dtype.is_float():
            return series
        numbers = series.fill_nan(None)
        # Above it floats skip whole numbers, so that a whole one says nothing.
        whole = (numbers == numbers.round()) & (numbers.abs() < _EXACT)
        return numbers.cast(pl.Int64) if whole.all() else numbers

    return frame.with_columns([column(series) for series in frame.iter_columns()])
