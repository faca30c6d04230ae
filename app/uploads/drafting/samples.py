"""The first rows of a file as a table, with how the file is written.

The delimiter, the decimal mark, the encoding and the title lines above the header are guessed, each
by which of a fixed list fits best. A Parquet file and an Excel workbook say all of this themselves.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO

import polars as pl

from app.domain.datasets import MAX_SKIPPED_ROWS
from app.uploads.encodings import likely_encoding
from app.uploads.parquet_file import scanned
from app.uploads.recognition import (
    DELIMITERS,
    GZIP,
    LOOKED_AT,
    PARQUET,
    is_workbook,
    recognised,
)
from app.uploads.trouble import Limits, UnreadableError
from app.uploads.workbook import workbook_frame

SAMPLE_BYTES = 1 << 20
"""So much of a text file a draft looks at."""
_SAMPLE_ROWS = 10_000
_MOST_LOOKED_AT = 200  # records that say where the header is, and what is between cells
_CODECS = {"utf-8": "utf-8-sig", "windows-1252": "cp1252", "iso-8859-1": "iso-8859-1"}
_MOST_CELL = 1 << 20


@dataclass(frozen=True, slots=True)
class Sample:
    """Some first rows of a file.

    ``rows`` has a column for each of the header's texts in ``header``, by their place. ``dialect``
    are members of a spec that say how the file is written, where it is not by default. ``whole``
    says whether these are all rows.
    """

    header: Sequence[str]
    rows: pl.DataFrame
    dialect: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = True
    notes: Sequence[str] = ()


def sample_of(stream: BinaryIO, limits: Limits | None = None) -> Sample:
    """Return the first rows of a file.

    Raises
    ------
    UnreadableError
        It is no table, or has no header.
    Problem
        ``too-large``: an Excel workbook above the limits.
    """
    start = stream.read(LOOKED_AT)
    packed = start.startswith(GZIP)
    if packed:
        stream.seek(0)
        start, whole = _unpacked(stream.read(SAMPLE_BYTES))
    if (kind := recognised(start)) is not None:
        raise UnreadableError(kind.sentence)
    if start.startswith(PARQUET) and not packed:
        return _of_frame(_parquet(stream))
    if is_workbook(start) and not packed:
        return _of_frame(workbook_frame(stream, limits, most_rows=_SAMPLE_ROWS))
    if packed:
        return _of_text(start, whole=whole)
    start += stream.read(SAMPLE_BYTES - len(start))
    return _of_text(start, whole=len(start) < SAMPLE_BYTES)


def _of_frame(frame: pl.DataFrame) -> Sample:
    numbered = frame.rename({name: str(place) for place, name in enumerate(frame.columns)})
    return Sample(frame.columns, numbered, whole=frame.height < _SAMPLE_ROWS)


def _parquet(stream: BinaryIO) -> pl.DataFrame:
    try:
        return scanned(stream).head(_SAMPLE_ROWS).collect()
    except (Exception, pl.exceptions.PanicException):
        raise UnreadableError("the file is no whole Parquet file") from None


def _unpacked(content: bytes) -> tuple[bytes, bool]:
    """Return the beginning of a gzip file's content, which may be cut short, and if it is all."""
    reader = zlib.decompressobj(31)
    try:
        return reader.decompress(content, SAMPLE_BYTES), reader.eof
    except zlib.error:
        raise UnreadableError("the file is no whole gzip file") from None


def _of_text(content: bytes, *, whole: bool) -> Sample:
    if not content.strip(b" \t\r\n\x00"):
        raise UnreadableError("the file is empty")
    encoding = likely_encoding(content) or "utf-8"
    text = _decoded(content, encoding)
    if not text.strip("\ufeff\ufffd \t\r\n"):
        raise UnreadableError("the file has no header")
    if "\x00" in text:
        raise UnreadableError("the file holds NUL bytes, which no text has: it is no table of text")
    delimiter, skipped = _shape(text)
    records = list(_records(_below(text, skipped), delimiter))
    if not whole and len(records) > 1:
        records.pop()  # it may be cut
    if not records or not any(each.isprintable() for each in "".join(records[0]).strip()):
        raise UnreadableError("the file has no header")
    header, rows = records[0], [row for row in records[1:] if len(row) == len(records[0])]
    dialect: dict[str, Any] = {}
    if encoding != "utf-8":
        dialect["encoding"] = encoding
    if skipped:
        dialect["skip_rows"] = skipped
    if delimiter != ",":
        dialect["delimiter"] = delimiter
    columns = {
        str(place): pl.Series([row[place] for row in rows], dtype=pl.String)
        for place in range(len(header))
    }
    return Sample(header, pl.DataFrame(columns), dialect, whole, [*_notes(header, rows, records)])


def _decoded(content: bytes, encoding: str) -> str:
    if encoding != "utf-16":
        return content.decode(_CODECS[encoding], "replace")
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    big = content[0::2].count(0) > content[1::2].count(0)
    return content.decode("utf-16-be" if big else "utf-16-le", "replace")


def _shape(text: str) -> tuple[str, int]:
    """Return what separates cells, and how many title lines there are above the header.

    It is what most records have in equal numbers: the more of them, and then the more columns.
    """
    best = (0.0, 1, ",", 0)
    for delimiter in DELIMITERS:
        some: list[tuple[int, int]] = []  # cells of a record, and the lines before it
        lines = 0
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            for record in reader:
                some.append((len(record), lines))
                lines = reader.line_num
                if len(some) == _MOST_LOOKED_AT:
                    break
        except csv.Error:
            continue
        filled = [(width, line) for width, line in some if width > 0]
        if not filled:
            continue
        # below a header there is at least one row, or nothing but the header
        body = [width for width, _ in filled[len(filled) // 2 :]]
        width, often = Counter(body).most_common(1)[0]
        if width == 1:
            continue
        first = next((line for each, line in filled if each == width), 0)
        found = (often / len(body), width, delimiter, first)
        if (round(found[0], 1), found[1]) > (round(best[0], 1), best[1]):
            best = found
    return best[2], best[3] if best[3] <= MAX_SKIPPED_ROWS else 0


def _below(text: str, lines: int) -> str:
    return text.split("\n", lines)[-1]


def _records(text: str, delimiter: str) -> Iterator[list[str]]:
    csv.field_size_limit(_MOST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        yield from (record for record in reader if record)
    except csv.Error:
        return


_LIKE_DATA = re.compile(r"[+-]?[\d.,]*\d|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}", re.ASCII)


def _notes(
    header: Sequence[str], rows: Sequence[Sequence[str]], records: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Yield what a person should look at in how the file is written."""
    if len(header) == 1 and rows:
        yield (
            "the file has one column; if it should have more, separate them with a comma, "
            "semicolon, tab or bar"
        )
    if any(_LIKE_DATA.fullmatch(name.strip()) for name in header):
        yield (
            "the first line holds a number or a date, so it may be a row: the file needs a line "
            "with the columns' names above its rows"
        )
    if other := len(records) - 1 - len(rows):
        yield (
            f"{other} of the first {len(records) - 1} records have another number of cells than "
            "the header has; the service refuses such a file"
        )
