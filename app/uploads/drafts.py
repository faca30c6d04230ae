"""A spec to fill in, from the header of a file and from nothing else.

Types come from a Parquet file's own, else from names: ``is_`` and ``has_`` begin what is true or
false, ``date`` is in the name of a date. A unit in brackets behind a name is a unit of measure.
What no header tells stays empty, for a person to fill in from public knowledge.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import polars as pl

from app.domain.columns import MAX_NAME_LENGTH, is_text
from app.uploads.csv_records import Records
from app.uploads.ingest import GZIP
from app.uploads.limits import Limits
from app.uploads.parquet_file import MAGIC, MAX_FOOTER_BYTES
from app.uploads.trouble import UnreadableError

_DELIMITERS = (",", ";", "\t", "|")
_UNIT = re.compile(r"(?P<label>.*\S)\s*[\[(](?P<unit>[^\])]+)[\])]\s*")
_TRUTH = re.compile(r"(is|has)[_ ].+", re.IGNORECASE)
_DATE = re.compile(r"(.*[_ ])?(date|day|dob|birth|born|birthday)([_ ].*)?", re.IGNORECASE)
_MOMENT = re.compile(r"(.*[_ ])?(datetime|timestamp)|.+[_ ]at", re.IGNORECASE)
_ID = re.compile(r"(.*[_ ])?id", re.IGNORECASE)
_COUNTED = {"#", "count", "n", "number"}
_BOUNDS: Mapping[str, Any] = {"lower": None, "upper": None}
_TYPES: Mapping[str, Callable[[pl.DataType], bool]] = {
    "boolean": lambda kind: kind == pl.Boolean,
    "date": lambda kind: kind == pl.Date,
    "datetime": lambda kind: kind == pl.Datetime,
    "integer": lambda kind: kind.is_integer(),
    "number": lambda kind: kind.is_numeric(),
}


@dataclass(frozen=True, slots=True)
class Draft:
    """A spec with empty places, and notes about columns that are not in it."""

    spec: Mapping[str, Any]
    notes: Sequence[str]


def header_of(stream: BinaryIO) -> bytes:
    """Return the bytes of a file that tell its columns: no row is in them.

    A CSV file's are its first line, a Parquet file's its magic words and its footer.

    Raises
    ------
    UnreadableError
        There are none.
    """
    start = stream.read(len(MAGIC))
    if start == MAGIC:
        return _footer(stream)
    stream.seek(0)
    content: Any = gzip.open(stream) if start.startswith(GZIP) else stream  # noqa: SIM115
    try:
        return _first_line(content.read(Limits().max_record_bytes))
    except (OSError, EOFError, zlib.error):
        raise UnreadableError("the file is no whole gzip file") from None


def _first_line(content: bytes) -> bytes:
    """Return what comes before the first line end that no quotes enclose."""
    start, end, quotes = 0, content.find(b"\n"), 0
    while end >= 0:
        quotes += content.count(b'"', start, end)
        if quotes % 2 == 0:
            break
        start, end = end, content.find(b"\n", end + 1)
    return content if end < 0 else content[: end + 1]


def _footer(stream: BinaryIO) -> bytes:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(0, size - 8))
    tail = stream.read(8)
    length = int.from_bytes(tail[:4], "little")
    if tail[4:] != MAGIC or length > min(size - 12, MAX_FOOTER_BYTES):
        raise UnreadableError("the file is no whole Parquet file")
    stream.seek(size - 8 - length)
    # To a reader of the schema that is a whole file: it jumps to the footer.
    return MAGIC + stream.read(length + 8)


def drafted(header: bytes, *, name: str) -> Draft:
    """Return the draft that the bytes of :func:`header_of` make.

    Raises
    ------
    UnreadableError
        The header cannot be read.
    """
    delimiter, kinds = _columns(header)
    columns: dict[str, Any] = {}
    notes = []
    for column, kind in kinds:
        if not is_text(column, MAX_NAME_LENGTH):
            notes.append("a column is left out: its name is empty, too long or not printable")
        elif _ID.fullmatch(column):
            notes.append(
                f"{column} is left out, since its name is that of an id; name it in `unit` if a "
                "person may have several rows"
            )
        elif column in columns:
            notes.append(f"{column} is in the file twice, and must be renamed to be declared")
        else:
            columns[column] = _drafted(column, kind)
    spec: dict[str, Any] = {"name": name, "description": "", "adjacency": None}
    if delimiter != ",":
        spec["delimiter"] = delimiter
    return Draft(spec | {"columns": columns, "budget": {"epsilon": None}}, notes)


def _columns(header: bytes) -> tuple[str, list[tuple[str, pl.DataType | None]]]:
    """Return what stands between cells, and the columns with their types as far as told."""
    if header.startswith(MAGIC):
        try:
            return ",", list(pl.read_parquet_schema(io.BytesIO(header)).items())
        except Exception:
            raise UnreadableError("the file is no whole Parquet file") from None
    headers: dict[str, list[str]] = {}
    faults: list[UnreadableError] = []
    for delimiter in _DELIMITERS:
        try:
            headers[delimiter] = _names(header, delimiter)
        except UnreadableError as error:  # names in quotes are none between other delimiters
            faults.append(error)
    if not headers:
        raise faults[0]
    delimiter = max(headers, key=lambda each: len(headers[each]))
    return delimiter, [(name, None) for name in headers[delimiter]]


def _names(header: bytes, delimiter: str) -> list[str]:
    most = Limits().max_record_bytes
    records = Records(
        io.BytesIO(header), chunk_bytes=1 << 16, max_record_bytes=most, delimiter=delimiter
    )
    return records.header()


def _drafted(name: str, kind: pl.DataType | None) -> dict[str, Any]:
    found = _UNIT.fullmatch(name)
    unit = None if found is None else found["unit"].strip()
    told = _type(name if found is None else found["label"], kind, unit)
    body: dict[str, Any] = {"type": told, **dict(_empty(told))}
    if found is not None:
        body["label"] = found["label"]
        if told in ("number", "integer"):
            body["unit_of_measure"] = unit
    return body


def _empty(kind: str) -> Iterator[tuple[str, Any]]:
    """Yield the places of a column that a person must fill."""
    if kind == "category":
        yield "values", []
    elif kind != "boolean":
        yield from _BOUNDS.items()


def _type(name: str, kind: pl.DataType | None, unit: str | None) -> str:
    if kind is not None:
        return next((told for told, fits in _TYPES.items() if fits(kind)), "category")
    if _TRUTH.fullmatch(name):
        return "boolean"
    if _DATE.fullmatch(name):
        return "date"
    if _MOMENT.fullmatch(name):
        return "datetime"
    return "integer" if unit is not None and unit.lower() in _COUNTED else "number"
